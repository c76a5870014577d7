//! The payments from, to and on Solana.

use std::fs;

use anyhow::Result;

use super::{Environment, ordinary};
use crate::{
    keys::Role,
    network::Network,
    payer::{Payer, PaymentSpec},
    solana::SolanaChain,
};

/// Native SOL that is delivered: two SOL, in lamports.
const COIN_AMOUNT: &str = "2000000000";
/// What may be spent on it: at 150 tokens a SOL, with room for every settler's price.
const COIN_CAP: &str = "310000000";
/// Where the payment that waits to be submitted is left.
const WAITING: &str = "payment-from-solana.json";

impl Environment<'_> {
    /// Makes one payment for each corridor that touches Solana, where there is one, and checks that each arrives to the unit.
    pub(super) async fn solana(&mut self) -> Result<()> {
        let Some(solana) = &self.network.solana else { return Ok(()) };
        let payer = Payer::on_solana(Role::Payer.solana_key())?;
        let evm_payer = self.payer.clone();
        let ordinary = ordinary(self.network, "")?;
        let from_solana = PaymentSpec { source: solana.token()?, ..ordinary.clone() };
        let (destination, recipient) = (solana.token()?, Role::Recipient.solana_account());
        let token = PaymentSpec { destination, recipient, ..ordinary };
        let (destination, amount, cap) = (solana.coin()?, COIN_AMOUNT.parse()?, COIN_CAP.parse()?);
        let coin = PaymentSpec { destination, amount, cap, ..token.clone() };
        let (source, destination) = (solana.token()?, solana.token_2022()?);
        let within = PaymentSpec { source, destination, ..token.clone() };
        for (title, payer, spec) in [
            ("From Solana to an EVM chain", &payer, from_solana),
            ("From an EVM chain to Solana, into an account that the delivery makes", &evm_payer, token),
            ("From an EVM chain to Solana, native SOL", &evm_payer, coin),
            ("From Solana to Solana, a token of Token-2022", &payer, within),
        ] {
            self.arrives(title, payer, spec).await?;
        }
        Ok(())
    }
}

/// Leaves a payment in the network's directory that is signed by the payer on Solana, and prints how to submit it.
pub(super) async fn invite(network: &Network, solana: &SolanaChain, patient: PaymentSpec) -> Result<()> {
    let base = network.gateways[0].base_url();
    let spec = PaymentSpec { request_id: "try-solana".to_owned(), source: solana.token()?, ..patient };
    let body = Payer::on_solana(Role::Payer.solana_key())?.sign(&base, &spec).await?;
    let path = network.options().directory.join(WAITING);
    fs::write(&path, serde_json::to_string_pretty(&body)?)?;
    println!("From Solana, and what is signed and served there:\n");
    println!("  curl -s -X POST {base}/v1/payments -H 'content-type: application/json' -d @{}", path.display());
    println!("  curl -s '{base}/v1/defaults?chain_id={}'\n", solana.id()?);
    println!("Solana's JSON-RPC: {}, program {}\n", solana.surfnet.url(), solana.program);
    Ok(())
}
