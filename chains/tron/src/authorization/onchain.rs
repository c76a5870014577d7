//! On-chain checks: reference block, fees, and whether signed transactions can land.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};

use escrow_abi::contracts::DevToken::transferCall;
use events::event::{PayerTransaction, TronSpend};
use sagas::ports::Transient;

use super::{
    AuthorizationError, BlockEnvironment, Choice, Denied, LIFETIME_MS_MAX, OnchainError, OpeningSigner, Prepared,
    REACH_MS, SpendRequest, prepared::Deposit, terms::Expected,
};
use crate::{
    cost::DEPOSIT_ENERGY_LEAST,
    node::{Answer, Block, Node, Prices, State},
    permission::Signing,
    token,
    transaction::{self, Draft, Reference},
};

/// What the escrow's part of a deposit takes, generously; the token's part is tried out.
const ESCROW_ENERGY: u64 = 180_000;
/// What a token's transfer takes where it cannot be tried out, for want of money say.
const TRANSFER_ENERGY: u64 = 150_000;
/// How far ahead of the answering node's newest block the block may be that a wallet was given by another node.
const AHEAD_MAX: u16 = 100;

/// As [`super::prepare`], with what `node` says of the chain. An approval is prepared unless the escrow's allowance stands.
///
/// # Errors
/// [`OnchainError::Denied`] as [`super::prepare`], or when the token refuses the approval; [`OnchainError::Transient`] when
/// the chain or the key gives no answer.
pub async fn prepare_onchain(
    spend: &SpendRequest,
    choice: &Choice,
    node: &Node,
    reserver: &OpeningSigner,
) -> Result<Prepared, OnchainError> {
    let expected = Expected::of(spend)?;
    let deposit = Deposit::of(&expected, choice, reserver)?;
    let (reference, head, prices, allowed) = tokio::try_join!(
        node.settled(),
        node.head(),
        node.prices(),
        token::allowance(node, expected.token, expected.payer, expected.escrow)
    )?;
    let limit = |energy: u64| {
        // Only what is used is paid, so half as much again costs nothing.
        let limit = energy.saturating_mul(prices.energy_sun).saturating_mul(3) / 2;
        prices.fee_limit_max_sun.map_or(limit, |most| limit.min(most))
    };
    let chain = |approval_energy: Option<u64>, deposit_energy| BlockEnvironment {
        reference,
        now_ms: head.time_ms,
        fee_limit_max_sun: prices.fee_limit_max_sun,
        approval_fee_limit_sun: approval_energy.map(limit),
        deposit_fee_limit_sun: limit(deposit_energy),
    };
    // Nobody is asked to sign what cannot be prepared.
    deposit.limits(&expected, choice, &chain(None, ESCROW_ENERGY))?;
    let amount = deposit.amount.get();
    let (approval_energy, deposit_energy, call) = match allowed >= amount {
        true => {
            let call = deposit.call(&expected, reserver).await?;
            let energy = tried(node, &expected, expected.escrow, call.clone()).await?.ok();
            (None, energy.unwrap_or(ESCROW_ENERGY + TRANSFER_ENERGY), call)
        }
        false => {
            let transfer = transferCall { to: expected.escrow, value: amount };
            let (approval, transfer) = tokio::try_join!(
                tried(node, &expected, expected.token, expected.approval(amount).abi_encode()),
                tried(node, &expected, expected.token, transfer.abi_encode()),
            )?;
            let approval = approval.map_err(|reason| {
                let reason = format!("refuses the payer's approval: {reason}");
                AuthorizationError::malformed("source.asset_identifier", reason)
            })?;
            let call = deposit.call(&expected, reserver).await?;
            (Some(approval), ESCROW_ENERGY + transfer.unwrap_or(TRANSFER_ENERGY), call)
        }
    };
    let chain = chain(approval_energy, deposit_energy);
    let limits = deposit.limits(&expected, choice, &chain)?;
    Ok(deposit.prepare(&expected, spend, &chain, limits, call))
}

/// Asks the chain about transactions that [`super::authorize`] took, before anything new is made of them: whether the payer's
/// key may sign for its account, whether each can reach a block, and whether the allowance stands where none is approved.
///
/// # Errors
/// [`OnchainError::Denied`] when they can come to nothing; [`OnchainError::Transient`] when the chain gives no answer.
pub async fn confirm(spend: &SpendRequest, payer_deposit: &TronSpend, node: &Node) -> Result<(), OnchainError> {
    let expected = Expected::of(spend)?;
    let last = usize::from(payer_deposit.approval.is_some());
    let within = |index| move |error| Denied { message: Some(index), error };
    let (signing, head, prices) = tokio::try_join!(Signing::of(expected.payer, node), node.head(), node.prices())?;
    check_signing(signing, &expected).map_err(within(last))?;

    let deposit = drafted(&payer_deposit.deposit).map_err(within(last))?;
    let transactions = match &payer_deposit.approval {
        Some(approval) => vec![drafted(approval).map_err(within(0))?, deposit],
        None => vec![deposit],
    };
    for (index, draft) in transactions.iter().enumerate() {
        let reference = reference(node, &head, draft.reference).await?.map_err(within(index))?;
        check_expiration(draft, &head, &reference).map_err(within(index))?;
    }
    match transactions.as_slice() {
        [approval, deposit] => {
            let energy = tried(node, &expected, expected.token, approval.call.data.clone()).await?;
            // A refusal may pass, and costs nothing before it is broadcast.
            check_fee_limit(approval, energy.unwrap_or_default(), &prices).map_err(within(0))?;
            check_fee_limit(deposit, DEPOSIT_ENERGY_LEAST, &prices).map_err(within(1))?;
        }
        _ => {
            let allowed = token::allowance(node, expected.token, expected.payer, expected.escrow).await?;
            if allowed < U256::from(payer_deposit.amount.get()) {
                if is_on_chain(&payer_deposit.deposit, node).await? {
                    return Ok(());
                }
                let expected = format!("preceded by an approval of {}: the escrow's allowance", payer_deposit.amount);
                return Err(within(last)(AuthorizationError::mismatch("deposit", expected, allowed)).into());
            }
            let deposit = &transactions[0];
            let energy = tried(node, &expected, expected.escrow, deposit.call.data.clone()).await?;
            check_fee_limit(deposit, energy.unwrap_or(DEPOSIT_ENERGY_LEAST), &prices).map_err(within(last))?;
        }
    }
    Ok(())
}

/// Asks the chain about a permit that [`super::authorize_permit`] took: whether the payer's key may sign for its account. Permit2
/// goes by the key alone, but an owner who gave the right to other keys may have lost this one.
///
/// # Errors
/// As [`confirm`]; the one message is the first.
pub async fn confirm_permit(spend: &SpendRequest, node: &Node) -> Result<(), OnchainError> {
    let expected = Expected::of(spend)?;
    let signing = Signing::of(expected.payer, node).await?;
    check_signing(signing, &expected).map_err(|error| Denied { message: Some(0), error })?;
    Ok(())
}

/// Whether the deposit has had its effect already: its payer's wallet may have sent it, and it has used the allowance up.
///
/// # Errors
/// [`Transient`], also when it waits for a block: a full node shows the allowance as used up then.
pub async fn is_on_chain(deposit: &PayerTransaction, node: &Node) -> Result<bool, Transient> {
    let id = deposit.transaction_hash.parse();
    let id =
        id.map_err(|_| Transient::misconfigured(format!("{:?} is not a transaction id", deposit.transaction_hash)))?;
    // In this order: what waited may be in a block by the second answer.
    if node.waits(id).await? {
        return Err(Transient::unreachable(format!("{}: the deposit {id} waits for a block", node.chain_id())));
    }
    Ok(node.info(id, State::Newest).await?.is_some_and(|info| info.failure.is_none()))
}

/// Energy that a call of the payer's takes, or why it would be refused.
async fn tried(
    node: &Node,
    expected: &Expected,
    contract: Address,
    data: Vec<u8>,
) -> Result<Result<u64, String>, Transient> {
    Ok(match node.trial(expected.payer, contract, data, 0).await? {
        Answer::Returned { energy, .. } => Ok(energy),
        Answer::Reverted { reason, .. } => Err(reason),
    })
}

fn drafted(signed: &PayerTransaction) -> Result<Draft, AuthorizationError> {
    let malformed = || AuthorizationError::malformed("message_prehash", "is not a transaction");
    let bytes = signed.raw.strip_prefix("0x").and_then(|digits| hex::decode(digits).ok()).ok_or_else(malformed)?;
    Ok(transaction::read_signed(&bytes)?.0.draft)
}

/// The network judges signatures by the account's permission, which its owner can give to other keys.
fn check_signing(signing: Signing, expected: &Expected) -> Result<(), AuthorizationError> {
    let account = super::text(expected.payer);
    match signing {
        Signing::Alone => Ok(()),
        Signing::NoAccount => {
            let reason = format!("cannot count: the account {account} is not activated, so it can send nothing");
            Err(AuthorizationError::malformed("signature", reason))
        }
        Signing::NotAlone => {
            let reason = format!("is not enough: the owner permission of {account} asks for other keys than its own");
            Err(AuthorizationError::malformed("signature", reason))
        }
    }
}

/// The block that a transaction names, when it is one of the chain's.
async fn reference(
    node: &Node,
    head: &Block,
    named: Reference,
) -> Result<Result<Block, AuthorizationError>, Transient> {
    let (newest, low) = (head.number as u16, u16::from_be_bytes(named.number));
    let ahead = low.wrapping_sub(newest);
    let mut unknown = false;
    if (1..=AHEAD_MAX).contains(&ahead) {
        match node.block(head.number + u64::from(ahead), State::Newest).await? {
            Some(block) if Reference::of(&block) == named => return Ok(Ok(block)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    let refused = || {
        let found = format!("0x{}", hex::encode(named.hash));
        let expected =
            format!("that of a block of this chain with a number that ends in 0x{}", hex::encode(named.number));
        Ok(Err(AuthorizationError::mismatch("message_prehash.ref_block_hash", expected, found)))
    };
    let lagging =
        || Transient::contradiction(format!("{}: the node does not know the reference block yet", node.chain_id()));
    let Some(number) = head.number.checked_sub(newest.wrapping_sub(low).into()) else {
        return if unknown { Err(lagging()) } else { refused() };
    };
    match node.block(number, State::Newest).await? {
        Some(block) if Reference::of(&block) == named => Ok(Ok(block)),
        None => Err(lagging()),
        Some(_) if unknown => Err(lagging()),
        // Until it is solidified, the node's block of that number may be the one that vanishes.
        Some(_) => match node.block(number, State::Solidified).await? {
            Some(_) => refused(),
            None => Err(lagging()),
        },
    }
}

/// Not later than the network takes, and late enough for what is broadcast now to reach a block.
fn check_expiration(draft: &Draft, head: &Block, reference: &Block) -> Result<(), AuthorizationError> {
    let (least, most) = (head.time_ms.saturating_add(REACH_MS), reference.time_ms.saturating_add(LIFETIME_MS_MAX));
    if (least..=most).contains(&draft.expiration_ms) {
        return Ok(());
    }
    let expected = format!("between {least} and {most}, a day after its reference block");
    Err(AuthorizationError::mismatch("message_prehash.expiration", expected, draft.expiration_ms))
}

/// One that is too low burns all of it for nothing, and one that is too high is not taken.
fn check_fee_limit(draft: &Draft, energy: u64, prices: &Prices) -> Result<(), AuthorizationError> {
    let field = "message_prehash.fee_limit";
    let least = energy.saturating_mul(prices.energy_sun);
    if draft.fee_limit_sun < least {
        let expected = format!("at least {least} sun, for {energy} energy");
        return Err(AuthorizationError::mismatch(field, expected, draft.fee_limit_sun));
    }
    match prices.fee_limit_max_sun {
        Some(most) if draft.fee_limit_sun > most => {
            let expected = format!("at most {most} sun, what the network takes");
            Err(AuthorizationError::mismatch(field, expected, draft.fee_limit_sun))
        }
        _ => Ok(()),
    }
}
