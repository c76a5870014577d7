//! **For development only**: puts the contracts on a local anvil, mints worthless tokens, hands out coins.
//!
//! It uses anvil's own methods (`anvil_setCode`, `anvil_setBalance`), which no real chain has.

use std::{fmt::Debug, time::Duration};

use alloy::{
    consensus::TxEip1559,
    primitives::{Address, B256, Bytes, TxKind, U64, U256},
    signers::local::PrivateKeySigner,
    sol_types::{SolCall, SolConstructor},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use escrow_abi::{
    artefacts::{DEPOSIT_ADDRESSES, MANDATES, OFFER_ADDRESSES, PAYMENT_BATCHES},
    contracts::{
        ConvertError, DevAccountFactory, DevHostileAccount, DevStablecoin, DevToken, DevWrappedCoin, GatewayEscrow,
        PAYOUT_GAS, parse_address, text,
    },
};

use super::{
    deployer,
    rpc::{Fault, Rpc},
    transaction,
};

const RPC_TIMEOUT: Duration = Duration::from_secs(10);
/// Gas limit of every development transaction: more than the largest deployment needs.
const GAS: u64 = 12_000_000;
/// Fee per gas: far above anvil's base fee, in wei.
const FEE: u128 = 10_000_000_000;
/// Coins that the deployer gets: 1,000,000 ETH in wei.
const DEPLOYER_BALANCE: &str = "0xd3c21bcecceda1000000";
/// Where Permit2 is on every real chain.
const PERMIT2: &str = "0x000000000022d473030f116ddee9f6b43ac78ba3";

/// What went wrong with a development chain.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The chain does not answer, or refuses.
    #[error("development chain: {0}")]
    Chain(String),
    /// Something given is not an address.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// An artefact cannot be used.
    #[error("artefact of {0} cannot be used: {1}")]
    Artefact(&'static str, String),
    /// A transaction reverted.
    #[error("development transaction failed: {0}")]
    Reverted(String),
}

impl From<Fault> for DevError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Reverted(revert) => Self::Reverted(revert.reason),
            Fault::Unanswered(fault) => Self::Chain(fault.to_string()),
            Fault::Rejected(text) => Self::Chain(text),
        }
    }
}

/// The addresses of the contracts on a development chain, lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevContracts {
    /// Uniswap's Permit2.
    pub permit2: String,
    /// `GatewayEscrow`.
    pub escrow: String,
    /// `FulfillmentProxy`.
    pub proxy: String,
}

/// What a hostile development account does when it is asked about a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum HostileMood {
    /// What an honest account does.
    Honest = 0,
    /// It uses up all gas there is.
    Burns = 1,
    /// It is honest while gas costs nothing, as in a trial that names no price, and burns otherwise.
    BurnsForAPrice = 2,
}

/// A local anvil.
#[derive(Debug)]
pub struct DevChain {
    rpc: Rpc,
    evm_id: u64,
    deployer: PrivateKeySigner,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Artefact {
    bytecode: String,
    #[serde(default)]
    deployed_bytecode: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    status: U64,
    contract_address: Option<Address>,
}

impl DevChain {
    /// The anvil at `rpc_url`, with coins for `deployer`, which sends all that is not sent by others.
    ///
    /// # Errors
    /// [`DevError`] when it does not answer or is not anvil.
    pub async fn connect(rpc_url: &str, deployer: PrivateKeySigner) -> Result<Self, DevError> {
        let url = rpc_url.parse().map_err(|error: url::ParseError| DevError::Chain(error.to_string()))?;
        let rpc = Rpc::new(url, RPC_TIMEOUT).map_err(|error| DevError::Chain(error.to_string()))?;
        let evm_id: U64 = rpc.call("eth_chainId", ()).await?;
        let _: Value = rpc.call("anvil_setBalance", (deployer.address(), DEPLOYER_BALANCE)).await?;
        Ok(Self { rpc, evm_id: evm_id.to(), deployer })
    }

    /// Any method of anvil, for tests.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn rpc<P, R>(&self, method: &'static str, params: P) -> Result<R, DevError>
    where
        P: Serialize + Clone + Debug + Send + Sync + Unpin,
        R: DeserializeOwned + Debug + Send + Sync + Unpin + 'static,
    {
        Ok(self.rpc.call(method, params).await?)
    }

    /// Puts Permit2, an escrow with `reserver` and `guardian`, and a proxy on the chain. `permit2_artefact` is the JSON that
    /// `scripts/tools.sh` builds.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_contracts(
        &self,
        permit2_artefact: &[u8],
        reserver: &str,
        guardian: &str,
    ) -> Result<DevContracts, DevError> {
        let permit2 = self.install_permit2(permit2_artefact).await?;
        let arguments = GatewayEscrow::constructorCall {
            permit2_: parse_address(&permit2)?,
            reserver_: parse_address(reserver)?,
            guardian_: parse_address(guardian)?,
            payoutGas_: U256::from(PAYOUT_GAS),
        };
        let escrow = include_bytes!("../../../contracts/artifacts/GatewayEscrow.json");
        let escrow = self.deploy("GatewayEscrow", escrow, arguments.abi_encode()).await?;
        let proxy = include_bytes!("../../../contracts/artifacts/FulfillmentProxy.json");
        let proxy = self.deploy("FulfillmentProxy", proxy, Vec::new()).await?;
        self.deploy_factories().await?;
        Ok(DevContracts { permit2, escrow, proxy })
    }

    /// Puts the contracts that make deposit addresses and addresses of offers, draw batches and keep mandates, where every chain has them, by
    /// the deployer that anvil comes with.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_factories(&self) -> Result<(), DevError> {
        for factory in [&*DEPOSIT_ADDRESSES, &*OFFER_ADDRESSES, &*PAYMENT_BATCHES, &*MANDATES] {
            self.deploy_factory(&factory.creation).await?;
        }
        Ok(())
    }

    async fn deploy_factory(&self, creation: &[u8]) -> Result<(), DevError> {
        let place = deployer::place_of(creation);
        let code: Bytes = self.rpc.call("eth_getCode", (place, "latest")).await?;
        if !code.is_empty() {
            return Ok(());
        }
        // Of its own, so that the addresses of what the deployer makes stay what they are.
        let sender = PrivateKeySigner::random();
        let _: Value = self.rpc.call("anvil_setBalance", (sender.address(), DEPLOYER_BALANCE)).await?;
        let call = deployer::call(creation);
        self.execute(&sender, TxKind::Call(deployer::FACTORY), call).await.map(drop)
    }

    /// Puts Permit2's code at its canonical address.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn install_permit2(&self, artefact: &[u8]) -> Result<String, DevError> {
        let code = parse("Permit2", artefact)?.deployed_bytecode;
        let _: Value = self.rpc.call("anvil_setCode", (PERMIT2, code)).await?;
        Ok(PERMIT2.to_owned())
    }

    /// A new worthless token.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_token(&self, name: &str, symbol: &str, decimals: u8) -> Result<String, DevError> {
        let arguments =
            DevToken::constructorCall { name_: name.to_owned(), symbol_: symbol.to_owned(), decimals_: decimals };
        let artefact = include_bytes!("../../../contracts/artifacts/DevToken.json");
        self.deploy("DevToken", artefact, arguments.abi_encode()).await
    }

    /// A new worthless token that takes its holders' signatures, as Circle's do (ERC-2612, ERC-3009).
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_stablecoin(&self, name: &str, symbol: &str, decimals: u8) -> Result<String, DevError> {
        let arguments =
            DevStablecoin::constructorCall { name_: name.to_owned(), symbol_: symbol.to_owned(), decimals_: decimals };
        let artefact = include_bytes!("../../../contracts/artifacts/DevStablecoin.json");
        self.deploy("DevStablecoin", artefact, arguments.abi_encode()).await
    }

    /// A factory of development accounts: contracts that pay with their owner's signature (ERC-1271).
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_account_factory(&self) -> Result<String, DevError> {
        let artefact = include_bytes!("../../../contracts/artifacts/DevAccountFactory.json");
        self.deploy("DevAccountFactory", artefact, Vec::new()).await
    }

    /// Where `factory` puts the account of `owner` that lets `spender` take its `token`; it need not be there yet.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn account_of(&self, factory: &str, owner: &str, token: &str, spender: &str) -> Result<String, DevError> {
        let (owner, token, spender) = (parse_address(owner)?, parse_address(token)?, parse_address(spender)?);
        let question = DevAccountFactory::accountOfCall { owner, token, spender };
        let call = serde_json::json!({"to": parse_address(factory)?, "data": Bytes::from(question.abi_encode())});
        let returned: Bytes = self.rpc.call("eth_call", (call, "latest")).await?;
        let account = DevAccountFactory::accountOfCall::abi_decode_returns(&returned);
        Ok(text(account.map_err(|error| DevError::Chain(error.to_string()))?))
    }

    /// Deploys that account and returns its address.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_account(
        &self,
        factory: &str,
        owner: &str,
        token: &str,
        spender: &str,
    ) -> Result<String, DevError> {
        let account = self.account_of(factory, owner, token, spender).await?;
        let deploy = DevAccountFactory::deployCall {
            owner: parse_address(owner)?,
            token: parse_address(token)?,
            spender: parse_address(spender)?,
        };
        self.execute(&self.deployer, TxKind::Call(parse_address(factory)?), deploy.abi_encode()).await?;
        Ok(account)
    }

    /// An account that pays with the signature of `owner` and lets `spender` take its `token`, and whose code costs whoever
    /// asks for it: see `DevHostileAccount.sol` for the moods. It takes at least so much gas to judge a signature.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_hostile_account(
        &self,
        owner: &str,
        token: &str,
        spender: &str,
        mood: HostileMood,
        work: u64,
    ) -> Result<String, DevError> {
        let artefact = include_bytes!("../../../contracts/artifacts/DevHostileAccount.json");
        let constructor = DevHostileAccount::constructorCall {
            owner_: parse_address(owner)?,
            token: parse_address(token)?,
            spender: parse_address(spender)?,
            mood_: U256::from(mood as u8),
            work_: U256::from(work),
        };
        self.deploy("DevHostileAccount", artefact, constructor.abi_encode()).await
    }

    /// Turns such an account at once, between two blocks.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn turn_hostile_account(&self, account: &str, mood: HostileMood) -> Result<(), DevError> {
        let slot = (parse_address(account)?, U256::ZERO, B256::with_last_byte(mood as u8));
        let _: bool = self.rpc("anvil_setStorageAt", slot).await?;
        Ok(())
    }

    /// Gives `account` `wei` coins.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn fund(&self, account: &str, wei: U256) -> Result<(), DevError> {
        let _: Value = self.rpc.call("anvil_setBalance", (parse_address(account)?, wei)).await?;
        Ok(())
    }

    /// The chain's own coin as a token, as WETH9 is: whoever sends coins to `deposit()` has them wrapped.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_wrapped_coin(&self, name: &str, symbol: &str, decimals: u8) -> Result<String, DevError> {
        let (name_, symbol_) = (name.to_owned(), symbol.to_owned());
        let arguments = DevWrappedCoin::constructorCall { name_, symbol_, decimals_: decimals };
        let artefact = include_bytes!("../../../contracts/artifacts/DevWrappedCoin.json");
        self.deploy("DevWrappedCoin", artefact, arguments.abi_encode()).await
    }

    /// Mints `amount` of a development token to `to`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn mint(&self, token: &str, to: &str, amount: U256) -> Result<(), DevError> {
        let mint = DevToken::mintCall { to: parse_address(to)?, amount };
        self.execute(&self.deployer, TxKind::Call(parse_address(token)?), mint.abi_encode()).await.map(|_| ())
    }

    /// Lets `spender`, mostly Permit2, take `amount` of `owner`'s `token`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn approve(
        &self,
        owner: &PrivateKeySigner,
        token: &str,
        spender: &str,
        amount: U256,
    ) -> Result<(), DevError> {
        let approve = DevToken::approveCall { spender: parse_address(spender)?, value: amount };
        self.execute(owner, TxKind::Call(parse_address(token)?), approve.abi_encode()).await.map(|_| ())
    }

    /// Sends `amount` of `owner`'s `token` to `to`, as an exchange does for its customer.
    ///
    /// # Errors
    /// [`DevError`], also when it reverts.
    pub async fn send_token(
        &self,
        owner: &PrivateKeySigner,
        token: &str,
        to: &str,
        amount: U256,
    ) -> Result<(), DevError> {
        let transfer = DevToken::transferCall { to: parse_address(to)?, value: amount };
        self.execute(owner, TxKind::Call(parse_address(token)?), transfer.abi_encode()).await.map(drop)
    }

    /// Calls `to` as `signer` with `value` wei, as a wallet does with a transaction request, and sees to it that it is mined.
    ///
    /// # Errors
    /// [`DevError`], also when it reverts.
    pub async fn call(&self, signer: &PrivateKeySigner, to: &str, data: Vec<u8>, value: U256) -> Result<(), DevError> {
        self.send(signer, TxKind::Call(parse_address(to)?), data, value).await.map(drop)
    }

    /// Wraps `wei` of the coins of `owner`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn wrap(&self, owner: &PrivateKeySigner, wrapped_coin: &str, wei: U256) -> Result<(), DevError> {
        self.call(owner, wrapped_coin, DevWrappedCoin::depositCall {}.abi_encode(), wei).await
    }

    /// Coins of `account`, wei.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn balance(&self, account: &str) -> Result<U256, DevError> {
        Ok(self.rpc.call("eth_getBalance", (parse_address(account)?, "latest")).await?)
    }

    /// What `account` holds of `token`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn token_balance(&self, token: &str, account: &str) -> Result<U256, DevError> {
        let data = Bytes::from(DevToken::balanceOfCall { account: parse_address(account)? }.abi_encode());
        let call = serde_json::json!({"to": parse_address(token)?, "data": data});
        let returned: Bytes = self.rpc.call("eth_call", (call, "latest")).await?;
        DevToken::balanceOfCall::abi_decode_returns(&returned).map_err(|error| DevError::Chain(error.to_string()))
    }

    async fn deploy(&self, name: &'static str, artefact: &[u8], arguments: Vec<u8>) -> Result<String, DevError> {
        let mut code = hex::decode(parse(name, artefact)?.bytecode.trim_start_matches("0x"))
            .map_err(|error| DevError::Artefact(name, error.to_string()))?;
        code.extend(arguments);
        let receipt = self.execute(&self.deployer, TxKind::Create, code).await?;
        let created = receipt.contract_address.ok_or_else(|| DevError::Chain(format!("{name} has no address")))?;
        Ok(text(created))
    }

    /// Sends a transaction and sees to it that it is mined.
    async fn execute(&self, signer: &PrivateKeySigner, to: TxKind, data: Vec<u8>) -> Result<Receipt, DevError> {
        self.send(signer, to, data, U256::ZERO).await
    }

    async fn send(
        &self,
        signer: &PrivateKeySigner,
        to: TxKind,
        data: Vec<u8>,
        value: U256,
    ) -> Result<Receipt, DevError> {
        let nonce: U64 = self.rpc.call("eth_getTransactionCount", (signer.address(), "pending")).await?;
        let unsigned = TxEip1559 {
            chain_id: self.evm_id,
            nonce: nonce.to(),
            gas_limit: GAS,
            max_fee_per_gas: FEE,
            max_priority_fee_per_gas: FEE / 100,
            to,
            value,
            input: data.into(),
            ..TxEip1559::default()
        };
        let signed = transaction::sign(&signer.clone().into(), &unsigned).await;
        let signed = signed.map_err(|error| DevError::Chain(error.to_string()))?;
        let _: Value = self.rpc.call("eth_sendRawTransaction", (signed.raw,)).await?;
        let mut receipt: Option<Receipt> = self.rpc.call("eth_getTransactionReceipt", (signed.hash,)).await?;
        if receipt.is_none() {
            // The chain makes blocks on a beat of its own; one more does not hurt it.
            let _: Value = self.rpc.call("evm_mine", ()).await?;
            receipt = self.rpc.call("eth_getTransactionReceipt", (signed.hash,)).await?;
        }
        let receipt = receipt.ok_or_else(|| DevError::Chain(format!("{} is in no block", signed.hash)))?;
        if receipt.status == U64::from(1) { Ok(receipt) } else { Err(DevError::Reverted(signed.hash.to_string())) }
    }
}

fn parse(name: &'static str, artefact: &[u8]) -> Result<Artefact, DevError> {
    serde_json::from_slice(artefact).map_err(|error| DevError::Artefact(name, error.to_string()))
}
