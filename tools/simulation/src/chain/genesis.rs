//! The genesis state of a chain: the real contracts, worthless tokens, Permit2.

use std::{collections::BTreeSet, sync::Arc};

use alloy::{
    primitives::{Address, B256, Bytes, TxKind, U256, address, keccak256},
    sol_types::{SolCall, SolConstructor, SolValue},
};
use revm::{
    bytecode::Bytecode,
    context::{TxEnv, result::ExecutionResult},
};
use serde::Deserialize;

use escrow_abi::contracts::{DevToken, GatewayEscrow, PAYOUT_GAS};

use super::{
    SimChain, SimError,
    block::Block,
    state::{Snapshot, State},
    vm::{self, BLOCK_GAS, BlockEnvironment, Rules},
};

/// Where Permit2 is on every chain.
const PERMIT2: Address = address!("000000000022d473030f116ddee9f6b43ac78ba3");
/// Sends the deployments, and nothing else.
const DEPLOYER: Address = address!("00000000000000000000000000000000000de900");
/// Base fee of the first block, wei per unit of gas.
const BASE_FEE: u64 = 1_000_000_000;
/// A token's balances and supply are looked for in so many slots of its storage.
const SLOTS_MAX: u64 = 16;

/// The configuration of a genesis state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Genesis {
    /// EIP-155 id.
    pub evm_id: u64,
    /// The escrow's reserver.
    pub reserver: Address,
    /// The account of the default verifier; the contracts do not know it, [`SimChain::config`] does.
    pub releaser: Address,
    /// Name, symbol and decimal places of each token.
    pub tokens: Vec<(String, String, u8)>,
}

/// Where the contracts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contracts {
    /// Uniswap's Permit2.
    pub permit2: Address,
    /// `GatewayEscrow`.
    pub escrow: Address,
    /// `FulfillmentProxy`.
    pub proxy: Address,
    /// `DevAccountFactory`, for payers that are contracts.
    pub account_factory: Address,
    /// The tokens, in the order of [`Genesis::tokens`].
    pub tokens: Vec<Address>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artefact {
    bytecode: Bytes,
    #[serde(default)]
    deployed_bytecode: Bytes,
}

/// A chain with its contracts, made once and cloned for each run.
#[derive(Debug, Clone)]
pub struct Template(Arc<Deployed>);

#[derive(Debug)]
pub(super) struct Deployed {
    pub genesis: Genesis,
    pub contracts: Contracts,
    /// The slot of the tokens' mapping of balances.
    pub balances: U256,
    /// The slot of the tokens' supply.
    pub supply: U256,
    state: State,
}

impl Template {
    /// Deploys what `genesis` asks for. `permit2` is the JSON that `scripts/tools.sh` builds.
    ///
    /// # Errors
    /// [`SimError`] when an artefact cannot be used or a constructor refuses.
    pub fn new(genesis: &Genesis, permit2: &[u8]) -> Result<Self, SimError> {
        let mut state = State::default();
        let code = parse("Permit2", permit2)?.deployed_bytecode;
        let account = state.account_mut(PERMIT2);
        account.code_hash = keccak256(&code);
        account.code = Bytecode::new_raw(code);
        account.nonce = 1;

        let mut deploy = |name, artefact: &[u8], arguments: Vec<u8>| -> Result<Address, SimError> {
            let code = [parse(name, artefact)?.bytecode.as_ref(), &arguments].concat();
            let address = DEPLOYER.create(state.account(DEPLOYER).nonce);
            alter(&mut state, genesis.evm_id, DEPLOYER, TxKind::Create, code.into())?;
            Ok(address)
        };
        let arguments = GatewayEscrow::constructorCall {
            permit2_: PERMIT2,
            reserver_: genesis.reserver,
            guardian_: Address::ZERO,
            payoutGas_: U256::from(PAYOUT_GAS),
        };
        let escrow = include_bytes!("../../../../contracts/artifacts/GatewayEscrow.json");
        let escrow = deploy("GatewayEscrow", escrow, arguments.abi_encode())?;
        let proxy = include_bytes!("../../../../contracts/artifacts/FulfillmentProxy.json");
        let proxy = deploy("FulfillmentProxy", proxy, Vec::new())?;
        let factory = include_bytes!("../../../../contracts/artifacts/DevAccountFactory.json");
        let account_factory = deploy("DevAccountFactory", factory, Vec::new())?;
        let mut tokens = Vec::new();
        for (name, symbol, decimals) in &genesis.tokens {
            let arguments =
                DevToken::constructorCall { name_: name.clone(), symbol_: symbol.clone(), decimals_: *decimals };
            let artefact = include_bytes!("../../../../contracts/artifacts/DevToken.json");
            tokens.push(deploy("DevToken", artefact, arguments.abi_encode())?);
        }
        let slots = tokens.first().map_or(Ok((U256::ZERO, U256::ZERO)), |token| slots(&state, genesis.evm_id, *token));
        let (balances, supply) = slots?;
        let contracts = Contracts { permit2: PERMIT2, escrow, proxy, account_factory, tokens };
        Ok(Self(Arc::new(Deployed { genesis: genesis.clone(), contracts, balances, supply, state })))
    }

    /// A new chain whose block 0 has the UNIX second `time`.
    pub fn start(&self, time: u64) -> SimChain {
        let mut environment = environment(self.0.genesis.evm_id);
        environment.time = time;
        let block = Block::seal(None, &environment, Vec::new(), self.0.state.clone(), Arc::new(BTreeSet::new()));
        SimChain::new(Arc::clone(&self.0), block)
    }
}

fn environment(evm_id: u64) -> BlockEnvironment {
    // Chains of one time have different blocks all the same.
    let randao = B256::from(U256::from(evm_id));
    BlockEnvironment { evm_id, number: 0, time: 0, base_fee: BASE_FEE, randao }
}

/// Makes a call, or a creation, without fees, and changes `state` by it.
pub(super) fn alter(state: &mut State, evm_id: u64, from: Address, kind: TxKind, data: Bytes) -> Result<(), SimError> {
    let tx = TxEnv { caller: from, kind, data, gas_limit: BLOCK_GAS, chain_id: Some(evm_id), ..TxEnv::default() };
    let snapshot = Snapshot { state, branch: &[] };
    let outcome = vm::run(snapshot, &environment(evm_id), tx, Rules::Asked)
        .map_err(|error| SimError::Refused(error.to_string()))?;
    match outcome.result {
        ExecutionResult::Success { .. } => state.apply(outcome.state),
        other => return Err(SimError::Refused(format!("{other:?}"))),
    }
    Ok(())
}

/// Where in its storage a token keeps the balance of `account`, if the mapping is at `slot`.
pub(super) fn balance_slot(account: Address, slot: U256) -> U256 {
    keccak256((account, slot).abi_encode()).into()
}

/// Finds the mapping of balances and the supply by minting on a copy.
fn slots(state: &State, evm_id: u64, token: Address) -> Result<(U256, U256), SimError> {
    let (mut copy, amount) = (state.clone(), U256::from(123_456_789_u64));
    let mint = DevToken::mintCall { to: DEPLOYER, amount }.abi_encode();
    alter(&mut copy, evm_id, DEPLOYER, TxKind::Call(token), mint.into())?;
    let found = |place: fn(U256) -> U256| {
        let found = (0..SLOTS_MAX).map(U256::from).find(|slot| copy.stored(token, place(*slot)) == amount);
        found.ok_or_else(|| SimError::Artefact("DevToken", "what it stores is nowhere to be found".to_owned()))
    };
    Ok((found(|slot| balance_slot(DEPLOYER, slot))?, found(|slot| slot)?))
}

fn parse(name: &'static str, artefact: &[u8]) -> Result<Artefact, SimError> {
    serde_json::from_slice(artefact).map_err(|error| SimError::Artefact(name, error.to_string()))
}
