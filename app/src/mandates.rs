//! Mandates (ADR 159): a payer signs once what a merchant may ask for, so much in each period, until a last one. The gateway keeps none: the
//! merchant does, and shows it with each payment. What is drawn, and that a mandate was ended, the chain keeps.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use events::{Account, Hash32, event::Mandate};

use crate::{
    App,
    authorization::{MandateRequest, MessageScheme, PreparedMandate},
    error::Error,
    funds::{Approval, Draw, Spend},
    prepare::{MessageBody, unsignable},
    request::{
        body::JsonBody,
        fields::{Faults, Object},
        mandate::MandateOrder,
    },
    schema,
    views::verifier::VerifierBody,
};

/// What a payer signs for a mandate. With its signature as `permit` beside `mandate` this is the `payload` of the message that the merchant
/// signs for each payment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PreparedMandate")]
pub struct PreparedBody {
    /// The scheme of the payments.
    #[schemars(schema_with = "MessageScheme::schema")]
    message_scheme: &'static str,
    /// The mandate, with what was left out filled in.
    mandate: MandateBody,
    /// The address that commits to all of it, to which the allowance is given.
    #[schemars(with = "String")]
    address: Account,
    /// The contract that keeps mandates on the source's chain.
    #[schemars(with = "String")]
    contract: Account,
    /// What the payer signs: EIP-712 typed data of an allowance at Permit2, of all periods together.
    permit: MessageBody,
    /// The call by which a payer that is a contract gives that allowance instead, as `eth_sendTransaction` takes it: it brings no `permit`.
    #[schemars(schema_with = "schema::free_form")]
    allowance: Value,
    // Whose word releases the escrow.
    fulfillment_verifier: VerifierBody,
    // The payer's own transaction that has to be on chain before the first payment, where Permit2 may draw too little of its token.
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<Approval>,
    /// How it is ended for ever.
    cancel: CancelBody,
}

/// What a payer allows its merchant to ask for.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Mandate")]
struct MandateBody {
    /// Who signs for each payment: an account with a key on the source's chain.
    #[schemars(with = "String")]
    merchant: Account,
    /// The most that is drawn in a period, smallest unit of the source asset, with what settlers ask.
    amount: String,
    /// What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the destination asset. Absent for
    /// no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    least: Option<String>,
    /// First second of the first period, UNIX.
    begins: u64,
    /// How long a period is, in seconds.
    #[schemars(range(min = 1))]
    period_seconds: u64,
    /// How many there are.
    #[schemars(range(min = 1))]
    periods: u64,
    /// The most seconds from the deposit of a payment to its refund.
    #[schemars(range(min = 1))]
    lock_seconds: u64,
    /// Drawn at random by the payer, hex with 0x.
    salt: Hash32,
}

/// How a payer ends a mandate.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "MandateCancellation")]
struct CancelBody {
    /// The payer's, or the merchant's, own call, as `eth_sendTransaction` takes it.
    #[schemars(schema_with = "schema::free_form")]
    call: Value,
    /// EIP-712 typed data: with the payer's signature over it anyone can call `cancel` in its place.
    message: MessageBody,
}

impl From<&Mandate> for MandateBody {
    fn from(mandate: &Mandate) -> Self {
        let Mandate { merchant, amount, least, begins, period_seconds, periods, lock_seconds, salt } = mandate;
        Self {
            merchant: merchant.clone(),
            amount: amount.to_string(),
            least: least.map(|least| least.to_string()),
            begins: *begins,
            period_seconds: (*period_seconds).into(),
            periods: (*periods).into(),
            lock_seconds: (*lock_seconds).into(),
            salt: *salt,
        }
    }
}

/// Makes what the payer signs. Nothing is kept.
///
/// # Errors
/// 400 with what is wrong, 503 when the chain cannot be asked.
pub async fn prepare(state: &App, body: &JsonBody) -> Result<PreparedBody, Error> {
    let mut faults = Faults::default();
    let now = state.services.clock.now();
    let order = MandateOrder::read(&Object::root(&body.members), &state.corridors, now, &mut faults);
    let order = faults.or(order)?;
    let source = &order.terms.source;
    state.corridors.check_scheme(source.asset().chain(), MessageScheme::EvmPermit2Mandate)?;
    let request = MandateRequest {
        mandate: &order.mandate,
        terms: &order.terms,
        escrow_contract: &order.escrow_contract,
        releaser: &order.verifier.account,
        permit2: order.permit2.as_ref(),
    };
    let prepared = state.services.authorizer.prepare_mandate(&request).await.map_err(unsignable)?;
    let PreparedMandate { message, address, contract, all, allowance: (permit2, allow), cancel: (call, cancellation) } =
        prepared;
    let escrow = order.plan();
    let draw = Draw::Permit2 { nonce: Hash32::ZERO, prepares: false };
    let approval = state.funds.standing_approval(&Spend { source, amount: all, draw, escrow: &escrow }).await?;
    Ok(PreparedBody {
        message_scheme: MessageScheme::EvmPermit2Mandate.name(),
        mandate: (&order.mandate).into(),
        allowance: sent(&permit2, &allow),
        cancel: CancelBody { call: sent(&contract, &call), message: cancellation.into() },
        address,
        contract,
        permit: message.into(),
        fulfillment_verifier: (&order.verifier).into(),
        approval,
    })
}

/// A call as wallets take it.
fn sent(to: &Account, data: &str) -> Value {
    json!({"to": to.to_string(), "data": data, "value": "0x0"})
}
