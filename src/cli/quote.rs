//! `gw quote`.

use std::{
    fs::File,
    io::{self, Read},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Context, Result};
use chrono::SecondsFormat;
use clap::{Args as ClapArgs, Subcommand};
use proofs::{
    json::Document,
    suites::{Proof, Secured},
};
use serde_json::{Value, json};

use events::{
    Hash32,
    quote::{self, DOCUMENT_BYTES_MAX, Quote, SignedQuote},
};

/// Exit code: the document is not a quote, or its signature does not hold.
const REFUSED: u8 = 1;
/// Exit code: the document could not be read. Bad usage is 2, as everywhere.
const UNREADABLE: u8 = 2;

/// Arguments of `gw quote`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Exit codes: 0 done, or valid; 1 not a valid quote; 2 bad usage, or the file cannot be read.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the `quote_hash` of a quote. It may have no proof yet; one that it has must hold.
    Hash {
        /// The JSON document; `-` reads standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// Print the canonical N-Quads that are hashed instead.
        #[arg(long)]
        nquads: bool,
    },
    /// Check the proof against the settler's DID, and show what is offered.
    Verify {
        /// The JSON document; `-` reads standard input.
        #[arg(value_name = "FILE|-")]
        file: PathBuf,
        /// The answer as JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Carries out one order.
///
/// # Errors
/// When the answer cannot be written.
pub fn run(args: &Args) -> Result<ExitCode> {
    let (Command::Hash { file, .. } | Command::Verify { file, .. }) = &args.command;
    let text = match read(file) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("gw quote: {error:#}");
            return Ok(ExitCode::from(UNREADABLE));
        }
    };
    match args.command {
        Command::Hash { nquads, .. } => match hash(&text, nquads) {
            Ok(answer) => super::answer(&answer)?,
            Err(error) => {
                eprintln!("gw quote: {error}");
                return Ok(ExitCode::from(REFUSED));
            }
        },
        Command::Verify { json, .. } => match SignedQuote::parse_stored(&text) {
            Ok(signed) if json => super::answer(&serde_json::to_string_pretty(&as_json(&signed))?)?,
            Ok(signed) => super::answer(&describe(&signed))?,
            Err(error) => {
                if json {
                    let refusal = json!({"valid": false, "reason": error.to_string()});
                    super::answer(&serde_json::to_string_pretty(&refusal)?)?;
                } else {
                    eprintln!("gw quote: not valid: {error}");
                }
                return Ok(ExitCode::from(REFUSED));
            }
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// The `quote_hash`, or the N-Quads that are hashed, of what `verify` would not refuse but for a missing proof: a hash of
/// something else would be on no chain.
fn hash(text: &str, nquads: bool) -> Result<String, quote::Error> {
    let has_proof = Document::parse(text).is_ok_and(|document| document.members().contains_key("proof"));
    if has_proof {
        let signed = SignedQuote::parse_stored(text)?;
        if !nquads {
            return Ok(signed.hash().to_string());
        }
    }
    let canonical = quote::canonical(text)?;
    Ok(if nquads { canonical.as_str().trim_end().to_owned() } else { Hash32(canonical.sha256()).to_string() })
}

/// The text, cut off where it is too long for a quote in any case.
fn read(file: &PathBuf) -> Result<String> {
    let mut bytes = Vec::new();
    let bytes_max = DOCUMENT_BYTES_MAX as u64 + 1;
    let read = if file.as_os_str() == "-" {
        io::stdin().take(bytes_max).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|opened| opened.take(bytes_max).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", file.display()))?;
    // A cut may have gone through a character; what is that long is refused for its length.
    if bytes.len() > DOCUMENT_BYTES_MAX {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", file.display()))
}

/// The proof of a quote that was verified. The superseded form has one that is read alike.
fn proof(signed: &SignedQuote) -> Option<Proof> {
    let document = Document::parse(signed.document()).ok()?;
    Some(Secured::of(&document).ok()?.proof().clone())
}

fn created(proof: &Proof) -> Option<String> {
    proof.created.map(|created| created.to_rfc3339_opts(SecondsFormat::Secs, true))
}

fn as_json(signed: &SignedQuote) -> Value {
    let proof = proof(signed).map(|proof| {
        json!({
            "suite": proof.suite.name(),
            "verification_method": proof.verification_method,
            "created": created(&proof),
        })
    });
    json!({
        "valid": true,
        "quote_id": signed.id(),
        "quote_hash": signed.hash(),
        "settler": signed.quote().settler,
        "proof": proof,
        "quote": signed.quote(),
    })
}

fn describe(signed: &SignedQuote) -> String {
    let Quote {
        kind: _,
        auction_id,
        terms_hash,
        settler,
        source_chain,
        source_amount,
        payout_account,
        escrow_contract,
        destination,
        fulfillment_amount,
        delivery_account,
        fulfillment_proxy,
        fulfill_by,
        valid_until,
    } = signed.quote();
    let time = |time: &events::time::Timestamp| time.to_rfc3339_opts(SecondsFormat::Secs, true);
    let mut lines = vec![
        ("valid", "the settler's signature holds".to_owned()),
        ("quote_id", signed.id()),
        ("quote_hash", signed.hash().to_string()),
        ("settler", settler.to_string()),
    ];
    if let Some(proof) = proof(signed) {
        let when = created(&proof).map_or_else(String::new, |created| format!(", {created}"));
        lines.push(("signed", format!("{} with {}{when}", proof.suite.name(), proof.verification_method)));
    }
    lines.extend([
        ("auction", auction_id.clone()),
        ("terms_hash", terms_hash.to_string()),
        ("delivers", format!("{fulfillment_amount} of {} to {}", destination.asset(), destination.account())),
        ("by", format!("{}, from {delivery_account} through {fulfillment_proxy}", time(fulfill_by))),
        ("for", format!("{source_amount} on {source_chain} to {payout_account} out of {escrow_contract}")),
        ("valid_until", time(valid_until)),
    ]);
    let lines: Vec<String> = lines.into_iter().map(|(name, value)| format!("{name:<12}{value}")).collect();
    lines.join("\n")
}
