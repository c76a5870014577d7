//! The payments with a token that takes its holders' signatures, by a payer who has nothing else.

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Environment, ordinary};
use crate::payer::{Payer, PaymentSpec};

/// What the payer has of the token: a thousand, smallest unit.
const TOKENS: u64 = 1_000_000_000;
/// Price of the cheapest settler for an ordinary payment: ten basis points above 25 tokens.
const PRICE: u64 = 25_025_000;

impl Environment<'_> {
    /// Makes one payment in each of the ways that need no transaction of the payer's, and checks what they cost it.
    pub(super) async fn tokens(&mut self) -> Result<()> {
        let payer = Payer::new(PrivateKeySigner::random())?;
        let source = &self.network.source;
        source.dev.mint(&source.stablecoin, &payer.account(), U256::from(TOKENS)).await?;
        let spec = PaymentSpec { source: source.stablecoin()?, ..ordinary(self.network, "")? };
        let titles = [
            ("A payer with nothing but dUSDC pays: one signature", None),
            ("Permit2's allowance by a second signature", Some("EVM_PERMIT2_ESCROW")),
        ];
        for (title, scheme) in titles {
            let number = self.title(title);
            let spec = PaymentSpec { request_id: format!("showcase-{number}"), ..spec.clone() };
            self.pays_by_signature(&payer, &spec, scheme).await.with_context(|| format!("payment {number}"))?;
        }
        let next = payer.quote_request(&PaymentSpec { request_id: "showcase-next".to_owned(), ..spec });
        let next = payer.prepare(&self.base, &next, Some("EVM_PERMIT2_ESCROW")).await?;
        let is_one = next.body["signed_messages"].as_array().is_some_and(|messages| messages.len() == 1);
        ensure!(is_one && next.body.get("approval").is_none(), "the allowance is not there: {}", next.body);
        println!("   the allowance stays: the next payment by Permit2 needs one signature\n");
        Ok(())
    }

    async fn pays_by_signature(&mut self, payer: &Payer, spec: &PaymentSpec, scheme: Option<&str>) -> Result<()> {
        let (before, coins) = self.held(payer).await?;
        println!("   payer has {before} of dUSDC and {coins} wei, and sends nothing to the chain");
        let body = payer.sign_offered(&self.base, spec, scheme).await?;
        let auth = &body["sender_auth"];
        let messages = auth["signed_messages"].as_array().into_iter().flatten();
        let names = messages.map(signed_type).collect::<Result<Vec<_>>>()?;
        println!("   payer signed {} ({})", names.join(" and "), auth["message_scheme"].as_str().unwrap_or_default());
        self.delivers(spec, &body).await?;
        let (after, coins) = self.held(payer).await?;
        let spent = before - after;
        ensure!(spent == U256::from(PRICE), "the payer spent {spent} and not {PRICE}");
        ensure!(coins.is_zero(), "the payer had no coins and has {coins} wei");
        println!("   payer spent {spent} of at most {}, and sent no transaction\n", spec.cap);
        Ok(())
    }

    /// What a payer holds of the token, and of the source chain's coin in wei.
    async fn held(&self, payer: &Payer) -> Result<(U256, U256)> {
        let (source, account) = (&self.network.source, payer.account());
        Ok((source.dev.token_balance(&source.stablecoin, &account).await?, source.dev.balance(&account).await?))
    }
}

/// The type of what was signed, as the payer's wallet names it.
fn signed_type(message: &Value) -> Result<String> {
    let typed: Value = serde_json::from_str(message["message_prehash"].as_str().context("no typed data")?)?;
    Ok(typed["primaryType"].as_str().context("no primary type")?.to_owned())
}
