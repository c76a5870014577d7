//! The nats.conf account of a settler.

use events::{Did, SettlerToken};

use crate::protocol::{AWARDS_STREAM, REGISTRY_BUCKET, award_consumer};

/// Prefix of the subjects on which a settler's client receives replies.
pub fn inbox_prefix(settler: &SettlerToken) -> String {
    format!("_INBOX_{settler}")
}

/// What a settler's user may subscribe and publish: nothing but subjects with its own token in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Where replies and awards arrive: everything below the client's inbox prefix.
    pub inbox: String,
    /// Requests for quotes.
    pub requests: String,
    /// Bids.
    pub bids: String,
    /// Reports of deliveries.
    pub reports: String,
    /// The registration.
    pub registration: String,
    /// What the consumer of awards is.
    pub info: String,
    /// Asks for awards.
    pub pull: String,
    /// Acknowledges awards.
    pub acks: String,
}

impl Permissions {
    /// The permissions of one settler.
    pub fn of(token: &SettlerToken) -> Self {
        let consumer = award_consumer(token);
        Self {
            inbox: format!("{}.>", inbox_prefix(token)),
            requests: format!("auction.rfq.{token}.*"),
            bids: format!("auction.bid.{token}.*"),
            reports: format!("auction.report.{token}.*"),
            registration: format!("$KV.{REGISTRY_BUCKET}.{token}"),
            info: format!("$JS.API.CONSUMER.INFO.{AWARDS_STREAM}.{consumer}"),
            pull: format!("$JS.API.CONSUMER.MSG.NEXT.{AWARDS_STREAM}.{consumer}"),
            acks: format!("$JS.ACK.{AWARDS_STREAM}.{consumer}.>"),
        }
    }

    /// What it may subscribe.
    pub fn subscribe(&self) -> [&str; 2] {
        [&self.inbox, &self.requests]
    }

    /// What it may publish.
    pub fn publish(&self) -> [&str; 6] {
        [&self.bids, &self.reports, &self.registration, &self.info, &self.pull, &self.acks]
    }
}

/// The account that lets the settler `did` take part, for the `accounts` section of nats.conf. User name and password
/// variable bear the settler's token.
pub fn nats_stanza(did: &Did) -> String {
    nats_stanza_named(did, did.token().as_str())
}

/// As [`nats_stanza`], with `name` in the names of account, user and password variable: letters, digits and `_`.
pub fn nats_stanza_named(did: &Did, name: &str) -> String {
    let Permissions { inbox, requests, bids, reports, registration, info, pull, acks } = Permissions::of(&did.token());
    let upper = name.to_ascii_uppercase();
    format!(
        r#"  # {did}
  SETTLER_{upper} {{
    imports: [
      {{ service: {{ account: GATEWAY, subject: "nowhere.>" }}, to: "$JS.API.>" }}
      {{ stream: {{ account: GATEWAY, subject: "{requests}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{bids}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{reports}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{registration}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{info}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{pull}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{acks}" }} }}
    ]
    users: [{{
      user: "settler_{name}", password: $GW_NATS_SETTLER_{upper}_PASSWORD
      permissions: {{
        subscribe: ["{inbox}", "{requests}"]
        publish: [
          "{bids}", "{reports}", "{registration}"
          "{info}", "{pull}", "{acks}"
        ]
      }}
    }}]
    limits: {{ max_connections: 8, max_subscriptions: 256, max_payload: 65536 }}
  }}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev;

    #[test]
    fn nats_conf_has_the_demo_settlers() {
        let config = include_str!("../../nats.conf");
        for number in 1..=dev::SEEDS.len() {
            let did = Did::from_ed25519(&dev::key(number).unwrap().verifying_key());
            let stanza = nats_stanza_named(&did, &number.to_string());
            assert!(config.contains(&stanza), "nats.conf lacks\n{stanza}");
        }
    }
}
