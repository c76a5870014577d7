//! Tables for bookkeeping: a payment a line, as CSV (RFC 4180) and as JSON lines.

use serde::Serialize;

use super::body::{OwnPaymentBody, OwnTransactionBody};

/// A form of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableFormat {
    /// `text/csv`.
    Csv,
    /// `application/x-ndjson`.
    JsonLines,
}

/// The columns of the CSV, in order. More may be added behind them.
pub const COLUMNS: [&str; 28] = [
    "payment_id",
    "request_id",
    "originator",
    "submitted_at",
    "finished_at",
    "status",
    "stage",
    "overdue",
    "failure_code",
    "source_account",
    "source_asset",
    "permitted_amount",
    "paid_amount",
    "refunded",
    "destination_account",
    "destination_asset",
    "destination_amount",
    "delivered",
    "rate_numerator",
    "rate_denominator",
    "settler",
    "verifier",
    "deposit_transaction",
    "reservation_transaction",
    "fulfillment_transaction",
    "release_transaction",
    "refund_transaction",
    "reassignment_transaction",
];

impl TableFormat {
    /// The media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::JsonLines => "application/x-ndjson",
        }
    }

    /// What the table begins with.
    pub fn head(self) -> Vec<u8> {
        match self {
            Self::Csv => record(COLUMNS),
            Self::JsonLines => Vec::new(),
        }
    }

    /// The line of a payment.
    pub fn line(self, payment: &OwnPaymentBody) -> Vec<u8> {
        match self {
            Self::Csv => record(cells(payment).iter().map(|cell| guarded(cell))),
            Self::JsonLines => json_line(payment),
        }
    }
}

fn cells(payment: &OwnPaymentBody) -> [String; COLUMNS.len()] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let hash = |transaction: &Option<OwnTransactionBody>| {
        transaction.as_ref().map(|transaction| transaction.transaction_hash.clone()).unwrap_or_default()
    };
    let (source, destination, rate) = (&payment.source, payment.destination.as_ref(), payment.rate.as_ref());
    let transactions = &payment.transactions;
    [
        payment.payment_id.to_string(),
        payment.request_id.clone(),
        payment.originator.clone(),
        payment.submitted_at.clone(),
        text(&payment.finished_at),
        payment.status.to_owned(),
        payment.stage.to_owned(),
        payment.overdue.as_ref().map(|overdue| overdue.step.to_owned()).unwrap_or_default(),
        text(&payment.failure_code),
        source.account.clone(),
        source.asset_identifier.to_string(),
        source.permitted_amount.to_string(),
        source.paid_amount.map(|amount| amount.to_string()).unwrap_or_default(),
        source.refunded.to_string(),
        destination.map(|destination| destination.account.clone()).unwrap_or_default(),
        destination.map(|destination| destination.asset_identifier.to_string()).unwrap_or_default(),
        destination.map(|destination| destination.amount.to_string()).unwrap_or_default(),
        destination.map(|destination| destination.delivered.to_string()).unwrap_or_default(),
        rate.map(|rate| rate.numerator.clone()).unwrap_or_default(),
        rate.map(|rate| rate.denominator.clone()).unwrap_or_default(),
        payment.settler.as_ref().map(ToString::to_string).unwrap_or_default(),
        payment.verifier.clone(),
        hash(&transactions.deposit),
        hash(&transactions.reservation),
        hash(&transactions.fulfillment),
        hash(&transactions.release),
        hash(&transactions.refund),
        hash(&transactions.reassignment),
    ]
}

/// A cell that no spreadsheet takes for a formula: one that begins as a formula does has an apostrophe before it, which
/// spreadsheets do not show (OWASP, CSV injection). Payers choose request ids, and settlers their DIDs.
fn guarded(cell: &str) -> String {
    let begins_formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    if begins_formula { format!("'{cell}") } else { cell.to_owned() }
}

fn record(cells: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    // Nothing is written to but memory, and every record is whole.
    writer.write_record(cells).ok().and_then(|()| writer.into_inner().ok()).unwrap_or_default()
}

fn json_line(payment: &impl Serialize) -> Vec<u8> {
    // Texts, numbers and flags have a JSON form, in which a line break is escaped.
    let mut line = serde_json::to_vec(payment).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula() {
        for formula in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "=HYPERLINK(\"x\",\"y\")"] {
            assert_eq!(guarded(formula), format!("'{formula}"));
        }
        for plain in ["", "order-1", "a=b", "eip155:1/erc20:0x00", "did:web:x", "2030-01-01T00:00:00.000Z", "100"] {
            assert_eq!(guarded(plain), plain);
        }
    }

    #[test]
    fn records_are_those_of_rfc_4180() {
        let record = |cells: &[&str]| String::from_utf8(record(cells)).unwrap();
        assert_eq!(record(&["a", "", "b c"]), "a,,b c\r\n");
        assert_eq!(record(&["a,b", "say \"x\"", "two\nlines"]), "\"a,b\",\"say \"\"x\"\"\",\"two\nlines\"\r\n");
        let head = String::from_utf8(TableFormat::Csv.head()).unwrap();
        assert_eq!(head, format!("{}\r\n", COLUMNS.join(",")));
    }
}
