//! The beginning of a chain: the real contracts and a worthless token, deployed by transactions.

use std::sync::Arc;

use alloy::{
    primitives::{Address, U256, keccak256},
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::{SolCall, SolConstructor, SolValue},
};

use escrow_abi::{
    artefacts::{FULFILLMENT_PROXY, GATEWAY_ESCROW},
    contracts::{DevToken, GatewayEscrow, PAYOUT_GAS},
};
use trondev::{LocalNode, Options, SUN_PER_TRX};

use super::chain::{BLOCK_MS, SimTron, TronError};

/// What the deployer has, in sun.
const DEPLOYER_SUN: u64 = 1_000_000 * SUN_PER_TRX;
/// A token's balances are looked for in so many slots of its storage.
const SLOTS_MAX: u64 = 16;

/// Where the contracts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contracts {
    /// The chain's number, which signatures bind.
    pub number: u32,
    /// `GatewayEscrow`, without a Permit2.
    pub escrow: Address,
    /// `FulfillmentProxy`.
    pub proxy: Address,
    /// The token, of six decimal places.
    pub token: Address,
    /// The slot of the token's mapping of balances.
    pub(super) balances: U256,
}

/// A chain with its contracts, made once and cloned for each run.
pub struct Template {
    contracts: Arc<Contracts>,
    deployer: PrivateKeySigner,
    node: LocalNode,
}

impl Template {
    /// The chain with the number `number`, whose first block has the UNIX second `time`, with an escrow of `reserver`. `deployer`
    /// can mint the token.
    ///
    /// # Errors
    /// [`TronError`] when a contract does not get there.
    pub fn new(number: u32, time: u64, reserver: Address, deployer: PrivateKeySigner) -> Result<Self, TronError> {
        let begin_ms = i64::try_from(time * 1_000).map_err(|error| TronError::Other(error.to_string()))?;
        let options = Options { chain_id: number, solidified_lag: 0, ..Options::default() };
        let mut node = LocalNode::new(options, begin_ms).map_err(|error| TronError::Other(error.to_string()))?;
        node.mine(begin_ms + BLOCK_MS)?;
        node.fund(trondev::Address::from_evm(deployer.address()), DEPLOYER_SUN);
        let escrow = GatewayEscrow::constructorCall {
            permit2_: Address::ZERO,
            reserver_: reserver,
            guardian_: Address::ZERO,
            payoutGas_: U256::from(PAYOUT_GAS),
        };
        let token = DevToken::constructorCall {
            name_: "Simulated Dollar".to_owned(),
            symbol_: "SUSD".to_owned(),
            decimals_: 6,
        };
        let token = [DevToken::BYTECODE.as_ref(), &token.abi_encode()].concat();
        let mut deploy = |name: &str, code: Vec<u8>| -> Result<Address, TronError> {
            let owner = trondev::Address::from_evm(deployer.address());
            let signature = |id: &[u8; 32]| signature(&deployer, id);
            let at = node.deploy(owner, name, code, signature)?;
            let block = node.mine(node.head().time_ms + BLOCK_MS)?;
            let held = node.transactions(block.number);
            match held.as_slice() {
                [one] if one.result == "SUCCESS" => Ok(at.evm()),
                other => Err(TronError::Other(format!("{name} was not deployed: {other:?}"))),
            }
        };
        let escrow = deploy("GatewayEscrow", GATEWAY_ESCROW.creation_with(&escrow.abi_encode()))?;
        let proxy = deploy("FulfillmentProxy", FULFILLMENT_PROXY.creation_with(&[]))?;
        let token = deploy("DevToken", token)?;
        let mut contracts = Contracts { number, escrow, proxy, token, balances: U256::ZERO };
        contracts.balances = balances_slot(&contracts, &node, &deployer)?;
        Ok(Self { contracts: Arc::new(contracts), deployer, node })
    }

    /// A chain of its own.
    pub fn start(&self) -> SimTron {
        SimTron::new(self.contracts.clone(), self.node.clone())
    }

    /// The key that can mint.
    pub fn deployer(&self) -> &PrivateKeySigner {
        &self.deployer
    }
}

/// The signature of a transaction's id as Tron's wallets make it.
#[expect(clippy::expect_used, reason = "a key in memory signs every hash")]
pub(super) fn signature(key: &PrivateKeySigner, id: &[u8; 32]) -> [u8; 65] {
    key.sign_hash_sync(&id.into()).expect("a key in memory signs every hash").as_bytes()
}

/// Finds the mapping of balances by minting on a copy.
fn balances_slot(contracts: &Contracts, node: &LocalNode, deployer: &PrivateKeySigner) -> Result<U256, TronError> {
    let amount = U256::from(123_456_789_u64);
    let mut copy = SimTron::new(Arc::new(contracts.clone()), node.clone());
    let holder = deployer.address();
    copy.submit(deployer, contracts.token, 0, DevToken::mintCall { to: holder, amount }.abi_encode())?;
    copy.mine(copy.head().time_ms + BLOCK_MS)?;
    let token = trondev::Address::from_evm(contracts.token);
    let is = |slot: &U256| copy.node.stored(token, keccak256((holder, *slot).abi_encode()).into()) == amount;
    let found = (0..SLOTS_MAX).map(U256::from).find(is);
    found.ok_or_else(|| TronError::Other("the token's balances are nowhere to be found".to_owned()))
}
