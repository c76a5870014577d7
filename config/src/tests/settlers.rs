//! Settings about settlers: how long a winner is waited for, who is passed over, which policies ask for a record.

use std::time::Duration;

use sagas::{reassignment::ReassignmentRule, settler_record::PauseRule};

use super::*;

/// What is refused of the example with `[settlers]` as these variables have it.
fn refused(variables: &[(&str, &str)]) -> String {
    let variables: Vec<_> = variables.iter().map(|(name, value)| (format!("GW_SETTLERS__{name}"), *value)).collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    gateway(GATEWAY, &variables).unwrap_err()
}

#[test]
fn without_a_word_the_engines_own_rules_hold() {
    let settlers = gateway(GATEWAY, &[]).unwrap().settlers;
    assert_eq!(settlers.award_ack(), Duration::from_secs(1));
    assert_eq!(settlers.reassignment(), ReassignmentRule::DEFAULT);
    assert_eq!(PauseRule::from(settlers.pauses), PauseRule::DEFAULT);
    assert!(settlers.policies.is_empty());
}

#[test]
fn waits_and_pauses_have_bounds_that_are_named() {
    for (name, value, key) in [
        ("AWARD_ACK_MS", "99", "settlers.award_ack_ms"),
        ("AWARD_ACK_MS", "30001", "settlers.award_ack_ms"),
        ("REASSIGNMENTS_MAX", "17", "settlers.reassignments_max"),
        ("REASSIGN_WINDOW_MS", "99", "settlers.reassign_window_ms"),
        ("REASSIGN_WINDOW_MS", "30001", "settlers.reassign_window_ms"),
        ("PAUSES__OF", "0", "settlers.pauses.of"),
        ("PAUSES__OF", "21", "settlers.pauses.of"),
        ("PAUSES__MISSED", "11", "settlers.pauses.missed"),
        ("PAUSES__PAUSE_SECONDS", "0", "settlers.pauses.pause_seconds"),
        ("PAUSES__PAUSE_SECONDS", "3601", "settlers.pauses.pause_seconds"),
        ("PAUSES__PAUSE_SECONDS_MAX", "0", "settlers.pauses.pause_seconds_max"),
        ("PAUSES__PAUSE_SECONDS_MAX", "86401", "settlers.pauses.pause_seconds_max"),
    ] {
        let error = refused(&[(name, value)]);
        assert!(error.starts_with(&format!("{key}: must be ")), "{name}={value}: {error}");
    }
    let error = refused(&[("PAUSES", "{ mised = 3 }")]);
    assert!(error.contains("mised"), "{error}");

    let text =
        GATEWAY.replace("\n[settlers]\n", "\n[settlers]\naward_ack_ms = 30000\npauses = { missed = 0, of = 20 }\n");
    let settlers = gateway(&text, &[]).unwrap().settlers;
    assert_eq!(settlers.award_ack(), Duration::from_secs(30));
    assert_eq!(PauseRule::from(settlers.pauses), PauseRule { missed: 0, of: 20, ..PauseRule::DEFAULT });
}

#[test]
fn escrows_are_reassigned_as_often_as_is_said() {
    for (max, window_ms, deposits) in [(0, 100, "false"), (16, 30_000, "true")] {
        let (max_text, window_text) = (max.to_string(), window_ms.to_string());
        let variables = [
            ("GW_SETTLERS__REASSIGNMENTS_MAX", max_text.as_str()),
            ("GW_SETTLERS__REASSIGN_WINDOW_MS", window_text.as_str()),
            ("GW_SETTLERS__REASSIGN_DEPOSITS", deposits),
        ];
        let rule = gateway(GATEWAY, &variables).unwrap().settlers.reassignment();
        let window = Duration::from_millis(window_ms);
        let deposits_for_next = deposits == "true";
        assert_eq!(rule, ReassignmentRule { reassignments_max: max, window, deposits_for_next });
    }
}

#[test]
fn a_policy_may_ask_for_a_record_and_nonsense_is_refused_by_its_key() {
    let policy = |section: &str| {
        let read = gateway(&format!("{GATEWAY}\n[settlers.policies.proven]\n{section}\n"), &[]);
        read.map(|config| config.settlers.policies["proven"].clone())
    };
    let credential = "issuers = [\"did:web:kyc.example\"]\ntype = \"KycCredential\"\n";
    let record = |record: &str| policy(&format!("{credential}record = {record}"));
    assert_eq!(policy(credential).unwrap().record, None);
    let asked = record("{ delivered_min = 20, missed_percent_max = 5 }").unwrap().record;
    assert_eq!(asked, Some(PolicyRecordConfig { delivered_min: 20, missed_percent_max: 5 }));
    let any_share = record("{ delivered_min = 1 }").unwrap().record;
    assert_eq!(any_share, Some(PolicyRecordConfig { delivered_min: 1, missed_percent_max: 100 }));

    for (refused, named) in [
        (
            record("{ delivered_min = 20, missed_percent_max = 101 }"),
            "settlers.policies.proven.record.missed_percent_max: ",
        ),
        (record("{ delivered_min = 0 }"), "settlers.policies.proven.record.delivered_min: "),
        (policy(""), "settlers.policies.proven"),
        (policy("issuers = [\"did:web:kyc.example\"]"), "settlers.policies.proven.type: "),
        (policy("issuers = []\ntype = \"KycCredential\""), "settlers.policies.proven.issuers: "),
    ] {
        let error = refused.unwrap_err();
        assert!(error.starts_with(named), "{error}");
    }
    for (refused, named) in [
        (record("{ missed_percent_max = 5 }"), "delivered_min"),
        (record("{}"), "delivered_min"),
        (record("{ delivered_min = 20, delivered_max = 5 }"), "delivered_max"),
        (record("{ delivered_min = -1 }"), "delivered_min"),
    ] {
        let error = refused.unwrap_err();
        assert!(error.contains(named), "{error}");
    }
}
