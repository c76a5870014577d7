//! The payment by a stock client of x402: it signs for a shop on its own chain, and the shop is paid on another.

use alloy::primitives::U256;
use anyhow::{Result, ensure};

use events::PaymentEvent;

use super::Environment;
use crate::{
    shop,
    stock_shop::{self, Language, PRICE, StockShop, TOKENS},
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
        let shop = StockShop::start(self.network).await?;
        let bought = stock_shop::buy(self.network, &shop.url, Language::JavaScript).await?;
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
}
