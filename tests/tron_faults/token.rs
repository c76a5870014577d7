//! A token that denies accounts, as regulated ones do: code before the development token's own, on Tron.

use alloy::primitives::Address;
use anyhow::Result;
use serde_json::json;

use chains_tron::address::parse_address;
use devkit::denying::denying;

use crate::support::*;

/// The development token, whose code can be exchanged for one that denies accounts.
pub struct Deniable {
    token: String,
    /// Has the development token's code, and is called for all that is not denied.
    code: Address,
}

impl Deniable {
    /// Of the network's token.
    pub async fn of(world: &World) -> Result<Self> {
        let tron = world.tron()?;
        let code = tron.dev.deploy_token("Development Dollar", "DEV", 6).await?;
        Ok(Self { token: tron.token.clone(), code: parse_address(&code)? })
    }

    /// From now on reverts when one of these is paid, or when something is drawn from one. Balances stay.
    pub async fn deny(&self, world: &World, accounts: &[&str]) -> Result<()> {
        let accounts = accounts.iter().map(|account| parse_address(account).map(|account| account.0.0));
        let code = hex::encode(denying(&accounts.collect::<Result<Vec<_>, _>>()?, self.code.0.0));
        world.tron()?.dev.control("code", json!({"address": self.token, "code": code})).await?;
        Ok(())
    }
}
