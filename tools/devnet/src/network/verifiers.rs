//! The network's verifiers: a single one, or a set of which a threshold has to attest.

use std::{fmt, str::FromStr};

use anyhow::{Context, Result, ensure};

use devkit::Signal;
use events::{Family, VerifierMember, VerifierSet, event::VerifierRef, verifier_set::MEMBERS_MAX};

use super::{Network, config};
use crate::keys::Role;

/// How many verifiers a network has, and how many of them have to attest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verifiers {
    /// How many there are, 1 to 16. One is no set: its own account releases.
    pub members: u8,
    /// How many of them have to attest, 1 to their number.
    pub threshold: u8,
}

impl Verifiers {
    /// A single verifier.
    pub const ONE: Self = Self { members: 1, threshold: 1 };
}

impl Default for Verifiers {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Verifiers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.threshold, self.members)
    }
}

impl FromStr for Verifiers {
    type Err = anyhow::Error;

    /// Reads threshold and number with a stroke between them, such as `2/3`.
    fn from_str(text: &str) -> Result<Self> {
        let (threshold, members) = text.split_once('/').context("threshold and number are written as 2/3")?;
        let this = Self { members: members.parse()?, threshold: threshold.parse()? };
        ensure!((1..=MEMBERS_MAX).contains(&this.members.into()), "there are 1 to {MEMBERS_MAX} verifiers");
        ensure!((1..=this.members).contains(&this.threshold), "the threshold is from 1 to the number of verifiers");
        Ok(this)
    }
}

impl Network {
    /// The numbers of the verifiers, from 1.
    pub(super) fn verifier_numbers(&self) -> std::ops::RangeInclusive<u8> {
        1..=self.options.verifiers.members
    }

    /// The origin of verifier `n`, counted from 1.
    pub fn verifier_endpoint(&self, n: u8) -> String {
        format!("http://127.0.0.1:{}", self.verifier_ports[usize::from(n) - 1])
    }

    /// Who attests for the escrows on chains of `family`: its account is the releaser there.
    ///
    /// # Errors
    /// Never, for options that can be.
    pub fn verifier(&self, family: Family) -> Result<VerifierRef> {
        let member = |n| -> Result<VerifierMember> {
            let account = Role::verifier(n).account_on(family).parse()?;
            Ok(VerifierMember { account, endpoint: self.verifier_endpoint(n) })
        };
        let members = self.verifier_numbers().map(member).collect::<Result<_>>()?;
        VerifierRef::of(VerifierSet::new(self.options.verifiers.threshold, members)?).context("the set has no id")
    }

    /// Starts verifier `n`, counted from 1.
    ///
    /// # Errors
    /// When it does not start listening.
    pub async fn start_verifier(&mut self, n: u8) -> Result<()> {
        let (name, index) = (name(n), usize::from(n) - 1);
        let port = self.verifier_ports[index];
        let config = self.write(&name, &config::verifier(self, n)?)?;
        let mut process = self.spawn(&name, "verifier", &config)?;
        process.listening_on(port).await.with_context(|| format!("see {name}.log"))?;
        self.verifiers[index] = Some(process);
        Ok(())
    }

    /// Ends verifier `n`, counted from 1, as `kill -9` does.
    ///
    /// # Errors
    /// When the system refuses.
    pub async fn kill_verifier(&mut self, n: u8) -> Result<()> {
        match self.verifiers[usize::from(n) - 1].take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Stops verifier `n`, counted from 1, where it stands, or lets it go on.
    ///
    /// # Errors
    /// When it does not run or the system refuses.
    pub async fn signal_verifier(&self, n: u8, signal: Signal) -> Result<()> {
        self.verifiers[usize::from(n) - 1].as_ref().context("the verifier does not run")?.signal(signal).await
    }
}

/// What its files are called: the first of several as a single one.
fn name(n: u8) -> String {
    match n {
        1 => "verifier".to_owned(),
        n => format!("verifier-{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threshold_and_number_are_read_as_they_are_written() {
        for (text, threshold, members) in [("1/1", 1, 1), ("2/3", 2, 3), ("16/16", 16, 16)] {
            let read: Verifiers = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (Verifiers { members, threshold }, text));
        }
        for text in ["", "2", "0/1", "3/2", "1/17", "0/0", "2/3/4", "a/3"] {
            assert!(text.parse::<Verifiers>().is_err(), "{text}");
        }
    }
}
