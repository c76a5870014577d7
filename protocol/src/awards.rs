//! Wire protocol after an auction: the winner's answer to its award, and the notice that an auction or an award is
//! over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::IgnoredAny};

use events::{Did, Hash32, PaymentId, is_reason};

use super::{AwardNotice, Error, MESSAGE_BYTES_MAX, Message, Version, is_token, read};

/// Whether a winner stands by its quote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AwardDecision {
    /// It does: the tokens are held for this payment.
    Accept,
    /// It does not; `reason` says why.
    Refuse,
}

/// A winner's answer to its award, settler → gateway, as a request. The first that arrives in time counts and is final.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("if" = {"properties": {"word": {"const": "refuse"}}}, "then" = {"required": ["reason"]}, "else" = {"not": {"required": ["reason"]}}))]
pub struct AwardAnswer {
    /// Version of the protocol.
    pub version: Version,
    /// The payment.
    pub payment_id: PaymentId,
    /// Hash of the quote that was awarded.
    pub quote_hash: Hash32,
    /// Whether it stands by the quote.
    pub word: AwardDecision,
    /// Reason code of a refusal, SCREAMING_SNAKE_CASE; present exactly when it refuses.
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{0,127}$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Message for AwardAnswer {
    fn check(&self) -> Result<(), Error> {
        match (self.word, &self.reason) {
            (AwardDecision::Accept, None) => Ok(()),
            (AwardDecision::Refuse, Some(reason)) if is_reason(reason) => Ok(()),
            (AwardDecision::Refuse, Some(_)) => Err(Error::malformed("reason must be a code in SCREAMING_SNAKE_CASE")),
            _ => Err(Error::malformed("reason must be present exactly when the award is refused")),
        }
    }
}

/// What stands as the answer to an award.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    /// The settler stands by its quote: the deposit follows, or word that there is none.
    Accepted,
    /// The settler does not; the award is over.
    Refused,
    /// The time to answer was over before; the award is over.
    Withdrawn,
    /// No such award is stored for this settler, or it has ended.
    Unknown,
}

/// What the gateway answers to an [`AwardAnswer`]. Without it, answer again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwardReceipt {
    /// Version of the protocol.
    pub version: Version,
    /// The payment.
    pub payment_id: PaymentId,
    /// What stands, whatever this answer said.
    pub standing: AnswerStatus,
}

impl Message for AwardReceipt {}

/// Tells a winner that its award is over without a deposit or a reassignment, gateway → settler, durably: under the award's subject
/// and in its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AwardEnd {
    /// Version of the protocol.
    pub version: Version,
    /// The winner.
    pub settler: Did,
    /// The payment.
    pub payment_id: PaymentId,
    /// Hash of the quote that was awarded.
    pub quote_hash: Hash32,
    /// The auction that it won, whose tokens are free again; where it is absent, that of the payment.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,128}$"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auction_id: Option<String>,
    /// Why, a code: `AWARD_REFUSED`, `AWARD_UNANSWERED` or `NOT_DEPOSITED`.
    #[schemars(regex(pattern = "^[A-Z][A-Z0-9_]{0,127}$"))]
    pub ended: String,
}

impl Message for AwardEnd {
    fn check(&self) -> Result<(), Error> {
        if !is_reason(&self.ended) {
            return Err(Error::malformed("ended must be a code in SCREAMING_SNAKE_CASE"));
        }
        if self.auction_id.as_deref().is_some_and(|auction_id| !is_token(auction_id)) {
            return Err(Error::malformed("auction_id must be one token of a subject"));
        }
        Ok(())
    }
}

/// Tells a settler that an auction is over which it did not win, gateway → settler. A hint, sent once: a quote lapses by
/// itself, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuctionOver {
    /// Version of the protocol.
    pub version: Version,
    /// The auction.
    #[schemars(regex(pattern = "^[A-Za-z0-9_-]{1,128}$"))]
    pub auction_id: String,
}

impl Message for AuctionOver {
    fn check(&self) -> Result<(), Error> {
        if is_token(&self.auction_id) {
            return Ok(());
        }
        Err(Error::malformed("auction_id must be one token of a subject"))
    }
}

/// What lies under an award's subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AwardMessage {
    /// The award.
    Award(Box<AwardNotice>),
    /// Its end, in the award's place.
    End(AwardEnd),
}

impl AwardMessage {
    /// Reads what lies under an award's subject: with the member `ended` it is the end, else the award.
    ///
    /// # Errors
    /// As [`read`].
    pub fn read(payload: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Probe {
            #[serde(default)]
            ended: Option<IgnoredAny>,
        }
        if payload.len() > MESSAGE_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let probe: Probe = serde_json::from_slice(payload).map_err(|error| Error::Malformed(error.to_string()))?;
        match probe.ended {
            Some(_) => read(payload).map(Self::End),
            None => read(payload).map(|notice| Self::Award(Box::new(notice))),
        }
    }

    /// The payment and the hash of the quote in what [`AwardMessage::read`] cannot read, for a refusal that tells the gateway
    /// at once what it would otherwise learn from silence; `None` when not even they can be read.
    pub fn awarded(payload: &[u8]) -> Option<(PaymentId, Hash32)> {
        #[derive(Deserialize)]
        struct Probe {
            payment_id: PaymentId,
            quote_hash: Hash32,
        }
        let is_bounded = payload.len() <= MESSAGE_BYTES_MAX;
        let probe: Option<Probe> = is_bounded.then(|| serde_json::from_slice(payload).ok()).flatten();
        probe.map(|Probe { payment_id, quote_hash }| (payment_id, quote_hash))
    }

    /// Hash of the quote that was awarded.
    pub fn quote_hash(&self) -> Hash32 {
        match self {
            Self::Award(notice) => notice.quote_hash,
            Self::End(end) => end.quote_hash,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_award_that_cannot_be_read_still_says_whose_it_is() {
        let (payment_id, quote_hash) = (PaymentId::derive("payer", "award-1"), Hash32([7; 32]));
        let unreadable = json!({
            "version": "1.0", "payment_id": payment_id, "quote_hash": quote_hash, "escrow": {"contract": "nobody's"},
        });
        let bytes = unreadable.to_string().into_bytes();
        assert!(AwardMessage::read(&bytes).is_err());
        assert_eq!(AwardMessage::awarded(&bytes), Some((payment_id.clone(), quote_hash)));
        let nameless = [
            json!({"payment_id": payment_id}),
            json!({"payment_id": "pay_1", "quote_hash": quote_hash}),
            json!({"payment_id": payment_id, "quote_hash": quote_hash, "quote": "x".repeat(MESSAGE_BYTES_MAX)}),
            json!("an award"),
        ];
        for message in nameless {
            assert_eq!(AwardMessage::awarded(message.to_string().as_bytes()), None);
        }
    }
}
