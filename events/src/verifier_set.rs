//! Verifier sets: n verifiers of which k release an escrow, the commitment by which the escrow knows them, and what they sign
//! together (ADR 147).
//!
//! A payer signs for the set's [`VerifierSet::id`], which stands where a single verifier's account stands else. It is a hash of
//! threshold and members: nothing is stored on chain, and who brings a release brings the set along.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sha3::Keccak256;

use crate::{Account, Family, mutant};

/// Most members of a set.
pub const MEMBERS_MAX: usize = 16;
/// What begins the preimage of an id: a name that no key's and no contract's address is hashed from, and the version of the form.
const DOMAIN: &[u8; 16] = b"gw-verifier-set\x01";
/// Bytes of threshold and number of members.
const HEAD_BYTES: usize = 2;

/// One of a set's verifiers, or the only one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifierMember {
    /// The account that it signs with: a plain key's, no contract's.
    pub account: Account,
    /// The origin that it is reached at, no path.
    pub endpoint: String,
}

/// Verifiers of which a threshold has to sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct VerifierSet {
    /// How many of the members have to sign, 1 to their number.
    threshold: u8,
    /// In order of their accounts' bytes, each once, all of one family.
    members: Vec<VerifierMember>,
}

/// Verifiers of which a threshold has to sign.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "VerifierSet")]
struct Unchecked {
    /// How many of the members have to sign, 1 to their number.
    #[schemars(range(min = 1, max = 16))]
    threshold: u8,
    /// Each once, all of one family.
    #[schemars(length(min = 1, max = 16))]
    members: Vec<VerifierMember>,
}

/// Why verifiers are no set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A set without members, or with more than can be.
    #[error("a verifier set must have 1 to {MEMBERS_MAX} members")]
    Members,
    /// The threshold asks for nobody, or for more than there are.
    #[error("the threshold of a verifier set must be from 1 to the number of its members")]
    Threshold,
    /// Accounts of several families.
    #[error("the members of a verifier set must be accounts of one family")]
    Families,
    /// One account twice, whose signature would count twice.
    #[error("the members of a verifier set must be different accounts")]
    Repeated,
}

impl TryFrom<Unchecked> for VerifierSet {
    type Error = Error;

    fn try_from(unchecked: Unchecked) -> Result<Self, Error> {
        Self::new(unchecked.threshold, unchecked.members)
    }
}

impl From<VerifierSet> for Unchecked {
    fn from(set: VerifierSet) -> Self {
        Self { threshold: set.threshold, members: set.members }
    }
}

impl VerifierSet {
    /// The set of these members, in whatever order they come.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(threshold: u8, mut members: Vec<VerifierMember>) -> Result<Self, Error> {
        if members.is_empty() || members.len() > MEMBERS_MAX {
            return Err(Error::Members);
        }
        if threshold == 0 || usize::from(threshold) > members.len() {
            return Err(Error::Threshold);
        }
        if members.iter().any(|member| member.account.family() != members[0].account.family()) {
            return Err(Error::Families);
        }
        members.sort_by_cached_key(|member| member.account.to_bytes());
        if members.windows(2).any(|pair| pair[0].account == pair[1].account) {
            return Err(Error::Repeated);
        }
        Ok(Self { threshold, members })
    }

    /// How many members have to sign.
    pub fn threshold(&self) -> usize {
        usize::from(self.threshold) - usize::from(mutant!("threshold-one-less"))
    }

    /// The members, in the order in which they are hashed.
    pub fn members(&self) -> &[VerifierMember] {
        &self.members
    }

    /// The member with this account.
    pub fn member(&self, account: &Account) -> Option<&VerifierMember> {
        self.members.iter().find(|member| member.account == *account)
    }

    /// The account that stands for the set on chain: of Keccak-256 the last 20 bytes on EVM chains and Tron, SHA-256 on Solana,
    /// over the name of the form, threshold, number of members and the members.
    ///
    /// `None` for a hash of zero, which nobody finds.
    pub fn id(&self) -> Option<Account> {
        id(self.members[0].account.family(), &self.head())
    }

    /// What a payment's escrow takes for the word of the set: the set itself, and of the first k of `signatures`, in order of the
    /// members, who signed and the signature, hex with 0x. `None` while fewer than k different members signed, or where a
    /// signature is none of its family's.
    pub fn attestation<'a>(&self, signatures: impl IntoIterator<Item = (&'a Account, &'a str)>) -> Option<String> {
        let mut signed: Vec<(u8, Vec<u8>)> = Vec::new();
        for (account, signature) in signatures {
            let at = self.members.iter().position(|member| member.account == *account)?;
            let at = u8::try_from(at).ok()?;
            let signature = hex::decode(signature.strip_prefix("0x")?).ok()?;
            if signature.len() != signature_bytes(account.family()) {
                return None;
            }
            let is_new = signed.iter().all(|(other, _)| *other != at) || mutant!("member-counted-twice");
            if signed.len() < self.threshold() && is_new {
                signed.push((at, signature));
            }
        }
        if signed.len() < self.threshold() {
            return None;
        }
        signed.sort_by_key(|(at, _)| *at);
        let mut bytes = self.head();
        for (at, signature) in signed {
            bytes.push(at);
            bytes.extend(signature);
        }
        Some(format!("0x{}", hex::encode(bytes)))
    }

    fn head(&self) -> Vec<u8> {
        // Not more than MEMBERS_MAX, which fits.
        let mut head = vec![self.threshold, self.members.len() as u8];
        for member in &self.members {
            head.extend(member.account.to_bytes());
        }
        head
    }
}

/// A set's attestation taken apart, with the signatures as they stand: whether they are right is the chain's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAttestation {
    /// The account that stands for the set.
    pub id: Account,
    /// How many have to sign.
    pub threshold: u8,
    /// The members' accounts, in the order in which they are hashed.
    pub members: Vec<Account>,
    /// Who signed, strictly ascending, and each signature: 65 bytes on EVM chains and Tron, 64 on Solana.
    pub signatures: Vec<(Account, Vec<u8>)>,
}

impl SetAttestation {
    /// What `text` says, hex with 0x, on a chain of `family`; `None` when it is no set's attestation: not exactly as many different
    /// members as the threshold asks for, in order, and nothing behind them.
    pub fn parse(family: Family, text: &str) -> Option<Self> {
        let bytes = hex::decode(text.strip_prefix("0x")?).ok()?;
        let (member_bytes, signature_bytes) = (account_bytes(family), signature_bytes(family));
        let (&[threshold, n], rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let count = usize::from(n);
        if threshold == 0 || threshold > n || count > MEMBERS_MAX || rest.len() < count * member_bytes {
            return None;
        }
        let (listed, signed) = rest.split_at(count * member_bytes);
        let members = listed.chunks_exact(member_bytes).map(|member| Account::from_bytes(family, member));
        let members = members.collect::<Option<Vec<_>>>()?;
        let exact = signed.len() == usize::from(threshold) * (1 + signature_bytes);
        let signed = signed.chunks_exact(1 + signature_bytes);
        if !exact
            || !is_ascending(listed.chunks_exact(member_bytes))
            || !is_ascending(signed.clone().map(|entry| entry[0]))
        {
            return None;
        }
        let signatures = signed.map(|entry| Some((members.get(usize::from(entry[0]))?.clone(), entry[1..].to_vec())));
        let signatures = signatures.collect::<Option<Vec<_>>>()?;
        let id = id(family, &bytes[..HEAD_BYTES + count * member_bytes])?;
        Some(Self { id, threshold, members, signatures })
    }
}

fn id(family: Family, head: &[u8]) -> Option<Account> {
    match family {
        Family::Evm | Family::Tron => {
            let hash = Keccak256::new_with_prefix(DOMAIN).chain_update(head).finalize();
            Account::from_bytes(family, &hash[12..])
        }
        Family::Solana => {
            let hash = Sha256::new_with_prefix(DOMAIN).chain_update(head).finalize();
            Account::from_bytes(family, &hash)
        }
    }
}

/// Whether each comes after the one before it, so that none is there twice.
fn is_ascending<T: PartialOrd>(items: impl Iterator<Item = T>) -> bool {
    items.is_sorted_by(|a, b| a < b)
}

fn account_bytes(family: Family) -> usize {
    match family {
        Family::Evm | Family::Tron => 20,
        Family::Solana => 32,
    }
}

fn signature_bytes(family: Family) -> usize {
    match family {
        Family::Evm | Family::Tron => 65,
        Family::Solana => 64,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::VerifierRef;

    fn member(family: Family, byte: u8) -> VerifierMember {
        let account = Account::from_bytes(family, &vec![byte; account_bytes(family)]).unwrap();
        VerifierMember { account, endpoint: format!("https://v{byte}.example") }
    }

    fn set(family: Family, threshold: u8, members: impl IntoIterator<Item = u8>) -> VerifierSet {
        VerifierSet::new(threshold, members.into_iter().map(|byte| member(family, byte)).collect()).unwrap()
    }

    fn signature(family: Family, byte: u8) -> String {
        format!("0x{}", hex::encode(vec![byte; signature_bytes(family)]))
    }

    #[test]
    fn a_set_has_different_members_of_one_family_and_a_threshold_that_they_can_reach() {
        let new = |threshold, members: Vec<VerifierMember>| VerifierSet::new(threshold, members).unwrap_err();
        let evm = |bytes: std::ops::RangeInclusive<u8>| bytes.map(|byte| member(Family::Evm, byte)).collect::<Vec<_>>();
        assert_eq!(new(1, Vec::new()), Error::Members);
        assert_eq!(new(1, evm(1..=17)), Error::Members);
        assert_eq!(new(0, evm(1..=3)), Error::Threshold);
        assert_eq!(new(4, evm(1..=3)), Error::Threshold);
        assert_eq!(new(1, vec![member(Family::Evm, 1), member(Family::Tron, 2)]), Error::Families);
        assert_eq!(new(1, [evm(1..=3), evm(2..=2)].concat()), Error::Repeated);
        assert!(VerifierSet::new(16, evm(1..=16)).is_ok());
    }

    #[test]
    fn an_id_is_of_threshold_and_members_and_not_of_their_order_or_endpoints() {
        let id = |threshold, members: &[u8]| set(Family::Evm, threshold, members.iter().copied()).id().unwrap();
        assert_eq!(id(2, &[1, 2, 3]), id(2, &[3, 1, 2]));
        assert_ne!(id(2, &[1, 2, 3]), id(1, &[1, 2, 3]));
        assert_ne!(id(2, &[1, 2, 3]), id(2, &[1, 2, 4]));
        assert_ne!(id(2, &[1, 2, 3]), id(2, &[1, 2]));
        let mut elsewhere: Vec<_> = (1..=3).map(|byte| member(Family::Evm, byte)).collect();
        elsewhere[0].endpoint = "https://elsewhere.example".to_owned();
        assert_eq!(VerifierSet::new(2, elsewhere).unwrap().id().unwrap(), id(2, &[1, 2, 3]));
        // Tron hashes the same bytes.
        let tron = set(Family::Tron, 2, [1, 2, 3]).id().unwrap();
        assert_eq!(tron.to_bytes(), id(2, &[1, 2, 3]).to_bytes());
    }

    #[test]
    fn one_verifier_is_named_by_its_own_account_and_several_by_their_set() {
        let (one, several) = (set(Family::Evm, 1, [7]), set(Family::Evm, 1, [8, 7]));
        let alone = VerifierRef::single(member(Family::Evm, 7).account, "https://v7.example");
        assert_eq!(VerifierRef::of(one), Some(alone));
        let named = VerifierRef::of(several.clone()).unwrap();
        assert_eq!((Some(named.account), named.endpoint.as_str()), (several.id(), "https://v7.example"));
        assert_eq!(named.set, Some(several));
    }

    #[test]
    fn a_stored_set_is_checked_as_it_is_read() {
        let text = serde_json::to_string(&set(Family::Evm, 2, [2, 1])).unwrap();
        assert_eq!(serde_json::from_str::<VerifierSet>(&text).unwrap(), set(Family::Evm, 2, [1, 2]));
        let spoilt = text.replace("\"threshold\":2", "\"threshold\":3");
        assert!(serde_json::from_str::<VerifierSet>(&spoilt).unwrap_err().to_string().contains("threshold"));
    }

    #[test]
    fn what_is_not_exactly_the_threshold_of_different_members_is_no_attestation() {
        for family in [Family::Evm, Family::Tron, Family::Solana] {
            let set = set(family, 2, [1, 2, 3]);
            let (one, two) = (member(family, 1).account, member(family, 2).account);
            let (by_one, by_two) = (signature(family, 11), signature(family, 12));
            let word = set.attestation([(&two, by_two.as_str()), (&one, by_one.as_str())]).unwrap();
            let parsed = SetAttestation::parse(family, &word).unwrap();
            assert_eq!((Some(parsed.id), parsed.threshold), (set.id(), 2));
            assert_eq!(parsed.signatures.iter().map(|(by, _)| by).collect::<Vec<_>>(), [&one, &two]);
            assert_eq!(set.attestation([(&one, by_one.as_str())]), None);
            assert_eq!(set.attestation([(&one, by_one.as_str()), (&one, by_two.as_str())]), None, "one twice");
            let stranger = member(family, 9).account;
            assert_eq!(set.attestation([(&one, by_one.as_str()), (&stranger, by_two.as_str())]), None);
            assert_eq!(set.attestation([(&one, by_one.as_str()), (&two, "0x1b")]), None);

            let bytes = hex::decode(&word[2..]).unwrap();
            let first = HEAD_BYTES + 3 * account_bytes(family);
            let second = first + 1 + signature_bytes(family);
            let changed = |at: usize, to: u8| {
                let mut bytes = bytes.clone();
                bytes[at] = to;
                SetAttestation::parse(family, &format!("0x{}", hex::encode(bytes)))
            };
            for (at, to, what) in [
                (0, 0, "no threshold"),
                (0, 1, "more signatures than the threshold"),
                (0, 3, "fewer"),
                (1, 2, "fewer members"),
                (first, 1, "one member twice"),
                (first, 2, "members out of order"),
                (second, 3, "nobody"),
                (HEAD_BYTES, 4, "listed out of order"),
            ] {
                assert_eq!(changed(at, to), None, "{family:?}: {what}");
            }
            let longer = format!("{word}00");
            for broken in [longer.as_str(), &word[..word.len() - 2], &word[2..], "0x", "0x02", "0x0203"] {
                assert_eq!(SetAttestation::parse(family, broken), None, "{broken}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_threshold_of_members_makes_a_word_that_reads_as_them(
            order in Just((1..=16u8).collect::<Vec<_>>()).prop_shuffle(), n in 1..=16usize, k in 1..=16usize, solana: bool,
        ) {
            let family = if solana { Family::Solana } else { Family::Evm };
            let (k, members) = (k.min(n), &order[..n]);
            let set = set(family, k as u8, members.iter().copied());
            let signed: Vec<_> =
                members.iter().map(|byte| (member(family, *byte).account, signature(family, *byte))).collect();
            let given = |count: usize| set.attestation(signed[..count].iter().map(|(by, text)| (by, text.as_str())));
            prop_assert_eq!(given(k - 1), None);
            let parsed = SetAttestation::parse(family, &given(n).unwrap()).unwrap();
            prop_assert_eq!(Some(parsed.id), set.id());
            prop_assert_eq!(parsed.signatures.len(), k);
            for (by, bytes) in parsed.signatures {
                prop_assert_eq!(bytes[0], by.to_bytes()[0]);
            }
        }
    }
}
