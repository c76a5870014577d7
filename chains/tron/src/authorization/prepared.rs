//! The transactions that a payer has to sign.

use alloy::{primitives::B256, sol_types::SolCall};
use serde_json::{Map, Value};

use escrow_abi::eip712::GatewayDeposit;
use events::{Amount, event::EscrowPlan};
use sagas::ports::Transient;

use super::{
    AuthorizationError, Choice, LIFETIME_MS_MAX, OnchainError, OpeningSigner, REACH_MS, SpendRequest, payload,
    terms::{Chosen, Expected, deposit_call},
};
use crate::{
    address::text,
    node::Block,
    transaction::{Call, Draft, Reference, id},
};

/// Block environment: what a chain says that transactions have to be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockEnvironment {
    /// The block that they name; a solidified one, so that no fork takes it away and them with it.
    pub reference: Block,
    /// Time of the newest block, UNIX milliseconds.
    pub now_ms: u64,
    /// The highest `fee_limit` that is taken, in sun, where the chain says so.
    pub fee_limit_max_sun: Option<u64>,
    /// What the approval's energy may cost, in sun; `None` where the escrow's allowance stands already.
    pub approval_fee_limit_sun: Option<u64>,
    /// What the deposit's energy may cost, in sun.
    pub deposit_fee_limit_sun: u64,
}

/// What a payer must sign, in the order in which it is broadcast.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// The approval, where one is needed, and the deposit.
    pub messages: Vec<PreparedMessage>,
    /// What is deposited, smallest unit.
    pub amount: Amount,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

/// One transaction to be signed.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedMessage {
    /// Its id: what the signature is over.
    pub id: B256,
    /// Its `raw_data`.
    pub raw_data: Vec<u8>,
    /// What it does, for people, and what was chosen, for `payload`.
    pub payload: Value,
}

/// What the payer deposits.
pub(super) struct Deposit {
    pub amount: Amount,
    pub chosen: Chosen,
    terms: GatewayDeposit,
}

impl Deposit {
    /// The deposit that `choice` makes of the request, which `reserver` is to sign.
    pub fn of(expected: &Expected, choice: &Choice, reserver: &OpeningSigner) -> Result<Self, AuthorizationError> {
        if reserver.address() != expected.reserver {
            let (expected, found) = (text(expected.reserver), text(reserver.address()));
            return Err(AuthorizationError::mismatch("reserver", format!("{expected}, who signs"), found));
        }
        let amount = expected.amount(choice)?;
        let chosen = expected.chosen(choice)?;
        Ok(Self { amount, chosen, terms: expected.deposit(chosen)? })
    }

    /// Its call, selector and arguments, with the reserver's signature.
    ///
    /// # Errors
    /// As [`OpeningSigner::sign`].
    pub async fn call(&self, expected: &Expected, reserver: &OpeningSigner) -> Result<Vec<u8>, Transient> {
        let units = self.amount.get();
        let signature = reserver.sign(expected.opening(self.terms.clone(), units)).await?;
        Ok(deposit_call(expected, &self.terms, units, &signature.as_bytes()))
    }
}

/// The transactions that [`super::authorize`] expects for `spend`, with what is the payer's to choose. `reserver` is the key
/// of the escrow's reserver, which signs the deposit's terms.
///
/// # Errors
/// [`OnchainError::Denied`] when the request can't be authorized on Tron at all (a source that is not a TRC-20, an auction that
/// no transaction outlives), or a choice breaks a rule; [`OnchainError::Transient`] when the key does not sign.
pub async fn prepare(
    spend: &SpendRequest,
    choice: &Choice,
    chain: &BlockEnvironment,
    reserver: &OpeningSigner,
) -> Result<Prepared, OnchainError> {
    let expected = Expected::of(spend)?;
    let deposit = Deposit::of(&expected, choice, reserver)?;
    let limits = deposit.limits(&expected, choice, chain)?;
    let call = deposit.call(&expected, reserver).await?;
    Ok(deposit.prepare(&expected, spend, chain, limits, call))
}

/// What the transactions of a deposit may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    expiration_ms: u64,
    fee_limit_sun: u64,
}

impl Deposit {
    /// Time and fee of the deposit's transaction. Everything that can be wrong with the request is found by here.
    pub fn limits(
        &self,
        expected: &Expected,
        choice: &Choice,
        chain: &BlockEnvironment,
    ) -> Result<Limits, AuthorizationError> {
        let expiration_ms = expiration(expected, choice, chain, self.chosen)?;
        Ok(Limits { expiration_ms, fee_limit_sun: fee_limit(choice, chain)? })
    }

    /// The transactions around the deposit's `call`.
    pub fn prepare(
        self,
        expected: &Expected,
        spend: &SpendRequest,
        chain: &BlockEnvironment,
        Limits { expiration_ms, fee_limit_sun }: Limits,
        call: Vec<u8>,
    ) -> Prepared {
        let Self { amount, chosen, .. } = self;
        let draft = |contract, data, fee_limit_sun| Draft {
            call: Call { owner: expected.payer, contract, data, value_sun: 0 },
            fee_limit_sun,
            reference: Reference::of(&chain.reference),
            timestamp_ms: expected.timestamp_ms(chain.now_ms),
            expiration_ms,
        };
        let mut messages = Vec::with_capacity(2);
        if let Some(fee_limit_sun) = chain.approval_fee_limit_sun {
            let data = expected.approval(amount.get()).abi_encode();
            let draft = draft(expected.token, data, fee_limit_sun);
            messages.push(PreparedMessage::new(&draft, payload::of_approval(expected, &draft, amount)));
        }
        let draft = draft(expected.escrow, call, fee_limit_sun);
        let mut payload = payload::of_deposit(expected, &draft, amount, chosen);
        if spend.terms.max_source_amount.is_some() {
            payload.remove(payload::PERMITTED_AMOUNT);
        }
        messages.push(PreparedMessage::new(&draft, payload));
        Prepared { messages, amount, plan: expected.plan(spend, chosen) }
    }
}

impl PreparedMessage {
    fn new(draft: &Draft, payload: Map<String, Value>) -> Self {
        let raw_data = draft.raw_data();
        Self { id: id(&raw_data), raw_data, payload: payload.into() }
    }
}

/// When the transactions expire. By default with the last second of the reservation, which is when a deposit is of no use
/// any more, but late enough to be broadcast after the auction, and not later than the network takes.
fn expiration(
    expected: &Expected,
    choice: &Choice,
    chain: &BlockEnvironment,
    chosen: Chosen,
) -> Result<u64, AuthorizationError> {
    let least = expected.quote_deadline.saturating_mul(1_000).max(chain.now_ms).saturating_add(REACH_MS + 1);
    let most = chain.reference.time_ms.saturating_add(LIFETIME_MS_MAX);
    if least > most {
        let latest = most.saturating_sub(REACH_MS) / 1_000;
        let rule = format!("before {latest}, since a transaction lasts a day at most");
        return Err(AuthorizationError::mismatch("quote_deadline", rule, expected.quote_deadline));
    }
    let Some(expiration_ms) = choice.expiration_ms else {
        return Ok(chosen.reserve_deadline.saturating_mul(1_000).clamp(least, most));
    };
    if (least..=most).contains(&expiration_ms) {
        return Ok(expiration_ms);
    }
    let expected = format!("between {least}, when the auction is over, and {most}, what the network takes");
    Err(AuthorizationError::mismatch("payload.expiration_ms", expected, expiration_ms))
}

fn fee_limit(choice: &Choice, chain: &BlockEnvironment) -> Result<u64, AuthorizationError> {
    let Some(fee_limit_sun) = choice.fee_limit_sun else { return Ok(chain.deposit_fee_limit_sun) };
    let field = "payload.fee_limit_sun";
    if fee_limit_sun == 0 {
        return Err(AuthorizationError::malformed(field, "must not be zero"));
    }
    match chain.fee_limit_max_sun {
        Some(most) if fee_limit_sun > most => {
            let expected = format!("at most {most}, what the network takes");
            Err(AuthorizationError::mismatch(field, expected, fee_limit_sun))
        }
        _ => Ok(fee_limit_sun),
    }
}
