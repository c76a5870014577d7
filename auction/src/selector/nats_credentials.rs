//! NATS credentials of a selector: what nats-server's configuration says of it.

use events::selection::SelectorKey;
use protocol::selection::selector_subject;

/// The account of the selector with `key` on NATS, which admits `nkey`, for `nats/accounts.conf`. It bears the key's token.
pub fn nats_account(key: &SelectorKey, nkey: &str) -> String {
    let (subject, name) = (selector_subject(key), account_name(key));
    format!(
        r#"  # {key}
  {name} {{
    exports: [{{ service: "{subject}", accounts: [GATEWAY] }}]
    users: [{{
      nkey: {nkey}
      # It answers what it is asked, and says nothing else to anyone.
      permissions: {{ subscribe: ["{subject}"], publish: {{ deny: ">" }}, allow_responses: true }}
    }}]
    limits: {{ max_connections: 8, max_subscriptions: 16, max_payload: 65536 }}
  }}
"#
    )
}

/// The line in `SELECTORS` of `nats/keys.conf` with which gateways reach the selector.
pub fn nats_import(key: &SelectorKey) -> String {
    format!(r#"  {{ service: {{ account: {}, subject: "{}" }} }}"#, account_name(key), selector_subject(key))
}

fn account_name(key: &SelectorKey) -> String {
    format!("SELECTOR_{}", key.token().to_ascii_uppercase())
}
