//! The Tron chain of the development network: `trondev`, which is not a Tron node, in the process that runs the network.

use std::{net::Ipv4Addr, time::Duration};

use alloy::primitives::U256;
use anyhow::Result;
use trondev::{Blocks, TronDev};

use chains_tron::dev::{DevChain, DevContracts};
use events::{AssetId, ChainId};

use super::{chain::DECIMALS, keys::Role};

/// Chain id of the Tron chain. No real network has it, so that nothing signed here is worth anything there.
pub const TRON_ID: u32 = 31_339;
/// Time between two blocks of `gw-dev`, in milliseconds.
pub const BLOCK_MS: u64 = 500;
/// How many blocks the solidified one is behind the newest: far fewer than on Tron, so that a payment takes seconds.
pub const SOLIDIFIED_LAG: u64 = 2;
/// Decimal places of TRX.
pub(super) const COIN_DECIMALS: u8 = 6;
/// What each account that needs tokens is given, smallest unit.
const ENDOWMENT: u64 = 1_000_000_000_000;
/// TRX of each account that sends transactions: a hundred thousand, in sun.
const SUN: u64 = 100_000_000_000;

/// How the chain is run.
#[derive(Debug, Clone)]
pub struct TronOptions {
    /// Time between two blocks, in milliseconds; 0 makes blocks only when the node is told to.
    pub block_ms: u64,
    /// How many blocks the solidified one is behind the newest.
    pub solidified_lag: u64,
    /// Its port; a free one when `None`.
    pub port: Option<u16>,
    /// Address under which the gateways reach it, where that is another than its own.
    pub gateway_rpc_url: Option<String>,
}

impl Default for TronOptions {
    fn default() -> Self {
        Self { block_ms: BLOCK_MS, solidified_lag: SOLIDIFIED_LAG, port: None, gateway_rpc_url: None }
    }
}

/// A running Tron chain with the contracts on it.
pub struct TronChain {
    /// The node. It ends when it is dropped.
    pub node: TronDev,
    /// The contracts on it.
    pub contracts: DevContracts,
    /// The development token's contract, `T…`.
    pub token: String,
    /// A token that the payer lets Permit2 draw, `T…`: nothing but a signature is needed to pay with it.
    pub permitted_token: String,
    /// TRX as a token, as WTRX is, `T…`.
    pub wrapped_coin: String,
    /// Access for looking and for development-only changes.
    pub dev: DevChain,
    gateway_rpc_url: Option<String>,
}

impl TronChain {
    /// A chain with the contracts, two tokens and money for every role. Of the one the payer has given no allowance: it does so with each
    /// payment. The other one it lets Permit2 draw.
    pub(super) async fn start(options: &TronOptions) -> Result<Self> {
        let blocks = match options.block_ms {
            0 => Blocks::OnDemand,
            milliseconds => Blocks::Every(Duration::from_millis(milliseconds)),
        };
        let node = TronDev::start(trondev::Options {
            bind: (Ipv4Addr::LOCALHOST, options.port.unwrap_or_default()).into(),
            chain_id: TRON_ID,
            blocks,
            solidified_lag: options.solidified_lag,
            ..trondev::Options::default()
        })
        .await?;
        let dev = DevChain::connect(&node.url(), Role::Deployer.signer()).await?;
        let contracts = dev.deploy_contracts(&Role::Reserver.tron_account(), &Role::Guardian.tron_account()).await?;
        let token = dev.deploy_token("Development Dollar", "DEV", DECIMALS).await?;
        let permitted_token = dev.deploy_token("Development Tether", "dUSDT", DECIMALS).await?;
        let wrapped_coin = dev.deploy_wrapped_coin("Wrapped TRX", "WTRX", COIN_DECIMALS).await?;
        for role in Role::ALL {
            // Who is paid has nothing: it needs no TRX to be paid.
            if role != Role::Recipient {
                dev.fund(&role.tron_account(), SUN).await?;
            }
        }
        for role in [Role::Payer, Role::Settler(1), Role::Settler(2), Role::Settler(3)] {
            dev.mint(&token, &role.tron_account(), U256::from(ENDOWMENT)).await?;
        }
        let payer = Role::Payer.signer();
        dev.mint(&permitted_token, &Role::Payer.tron_account(), U256::from(ENDOWMENT)).await?;
        dev.approve(&payer, &permitted_token, &contracts.permit2, U256::MAX).await?;
        let gateway_rpc_url = options.gateway_rpc_url.clone();
        Ok(Self { node, contracts, token, permitted_token, wrapped_coin, dev, gateway_rpc_url })
    }

    /// CAIP-2 id.
    ///
    /// # Errors
    /// Never.
    pub fn id(&self) -> Result<ChainId> {
        Ok(format!("tron:{TRON_ID}").parse()?)
    }

    /// Address under which the gateways reach it.
    pub fn gateway_rpc_url(&self) -> String {
        self.gateway_rpc_url.clone().unwrap_or_else(|| self.node.url())
    }

    /// The development token as an asset.
    ///
    /// # Errors
    /// Never, for a contract that was deployed.
    pub fn token(&self) -> Result<AssetId> {
        Ok(format!("tron:{TRON_ID}/trc20:{}", self.token).parse()?)
    }

    /// The token that the payer lets Permit2 draw, as an asset.
    ///
    /// # Errors
    /// Never, for a contract that was deployed.
    pub fn permitted_token(&self) -> Result<AssetId> {
        Ok(format!("tron:{TRON_ID}/trc20:{}", self.permitted_token).parse()?)
    }

    /// TRX as an asset.
    ///
    /// # Errors
    /// Never.
    pub fn coin(&self) -> Result<AssetId> {
        Ok(format!("tron:{TRON_ID}/slip44:195").parse()?)
    }

    /// TRX's wrapped form as an asset.
    ///
    /// # Errors
    /// Never, for a contract that was deployed.
    pub fn wrapped_coin(&self) -> Result<AssetId> {
        Ok(format!("tron:{TRON_ID}/trc20:{}", self.wrapped_coin).parse()?)
    }

    /// What `role` holds of the development token, smallest unit.
    ///
    /// # Errors
    /// When the chain does not answer.
    pub async fn balance(&self, role: Role) -> Result<U256> {
        Ok(self.dev.token_balance(&self.token, &role.tron_account()).await?)
    }
}
