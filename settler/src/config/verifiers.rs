//! `[[verifiers]]`: who is trusted to attest deliveries, each alone or several as a set.

use std::collections::{BTreeSet, HashMap};

use reqwest::Url;
use serde::Deserialize;

use chains_solana::{authorization::wallet_key, program};
use events::{Account, ChainId, Family, VerifierMember, VerifierSet, event::VerifierRef};

use super::Error;

const KEY: &str = "verifiers";

/// `[[verifiers]]`: a verifier that is trusted, or a set of verifiers of which a threshold is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierConfig {
    /// Chain whose escrows it may release.
    pub chain_id: ChainId,
    /// Account it signs attestations with; the id of a set.
    pub account: String,
    /// Origin it is reached at, no path. Awards name one too, but that came from the payer and is not used. A set has none; its
    /// members have.
    #[serde(default)]
    pub endpoint: Option<String>,
    /// How many members of the set have to attest.
    #[serde(default)]
    pub threshold: Option<u8>,
    /// The members of the set; none of a verifier alone.
    #[serde(default)]
    pub members: Vec<VerifierMemberConfig>,
}

/// `[[verifiers.members]]`: one verifier of a set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierMemberConfig {
    /// Account it signs attestations with.
    pub account: String,
    /// Origin it is reached at, no path.
    pub endpoint: String,
}

impl VerifierConfig {
    /// All origins that are asked.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().map(|member| member.endpoint.as_str());
        self.endpoint.as_deref().into_iter().chain(members)
    }

    fn checked(&self, family: Family) -> Result<VerifierRef, Error> {
        if self.members.is_empty() {
            let account = signer(family, &self.account)?;
            let rule = "threshold needs members, which is how a set is given";
            require(self.threshold.is_none(), rule)?;
            let endpoint =
                self.endpoint.as_deref().ok_or_else(|| broken("endpoint is missing, or members of a set"))?;
            return Ok(VerifierRef::single(account, origin(endpoint)?));
        }
        let account = account(family, &self.account)?;
        require(self.endpoint.is_none(), "a set has members and no endpoint of its own")?;
        let threshold = self.threshold.ok_or_else(|| broken("threshold of the set is missing"))?;
        let member = |member: &VerifierMemberConfig| {
            Ok(VerifierMember { account: signer(family, &member.account)?, endpoint: origin(&member.endpoint)? })
        };
        let members = self.members.iter().map(member).collect::<Result<Vec<_>, Error>>()?;
        distinct_origins(&members)?;
        let set = VerifierSet::new(threshold, members).map_err(|error| broken(error.to_string()))?;
        let count = set.members().len();
        let rule = format!(
            "{threshold} signatures and {count} members do not fit into a transaction on Solana, so that nobody could release"
        );
        require(family != Family::Solana || program::fits(set.threshold(), count), rule)?;
        let verifier = VerifierRef::of(set).ok_or_else(|| broken("the set has no id"))?;
        let expected = &verifier.account;
        require(account == *expected, format!("account of the set must be its id, {expected}"))?;
        Ok(verifier)
    }
}

/// The verifiers and sets by chain and releaser.
pub(super) fn trusted(verifiers: &[VerifierConfig]) -> Result<HashMap<(ChainId, Account), VerifierRef>, Error> {
    let mut trusted = HashMap::new();
    for verifier in verifiers {
        let family = verifier.chain_id.family().ok_or_else(|| broken("chain_id is not served"))?;
        let checked = verifier.checked(family)?;
        trusted.insert((verifier.chain_id.clone(), checked.account.clone()), checked);
    }
    require(!trusted.is_empty(), "without a trusted verifier nothing can be quoted")?;
    Ok(trusted)
}

fn account(family: Family, text: &str) -> Result<Account, Error> {
    Account::parse(family, text).map_err(|error| broken(format!("account {error}")))
}

/// The account of a verifier, which signs: on Solana an Ed25519 key. The id of a set need not be one.
fn signer(family: Family, text: &str) -> Result<Account, Error> {
    let account = account(family, text)?;
    let signs = family != Family::Solana || wallet_key(&account).is_some();
    require(signs, format!("account {account} must be an Ed25519 public key")).map(|()| account)
}

/// No two members are one verifier, which signs with one key.
fn distinct_origins(members: &[VerifierMember]) -> Result<(), Error> {
    let mut origins = BTreeSet::new();
    for VerifierMember { endpoint, .. } in members {
        let url = Url::parse(endpoint).map_err(|error| broken(format!("endpoint {endpoint}: {error}")))?;
        let is_new = origins.insert(url.origin().ascii_serialization());
        require(is_new, format!("{endpoint} must not be the origin of two members: a verifier signs with one key"))?;
    }
    Ok(())
}

fn origin(text: &str) -> Result<String, Error> {
    let endpoint = text.trim_end_matches('/').to_owned();
    let is_web = endpoint.starts_with("http://") || endpoint.starts_with("https://");
    require(is_web, "endpoint must be an http or https origin").map(|()| endpoint)
}

fn require(holds: bool, rule: impl Into<String>) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(broken(rule)) }
}

fn broken(rule: impl Into<String>) -> Error {
    Error::new(KEY, rule)
}
