//! Verifier sets as a gateway and a verifier write them: a threshold, and of each member its account on chains of each family.

use chains_solana::authorization::wallet_key;
pub use chains_solana::program::fits as fits_on_solana;
use events::{Account, Family, VerifierMember, VerifierSet, event::VerifierRef, verifier_set::MEMBERS_MAX};

use super::{
    Error,
    rules::{invalid, require},
};

/// What the account of a verifier on chains of a family stands under.
pub fn account_key(family: Family) -> &'static str {
    match family {
        Family::Evm => "account",
        Family::Solana => "solana_account",
        Family::Tron => "tron_account",
    }
}

/// What chains of a family are called.
pub fn chains_of(family: Family) -> &'static str {
    match family {
        Family::Evm => "EVM chains",
        Family::Solana => "Solana chains",
        Family::Tron => "Tron chains",
    }
}

/// Which of a verifier's accounts is that on chains of a family.
pub(super) fn account_on<'a>(
    family: Family,
    evm: &'a Option<Account>,
    solana: &'a Option<Account>,
    tron: &'a Option<Account>,
) -> Option<&'a Account> {
    match family {
        Family::Evm => evm.as_ref(),
        Family::Solana => solana.as_ref(),
        Family::Tron => tron.as_ref(),
    }
}

/// The rules of threshold and number of members of the set in `section`.
pub(super) fn check_size(section: &str, threshold: u8, members: usize) -> Result<(), Error> {
    let is_many = (1..=MEMBERS_MAX).contains(&members);
    require(is_many, &format!("{section}.members"), &format!("must be 1 to {MEMBERS_MAX} verifiers"))?;
    let is_reached = (1..=members).contains(&usize::from(threshold));
    require(is_reached, &format!("{section}.threshold"), &format!("must be 1 to {members}, the number of members"))
}

/// The set in `section` on chains of a family: what payers there sign for. Of each member its account on them, and its endpoint.
///
/// # Errors
/// [`Error::Invalid`] with the key of the first that breaks a rule.
pub(super) fn checked<'a>(
    section: &str,
    family: Family,
    threshold: u8,
    members: impl Iterator<Item = (Option<&'a Account>, &'a str)>,
) -> Result<VerifierRef, Error> {
    let mut listed: Vec<VerifierMember> = Vec::new();
    for (i, (account, endpoint)) in members.enumerate() {
        let key = format!("{section}.members[{i}].{}", account_key(family));
        let rule = || format!("must be given, as each member's must where {} are served", chains_of(family));
        let account = account.ok_or_else(|| invalid(&key, rule()))?;
        check_account(&key, family, account)?;
        let is_new = listed.iter().all(|other| other.account != *account);
        require(is_new, &key, "must not repeat an account: no signature counts twice")?;
        listed.push(VerifierMember { account: account.clone(), endpoint: endpoint.to_owned() });
    }
    check_size(section, threshold, listed.len())?;
    let set = VerifierSet::new(threshold, listed).map_err(|error| invalid(section, error.to_string()))?;
    let rule = format!(
        "must be lower, or the members fewer: {threshold} signatures and {} members do not fit into the 1232 bytes of a transaction \
         on Solana, so that nobody could release",
        set.members().len()
    );
    require(
        family != Family::Solana || fits_on_solana(set.threshold(), set.members().len()),
        &format!("{section}.threshold"),
        &rule,
    )?;
    VerifierRef::of(set).ok_or_else(|| invalid(section, "has no id"))
}

/// An account that signs on chains of a family.
pub(super) fn check_account(key: &str, family: Family, account: &Account) -> Result<(), Error> {
    let is_its = account.family() == family;
    require(is_its, key, &format!("must be an account on {}", chains_of(family)))?;
    let signs = family != Family::Solana || wallet_key(account).is_some();
    require(signs, key, "must be an Ed25519 public key")
}
