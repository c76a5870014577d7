//! The table of metrics: every name that any role gives to Prometheus, with its kind, its labels and what it means.
//!
//! `docs/operators-metrics.md` has the same table, which a test compares. Who counts something names it by the same text: a
//! series whose name is not in this table has no description, and the end-to-end test of metrics finds it.

/// What kind of metric it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// It only grows, from 0 at the start of the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Seconds, counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl Kind {
    /// As Prometheus names it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its labels, none of which holds anything that a stranger chooses.
    pub labels: &'static [&'static str],
    /// What is counted or measured, and in which unit: a sentence without a full stop.
    pub help: &'static str,
}

/// Requests and calls.
const CALL: Kind =
    Kind::Histogram(&[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]);
/// What the journal takes.
const APPEND: Kind =
    Kind::Histogram(&[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]);
/// Parts of a payment's way: from what is over at once to refunds that wait for their window.
const STAGE: Kind = Kind::Histogram(&[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0,
]);
/// Leases.
const LEASE: Kind = Kind::Histogram(&[0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 60.0, 300.0, 3_600.0]);

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: Kind::Gauge, labels, help }
}

const fn seconds(name: &'static str, kind: Kind, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

/// Every metric there is, in the order in which the manual has them.
pub const TABLE: &[Metric] = &[
    gauge("gw_build_info", &["version"], "1, for the version that runs"),
    // A gateway as a whole.
    gauge("gw_ready", &[], "1 while the gateway can take payments, as /readyz says"),
    gauge("gw_paused", &[], "1 while an operator lets no gateway accept anything new"),
    gauge("gw_alarms", &[], "Alarms of /readyz that stand"),
    // Its HTTP API.
    counter(
        "gw_http_requests_total",
        &["route", "method", "status"],
        "Requests answered, by the route's path, other for paths that no route has",
    ),
    seconds("gw_http_request_seconds", CALL, &["route"], "Time to the head of an answer, holds included, seconds"),
    counter("gw_refusals_total", &["code"], "Requests refused, by error code"),
    gauge("gw_permits_in_use", &["lane"], "Permits of a bulkhead that are taken"),
    counter("gw_permits_refused_total", &["lane"], "Requests that got no permit of a bulkhead"),
    // Its console.
    counter("gw_console_refused_tokens_total", &[], "Requests of the operators' console without an operator's token"),
    // Payments.
    counter("gw_payments_total", &["event"], "Payments that reached this, each once"),
    counter("gw_payment_failures_total", &["code"], "Payments that failed, by the code of their failure"),
    seconds("gw_stage_seconds", STAGE, &["stage"], "How long a part of a payment's way took, by the journal, seconds"),
    gauge("gw_payments_open", &["stage"], "Payments not at rest in the shards that this gateway drives"),
    gauge("gw_payments_overdue", &[], "Of these, payments whose money is past its time"),
    gauge("gw_payments_parked", &[], "Payments and batches of these shards that wait for an operator's replay"),
    gauge("gw_payments_unattested", &[], "Of these, deliveries that nobody attests, with their refund window near"),
    seconds("gw_payment_seconds", STAGE, &[], "From a payment's submission to its completion, by the journal, seconds"),
    counter("gw_auctions_total", &["outcome"], "Auctions that closed, of payments and of quote-requests"),
    counter("gw_bids_total", &["kind"], "Answers of settlers in auctions that closed"),
    counter(
        "gw_settlers_passed_over_total",
        &[],
        "Settlers not asked in an auction because of what they missed before",
    ),
    counter("gw_awards_total", &["answer"], "Awards, by the winner's answer"),
    counter("gw_awards_replaced_total", &["answer"], "Of these, awards after which the next quote was awarded"),
    counter(
        "gw_reservations_lapsed_total",
        &[],
        "Escrows whose settlers did not deliver in time, after which another was looked for",
    ),
    counter("gw_reassignments_total", &["outcome"], "What came of these"),
    // Verifiers.
    counter("gw_verifier_asks_total", &["verifier", "answer"], "Asks of verifiers, by what became of them"),
    seconds("gw_verifier_ask_seconds", CALL, &["verifier"], "How long an ask of a verifier took, seconds"),
    // Transactions.
    counter("gw_transactions_total", &["chain", "leg", "outcome"], "The gateway's transactions, by what came of them"),
    counter(
        "gw_gas_spent_total",
        &["chain", "leg", "outcome"],
        "What they used up: gas on EVM chains, compute units on Solana, energy on Tron",
    ),
    counter("gw_fees_spent_total", &["chain", "leg"], "What they cost, in the smallest unit of the chain's coin"),
    gauge("gw_nonces_in_flight", &["chain", "account"], "Nonces given out whose transactions are not final"),
    gauge("gw_submitter_balance", &["chain", "account"], "Coins of a submitter, in whole ones"),
    // Chains.
    gauge("gw_chain_head", &["chain"], "Number of the newest block that was seen, slot on Solana"),
    gauge("gw_chain_settled", &["chain"], "Number of the newest settled block, slot on Solana"),
    gauge("gw_chain_ready", &["chain"], "1 while new payments may go through the chain, as /readyz says"),
    counter("gw_node_calls_total", &["chain", "node", "outcome"], "Calls of nodes"),
    seconds("gw_node_call_seconds", CALL, &["chain", "node"], "How long a call of a node took, seconds"),
    gauge(
        "gw_node_lag_blocks",
        &["chain", "node"],
        "Blocks by which a node's newest block was behind the newest of any, when it was last heard",
    ),
    gauge(
        "gw_node_up",
        &["chain", "node"],
        "0 when a node's last call got no answer, or showed another chain or a refused key, else 1",
    ),
    counter("gw_node_disagreements_total", &["chain", "node"], "Answers of a node that others contradict"),
    // Journal and read models.
    seconds("gw_journal_append_seconds", APPEND, &[], "How long an append took, whatever came of it, seconds"),
    counter("gw_journal_appends_total", &["outcome"], "Appends, by what came of them"),
    gauge("gw_leases_held", &[], "Shards that this gateway drives"),
    seconds("gw_lease_seconds", LEASE, &[], "How long a shard was competed for until its lease was won, seconds"),
    gauge("gw_shards", &[], "Shards of the journal that are not sealed, each of which a gateway drives"),
    gauge("gw_read_model_lag", &["shard"], "Messages of a shard that are known and not in the read models yet"),
    gauge("gw_nats_connected", &[], "1 while NATS is connected"),
    // Webhooks.
    counter(
        "gw_webhook_attempts_total",
        &["outcome"],
        "Attempts to deliver a message to an owner, by what came of them",
    ),
    seconds("gw_webhook_call_seconds", CALL, &[], "How long a call of an owner's endpoint took, seconds"),
    counter(
        "gw_webhooks_disabled_total",
        &[],
        "Webhooks that were disabled because their endpoints failed or are gone",
    ),
    gauge("gw_webhook_feed_lag", &["shard"], "Messages of a shard that were not looked at for webhooks yet"),
    // A verifier.
    counter("gw_verifier_answers_total", &["outcome"], "Asks, by how they were answered"),
    counter("gw_attestations_total", &["chain", "outcome"], "Judgements of cases, by the chain of their escrow"),
    // A settler.
    counter("gw_settler_quotes_total", &["outcome"], "Requests for quotes, by what came of them"),
    counter("gw_settler_deliveries_total", &["chain", "outcome"], "Awards that ended, by the chain delivered on"),
    counter("gw_settler_feed_reads_total", &["feed", "outcome"], "Reads of feeds of prices, by what came of them"),
    gauge(
        "gw_settler_inventory",
        &["chain", "asset"],
        "What is left to be promised of an asset, smallest unit, when its balance was last read",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The manual's row of a metric.
    fn row(metric: &Metric) -> String {
        let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let Metric { name, kind, help, .. } = metric;
        format!("| `{name}` | {} | {} | {help} |", kind.as_str(), labels.join(", "))
    }

    #[test]
    fn the_manual_has_the_same_table() {
        let manual = include_str!("../../docs/operators-metrics.md");
        let documented: Vec<&str> = manual.lines().filter(|line| line.starts_with("| `gw_")).collect();
        let table: Vec<String> = TABLE.iter().map(row).collect();
        assert_eq!(documented, table);
    }

    #[test]
    fn names_keep_prometheus_rules() {
        let names: BTreeSet<_> = TABLE.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), TABLE.len());
        for Metric { name, kind, help, .. } in TABLE {
            assert!(name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_'), "{name}");
            assert!(!help.is_empty() && !help.ends_with('.'), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            match kind {
                Kind::Histogram(buckets) => {
                    assert!(name.ends_with("_seconds"), "{name}");
                    assert!(buckets.is_sorted_by(|one, next| one < next), "{name}");
                }
                Kind::Counter | Kind::Gauge => {}
            }
        }
    }
}
