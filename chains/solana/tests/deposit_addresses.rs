//! Deposit addresses through the engine's port: what counts as having come, how it is deposited, and whom an address is given.

mod lies;
mod returns;

use std::slice::from_ref;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use chains_solana::{
    auditor::check_prepared,
    deposit_addresses,
    dev::{DevToken, TokenProgram},
    escrows::Escrows,
    keys::account,
    node::{Commitment, Node},
    program::{parse_key, text},
};
use events::{Account, Hash32, OwnedAsset, event::DepositAddress, time::unix_seconds};
use gateway_program::{Key, host::Instruction, ids, log::GIVE_BACK_SAID};
use sagas::ports::{
    AddressState, Chains, DepositOrder, DepositState, EscrowState, ReassignmentState, Reservation, Waiting,
};

pub(super) use self::returns::came_back;
use self::returns::held;
use crate::{
    evm_support::{liar::Liar, reassignment::reassignment, release},
    support::{
        CAP, PRICE, TOKENS, World,
        addressed::{Addressed, amount, meta, program_of, public, reason, token_account},
        key, settle, until, wallet,
    },
};

/// Lamports that a token account holds to live for ever.
const RENT: u64 = 2_039_280;

/// Changes the accounts of an address in the answers to who asks for them with `commitment`.
fn on_accounts(liar: &Liar, commitment: &'static str, mut change: impl FnMut(&mut Value) + Send + 'static) {
    /// Mint, token accounts in two programs, and the clock.
    const ASKED: usize = 4;
    liar.tell(move |request, mut truth| {
        let is_asked = request["method"] == "getMultipleAccounts"
            && request["params"][0].as_array().is_some_and(|names| names.len() == ASKED)
            && request["params"][1]["commitment"] == commitment;
        if is_asked {
            change(&mut truth["result"]["value"]);
        }
        truth
    });
}

fn hide(accounts: &mut Value) {
    for place in [1, 2] {
        accounts[place] = Value::Null;
    }
}

#[tokio::test]
async fn what_is_confirmed_and_not_frozen_has_come() -> Result<()> {
    let world = World::start().await?;
    let token = world.freezable_token().await?;
    let paid = world.addressed_of(&token).await?;
    let (chain, deposit) = (world.chain(), paid.deposit());
    assert_eq!(chain.address_funds(&deposit).await?.amount, None);
    // Lamports at the address of its token account are no tokens, and in nobody's way.
    world.surfnet.airdrop(&text(&paid.tokens()), 1_000_000).await?;
    assert_eq!(chain.address_funds(&deposit).await?.amount, None);
    // Nor is what lies in another token account that it owns.
    world.hand_over(&paid, CAP).await?;
    assert_eq!(chain.address_funds(&deposit).await?.amount, None);
    let before = world.time().await?;
    world.send_to(&paid, CAP - 1).await?;
    let (_, slot) = world.send_to(&paid, 3).await?;
    let funds = chain.address_funds(&deposit).await?;
    assert_eq!(funds.amount, Some(amount(CAP + 2)));
    assert!(funds.block_number >= slot && funds.block_time >= before, "{funds:?} is older than slot {slot}");

    // It is not waited for what is confirmed to be finalized, and nothing less counts.
    let liar = Liar::before(&world.surfnet.url()).await?;
    let seen = world.chain_at(&liar.url);
    on_accounts(&liar, "finalized", hide);
    assert_eq!(seen.address_funds(&deposit).await?.amount, Some(amount(CAP + 2)));
    on_accounts(&liar, "confirmed", hide);
    assert_eq!(seen.address_funds(&deposit).await?.amount, None);

    world.freeze(&token, paid.tokens()).await?;
    until(|| chain.address_funds(&deposit), |funds| funds.amount.is_none()).await?;
    let refused = reason(chain.prepare_larger_deposit(&paid.order, amount(CAP), 1).await)?;
    assert!(refused.contains("has frozen what is at the deposit address"), "{refused}");
    world.thaw(&token, paid.tokens()).await?;
    until(|| chain.address_funds(&deposit), |funds| funds.amount == Some(amount(CAP + 2))).await?;
    Ok(())
}

/// Releases the deposit by the releaser's word; the inclusion.
async fn released(world: &World, order: &DepositOrder) -> Result<()> {
    let chain = world.chain();
    let word = world.attest(&world.statement(order));
    chain.broadcast(&chain.prepare_release(&release::order(order, word), 1).await?).await?;
    let is_over = |state: &EscrowState| !matches!(state, EscrowState::Held);
    let state = until(|| chain.escrow_state(&order.payment_id, &order.escrow), is_over).await?;
    let EscrowState::Released(end) = state else { bail!("{state:?}") };
    assert_eq!(chain.claims(&order.payment_id, &order.escrow, &end).await?, []);
    Ok(())
}

#[tokio::test]
async fn all_that_came_is_deposited_and_reserved_in_one_transaction_and_what_is_over_goes_back() -> Result<()> {
    const ALL: u64 = CAP + 5;
    let world = World::start().await?;
    let chain = world.chain();
    let paid = world.addressed().await?;
    let Addressed { order, .. } = &paid;
    world.send_to(&paid, ALL).await?;
    let prepared = chain.prepare_larger_deposit(order, amount(ALL), 1).await?;
    assert_eq!(check_prepared(&prepared), Ok(()));
    let versions = from_ref(&prepared);
    assert_eq!(chain.deposit_mined(order, versions).await?, None);
    assert_eq!(chain.deposit_state(order, versions).await?, DepositState::Pending, "it was not sent");
    chain.broadcast(&prepared).await?;
    let mined = until(|| chain.deposit_mined(order, versions), Option::is_some).await?;
    let DepositState::Secured(secured) = settle(&chain, order, versions).await? else { bail!("it is not in escrow") };
    assert_eq!(mined.as_ref(), Some(&secured.inclusion));
    assert_eq!(secured.inclusion.transaction_hash, prepared.transaction_hash);
    assert_eq!((secured.amount, &secured.deposit), (amount(ALL), &None));
    assert_eq!(world.dev.lamports(&text(&paid.tokens())).await?, 0, "its rent is the submitter's");
    assert_eq!(chain.escrow_state(&order.payment_id, &order.escrow).await?, EscrowState::Held);
    let node = world.node();
    let program = parse_key(&world.program)?;
    let read = Escrows::of(&node).record(&order.payment_id, &program, Commitment::Finalized, 0).await?;
    let record = read.record.context("no record")?;
    assert_eq!((record.deposited, record.source_amount), (ALL, PRICE));

    // Who was not there finds it, and under this quote alone.
    let other = world.chain();
    assert_eq!(other.deposit_secured(order).await?, Some(secured.clone()));
    let found = other.escrow_found(&paid.deposit()).await?.context("nothing is found")?;
    assert_eq!((found.inclusion, found.amount), (secured.inclusion, amount(ALL)));
    assert_eq!(found.reserved_for, Some(order.reservation.quote_hash));
    let reservation = Reservation { quote_hash: Hash32([8; 32]), ..order.reservation.clone() };
    let elsewhere = DepositOrder { reservation, ..order.clone() };
    assert_eq!(other.deposit_secured(&elsewhere).await?, None);
    let refused = reason(chain.prepare_larger_deposit(order, amount(ALL), 2).await)?;
    assert!(refused.starts_with("PaymentIdUsed"), "{refused}");

    // Beside the escrow there is no other deposit: what comes now goes back by whomever, and the escrow keeps its money.
    world.send_to(&paid, 3).await?;
    world.give_back(&paid).await?;
    assert_eq!(world.tokens(&world.payer).await?, TOKENS + 3);
    released(&world, order).await?;
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - ALL - 3 + PRICE);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS + 3 + ALL - PRICE, "along with the release");
    Ok(())
}

/// Escrows that money of an address went into are reassigned as others are, though they hold more than either quote asks for.
#[tokio::test]
async fn a_settler_that_does_not_deliver_is_followed_by_another() -> Result<()> {
    const ALL: u64 = CAP + 5;
    let world = World::start().await?;
    let chain = world.chain();
    let mut paid = world.addressed().await?;
    paid.order.reservation.fulfill_by = paid.order.escrow.reserve_deadline;
    world.send_to(&paid, ALL).await?;
    let secured = world.deposited(&paid, ALL).await?;
    let order = &paid.order;
    world.surfnet.travel_to(order.reservation.fulfill_by + 1).await?;
    // The next settler may ask for all that was deposited, which is more than the address was for.
    let next = Reservation {
        quote_hash: Hash32([10; 32]),
        source_amount: amount(CAP + 3),
        fulfill_by: order.escrow.fulfillment_deadline,
        ..order.reservation.clone()
    };
    let followed = DepositOrder { reservation: next.clone(), ..order.clone() };
    let reassignment = reassignment(order, &followed, ALL, world.attest(&world.non_delivery(order)));
    chain.broadcast(&chain.prepare_reassignment(&reassignment, 1).await?).await?;
    let is_over = |state: &ReassignmentState| *state != ReassignmentState::Open;
    let state = until(|| chain.reassignment_state(&reassignment), is_over).await?;
    assert!(matches!(state, ReassignmentState::Reassigned(_)), "{state:?}");

    // The deposit is what it was, and who was not there finds it with the quote that it is for now.
    assert_eq!(chain.deposit_secured(order).await?, Some(secured.clone()));
    let found = world.chain().escrow_found(&paid.deposit()).await?.context("nothing is found")?;
    assert_eq!((found.inclusion, found.amount), (secured.inclusion, amount(ALL)));
    assert_eq!(found.reserved_for, Some(next.quote_hash));
    released(&world, &followed).await?;
    assert_eq!(world.tokens(&world.settler).await?, TOKENS - ALL + CAP + 3);
    assert_eq!(world.tokens(&world.payer).await?, TOKENS + 2);
    Ok(())
}

#[tokio::test]
async fn what_the_program_would_refuse_to_deposit_is_refused_with_the_reason() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let paid = world.addressed().await?;
    let refusal =
        async |order: &DepositOrder, units: u64| reason(chain.prepare_larger_deposit(order, amount(units), 1).await);
    let refused = refusal(&paid.order, CAP).await?;
    assert!(refused.contains(&format!("0 of {CAP} are at the deposit address")), "{refused}");
    world.send_to(&paid, CAP).await?;
    let refused = refusal(&paid.order, CAP + 1).await?;
    assert!(refused.contains(&format!("{CAP} of {} are at the deposit address", CAP + 1)), "{refused}");
    // Never less than the address is for, though the settler asks for no more.
    let refused = reason(chain.prepare_deposit(&paid.order, 1).await)?;
    assert!(refused.starts_with("DepositTooSmall"), "{refused}");
    let refused = refusal(&paid.order, CAP - 1).await?;
    assert!(refused.starts_with("DepositTooSmall"), "{refused}");
    let mut dearer = paid.order.clone();
    dearer.reservation.source_amount = amount(CAP + 1);
    let refused = refusal(&dearer, CAP).await?;
    assert!(refused.starts_with("AmountAboveCap"), "{refused}");
    // Other terms lead to another address, where nothing came.
    let mut other = paid.order.clone();
    other.escrow.refund_after += 1;
    let refused = refusal(&other, CAP).await?;
    assert!(!refused.is_empty());

    world.surfnet.travel_to(paid.order.escrow.reserve_deadline + 1).await?;
    let refused = refusal(&paid.order, CAP).await?;
    assert!(refused.starts_with("ReserveWindowClosed"), "{refused}");
    assert_eq!(world.held_at(&paid).await?, CAP, "it is where it was");
    until(
        || chain.deposit_ruled_out(&paid.order.payment_id, &paid.order.escrow, paid.order.escrow.reserve_deadline),
        |out| *out,
    )
    .await?;
    Ok(())
}

#[tokio::test]
async fn a_token_of_token_2022_is_deposited_and_given_back() -> Result<()> {
    let world = World::start().await?;
    let chain = world.chain();
    let token = world.dev.create_token(&key(22), TokenProgram::Token2022, 6).await?;
    world.dev.mint(&token, &account(&world.settler), 3 * CAP).await?;
    world.dev.mint(&token, &account(&world.payer), 1).await?;
    let (paid, failed) = (world.addressed_of(&token).await?, world.addressed_of(&token).await?);
    assert_eq!(deposit_addresses::unfit(&world.node(), &paid.order.terms.source).await?, None);
    for addressed in [&paid, &failed] {
        world.send_to(addressed, CAP).await?;
        assert_eq!(chain.address_funds(&addressed.deposit()).await?.amount, Some(amount(CAP)));
    }
    let secured = world.deposited(&paid, CAP).await?;
    assert_eq!(secured.amount, amount(CAP));
    world.pass(&failed).await?;
    let since = held(&world, &failed, CAP).await?;
    let prepared = chain.prepare_give_back(&failed.deposit(), 1).await?;
    chain.broadcast(&prepared).await?;
    let (deposit, is_back) = (failed.deposit(), |state: &AddressState| matches!(state, AddressState::GivenBack(_)));
    let state = until(|| chain.address_state(&deposit, Some(since)), is_back).await?;
    let AddressState::GivenBack(refunded) = state else { bail!("{state:?}") };
    assert_eq!((refunded.inclusion.transaction_hash, refunded.amount), (prepared.transaction_hash, amount(CAP)));
    assert_eq!(world.dev.token_balance(&token, &account(&world.payer)).await?, 1 + CAP);
    released(&world, &paid.order).await
}

#[tokio::test]
async fn nothing_is_given_out_where_the_program_is_another_or_has_no_addresses() -> Result<()> {
    let world = World::start().await?;
    let node = world.node();
    let program: Account = world.program.parse()?;
    let is_served =
        async |escrow: &Account| -> Result<bool> { Ok(deposit_addresses::served_from(&node, escrow).await?.is_some()) };
    let slot = deposit_addresses::served_from(&node, &program).await?.context("there are none")?;
    assert!(node.settled().await?.slot >= slot);
    // The same program elsewhere is not what the configuration names.
    let elf = std::fs::read(World::artifact())?;
    let other = wallet(&key(30));
    world.surfnet.write_program(other.as_str(), &elf, &account(&key(1))).await?;
    assert!(!is_served(&other).await?);
    assert!(!is_served(&wallet(&key(99))).await?);
    // Where nothing is, and where there is no program.
    for nobody in [wallet(&key(99)), wallet(&world.payer)] {
        let mut config = world.config();
        config.common.escrow_contract = nobody.clone();
        config.common.fulfillment_proxy = nobody.clone();
        assert_eq!(deposit_addresses::served_from(&Node::connect(&config)?, &nobody).await?, None);
    }

    // As it was before there were addresses: the program runs, and has not these bytes.
    let mut older = elf.clone();
    let said = GIVE_BACK_SAID.as_bytes();
    let at = older.windows(said.len()).position(|bytes| bytes == said).context("the artifact does not say it")?;
    older[at..at + said.len()].fill(b'-');
    world.surfnet.write_program(&world.program, &older, &account(&key(1))).await?;
    assert!(!is_served(&program).await?);
    world.surfnet.write_program(&world.program, &elf, &account(&key(1))).await?;
    assert!(is_served(&program).await?);
    Ok(())
}

/// Gives the associated token account of `wallet` to somebody else.
fn handed_over(token: &DevToken, wallet: &Key) -> Instruction {
    const SET_AUTHORITY: u8 = 6;
    const ACCOUNT_OWNER: u8 = 2;
    let accounts = vec![meta(token_account(token, wallet), false, true), meta(*wallet, true, false)];
    let data = [&[SET_AUTHORITY, ACCOUNT_OWNER, 1][..], &public(&key(98))].concat();
    Instruction { program_id: program_of(token), accounts, data }
}

#[tokio::test]
async fn an_address_is_refused_whose_money_could_not_be_deposited_or_come_back() -> Result<()> {
    let world = World::start().await?;
    let (node, token) = (world.node(), world.freezable_token().await?);
    let asked = async |mint: &str, owner: &str| -> Result<Option<String>> {
        let source = OwnedAsset::new(format!("{}/token:{mint}", world.surfnet.chain_id()).parse()?, owner)?;
        let unfit = until(|| deposit_addresses::unfit(&node, &source), |_| true).await?;
        Ok(unfit.map(|unfit| unfit.to_string()))
    };
    let (payer, nobody) = (account(&world.payer), account(&key(97)));
    assert_eq!(asked(&token.mint, &payer).await?, None);
    // A wallet that has no SOL can have tokens.
    world.dev.mint(&token, &nobody, 1).await?;
    world.confirmed().await?;
    assert_eq!(asked(&token.mint, &nobody).await?, None);

    world.freeze(&token, token_account(&token, &public(&world.payer))).await?;
    world.dev.mint(&token, &account(&key(96)), 1).await?;
    world.surfnet.airdrop(&account(&key(96)), 1_000_000_000).await?;
    world.dev.run(&key(96), vec![handed_over(&token, &public(&key(96)))]).await?;
    let strangers_lamports = token_account(&token, &public(&key(95)));
    world.surfnet.airdrop(&text(&strangers_lamports), 1_000_000).await?;
    world.confirmed().await?;
    let own = token_account(&token, &public(&world.payer));
    let missing = |seed: u8| {
        format!("it has no token account {} of {}", text(&token_account(&token, &public(&key(seed)))), token.mint)
    };
    let no_wallet = |account: &str| format!("{account} is no wallet");
    let refused = [
        ("no token", account(&key(99)), payer.clone(), format!("there is no token {}", account(&key(99)))),
        ("a wallet as the token", account(&world.settler), payer.clone(), "MintInvalid".to_owned()),
        ("a token account as the token", text(&own), payer.clone(), "MintInvalid".to_owned()),
        ("no token account", token.mint.clone(), account(&key(94)), missing(94)),
        ("lamports where it would be", token.mint.clone(), account(&key(95)), missing(95)),
        ("a token account given away", token.mint.clone(), account(&key(96)), missing(96)),
        ("a frozen one", token.mint.clone(), payer.clone(), format!("its token account {} is frozen", text(&own))),
        ("a token account as the wallet", token.mint.clone(), text(&own), no_wallet(&text(&own))),
        ("a mint as the wallet", token.mint.clone(), token.mint.clone(), no_wallet(&token.mint)),
        ("a program as the wallet", token.mint.clone(), world.program.clone(), no_wallet(&world.program)),
        (
            "a token program as the wallet",
            token.mint.clone(),
            text(&ids::TOKEN_PROGRAM),
            no_wallet(&text(&ids::TOKEN_PROGRAM)),
        ),
    ];
    for (what, mint, owner, says) in refused {
        let answer = asked(&mint, &owner).await?.with_context(|| format!("{what}: not refused"))?;
        assert!(answer.contains(&says), "{what}: {answer}, not {says}");
    }
    Ok(())
}

#[tokio::test]
async fn who_waits_for_money_is_told_when_it_comes() -> Result<()> {
    /// Rounds in which a change is looked at, and one more.
    const ROUNDS: usize = 4;
    let world = World::start().await?;
    let chain = world.chain();
    let paid = world.addressed().await?;
    let (deposit, Addressed { order, given, .. }) = (paid.deposit(), &paid);
    let (chain_id, payment_id) = (&order.escrow.chain_id, &order.payment_id);
    let DepositAddress { pay_by, .. } = given;
    let cursor = || chain.cursor(chain_id, &order.escrow.contract).context("the program is not followed");
    let waiting = |since| Waiting { chain_id, payment_id, since, deadline: unix_seconds(*pay_by), is_pushed: false };
    let is_told = async |rounds: u64| -> Result<bool> {
        let since = cursor()?;
        let round = || async { Ok(chain.cursor(chain_id, &order.escrow.contract).map_or(u64::MAX, |now| now.round)) };
        let passed = until(round, |round| *round >= since.round + rounds);
        let waiting = waiting(since);
        tokio::select! {
            biased;
            () = chain.next_event(&waiting) => Ok(true),
            passed = passed => passed.map(|_| false),
        }
    };
    let begun = cursor()?;
    assert!(chain.awaits_block(&waiting(begun)), "nobody has looked yet");
    assert_eq!(chain.address_funds(&deposit).await?.amount, None);
    assert!(!chain.awaits_block(&waiting(begun)));
    assert!(!is_told(10).await?, "nothing came");
    world.send_to(&paid, 1).await?;
    assert!(is_told(200).await?, "something came");
    assert!(chain.has_news(&mut waiting(begun)));
    assert_eq!(chain.address_funds(&deposit).await?.amount, Some(amount(1)));
    let mut told = 0;
    while is_told(20).await? {
        told += 1;
        assert!(told <= ROUNDS, "nothing comes any more");
    }
    // Others' money is no news.
    world.send_to(&world.addressed().await?, 1).await?;
    assert!(!is_told(20).await?);
    world.send_to(&paid, CAP).await?;
    assert!(is_told(200).await?, "more came");
    assert_eq!(chain.address_funds(&deposit).await?.amount, Some(amount(CAP + 1)));

    // What comes after a look and before the first round is told of, though nothing tells when it came.
    let late = world.chain();
    assert_eq!(late.address_funds(&deposit).await?.amount, Some(amount(CAP + 1)));
    let since = late.cursor(chain_id, &order.escrow.contract).context("the program is not followed")?;
    world.send_to(&paid, 1).await?;
    late.watch_records().await?;
    assert!(late.has_news(&mut waiting(since)));
    Ok(())
}
