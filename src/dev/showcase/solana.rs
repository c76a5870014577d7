//! The payments from, to and on Solana.

use std::{fs, time::Duration};

use alloy::primitives::U256;
use anyhow::{Context, Result, ensure};

use events::{AssetId, PaymentEvent};

use super::{Stage, ordinary};
use crate::dev::{
    keys::Role,
    network::Network,
    payer::{Payer, Wish},
    solana::SolanaChain,
};

/// Native SOL that is delivered: two SOL, in lamports.
const COIN_AMOUNT: &str = "2000000000";
/// What may be spent on it: at 150 tokens a SOL, with room for every settler's price.
const COIN_CAP: &str = "310000000";
/// Where the payment that waits to be submitted is left.
const WAITING: &str = "payment-from-solana.json";

impl Stage<'_> {
    /// Makes one payment for each corridor that touches Solana, and checks that each arrives to the unit.
    pub(super) async fn solana(&mut self, solana: &SolanaChain) -> Result<()> {
        let payer = Payer::on_solana(Role::Payer.solana_key())?;
        let evm_payer = self.payer.clone();
        let to_solana = |request_id: &str| -> Result<Wish> {
            let (destination, recipient) = (solana.token()?, Role::Recipient.solana_account());
            Ok(Wish { destination, recipient, ..ordinary(self.network, request_id)? })
        };
        let from_solana = Wish { source: solana.token()?, ..ordinary(self.network, "showcase-5")? };
        let token = to_solana("showcase-6")?;
        let coin = Wish {
            destination: solana.coin()?,
            amount: COIN_AMOUNT.parse()?,
            cap: COIN_CAP.parse()?,
            ..to_solana("showcase-7")?
        };
        let (source, destination) = (solana.token()?, solana.token_2022()?);
        let within = Wish { source, destination, ..to_solana("showcase-8")? };
        let corridors = [
            ("5. From Solana to an EVM chain", &payer, from_solana),
            ("6. From an EVM chain to Solana, into an account that the delivery makes", &evm_payer, token),
            ("7. From an EVM chain to Solana, native SOL", &evm_payer, coin),
            ("8. From Solana to Solana, a token of Token-2022", &payer, within),
        ];
        for (title, payer, wish) in corridors {
            println!("{title}");
            self.arrives(solana, payer, &wish).await.with_context(|| format!("payment {title}"))?;
        }
        Ok(())
    }

    async fn arrives(&mut self, solana: &SolanaChain, payer: &Payer, wish: &Wish) -> Result<()> {
        let before = self.received(solana, &wish.destination).await?;
        let body = payer.sign(&self.base, wish).await?;
        let answer = self.submit(&body, Duration::from_secs(30)).await?;
        ensure!(answer.text("status") == "completed", "not completed: {}", answer.body);
        let received = self.received(solana, &wish.destination).await? - before;
        ensure!(received == wish.amount.get(), "recipient received {received}, not {}", wish.amount);
        self.tally.completed += 1;
        let payment_id = self.payment_id(&answer)?;
        self.timeline_until(&payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        println!("   recipient received exactly {received}");
        println!("   curl -s {}/v1/payments/{payment_id}/timeline\n", self.base);
        Ok(())
    }

    /// What the recipient holds of an asset.
    async fn received(&self, solana: &SolanaChain, asset: &AssetId) -> Result<U256> {
        let account = Role::Recipient.solana_account();
        if *asset == solana.coin()? {
            return Ok(U256::from(solana.dev.lamports(&account).await?));
        }
        for (token, id) in [(&solana.token, solana.token()?), (&solana.token_2022, solana.token_2022()?)] {
            if *asset == id {
                return Ok(U256::from(solana.dev.token_balance(token, &account).await?));
            }
        }
        self.recipients_balance().await
    }
}

/// Leaves a payment in the network's directory that is signed by the payer on Solana, and prints how to submit it.
pub(super) async fn invite(network: &Network, solana: &SolanaChain, patient: Wish) -> Result<()> {
    let base = network.gateways[0].base_url();
    let wish = Wish { request_id: "try-solana".to_owned(), source: solana.token()?, ..patient };
    let body = Payer::on_solana(Role::Payer.solana_key())?.sign(&base, &wish).await?;
    let path = network.options().directory.join(WAITING);
    fs::write(&path, serde_json::to_string_pretty(&body)?)?;
    println!("From Solana, and what is signed and served there:\n");
    println!("  curl -s -X POST {base}/v1/payments -H 'content-type: application/json' -d @{}", path.display());
    println!("  curl -s '{base}/v1/defaults?chain_id={}'\n", solana.id()?);
    println!("Solana's JSON-RPC: {}, program {}\n", solana.surfnet.url(), solana.program);
    Ok(())
}
