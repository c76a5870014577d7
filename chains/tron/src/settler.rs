//! Settler's account on a Tron chain: reads the reservation that is to pay it, delivers through the proxy, and brings the
//! attestation to the escrow.
//!
//! Every act begins with a look at the chain, so doing it again, after a crash too, has no second effect.

use alloy::{
    primitives::{Address, U256},
    sol_types::SolCall,
};
use async_trait::async_trait;

use chains::{
    escrow::{self, EscrowRecord},
    perform::PerformError,
    settler::{DeliveryChain, UsualFees},
};
use escrow_abi::{
    contracts::{DevToken as Trc20, FulfillmentProxy, GatewayEscrow, word},
    signature,
};
use events::{Account, AssetId, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Statement, Transient};
use signer::Secp256k1Key;

use super::{
    address::{address, text, token_or_coin, trc20},
    cost::Cost,
    deliveries::{self, Deliveries, fulfillment_key},
    escrows::{DatedRecord, Escrows},
    node::{Answer, Node, State},
    search::{EventSearch, SearchScope},
    wallet::{Spare, Task, Wallet},
};

/// Energy whose price a settler keeps in TRX and never promises, as far as it has none of its own: what a release may need,
/// and some three deliveries.
pub const FEE_RESERVE_ENERGY: u64 = 1_500_000;
/// Bytes whose price a settler keeps in TRX besides: those of some three transactions.
const FEE_RESERVE_BYTES: u64 = 1_500;

/// Energy of a delivery of TRX, of one of a token to an account that has none of it, and of a release, as what the contracts take
/// (`contracts/checks/costs`) has room in it for tokens like USDT, which are dearer than the one that was measured.
const COIN_DELIVERY_ENERGY: u64 = 70_000;
const TOKEN_DELIVERY_ENERGY: u64 = 200_000;
const RELEASE_ENERGY: u64 = 170_000;
/// Bytes of a delivery and of a release.
const DELIVERY_BYTES: usize = 500;
const RELEASE_BYTES: usize = 1_000;

/// A settler's account on one chain, its own process's alone.
#[derive(Debug)]
pub struct SettlerChain {
    wallet: Wallet,
}

impl SettlerChain {
    /// The account of `key` on the chain of `node`.
    pub fn new(node: Node, key: impl Into<Secp256k1Key>) -> Self {
        Self { wallet: Wallet::new(node, key) }
    }

    /// The account that `wallet` holds.
    pub fn over(wallet: Wallet) -> Self {
        Self { wallet }
    }

    fn node(&self) -> &Node {
        self.wallet.node()
    }

    /// An allowance for the proxy, without limit: the proxy takes tokens from its caller only.
    async fn allow(&self, token: Address, proxy: Address, amount: U256, until: u64) -> Result<(), PerformError> {
        let owner = self.wallet.address();
        let call = Trc20::allowanceCall { owner, spender: proxy };
        let allowed = match self.node().call(None, token, &call, State::Newest).await? {
            Answer::Returned { value, .. } => value,
            Answer::Reverted { reason, .. } => {
                return Err(Transient::contradiction(format!("allowance of {}: {reason}", text(token))).into());
            }
        };
        if allowed >= amount {
            return Ok(());
        }
        // Tron's USDT takes no change from one allowance to another, only from or to none.
        let steps: &[U256] = if allowed.is_zero() { &[U256::MAX] } else { &[U256::ZERO, U256::MAX] };
        for value in steps {
            let task = Task {
                purpose: format!("approve/{token}/{proxy}/{value}"),
                contract: token,
                data: Trc20::approveCall { spender: proxy, value: *value }.abi_encode(),
                value_sun: 0,
                spare: Spare::default(),
                until: Some(until),
                // An allowance can be used up.
                again: true,
            };
            self.wallet.execute(&task).await?;
        }
        Ok(())
    }

    async fn released(
        &self,
        payment_id: &PaymentId,
        contract: Address,
        record: &DatedRecord,
    ) -> Result<String, PerformError> {
        let ended = record
            .ended_at
            .ok_or_else(|| Transient::contradiction(format!("{payment_id} was released in no block")))?;
        let id = word(payment_id.on_chain());
        let scope = SearchScope { contract, number: ended, state: State::Newest, payment: id, known: &[] };
        let is = |event: &GatewayEscrow::Released| event.paymentId == id;
        Ok(EventSearch::of(self.node()).find(&scope, is).await?.inclusion.transaction_hash)
    }
}

#[async_trait]
impl DeliveryChain for SettlerChain {
    fn account(&self) -> &Account {
        self.wallet.account()
    }

    /// Of TRX what is above what the account keeps for fees ([`FEE_RESERVE_ENERGY`]); of a token what it holds, as long as that
    /// much is there to pay for the delivery.
    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        let token = token_or_coin(asset)?;
        let (prices, resources) = (self.node().prices().await?, self.node().resources(self.wallet.address()).await?);
        let energy = FEE_RESERVE_ENERGY.saturating_sub(resources.energy).saturating_mul(prices.energy_sun);
        let bytes = FEE_RESERVE_BYTES.saturating_mul(prices.bandwidth_sun);
        let spare = resources.balance_sun.saturating_sub(energy.saturating_add(bytes));
        if token.is_zero() {
            return Ok(U256::from(spare));
        }
        if spare == 0 {
            let (account, chain_id) = (self.account(), self.node().chain_id());
            tracing::warn!(%account, %chain_id, sun = resources.balance_sun, "too little TRX and energy to deliver");
            return Ok(U256::ZERO);
        }
        let call = Trc20::balanceOfCall { account: self.wallet.address() };
        match self.node().call(None, token, &call, State::Newest).await? {
            Answer::Returned { value, .. } => Ok(value),
            Answer::Reverted { reason, .. } => {
                Err(Transient::contradiction(format!("balance of {}: {reason}", text(token))))
            }
        }
    }

    async fn reservation(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<(u64, Option<EscrowRecord>), Transient> {
        let found = Escrows::of(self.node()).settled(payment_id, contract).await?;
        Ok((found.time, found.record.map(|record| record.escrow)))
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        Deliveries::of(self.node()).state(order).await
    }

    /// Where the proxy has no allowance yet, the token's own transfer stands in for it.
    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        let terms = deliveries::delivery(order)?;
        let (own, proxy) = (self.wallet.address(), address(&order.proxy)?);
        let mut contract = proxy;
        let mut data = fulfilling(&terms);
        if !terms.token.is_zero() {
            let call = Trc20::allowanceCall { owner: own, spender: proxy };
            let allowed = match self.node().call(None, terms.token, &call, State::Newest).await? {
                Answer::Returned { value, .. } => value,
                Answer::Reverted { .. } => U256::ZERO,
            };
            if allowed < terms.amount {
                contract = terms.token;
                data = Trc20::transferCall { to: terms.recipient, value: terms.amount }.abi_encode();
            }
        }
        match self.node().trial(own, contract, data, value_sun(&terms)?).await? {
            Answer::Returned { .. } => Ok(()),
            Answer::Reverted { reason, .. } => {
                Err(PerformError::Refused(Box::new(self.node().refusal(contract, reason))))
            }
        }
    }

    /// The proxy is given an allowance first if it has none.
    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError> {
        match self.delivery_state(order).await? {
            DeliveryState::Final(inclusion) | DeliveryState::Seen(inclusion) => return Ok(inclusion.transaction_hash),
            DeliveryState::Impossible => return Err(PerformError::TooLate(format!("past {}", order.fulfill_by))),
            DeliveryState::NotSeen => {}
        }
        let terms = deliveries::delivery(order)?;
        if terms.settler != self.wallet.address() {
            return Err(
                Transient::misconfigured(format!("{} is not this settler's account", order.delivery_account)).into()
            );
        }
        let contract = address(&order.proxy)?;
        let value_sun = value_sun(&terms)?;
        if !terms.token.is_zero() {
            self.allow(terms.token, contract, terms.amount, order.fulfill_by).await?;
        }
        let task = Task {
            // The delivery's once-only key: other terms are another delivery.
            purpose: format!("fulfill/{contract}/{}", fulfillment_key(&terms)),
            contract,
            data: fulfilling(&terms),
            value_sun,
            spare: Spare::default(),
            until: Some(order.fulfill_by),
            again: false,
        };
        self.wallet.execute(&task).await
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
        let contract = address(&plan.contract)?;
        let read = Escrows::of(self.node()).record(payment_id, contract, State::Newest).await?;
        let found = read.record.map(|record| (record.escrow.state, record));
        let terms = match found {
            Some((escrow::State::Reserved, record)) => record.terms,
            Some((escrow::State::Released, record)) => return self.released(payment_id, contract, &record).await,
            Some((escrow::State::Refunded, _)) => {
                return Err(PerformError::TooLate("the escrow was refunded".to_owned()));
            }
            // A newest block without the reservation may be a node that lags.
            None | Some((escrow::State::Deposited, _)) => {
                return Err(
                    Transient::contradiction(format!("{payment_id} is not reserved at block {}", read.number)).into()
                );
            }
        };
        let attestation = signature::bytes(attestation);
        let attestation = attestation.map_err(|_| Transient::misconfigured("the attestation is not hex"))?;
        let release = GatewayEscrow::releaseCall { e: terms.0, attestation: attestation.into() };
        let task = Task {
            purpose: format!("release/{contract}/{payment_id}"),
            contract,
            data: release.abi_encode(),
            value_sun: 0,
            spare: Spare::PAYOUT,
            // The escrow releases strictly before `refundAfter`.
            until: Some(plan.refund_after.saturating_sub(1)),
            again: false,
        };
        self.wallet.execute(&task).await
    }

    async fn claimable(&self, contract: &Account, asset: &AssetId) -> Result<U256, Transient> {
        let escrow = address(contract)?;
        let token = trc20(asset)?;
        let call = GatewayEscrow::claimableCall { owner: self.wallet.address(), token };
        match self.node().call(None, escrow, &call, State::Newest).await? {
            Answer::Returned { value, .. } => Ok(value),
            Answer::Reverted { reason, .. } => Err(Transient::contradiction(format!("claims at {contract}: {reason}"))),
        }
    }

    async fn claim(&self, contract: &Account, asset: &AssetId) -> Result<String, PerformError> {
        let contract = address(contract)?;
        let token = trc20(asset)?;
        let task = Task {
            purpose: format!("claim/{contract}/{token}"),
            contract,
            data: GatewayEscrow::claimForCall { owner: self.wallet.address(), token }.abi_encode(),
            value_sun: 0,
            // A claim runs with whatever there is, and fails as a whole.
            spare: Spare::default(),
            until: None,
            // Another payout may fail after this one was made good.
            again: true,
        };
        self.wallet.execute(&task).await
    }

    /// By what energy and bandwidth cost now. What the account has of both from staking is not taken for free.
    async fn usual_fees(&self) -> Result<UsualFees, Transient> {
        let prices = self.node().prices().await?;
        let of = |energy: u64, bytes: usize| U256::from(Cost::new(energy, bytes).burnt(None, &prices));
        Ok(UsualFees {
            coin_delivery: of(COIN_DELIVERY_ENERGY, DELIVERY_BYTES),
            token_delivery: of(TOKEN_DELIVERY_ENERGY, DELIVERY_BYTES),
            release: of(RELEASE_ENERGY, RELEASE_BYTES),
        })
    }

    async fn next_block(&self) {
        self.node().next_block().await;
    }
}

/// The call of the proxy that delivers.
fn fulfilling(terms: &FulfillmentProxy::Fulfilled) -> Vec<u8> {
    let fulfill = FulfillmentProxy::fulfillCall {
        paymentId: terms.paymentId,
        quoteHash: terms.quoteHash,
        token: terms.token,
        recipient: terms.recipient,
        amount: terms.amount,
        fulfillBy: terms.fulfillBy,
    };
    fulfill.abi_encode()
}

/// What is sent along with a delivery, sun.
fn value_sun(terms: &FulfillmentProxy::Fulfilled) -> Result<u64, Transient> {
    if !terms.token.is_zero() {
        return Ok(0);
    }
    u64::try_from(terms.amount)
        .map_err(|_| Transient::misconfigured(format!("{} sun are more than there are", terms.amount)))
}
