//! `gw verifiers id`: the account that stands for a set of verifiers on chain.

use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use serde_json::json;

use events::VerifierMember;

use super::set::{account, verifiers};

/// Arguments of `gw verifiers id`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// How many members have to sign.
    #[arg(long, value_name = "K")]
    threshold: u8,
    /// The account of a member, all of them on chains of one family; in whatever order.
    #[arg(long = "member", value_name = "ACCOUNT", required = true)]
    members: Vec<String>,
    /// As JSON, with the members in the order in which they are hashed.
    #[arg(long)]
    json: bool,
}

/// The id. Of one verifier it is its own account.
///
/// # Errors
/// When the accounts are none, or make no set; the text says which and why.
pub(super) fn shown(args: &Args) -> Result<String> {
    let member = |text: &String| {
        let account = account(text).with_context(|| format!("--member {text}"))?;
        // Where it is reached has no part in the id.
        anyhow::Ok(VerifierMember { account, endpoint: String::new() })
    };
    let members = args.members.iter().map(member).collect::<Result<Vec<_>>>()?;
    let verifiers = verifiers(args.threshold, members)?;
    let id = verifiers.account.clone();
    if !args.json {
        return Ok(id.to_string());
    }
    let members: Vec<_> = verifiers.members().into_iter().map(|member| member.account).collect();
    let family = id.family().namespace();
    let shown = json!({"id": id, "family": family, "threshold": verifiers.threshold(), "members": members});
    Ok(serde_json::to_string_pretty(&shown)?)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use events::{Account, Family};
    use serde_json::Value;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn given(threshold: &str, members: &[&str], json: bool) -> Result<String> {
        let members = members.iter().flat_map(|member| ["--member", member]);
        let line = ["id", "--threshold", threshold].into_iter().chain(members).chain(json.then_some("--json"));
        shown(&Line::try_parse_from(line)?.args)
    }

    fn refused(threshold: &str, members: &[&str]) -> String {
        format!("{:#}", given(threshold, members, false).unwrap_err())
    }

    fn accounts(family: Family, count: u8) -> Vec<String> {
        let account = |byte: u8| match family {
            // Any 32 bytes may be no key.
            Family::Solana => {
                let key = ed25519_dalek::SigningKey::from_bytes(&[byte; 32]).verifying_key();
                Account::from_bytes(family, key.as_bytes()).unwrap()
            }
            Family::Evm | Family::Tron => Account::from_bytes(family, &[byte; 20]).unwrap(),
        };
        (1..=count).map(|byte| account(byte).to_string()).collect()
    }

    #[test]
    fn ids_are_those_of_the_escrow_whatever_the_order() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../contracts/vectors/verifier-set.json")).unwrap();
        let sets = vectors["sets"].as_array().unwrap();
        assert!(sets.len() > 1);
        for known in sets {
            let members = known["members"].as_array().unwrap().iter().rev();
            let members: Vec<&str> = members.map(|member| member.as_str().unwrap()).collect();
            assert_eq!(given(&known["threshold"].to_string(), &members, false).unwrap(), known["id"].as_str().unwrap());
        }
    }

    #[test]
    fn a_set_is_shown_as_json_and_one_verifier_is_its_own_account() {
        let mut members = accounts(Family::Tron, 3);
        members.reverse();
        let members: Vec<&str> = members.iter().map(String::as_str).collect();
        let id = given("2", &members, false).unwrap();
        let shown: Value = serde_json::from_str(&given("2", &members, true).unwrap()).unwrap();
        assert_eq!(shown, json!({"id": id, "family": "tron", "threshold": 2, "members": accounts(Family::Tron, 3)}));
        assert_eq!(given("1", &members[..1], false).unwrap(), members[0]);
    }

    #[test]
    fn what_makes_no_set_is_refused_and_the_reason_told() {
        let (evm, tron, solana) = (accounts(Family::Evm, 3), accounts(Family::Tron, 1), accounts(Family::Solana, 9));
        let refused = |threshold: &str, members: Vec<String>| {
            refused(threshold, &members.iter().map(String::as_str).collect::<Vec<_>>())
        };
        for (threshold, members, said) in [
            ("4", evm.clone(), "from 1 to the number of its members"),
            ("0", evm.clone(), "0 of 3 verifiers"),
            ("1", [evm.clone(), evm[..1].to_vec()].concat(), "is given twice"),
            ("1", [evm.clone(), tron].concat(), "different families"),
            ("5", solana, "do not fit into a transaction on Solana"),
            ("1", vec!["0x12".to_owned()], "--member 0x12"),
            ("1", accounts(Family::Evm, 17), "1 to 16 members"),
        ] {
            let error = refused(threshold, members);
            assert!(error.contains(said), "{error}");
        }
    }
}
