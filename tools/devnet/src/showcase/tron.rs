//! The payments from and to Tron.

use std::fs;

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};

use super::{Environment, ordinary};
use crate::{
    keys::Role,
    network::Network,
    payer::{Payer, PaymentSpec},
    tron::TronChain,
};

/// TRX that are delivered: twenty, in sun.
const COIN_AMOUNT: &str = "20000000";
/// What may be spent on them: at a quarter of a token a TRX, with room for every settler's price.
const COIN_CAP: &str = "5100000";
/// Price of the cheapest settler for an ordinary payment: ten basis points above 25 tokens.
const PRICE: u64 = 25_025_000;
/// Where the payment that waits to be submitted is left.
const WAITING: &str = "payment-from-tron.json";

impl Environment<'_> {
    /// Makes one payment for each corridor that touches Tron, where there is one, and checks that each arrives to the unit.
    pub(super) async fn tron(&mut self) -> Result<()> {
        let Some(tron) = &self.network.tron else { return Ok(()) };
        let payer = Payer::on_tron(Role::Payer.signer())?;
        let evm_payer = self.payer.clone();
        let ordinary = ordinary(self.network, "")?;
        let from_tron = PaymentSpec { source: tron.token()?, ..ordinary.clone() };
        let (destination, recipient) = (tron.token()?, Role::Recipient.tron_account());
        let token = PaymentSpec { destination, recipient, ..ordinary.clone() };
        let (destination, amount, cap) = (tron.coin()?, COIN_AMOUNT.parse()?, COIN_CAP.parse()?);
        let coin = PaymentSpec { destination, amount, cap, ..token.clone() };

        let before = self.held_on_tron().await?;
        self.arrives("From Tron to an EVM chain", &payer, from_tron.clone()).await?;
        let spent = before - self.held_on_tron().await?;
        ensure!(spent == U256::from(PRICE), "the payer spent {spent} and not {PRICE}");
        println!("   payer spent {spent} of the {} in escrow; the release gave back the rest\n", ordinary.cap);
        self.signs_for_permit2(&payer, from_tron.clone()).await?;
        self.arrives("From an EVM chain to Tron", &evm_payer, token.clone()).await?;
        self.arrives("From an EVM chain to Tron, TRX", &evm_payer, coin).await?;
        let Some(solana) = &self.network.solana else { return Ok(()) };
        let (destination, recipient) = (solana.token()?, Role::Recipient.solana_account());
        let to_solana = PaymentSpec { destination, recipient, ..from_tron };
        let from_solana = PaymentSpec { source: solana.token()?, ..token };
        self.arrives("From Tron to Solana", &payer, to_solana).await?;
        let payer = Payer::on_solana(Role::Payer.solana_key())?;
        self.arrives("From Solana to Tron", &payer, from_solana).await?;
        Ok(())
    }

    /// A payer that let Permit2 draw once signs, and sends nothing.
    async fn signs_for_permit2(&mut self, payer: &Payer, from_tron: PaymentSpec) -> Result<()> {
        let (token, held) = (self.on_tron()?.permitted_token()?, self.held_for_permit2().await?);
        let title = "From Tron by one signature, without a transaction of the payer's";
        self.arrives(title, payer, PaymentSpec { source: token, ..from_tron }).await?;
        let ((before, sun), (after, left)) = (held, self.held_for_permit2().await?);
        let spent = before - after;
        ensure!(spent == U256::from(PRICE), "the payer spent {spent} and not {PRICE}");
        ensure!(sun == left, "the payer spent {} sun", sun.abs_diff(left));
        println!("   payer spent {spent}, and no TRX\n");
        Ok(())
    }

    /// What the payer holds of the token that Permit2 may draw, and of TRX, in sun.
    async fn held_for_permit2(&self) -> Result<(U256, u64)> {
        let (tron, payer) = (self.on_tron()?, Role::Payer.tron_account());
        let tokens = tron.dev.token_balance(&tron.permitted_token, &payer).await?;
        Ok((tokens, tron.dev.balance(&payer).await?))
    }

    fn on_tron(&self) -> Result<&TronChain> {
        self.network.tron.as_ref().context("the network has no Tron chain")
    }

    /// What the payer holds of the token there.
    async fn held_on_tron(&self) -> Result<U256> {
        self.on_tron()?.balance(Role::Payer).await
    }
}

/// Leaves a payment in the network's directory that is signed by the payer on Tron, and prints how to submit it.
pub(super) async fn invite(network: &Network, tron: &TronChain, patient: PaymentSpec) -> Result<()> {
    let base = network.gateways[0].base_url();
    let spec = PaymentSpec { request_id: "try-tron".to_owned(), source: tron.token()?, ..patient };
    let body = Payer::on_tron(Role::Payer.signer())?.sign(&base, &spec).await?;
    let path = network.options().directory.join(WAITING);
    fs::write(&path, serde_json::to_string_pretty(&body)?)?;
    println!("From Tron, and what is signed and served there:\n");
    println!("  curl -s -X POST {base}/v1/payments -H 'content-type: application/json' -d @{}", path.display());
    println!("  curl -s '{base}/v1/defaults?chain_id={}'\n", tron.id()?);
    let (url, contracts) = (tron.node.url(), &tron.contracts);
    println!("Tron's HTTP API (a development tool, no Tron node): {url}");
    println!("token {}, escrow {}, proxy {}\n", tron.token, contracts.escrow, contracts.proxy);
    Ok(())
}
