//! **For development only**: deploys the contracts on a development chain, mints worthless tokens, hands out TRX.
//!
//! All but the TRX is done by real transactions. It uses the development node's own calls (`/dev/fund`, `/dev/mine`), which
//! no network has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use alloy::{
    primitives::{B256, U256},
    signers::local::PrivateKeySigner,
    sol_types::{SolCall, SolConstructor},
};
use serde_json::{Value, json};
use url::Url;

use escrow_abi::contracts::{DevToken, DevWrappedCoin};
use events::ChainId;

use super::{
    address::{ConvertError, parse_address, text},
    creation::Creation,
    deploy::Part,
    node::{Answer, BroadcastError, Info, State},
    nodes::Nodes,
    query::{Trial, Tried},
    rpc::{Fault, Rpc},
    transaction::{Call, Draft, Reference},
};

const RPC_TIMEOUT: Duration = Duration::from_secs(30);
/// What the deployer gets: 1,000,000 TRX, in sun.
const DEPLOYER_SUN: u64 = 1_000_000_000_000;
/// Fee limit of every development transaction: more than the largest deployment burns, in sun.
const FEE_LIMIT_SUN: u64 = 5_000_000_000;
/// How long a development transaction can be taken.
const VALID_MS: u64 = 10 * 60 * 1000;

/// What went wrong with a development chain.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// The chain does not answer, or refuses.
    #[error("development chain: {0}")]
    Chain(String),
    /// Something given is not an address.
    #[error(transparent)]
    Convert(#[from] ConvertError),
    /// A transaction had no effect.
    #[error("development transaction {0} failed: {1}")]
    Failed(B256, String),
}

impl From<Fault> for DevError {
    fn from(fault: Fault) -> Self {
        Self::Chain(fault.to_string())
    }
}

impl From<BroadcastError> for DevError {
    fn from(error: BroadcastError) -> Self {
        Self::Chain(error.to_string())
    }
}

/// The addresses of the contracts on a development chain, `T…`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DevContracts {
    /// Uniswap's `Permit2`.
    pub permit2: String,
    /// `GatewayEscrow`.
    pub escrow: String,
    /// `FulfillmentProxy`.
    pub proxy: String,
    /// `TronDepositAddresses`.
    pub deposit_address_factory: String,
}

/// A development chain.
#[derive(Debug)]
pub struct DevChain {
    rpc: Nodes,
    deployer: PrivateKeySigner,
    /// Makes transactions differ that would else be one.
    stamp: AtomicU64,
}

impl DevChain {
    /// The development node at `url`, with TRX for `deployer`, which sends all that is not sent by others.
    ///
    /// # Errors
    /// [`DevError`] when it does not answer or is not a development node.
    pub async fn connect(url: &str, deployer: PrivateKeySigner) -> Result<Self, DevError> {
        let url: Url = url.parse().map_err(|error: url::ParseError| DevError::Chain(error.to_string()))?;
        let rpc = Rpc::new(&url, RPC_TIMEOUT, None).map_err(|error| DevError::Chain(error.to_string()))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // Nanoseconds since 1970 fit until 2554.
        let stamp = AtomicU64::new(u64::try_from(now.as_nanos()).unwrap_or_default());
        let chain_id = "tron:0".parse().map_err(|error: events::caip::Error| DevError::Chain(error.to_string()))?;
        let chain = Self { rpc: Nodes::unchecked(chain_id, Arc::new(rpc)), deployer, stamp };
        chain.fund(&text(chain.deployer.address()), DEPLOYER_SUN).await?;
        Ok(chain)
    }

    /// The chain's CAIP-2 id.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn chain_id(&self) -> Result<ChainId, DevError> {
        let first = self.rpc.numbered(0, State::Newest).await?;
        let first = first.ok_or_else(|| DevError::Chain("no first block".to_owned()))?;
        // An id of 32 bytes ends in four.
        let reference = first.reference();
        format!("tron:{reference}").parse().map_err(|error: events::caip::Error| DevError::Chain(error.to_string()))
    }

    /// One of the node's development controls, for example `mine` with `{"blocks": 2}`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn control(&self, name: &str, body: Value) -> Result<Value, DevError> {
        Ok(self.rpc.post(&format!("dev/{name}"), &body).await?)
    }

    /// Makes blocks.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn mine(&self, blocks: u64) -> Result<(), DevError> {
        self.control("mine", json!({"blocks": blocks})).await.map(drop)
    }

    /// Gives `account` TRX out of nothing, in sun.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn fund(&self, account: &str, sun: u64) -> Result<(), DevError> {
        self.control("fund", json!({"address": account, "sun": sun})).await.map(drop)
    }

    /// Deploys Permit2, an escrow with `reserver` and `guardian`, a proxy, and the factory of deposit addresses.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_contracts(&self, reserver: &str, guardian: &str) -> Result<DevContracts, DevError> {
        let permit2 = Part::permit2();
        let permit2 = self.deploy(permit2.name, permit2.code).await?;
        let escrow = Part::escrow(parse_address(&permit2)?, parse_address(reserver)?, parse_address(guardian)?);
        let escrow = self.deploy(escrow.name, escrow.code).await?;
        let proxy = Part::proxy();
        let proxy = self.deploy(proxy.name, proxy.code).await?;
        let addresses = Part::deposit_address_factory();
        let deposit_address_factory = self.deploy(addresses.name, addresses.code).await?;
        Ok(DevContracts { permit2, escrow, proxy, deposit_address_factory })
    }

    /// A new worthless token.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_token(&self, name: &str, symbol: &str, decimals: u8) -> Result<String, DevError> {
        let arguments =
            DevToken::constructorCall { name_: name.to_owned(), symbol_: symbol.to_owned(), decimals_: decimals };
        self.deploy("DevToken", [DevToken::BYTECODE.as_ref(), &arguments.abi_encode()].concat()).await
    }

    /// The chain's own coin as a token, as WETH9 is: whoever sends coins to `deposit()` has them wrapped.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn deploy_wrapped_coin(&self, name: &str, symbol: &str, decimals: u8) -> Result<String, DevError> {
        let (name_, symbol_) = (name.to_owned(), symbol.to_owned());
        let arguments = DevWrappedCoin::constructorCall { name_, symbol_, decimals_: decimals };
        self.deploy("DevWrappedCoin", [DevWrappedCoin::BYTECODE.as_ref(), &arguments.abi_encode()].concat()).await
    }

    /// Mints `amount` of a development token to `to`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn mint(&self, token: &str, to: &str, amount: U256) -> Result<(), DevError> {
        let mint = DevToken::mintCall { to: parse_address(to)?, amount };
        self.execute(&self.deployer, token, mint.abi_encode(), 0).await.map(drop)
    }

    /// Sends `amount` of a token from `from` to `to`.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn send_token(
        &self,
        from: &PrivateKeySigner,
        token: &str,
        to: &str,
        amount: U256,
    ) -> Result<(), DevError> {
        let transfer = DevToken::transferCall { to: parse_address(to)?, value: amount };
        self.execute(from, token, transfer.abi_encode(), 0).await.map(drop)
    }

    /// Lets `spender`, mostly the escrow, take `amount` of `owner`'s `token`.
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
        self.execute(owner, token, approve.abi_encode(), 0).await.map(drop)
    }

    /// What `account` holds of `token` in the newest state.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn token_balance(&self, token: &str, account: &str) -> Result<U256, DevError> {
        let data = DevToken::balanceOfCall { account: parse_address(account)? }.abi_encode();
        let trial = Trial { from: None, to: parse_address(token)?, data: &data, value_sun: 0 };
        match self.rpc.constant(&trial, State::Newest).await? {
            Tried::Answered(Answer::Returned { value, .. }) => DevToken::balanceOfCall::abi_decode_returns(&value)
                .map_err(|error| DevError::Chain(format!("{token} answered: {error}"))),
            other => Err(DevError::Chain(format!("{token} answered: {other:?}"))),
        }
    }

    /// TRX of `account` in the newest state, in sun.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn balance(&self, account: &str) -> Result<u64, DevError> {
        Ok(self.rpc.account_resources(parse_address(account)?).await?.balance_sun)
    }

    /// Calls `contract` as `signer`, with `value_sun` TRX, and sees to it that it is in a block and had its effect.
    ///
    /// # Errors
    /// [`DevError`].
    pub async fn execute(
        &self,
        signer: &PrivateKeySigner,
        contract: &str,
        data: Vec<u8>,
        value_sun: u64,
    ) -> Result<Info, DevError> {
        let (reference, expiration_ms) = self.validity().await?;
        let signed = Draft {
            call: Call { owner: signer.address(), contract: parse_address(contract)?, data, value_sun },
            fee_limit_sun: FEE_LIMIT_SUN,
            reference,
            timestamp_ms: self.stamp.fetch_add(1, Ordering::Relaxed),
            expiration_ms,
        }
        .sign(signer);
        self.include(signed.id, &signed.bytes).await
    }

    async fn deploy(&self, name: &str, code: Vec<u8>) -> Result<String, DevError> {
        let (reference, expiration_ms) = self.validity().await?;
        let creation = Creation {
            owner: self.deployer.address(),
            name: name.to_owned(),
            code,
            fee_limit_sun: FEE_LIMIT_SUN,
            reference,
            timestamp_ms: self.stamp.fetch_add(1, Ordering::Relaxed),
            expiration_ms,
        }
        .sign(&self.deployer);
        let info = self.include(creation.signed.id, &creation.signed.bytes).await?;
        let created = creation.contract();
        if info.contract != Some(created) {
            return Err(DevError::Chain(format!("{name} is at {:?} and not at {created}", info.contract)));
        }
        Ok(text(created))
    }

    async fn validity(&self) -> Result<(Reference, u64), DevError> {
        let head = self.rpc.newest(State::Newest).await?;
        let settled = self.rpc.newest(State::Solidified).await?;
        Ok((Reference::of(&settled), head.time_ms + VALID_MS))
    }

    /// Sends a transaction and sees to it that it is in a block.
    async fn include(&self, id: B256, signed: &[u8]) -> Result<Info, DevError> {
        self.rpc.send(signed).await?;
        let mut info = self.rpc.transaction_info(id, State::Newest).await?;
        if info.is_none() {
            // The chain may make blocks on a beat of its own; one more does not hurt it.
            self.mine(1).await?;
            info = self.rpc.transaction_info(id, State::Newest).await?;
        }
        let info = info.ok_or_else(|| DevError::Chain(format!("{id} is in no block")))?;
        match info.failure {
            Some(reason) => Err(DevError::Failed(id, reason)),
            None => Ok(info),
        }
    }
}
