//! Consumer policy: which JetStream consumer configurations auditors may have. An ordered consumer of a stream that auditors
//! read is one, and nothing else.
//!
//! What is passed on is put together here from what was judged; of what else a client sends, nothing gets to JetStream.

use std::time::Duration;

use serde_json::{Map, Value, json};

use config::AUDITOR_INBOX_PREFIX;
use events::CommitId;
use journal::checkpoint;
use journal_jetstream::{operator_acts, parking, store::CONSUMER_PREFIXES};

/// What says in a consumer's metadata whose it is.
pub(super) const OWNER: &str = "gw.auditor";
/// Longest name of a consumer: what clients make themselves is far shorter, and gateways keep the names.
const NAME_BYTES_MAX: usize = 64;
const SUBJECT_BYTES_MAX: usize = 256;
const FILTERS_MAX: usize = 16;
/// Longest time for which a consumer outlives the last that anybody asked of it.
const IDLE_MAX: Duration = Duration::from_secs(300);
/// The same where a client does not say.
const IDLE_DEFAULT: Duration = Duration::from_secs(30);
/// Least pause between two heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_secs(1);
/// Most pulls that wait at a consumer.
const WAITING_MAX: u64 = 64;
/// Most messages of one pull. nats-server refuses a larger one with status 409, which names the bound.
const BATCH_MAX: u64 = 1_000;

/// Why an auditor does not get what it asked for, as JetStream says it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{description}")]
pub(super) struct Refusal {
    /// As of HTTP.
    pub code: u16,
    /// JetStream's own number.
    pub err_code: u32,
    /// In words.
    pub description: String,
}

impl Refusal {
    /// What was asked for is nothing for auditors.
    pub(super) fn request(description: impl Into<String>) -> Self {
        Self { code: 400, err_code: 10003, description: description.into() }
    }

    /// There is no room for more.
    pub(super) fn full(description: impl Into<String>) -> Self {
        Self { code: 400, err_code: 10026, description: description.into() }
    }

    /// There is no such consumer, or it is somebody else's.
    pub(super) fn not_found() -> Self {
        Self { code: 404, err_code: 10014, description: "consumer not found".to_owned() }
    }

    /// JetStream does not answer.
    pub(super) fn unavailable() -> Self {
        Self { code: 503, err_code: 10008, description: "JetStream does not answer; ask again".to_owned() }
    }
}

/// A consumer that an auditor may have.
#[derive(Debug, PartialEq)]
pub(super) struct Consumer {
    pub stream: String,
    pub name: String,
    pub config: Value,
}

impl Consumer {
    /// What `auditor` asks for with `body` on `…create.{path}`, `{stream}`, `{stream}.{name}` or `{stream}.{name}.{filter}`.
    ///
    /// # Errors
    /// [`Refusal`] when it is not an ordered consumer of a stream that auditors read, or not within the bounds.
    pub(super) fn asked(auditor: &str, path: &str, body: &[u8]) -> Result<Self, Refusal> {
        let mut tokens = path.splitn(3, '.');
        let stream = readable(tokens.next().unwrap_or_default())?;
        let (named, filtered) = (tokens.next(), tokens.next());
        let body: Value = serde_json::from_slice(body).map_err(|_| Refusal::request("the request is not JSON"))?;
        if body["stream_name"] != stream {
            return Err(Refusal::request("stream_name is not that of the subject"));
        }
        let Some(asked) = body["config"].as_object() else {
            return Err(Refusal::request("config is missing"));
        };
        let name = match named.or_else(|| asked.get("name").and_then(Value::as_str)) {
            Some(name) => consumer_name(name)?.to_owned(),
            // A client of an older kind leaves the name to the server.
            None => CommitId::random().to_string(),
        };
        if asked.get("name").is_some_and(|asked| *asked != *name) {
            return Err(Refusal::request("config.name is not that of the subject"));
        }
        let mut config = Map::new();
        for (key, value) in asked.iter().filter(|(_, value)| !is_unset(value)) {
            copy_allowed(&mut config, key, value)?;
        }
        if filtered.is_some_and(|filter| config.get("filter_subject") != Some(&filter.into())) {
            return Err(Refusal::request("config.filter_subject is not that of the subject"));
        }
        if config.contains_key("deliver_subject") {
            // A client that does not read is sent no more, instead of having the server keep what it was sent.
            if config.get("flow_control") != Some(&true.into()) || !config.contains_key("idle_heartbeat") {
                return Err(Refusal::request("a push consumer needs flow_control and idle_heartbeat"));
            }
        } else {
            config.remove("flow_control");
            config.remove("idle_heartbeat");
            let most =
                |key: &str, most: u64| config.get(key).and_then(Value::as_u64).map_or(most, |asked| asked.min(most));
            let (waiting, batch) = (most("max_waiting", WAITING_MAX), most("max_batch", BATCH_MAX));
            config.insert("max_waiting".to_owned(), waiting.into());
            config.insert("max_batch".to_owned(), batch.into());
        }
        let idle = asked.get("inactive_threshold").and_then(Value::as_u64).filter(|nanos| *nanos > 0);
        let idle = idle.map_or(IDLE_DEFAULT, Duration::from_nanos).min(IDLE_MAX);
        for (key, value) in [
            ("name", json!(name)),
            ("ack_policy", json!("none")),
            ("max_deliver", json!(1)),
            ("inactive_threshold", json!(idle.as_nanos() as u64)),
            ("mem_storage", json!(true)),
            ("num_replicas", json!(1)),
            ("metadata", json!({ OWNER: auditor })),
        ] {
            config.insert(key.to_owned(), value);
        }
        Ok(Self { stream: stream.to_owned(), name, config: config.into() })
    }
}

/// The stream, when it is one that auditors read.
pub(super) fn readable(stream: &str) -> Result<&str, Refusal> {
    let shard = stream
        .strip_prefix("EVT_")
        .is_some_and(|shard| (2..=5).contains(&shard.len()) && shard.bytes().all(|byte| byte.is_ascii_digit()));
    if shard || [checkpoint::STREAM, parking::STREAM, operator_acts::STREAM].contains(&stream) {
        return Ok(stream);
    }
    Err(Refusal::request("auditors have consumers of EVT_…, CHK, PARK and OPERATOR_ACTS alone"))
}

/// The name, when it may be that of an auditor's consumer.
pub(super) fn consumer_name(name: &str) -> Result<&str, Refusal> {
    let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !letters {
        return Err(Refusal::request("a consumer's name has 1 to 64 letters, digits, - and _"));
    }
    if CONSUMER_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        let prefixes = CONSUMER_PREFIXES.join(" or ");
        return Err(Refusal::request(format!("names that begin with {prefixes} are the gateways'")));
    }
    Ok(name)
}

/// Copies a member that may be as the client says, passes by one that is decided here, and refuses every other.
fn copy_allowed(config: &mut Map<String, Value>, key: &str, value: &Value) -> Result<(), Refusal> {
    let no = |what: &str| Err(Refusal::request(format!("auditors have ordered consumers alone: config.{key} {what}")));
    let allowed = match key {
        // Decided here.
        "name" | "description" | "metadata" | "ack_wait" | "max_deliver" | "max_ack_pending" | "inactive_threshold"
        | "mem_storage" | "num_replicas" | "sample_freq" => return Ok(()),
        "ack_policy" if value == "none" => return Ok(()),
        "ack_policy" => return no("must be none"),
        // Not the last of each subject: to find these, a server goes through all subjects of the stream.
        "deliver_policy" => {
            let policies = ["all", "last", "new", "by_start_sequence", "by_start_time"];
            value.as_str().is_some_and(|policy| policies.contains(&policy))
        }
        "opt_start_seq" | "max_waiting" | "max_batch" | "max_expires" | "max_bytes" | "rate_limit_bps" => {
            value.is_u64()
        }
        "opt_start_time" => value.is_string(),
        "replay_policy" => value == "instant" || value == "original",
        "headers_only" | "flow_control" => value.is_boolean(),
        "idle_heartbeat" => value.as_u64().is_some_and(|nanos| Duration::from_nanos(nanos) >= HEARTBEAT_MIN),
        "filter_subject" => is_subject(value),
        "filter_subjects" => {
            value.as_array().is_some_and(|filters| filters.len() <= FILTERS_MAX && filters.iter().all(is_subject))
        }
        "deliver_subject" => {
            let subject = value.as_str().and_then(|subject| subject.strip_prefix(AUDITOR_INBOX_PREFIX));
            let inbox = subject.and_then(|rest| rest.strip_prefix('.'));
            if !inbox.is_some_and(|inbox| inbox.split('.').all(|token| !matches!(token, "" | "*" | ">"))) {
                return no(&format!("must begin with {AUDITOR_INBOX_PREFIX}. and have no wildcard"));
            }
            is_subject(value)
        }
        _ => return no("is not for auditors"),
    };
    if !allowed {
        return no("has a value that is not allowed");
    }
    config.insert(key.to_owned(), value.clone());
    Ok(())
}

/// Whether the value is what JetStream takes for a setting that was not made.
fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(object) => object.is_empty(),
        Value::Bool(true) => false,
    }
}

fn is_subject(value: &Value) -> bool {
    let letters = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    value.as_str().is_some_and(|text| (1..=SUBJECT_BYTES_MAX).contains(&text.len()) && letters(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(path: &str, config: &Value) -> Result<Consumer, Refusal> {
        let stream = path.split('.').next();
        Consumer::asked("UA", path, json!({"stream_name": stream, "config": config}).to_string().as_bytes())
    }

    #[test]
    fn an_ordered_consumer_that_is_pulled_is_passed_on_within_bounds() {
        // As nats.js asks.
        let config = json!({
            "name": "a_1", "deliver_policy": "by_start_sequence", "opt_start_seq": 1, "ack_policy": "none",
            "inactive_threshold": 300_000_000_000_u64, "num_replicas": 1, "max_deliver": 1, "mem_storage": true,
        });
        let consumer = asked("EVT_00.a_1", &config).unwrap();
        assert_eq!((&*consumer.stream, &*consumer.name), ("EVT_00", "a_1"));
        assert_eq!(
            consumer.config,
            json!({
                "name": "a_1", "deliver_policy": "by_start_sequence", "opt_start_seq": 1, "ack_policy": "none",
                "inactive_threshold": 300_000_000_000_u64, "num_replicas": 1, "max_deliver": 1, "mem_storage": true,
                "max_waiting": 64, "max_batch": 1_000, "metadata": {"gw.auditor": "UA"},
            })
        );
    }

    #[test]
    fn an_ordered_consumer_that_is_pushed_receives_in_an_auditors_inbox() {
        let config = json!({
            "deliver_policy": "all", "ack_policy": "none", "filter_subject": "gw.evt.00.pay_x", "flow_control": true,
            "idle_heartbeat": 5_000_000_000_u64, "deliver_subject": "_INBOX_auditor.x.y", "ack_wait": 79_200_000_000_000_u64,
        });
        let consumer = asked("EVT_00", &config).unwrap();
        assert_eq!(consumer.config["deliver_subject"], "_INBOX_auditor.x.y");
        assert_eq!(consumer.config["inactive_threshold"], 30_000_000_000_u64);
        assert_eq!(consumer.config["name"], consumer.name);
        assert_eq!(consumer.config.get("ack_wait"), None);
        assert_eq!(asked("EVT_00.n.gw.evt.00.pay_x", &config).unwrap().name, "n");
        for left_out in ["flow_control", "idle_heartbeat"] {
            let mut config = config.clone();
            config.as_object_mut().unwrap().remove(left_out);
            assert!(asked("EVT_00", &config).is_err(), "{left_out}");
        }
    }

    #[test]
    fn bounds_hold_whatever_is_asked_for() {
        let config = json!({
            "ack_policy": "none", "inactive_threshold": u64::MAX, "max_waiting": 1_000_000, "max_batch": 1_000_000,
            "num_replicas": 5, "max_deliver": 9, "metadata": {"gw.auditor": "UB"}, "mem_storage": false,
        });
        let config = asked("CHK.x", &config).unwrap().config;
        assert_eq!((&config["max_waiting"], &config["max_batch"]), (&json!(64), &json!(1_000)));
        assert_eq!((&config["num_replicas"], &config["max_deliver"]), (&json!(1), &json!(1)));
        assert_eq!(
            (&config["inactive_threshold"], &config["mem_storage"]),
            (&json!(300_000_000_000_u64), &json!(true))
        );
        assert_eq!(config["metadata"], json!({"gw.auditor": "UA"}));
    }

    #[test]
    fn what_is_not_an_ordered_consumer_is_refused_and_says_why() {
        let refused = [
            ("ack_policy", json!("explicit")),
            ("durable_name", json!("x")),
            ("deliver_group", json!("all")),
            ("deliver_policy", json!("last_per_subject")),
            ("deliver_subject", json!("gw.evt.00.pay_x")),
            ("deliver_subject", json!("_INBOX.gateway")),
            ("deliver_subject", json!("_INBOX_operator.x")),
            ("deliver_subject", json!("_R_.x.y")),
            ("deliver_subject", json!("$JS.API.STREAM.DELETE.EVT_00")),
            ("deliver_subject", json!("_INBOX_auditor.>")),
            ("deliver_subject", json!("_INBOX_auditor.*.x")),
            ("deliver_subject", json!("_INBOX_auditor..x")),
            ("deliver_subject", json!("_INBOX_auditor.x y")),
            ("deliver_subject", json!(["_INBOX_auditor.x"])),
            ("filter_subjects", json!(vec!["gw.evt.00.pay_x"; 17])),
            ("filter_subject", json!("x".repeat(257))),
            ("idle_heartbeat", json!(100_000_000)),
            ("backoff", json!([1])),
            ("pause_until", json!("2100-01-01T00:00:00Z")),
            ("priority_groups", json!(["x"])),
            ("of_a_later_version", json!(1)),
        ];
        for (key, value) in refused {
            let said = asked("EVT_00.x", &json!({"ack_policy": "none", key: value})).unwrap_err();
            assert!(said.code == 400 && said.description.contains(&format!("config.{key}")), "{key}: {said}");
        }
    }

    #[test]
    fn only_what_auditors_read_has_consumers_and_gateways_names_are_not_theirs() {
        let config = json!({"ack_policy": "none"});
        for path in ["EVT_00.x", "EVT_255.x", "CHK.x", "PARK.x", "OPERATOR_ACTS.x", "EVT_00"] {
            asked(path, &config).unwrap();
        }
        for path in ["AWARDS.x", "EVT_.x", "EVT_0x.x", "EVT_*.x", "KV_gw_leases.x", "SIG.x", ">", "", "EVT_00.saga_00"]
        {
            assert!(asked(path, &config).is_err(), "{path}");
        }
        for path in ["EVT_00.scan_x", "EVT_00.", "EVT_00.a*", &*format!("EVT_00.{}", "a".repeat(65))] {
            assert!(asked(path, &config).is_err(), "{path}");
        }
        assert!(asked("EVT_00.x", &json!({"ack_policy": "none", "name": "y"})).is_err());
        assert!(
            asked("EVT_00.x.gw.evt.00.a", &json!({"ack_policy": "none", "filter_subject": "gw.evt.00.b"})).is_err()
        );
        let elsewhere = json!({"stream_name": "AWARDS", "config": config}).to_string();
        assert!(Consumer::asked("UA", "EVT_00.x", elsewhere.as_bytes()).is_err());
        assert!(Consumer::asked("UA", "EVT_00.x", b"[1]").is_err());
        assert!(Consumer::asked("UA", "EVT_00.x", b"").is_err());
    }
}
