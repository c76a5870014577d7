//! Settler's account on an EVM chain: reads the reservation that is to pay it, delivers through the proxy, and brings the
//! attestation to the escrow.
//!
//! Every act begins with a look at the chain, so doing it again, after a crash too, has no second effect.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use async_trait::async_trait;

use chains::{
    escrow::{EscrowRecord, State},
    perform::PerformError,
    settler::{DeliveryChain, ReservationOrder, ReservationState, UsualFees},
};
use escrow_abi::contracts::{self, DevToken as Erc20, FulfillmentProxy, GatewayEscrow, address, text, units, word};
use events::{
    Account, AssetId, PaymentId,
    event::{EscrowPlan, Inclusion},
};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Secp256k1Key;

use super::{
    calls::{Call, CallError, Calls, Trial},
    deliveries::Deliveries,
    escrows::{Committed, Escrows, SettledEscrow},
    logs::{Found, Logs},
    node::{At, Node},
    query::{Fees, Query},
    transaction::{plain, raw_bytes},
    wallet::Wallet,
};

/// Deliveries whose gas a settler keeps in coins and never promises, each at `delivery_max` of `[chains.gas]` and at the most
/// that a transaction offers for it now. A delivery uses far less than both, which leaves enough for the gas of a
/// release.
pub const DELIVERIES_RESERVED: u64 = 3;

/// Gas of a delivery and of a release, as what the contracts take (`contracts/checks/gas`) has room in it for tokens that are dearer than the one
/// that was measured.
const DELIVERY_GAS: u64 = 110_000;
const RELEASE_GAS: u64 = 140_000;

/// A settler's account on one chain, its own process's alone.
#[derive(Debug)]
pub struct SettlerChain {
    wallet: Wallet,
}

impl SettlerChain {
    /// The account of `signer` on the chain of `node`.
    pub fn new(node: Node, signer: impl Into<Secp256k1Key>) -> Self {
        Self { wallet: Wallet::new(node, signer) }
    }

    fn node(&self) -> &Node {
        self.wallet.node()
    }

    /// Delivers from this account, coins by value, and tokens after giving the proxy an allowance if there is none, and waits
    /// until the delivery is in a block. A delivery that is there already is returned, at whatever depth it has. It takes no
    /// more gas than `delivery_max` of `[chains.gas]`, whatever code the recipient has.
    ///
    /// # Errors
    /// [`PerformError`]; after [`PerformError::Transient`] do the same again. The proxy takes one delivery of these terms only.
    pub async fn deliver(&self, order: &DeliveryOrder) -> Result<Inclusion, PerformError> {
        match self.delivery_state(order).await? {
            DeliveryState::Final(inclusion) | DeliveryState::Seen(inclusion) => return Ok(inclusion),
            DeliveryState::Impossible => return Err(PerformError::TooLate(format!("past {}", order.fulfill_by))),
            DeliveryState::NotSeen => {}
        }
        let head = self.node().head().await?;
        if head.time > order.fulfill_by {
            return Err(PerformError::TooLate(format!("the chain is at {}, past {}", head.time, order.fulfill_by)));
        }
        if address(&order.delivery_account)? != self.wallet.address() {
            return Err(
                Transient::misconfigured(format!("{} is not this settler's account", order.delivery_account)).into()
            );
        }
        let proxy = address(&order.proxy)?;
        let token = contracts::token_or_coin(order.destination.asset())?;
        let amount = units(order.amount);
        if !token.is_zero() {
            self.allow(token, proxy, amount).await?;
        }
        let call = self.fulfilling(order, proxy, token)?;
        let purpose = format!("fulfill/{}/{}", order.payment_id, order.quote_hash);
        let receipt = self.wallet.execute_within(&purpose, &call, self.gas_max()).await?;
        let block = self.node().canonical(receipt.block_number, receipt.block_hash).await?;
        Ok(self.node().inclusion(receipt.transaction_hash, block))
    }

    /// Most gas of a delivery.
    fn gas_max(&self) -> u64 {
        self.node().config().gas.delivery_max
    }

    /// Wei that the account holds at `at`, and the price of gas now.
    async fn coins(&self, at: At) -> Result<(U256, Fees), Transient> {
        let query = Query::of(self.node());
        tokio::try_join!(query.balance(self.wallet.address(), at), query.fees())
    }

    /// The most that `deliveries` may pay for gas by what a transaction offers now, wei.
    fn gas_cost(&self, deliveries: u64, fees: Fees) -> U256 {
        U256::from(self.gas_max()).saturating_mul(U256::from(deliveries)).saturating_mul(U256::from(fees.max))
    }

    /// The call of the proxy that delivers.
    fn fulfilling(&self, order: &DeliveryOrder, proxy: Address, token: Address) -> Result<Call, Transient> {
        let amount = units(order.amount);
        let fulfill = FulfillmentProxy::fulfillCall {
            paymentId: word(order.payment_id.on_chain()),
            quoteHash: word(order.quote_hash),
            token,
            recipient: address(order.destination.account())?,
            amount,
            fulfillBy: contracts::time(order.fulfill_by)?,
        };
        let value = if token.is_zero() { amount } else { U256::ZERO };
        Ok(Call { from: self.wallet.address(), to: Some(proxy), value, data: fulfill.abi_encode().into() })
    }

    /// Brings the releaser's attestation to the escrow, which then pays the settler, and waits until that is in a block.
    /// A release that is there already, whoever made it, is returned.
    ///
    /// # Errors
    /// [`PerformError`]; after [`PerformError::Transient`] do the same again.
    pub async fn release(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        attestation: &str,
    ) -> Result<Inclusion, PerformError> {
        let contract = address(&plan.contract)?;
        let id = word(payment_id.on_chain());
        let head = self.node().head().await?;
        let found = Escrows::of(self.node()).committed(payment_id, contract, head).await?;
        let terms = match found.map(|Committed { record, terms }| (record.state, terms)) {
            Some((State::Released, _)) => {
                let found: Found<GatewayEscrow::Released> =
                    Logs::of(self.node()).find(contract, id, head, |_| true).await?;
                return Ok(found.inclusion);
            }
            Some((State::Refunded, _)) => return Err(PerformError::TooLate("the escrow was refunded".to_owned())),
            // A newest block without the reservation may be a node that lags.
            None | Some((State::Deposited, _)) => {
                return Err(
                    Transient::contradiction(format!("{payment_id} is not reserved at block {}", head.number)).into()
                );
            }
            Some((State::Reserved, terms)) => terms,
        };
        let attestation =
            raw_bytes(attestation).ok_or_else(|| Transient::misconfigured("the attestation is not hex"))?;
        let release = GatewayEscrow::releaseCall { e: terms.0, attestation };
        let call = plain(self.wallet.address(), contract, release.abi_encode());
        let receipt = self.wallet.execute(&format!("release/{payment_id}"), &call).await?;
        let block = self.node().canonical(receipt.block_number, receipt.block_hash).await?;
        Ok(self.node().inclusion(receipt.transaction_hash, block))
    }

    /// An allowance for the proxy, without limit: the proxy takes tokens from its caller only.
    async fn allow(&self, token: Address, proxy: Address, amount: U256) -> Result<(), PerformError> {
        let owner = self.wallet.address();
        let head = At::Block(self.node().head().await?);
        let call = Erc20::allowanceCall { owner, spender: proxy };
        let allowed = Calls::of(self.node()).view(token, &call, head).await?.unwrap_or_default();
        if allowed >= amount {
            return Ok(());
        }
        // Some tokens take no change from one allowance to another, only from or to none.
        let steps: &[U256] = if allowed.is_zero() { &[U256::MAX] } else { &[U256::ZERO, U256::MAX] };
        for value in steps {
            let approve = Erc20::approveCall { spender: proxy, value: *value };
            let call = plain(owner, token, approve.abi_encode());
            self.wallet.execute(&format!("approve/{token}/{proxy}/{value}"), &call).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl DeliveryChain for SettlerChain {
    fn account(&self) -> &Account {
        self.wallet.account()
    }

    /// Of the chain's own coin what is above what the account keeps for gas ([`DELIVERIES_RESERVED`]); of a token what it holds,
    /// as long as that much is there to pay for the delivery.
    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        let (node, account) = (self.node(), self.wallet.address());
        let token = contracts::token_or_coin(asset)?;
        let head = At::Block(node.head().await?);
        let (wei, fees) = self.coins(head).await?;
        let spare = wei.saturating_sub(self.gas_cost(DELIVERIES_RESERVED, fees));
        if token.is_zero() {
            return Ok(spare);
        }
        if spare.is_zero() {
            tracing::warn!(account = %self.account(), chain_id = %node.chain_id(), %wei, "too few coins to pay for deliveries");
            return Ok(U256::ZERO);
        }
        let balance = Calls::of(node).view(token, &Erc20::balanceOfCall { account }, head).await?;
        balance.ok_or_else(|| Transient::contradiction(format!("there is no token at {}", text(token))))
    }

    async fn reservation(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<(u64, Option<EscrowRecord>), Transient> {
        let SettledEscrow { block, record } = Escrows::of(self.node()).settled(payment_id, contract).await?;
        Ok((block.time, record))
    }

    async fn reservation_state(&self, order: &ReservationOrder) -> Result<ReservationState, Transient> {
        let (block, found) = Escrows::of(self.node()).quoted(&order.quoted()).await?;
        Ok(ReservationState::of_quoted(&found, order, block.time))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(self.node()).state(order).await
    }

    /// Where the proxy has no allowance yet, the token's own transfer stands in for it. A recipient's code finds the same gas and
    /// price as in the transaction.
    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        let proxy = address(&order.proxy)?;
        let token = contracts::token_or_coin(order.destination.asset())?;
        let head = At::Block(self.node().head().await?);
        let (wei, fees) = self.coins(head).await?;
        let mut call = self.fulfilling(order, proxy, token)?;
        let needed = call.value.saturating_add(self.gas_cost(1, fees));
        if wei < needed {
            let reason = format!("the settler holds {wei} wei, and the delivery may take {needed}");
            return Err(PerformError::Refused(Box::new(Calls::of(self.node()).refusal(call.to, reason))));
        }
        if !token.is_zero() {
            let (owner, amount) = (self.wallet.address(), units(order.amount));
            let allowance = Erc20::allowanceCall { owner, spender: proxy };
            let allowed = Calls::of(self.node()).view(token, &allowance, head).await?.unwrap_or_default();
            if allowed < amount {
                let recipient = address(order.destination.account())?;
                call = plain(owner, token, Erc20::transferCall { to: recipient, value: amount }.abi_encode());
            }
        }
        let trial = Trial { gas: Some(self.gas_max()), fees: Some(fees) };
        match Calls::of(self.node()).call_under(&call, head, trial).await {
            Ok(_) => Ok(()),
            Err(CallError::Transient(fault)) => Err(fault.into()),
            Err(CallError::Reverted(revert)) => {
                Err(PerformError::Refused(Box::new(Calls::of(self.node()).refusal(call.to, revert.reason))))
            }
        }
    }

    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        Self::deliver(self, order).await.map(|inclusion| inclusion.transaction_hash)
    }

    fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool {
        Escrows::of(self.node()).signed_by(statement, plan, member, signature)
    }

    async fn release(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        attestation: &str,
    ) -> Result<String, PerformError> {
        Self::release(self, payment_id, plan, attestation).await.map(|inclusion| inclusion.transaction_hash)
    }

    async fn claimable(&self, contract: &Account, asset: &AssetId) -> Result<U256, Transient> {
        let contract = address(contract)?;
        let token = contracts::erc20(asset)?;
        let call = GatewayEscrow::claimableCall { owner: self.wallet.address(), token };
        let head = At::Block(self.node().head().await?);
        let owed = Calls::of(self.node()).view(contract, &call, head).await?;
        owed.ok_or_else(|| Transient::contradiction(format!("there is no escrow at {}", text(contract))))
    }

    async fn claim(&self, contract: &Account, asset: &AssetId) -> Result<String, PerformError> {
        let contract = address(contract)?;
        let token = contracts::erc20(asset)?;
        let owner = self.wallet.address();
        let claim = GatewayEscrow::claimForCall { owner, token };
        let call = plain(owner, contract, claim.abi_encode());
        let receipt = self.wallet.execute(&format!("claim/{contract}/{token}"), &call).await?;
        Ok(receipt.transaction_hash.to_string())
    }

    /// At what the newest block burned, and what is offered besides. What a rollup takes for its data is not in it.
    async fn usual_fees(&self) -> Result<UsualFees, Transient> {
        let Fees { base, priority, .. } = Query::of(self.node()).fees().await?;
        let of = |gas: u64| U256::from(gas).saturating_mul(U256::from(base.saturating_add(priority)));
        let delivery = of(DELIVERY_GAS);
        Ok(UsualFees { coin_delivery: delivery, token_delivery: delivery, release: of(RELEASE_GAS) })
    }

    async fn next_block(&self) {
        self.node().next_block().await;
    }
}
