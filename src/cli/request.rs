//! `gw request`: a link by which somebody is asked to pay, and its QR code. Nobody is asked, and nothing is kept: the link is all
//! there is.

use std::{
    io::{IsTerminal, stdout},
    time::Duration,
};

use anyhow::{Context, Result};
use chrono::{SubsecRound, TimeDelta, Utc};
use clap::Args as ClapArgs;
use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};
use serde_json::json;

use events::{Amount, AssetId, time::Timestamp};
use gateway_client::{
    Gateway,
    link::{PaymentLink, Source},
    request_id,
};

use super::pay::Recipient;

/// Arguments of `gw request`.
#[derive(Debug, ClapArgs)]
pub struct Args {
    /// The gateway's address.
    #[arg(long, env = "GW_GATEWAY")]
    gateway: String,
    /// Who is to be paid in what, ASSET=ACCOUNT; where there are several, the settler takes one of them.
    #[arg(long, required = true, value_name = "ASSET=ACCOUNT")]
    to: Vec<Recipient>,
    /// What arrives, in the smallest unit of the asset.
    #[arg(long)]
    amount: Amount,
    /// What may be paid with, ASSET, or ASSET=AMOUNT with the most that may be spent of it; anything that the gateway serves
    /// without it.
    #[arg(long, value_name = "ASSET[=AMOUNT]", value_parser = source)]
    from: Vec<Source>,
    /// Idempotency key: one account pays the link once. A new one unless named.
    #[arg(long)]
    request_id: Option<String>,
    /// What it is for, in at most 280 characters; whoever pays is shown it.
    #[arg(long)]
    memo: Option<String>,
    /// For how many seconds it can be paid; for ever unless named.
    #[arg(long, value_name = "SECONDS")]
    valid_seconds: Option<u64>,
    /// The answer as JSON.
    #[arg(long)]
    json: bool,
}

fn source(text: &str) -> Result<Source, String> {
    let (asset, amount) = text.rsplit_once('=').map_or((text, None), |(asset, amount)| (asset, Some(amount)));
    let asset_identifier: AssetId = asset.parse().map_err(|rule| format!("{asset}: {rule}"))?;
    let amount = amount.map(|amount| amount.parse().map_err(|rule| format!("{amount}: {rule}"))).transpose()?;
    Ok(Source { asset_identifier, max_source_amount: amount })
}

/// Prints the link, and on a terminal its QR code.
///
/// # Errors
/// When the arguments cannot be meant.
pub fn run(args: Args) -> Result<()> {
    let gateway = Gateway::new(&args.gateway)?;
    let expires_at = args.valid_seconds.map(after).transpose()?;
    let link = PaymentLink {
        request_id: args.request_id.unwrap_or_else(request_id),
        destination: args.to.into_iter().map(|recipient| recipient.0).collect(),
        fulfillment_amount: args.amount,
        pay_with: args.from,
        expires_at,
        memo: args.memo,
    };
    let url = link.to_url(gateway.url())?;
    if args.json {
        let answer = json!({"link": url, "request_id": link.request_id, "expires_at": link.expires_at});
        return super::answer(&serde_json::to_string_pretty(&answer)?);
    }
    // A code that is too long for one is no reason to have no link.
    if stdout().is_terminal()
        && let Some(code) = code(url.as_str())
    {
        super::answer(&code)?;
    }
    super::answer(url.as_str())
}

/// Whole seconds from now.
fn after(seconds: u64) -> Result<Timestamp> {
    let span = TimeDelta::from_std(Duration::from_secs(seconds)).ok();
    let at = span.and_then(|span| Utc::now().trunc_subsecs(0).checked_add_signed(span));
    at.context("--valid-seconds: lies beyond the calendar")
}

/// The link as a QR code of half blocks, light on dark and with its quiet zone; `None` where it is too long for one.
fn code(link: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(link, EcLevel::L).ok()?;
    Some(code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_may_bound_what_is_spent_of_them() {
        let asset = "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";
        assert_eq!(source(asset).unwrap().max_source_amount, None);
        let bounded = source(&format!("{asset}=26")).unwrap();
        assert_eq!(bounded.max_source_amount.map(|most| most.to_string()).as_deref(), Some("26"));
        assert!(source("x").is_err() && source(&format!("{asset}=0")).is_err());
    }

    #[test]
    fn a_link_that_fits_is_a_code_of_lines_of_one_width() {
        let code = code("https://pay.example/pay#eyJ2IjoxfQ").unwrap();
        let widths: std::collections::BTreeSet<usize> = code.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths.len(), 1, "{code}");
        assert_eq!(super::code(&"x".repeat(3_000)), None);
    }
}
