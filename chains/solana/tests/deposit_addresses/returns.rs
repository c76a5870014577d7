//! What was not deposited comes back: by the gateway, by strangers, and however it is hidden.

use std::slice::from_ref;

use anyhow::{Context, Result, bail, ensure};

use chains_solana::{auditor::check_prepared, deposit_addresses, keys::account, program::text};
use events::event::EscrowRefunded;
use gateway_program::{
    Key,
    host::{self, Instruction},
    ids,
};
use sagas::ports::{AddressState, Chains, OwnReturn, TransactionState};

use super::RENT;
use crate::support::{
    CAP, TOKENS, World,
    addressed::{Addressed, amount, meta, public, reason, token_account},
    until, wallet,
};

/// So many transactions that name the token account are looked at.
const LOOKS: usize = 64;
/// Places among the accounts of a return.
const FROM: usize = 3;
const TO: usize = 4;

/// What came back after slot `since`, as the finalized state has it.
pub(crate) async fn came_back(world: &World, paid: &Addressed, since: Option<u64>) -> Result<EscrowRefunded> {
    let (chain, deposit) = (world.chain(), paid.deposit());
    let is_back = |state: &AddressState| matches!(state, AddressState::GivenBack(_));
    match until(|| chain.address_state(&deposit, since), is_back).await? {
        AddressState::GivenBack(refunded) => Ok(refunded),
        other => bail!("{other:?}"),
    }
}

/// Where so much is there past the end of the deposit, a slot in which it is, and that is over: the runtime tells of the state of its newest
/// one, too.
pub(super) async fn held(world: &World, paid: &Addressed, units: u64) -> Result<u64> {
    let (chain, deposit, node) = (world.chain(), paid.deposit(), world.node());
    let is_there =
        |state: &AddressState| matches!(state, AddressState::Held { amount: held, .. } if *held == amount(units));
    match until(|| chain.address_state(&deposit, None), is_there).await? {
        AddressState::Held { block_number, .. } => {
            until(|| node.head(), |head| *head > block_number).await?;
            Ok(block_number)
        }
        other => bail!("{other:?}"),
    }
}

/// A world where all that was asked for is at an address past the end of the deposit, and a slot in which it is.
async fn late() -> Result<(World, Addressed, u64)> {
    let world = World::start().await?;
    let paid = world.addressed().await?;
    world.send_to(&paid, CAP).await?;
    world.pass(&paid).await?;
    let since = held(&world, &paid, CAP).await?;
    Ok((world, paid, since))
}

#[tokio::test]
async fn what_was_not_deposited_goes_back_by_the_gateway() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let [paid, nothing, little, least] =
        [world.addressed().await?, world.addressed().await?, world.addressed().await?, world.addressed().await?];
    let deposit = paid.deposit();
    for (addressed, units) in [(&paid, CAP), (&little, CAP / 100 - 1), (&least, CAP / 100)] {
        world.send_to(addressed, units).await?;
    }
    assert_eq!(until(|| chain.address_state(&deposit, None), |_| true).await?, AddressState::Open);
    let early = reason(chain.prepare_give_back(&deposit, 1).await)?;
    assert!(early.starts_with("GiveBackTooEarly"), "{early}");

    let AddressState::Held { amount: there, block_number } = world.pass(&least).await? else {
        bail!("nothing is held")
    };
    assert_eq!(there, amount(CAP / 100), "a hundredth is worth a transaction");
    assert!(block_number >= least.given.from_block);
    for worthless in [&nothing, &little] {
        assert_eq!(chain.address_state(&worthless.deposit(), None).await?, AddressState::Empty);
    }
    let since = held(&world, &paid, CAP).await?;
    let late = reason(chain.prepare_larger_deposit(&paid.order, amount(CAP), 1).await)?;
    assert!(late.starts_with("ReserveWindowClosed"), "{late}");

    let prepared = chain.prepare_give_back(&deposit, 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    let versions = from_ref(&prepared);
    assert_eq!(chain.given_back_by(&deposit, &[]).await?, OwnReturn::NotLanded);
    assert_eq!(chain.given_back_by(&deposit, versions).await?, OwnReturn::NotLanded, "it was not sent");
    let lamports = world.dev.lamports(prepared.sender.as_str()).await?;
    chain.broadcast(&prepared).await?;
    chain.broadcast(&prepared).await?;
    let has_landed = |state: &OwnReturn| *state != OwnReturn::NotLanded;
    let OwnReturn::Returned(refunded) = until(|| chain.given_back_by(&deposit, versions), has_landed).await? else {
        bail!("it gave nothing back")
    };
    assert_eq!((&refunded.inclusion.transaction_hash, refunded.amount), (&prepared.transaction_hash, amount(CAP)));
    let EscrowRefunded { inclusion, claims, .. } = &refunded;
    assert!(
        inclusion.block_number > since && inclusion.block_time > paid.order.escrow.reserve_deadline,
        "{refunded:?}"
    );
    assert_eq!((&inclusion.chain_id, claims.as_slice()), (&paid.order.escrow.chain_id, &[][..]));
    assert_eq!(came_back(&world, &paid, Some(since)).await?, refunded);
    assert_eq!(came_back(&world, &paid, None).await?, refunded, "nothing is there, so it is looked for");
    assert_eq!(chain.transaction_state(versions).await?, TransactionState::Pending, "it has landed");
    assert_eq!(world.tokens(&world.payer).await?, TOKENS + CAP);
    let gained = world.dev.lamports(prepared.sender.as_str()).await?.saturating_sub(lamports);
    assert!((RENT - 50_000..RENT).contains(&gained), "{gained} of the token account's rent came in");
    let again = reason(chain.prepare_give_back(&deposit, 2).await)?;
    assert!(again.starts_with("NothingToGiveBack"), "{again}");
    // The others' money is where it was.
    assert_eq!(world.held_at(&least).await?, CAP / 100);
    let of_another = chain.given_back_by(&least.deposit(), versions).await?;
    assert!(matches!(of_another, OwnReturn::Nothing { .. }), "{of_another:?}");
    Ok(())
}

#[tokio::test]
async fn a_strangers_return_is_found_between_returns_of_dust() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let (paid, other) = (world.addressed().await?, world.addressed().await?);
    let deposit = paid.deposit();
    world.send_to(&other, CAP).await?;
    world.pass(&other).await?;
    // Who closes an empty account gives nothing back.
    let mint = paid.terms().mint;
    let create = host::create_associated_token(public(&world.settler), &paid.at(), &mint, &ids::TOKEN_PROGRAM);
    let (_, slot) = world.send(&[create, paid.give_back(&world.settler)]).await?;
    assert_eq!(world.dev.lamports(&text(&paid.tokens())).await?, 0);
    world.finalized(slot).await?;
    assert_eq!(chain.address_state(&deposit, None).await?, AddressState::Empty);
    // Nor who gives back what is at another address, and names this one.
    let (_, slot) = world.send(&[other.give_back(&world.settler), naming(&world, &paid, 1)]).await?;
    world.finalized(slot).await?;
    assert_eq!(chain.address_state(&deposit, Some(slot - 1)).await?, AddressState::Empty);

    // Nor who gives back what lies in another token account of the address, where nobody waits for it.
    let mut elsewhere = paid.give_back(&world.settler);
    elsewhere.accounts[FROM].key = world.hand_over(&paid, CAP).await?;
    let (_, slot) = world.send(&[elsewhere, naming(&world, &paid, 2)]).await?;
    world.finalized(slot).await?;
    assert_eq!(chain.address_state(&deposit, Some(slot - 1)).await?, AddressState::Empty);

    world.send_to(&paid, 1).await?;
    let (first, _) = world.give_back(&paid).await?;
    let dust = came_back(&world, &paid, None).await?;
    assert_eq!((&dust.inclusion.transaction_hash, dust.amount), (&first, amount(1)));
    world.send_to(&paid, CAP + 1).await?;
    let since = held(&world, &paid, CAP + 1).await?;
    let (by_stranger, slot) = world.give_back(&paid).await?;
    for _ in 0..2 {
        world.send_to(&paid, 1).await?;
        world.give_back(&paid).await?;
    }
    let refunded = came_back(&world, &paid, Some(since)).await?;
    assert_eq!((&refunded.inclusion.transaction_hash, refunded.amount), (&by_stranger, amount(CAP + 1)));
    assert_eq!(refunded.inclusion.block_number, slot);
    // What comes later hides nothing, little or much.
    for (units, since_unknown) in [(CAP / 100 - 1, Some(&dust)), (CAP, None)] {
        world.send_to(&paid, units).await?;
        let there = world.held_at(&paid).await?;
        let is_settled = |state: &AddressState| match since_unknown {
            Some(dust) => *state == AddressState::GivenBack(dust.clone()),
            None => matches!(state, AddressState::Held { amount: held, .. } if *held == amount(there)),
        };
        until(|| chain.address_state(&deposit, None), is_settled).await?;
        assert_eq!(came_back(&world, &paid, Some(since)).await?, refunded);
    }
    assert_eq!(world.tokens(&world.payer).await?, TOKENS + 2 * CAP + CAP + 1 + 3);
    Ok(())
}

/// A transfer of the settler's to itself that names the token accounts of the address and of the payer.
fn naming(world: &World, paid: &Addressed, lamports: u64) -> Instruction {
    const TRANSFER: u32 = 2;
    let own: Key = public(&world.settler);
    let named = [paid.tokens(), token_account(&paid.token, &public(&world.payer))];
    let mut accounts = vec![meta(own, true, true), meta(own, false, true)];
    accounts.extend(named.map(|account| meta(account, false, false)));
    let data = [&TRANSFER.to_le_bytes()[..], &lamports.to_le_bytes()].concat();
    Instruction { program_id: ids::SYSTEM_PROGRAM, accounts, data }
}

/// Sends so many transactions that name the token account, and as many returns of it as `failed` that fail. They are finalized.
async fn bury(world: &World, paid: &Addressed, named: usize, failed: usize) -> Result<()> {
    // To whom it does not belong.
    let mut return_to_stranger = paid.give_back(&world.settler);
    return_to_stranger.accounts[TO].key = token_account(&paid.token, &public(&world.settler));
    let numbered = |number: usize| u64::try_from(1 + number).map(|lamports| naming(world, paid, lamports));
    let mut all = Vec::new();
    for number in 0..named + failed {
        let mut instructions = vec![numbered(number)?];
        if number >= named {
            instructions.push(return_to_stranger.clone());
        }
        all.push(instructions);
    }
    let sent = world.send_all(&all).await?;
    let last = sent.iter().map(|(_, slot)| *slot).max().context("nothing was sent")?;
    world.finalized(last).await
}

#[tokio::test]
async fn a_return_is_found_among_as_many_as_are_looked_at_and_the_gateways_own_always() -> Result<()> {
    /// Transactions before the return that did not fail, and so many that failed.
    const BEFORE: usize = 33;
    const FAILED: usize = 5;
    let (world, paid, since) = late().await?;
    let (chain, deposit) = (world.chain(), paid.deposit());
    bury(&world, &paid, BEFORE, FAILED).await?;
    ensure!(world.held_at(&paid).await? == CAP, "a return that was to fail did not");
    let prepared = chain.prepare_give_back(&deposit, 1).await?;
    chain.broadcast(&prepared).await?;
    let refunded = came_back(&world, &paid, Some(since)).await?;
    assert_eq!((&refunded.inclusion.transaction_hash, refunded.amount), (&prepared.transaction_hash, amount(CAP)));

    // With the return they are as many as are looked at. Those that failed do not count.
    bury(&world, &paid, LOOKS - 1 - BEFORE, FAILED).await?;
    assert_eq!(chain.address_state(&deposit, Some(since)).await?, AddressState::GivenBack(refunded.clone()));
    // One more is left out in the middle: of those before the return.
    bury(&world, &paid, 1, 0).await?;
    assert_eq!(chain.address_state(&deposit, Some(since)).await?, AddressState::GivenBack(refunded.clone()));
    // A stranger's would be hidden now; whoever knows the transaction finds it still.
    bury(&world, &paid, 1, 0).await?;
    assert_eq!(chain.address_state(&deposit, Some(since)).await?, AddressState::Empty);
    assert_eq!(chain.given_back_by(&deposit, from_ref(&prepared)).await?, OwnReturn::Returned(refunded.clone()));
    // What was looked at before the money was there is not looked at again.
    let just_before = refunded.inclusion.block_number - 1;
    assert_eq!(chain.address_state(&deposit, Some(just_before)).await?, AddressState::GivenBack(refunded));
    Ok(())
}

/// A stranger who leaves the emptied account open lets the gateway's own return land, which closes it and moves nothing.
#[tokio::test]
async fn a_return_of_the_gateways_that_found_nothing_more_says_so() -> Result<()> {
    let (world, paid, since) = late().await?;
    let (chain, deposit) = (world.chain(), paid.deposit());
    let prepared = chain.prepare_give_back(&deposit, 1).await?;
    let mut left_open = paid.give_back(&world.settler);
    *left_open.data.last_mut().context("an instruction without data")? = 0;
    let (by_stranger, _) = world.send(&[left_open]).await?;
    world.confirmed().await?;
    let late = reason(chain.prepare_give_back(&deposit, 2).await)?;
    assert!(late.starts_with("NothingToGiveBack"), "{late}");
    chain.broadcast(&prepared).await?;
    let has_landed = |state: &OwnReturn| *state != OwnReturn::NotLanded;
    let own = until(|| chain.given_back_by(&deposit, from_ref(&prepared)), has_landed).await?;
    assert!(
        matches!(&own, OwnReturn::Nothing { evidence } if evidence.contains(&prepared.transaction_hash)),
        "{own:?}"
    );
    let refunded = came_back(&world, &paid, Some(since)).await?;
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (by_stranger, amount(CAP)));
    Ok(())
}

#[tokio::test]
async fn a_refund_account_that_takes_nothing_holds_up_its_own_money_until_it_does() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let token = world.freezable_token().await?;
    let (closed, frozen) = (world.addressed().await?, world.addressed_of(&token).await?);
    for addressed in [&closed, &frozen] {
        world.send_to(addressed, CAP).await?;
    }
    world.pass(&frozen).await?;
    let since = held(&world, &closed, CAP).await?;
    world.dev.close(&world.token, &world.payer).await?;
    world.confirmed().await?;
    let payers = |addressed: &Addressed| text(&token_account(&addressed.token, &public(&world.payer)));
    let waits = reason(chain.prepare_give_back(&closed.deposit(), 1).await)?;
    let says = format!("{} has no token account {}", wallet(&world.payer), payers(&closed));
    assert!(waits.starts_with(&says), "{waits}, not {says}");
    let refused = deposit_addresses::unfit(&world.node(), &closed.order.terms.source).await?;
    assert!(refused.is_some_and(|reason| reason.to_string().contains(&payers(&closed))));
    let state = chain.address_state(&closed.deposit(), Some(since)).await?;
    assert!(matches!(state, AddressState::Held { amount: held, .. } if held == amount(CAP)), "{state:?}");
    // Whoever makes it has the money go there.
    world.dev.mint(&world.token, &account(&world.payer), 5).await?;
    world.confirmed().await?;
    let prepared = chain.prepare_give_back(&closed.deposit(), 2).await?;
    chain.broadcast(&prepared).await?;
    let refunded = came_back(&world, &closed, Some(since)).await?;
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (prepared.transaction_hash, amount(CAP)));
    assert_eq!(world.tokens(&world.payer).await?, 5 + CAP);

    // What is frozen is there, at the address or where it would go, and does not move.
    let (since, deposit) = (held(&world, &frozen, CAP).await?, frozen.deposit());
    for account in [frozen.tokens(), token_account(&token, &public(&world.payer))] {
        world.freeze(&token, account).await?;
        world.confirmed().await?;
        let waits = reason(chain.prepare_give_back(&frozen.deposit(), 1).await)?;
        assert!(waits.contains("TokenAccountInvalid") || waits.contains("frozen"), "{waits}");
        // The order to freeze names the token account: it is looked at, too, once it is final.
        let state = until(|| chain.address_state(&deposit, Some(since)), |_| true).await?;
        assert!(matches!(state, AddressState::Held { amount: held, .. } if held == amount(CAP)), "{state:?}");
        world.thaw(&token, account).await?;
    }
    // Whose account is frozen names another by signing, and that is a return as well.
    world.freeze(&token, token_account(&token, &public(&world.payer))).await?;
    let (elsewhere, had) = (
        token_account(&token, &public(&world.settler)),
        world.dev.token_balance(&token, &account(&world.settler)).await?,
    );
    let signed = host::given_back_to(frozen.give_back(&world.settler), elsewhere);
    let (hash, _) = world.send(&[signed]).await?;
    let refunded = came_back(&world, &frozen, Some(since)).await?;
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (hash, amount(CAP)));
    assert_eq!(world.dev.token_balance(&token, &account(&world.settler)).await?, had + CAP);
    Ok(())
}
