//! The NATS subjects of the protocol, and the streams and consumers behind them.

use std::fmt;

use events::{Hash32, PaymentId, SettlerToken, quote::reassignment_auction_of};

use super::is_token;

/// Stream of the awards.
pub const AWARDS_STREAM: &str = "AWARDS";
/// Subjects of all awards.
pub const AWARD_SUBJECTS: &str = "auction.award.*.*";
/// Most auctions in which another settler is looked for, in turn, for the escrow of one payment.
pub const REASSIGNMENTS_MAX: usize = 16;
/// Subjects of all reports.
pub const REPORT_SUBJECTS: &str = "auction.report.*.*";
/// Subjects of all registrations.
pub const REGISTRATION_SUBJECTS: &str = "$KV.settlers.*";

/// Under which a settler is asked for a quote.
pub fn rfq_subject(settler: &SettlerToken, auction_id: &str) -> String {
    format!("auction.rfq.{settler}.{auction_id}")
}

/// Under which a settler answers.
pub fn bid_subject(settler: &SettlerToken, auction_id: &str) -> String {
    format!("auction.bid.{settler}.{auction_id}")
}

/// Subjects of all bids of one settler.
pub fn own_bid_subjects(settler: &SettlerToken) -> String {
    format!("auction.bid.{settler}.*")
}

/// Subjects of all bids in one auction.
pub fn bid_subjects(auction_id: &str) -> String {
    format!("auction.bid.*.{auction_id}")
}

/// Subjects of all requests to one settler.
pub fn rfq_subjects(settler: &SettlerToken) -> String {
    format!("auction.rfq.{settler}.*")
}

/// Subjects of all awards of one settler.
pub fn award_subjects(settler: &SettlerToken) -> String {
    format!("auction.award.{settler}.*")
}

/// Under which a settler's award is stored; `award` is its [`AwardToken`].
pub fn award_subject(settler: &SettlerToken, award: impl Into<AwardToken>) -> String {
    format!("auction.award.{settler}.{}", award.into())
}

/// Under which a settler reports a delivery.
pub fn report_subject(settler: &SettlerToken, payment_id: &PaymentId) -> String {
    format!("auction.report.{settler}.{payment_id}")
}

/// Subjects of one settler's answers to its awards.
pub fn answer_subjects(settler: &SettlerToken) -> String {
    format!("auction.answer.{settler}.*")
}

/// Under which a settler answers an award: with the last token of the award's own subject.
pub fn answer_subject(settler: &SettlerToken, award: impl Into<AwardToken>) -> String {
    format!("auction.answer.{settler}.{}", award.into())
}

/// Under which a settler hears that an auction is over.
pub fn over_subject(settler: &SettlerToken, auction_id: &str) -> String {
    format!("auction.over.{settler}.{auction_id}")
}

/// Subjects of all that one settler hears of the ends of auctions.
pub fn over_subjects(settler: &SettlerToken) -> String {
    format!("auction.over.{settler}.*")
}

/// Under which a settler publishes its registration. The gateway makes a stream for it when it first hears of the settler.
pub fn registration_subject(settler: &SettlerToken) -> String {
    format!("$KV.settlers.{settler}")
}

/// Name of the durable consumer on [`AWARDS_STREAM`] from which a settler pulls its awards. The gateway creates it.
pub fn award_consumer(settler: &SettlerToken) -> String {
    format!("settler_{settler}")
}

/// The settler and the last token of a subject of the form `auction.{kind}.{settler}.{id}`.
pub fn split_subject<'a>(subject: &'a str, kind: &str) -> Option<(SettlerToken, &'a str)> {
    let rest = subject.strip_prefix("auction.")?.strip_prefix(kind)?.strip_prefix('.')?;
    let (settler, id) = rest.split_once('.')?;
    (!settler.is_empty() && is_token(id)).then(|| (SettlerToken::from_subject(settler), id))
}

/// Last token of the subjects of an award, of its end and of its answer: the payment's id, or, where the award is of an escrow that
/// is to be reassigned, the quote's hash. Of these a payment may have several, for one settler even, and nothing that is said of
/// one of them is taken for another's.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AwardToken(String);

impl AwardToken {
    /// The token of the award of a payment's first auction, or of a quote out of a batch.
    pub fn of_payment(payment_id: &PaymentId) -> Self {
        Self(payment_id.to_string())
    }

    /// The token of an award for an escrow that is to be reassigned.
    pub fn of_quote(quote_hash: Hash32) -> Self {
        Self(quote_hash.to_string())
    }

    /// The token of the award of the quote with this hash to `payment_id`, in an auction for an escrow that is to be reassigned or
    /// in another.
    pub fn of(payment_id: &PaymentId, quote_hash: Hash32, is_reassignment: bool) -> Self {
        if is_reassignment { Self::of_quote(quote_hash) } else { Self::of_payment(payment_id) }
    }

    /// The token `text`, if it may be that of an award of this quote to `payment_id`.
    pub fn parse(text: &str, payment_id: &PaymentId, quote_hash: Hash32) -> Option<Self> {
        let tokens = [Self::of_payment(payment_id), Self::of_quote(quote_hash)];
        tokens.into_iter().find(|token| token.0 == text)
    }
}

impl From<&PaymentId> for AwardToken {
    fn from(payment_id: &PaymentId) -> Self {
        Self::of_payment(payment_id)
    }
}

impl From<&AwardToken> for AwardToken {
    fn from(award: &AwardToken) -> Self {
        award.clone()
    }
}

impl fmt::Display for AwardToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether `auction_id` is that of an auction for the escrow of `payment_id`, whose reservation has lapsed.
pub fn is_reassignment_auction(auction_id: &str, payment_id: &PaymentId) -> bool {
    (1..=REASSIGNMENTS_MAX).any(|round| reassignment_auction_of(payment_id, round) == auction_id)
}

#[cfg(test)]
mod tests {
    use events::QuoteRequestId;

    use super::*;

    #[test]
    fn awards_of_one_payment_are_told_apart_once_it_has_several() {
        let (payment, other) = (PaymentId::derive("payer", "1"), PaymentId::derive("payer", "2"));
        let quotes = [Hash32([1; 32]), Hash32([2; 32])];
        let first = AwardToken::of(&payment, quotes[0], false);
        assert_eq!(first, AwardToken::of(&payment, quotes[1], false));
        let [one, two] = quotes.map(|quote| AwardToken::of(&payment, quote, true));
        assert!(one != two && one != first);
        for token in [&first, &one, &two] {
            assert!(is_token(&token.to_string()), "{token}");
        }
        assert_eq!(AwardToken::parse(&one.to_string(), &payment, quotes[0]), Some(one.clone()));
        assert_eq!(AwardToken::parse(&first.to_string(), &payment, quotes[0]), Some(first.clone()));
        assert_eq!(AwardToken::parse(&one.to_string(), &payment, quotes[1]), None);
        assert_eq!(AwardToken::parse(&first.to_string(), &other, quotes[0]), None);
    }

    #[test]
    fn the_auctions_of_an_escrow_are_known_by_its_payment() {
        let (payment, other) = (PaymentId::derive("payer", "1"), PaymentId::derive("payer", "2"));
        for round in [1, REASSIGNMENTS_MAX] {
            let auction = reassignment_auction_of(&payment, round);
            assert!(is_reassignment_auction(&auction, &payment) && !is_reassignment_auction(&auction, &other));
        }
        let batch = QuoteRequestId::derive("payer", "1").to_string();
        for auction in [reassignment_auction_of(&payment, REASSIGNMENTS_MAX + 1), payment.to_string(), batch] {
            assert!(!is_reassignment_auction(&auction, &payment));
        }
    }
}
