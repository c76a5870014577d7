//! Answers: what a gateway says, in the types of `events`. Members that are not named here are kept or ignored, never refused:
//! any answer may have more than the document of today.

mod mandates;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use events::{
    Account, Amount, AssetId, ChainId, Hash32, OwnedAsset, PaymentId, QuoteRequestId,
    failure::{BlockchainContext, RetryClassification},
    quote::SignedQuote,
    time::Timestamp,
};

pub use self::mandates::PreparedMandate;
use crate::{
    error::{Error, ErrorBody, Mismatch, Refusal, classification},
    retry::Next,
    verifiers::FulfillmentVerifier,
};

/// Every chain that a gateway serves.
#[derive(Debug, Clone, Deserialize)]
pub struct Defaults {
    /// By CAIP-2 id.
    pub chains: BTreeMap<String, ChainDefaults>,
}

/// What a request on a chain gets that names nothing else.
#[derive(Debug, Clone, Deserialize)]
pub struct ChainDefaults {
    /// The escrow.
    pub escrow_contract_address: Account,
    /// Account that signs reservations.
    pub reserver: Account,
    /// Account that attests deliveries, or the id of the set of those who do.
    pub releaser: Account,
    /// Who they are.
    #[serde(default)]
    pub fulfillment_verifier: Option<FulfillmentVerifier>,
    /// Permit2, on EVM chains, and on Tron where payers may sign for it.
    #[serde(default)]
    pub permit2: Option<Account>,
    /// Genesis hash of the cluster, Base58, on Solana.
    #[serde(default)]
    pub signature_cluster_id: Option<String>,
    /// Version of the domain of what is signed, on Solana.
    #[serde(default)]
    pub signature_domain_version: Option<u8>,
    /// Schemes that a payer on the chain may sign with.
    #[serde(default)]
    pub message_schemes: Vec<String>,
    /// Least seconds from `fulfillment_deadline` to the refund window.
    pub refund_delay_seconds: u64,
    /// The assets served.
    pub assets: Vec<ServedAsset>,
}

/// An asset that is served.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ServedAsset {
    /// CAIP-19 id.
    pub asset_identifier: AssetId,
    /// Ticker symbol, for display.
    pub symbol: String,
    /// Decimal places, for display.
    pub decimals: u8,
    /// The chain's own coin, where the asset is its wrapped form.
    #[serde(default)]
    pub wraps: Option<AssetId>,
}

/// The scheme by which a token of an EVM chain itself takes a signature for a transfer (ERC-3009).
const BY_TOKEN: &str = "EVM_EIP3009";

impl ChainDefaults {
    /// Whether the gateway takes signatures for tokens in the place of an allowance. Then what it prepares says whether a
    /// transaction has to give one: [`Prepared::is_allowed_by_signature`].
    pub fn takes_token_signatures(&self) -> bool {
        self.message_schemes.iter().any(|scheme| scheme == BY_TOKEN)
    }

    /// What is said of an asset.
    pub fn asset(&self, id: &AssetId) -> Option<&ServedAsset> {
        self.assets.iter().find(|served| served.asset_identifier == *id)
    }
}

/// The defaults that a payment rests on.
#[derive(Debug, Clone)]
pub struct Corridor {
    /// Those of the source's chain.
    pub source: ChainDefaults,
    /// The longest refund delay among the payment's chains, in seconds.
    pub refund_delay_seconds: u64,
    /// What is said of the destinations' assets, in the order of the destinations.
    pub destinations: Vec<Option<ServedAsset>>,
}

/// What to sign, as the gateway says it. Nothing of it is believed: see [`crate::authorization`].
#[derive(Debug, Clone, Deserialize)]
pub struct Prepared {
    /// The id that the payment is going to have.
    pub payment_id: PaymentId,
    /// The scheme that the messages are for.
    pub message_scheme: String,
    /// The messages, in their order.
    pub signed_messages: Vec<UnsignedMessage>,
    /// Who may attest the delivery.
    #[serde(default)]
    pub fulfillment_verifier: Option<FulfillmentVerifier>,
    /// What turns the chain's coin into the source's asset, where that is missing: for people to read.
    #[serde(default)]
    pub wrap: Option<Value>,
    /// What gives the allowance that is missing: for people to read.
    #[serde(default)]
    pub approval: Option<Value>,
}

impl Prepared {
    /// Whether what is to be signed needs no allowance by a transaction of the payer's: a token takes its signature for the transfer,
    /// or for the allowance. `authorization` compares either before it is signed. For EVM chains.
    pub fn is_allowed_by_signature(&self) -> bool {
        self.message_scheme == BY_TOKEN || self.signed_messages.len() > 1
    }
}

/// What to sign for many payments as one, as the gateway says it. Nothing of it is believed either.
#[derive(Debug, Clone, Deserialize)]
pub struct PreparedPaymentBatch {
    /// The scheme that the message is for.
    pub message_scheme: String,
    /// The message, one for all payments.
    pub signed_messages: Vec<UnsignedMessage>,
    /// Last second of the deposits, UNIX.
    pub reserve_deadline: u64,
    /// The payments, in the order of the request.
    pub payments: Vec<PreparedPaymentOfBatch>,
    /// What turns the chain's coin into tokens that are missing: for people to read.
    #[serde(default)]
    pub wraps: Vec<Value>,
    /// What gives the allowances that are missing, one a token: for people to read.
    #[serde(default)]
    pub approvals: Vec<Value>,
}

/// A payment of a batch that is not signed yet.
#[derive(Debug, Clone, Deserialize)]
pub struct PreparedPaymentOfBatch {
    /// The id that the payment is going to have.
    pub payment_id: PaymentId,
}

/// What became of one payment of a batch.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "BatchPaymentBody")]
pub struct BatchPayment {
    /// Its id.
    pub payment_id: PaymentId,
    /// The payment, which was accepted now or before, or why it was refused. The others are accepted all the same.
    pub outcome: Result<Payment, Refusal>,
}

/// The same as it comes.
#[derive(Deserialize)]
struct BatchPaymentBody {
    payment_id: PaymentId,
    #[serde(default)]
    payment: Option<Payment>,
    #[serde(default)]
    error: Option<ErrorBody>,
}

impl TryFrom<BatchPaymentBody> for BatchPayment {
    type Error = String;

    fn try_from(body: BatchPaymentBody) -> Result<Self, String> {
        let outcome = match (body.payment, body.error) {
            (Some(payment), None) => Ok(payment),
            (None, Some(error)) => Err(error.try_into()?),
            (Some(_), Some(_)) | (None, None) => return Err(format!("{} has no outcome", body.payment_id)),
        };
        Ok(Self { payment_id: body.payment_id, outcome })
    }
}

/// What a batch is answered with.
#[derive(Debug, Deserialize)]
pub(crate) struct BatchPayments {
    /// In the order of the request.
    pub payments: Vec<BatchPayment>,
}

/// A message without its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnsignedMessage {
    /// What the signature is over.
    pub message: String,
    /// What `message` is the hash of.
    pub message_prehash: String,
    /// What else is repeated.
    #[serde(default)]
    pub payload: Option<Value>,
}

/// Status of a payment (spec 3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Accepted; nothing has reached the recipient.
    Pending,
    /// The delivery gathers confirmations. Not delivered yet.
    Finalizing,
    /// Delivered. Final.
    Completed,
    /// Did not complete. Final.
    Failed,
}

impl Status {
    /// Whether it never changes any more.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// The word of the contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// A payment as an answer shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Payment {
    /// Its id.
    pub payment_id: PaymentId,
    /// Where it stands.
    pub status: Status,
    /// Of a write: whether the payment was there before.
    #[serde(default)]
    pub idempotent_replay: Option<bool>,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<Failure>,
    /// Where its money is to be sent, where nobody signs for it.
    #[serde(default)]
    pub deposit_address: Option<DepositAddress>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
    /// How much of the payment the answer was made from: sent with the next read.
    #[serde(skip)]
    pub position: Option<String>,
}

impl Payment {
    /// A transaction by its stage: `deposit`, `reservation`, `reassignment`, `fulfillment`.
    pub fn transaction(&self, stage: &str) -> Option<&str> {
        self.more.get("transactions")?.get(stage)?.get("transaction_hash")?.as_str()
    }

    /// Money of the payment that waits in its escrow for its owner.
    pub fn claims(&self) -> &[Value] {
        self.more.get("claims").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }
}

/// Where the money of a payment is to be sent, by the gateway's word. Nothing of it is believed: see `deposit_address`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAddress {
    /// Where to send it.
    pub address: Account,
    /// The only chain on which it counts.
    pub chain_id: ChainId,
    /// What to send.
    pub asset_identifier: AssetId,
    /// How much at least, smallest unit, in one transfer or in several.
    pub amount: Amount,
    /// Up to when it is waited for.
    pub pay_by: Timestamp,
    /// What was there when the auction began, or when the payment had failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Amount>,
    /// The only account that money can go back to.
    pub refund_account: Account,
    /// The transfer as a link for wallets (EIP-681); on Solana without the amount, on Tron the address alone.
    pub uri: String,
    /// The contract that makes the address; on Solana the escrow's program.
    pub factory: Account,
    /// What the address commits to.
    pub terms: DepositAddressTerms,
}

/// What a deposit address commits to, by the gateway's word.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAddressTerms {
    /// The escrow.
    pub escrow: Account,
    /// The token.
    pub token: String,
    /// The least that is deposited.
    pub amount: Amount,
    /// What a payer who signs agrees to.
    pub deposit: CommittedDeposit,
}

/// The deposit that an address commits to, by the gateway's word. Times are UNIX seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedDeposit {
    /// keccak256 of the payment's id.
    pub payment_id: Hash32,
    /// Hash of the order's economics.
    pub terms_hash: Hash32,
    /// Zero: no quote is agreed to.
    pub quote_hash: Hash32,
    /// The refund account.
    pub payer: Account,
    /// Who admits the deposit and names the settler.
    pub reserver: Account,
    /// Who attests the delivery.
    pub releaser: Account,
    /// Last second in which the deposit can be made.
    pub reserve_deadline: u64,
    /// Last second of a delivery.
    pub fulfillment_deadline: u64,
    /// First second of a refund from the escrow.
    pub refund_after: u64,
}

/// Why a payment failed (spec 2.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable identity of the reason.
    pub code: String,
    /// For humans.
    pub message: String,
    /// Page that describes the code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub docs_url: Option<String>,
    /// What to do next, in the gateway's word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_classification: Option<String>,
    /// Only of a failure on chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blockchain_context: Option<BlockchainContext>,
}

impl Failure {
    /// What to do next. The payment is over, so the same request only finds it again.
    pub fn next(&self) -> Next {
        match self.retry_classification.as_deref().and_then(classification) {
            Some(RetryClassification::RetryAfterDelay | RetryClassification::RetryWithNewRequestId) => {
                Next::NewRequestId
            }
            Some(RetryClassification::NotRetryableFixRequest) => Next::FixRequest,
            Some(RetryClassification::NotRetryable) => Next::GiveUp,
            Some(RetryClassification::ReconcileThenDecide) => Next::Reconcile,
            None => Next::Unclassified,
        }
    }
}

/// Everything that happened to a payment.
#[derive(Debug, Clone, Deserialize)]
pub struct Timeline {
    /// Its id.
    pub payment_id: PaymentId,
    /// Where it stands.
    pub status: Status,
    /// Whether nothing more will happen: the money is with the settler, or back with the payer.
    pub at_rest: bool,
    /// In their order.
    pub entries: Vec<Entry>,
}

impl Timeline {
    /// The last entry of this event.
    pub fn last(&self, event: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.event == event)
    }
}

/// One thing that happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entry {
    /// What a stream goes on from.
    pub id: String,
    /// Type of the event, such as `EscrowSecured`.
    pub event: String,
    /// When it was recorded.
    pub at: Timestamp,
    /// The payment's status from then on.
    pub status: Status,
    /// For humans.
    pub summary: String,
    /// Transactions by stage, and whatever else there is.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Entry {
    /// A transaction by its stage.
    pub fn transaction(&self, stage: &str) -> Option<&str> {
        self.more.get("transactions")?.get(stage)?.get("transaction_hash")?.as_str()
    }
}

/// A quote-request batch.
#[derive(Debug, Clone, Deserialize)]
pub struct Batch {
    /// Its id.
    pub quote_request_id: QuoteRequestId,
    /// `collecting`, `ready`, `awarded` or `expired`.
    pub status: String,
    /// Who pays.
    pub source: OwnedAsset,
    /// Where it may be delivered.
    pub destination: Vec<OwnedAsset>,
    /// What arrives, smallest unit.
    pub fulfillment_amount: Amount,
    /// The most that may be spent.
    #[serde(default)]
    pub max_source_amount: Option<Amount>,
    /// The batch's own deadlines, which an award is signed for.
    pub quote_deadline: Timestamp,
    /// See `quote_deadline`.
    pub fulfillment_deadline: Timestamp,
    /// There once it is `ready`.
    #[serde(default)]
    pub quotes: Option<Vec<OfferedQuote>>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A quote of a batch.
#[derive(Debug, Clone, Deserialize)]
pub struct OfferedQuote {
    /// What the award names.
    pub quote_id: String,
    /// The document that the settler signed.
    pub fulfillment_quote: Value,
}

impl OfferedQuote {
    /// The quote, with its settler's signature verified.
    ///
    /// # Errors
    /// [`Mismatch`] when it is not a quote, or the signature does not hold.
    pub fn signed(&self) -> Result<SignedQuote, Error> {
        SignedQuote::parse(&self.fulfillment_quote.to_string())
            .map_err(|error| Mismatch::new("fulfillment_quote", "a quote that its settler signed", error).into())
    }

    /// Its hash, which the payer's signature for the award binds.
    ///
    /// # Errors
    /// As [`OfferedQuote::signed`].
    pub fn hash(&self) -> Result<Hash32, Error> {
        Ok(self.signed()?.hash())
    }

    /// What it costs, smallest unit of the source's asset.
    ///
    /// # Errors
    /// As [`OfferedQuote::signed`].
    pub fn price(&self) -> Result<Amount, Error> {
        Ok(self.signed()?.quote().source_amount)
    }
}

/// What a chain's transactions are named by, for those who look at it in an explorer.
pub fn chain_of(payment: &Payment, stage: &str) -> Option<ChainId> {
    payment.more.get("transactions")?.get(stage)?.get("chain_id")?.as_str()?.parse().ok()
}
