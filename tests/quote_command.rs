//! `gw quote` as anyone runs it, with nothing but the binary and a document.

use std::{
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};

const QUOTE: &str = include_str!("../api/src/docs/quote.json");
const NQUADS: &str = include_str!("../api/src/docs/quote.nq");
const HASH: &str = "0xf77478917be1e91e8adf9b04c2252de0f5aadb5ed1f15d8d61ad6c217dbd32f1";

fn gw(arguments: &[&str], input: &str) -> Result<Output> {
    let mut gw = Command::new(env!("CARGO_BIN_EXE_gw"))
        .arg("quote")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = gw.stdin.take().context("standard input")?;
    // It may have refused already, without reading all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    Ok(gw.wait_with_output()?)
}

fn succeeded(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
    std::str::from_utf8(&output.stdout).unwrap_or_default()
}

fn refused(output: &Output, code: i32) -> &str {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    std::str::from_utf8(&output.stderr).unwrap_or_default()
}

#[test]
fn the_hash_is_that_of_the_canonical_form_with_or_without_the_proof() -> Result<()> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("api/src/docs/quote.json");
    let file = file.to_str().context("a path")?;
    assert_eq!(succeeded(&gw(&["hash", file], "")?), format!("{HASH}\n"));
    assert_eq!(succeeded(&gw(&["hash", "--nquads", file], "")?), NQUADS);
    let mut value: Value = serde_json::from_str(QUOTE)?;
    assert_eq!(succeeded(&gw(&["hash", "-"], &value.to_string())?), format!("{HASH}\n"));
    value.as_object_mut().context("an object")?.remove("proof");
    assert_eq!(succeeded(&gw(&["hash", "-"], &value.to_string())?), format!("{HASH}\n"));
    Ok(())
}

/// A second spelling of a quote would have the same hash or, as a quote, none (ADR 28).
#[test]
fn what_is_not_a_quote_has_no_hash() -> Result<()> {
    type Change = fn(&mut Value);
    let changes: [(Change, &str); 5] = [
        (|quote| quote["discount"] = json!("1"), "unknown member `discount`"),
        (|quote| quote["digestMultibase"] = json!("z1"), "unknown member `digestMultibase`"),
        (|quote| quote["type"] = json!(["GatewayQuote"]), "malformed"),
        (|quote| quote["settler"] = json!({"id": quote["settler"]}), "malformed"),
        (|quote| quote["sourceAmount"] = json!("025025000"), "malformed"),
    ];
    for (change, reason) in changes {
        let mut value: Value = serde_json::from_str(QUOTE)?;
        change(&mut value);
        for with_proof in [true, false] {
            if !with_proof {
                value.as_object_mut().context("an object")?.remove("proof");
            }
            for arguments in [&["hash", "-"][..], &["hash", "--nquads", "-"], &["verify", "-"]] {
                let said = gw(arguments, &value.to_string())?;
                let said = refused(&said, 1);
                assert!(said.contains(reason) || arguments[0] == "verify", "{said}");
            }
        }
    }
    // Neither has what nobody signed so.
    let forged = gw(&["hash", "-"], &QUOTE.replace("25025000", "25025001"))?;
    assert!(refused(&forged, 1).contains("signature does not verify"), "{forged:?}");
    Ok(())
}

#[test]
fn a_valid_quote_is_shown() -> Result<()> {
    let said = gw(&["verify", "-"], QUOTE)?;
    let lines: Vec<&str> = succeeded(&said).lines().collect();
    for line in [
        &format!("quote_hash  {HASH}"),
        "settler     did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
        "valid_until 2030-01-01T00:02:00Z",
    ] {
        assert!(lines.contains(&line), "{said:?}");
    }
    let said = gw(&["verify", "--json", "-"], QUOTE)?;
    let shown: Value = serde_json::from_str(succeeded(&said))?;
    assert_eq!((&shown["valid"], &shown["quote_hash"]), (&json!(true), &json!(HASH)));
    assert_eq!(shown["proof"]["suite"], "eddsa-rdfc-2022");
    let mut quote: Value = serde_json::from_str(QUOTE)?;
    let members = quote.as_object_mut().context("an object")?;
    members.remove("proof");
    members.remove("@context");
    assert_eq!(shown["quote"], quote);
    Ok(())
}

#[test]
fn what_does_not_hold_is_said_and_told_from_what_cannot_be_read() -> Result<()> {
    let forged = QUOTE.replace("25025000", "25025001");
    let said = gw(&["verify", "-"], &forged)?;
    assert!(refused(&said, 1).contains("signature does not verify"), "{said:?}");
    let said = gw(&["verify", "--json", "-"], &forged)?;
    assert_eq!(said.status.code(), Some(1));
    let shown: Value = serde_json::from_slice(&said.stdout)?;
    assert_eq!(shown, json!({"valid": false, "reason": "quote's proof does not hold: signature does not verify"}));
    let said = gw(&["verify", "-"], &format!("{QUOTE}{}", " ".repeat(20_000)))?;
    assert!(refused(&said, 1).contains("larger than"), "{said:?}");
    let said = gw(&["verify", "no/such/file"], "")?;
    assert!(refused(&said, 2).contains("cannot read no/such/file"), "{said:?}");
    refused(&gw(&["verify"], "")?, 2);
    Ok(())
}
