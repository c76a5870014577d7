//! NATS credentials of a settler: the account in nats.conf that admits its key, and what that account may do.

use events::{Did, SettlerToken, did};
use journal_jetstream::connection::nkey;

use protocol::{
    AWARDS_STREAM, BID_SECONDS_MAX, BIDS_PER_REQUEST_MAX, MESSAGE_BYTES_MAX, award_consumer, registration_subject,
};

/// Prefix of the subjects on which a settler's client receives replies.
pub fn inbox_prefix(settler: &SettlerToken) -> String {
    format!("_INBOX_{settler}")
}

/// What a settler's user may subscribe and publish: only subjects with its own token in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Where replies and awards arrive: everything below the client's inbox prefix.
    pub inbox: String,
    /// Requests for quotes.
    pub requests: String,
    /// Notices that an auction is over.
    pub over: String,
    /// Bids.
    pub bids: String,
    /// Answers to awards.
    pub answers: String,
    /// Reports of deliveries.
    pub reports: String,
    /// The registration.
    pub registration: String,
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
            over: format!("auction.over.{token}.*"),
            bids: format!("auction.bid.{token}.*"),
            answers: format!("auction.answer.{token}.*"),
            reports: format!("auction.report.{token}.*"),
            registration: registration_subject(token),
            pull: format!("$JS.API.CONSUMER.MSG.NEXT.{AWARDS_STREAM}.{consumer}"),
            acks: format!("$JS.ACK.{AWARDS_STREAM}.{consumer}.>"),
        }
    }

    /// What it may subscribe.
    pub fn subscribe(&self) -> [&str; 3] {
        [&self.inbox, &self.requests, &self.over]
    }

    /// What it may publish on its own. A bid is allowed only as the answer to a request.
    pub fn publish(&self) -> [&str; 5] {
        [&self.answers, &self.reports, &self.registration, &self.pull, &self.acks]
    }
}

/// The account of the settler `did` for `nats/accounts.conf`. It is named after the settler's token and admits the key
/// in the DID, so it contains no secret.
///
/// # Errors
/// When `did` is not a `did:key` of an Ed25519 key.
pub fn nats_account(did: &Did) -> Result<String, did::Error> {
    let nkey = nkey(&did.ed25519_key()?);
    let token = did.token();
    let Permissions { inbox, requests, over, bids, answers, reports, registration, pull, acks } =
        Permissions::of(&token);
    let upper = token.as_str().to_ascii_uppercase();
    Ok(format!(
        r#"  # {did}
  SETTLER_{upper} {{
    imports: [
      {{ service: {{ account: GATEWAY, subject: "nowhere.>" }}, to: "$JS.API.>" }}
      {{ stream: {{ account: GATEWAY, subject: "{requests}" }} }}
      {{ stream: {{ account: GATEWAY, subject: "{over}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{bids}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{answers}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{reports}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{registration}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{pull}" }} }}
      {{ service: {{ account: GATEWAY, subject: "{acks}" }} }}
    ]
    users: [{{
      nkey: {nkey}
      permissions: {{
        subscribe: ["{inbox}", "{requests}", "{over}"]
        publish: ["{answers}", "{reports}", "{registration}", "{pull}", "{acks}"]
        # Bids: so many, so long, to the subject that a request named for its answer, and nowhere else.
        allow_responses: {{ max: {BIDS_PER_REQUEST_MAX}, expires: "{BID_SECONDS_MAX}s" }}
      }}
    }}]
    limits: {{ max_connections: 8, max_subscriptions: 256, max_payload: {MESSAGE_BYTES_MAX} }}
  }}
"#
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev;

    #[test]
    fn the_account_admits_the_key_of_the_did_and_lets_it_bid_when_asked_alone() {
        let key = dev::key(1).unwrap();
        let did = Did::from_ed25519(&key.verifying_key());
        let account = nats_account(&did).unwrap();
        let nkey = nkey(&key.verifying_key());
        assert!(nkey.starts_with('U') && account.contains(&format!("nkey: {nkey}\n")), "{account}");
        let publish = account.lines().find(|line| line.trim_start().starts_with("publish:")).unwrap();
        assert!(!publish.contains("auction.bid"), "{publish}");
        for subject in Permissions::of(&did.token()).publish() {
            assert!(publish.contains(&format!("\"{subject}\"")), "{subject}");
        }
        assert!(nats_account(&"did:web:settler.example".parse().unwrap()).is_err());
    }
}
