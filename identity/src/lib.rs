//! Identities: the proofs over requests, and the credentials that come with them (spec 2.5, 2.12).
//!
//! [`Identities`] verifies. What a proof shows is [`Proven`]: it makes the originator, feeds the counterparty policies, and
//! is journaled with what it authorized. [`SettlerPolicies`] verifies what settlers present for policies that payers
//! require.

mod did_web;
mod legacy;
mod originator_check;
mod request;
mod settlers;
mod signed_text;
#[cfg(test)]
mod tests;

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use config::IdentityConfig;
use events::time::Timestamp;
use proofs::{
    contexts::{self, Contexts},
    credential::Trust,
    did::{NoWeb, Resolver, Web},
};

use self::did_web::DidWebSites;
pub use self::{
    originator_check::{OriginatorCheck, check_originator},
    request::{Holder, NOBODY, Proven, Refusal},
    settlers::{Policy, SettlerPolicies},
};

/// How long all proofs of one request may take to be verified, sites included.
const VERIFY_MAX: Duration = Duration::from_secs(8);
/// Largest file of a context, in bytes.
const CONTEXT_BYTES_MAX: u64 = 1024 * 1024;

/// Why a configuration of identities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of a context cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file of a context is too large to be one.
    #[error("{} has more than {CONTEXT_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// A context cannot be used.
    #[error(transparent)]
    Context(#[from] contexts::Error),
}

/// Verifies identities. Cheap to clone.
#[derive(Clone)]
pub struct Identities(Arc<Inner>);

struct Inner {
    /// `None` for those that come with the gateway.
    contexts: Option<Contexts>,
    origins: Vec<String>,
    resolver: Box<dyn Resolver>,
}

impl std::fmt::Debug for Identities {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identities").field("origins", &self.0.origins).finish_non_exhaustive()
    }
}

impl Default for Identities {
    /// Knows the contexts that come with the gateway, and asks no site.
    fn default() -> Self {
        Self(Arc::new(Inner { contexts: None, origins: Vec::new(), resolver: Box::new(NoWeb) }))
    }
}

impl Identities {
    /// Reads the configured contexts; `did:web` is asked of the configured origins.
    ///
    /// # Errors
    /// [`Error`] when a context cannot be used: a gateway does not start without what its policies rest on.
    pub fn load(config: &IdentityConfig) -> Result<Self, Error> {
        let mut texts = Vec::with_capacity(config.contexts.len());
        for context in &config.contexts {
            let unreadable = |source| Error::Unreadable { path: context.file.clone(), source };
            if fs::metadata(&context.file).map_err(unreadable)?.len() > CONTEXT_BYTES_MAX {
                return Err(Error::TooLarge(context.file.clone()));
            }
            texts.push((context.url.as_str(), fs::read_to_string(&context.file).map_err(unreadable)?));
        }
        let contexts = match texts.as_slice() {
            [] => None,
            texts => Some(Contexts::with(texts.iter().map(|(url, text)| (*url, text.as_str())))?),
        };
        let origins = config.did_web_origins.clone();
        Ok(Self(Arc::new(Inner { contexts, origins, resolver: Box::new(DidWebSites::public()) })))
    }

    fn trust(&self, now: Timestamp) -> Trust<'_> {
        let Inner { contexts, origins, resolver } = &*self.0;
        let contexts = contexts.as_ref().unwrap_or_else(|| Contexts::bundled());
        Trust { contexts, web: Web { origins, resolver: resolver.as_ref() }, now }
    }
}
