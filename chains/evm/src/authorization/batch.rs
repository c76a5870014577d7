//! Payments of a batch (ADR 158): what a payer signs for many payments names the root of their tree, so each shows its way to the root, and
//! the root must be the one that was signed.

use alloy::primitives::{Address, B256, U256, hex};
use serde_json::{Map, Value, json};

use escrow_abi::{
    contracts,
    eip712::uint,
    payment_batches::{self, BatchMessage, PAYMENTS_MAX, PROOF_MAX, TOKENS_MAX, Tree},
    typed_data::{HEX, equal},
};
use events::{
    Account, Amount, Hash32,
    event::{BatchPermit, EscrowPlan},
    time::unix_seconds,
};

use super::{AuthorizationError, SpendRequest, choice::Choice, expected::Expected};
use crate::{
    minimal_proxy::implementation,
    payment_batches::{address_of, contract, leaf_of},
};

/// Where a payment is in its batch, as the payload has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// What is drawn for all payments, by token.
    pub permitted: Vec<(Address, U256)>,
    /// The root of the payments.
    pub payments: B256,
    /// Its way to the root.
    pub proof: Vec<B256>,
}

impl Membership {
    /// Reads the member `batch` of a payload.
    ///
    /// # Errors
    /// [`AuthorizationError::Malformed`], naming the member.
    pub(super) fn read(value: &Value) -> Result<Self, AuthorizationError> {
        let wrong = |name: &str, rule: String| AuthorizationError::malformed(format!("payload.batch.{name}"), rule);
        let word = |value: &Value| value.as_str().and_then(|text| text.parse::<Hash32>().ok()).map(contracts::word);
        let hash = || "must be 0x followed by 64 hex digits".to_owned();
        let list = |name: &str, most: usize| {
            let items = value.get(name).and_then(Value::as_array).filter(|items| items.len() <= most);
            items.ok_or_else(|| wrong(name, format!("must be a list of at most {most} members")))
        };
        let permitted = list("permitted", TOKENS_MAX)?.iter().map(|each| {
            let token = each.get("token").and_then(Value::as_str).and_then(|text| (HEX.read)(text));
            token.zip(each.get("amount").and_then(uint))
        });
        let permitted: Option<Vec<_>> = permitted.collect();
        let form = || "must be a list of a token, its address in hex, and an amount each".to_owned();
        let proof: Option<Vec<_>> = list("proof", PROOF_MAX)?.iter().map(word).collect();
        Ok(Self {
            permitted: permitted.ok_or_else(|| wrong("permitted", form()))?,
            payments: value.get("payments").and_then(word).ok_or_else(|| wrong("payments", hash()))?,
            proof: proof.ok_or_else(|| wrong("proof", hash()))?,
        })
    }

    /// The member `batch` of a payload.
    fn written(&self) -> Value {
        let permitted = self
            .permitted
            .iter()
            .map(|(token, amount)| json!({"token": (HEX.write)(*token), "amount": amount.to_string()}));
        let proof: Vec<String> = self.proof.iter().map(B256::to_string).collect();
        json!({
            "permitted": permitted.collect::<Vec<_>>(),
            "payments": self.payments.to_string(),
            "proof": proof,
        })
    }
}

/// The spend of one payment of a batch.
pub(super) struct BatchSpend {
    amount: Amount,
    membership: Membership,
    /// What was signed.
    pub message: BatchMessage,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

/// The most that is drawn for a payment, which all is.
fn cap(spend: &SpendRequest) -> Result<Amount, AuthorizationError> {
    let rule = "is required under EVM_PERMIT2_BATCH, which draws all of it";
    spend.terms.max_source_amount.ok_or_else(|| AuthorizationError::malformed("max_source_amount", rule))
}

fn leaf(spend: &SpendRequest, plan: &EscrowPlan) -> Result<B256, AuthorizationError> {
    leaf_of(&spend.payment_id, &spend.terms, plan, cap(spend)?)
        .map_err(|error| AuthorizationError::malformed("payload", format!("makes no payment of a batch: {error}")))
}

impl BatchSpend {
    /// What a request means, with what `payload` says of it.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn of(spend: &SpendRequest, expected: &Expected, choice: &Choice) -> Result<Self, AuthorizationError> {
        let membership =
            choice.batch.clone().ok_or_else(|| AuthorizationError::malformed("payload.batch", "is required"))?;
        if spend.quote_hash != Hash32::ZERO {
            let rule = "EVM_PERMIT2_BATCH is signed before there are quotes";
            return Err(AuthorizationError::malformed("message_scheme", rule));
        }
        let (amount, plan) = (cap(spend)?, expected.plan(spend, choice)?);
        let root = payment_batches::root_by(leaf(spend, &plan)?, &membership.proof);
        if root != membership.payments {
            return Err(AuthorizationError::mismatch("payload.batch.payments", root, membership.payments));
        }
        let is_ascending = membership.permitted.is_sorted_by(|one, next| one.0 < next.0);
        if !is_ascending || membership.permitted.iter().any(|(_, amount)| amount.is_zero()) {
            let rule = "must be in ascending order of the tokens, each once, with amounts above zero";
            return Err(AuthorizationError::malformed("payload.batch.permitted", rule));
        }
        let drawn = membership.permitted.iter().find(|(token, _)| *token == expected.token).map(|(_, drawn)| *drawn);
        if drawn.is_none_or(|drawn| drawn < amount.get()) {
            let rule = format!("must have at least {amount} of the payment's token {}", (HEX.write)(expected.token));
            return Err(AuthorizationError::malformed("payload.batch.permitted", rule));
        }
        let message = message(expected, membership.permitted.clone(), membership.payments, plan.reserve_deadline);
        Ok(Self { amount, membership, message, plan })
    }

    /// Compares what was signed with that.
    ///
    /// # Errors
    /// [`AuthorizationError`], naming the field.
    pub fn check(&self, signed: &BatchMessage) -> Result<(), AuthorizationError> {
        let BatchMessage { chain_id, permit2, permitted, spender, nonce, deadline, escrow, payments } = &self.message;
        let text = |permitted: &[(Address, U256)]| format!("{permitted:?}");
        equal("domain.chainId", *chain_id, signed.chain_id)?;
        equal("domain.verifyingContract", *permit2, signed.permit2)?;
        equal("message.permitted", text(permitted), text(&signed.permitted))?;
        equal("message.spender", *spender, signed.spender)?;
        equal("message.nonce", *nonce, signed.nonce)?;
        equal("message.deadline", *deadline, signed.deadline)?;
        equal("message.witness.escrow", *escrow, signed.escrow)?;
        Ok(equal("message.witness.payments", *payments, signed.payments)?)
    }

    /// What was signed, with the batch's address. From which block on its money is looked for is for the caller to say.
    ///
    /// # Errors
    /// [`AuthorizationError`] for what fits no EVM chain.
    pub fn authorization(self, payer: &Account, signature: &[u8]) -> Result<BatchPermit, AuthorizationError> {
        let unfit = |what: &str| AuthorizationError::malformed("payload.batch", format!("has no {what}"));
        let account = |address: Address| contracts::account(address).ok_or_else(|| unfit("account"));
        let permitted = payment_batches::recorded(&self.message.permitted).ok_or_else(|| unfit("tokens"))?;
        let code = implementation(contract());
        let mut permit = BatchPermit {
            amount: self.amount,
            permitted,
            nonce: Hash32(self.message.nonce.to_be_bytes()),
            deadline: self.message.deadline,
            payments: Hash32(self.message.payments.0),
            proof: self.membership.proof.iter().map(|hash| Hash32(hash.0)).collect(),
            address: payer.clone(),
            contract: account(contract())?,
            implementation: account(code)?,
            from_block: 0,
            signature: format!("0x{}", hex::encode(signature)),
        };
        let batch = payment_batches::batch(&permit, payer, &self.plan.contract)
            .map_err(|error| AuthorizationError::malformed("payload.batch", error.to_string()))?;
        permit.address = account(address_of(contract(), code, &batch))?;
        Ok(permit)
    }
}

/// What is signed for payments of this root. The nonce is the root, so one batch is drawn once, whoever signs it again.
fn message(expected: &Expected, permitted: Vec<(Address, U256)>, payments: B256, deadline: u64) -> BatchMessage {
    BatchMessage {
        chain_id: U256::from(expected.evm_id),
        permit2: expected.permit2,
        permitted,
        spender: contract(),
        nonce: payments.into(),
        deadline,
        escrow: expected.escrow,
        payments,
    }
}

/// What a payer must sign for a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedBatch {
    /// For `eth_signTypedData_v4`, and as JSON text for `message_prehash`.
    pub typed_data: Value,
    /// Its digest, for `message`.
    pub digest: Hash32,
    /// The nonce of the permit.
    pub nonce: Hash32,
    /// Tokens, and how much of each is drawn.
    pub permitted: Vec<(Address, U256)>,
    /// Of each payment, in their order.
    pub members: Vec<PreparedMember>,
}

/// One payment of a batch.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedMember {
    /// The payload of its signed message.
    pub payload: Map<String, Value>,
    /// The escrow and its windows.
    pub plan: EscrowPlan,
}

/// Why there is no batch of some payments: of which, from 0, where it is one's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Of one payment.
    #[error("{error}")]
    Member {
        /// Which.
        index: usize,
        /// What is wrong with it.
        error: AuthorizationError,
    },
    /// Of all of them.
    #[error("{0}")]
    Batch(String),
}

/// The message that [`authorize`](super::authorize) expects for each of `spends`, and how each shows that it is under it. All of them are
/// deposited up to the same second: `deadline`, or else the earliest of their fulfillment deadlines.
///
/// # Errors
/// [`BatchError`].
pub fn prepare_batch(spends: &[SpendRequest], deadline: Option<u64>) -> Result<PreparedBatch, BatchError> {
    let of_all = |what: String| BatchError::Batch(what);
    let earliest = spends.iter().map(|spend| unix_seconds(spend.fulfillment_deadline)).min();
    let (Some(first), Some(deadline)) = (spends.first(), deadline.or(earliest)) else {
        return Err(of_all("has no payment".to_owned()));
    };
    if spends.len() > PAYMENTS_MAX {
        return Err(of_all(format!("must have at most {PAYMENTS_MAX} payments")));
    }
    let choice = Choice { reserve_deadline: Some(deadline), ..Choice::default() };
    let (mut leaves, mut draws, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    for (index, spend) in spends.iter().enumerate() {
        let of = |error| BatchError::Member { index, error };
        let (one, other) = (&first.terms.source, &spend.terms.source);
        if one.account() != other.account() || one.asset().chain() != other.asset().chain() {
            let rule = "must have the account and the chain of the first payment's source";
            return Err(of(AuthorizationError::malformed("source", rule)));
        }
        if spend.escrow.contract != first.escrow.contract || spend.escrow.permit2 != first.escrow.permit2 {
            let rule = "must be the escrow of the first payment: a batch has one";
            return Err(of(AuthorizationError::malformed("escrow_contract_address", rule)));
        }
        let expected = Expected::of(spend).map_err(of)?;
        let plan = expected.plan(spend, &choice).map_err(of)?;
        expected.check_windows(spend, plan.reserve_deadline, plan.refund_after).map_err(of)?;
        leaves.push(leaf(spend, &plan).map_err(of)?);
        draws.push((expected.token, cap(spend).map_err(of)?));
        plans.push(plan);
    }
    let permitted = payment_batches::permitted(draws).map_err(of_all)?;
    let tree = Tree::of(leaves).ok_or_else(|| of_all("has no payment".to_owned()))?;
    let expected = Expected::of(first).map_err(|error| BatchError::Member { index: 0, error })?;
    let message = message(&expected, permitted.clone(), tree.root(), deadline);
    let prepared = plans.into_iter().enumerate().map(|(index, plan)| {
        let (permitted, payments) = (permitted.clone(), tree.root());
        let membership = Membership { permitted, payments, proof: tree.proof(index) };
        let payload = Map::from_iter([
            ("batch".to_owned(), membership.written()),
            ("reserve_deadline".to_owned(), plan.reserve_deadline.into()),
            ("refund_after".to_owned(), plan.refund_after.into()),
        ]);
        PreparedMember { payload, plan }
    });
    let members = prepared.collect();
    Ok(PreparedBatch {
        typed_data: message.render(&HEX),
        digest: Hash32(message.digest().0),
        nonce: Hash32(message.nonce.to_be_bytes()),
        permitted,
        members,
    })
}
