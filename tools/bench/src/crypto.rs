//! The cost of proofs on one processor: a payer's signature recovered from everything it stands for, and a quote read,
//! hashed and verified. `cargo bench -p proofs` and `cargo bench -p events` take the latter apart.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use chains_evm::authorization;
use events::quote::{self, SignedQuote};

use crate::{context::Context, load::rate, orders::in_parallel, report::Rows};

/// How long quotes are collected, as far as anybody asks.
const WINDOW: Duration = Duration::from_secs(600);

/// The bench.
///
/// # Errors
/// When something that was signed does not verify.
pub async fn run(context: &Context, rows: &mut Rows) -> Result<()> {
    let count = context.pick(20, 5_000);
    let orders = context.payer.sign("crypto", 0..count, WINDOW)?;
    let settler = settler::dev::key(1).context("the demo's settlers")?;
    let documents = in_parallel(0..count, |number| orders[number].quote(&settler))?;

    let recovered = each(&orders, |order| {
        let (authorization, _) = authorization::authorize(&order.spend, &order.signed)?;
        black_box(authorization);
        Ok(())
    })?;
    rows.add("payers' signatures: rebuilt, compared, signer recovered", recovered, "a second");
    let hashed = each(&documents, |document| {
        black_box(quote::canonical(document)?.sha256());
        Ok(())
    })?;
    rows.add("quotes: canonical form and hash", hashed, "a second");
    let verified = each(&documents, |document| {
        let signed = SignedQuote::parse(document)?;
        ensure!(signed.document() == document, "another document");
        Ok(())
    })?;
    rows.add("quotes: read, hashed and verified, never seen before", verified, "a second");
    // The newest of them is remembered.
    let last = vec![documents.last().context("a document")?.clone(); count];
    let known = each(&last, |document| {
        black_box(SignedQuote::parse(document)?);
        Ok(())
    })?;
    rows.add("quotes: the same once more", known, "a second");
    Ok(())
}

/// How often a second `work` is done, one item after the other.
fn each<T>(items: &[T], mut work: impl FnMut(&T) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    items.iter().try_for_each(&mut work)?;
    Ok(rate(items.len() as u64, started.elapsed()))
}
