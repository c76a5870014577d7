//! `gw config check`: whether a role's file can be used, before anything is started.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use anyhow::Result;
use clap::{Args as ClapArgs, Subcommand};

use chains::config::ChainConfig;
use config::{
    AuditorConfig, ConsoleConfig, GatewayConfig, KeyForm, SelectorConfig, SettlersConfig, VerifierConfig,
    VerifierSetConfig, key_places,
};
use events::event::VerifierRef;

use super::role::Role;
use crate::operator::named_verifiers;

/// Arguments of `gw config`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read a role's file as the role does, with the environment laid over it, and check every value. Asks nobody.
    Check {
        /// What is to be run.
        #[arg(long, value_enum)]
        role: Role,
        /// Its file.
        #[arg(long)]
        config: PathBuf,
    },
}

/// Checks a role's file.
///
/// # Errors
/// When it cannot be used; the text names the key and the rule.
pub fn run(args: &Args) -> Result<()> {
    let Command::Check { role, config } = &args.command;
    let mut notes = Vec::new();
    let chains: Vec<ChainConfig> = match role {
        Role::Gateway => {
            let gateway = GatewayConfig::load(config)?;
            notes.extend(set_notes(&named_verifiers(&gateway)));
            notes.extend(settler_notes(&gateway.settlers));
            notes.extend(console_note(&gateway.console));
            gateway.chains.into_iter().map(|served| served.chain).collect()
        }
        Role::Verifier => {
            let verifier = VerifierConfig::load(config)?;
            notes.extend(verifier.set.as_ref().map(membership_note));
            verifier.chains
        }
        Role::Settler => {
            let settler: settler::Config = config::settler(config)?;
            let chains = settler.chains.clone();
            let mut verifiers: Vec<_> = settler.options()?.verifiers.into_values().collect();
            verifiers.sort_by(|one, other| one.account.cmp(&other.account));
            verifiers.dedup();
            notes.extend(set_notes(&verifiers));
            chains
        }
        Role::Auditor => AuditorConfig::load(config)?.chains,
        Role::Selector => {
            SelectorConfig::load(config)?;
            Vec::new()
        }
    };
    let mut lines = vec![format!("{} can be used by `{}`.", config.display(), role.command())];
    for chain in &chains {
        let common = chain.common();
        lines.push(format!(
            "  {:<44} {} assets, escrow {}",
            common.chain_id.as_str(),
            common.assets.len(),
            common.escrow_contract
        ));
    }
    for place in key_places(config)? {
        match place.form {
            KeyForm::Web3Signer(origin) => {
                lines.push(format!("  {:<44} is kept by the Web3Signer {origin}", place.path));
            }
            KeyForm::Kms(key_id) => lines.push(format!("  {:<44} is kept by AWS KMS: {key_id}", place.path)),
            KeyForm::Keystore(_) | KeyForm::SecretFile(_) | KeyForm::InTheClear => {}
        }
    }
    lines.extend(notes);
    super::answer(&lines.join("\n"))
}

/// What is said of verifier sets: how many of whom have to attest, and the accounts by which payers know them, one on each family.
fn set_notes(verifiers: &[VerifierRef]) -> Vec<String> {
    let mut sets: BTreeMap<(usize, BTreeSet<String>), Vec<&str>> = BTreeMap::new();
    for verifier in verifiers.iter().filter(|verifier| verifier.set.is_some()) {
        let members = verifier.members().into_iter().map(|member| member.endpoint);
        sets.entry((verifier.threshold(), members.collect())).or_default().push(verifier.account.as_str());
    }
    let note = |((threshold, members), ids): ((usize, BTreeSet<String>), Vec<&str>)| {
        let (count, members) = (members.len(), members.into_iter().collect::<Vec<_>>().join(", "));
        let known = format!("payers know them as {}", ids.join(", "));
        let split = split_note(threshold, count);
        format!("  {:<44} {threshold} of {count} have to attest: {members}; {known}{split}", "verifier set")
    };
    sets.into_iter().map(note).collect()
}

/// What is said of the set that a verifier is in.
fn membership_note(set: &VerifierSetConfig) -> String {
    let (threshold, count) = (set.threshold, set.members.len());
    let split = split_note(threshold.into(), count);
    format!("  {:<44} {threshold} of {count} have to attest, this one among them{split}", "verifier set")
}

/// What is warned of where half of the members are enough. A verifier alone has nobody to contradict it.
fn split_note(threshold: usize, members: usize) -> &'static str {
    let is_split = members > 1 && 2 * threshold <= members;
    if is_split { "; WARNING: two groups that share no member could sign opposite statements" } else { "" }
}

/// What is said of settlers: how long winners are waited for, who is passed over, and what each policy asks for.
fn settler_notes(settlers: &SettlersConfig) -> Vec<String> {
    let pauses = settlers.pauses;
    let passed_over = match pauses.missed {
        0 => "nobody is passed over".to_owned(),
        missed => format!(
            "passed over after {missed} missed of {} awards, {} to {} s",
            pauses.of, pauses.pause_seconds, pauses.pause_seconds_max
        ),
    };
    let ack = settlers.award_ack_ms;
    let reassigned = match settlers.reassignments_max {
        0 => "no escrow is reassigned".to_owned(),
        max if !settlers.reassign_deposits => format!(
            "an escrow is reassigned up to {max} times, each after {} ms of quotes, to nobody dearer",
            settlers.reassign_window_ms
        ),
        max => format!(
            "an escrow is reassigned up to {max} times, each after {} ms of quotes",
            settlers.reassign_window_ms
        ),
    };
    let mut notes = vec![format!(
        "  {:<44} a winner has {ack} ms while another quote waits; {reassigned}; {passed_over}",
        "settlers"
    )];
    notes.extend(settlers.policies.iter().map(|(name, policy)| {
        let issuers = policy.issuers.len();
        let mut asked = format!("{} by {issuers} issuer{}", policy.kind, if issuers == 1 { "" } else { "s" });
        if let Some(record) = policy.record {
            let (delivered, missed) = (record.delivered_min, record.missed_percent_max);
            asked.push_str(&format!(", and {delivered} delivered, {missed} % missed at most"));
        }
        format!("  {:<44} {asked}", format!("settlers.policies.{name}"))
    }));
    notes
}

/// What is said of the console, where anything is configured of one.
fn console_note(console: &ConsoleConfig) -> Option<String> {
    let (all, acting) = (console.operators.len(), console.operators.iter().filter(|operator| operator.acts).count());
    let who = format!("{all} operator{}, {acting} may act", if all == 1 { "" } else { "s" });
    match console.listen {
        Some(listen) if console.beyond_loopback().is_some() => {
            Some(format!("  {:<44} {who}, at {listen}: BEYOND LOOPBACK OVER PLAIN HTTP", "console"))
        }
        Some(listen) => Some(format!("  {:<44} {who}, at {listen}", "console")),
        None if all > 0 => {
            Some(format!("  {:<44} none, although operators are named: console.listen is missing", "console"))
        }
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use config::{ConsoleOperator, PolicyRecordConfig, SettlerPolicyConfig};
    use events::{VerifierMember, VerifierSet};

    use super::*;

    #[test]
    fn a_set_of_verifiers_is_told_and_one_alone_is_not() {
        let member = |digit: &str| VerifierMember {
            account: format!("0x{}", digit.repeat(40)).parse().unwrap(),
            endpoint: format!("https://v{digit}.example"),
        };
        let alone = VerifierRef::single(member("4").account, "https://v4.example");
        let set = VerifierRef::of(VerifierSet::new(2, ["3", "1", "2"].map(member).into()).unwrap()).unwrap();
        let id = set.account.clone();
        let [told] = set_notes(&[alone, set]).try_into().unwrap();
        let members = "https://v1.example, https://v2.example, https://v3.example";
        assert!(told.ends_with(&format!(" 2 of 3 have to attest: {members}; payers know them as {id}")), "{told}");
    }

    #[test]
    fn a_threshold_of_half_or_less_is_warned_of() {
        for (threshold, members, warned) in
            [(1, 1, false), (1, 2, true), (2, 2, false), (1, 3, true), (2, 3, false), (2, 4, true), (3, 4, false)]
        {
            let told = split_note(threshold, members);
            assert_eq!(told.contains("opposite statements"), warned, "{threshold} of {members}");
        }
        let member = |digit: &str| VerifierMember {
            account: format!("0x{}", digit.repeat(40)).parse().unwrap(),
            endpoint: format!("https://v{digit}.example"),
        };
        let set = VerifierRef::of(VerifierSet::new(1, ["1", "2"].map(member).into()).unwrap()).unwrap();
        let [told] = set_notes(&[set]).try_into().unwrap();
        assert!(told.ends_with("could sign opposite statements"), "{told}");
    }

    #[test]
    fn what_decides_about_settlers_is_told() {
        let told = |settlers: &SettlersConfig| settler_notes(settlers).join("\n");
        let mut settlers = SettlersConfig::default();
        let defaults = told(&settlers);
        let said = "a winner has 1000 ms while another quote waits; an escrow is reassigned up to 3 times, each after 2000 ms of \
             quotes; passed over after 3 missed of 10 awards, 60 to 3600 s";
        assert!(defaults.ends_with(said), "{defaults}");
        settlers.reassign_deposits = false;
        assert!(told(&settlers).contains("each after 2000 ms of quotes, to nobody dearer; "));
        settlers.reassignments_max = 0;
        assert!(told(&settlers).contains("; no escrow is reassigned; "));
        settlers.pauses.missed = 0;
        settlers.policies.insert(
            "proven".to_owned(),
            SettlerPolicyConfig {
                issuers: vec!["did:web:kyc.example".parse().unwrap()],
                kind: "KycCredential".to_owned(),
                record: Some(PolicyRecordConfig { delivered_min: 20, missed_percent_max: 5 }),
            },
        );
        let told = told(&settlers);
        assert!(told.contains("; nobody is passed over\n"), "{told}");
        assert!(told.contains("  settlers.policies.proven "), "{told}");
        assert!(told.ends_with(" KycCredential by 1 issuer, and 20 delivered, 5 % missed at most"), "{told}");
    }

    #[test]
    fn what_is_configured_of_a_console_is_told() {
        let operator =
            |name: &str, acts| ConsoleOperator { name: name.to_owned(), token_sha256: "00".repeat(32), acts };
        let told = |listen: Option<&str>, operators: Vec<ConsoleOperator>| {
            let listen = listen.map(|listen| listen.parse().unwrap());
            console_note(&ConsoleConfig { listen, operators }).map(|note| note.trim_start().to_owned())
        };
        assert_eq!(told(None, Vec::new()), None);
        let nobody_listens = told(None, vec![operator("ana", true)]).unwrap();
        assert!(nobody_listens.contains("console.listen is missing"), "{nobody_listens}");
        let two = || vec![operator("ana", true), operator("bob", false)];
        let own = told(Some("127.0.0.1:8099"), two()).unwrap();
        assert!(own.ends_with("2 operators, 1 may act, at 127.0.0.1:8099"), "{own}");
        let open = told(Some("0.0.0.0:8099"), two()).unwrap();
        assert!(open.ends_with("BEYOND LOOPBACK OVER PLAIN HTTP"), "{open}");
    }
}
