//! Verifiers who attest together, as those who run them and who trusts them give each other: `--verifier ENDPOINT=ACCOUNT,…`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    str::FromStr,
};

use anyhow::{Context, Result, ensure};

use config::{account_key, chains_of, chains_toml::ChainsToml};
use events::{Account, ChainId, Family, VerifierMember, event::VerifierRef};
use net::origin::origin;

use super::{CHAINS_TOML, role_files::quoted};
use crate::cli::verifiers::set::{account, verifiers};

/// One verifier: where it is reached, and its account on each family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    pub(super) endpoint: String,
    pub(super) accounts: BTreeMap<Family, Account>,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "must be ENDPOINT=ACCOUNT,…, such as https://verifier.example=0x…,T…";
        let (endpoint, listed) = text.split_once('=').ok_or(form)?;
        if origin(endpoint).is_none() {
            return Err(format!("{endpoint}: must be an origin, http(s)://host[:port] without a path"));
        }
        let mut accounts = BTreeMap::new();
        for one in listed.split(',').map(str::trim) {
            let account = account(one).map_err(|error| format!("{one}: {error:#}"))?;
            if let Some(other) = accounts.insert(account.family(), account) {
                return Err(format!("{other} and {one} are both its accounts on {}", chains_of(other.family())));
            }
        }
        Ok(Self { endpoint: endpoint.to_owned(), accounts })
    }
}

/// As it is given.
impl fmt::Display for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let accounts: Vec<_> = self.accounts.values().map(Account::as_str).collect();
        write!(f, "{}={}", self.endpoint, accounts.join(","))
    }
}

/// Verifiers of which so many have to attest.
#[derive(Debug)]
pub(super) struct GivenSet {
    threshold: u8,
    members: Vec<Given>,
    /// As payments name them, on each family that is served.
    named: BTreeMap<Family, VerifierRef>,
}

impl GivenSet {
    /// The set of these members.
    ///
    /// # Errors
    /// When they make none on one of the families that are served.
    pub(super) fn new(threshold: u8, members: Vec<Given>, families: &BTreeSet<Family>) -> Result<Self> {
        let mut origins = BTreeSet::new();
        for Given { endpoint, .. } in &members {
            ensure!(origins.insert(origin(endpoint)), "--verifier {endpoint} is given twice");
        }
        let mut named = BTreeMap::new();
        for family in families {
            let on_family = members.iter().map(|member| {
                let account = member.accounts.get(family).cloned();
                let lacking = || format!("--verifier {member} has no account on {}", chains_of(*family));
                Ok(VerifierMember { account: account.with_context(lacking)?, endpoint: member.endpoint.clone() })
            });
            named.insert(*family, verifiers(threshold, on_family.collect::<Result<_>>()?)?);
        }
        Ok(Self { threshold, members, named })
    }

    /// Refuses chains that have another releaser.
    pub(super) fn check(&self, chains: &ChainsToml, ids: &[ChainId]) -> Result<()> {
        for id in ids {
            let Some(named) = id.family().and_then(|family| self.named.get(&family)) else { continue };
            let stands = chains.get(id, "releaser");
            ensure!(
                stands.is_none_or(|text| text.parse().is_ok_and(|account: Account| account == named.account)),
                "{CHAINS_TOML} names another releaser of {id} than {}, the account of these verifiers: take it out, or give the \
                 verifiers that it stands for",
                named.account
            );
        }
        Ok(())
    }

    /// The account that stands for them on each family.
    pub(super) fn releasers(&self) -> BTreeMap<Family, String> {
        self.named.iter().map(|(family, named)| (*family, named.account.to_string())).collect()
    }

    /// The member that has these accounts.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn own(&self, accounts: &BTreeMap<Family, String>) -> Result<&Given> {
        let is_own = |member: &&Given| {
            accounts
                .iter()
                .all(|(family, own)| member.accounts.get(family).is_some_and(|account| account.as_str() == own))
        };
        let listed: Vec<_> = accounts.values().map(String::as_str).collect();
        self.members.iter().find(is_own).with_context(|| {
            format!(
                "no --verifier has {}, the accounts of this one: have it among them as `gw init --role verifier --keys-only` shows it",
                listed.join(",")
            )
        })
    }

    /// `[verifier]` of a gateway.
    pub(super) fn of_gateway(&self) -> String {
        let mut text = format!(
            "# The verifiers that attest when a request names nobody: so many of these have to. Their set's id on each family is the\n# \
             `releaser` of the chains in {CHAINS_TOML}.\n[verifier]\nthreshold = {}\n",
            self.threshold
        );
        for member in &self.members {
            text += &format!(
                "\n[[verifier.members]]\nendpoint = {}\n{}\n",
                quoted(&member.endpoint),
                lines(member).join("\n")
            );
        }
        text
    }

    /// `[set]` of a verifier.
    pub(super) fn of_verifier(&self) -> String {
        let members: Vec<_> =
            self.members.iter().map(|member| format!("  {{ {} }},\n", lines(member).join(", "))).collect();
        format!(
            "\n# The verifiers of which so many have to attest, this one among them. Their set's id on each family is the `releaser` of the \
             chains\n# in {CHAINS_TOML}.\n[set]\nthreshold = {}\nmembers = [\n{}]\n",
            self.threshold,
            members.concat()
        )
    }

    /// What a settler trusts for a chain: the members of its `[[verifiers]]`.
    pub(super) fn of_settler(&self, chain: &ChainId) -> Option<String> {
        let named = self.named.get(&chain.family()?)?;
        let head = format!("account = {}\n", quoted(named.account.as_str()));
        if named.set.is_none() {
            return Some(format!("{head}endpoint = {}\n", quoted(&named.endpoint)));
        }
        let member = |VerifierMember { account, endpoint }: VerifierMember| {
            format!("  {{ account = {}, endpoint = {} }},\n", quoted(account.as_str()), quoted(&endpoint))
        };
        let members: Vec<_> = named.members().into_iter().map(member).collect();
        Some(format!("{head}threshold = {}\nmembers = [\n{}]\n", self.threshold, members.concat()))
    }
}

/// The accounts of a verifier by the keys that they stand under.
fn lines(member: &Given) -> Vec<String> {
    let line =
        |(family, account): (&Family, &Account)| format!("{} = {}", account_key(*family), quoted(account.as_str()));
    member.accounts.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVM: [&str; 3] = [
        "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
        "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359",
        "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb",
    ];

    fn tron(byte: u8) -> String {
        Account::from_bytes(Family::Tron, &[byte; 20]).unwrap().to_string()
    }

    fn given(n: usize) -> Given {
        format!("https://v{n}.example={},{}", tron(n as u8 + 1), EVM[n]).parse().unwrap()
    }

    fn both() -> BTreeSet<Family> {
        [Family::Evm, Family::Tron].into()
    }

    #[test]
    fn a_verifier_is_given_by_its_origin_and_its_accounts_in_whatever_order() {
        let one = given(0);
        assert_eq!((one.endpoint.as_str(), one.accounts[&Family::Evm].as_str()), ("https://v0.example", EVM[0]));
        assert_eq!(one.to_string().parse::<Given>().unwrap(), one);
        for (text, said) in [
            ("https://v.example", "must be ENDPOINT=ACCOUNT"),
            ("v.example=0x12", "must be an origin"),
            ("https://v.example/path=0x12", "must be an origin"),
            ("https://v.example=0x12", "0x12: "),
            (&format!("https://v.example={},{}", EVM[0], EVM[1]), "both its accounts on EVM chains"),
        ] {
            let error = text.parse::<Given>().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn each_has_an_account_on_each_family_and_an_endpoint_of_its_own() {
        let only_evm: Given = format!("https://v9.example={}", EVM[2]).parse().unwrap();
        let error = GivenSet::new(2, vec![given(0), only_evm], &both()).unwrap_err().to_string();
        assert!(error.contains("https://v9.example") && error.ends_with("has no account on Tron chains"), "{error}");
        let error = GivenSet::new(1, vec![given(0), given(0)], &both()).unwrap_err().to_string();
        assert!(error.contains("given twice"), "{error}");
        assert!(GivenSet::new(4, (0..3).map(given).collect(), &both()).is_err());
    }

    #[test]
    fn a_verifier_finds_itself_among_the_members() {
        let set = GivenSet::new(2, (0..3).map(given).collect(), &both()).unwrap();
        let own = |evm: &str, tron: String| {
            let accounts = BTreeMap::from([(Family::Evm, evm.to_owned()), (Family::Tron, tron)]);
            set.own(&accounts).map(|member| member.endpoint.clone())
        };
        assert_eq!(own(EVM[1], tron(2)).unwrap(), "https://v1.example");
        // One account of each of two members is neither.
        assert!(own(EVM[1], tron(3)).unwrap_err().to_string().contains("--keys-only"));
    }

    #[test]
    fn what_a_settler_is_given_is_what_it_trusts() {
        let set = GivenSet::new(2, (0..3).map(given).collect(), &both()).unwrap();
        let chain = ChainId::evm(1);
        let text = format!("chain_id = \"{chain}\"\n{}", set.of_settler(&chain).unwrap());
        let section: settler::config::VerifierConfig = toml::from_str(&text).unwrap();
        assert_eq!((section.account.as_str(), section.threshold), (set.releasers()[&Family::Evm].as_str(), Some(2)));
        assert_eq!(section.members.len(), 3);
        assert!(set.of_settler(&"solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1".parse().unwrap()).is_none());
    }
}
