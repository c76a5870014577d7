//! Sessions: who a caller is, proven once by a signed challenge and then by a bearer token for some minutes.
//!
//! [`challenge`] makes the text that an account or a DID signs (CAIP-122; EIP-4361 on EVM chains), [`open`] takes it back
//! with the signature and gives a token, [`owner`] reads the token of a request, and [`fresh_owner`] one that was made a
//! moment ago, for what outlives the session. No gateway keeps anything of it: challenge
//! and token bear a MAC under the key that all gateways of one NATS share ([`SessionKey`]), and both are bound to the
//! address of the service (ADR 140).
//!
//! [`Owner`] is all that other use cases know of it: what is shown to its payments' owner only, or done for it only, asks
//! [`owner`] who calls, and [`Owner::owns`] whether a payment is his.

pub mod contract_accounts;
mod message;
mod proof;
mod session_key;
mod stored_key;
mod token;

use std::sync::Arc;

use chrono::{SecondsFormat, TimeDelta};
use http::{HeaderMap, header::AUTHORIZATION};
use schemars::JsonSchema;
use serde::Serialize;

use events::{Account, ChainId, Did, time::Timestamp};
use net::callers::Caller;
use projections::PaymentView;

use crate::{
    App,
    error::{Code, Error},
    request::{
        body::JsonBody,
        fields::{Faults, Object},
    },
    schema,
};

pub use self::{
    contract_accounts::{ContractAccounts, EvmContractAccounts},
    session_key::SessionKey,
    stored_key::Error as StoredKeyError,
};
use self::{
    message::{Challenge, Claimed},
    proof::Signed,
};

/// How long a challenge may be signed and brought back. Who brings it twice gets two tokens for the same owner.
const CHALLENGE_LIFE: TimeDelta = TimeDelta::minutes(5);
/// How long a token counts. It cannot be taken back before.
const TOKEN_LIFE: TimeDelta = TimeDelta::minutes(15);
/// How long after it was made a token lets its holder do what outlives it. Whoever comes by one later only reads.
const FRESH_LIFE: TimeDelta = TimeDelta::minutes(2);
/// Longest DID that opens a session, in characters: it stands in the token, and that in a header.
pub const DID_CHARS_MAX: usize = 512;
/// Longest signature, in characters: that of a contract account with what deploys it (ERC-6492), hex with 0x.
pub const SIGNATURE_CHARS_MAX: usize = 2 + 2 * escrow_abi::signature::BYTES_MAX;
/// Longest `Authorization` header, in bytes.
const AUTHORIZATION_BYTES_MAX: usize = 2_048;

/// What sessions are made with.
#[derive(Clone)]
pub struct Sessions {
    /// The key of challenges and tokens.
    pub key: SessionKey,
    /// What asks accounts that are contracts.
    pub contracts: Arc<dyn ContractAccounts>,
}

/// Who a caller proved to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// An account.
    Account {
        /// The account.
        account: Account,
        /// The one chain on which it is his; `None` for all of its family. A key has the same account on all of them, and a
        /// contract is another on each.
        chain: Option<ChainId>,
    },
    /// A DID.
    Did(Did),
}

impl Owner {
    /// The owner as originators are stored: a DID, or an account behind its namespace.
    pub fn originator(&self) -> String {
        match self {
            Self::Account { account, .. } => account.originator(),
            Self::Did(did) => did.to_string(),
        }
    }

    /// The one chain on which it is this owner.
    pub fn chain(&self) -> Option<&ChainId> {
        match self {
            Self::Account { chain, .. } => chain.as_ref(),
            Self::Did(_) => None,
        }
    }

    /// Whether the payment is his: an account's those that it pays, a DID's those that it asked for.
    pub fn owns(&self, payment: &PaymentView) -> bool {
        let here = self.chain().is_none_or(|chain| payment.source.asset().chain() == chain);
        here && payment.belongs_to(&self.originator())
    }
}

/// What is to be signed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SessionChallenge")]
pub struct ChallengeBody {
    /// The text to sign, exactly as it is (CAIP-122; EIP-4361 on EVM chains).
    message: String,
    /// How: `eip191` is `personal_sign`, or ERC-1271 by a contract; `ed25519` is over the text's bytes; `tip191` is
    /// `signMessageV2`; `did` is by a key that the DID authorises for `authentication`, as its kind signs texts.
    #[schemars(schema_with = "schema::signature_scheme")]
    signature_scheme: &'static str,
    /// Until when it can be brought back.
    #[schemars(with = "Timestamp")]
    expires_at: String,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Session")]
pub struct SessionBody {
    /// The bearer token: it goes into the header `Authorization`, and nowhere else. Whoever has it is the owner until it
    /// expires.
    token: String,
    /// Always `Bearer` (RFC 6750).
    token_type: &'static str,
    /// Until when it counts.
    #[schemars(with = "Timestamp")]
    expires_at: String,
    /// Who was proven: the DID, or the account behind its namespace.
    owner: String,
    /// The one chain on which the account is a contract that proved itself. Absent where the owner counts on all.
    #[serde(skip_serializing_if = "Option::is_none")]
    chain_id: Option<ChainId>,
}

/// Makes the text that the account or DID in `body` has to sign. Costs no memory and asks nobody.
///
/// # Errors
/// 400, and 404 `CHAIN_NOT_SUPPORTED`.
pub fn challenge(state: &App, body: &JsonBody) -> Result<ChallengeBody, Error> {
    let claimed = claimed(state, body)?;
    let now = state.services.clock.now();
    let challenge = Challenge::new(claimed, now, now + CHALLENGE_LIFE);
    Ok(ChallengeBody {
        signature_scheme: challenge.claimed.signature_scheme(),
        expires_at: time(challenge.expires_at),
        message: challenge.issue(&state.services.sessions.key, &state.http.base_url),
    })
}

fn claimed(state: &App, body: &JsonBody) -> Result<Claimed, Error> {
    let (mut faults, root) = (Faults::default(), Object::root(&body.members));
    let (account, did) = (root.optional::<&str>("account", &mut faults), root.optional::<&str>("did", &mut faults));
    match faults.or(Some((account, did)))? {
        (Some(account), None) => {
            let claimed = Claimed::account(account).map_err(|rule| invalid(format!("account: {rule}")))?;
            match &claimed {
                Claimed::Account { chain, .. } if state.corridors.get(chain).is_none() => {
                    Err(Code::CHAIN_NOT_SUPPORTED.into())
                }
                _ => Ok(claimed),
            }
        }
        (None, Some(did)) if did.len() > DID_CHARS_MAX => {
            Err(invalid(format!("did: must have at most {DID_CHARS_MAX} characters")))
        }
        (None, Some(did)) => did.parse().map(Claimed::Did).map_err(|rule| invalid(format!("did: {rule}"))),
        _ => Err(invalid("exactly one of account and did must be given")),
    }
}

/// Opens a session for whoever signed the challenge in `body`.
///
/// # Errors
/// 400, 401 `INVALID_PROOF`, 429, and 503 where a DID's site or an account's chain has to be asked
/// and does not answer.
pub async fn open(state: &App, caller: &Caller, body: &JsonBody) -> Result<SessionBody, Error> {
    let (mut faults, root) = (Faults::default(), Object::root(&body.members));
    let message = root.required::<&str>("message", &mut faults);
    let signature = root.required::<&str>("signature", &mut faults);
    let verification_method = root.optional::<&str>("verification_method", &mut faults);
    if signature.is_some_and(|signature| signature.len() > SIGNATURE_CHARS_MAX) {
        faults.invalid("signature", format!("must have at most {SIGNATURE_CHARS_MAX} characters"));
    }
    let (message, signature) = faults.or(message.zip(signature))?;
    let (services, now) = (&state.services, state.services.clock.now());
    let key = &services.sessions.key;
    // Before anything that costs more.
    let challenge = Challenge::read(message, key, &state.http.base_url).ok_or_else(|| {
        let reason = "message: is not one that this service made, or was changed; ask for a new challenge";
        Error::new(Code::INVALID_PROOF, reason)
    })?;
    if now >= challenge.expires_at {
        return Err(Error::new(Code::INVALID_PROOF, "message: has expired; ask for a new challenge"));
    }
    let signed = Signed { text: message, signature, verification_method };
    let owner = proof::prove(state, caller, challenge.claimed, &signed).await?;
    let expires_at = now + TOKEN_LIFE;
    Ok(SessionBody {
        token: token::seal(key, &state.http.base_url, &owner, expires_at),
        token_type: "Bearer",
        expires_at: time(expires_at),
        owner: owner.originator(),
        chain_id: owner.chain().cloned(),
    })
}

/// Who sends a request with these headers.
///
/// # Errors
/// 401 `INVALID_TOKEN`.
pub fn owner(state: &App, headers: &HeaderMap) -> Result<Owner, Error> {
    proven(state, headers).map(|(owner, _)| owner)
}

/// Who sends a request with these headers, where the session was opened less than two minutes ago: for what outlives it.
///
/// # Errors
/// 401 `INVALID_TOKEN`.
pub fn fresh_owner(state: &App, headers: &HeaderMap) -> Result<Owner, Error> {
    match proven(state, headers)? {
        (owner, left) if left > TOKEN_LIFE - FRESH_LIFE => Ok(owner),
        _ => Err(refused(
            "this outlives the session, so the token must be less than two minutes old; open a new session",
        )),
    }
}

/// Who sends it, and how long the token still counts.
fn proven(state: &App, headers: &HeaderMap) -> Result<(Owner, TimeDelta), Error> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (first, second) = (values.next(), values.next());
    let Some(value) = first else { return Err(Code::INVALID_TOKEN.into()) };
    let text = value.to_str().ok().filter(|text| text.len() <= AUTHORIZATION_BYTES_MAX && second.is_none());
    let bearer = text.and_then(|text| text.split_once(' ')).filter(|(kind, _)| kind.eq_ignore_ascii_case("Bearer"));
    let (_, token) = bearer.ok_or_else(|| refused("must be `Bearer` and a token of POST /v1/sessions, once"))?;
    let (key, now) = (&state.services.sessions.key, state.services.clock.now());
    match token::open(key, &state.http.base_url, token.trim_start_matches(' ')) {
        Some((owner, expires_at)) if now < expires_at => Ok((owner, expires_at - now)),
        Some(_) => Err(refused("the token has expired; open a new session")),
        None => Err(refused("the token is not one that this service made; open a new session")),
    }
}

fn refused(reason: &str) -> Error {
    Error::new(Code::INVALID_TOKEN, format!("Authorization: {reason}"))
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(Code::INVALID_REQUEST, message)
}
