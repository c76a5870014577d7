//! An EVM chain of the development network.

use std::path::Path;

use alloy::primitives::U256;
use anyhow::{Context, Result};
use devkit::{Anvil, anvil::Mining, free_port, tools};

use chains_evm::dev::{DevChain, DevContracts};
use events::{AssetId, ChainId};

use super::keys::Role;

/// Chain id of the chain that is paid from.
pub const SOURCE_ID: u64 = 31_337;
/// Chain id of the chain that is paid to.
pub const DESTINATION_ID: u64 = 31_338;
/// Decimal places of the development token.
pub const DECIMALS: u8 = 6;
/// Decimal places of the chains' own coin.
pub(super) const COIN_DECIMALS: u8 = 18;
/// What each account that needs tokens is given, smallest unit.
const ENDOWMENT: u64 = 1_000_000_000_000;
/// Coins of each account for gas, smallest unit: a hundred.
const COINS: u128 = 100_000_000_000_000_000_000;
/// How many of them each settler has wrapped, smallest unit: ten.
const WRAPPED: u128 = 10_000_000_000_000_000_000;

/// An EVM chain of the network.
pub struct Chain {
    /// The process.
    pub anvil: Anvil,
    /// The contracts on it.
    pub contracts: DevContracts,
    /// The development token.
    pub token: String,
    /// A token that takes its holders' signatures, as USDC does.
    pub stablecoin: String,
    /// The chain's own coin as a token, as WETH is.
    pub wrapped_coin: String,
    /// Access for looking and for development-only changes.
    pub dev: DevChain,
}

impl Chain {
    /// A chain with the contracts, a token and money for every role, and a block every `block_seconds`.
    pub(super) async fn start(id: u64, block_seconds: u64, directory: &Path) -> Result<Self> {
        let mining = Mining::Every { seconds: block_seconds };
        let anvil = Anvil::in_directory(id, mining, directory, free_port()?).await?;
        let dev = DevChain::connect(&anvil.url(), Role::Deployer.signer()).await?;
        let permit2 = std::fs::read(tools::root().join(".tools/permit2/Permit2.json"))
            .context("Permit2 is missing: run `scripts/tools.sh run`")?;
        let contracts = dev.deploy_contracts(&permit2, &Role::Reserver.account(), &Role::Guardian.account()).await?;
        let token = dev.deploy_token("Development Dollar", "DEV", DECIMALS).await?;
        for role in Role::ALL {
            dev.fund(&role.account(), U256::from(COINS)).await?;
        }
        for role in [Role::Settler(1), Role::Settler(2), Role::Settler(3)] {
            dev.mint(&token, &role.account(), U256::from(ENDOWMENT)).await?;
        }
        // A payment that no settler can serve has to be one that the payer could pay for.
        dev.mint(&token, &Role::Payer.account(), U256::from(ENDOWMENT) * U256::from(1_000)).await?;
        dev.approve(&Role::Payer.signer(), &token, &contracts.permit2, U256::MAX).await?;
        // Nobody is allowed to draw on it, nor has to be.
        let stablecoin = dev.deploy_stablecoin("Development USD Coin", "dUSDC", DECIMALS).await?;
        dev.mint(&stablecoin, &Role::Payer.account(), U256::from(ENDOWMENT) * U256::from(1_000)).await?;
        let wrapped_coin = dev.deploy_wrapped_coin("Wrapped Ether", "WETH", COIN_DECIMALS).await?;
        for role in [Role::Settler(1), Role::Settler(2), Role::Settler(3)] {
            dev.wrap(&role.signer(), &wrapped_coin, U256::from(WRAPPED)).await?;
        }
        Ok(Self { anvil, contracts, token, stablecoin, wrapped_coin, dev })
    }

    /// CAIP-2 id.
    pub fn id(&self) -> ChainId {
        ChainId::evm(self.anvil.chain_id())
    }

    /// The development token as an asset.
    ///
    /// # Errors
    /// Never, for an address that was deployed.
    pub fn token(&self) -> Result<AssetId> {
        Ok(format!("{}/erc20:{}", self.id(), self.token).parse()?)
    }

    /// The token that takes signatures, as an asset.
    ///
    /// # Errors
    /// Never, for an address that was deployed.
    pub fn stablecoin(&self) -> Result<AssetId> {
        Ok(format!("{}/erc20:{}", self.id(), self.stablecoin).parse()?)
    }

    /// The chain's own coin.
    ///
    /// # Errors
    /// Never.
    pub fn coin(&self) -> Result<AssetId> {
        Ok(format!("{}/slip44:60", self.id()).parse()?)
    }

    /// Its wrapped form as an asset.
    ///
    /// # Errors
    /// Never, for an address that was deployed.
    pub fn wrapped_coin(&self) -> Result<AssetId> {
        Ok(format!("{}/erc20:{}", self.id(), self.wrapped_coin).parse()?)
    }

    /// What `role` holds of the development token, smallest unit.
    ///
    /// # Errors
    /// When the chain does not answer.
    pub async fn balance(&self, role: Role) -> Result<U256> {
        Ok(self.dev.token_balance(&self.token, &role.account()).await?)
    }
}
