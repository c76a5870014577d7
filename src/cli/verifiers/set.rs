//! Verifier sets as an operator gives them on the command line.

use anyhow::{Context, Result, bail, ensure};

use chains_solana::authorization::wallet_key;
use events::{Account, Family, VerifierMember, VerifierSet, event::VerifierRef};

/// An account that a verifier can sign with, of the family that its form tells.
///
/// # Errors
/// When it is no account, or one that has no key.
pub(in crate::cli) fn account(text: &str) -> Result<Account> {
    let account: Account = text.parse()?;
    let has_key = account.family() != Family::Solana || wallet_key(&account).is_some();
    ensure!(has_key, "must be an Ed25519 public key, and is an address that no key signs for");
    Ok(account)
}

/// The verifiers as payments name them: by the id of their set, or, of one alone, by its own account.
///
/// # Errors
/// When they make no set, or one that could not release.
pub(in crate::cli) fn verifiers(threshold: u8, members: Vec<VerifierMember>) -> Result<VerifierRef> {
    let accounts: Vec<&Account> = members.iter().map(|member| &member.account).collect();
    for (at, account) in accounts.iter().enumerate() {
        ensure!(!accounts[..at].contains(account), "{account} is given twice: no signature counts twice");
        if account.family() != accounts[0].family() {
            bail!(
                "{} and {account} are accounts of different families: on each family the set has an id of its own, of the members' \
                 accounts there",
                accounts[0]
            );
        }
    }
    let (count, is_solana) = (accounts.len(), accounts.first().is_some_and(|it| it.family() == Family::Solana));
    let set = VerifierSet::new(threshold, members).with_context(|| format!("{threshold} of {count} verifiers"))?;
    ensure!(
        !is_solana || config::fits_on_solana(usize::from(threshold), count),
        "{threshold} signatures and {count} members do not fit into a transaction on Solana, so that nobody could release: lower the \
         threshold, or have fewer members"
    );
    VerifierRef::of(set).context("the set has no id")
}
