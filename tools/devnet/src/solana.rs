//! The Solana chain of the development network.

use std::path::Path;

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;

use chains::config::NATIVE_MINT;
use chains_solana::dev::{DevCluster, DevToken, TokenProgram};
use devkit::{Surfnet, free_port, tools};
use events::{AssetId, ChainId, Hash32};

use super::{
    chain::DECIMALS,
    keys::{Role, solana_account},
};

/// The program as it was built, from the root of the source tree.
const PROGRAM: &str = "contracts/artifacts/solana/gateway_escrow.so";

/// Time between two slots of a network of tests, in milliseconds. A block is finalized 31 slots later, and a blockhash counts for
/// 150: a payment takes seconds, and a transaction has time enough on a busy machine.
pub const SLOT_MS: u64 = 50;
/// The same where stock clients of x402 buy: what they sign has to count until the auction is over, which takes five seconds.
const STOCK_SLOT_MS: u64 = 120;
/// Genesis hash of the public cluster for development: stock clients know the public clusters alone.
const DEVELOPMENT_CLUSTER: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";
/// Decimal places of SOL.
pub(super) const COIN_DECIMALS: u8 = 9;
/// What each account that needs tokens is given, smallest unit.
const ENDOWMENT: u64 = 1_000_000_000_000;
/// Lamports of each account that sends transactions: a hundred SOL.
const LAMPORTS: u64 = 100_000_000_000;

/// How the chain is run.
#[derive(Debug, Clone)]
pub struct SolanaOptions {
    /// Time between two slots, in milliseconds.
    pub slot_ms: u64,
    /// Its port; a free one when `None`.
    pub port: Option<u16>,
    /// Address under which the gateways reach it, where that is another than its own.
    pub gateway_rpc_url: Option<String>,
    /// The genesis hash of a public cluster that it claims to be, for clients that know no others.
    pub claims: Option<String>,
}

impl Default for SolanaOptions {
    fn default() -> Self {
        Self { slot_ms: SLOT_MS, port: None, gateway_rpc_url: None, claims: None }
    }
}

/// A running Solana chain with the program on it.
pub struct SolanaChain {
    /// The process.
    pub surfnet: Surfnet,
    /// The program: escrow and fulfillment proxy, Base58.
    pub program: String,
    /// The development token, of SPL Token.
    pub token: DevToken,
    /// A second one, of Token-2022.
    pub token_2022: DevToken,
    /// Access for looking and for development-only changes.
    pub dev: DevCluster,
    gateway_rpc_url: Option<String>,
}

impl SolanaOptions {
    /// As stock clients of x402 take it: it claims to be the cluster for development, and a blockhash outlasts an auction.
    pub fn for_stock_clients() -> Self {
        Self { slot_ms: STOCK_SLOT_MS, claims: Some(DEVELOPMENT_CLUSTER.to_owned()), ..Self::default() }
    }
}

impl SolanaChain {
    /// A chain with the program, two tokens and money for every role; the payer's allowance is given.
    pub(super) async fn start(options: &SolanaOptions, directory: &Path) -> Result<Self> {
        let port = match options.port {
            Some(port) => port,
            None => free_port()?,
        };
        let surfnet = match &options.claims {
            Some(claimed) => Surfnet::claiming(claimed, options.slot_ms, directory, port).await?,
            None => Surfnet::in_directory(options.slot_ms, directory, port).await?,
        };
        for role in Role::ALL {
            // Who is paid has nothing: a delivery makes the account that takes it.
            if role != Role::Recipient {
                surfnet.airdrop(&role.solana_account(), LAMPORTS).await?;
            }
        }
        let elf = std::fs::read(tools::root().join(PROGRAM)).with_context(|| format!("{PROGRAM} is missing"))?;
        let program = solana_account(&named("program"));
        surfnet.write_program(&program, &elf, &Role::Deployer.solana_account()).await?;
        let dev = DevCluster::connect(&surfnet.url(), &Role::Deployer.solana_key());
        dev.initialize(&program, surfnet.genesis_hash(), &Role::Reserver.solana_account()).await?;
        let token = dev.create_token(&named("token"), TokenProgram::Token, DECIMALS).await?;
        let token_2022 = dev.create_token(&named("token 2022"), TokenProgram::Token2022, DECIMALS).await?;
        let payer = Role::Payer.solana_key();
        for token in [&token, &token_2022] {
            for role in [Role::Payer, Role::Settler(1), Role::Settler(2), Role::Settler(3)] {
                dev.mint(token, &role.solana_account(), ENDOWMENT).await?;
            }
            dev.approve(&payer, token, &program, &Role::Payer.solana_account(), u64::MAX).await?;
        }
        let gateway_rpc_url = options.gateway_rpc_url.clone();
        Ok(Self { surfnet, program, token, token_2022, dev, gateway_rpc_url })
    }

    /// CAIP-2 id.
    ///
    /// # Errors
    /// Never, for a genesis hash.
    pub fn id(&self) -> Result<ChainId> {
        Ok(self.surfnet.chain_id().parse()?)
    }

    /// Address under which the gateways reach it.
    pub fn gateway_rpc_url(&self) -> String {
        self.gateway_rpc_url.clone().unwrap_or_else(|| self.surfnet.url())
    }

    /// The development token as an asset.
    ///
    /// # Errors
    /// Never, for a mint.
    pub fn token(&self) -> Result<AssetId> {
        Ok(format!("{}/token:{}", self.surfnet.chain_id(), self.token.mint).parse()?)
    }

    /// The token of Token-2022 as an asset.
    ///
    /// # Errors
    /// Never, for a mint.
    pub fn token_2022(&self) -> Result<AssetId> {
        Ok(format!("{}/token:{}", self.surfnet.chain_id(), self.token_2022.mint).parse()?)
    }

    /// Native SOL as an asset.
    ///
    /// # Errors
    /// Never.
    pub fn coin(&self) -> Result<AssetId> {
        Ok(format!("{}/slip44:501", self.surfnet.chain_id()).parse()?)
    }

    /// Wrapped SOL as an asset.
    ///
    /// # Errors
    /// Never.
    pub fn wrapped_coin(&self) -> Result<AssetId> {
        Ok(format!("{}/token:{NATIVE_MINT}", self.surfnet.chain_id()).parse()?)
    }

    /// What `role` holds of the development token, smallest unit.
    ///
    /// # Errors
    /// When the chain does not answer.
    pub async fn balance(&self, role: Role) -> Result<u64> {
        Ok(self.dev.token_balance(&self.token, &role.solana_account()).await?)
    }
}

/// A key whose address is the same in every network.
fn named(name: &str) -> SigningKey {
    SigningKey::from_bytes(&Hash32::sha256(format!("gw dev solana {name}")).0)
}
