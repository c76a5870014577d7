//! What nats.conf needs for a selector.

use events::selection::SelectorKey;
use settler::protocol::selection::selector_subject;

/// The account of the selector with `key`, for the `accounts` section of nats.conf. Account, user and password variable bear
/// the key's token.
pub fn nats_stanza(key: &SelectorKey) -> String {
    nats_stanza_named(key, &key.token())
}

/// As [`nats_stanza`], with `name` in the names: letters, digits and `_`.
pub fn nats_stanza_named(key: &SelectorKey, name: &str) -> String {
    let subject = selector_subject(key);
    let upper = name.to_ascii_uppercase();
    format!(
        r#"  # {key}
  SELECTOR_{upper} {{
    exports: [{{ service: "{subject}", accounts: [GATEWAY] }}]
    users: [{{
      user: "selector_{name}", password: $GW_NATS_SELECTOR_{upper}_PASSWORD
      # It answers what it is asked, and says nothing else to anyone.
      permissions: {{ subscribe: ["{subject}"], publish: {{ deny: ">" }}, allow_responses: true }}
    }}]
    limits: {{ max_connections: 8, max_subscriptions: 16, max_payload: 65536 }}
  }}
"#
    )
}

/// The line for `imports` of the account GATEWAY, with which gateways reach the selector; `name` as in
/// [`nats_stanza_named`].
pub fn nats_import(key: &SelectorKey, name: &str) -> String {
    let (subject, upper) = (selector_subject(key), name.to_ascii_uppercase());
    format!(r#"      {{ service: {{ account: SELECTOR_{upper}, subject: "{subject}" }} }}"#)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev;

    #[test]
    fn nats_conf_has_the_demos_selector() {
        let config = include_str!("../../nats.conf");
        let key = dev::keys::selector_signer().key();
        for part in [nats_stanza_named(&key, "1"), nats_import(&key, "1")] {
            assert!(config.contains(&part), "nats.conf lacks\n{part}");
        }
    }
}
