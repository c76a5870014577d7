//! What a settler does on one chain: reads the reservation that is to pay it, delivers through the proxy, and brings the
//! attestation to the escrow.
//!
//! Every act begins with a look at the chain, so doing it again, after a crash too, has no second effect.

use alloy::{
    primitives::{Address, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};

use chains::escrow::{EscrowRecord, State};
use escrow_abi::contracts::{self, DevToken as Erc20, FulfillmentProxy, GatewayEscrow, address, text, units, word};
use events::{
    AssetId, PaymentId,
    event::{EscrowPlan, Inclusion},
};
use sagas::ports::{DeliveryOrder, DeliveryState, Transient};

use super::{
    escrows::unusable,
    logs::Found,
    node::{At, Node},
    query::{Call, CallError},
    transaction::{plain, raw_bytes},
    wallet::Wallet,
};
pub use chains::perform::PerformError;

/// A settler's account on one chain, its own process's alone.
#[derive(Debug)]
pub struct SettlerChain {
    wallet: Wallet,
}

impl SettlerChain {
    /// The account of `signer` on the chain of `node`.
    pub fn new(node: Node, signer: PrivateKeySigner) -> Self {
        Self { wallet: Wallet::new(node, signer) }
    }

    /// The account, lower case.
    pub fn account(&self) -> String {
        text(self.wallet.address())
    }

    /// The connection.
    pub fn node(&self) -> &Node {
        self.wallet.node()
    }

    /// What the escrow holds for the payment at the required depth; `None` when it holds nothing yet.
    ///
    /// Before it delivers a settler compares state, quote hash, its own account, amount, **token**, releaser and windows:
    /// the reservation does not name the token, the payer's permit does.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn reservation(
        &self,
        payment_id: &PaymentId,
        escrow_contract: &str,
    ) -> Result<Option<EscrowRecord>, Transient> {
        let settled = self.node().settled().await?;
        let contract = address(escrow_contract).map_err(unusable)?;
        self.node().escrows().record(payment_id, contract, At::Block(settled)).await
    }

    /// Where a delivery stands.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.node().deliveries().state(order).await
    }

    /// Delivers from this account, giving the proxy an allowance first if there is none, and waits until the delivery is
    /// in a block. A delivery that is there already is returned, at whatever depth it has.
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
        if address(&order.delivery_account).map_err(unusable)? != self.wallet.address() {
            return Err(
                Transient::misconfigured(format!("{} is not this settler's account", order.delivery_account)).into()
            );
        }
        let proxy = address(&order.proxy).map_err(unusable)?;
        let token = contracts::token_or_coin(order.destination.asset()).map_err(unusable)?;
        let amount = units(order.amount);
        if !token.is_zero() {
            self.allow(token, proxy, amount).await?;
        }
        let call = self.fulfilling(order, proxy, token)?;
        let purpose = format!("fulfill/{}/{}", order.payment_id, order.quote_hash);
        let receipt = self.wallet.execute(&purpose, &call).await?;
        let block = self.node().canonical(receipt.block_number, receipt.block_hash).await?;
        Ok(self.node().inclusion(receipt.transaction_hash, block))
    }

    /// Tries out at the newest block what [`SettlerChain::deliver`] would send, and sends nothing: whether this token can be
    /// paid to this recipient. Where the proxy has no allowance yet, the token's own transfer stands in for it.
    ///
    /// # Errors
    /// [`PerformError::Refused`] when the chain refuses it, for whatever reason, a balance that is too low too.
    pub async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError> {
        let proxy = address(&order.proxy).map_err(unusable)?;
        let token = contracts::token_or_coin(order.destination.asset()).map_err(unusable)?;
        let head = At::Block(self.node().head().await?);
        let mut call = self.fulfilling(order, proxy, token)?;
        if !token.is_zero() {
            let (owner, amount) = (self.wallet.address(), units(order.amount));
            let allowance = Erc20::allowanceCall { owner, spender: proxy };
            let allowed = self.node().view(token, &allowance, head).await?.unwrap_or_default();
            if allowed < amount {
                let recipient = address(order.destination.account().as_str()).map_err(unusable)?;
                call = plain(owner, token, Erc20::transferCall { to: recipient, value: amount }.abi_encode());
            }
        }
        match self.node().call(&call, head).await {
            Ok(_) => Ok(()),
            Err(CallError::Transient(fault)) => Err(fault.into()),
            Err(CallError::Reverted(revert)) => {
                Err(PerformError::Refused(Box::new(self.node().refusal(call.to, revert.reason))))
            }
        }
    }

    /// The call of the proxy that delivers.
    fn fulfilling(&self, order: &DeliveryOrder, proxy: Address, token: Address) -> Result<Call, Transient> {
        let amount = units(order.amount);
        let fulfill = FulfillmentProxy::fulfillCall {
            paymentId: word(order.payment_id.on_chain()),
            quoteHash: word(order.quote_hash),
            token,
            recipient: address(order.destination.account().as_str()).map_err(unusable)?,
            amount,
            fulfillBy: contracts::time(order.fulfill_by).map_err(unusable)?,
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
        let contract = address(&plan.contract).map_err(unusable)?;
        let id = word(payment_id.on_chain());
        let head = self.node().head().await?;
        let record = self.node().escrows().record(payment_id, contract, At::Block(head)).await?;
        match record.as_ref().map(|record| record.state) {
            Some(State::Released) => {
                let found: Found<GatewayEscrow::Released> =
                    self.node().logs().find(contract, id, head, |_| true).await?;
                return Ok(found.inclusion);
            }
            Some(State::Refunded) => return Err(PerformError::TooLate("the escrow was refunded".to_owned())),
            // A newest block without the reservation may be a node that lags.
            None | Some(State::Deposited) => {
                return Err(
                    Transient::contradiction(format!("{payment_id} is not reserved at block {}", head.number)).into()
                );
            }
            Some(State::Reserved) => {}
        }
        let attestation =
            raw_bytes(attestation).ok_or_else(|| Transient::misconfigured("the attestation is no hex"))?;
        let release = GatewayEscrow::releaseCall { paymentId: id, attestation };
        let call = plain(self.wallet.address(), contract, release.abi_encode());
        let receipt = self.wallet.execute(&format!("release/{payment_id}"), &call).await?;
        let block = self.node().canonical(receipt.block_number, receipt.block_hash).await?;
        Ok(self.node().inclusion(receipt.transaction_hash, block))
    }

    /// What the escrow at `escrow_contract` owes this account in `asset` at the newest block, from payouts that did not go
    /// through, smallest unit.
    ///
    /// # Errors
    /// [`Transient`], also where there is no escrow.
    pub async fn claimable(&self, escrow_contract: &str, asset: &AssetId) -> Result<U256, Transient> {
        let contract = address(escrow_contract).map_err(unusable)?;
        let token = contracts::erc20(asset).map_err(unusable)?;
        let call = GatewayEscrow::claimableCall { owner: self.wallet.address(), token };
        let head = At::Block(self.node().head().await?);
        let owed = self.node().view(contract, &call, head).await?;
        owed.ok_or_else(|| Transient::contradiction(format!("there is no escrow at {}", text(contract))))
    }

    /// Brings this account what the escrow owes it in `asset`, and waits until that is in a block. Returns the transaction.
    ///
    /// # Errors
    /// [`PerformError::Refused`] when the newest state refuses it; nothing was sent then, unless the state changed on the way.
    pub async fn claim(&self, escrow_contract: &str, asset: &AssetId) -> Result<String, PerformError> {
        let contract = address(escrow_contract).map_err(unusable)?;
        let token = contracts::erc20(asset).map_err(unusable)?;
        let owner = self.wallet.address();
        let claim = GatewayEscrow::claimForCall { owner, token };
        let call = plain(owner, contract, claim.abi_encode());
        let receipt = self.wallet.execute(&format!("claim/{contract}/{token}"), &call).await?;
        Ok(receipt.transaction_hash.to_string())
    }

    /// What this account holds of `asset` at the newest block, smallest unit.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn balance(&self, asset: &AssetId) -> Result<U256, Transient> {
        self.node().asset_balance(asset, self.wallet.address()).await
    }

    /// An allowance for the proxy, without limit: the proxy takes tokens from its caller only.
    async fn allow(&self, token: Address, proxy: Address, amount: U256) -> Result<(), PerformError> {
        let owner = self.wallet.address();
        let head = At::Block(self.node().head().await?);
        let call = Erc20::allowanceCall { owner, spender: proxy };
        let allowed = self.node().view(token, &call, head).await?.unwrap_or_default();
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

impl Node {
    /// What `account` holds of `asset` at the newest block, smallest unit.
    ///
    /// # Errors
    /// [`Transient`].
    pub async fn asset_balance(&self, asset: &AssetId, account: Address) -> Result<U256, Transient> {
        let token = contracts::token_or_coin(asset).map_err(unusable)?;
        let head = At::Block(self.head().await?);
        if token.is_zero() {
            return self.balance(account, head).await;
        }
        let balance = self.view(token, &Erc20::balanceOfCall { account }, head).await?;
        balance.ok_or_else(|| Transient::contradiction(format!("there is no token at {}", text(token))))
    }
}
