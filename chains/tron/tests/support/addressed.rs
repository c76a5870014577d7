//! Payments whose money is sent to a deposit address.

use std::time::Duration;

use alloy::{primitives::U256, sol_types::SolCall};
use anyhow::{Context, Result};

use chains_tron::{address::address, deposit_addresses};
use escrow_abi::contracts::DevToken;
use events::{
    event::{Authorization, DepositAddress},
    time::from_unix_seconds,
};
use sagas::ports::DepositOrder;

use super::{World, payment::CAP};

const WINDOW: u64 = 600;

impl World {
    /// A payment of the payer's whose money is sent to an address, of `CAP` at least.
    pub async fn addressed(&self) -> Result<(DepositOrder, DepositAddress)> {
        let order = self.order(WINDOW).await?;
        let (factory, from_block) = deposit_addresses::served_from(&self.node(), &order.escrow.contract)
            .await?
            .context("there are no deposit addresses")?;
        let pay_by = from_unix_seconds(order.escrow.reserve_deadline - 60).context("no time")?;
        let amount = CAP.to_string().parse()?;
        let (id, terms, plan) = (&order.payment_id, &order.terms, &order.escrow);
        let given = deposit_addresses::of_payment(factory, id, terms, plan, amount, pay_by, from_block)?;
        Ok((DepositOrder { authorization: Authorization::DepositAddress(given.clone()), ..order }, given))
    }

    /// What sends `amount` of the token from the payer to the address.
    pub fn transfer(given: &DepositAddress, amount: u64) -> Result<Vec<u8>> {
        Ok(DevToken::transferCall { to: address(&given.address)?, value: U256::from(amount) }.abi_encode())
    }

    pub async fn send_to(&self, given: &DepositAddress, amount: u64) -> Result<()> {
        let (to, amount) = (given.address.as_str(), U256::from(amount));
        Ok(self.dev.send_token(&self.payer, &self.token, to, amount).await?)
    }

    /// So that no deposit can be made any more, as a solidified block has it.
    pub async fn pass(&self, order: &DepositOrder) -> Result<()> {
        let left = order.escrow.reserve_deadline.saturating_sub(self.time().await?);
        self.advance(Duration::from_secs(left + 1)).await?;
        self.solidify().await
    }
}
