//! Caller authentication: gateways and settlers prove who they are by a signature over the ask, all others are unknown.
//!
//! A signature costs a check only when it names a key that the configuration lists, so unknown callers cannot have work
//! done by making some up; and it is made for this verifier, so nobody else who was shown it can use it here.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use axum::http::{Method, Uri, request::Parts};
use ed25519_dalek::VerifyingKey;

use events::Did;
use protocol::message_signature::{self, Signed};

use super::bulkhead::{Ask, Bounds, Bulkhead};

/// Who is known, and how much each and all unknown callers together may ask.
#[derive(Debug, Clone)]
pub struct CallerOptions {
    /// Origins that callers have configured for this verifier; what they sign names one of them.
    pub origins: Vec<String>,
    /// Those who are known, each with a lane of its own.
    pub known: Vec<(Did, VerifyingKey)>,
    /// Most seconds between the making of a signature and now, either way.
    pub signature_seconds_max: u64,
    /// Asks under way of each known caller.
    pub asks_per_caller_max: usize,
    /// Judgements at work for known callers, all together.
    pub judgements_max: usize,
    /// Judgements at work for each known caller.
    pub judgements_per_caller_max: usize,
    /// Asks under way of all unknown callers together.
    pub anonymous_asks_max: usize,
    /// Judgements at work for unknown callers, and judgements begun for them in a second; with none they are not served.
    pub anonymous_judgements_max: usize,
}

/// Why a signature does not prove who asks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unproven {
    /// Its header fields cannot be read.
    #[error(transparent)]
    Malformed(#[from] message_signature::Error),
    /// It is too old, or from the future.
    #[error("the signature's `created` is more than {0} seconds away from this verifier's clock, or it has expired")]
    Stale(u64),
    /// It is somebody else's, or over something else.
    #[error("the signature is not {0}'s over this request to this verifier")]
    Wrong(String),
    /// The body has another digest than the signed one.
    #[error("the body is not the one that was signed")]
    OtherBody,
    /// Nothing is signed, or by nobody known, and unknown callers are not served.
    #[error("only signed requests of known callers are taken")]
    Unknown,
}

/// What a caller gets.
pub(super) struct Caller {
    /// The DID of a known one.
    pub(super) did: Option<Did>,
    /// In which it has a lane.
    bulkhead: Bulkhead,
    lane: usize,
    signed: Option<Signed>,
}

impl Caller {
    /// One more ask of this caller; `None` when it has as many under way as it may.
    pub(super) fn enter(&self) -> Option<Ask> {
        self.bulkhead.enter(self.lane)
    }

    /// Whether `body` is what a known caller signed; whatever an unknown one sends is its body.
    pub(super) fn sent(&self, body: &[u8]) -> Result<(), Unproven> {
        let holds = self.signed.as_ref().is_none_or(|signed| signed.is_of_body(body));
        if holds { Ok(()) } else { Err(Unproven::OtherBody) }
    }

    /// Least time that a judgement for this caller keeps its permit. For unknown callers it bounds how often the chains
    /// are read, however fast they answer.
    pub(super) fn pace(&self) -> Duration {
        if self.did.is_some() { Duration::ZERO } else { ANONYMOUS_PACE }
    }
}

/// Least time that a judgement for an unknown caller keeps its permit.
const ANONYMOUS_PACE: Duration = Duration::from_secs(1);

/// Who is known, and everybody's lanes.
pub(super) struct Callers {
    origins: Vec<String>,
    signature_seconds_max: u64,
    known: HashMap<String, (Did, VerifyingKey, usize)>,
    bulkhead: Bulkhead,
    /// One lane with permits of its own: unknown callers can take none of the others'.
    unknown: Option<Bulkhead>,
}

impl Callers {
    pub(super) fn new(options: CallerOptions) -> Self {
        let bulkhead = Bulkhead::new(
            options.known.len(),
            Bounds {
                permits: options.judgements_max,
                permits_per_lane: options.judgements_per_caller_max,
                asks_per_lane: options.asks_per_caller_max,
            },
        );
        let permits = options.anonymous_judgements_max;
        let unknown = (permits > 0).then(|| {
            Bulkhead::new(1, Bounds { permits, permits_per_lane: permits, asks_per_lane: options.anonymous_asks_max })
        });
        let CallerOptions { origins, signature_seconds_max, known, .. } = options;
        let known = known.into_iter().enumerate();
        let known = known.map(|(lane, (did, key))| (did.as_str().to_owned(), (did, key, lane))).collect();
        Self { origins, signature_seconds_max, known, bulkhead, unknown }
    }

    /// Who sends a request with this head.
    pub(super) fn recognise(&self, head: &Parts) -> Result<Caller, Unproven> {
        let signed = Signed::read(&head.headers)?;
        let named = signed.and_then(|signed| Some((self.known.get(signed.keyid())?, signed)));
        let Some(((did, key, lane), signed)) = named else {
            let bulkhead = self.unknown.clone().ok_or(Unproven::Unknown)?;
            return Ok(Caller { did: None, bulkhead, lane: 0, signed: None });
        };
        if !signed.is_fresh(unix_now(), self.signature_seconds_max) {
            return Err(Unproven::Stale(self.signature_seconds_max));
        }
        if !self.is_by(&signed, key, &head.method, &head.uri) {
            return Err(Unproven::Wrong(did.to_string()));
        }
        Ok(Caller { did: Some(did.clone()), bulkhead: self.bulkhead.clone(), lane: *lane, signed: Some(signed) })
    }

    fn is_by(&self, signed: &Signed, key: &VerifyingKey, method: &Method, uri: &Uri) -> bool {
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        self.origins.iter().any(|origin| signed.is_by(key, method.as_str(), &format!("{origin}{path}")))
    }
}

fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
