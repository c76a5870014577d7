//! Wire protocol of gateways, settlers and verifiers: JSON messages and the NATS subjects they travel under.
//!
//! Members are snake_case; amounts and times are strings, because JSON numbers lose precision; members a reader does
//! not know are ignored. Times of the auction are RFC 3339; the escrow's windows are UNIX seconds in decimal, as the
//! contract holds them. A settler's subjects carry its [token](events::Did::token), and nats.conf ties each user to its
//! own.
//!
//! These types are the wire form only; both sides convert them into their own types at the edge. A settler or a verifier
//! needs this crate and `events`; whoever works in another language has the documents of `protocol/`.

pub mod message_signature;
pub mod selection;

mod attestation;
mod awards;
mod subjects;
mod text;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use events::{
    Account, Amount, AssetId, ChainId, Did, Hash32, Payload, PaymentId, Terms, VerifierSet,
    event::{EscrowPlan, VerifierRef},
    is_reason,
    time::Timestamp,
};

pub use self::{
    attestation::{
        AttestationRequest, AttestationResponse, AttestationStatus, DELIVERY_ATTESTATION_PATH,
        NON_DELIVERY_ATTESTATION_PATH,
    },
    awards::{AnswerStatus, AuctionOver, AwardAnswer, AwardDecision, AwardEnd, AwardMessage, AwardReceipt},
    subjects::{
        AWARD_SUBJECTS, AWARDS_STREAM, AwardToken, REASSIGNMENTS_MAX, REGISTRATION_SUBJECTS, REPORT_SUBJECTS,
        answer_subject, answer_subjects, award_consumer, award_subject, award_subjects, bid_subject, bid_subjects,
        is_reassignment_auction, over_subject, over_subjects, own_bid_subjects, registration_subject, report_subject,
        rfq_subject, rfq_subjects, split_subject,
    },
    text::{Seconds, Version},
};

/// Largest message either side reads, in bytes: twice a quote document, because quotes inside a JSON string double in
/// the worst case, and room for everything around it.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;
/// Most messages a settler may answer one request with, on one connection; the last one stands.
pub const BIDS_PER_REQUEST_MAX: usize = 8;
/// How long after a request a settler may answer it, in seconds. A settler that has not answered is asked again meanwhile.
pub const BID_SECONDS_MAX: u64 = 120;
/// Largest registration, in bytes.
pub const REGISTRATION_BYTES_MAX: usize = 48 * 1024;
/// Most corridors in a registration.
pub const CORRIDORS_MAX: usize = 256;
/// Most accounts in a registration.
pub const ACCOUNTS_MAX: usize = 64;
/// Most policies in a registration.
pub const POLICIES_MAX: usize = 64;
/// Most credentials in a registration.
pub const CREDENTIALS_MAX: usize = 16;
/// Longest auction id, policy or account, in characters.
pub const TEXT_CHARS_MAX: usize = 128;

/// A registration that is older does not count.
pub const REGISTRATION_TTL: Duration = Duration::from_secs(30);
/// How often a settler renews its registration.
pub const REGISTRATION_RENEWAL: Duration = Duration::from_secs(10);

/// Whether `text` may stand as one token of a subject.
pub fn is_token(text: &str) -> bool {
    (1..=TEXT_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-')
}

/// Why a message cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More than [`MESSAGE_BYTES_MAX`].
    #[error("message is larger than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge,
    /// Not JSON of the message's form.
    #[error("message is malformed: {0}")]
    Malformed(String),
}

impl Error {
    fn malformed(rule: &str) -> Self {
        Self::Malformed(rule.to_owned())
    }
}

/// A message with rules beyond its JSON form.
pub trait Message: Serialize + DeserializeOwned {
    /// Checks those rules.
    ///
    /// # Errors
    /// [`Error::Malformed`] names the rule.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// Reads a message.
///
/// # Errors
/// See [`Error`].
pub fn read<T: Message>(payload: &[u8]) -> Result<T, Error> {
    if payload.len() > MESSAGE_BYTES_MAX {
        return Err(Error::TooLarge);
    }
    let message: T = serde_json::from_slice(payload).map_err(|error| Error::Malformed(error.to_string()))?;
    message.check()?;
    Ok(message)
}

/// Writes a message.
pub fn write<T: Message>(message: &T) -> Vec<u8> {
    // Serialization cannot fail: the messages are strings, arrays and objects with string keys.
    let bytes = serde_json::to_vec(message).unwrap_or_default();
    debug_assert!(!bytes.is_empty());
    bytes
}

/// A settler's entry in the registry, renewed every [`REGISTRATION_RENEWAL`]. It counts while its age is below
/// [`REGISTRATION_TTL`] and only under the key that is its DID's token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    description = "A settler's entry in the registry. It counts for 30 seconds, under the key that is the token of \
                          its DID, and is renewed every 10."
)]
pub struct Registration {
    /// Version of the protocol.
    pub version: Version,
    /// Who registers.
    pub settler: Did,
    /// Its accounts on each chain.
    #[schemars(length(max = ACCOUNTS_MAX))]
    pub accounts: Vec<ChainAccounts>,
    /// What it trades.
    #[schemars(length(max = CORRIDORS_MAX))]
    pub corridors: Vec<Corridor>,
    /// Names of the policies it states to hold.
    #[schemars(length(max = POLICIES_MAX), inner(length(max = TEXT_CHARS_MAX)))]
    #[serde(default)]
    pub policies: Vec<String>,
    /// W3C credentials (data model 1.1) about its DID, by which it holds policies. What policies it states to hold is
    /// for itself; what counts are these.
    #[schemars(length(max = CREDENTIALS_MAX))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Map<String, Value>>,
    /// Whether it delivers out of escrows that are reassigned to it, see [`Escrowed`], and out of those that hold more than its price.
    /// Whoever does not say so, as settlers of an older version do not, is not asked for the first, and gets none of the second.
    #[serde(default)]
    pub follows_reassignments: bool,
}

/// A settler's accounts on one chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChainAccounts {
    /// The chain.
    pub chain_id: ChainId,
    /// Where the escrow pays it.
    #[schemars(length(max = TEXT_CHARS_MAX))]
    pub payout_account: String,
    /// Where it delivers from.
    #[schemars(length(max = TEXT_CHARS_MAX))]
    pub delivery_account: String,
}

/// A pair of assets that a settler trades; both name their chain (CAIP-19).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Corridor {
    /// What the payer spends.
    pub source_asset: AssetId,
    /// What is delivered.
    pub destination_asset: AssetId,
}

impl Message for Registration {
    fn check(&self) -> Result<(), Error> {
        if self.corridors.len() > CORRIDORS_MAX {
            return Err(Error::malformed("too many corridors"));
        }
        if self.accounts.len() > ACCOUNTS_MAX {
            return Err(Error::malformed("too many accounts"));
        }
        if self.policies.len() > POLICIES_MAX || self.policies.iter().any(|name| name.len() > TEXT_CHARS_MAX) {
            return Err(Error::malformed("too many policies, or too long a name"));
        }
        if self.credentials.len() > CREDENTIALS_MAX {
            return Err(Error::malformed("too many credentials"));
        }
        let too_long = |account: &String| account.len() > TEXT_CHARS_MAX;
        if self.accounts.iter().any(|held| too_long(&held.payout_account) || too_long(&held.delivery_account)) {
            return Err(Error::malformed("an account is too long"));
        }
        Ok(())
    }
}

/// The escrow of a payment and its windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Escrow {
    /// The source chain.
    pub chain_id: ChainId,
    /// The escrow contract.
    pub contract: Account,
    /// Account that signs reservations.
    pub reserver: Account,
    /// Account that attests delivery and non-delivery.
    pub releaser: Account,
    /// Last second in which the deposit may be made, and so in which a settler is named first.
    pub reserve_deadline: Seconds,
    /// Last second in which a delivery counts.
    pub fulfillment_deadline: Seconds,
    /// First second from which anyone may trigger the refund.
    pub refund_after: Seconds,
}

impl Escrow {
    /// Checks that its accounts are accounts of its chain: as they come, only their form says whose they are.
    fn check(&self) -> Result<(), Error> {
        let mut accounts = [&self.contract, &self.reserver, &self.releaser].into_iter();
        if accounts.all(|account| self.is_of_its_family(account)) {
            return Ok(());
        }
        Err(Error::malformed("contract, reserver and releaser of the escrow must be accounts of its chain's family"))
    }

    fn is_of_its_family(&self, account: &Account) -> bool {
        self.chain_id.family() == Some(account.family())
    }
}

impl From<&EscrowPlan> for Escrow {
    fn from(plan: &EscrowPlan) -> Self {
        Self {
            chain_id: plan.chain_id.clone(),
            contract: plan.contract.clone(),
            reserver: plan.reserver.clone(),
            releaser: plan.releaser.clone(),
            reserve_deadline: Seconds(plan.reserve_deadline),
            fulfillment_deadline: Seconds(plan.fulfillment_deadline),
            refund_after: Seconds(plan.refund_after),
        }
    }
}

impl From<Escrow> for EscrowPlan {
    fn from(escrow: Escrow) -> Self {
        Self {
            chain_id: escrow.chain_id,
            contract: escrow.contract,
            reserver: escrow.reserver,
            releaser: escrow.releaser,
            reserve_deadline: escrow.reserve_deadline.0,
            fulfillment_deadline: escrow.fulfillment_deadline.0,
            refund_after: escrow.refund_after.0,
        }
    }
}

/// Money that is in escrow already, reserved for a quote whose settler did not deliver in the time that it promised. The escrow is
/// reassigned to the winner once it has accepted its award. Until then nothing may be delivered for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Escrowed {
    /// What is in escrow, smallest unit of the source asset: no quote may ask for more.
    pub amount: Amount,
    /// Hash of the quote that it is reserved for until it is reassigned.
    pub reserved_for: Hash32,
}

/// A request for quotes, gateway → settler. It may come more than once and is answered each time with the same quote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rfq {
    /// Version of the protocol.
    pub version: Version,
    /// The auction: bears the id of the payment, or of the quote-request batch; with `escrowed` an id of its own, `qrq_` and the hash
    /// of the payment's id and the auction's number.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,128}$"))]
    pub auction_id: String,
    /// The payment; absent in a batch, whose payment comes about with the award.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payment_id: Option<PaymentId>,
    /// What is asked for, in the form whose hash is `terms_hash`.
    pub terms: Terms,
    /// SHA-256 of the canonical terms.
    pub terms_hash: Hash32,
    /// The escrow and its windows.
    pub escrow: Escrow,
    /// Proxy of each destination, in the order of the terms' destinations.
    pub fulfillment_proxies: Vec<Account>,
    /// End of quote collection.
    pub quote_deadline: Timestamp,
    /// Final completion deadline.
    pub fulfillment_deadline: Timestamp,
    /// Policies a settler must hold to win.
    #[serde(default)]
    pub required_policies: Vec<String>,
    /// Payloads of the payer's signed messages, in their order; at most 8 KiB together. None in a batch, which nobody has
    /// signed for yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<Payload>,
    /// What is in escrow already, where another settler is looked for in the place of one that did not deliver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrowed: Option<Escrowed>,
}

impl Message for Rfq {
    fn check(&self) -> Result<(), Error> {
        if !is_token(&self.auction_id) {
            return Err(Error::malformed("auction_id must be one token of a subject"));
        }
        let destinations = self.terms.destination();
        if self.fulfillment_proxies.len() != destinations.len() {
            return Err(Error::malformed("there must be as many proxies as destinations"));
        }
        let mut proxies = self.fulfillment_proxies.iter().zip(destinations);
        if proxies.any(|(proxy, destination)| proxy.family() != destination.family()) {
            return Err(Error::malformed("each proxy must be an account of its destination's chain family"));
        }
        if self.terms.hash() != self.terms_hash {
            return Err(Error::malformed("terms_hash is not the hash of the terms"));
        }
        if self.escrow.chain_id != *self.terms.source.asset().chain() {
            return Err(Error::malformed("the escrow must be on the source chain"));
        }
        self.escrow.check()
    }
}

/// An answer to a [`Rfq`], settler → gateway: exactly one of `quote` and `decline`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    description = "An answer to a request for quotes: exactly one of `quote` and `decline`.",
    extend("oneOf" = [{"required": ["quote"]}, {"required": ["decline"]}])
)]
pub struct Bid {
    /// Version of the protocol.
    pub version: Version,
    /// The signed quote document, as JSON text.
    #[schemars(length(max = events::quote::DOCUMENT_BYTES_MAX))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quote: Option<String>,
    /// Reason code of a decline, SCREAMING_SNAKE_CASE.
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{0,127}$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decline: Option<String>,
}

impl Bid {
    /// A bid that offers.
    pub fn quote(document: impl Into<String>) -> Self {
        Self { version: Version, quote: Some(document.into()), decline: None }
    }

    /// A bid that declines.
    pub fn decline(reason: impl Into<String>) -> Self {
        Self { version: Version, quote: None, decline: Some(reason.into()) }
    }
}

impl Message for Bid {
    fn check(&self) -> Result<(), Error> {
        match (&self.quote, &self.decline) {
            (Some(document), None) if document.len() > events::quote::DOCUMENT_BYTES_MAX => {
                Err(Error::malformed("the quote is too large"))
            }
            (Some(_), None) => Ok(()),
            (None, Some(reason)) if is_reason(reason) => Ok(()),
            (None, Some(_)) => Err(Error::malformed("decline must be a reason code in SCREAMING_SNAKE_CASE")),
            _ => Err(Error::malformed("there must be exactly one of quote and decline")),
        }
    }
}

/// Who attests the delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Verifier {
    /// The account it signs attestations with, or the id of the set.
    pub account: Account,
    /// The origin it is reached at, no path; the first member's of a set.
    pub endpoint: String,
    /// The set, where more than one verifier may attest: threshold and members, whose hash `account` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<VerifierSet>,
}

impl From<&VerifierRef> for Verifier {
    fn from(verifier: &VerifierRef) -> Self {
        let VerifierRef { account, endpoint, set } = verifier.clone();
        Self { account, endpoint, set }
    }
}

impl From<Verifier> for VerifierRef {
    fn from(verifier: Verifier) -> Self {
        let Verifier { account, endpoint, set } = verifier;
        Self { account, endpoint, set }
    }
}

/// Tells the winner, gateway → settler, durably. The settler answers at once, see [`AwardAnswer`], under the last token of the
/// award's subject, and delivers once the escrow holds its reservation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwardNotice {
    /// Version of the protocol.
    pub version: Version,
    /// The winner.
    pub settler: Did,
    /// The payment.
    pub payment_id: PaymentId,
    /// Preimage of the `termsHash` in the escrow.
    pub terms: Terms,
    /// The escrow and its windows.
    pub escrow: Escrow,
    /// The winning quote, as it came.
    pub quote: String,
    /// Its hash.
    pub quote_hash: Hash32,
    /// Who attests the delivery.
    pub verifier: Verifier,
    /// Payloads of the payer's signed messages, in their order; at most 8 KiB together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payloads: Vec<Payload>,
    /// What is in escrow already, to be reassigned to this winner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub escrowed: Option<Escrowed>,
}

impl Message for AwardNotice {
    fn check(&self) -> Result<(), Error> {
        if !self.escrow.is_of_its_family(&self.verifier.account) {
            return Err(Error::malformed("the verifier's account must be of the family of the escrow's chain"));
        }
        if self.verifier.set.as_ref().is_some_and(|set| set.id().as_ref() != Some(&self.verifier.account)) {
            return Err(Error::malformed("the verifier's account must be the id of its set"));
        }
        self.escrow.check()
    }
}

/// A hint that a delivery was made, settler → gateway. The chain alone is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Version of the protocol.
    pub version: Version,
    /// The payment.
    pub payment_id: PaymentId,
    /// The delivery's transaction.
    #[schemars(length(max = TEXT_CHARS_MAX))]
    pub transaction_hash: String,
}

impl Message for Report {
    fn check(&self) -> Result<(), Error> {
        if self.transaction_hash.len() > TEXT_CHARS_MAX {
            return Err(Error::malformed("transaction_hash is too long"));
        }
        Ok(())
    }
}
