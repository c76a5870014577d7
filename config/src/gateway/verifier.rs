//! `[verifier]`: who attests the deliveries of payments that name nobody, one verifier or a set.

use std::collections::BTreeSet;

use serde::Deserialize;

use chains::config::ChainConfig;
use events::{Account, Family, VerifierMember, VerifierSet, event::VerifierRef};
use net::origin::origin;

use crate::{
    Error,
    chain::GatewayChain,
    rules::{endpoint, invalid, require},
    verifier_set::{self, account_key, check_account},
};

const SECTION: &str = "verifier";
const FAMILIES: [Family; 3] = [Family::Evm, Family::Solana, Family::Tron];

/// `[verifier]`: the fulfillment verifier used when a request names none, or a set of them. A set has `threshold` and `members`, and
/// none of the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DefaultVerifierConfig {
    /// The account that signs its attestations for EVM chains; without a word the `releaser` of those that are served.
    pub account: Option<Account>,
    /// The account that signs its attestations for Solana chains; without a word the `releaser` of those that are served.
    pub solana_account: Option<Account>,
    /// The account that signs its attestations for Tron chains; without a word the `releaser` of those that are served.
    pub tron_account: Option<Account>,
    /// The origin it is reached at, `http(s)://host[:port]` without a path.
    pub endpoint: Option<String>,
    /// How many members of the set have to sign, 1 to their number.
    pub threshold: Option<u8>,
    /// The members of the set, at most 16; none of a verifier alone.
    pub members: Vec<VerifierMemberConfig>,
}

/// `[[verifier.members]]`: one verifier of the set.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifierMemberConfig {
    /// The origin it is reached at, `http(s)://host[:port]` without a path.
    pub endpoint: String,
    /// The account that it signs with for EVM chains.
    #[serde(default)]
    pub account: Option<Account>,
    /// The account that it signs with for Solana chains.
    #[serde(default)]
    pub solana_account: Option<Account>,
    /// The account that it signs with for Tron chains.
    #[serde(default)]
    pub tron_account: Option<Account>,
}

impl VerifierMemberConfig {
    fn account_on(&self, family: Family) -> Option<&Account> {
        verifier_set::account_on(family, &self.account, &self.solana_account, &self.tron_account)
    }
}

impl DefaultVerifierConfig {
    /// All origins that are asked.
    pub fn endpoints(&self) -> impl Iterator<Item = &str> {
        let members = self.members.iter().map(|member| member.endpoint.as_str());
        self.endpoint.as_deref().into_iter().chain(members)
    }

    /// Who attests for payments whose source lies on `chain` and that name nobody. `None` where nobody can, which loading a
    /// configuration refuses.
    pub fn of_chain(&self, chain: &ChainConfig) -> Option<VerifierRef> {
        if let Some(endpoint) = &self.endpoint {
            return Some(VerifierRef::single(chain.common().releaser.clone(), endpoint));
        }
        let member = |member: &VerifierMemberConfig| {
            let account = member.account_on(chain.family())?.clone();
            Some(VerifierMember { account, endpoint: member.endpoint.clone() })
        };
        let members = self.members.iter().map(member).collect::<Option<_>>()?;
        VerifierRef::of(VerifierSet::new(self.threshold?, members).ok()?)
    }

    fn is_set(&self) -> bool {
        self.threshold.is_some() || !self.members.is_empty()
    }

    fn account_on(&self, family: Family) -> Option<&Account> {
        verifier_set::account_on(family, &self.account, &self.solana_account, &self.tron_account)
    }

    /// Where the accounts of a single verifier are not said, they are the releasers of the chains. Of a set they are no one's
    /// account, and those of its members are said.
    pub(super) fn fill_in(&mut self, chains: &[GatewayChain]) {
        if self.is_set() {
            return;
        }
        let releaser = |family: Family| {
            let mut chains = chains.iter().map(|served| &served.chain);
            chains.find(|chain| chain.family() == family).map(|chain| chain.common().releaser.clone())
        };
        self.account = self.account.take().or_else(|| releaser(Family::Evm));
        self.solana_account = self.solana_account.take().or_else(|| releaser(Family::Solana));
        self.tron_account = self.tron_account.take().or_else(|| releaser(Family::Tron));
    }

    /// The rules that no chain has a say in.
    pub(super) fn check(&self) -> Result<(), Error> {
        let key = |name: &str| format!("{SECTION}.{name}");
        if !self.is_set() {
            let rule = "must be given, or the threshold and members of a set";
            let own = self.endpoint.as_ref().ok_or_else(|| invalid(key("endpoint"), rule))?;
            return endpoint(&key("endpoint"), own);
        }
        let rule = "must be left out beside threshold and members: each member has its own";
        require(self.endpoint.is_none(), &key("endpoint"), rule)?;
        for family in FAMILIES {
            require(self.account_on(family).is_none(), &key(account_key(family)), rule)?;
        }
        require(!self.members.is_empty(), &key("members"), "must be given with threshold")?;
        let threshold = self.threshold.ok_or_else(|| invalid(key("threshold"), "must be given with members"))?;
        verifier_set::check_size(SECTION, threshold, self.members.len())?;
        let mut origins = BTreeSet::new();
        for (i, member) in self.members.iter().enumerate() {
            let key = |name: &str| key(&format!("members[{i}].{name}"));
            endpoint(&key("endpoint"), &member.endpoint)?;
            let rule = "must not repeat an origin: a verifier signs with one key";
            require(origins.insert(origin(&member.endpoint)), &key("endpoint"), rule)?;
            for family in FAMILIES {
                if let Some(account) = member.account_on(family) {
                    check_account(&key(account_key(family)), family, account)?;
                }
            }
        }
        Ok(())
    }

    /// That the chain's releaser is this verifier, or this set. `key` makes the path of a member of the chain's.
    pub(super) fn check_releaser(&self, chain: &ChainConfig, key: impl Fn(&str) -> String) -> Result<(), Error> {
        let (family, releaser) = (chain.family(), &chain.common().releaser);
        let Some(threshold) = self.threshold else {
            let own = self.account_on(family).filter(|account| account.family() == family);
            let name = format!("{SECTION}.{}", account_key(family));
            require(own.is_some(), &name, "must be an account of the chains served")?;
            require(Some(releaser) == own, &key("releaser"), "must be the account of [verifier]")?;
            return check_account(&key("releaser"), family, releaser);
        };
        let members = self.members.iter().map(|member| (member.account_on(family), member.endpoint.as_str()));
        let expected = verifier_set::checked(SECTION, family, threshold, members)?.account;
        let of = if self.members.len() == 1 { "the account of the only member" } else { "the id of the set" };
        require(*releaser == expected, &key("releaser"), &format!("must be {expected}, {of} in [verifier]"))
    }
}
