//! Payment view: one payment as it is shown, a fold over its own events.

mod award;
mod fold;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::award::AwardProgress;
pub(crate) use self::award::AwardStep;

use events::{
    Account, Amount, ChainId, Did, Failure, Hash32, OwnedAsset, PaymentId, QuoteRequestId,
    event::{Claim, Decline, DepositAddress, EscrowPlan, Inclusion, TransactionPrepared, VerifierRef},
    time::Timestamp,
};

/// The status shown to the payer (spec 3.1). `Completed` and `Failed` never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaymentStatus {
    /// Accepted and in progress; nothing has reached the recipient.
    Pending,
    /// The delivery is on chain and accrues the confirmations its chain requires.
    Finalizing,
    /// Delivered at the required depth.
    Completed,
    /// Did not complete; whatever was in escrow goes back to the payer.
    Failed,
}

impl PaymentStatus {
    /// Whether the status is final.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed)
    }

    /// The status as the contract writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Finalizing => "finalizing",
            Self::Completed => "completed",
            Self::Failed => "failed",
        }
    }
}

/// A transaction of one stage (spec 2.7): the attempt that succeeded, or the last one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// The chain.
    pub chain_id: ChainId,
    /// The transaction.
    pub transaction_hash: String,
    /// Its block (slot on Solana); absent until it is known to be mined.
    pub block_number: Option<u64>,
}

impl From<&TransactionPrepared> for Transaction {
    fn from(prepared: &TransactionPrepared) -> Self {
        Self {
            chain_id: prepared.chain_id.clone(),
            transaction_hash: prepared.transaction_hash.clone(),
            block_number: None,
        }
    }
}

impl From<&Inclusion> for Transaction {
    fn from(inclusion: &Inclusion) -> Self {
        Self {
            chain_id: inclusion.chain_id.clone(),
            transaction_hash: inclusion.transaction_hash.clone(),
            block_number: Some(inclusion.block_number),
        }
    }
}

/// The quote that won.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwardedQuote {
    /// Its id.
    pub quote_id: String,
    /// Its hash, as committed on chain.
    pub quote_hash: Hash32,
    /// The signed document as it came, JSON.
    pub document: String,
}

/// A quote that its settler did not deliver for in time, while the escrow was reserved for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LapsedQuote {
    /// The settler.
    pub settler: Did,
    /// Its quote's id.
    pub quote_id: String,
    /// Its quote's hash, as committed on chain until the escrow is reassigned.
    pub quote_hash: Hash32,
}

/// An escrow whose reservation lapsed, and that is to be reassigned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reopened {
    /// When the reservation was found to have lapsed.
    pub since: Timestamp,
    /// The quote that the escrow is reserved for until it is reassigned.
    pub quote: Option<AwardedQuote>,
    /// Whether a quote won in its place.
    pub is_awarded: bool,
}

/// The seconds, UNIX, at which the payment's escrow closes one door and opens the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Windows {
    /// Last second in which the deposit may be made.
    pub reserve_deadline: u64,
    /// Last second in which a delivery counts.
    pub fulfillment_deadline: u64,
    /// First second from which anyone may trigger the refund.
    pub refund_after: u64,
}

impl From<&EscrowPlan> for Windows {
    fn from(plan: &EscrowPlan) -> Self {
        Self {
            reserve_deadline: plan.reserve_deadline,
            fulfillment_deadline: plan.fulfillment_deadline,
            refund_after: plan.refund_after,
        }
    }
}

/// A refund that is due after a failure, or because a delivery was not attested in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundOwed {
    /// Since when: when the payment failed, or the attestation was missed.
    pub since: Timestamp,
    /// Whether the refund has to wait for its window. If not, the releaser's signed non-delivery allows it at once.
    pub after_window: bool,
}

/// How many settlers declined for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclineCount {
    /// SCREAMING_SNAKE_CASE reason code.
    pub reason: String,
    /// Settlers whose most recent answer was this.
    pub count: u64,
}

impl DeclineCount {
    /// The declines by reason, in order of the reasons. A settler that answered more than once counts under its last
    /// reason (spec 2.11).
    pub fn of(declines: &[Decline]) -> Vec<Self> {
        let latest: BTreeMap<_, _> = declines.iter().map(|decline| (&decline.settler, &decline.reason)).collect();
        let mut counts = BTreeMap::<&String, u64>::new();
        for reason in latest.into_values() {
            *counts.entry(reason).or_default() += 1;
        }
        counts.into_iter().map(|(reason, count)| Self { reason: reason.clone(), count }).collect()
    }
}

/// The confirmation of a completed payment (spec 2.8), apart from its ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirmation<'a> {
    /// The deposit on the source chain.
    pub source: &'a Transaction,
    /// The delivery on the destination chain, in its settled block.
    pub destination: &'a Transaction,
    /// The time of the block that holds the delivery.
    pub fulfillment_timestamp: Option<Timestamp>,
}

/// What [`PaymentView::apply`] did with a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The commit was the next one and is in the view now.
    Next,
    /// The view holds the commit already, or the commit is another payment's; nothing was changed.
    Skipped,
    /// A commit between the view and this one is missing; nothing was changed.
    Gap,
}

/// Everything the HTTP responses show of a payment (spec 2.6, 2.11), and where its stream stood.
///
/// Its serde form is the one that is stored, and no wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PaymentView {
    /// The payment.
    pub payment_id: PaymentId,
    /// The caller's idempotency key.
    pub request_id: String,
    /// Who asked.
    pub originator: String,
    /// The asset and account that pay; what tells `REQUEST_ID_TAKEN` from `IDEMPOTENCY_TERMS_MISMATCH`.
    pub source: OwnedAsset,
    /// Hash of the economics, equal exactly when a retry is a replay.
    pub terms_hash: Hash32,
    /// When it was submitted, by the clock of the gateway that took it.
    pub submitted_at: Timestamp,
    /// The status.
    pub status: PaymentStatus,
    /// When the last commit that changed anything shown here was stored.
    pub updated_at: Timestamp,
    /// The batch that the payment was awarded from; its auction and its declines are the batch's (spec 2.11).
    pub quote_request_id: Option<QuoteRequestId>,
    /// Settlers the auction was broadcast to; absent until it closed, and for a payment out of a batch.
    pub requested_count: Option<u64>,
    /// Declines by reason, in order of the reasons; absent until the auction closed, and for a payment out of a batch.
    pub declines: Option<Vec<DeclineCount>>,
    /// The awarded quote: the last that won, or once a payment failed the one that its escrow is reserved for.
    pub quote: Option<AwardedQuote>,
    /// How far the winner is with its award; absent before there is one.
    pub award: Option<AwardProgress>,
    /// The transaction that commits the payer's funds; the payer's own where that deposits.
    pub deposit: Option<Transaction>,
    /// The buyer's transfer to the address of the merchant's offer, once it was sent; only what stock clients of x402 sign on Solana has one
    /// (ADR 160).
    pub transfer: Option<Box<Transaction>>,
    /// The transaction that reserves the payer's own deposit for the settler; absent where the deposit does.
    pub reservation: Option<Transaction>,
    /// The transaction that reserves the escrow for another settler, the last of them; absent where the first delivers.
    pub reassignment: Option<Transaction>,
    /// The reservations of the escrow that lapsed, in order (ADR 148).
    pub lapsed: Vec<LapsedQuote>,
    /// What the escrow is reserved for while another settler is looked for in the place of one that did not deliver.
    pub reopened: Option<Reopened>,
    /// The transaction that pays the recipient. Its block is provisional while `finalizing`, settled once `completed`.
    pub fulfillment: Option<Transaction>,
    /// The time of the block that holds the settled delivery.
    pub fulfilled_at: Option<Timestamp>,
    /// Who attests the delivery.
    #[serde(with = "as_json")]
    pub verifier: VerifierRef,
    /// Whether the delivery has its depth where it is shown, and is not attested.
    pub unattested: bool,
    /// The gateway's own transaction that pays the settler, and the one that did, whosever it was; absent while the settler
    /// is left to bring it.
    pub release: Option<Transaction>,
    /// Why the payment failed.
    #[serde(with = "as_json")]
    pub failure: Option<Failure>,
    /// The transaction that returns the payer's funds.
    pub refund: Option<Transaction>,
    /// What the escrow's token would not hand over when the escrow ended. Whether it was claimed since is the chain's to say.
    pub claims: Vec<Claim>,
    /// The escrow's contract.
    pub escrow_contract: String,
    /// The windows of the payment's escrow.
    pub windows: Windows,
    /// The most the payer's signature lets the escrow draw, smallest unit of the source asset.
    pub permitted: Amount,
    /// What was put in escrow, smallest unit of the source asset; absent until it is there at the required depth.
    pub escrowed: Option<Amount>,
    /// The hash of the payer's own transaction, where that deposits.
    pub own_deposit: Option<String>,
    /// The deposit address that the payer's money is sent to; absent where the payer signed.
    #[serde(with = "as_json")]
    pub deposit_address: Option<ShownAddress>,
    /// Whether money of the payment may lie outside of its escrow, at its deposit address or that of its batch.
    pub leaves_money_outside: bool,
    /// Whether the award was taken back, and the winner is yet to be told.
    pub winner_untold: bool,
    /// Whether the payment failed without proof that the payer's own transaction can't deposit, or that nothing is at its deposit
    /// address or that of its batch, and it is watched for that.
    pub watched: bool,
    /// When the payment failed.
    pub failed_at: Option<Timestamp>,
    /// The refund that is due; present from a failure with money in escrow on, and from a missed attestation.
    pub refund_owed: Option<RefundOwed>,
    /// Whether nothing is left for the engine to do: released, refunded, or failed before money moved and past the time in
    /// which it could.
    pub at_rest: bool,
    /// Commits in the view.
    pub version: u64,
    /// Stream sequence of the last of them.
    pub sequence: u64,
}

/// A deposit address, and what came there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShownAddress {
    /// The address, as it was given out.
    pub given: DepositAddress,
    /// What was there when enough was seen, or after a failure, smallest unit of the source asset.
    pub received: Option<Amount>,
    /// Account that signs reservations, to which the address commits, too.
    pub reserver: Account,
}

/// Values whose types leave absent members out, which postcard cannot read back, as JSON text.
pub(crate) mod as_json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, de::DeserializeOwned, ser};

    pub fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::to_string(value).map_err(ser::Error::custom)?.serialize(serializer)
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
pub(crate) mod test_support {
    use events::{Hash32, OwnedAsset, PaymentEvent, PaymentId, Terms, event::*};

    /// A submission with nothing special about it.
    pub(crate) fn submission(payment_id: &PaymentId) -> PaymentEvent {
        let account = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        let owned = |asset: &str| OwnedAsset::new(asset.parse().unwrap(), account).unwrap();
        let amount = || "100".parse().unwrap();
        let terms = Terms::new(owned("eip155:1/slip44:60"), vec![owned("eip155:10/slip44:60")], amount(), None);
        let now = chrono::Utc::now();
        PaymentEvent::Submitted(Box::new(Submitted {
            payment_id: payment_id.clone(),
            request_id: "order-1".to_owned(),
            originator: format!("eip155:{account}"),
            terms_hash: terms.hash(),
            quote_deadline: now,
            fulfillment_deadline: now,
            authorization: Authorization::EvmPermit2Escrow(Permit2 {
                amount: amount(),
                nonce: Hash32::ZERO,
                deadline: 0,
                quote_hash: Hash32::ZERO,
                signature: String::new(),
                allowance: None,
            }),
            escrow: EscrowPlan {
                chain_id: terms.source.asset().chain().clone(),
                contract: account.parse().unwrap(),
                reserver: account.parse().unwrap(),
                releaser: account.parse().unwrap(),
                reserve_deadline: 0,
                fulfillment_deadline: 0,
                refund_after: 0,
            },
            fulfillment_proxies: vec![account.parse().unwrap()],
            verifier: VerifierRef::single(account.parse().unwrap(), "https://verifier.example".to_owned()),
            whitelist: Vec::new(),
            blacklist: Vec::new(),
            required_policies: Vec::new(),
            collected_quote: None,
            selector: None,
            counterparty: None,
            identities: Vec::new(),
            submitted_at: now,
            request: "{}".to_owned(),
            terms,
        }))
    }
}
