//! The chains, as foreign as a public network: contracts are not there, and nobody of the gateway has coins.

use std::{fs, time::Duration};

use alloy::{primitives::U256, signers::local::PrivateKeySigner};
use anyhow::Result;
use ed25519_dalek::SigningKey;

use chains_solana::dev::{DevCluster, TokenProgram};
use devkit::{
    anvil::{Anvil, Mining},
    surfnet::Surfnet,
    tools,
};
use trondev::{Blocks, TronDev};

const EVM_ID: u64 = 31_620;
const TRON_ID: u32 = 2_018_365_011;
/// Where Uniswap deployed it on every chain that has it.
const PERMIT2: &str = "0x000000000022D473030F116dDEE9F6B43aC78BA3";
/// Coins that are sent to an account, in the smallest unit.
const WEI: u64 = 10_000_000_000_000_000_000;
const SUN: u64 = 100_000_000_000;
const LAMPORTS: u64 = 10_000_000_000;

/// A chain of each family.
pub struct Chains {
    evm: Anvil,
    pub evm_dev: chains_evm::dev::DevChain,
    evm_token: String,
    solana: Surfnet,
    solana_dev: DevCluster,
    solana_token: chains_solana::dev::DevToken,
    tron: TronDev,
    tron_dev: chains_tron::dev::DevChain,
    tron_token: String,
}

impl Chains {
    /// Starts them, each with a token of one name.
    pub async fn start() -> Result<Self> {
        let mint = PrivateKeySigner::random();
        let evm = Anvil::start(EVM_ID, Mining::Every { seconds: 1 }).await?;
        let evm_dev = chains_evm::dev::DevChain::connect(&evm.url(), mint.clone()).await?;
        evm_dev.install_permit2(&fs::read(tools::root().join(".tools/permit2/Permit2.json"))?).await?;
        let evm_token = evm_dev.deploy_token("Development Dollar", "DEV", 6).await?;
        let solana = Surfnet::start(100).await?;
        let solana_mint = SigningKey::from_bytes(&[9; 32]);
        solana.airdrop(&chains_solana::keys::account(&solana_mint), LAMPORTS).await?;
        let solana_dev = DevCluster::connect(&solana.url(), &solana_mint);
        let solana_token = solana_dev.create_token(&SigningKey::from_bytes(&[8; 32]), TokenProgram::Token, 6).await?;
        let tron = TronDev::start(trondev::Options {
            chain_id: TRON_ID,
            blocks: Blocks::Every(Duration::from_millis(200)),
            solidified_lag: 2,
            ..trondev::Options::default()
        })
        .await?;
        let tron_dev = chains_tron::dev::DevChain::connect(&tron.url(), mint).await?;
        let tron_token = tron_dev.deploy_token("Development Dollar", "DEV", 6).await?;
        Ok(Self { evm, evm_dev, evm_token, solana, solana_dev, solana_token, tron, tron_dev, tron_token })
    }

    /// The ids of the chains.
    pub fn ids(&self) -> [String; 3] {
        [format!("eip155:{EVM_ID}"), self.solana.chain_id(), format!("tron:{TRON_ID}")]
    }

    /// The tokens, as asset ids.
    pub fn assets(&self) -> [String; 3] {
        let [evm, solana, tron] = self.ids();
        [
            format!("{evm}/erc20:{}", self.evm_token),
            format!("{solana}/token:{}", self.solana_token.mint),
            format!("{tron}/trc20:{}", self.tron_token),
        ]
    }

    /// Where the nodes are.
    pub fn urls(&self) -> [String; 3] {
        [self.evm.url(), self.solana.url(), self.tron.url()]
    }

    /// The networks, described as those in config/networks are.
    pub fn networks(&self) -> [(&'static str, String); 3] {
        let network = |name: &str, id: &str, url: &str, own: &str, depth: &str, asset: &str| {
            format!(
                "name = \"{name}\"\ntitle = \"{name}\"\nchain_id = \"{id}\"\n{own}\nis_test = true\npublic_rpc_url = \"{url}\"\n\
                 transaction_url = \"https://e.example/{{transaction}}\"\naddress_url = \"https://e.example/{{address}}\"\nblock_ms = \
                 1000\nrequired_depth = {depth}\ndepth_reason = \"A network of a test.\"\nrefund_delay_seconds = 600\npoll_ms = \
                 200\n[[assets]]\nasset_identifier = \"{asset}\"\nsymbol = \"DEV\"\ndecimals = 6\n"
            )
        };
        let permit2 = format!("permit2 = \"{PERMIT2}\"");
        let genesis = format!("genesis_hash = \"{}\"", self.solana.genesis_hash());
        let ([evm_id, solana_id, tron_id], [evm, solana, tron]) = (self.ids(), self.assets());
        [
            ("evm", network("evm", &evm_id, &self.evm.url(), &permit2, "1", &evm)),
            ("solana", network("solana-here", &solana_id, &self.solana.url(), &genesis, "\"finalized\"", &solana)),
            ("tron", network("tron-here", &tron_id, &self.tron.url(), "", "\"finalized\"", &tron)),
        ]
    }

    /// Sends coins to an account on each chain.
    pub async fn fund(&self, [evm, solana, tron]: &[String; 3]) -> Result<()> {
        self.evm_dev.fund(evm, U256::from(WEI)).await?;
        self.solana.airdrop(solana, LAMPORTS).await?;
        Ok(self.tron_dev.fund(tron, SUN).await?)
    }

    /// Sends tokens to an account on each chain.
    pub async fn endow(&self, [evm, solana, tron]: &[String; 3], tokens: u64) -> Result<()> {
        self.evm_dev.mint(&self.evm_token, evm, U256::from(tokens)).await?;
        self.solana_dev.mint(&self.solana_token, solana, tokens).await?;
        Ok(self.tron_dev.mint(&self.tron_token, tron, U256::from(tokens)).await?)
    }

    /// The tokens of an account on each chain.
    pub async fn tokens(&self, [evm, solana, tron]: &[String; 3]) -> Result<[U256; 3]> {
        Ok([
            self.evm_dev.token_balance(&self.evm_token, evm).await?,
            U256::from(self.solana_dev.token_balance(&self.solana_token, solana).await?),
            self.tron_dev.token_balance(&self.tron_token, tron).await?,
        ])
    }
}
