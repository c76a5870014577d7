//! The NATS subjects of the protocol, and the streams and consumers behind them.

use events::{PaymentId, SettlerToken};

use super::is_token;

/// Stream of the awards.
pub const AWARDS_STREAM: &str = "AWARDS";
/// Subjects of all awards.
pub const AWARD_SUBJECTS: &str = "auction.award.*.*";
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

/// Under which a settler's award is stored.
pub fn award_subject(settler: &SettlerToken, payment_id: &PaymentId) -> String {
    format!("auction.award.{settler}.{payment_id}")
}

/// Under which a settler reports a delivery.
pub fn report_subject(settler: &SettlerToken, payment_id: &PaymentId) -> String {
    format!("auction.report.{settler}.{payment_id}")
}

/// Subjects of one settler's answers to its awards.
pub fn answer_subjects(settler: &SettlerToken) -> String {
    format!("auction.answer.{settler}.*")
}

/// Under which a settler answers an award.
pub fn answer_subject(settler: &SettlerToken, payment_id: &PaymentId) -> String {
    format!("auction.answer.{settler}.{payment_id}")
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
