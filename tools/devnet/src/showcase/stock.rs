//! The payment by a stock client of x402: it signs for a shop on its own chain, and the shop is paid on another.

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::{Result, ensure};
use ed25519_dalek::SigningKey;

use events::PaymentEvent;

use super::Environment;
use crate::{
    keys::solana_account,
    shop,
    stock_shop::{self, Language, PRICE, PaidOn, StockShop, TOKENS},
};

impl Environment<'_> {
    /// Has a stock client buy from a shop of the stock packages, and checks what both have afterwards.
    pub(super) async fn sells_to_a_stock_client(&mut self) -> Result<()> {
        println!(
            "A shop and a buyer of the stock x402 packages alone (exact): the buyer knows nothing of another chain"
        );
        if let Err(missing) = shop::available().await {
            println!("   left out: {missing}\n");
            return Ok(());
        }
        let before = self.recipients_balance().await?;
        let shop = StockShop::start(self.network, PaidOn::Evm).await?;
        let bought = stock_shop::buy(self.network, PaidOn::Evm, &shop.url, Language::JavaScript).await?;
        println!("   GET {} → 402, signed, 200: \"{}\"", shop.url, bought.title);
        self.timeline_until(&bought.payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        let received = self.recipients_balance().await? - before;
        ensure!(received == U256::from(PRICE), "the shop received {received}");
        let source = &self.network.source;
        let left = source.dev.token_balance(&source.stablecoin, &bought.account).await?;
        let spent = U256::from(TOKENS) - left;
        ensure!(spent > U256::from(PRICE) && spent < U256::from(stock_shop::PAID), "the buyer spent {spent}");
        println!("   shop received exactly {received}; buyer spent {spent}, and sent no transaction\n");
        self.outcome_tally.completed += 1;
        Ok(())
    }

    /// The same with a buyer on Solana, where there is one. What the price leaves is the merchant's there.
    pub(super) async fn sells_to_a_stock_client_on_solana(&mut self) -> Result<()> {
        let Some(solana) = &self.network.solana else { return Ok(()) };
        println!(
            "The same on Solana: the buyer has a token and no SOL, and what the price leaves is the merchant's there"
        );
        if let Err(missing) = shop::available().await {
            println!("   left out: {missing}\n");
            return Ok(());
        }
        let before = self.recipients_balance().await?;
        let merchant = solana_account(&SigningKey::from_bytes(&PrivateKeySigner::random().to_bytes().0));
        solana.dev.mint(&solana.token, &merchant, 0).await?;
        let pay_to = stock_shop::make_token_account(self.network, &stock_shop::asked(self.network, &merchant)?).await?;
        println!("   the merchant {merchant} made the token account of its offer's address, {pay_to}");
        let paid_on = PaidOn::Solana { merchant: &merchant };
        let shop = StockShop::start(self.network, paid_on).await?;
        let bought = stock_shop::buy(self.network, paid_on, &shop.url, Language::JavaScript).await?;
        println!("   GET {} → 402, signed, 200: \"{}\"", shop.url, bought.title);
        self.timeline_until(&bought.payment_id, |event| matches!(event, PaymentEvent::EscrowReleased(_))).await?;
        let received = self.recipients_balance().await? - before;
        ensure!(received == U256::from(PRICE), "the shop received {received}");
        let spent = TOKENS - solana.dev.token_balance(&solana.token, &bought.account).await?;
        let kept = solana.dev.token_balance(&solana.token, &merchant).await?;
        ensure!(spent == stock_shop::PAID && kept < spent - PRICE, "spent {spent}, the merchant has {kept}");
        println!(
            "   shop received exactly {received}; buyer spent {spent}, of which {kept} are the merchant's on Solana\n"
        );
        self.outcome_tally.completed += 1;
        Ok(())
    }
}
