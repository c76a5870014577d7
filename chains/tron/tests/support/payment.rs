//! Payments from the development chain: signed as a wallet does, and brought through the engine's port.

use std::{
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use alloy::{
    signers::{SignerSync, local::PrivateKeySigner},
    sol_types::SolCall,
};
use anyhow::{Context, Result, bail, ensure};
use async_trait::async_trait;

use chains_tron::{
    adapter::{Keys, TronChain},
    address::{address, token_or_coin, trc20},
    authorization::{Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare_onchain},
    node::{Info, Node, State},
};
use escrow_abi::{
    attest::statement_digest,
    contracts::{FulfillmentProxy, GatewayEscrow, time, units, word},
    eip712, record,
};
use events::{
    AssetId, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, PayerTransaction, TransactionPrepared, TronSpend},
    time::{Timestamp, from_unix_seconds},
};
use sagas::ports::{
    Chains, Clock, DeliveryOrder, DepositOrder, DepositState, PrepareError, RefundOrder, Refusal, Reservation,
    Statement,
};

use super::{REFUND_DELAY, World, account, holder};

pub const CAP: u64 = 1_000_000;
pub const PRICE: u64 = 900_000;
pub const DELIVERED: u64 = 850_000;

static PAYMENTS: AtomicU64 = AtomicU64::new(0);

/// The system's clock.
pub struct TestClock;

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        from_unix_seconds(now.as_secs()).unwrap()
    }

    async fn sleep(&self, duration: std::time::Duration) {
        tokio::time::sleep(duration).await;
    }
}

impl World {
    pub fn chains_at(&self, rpc_url: &str) -> TronChain {
        self.chains_of(rpc_url, self.submitters.clone())
    }

    /// The chain through this node.
    pub fn chains_with(&self, node: Node) -> TronChain {
        self.chains_over(node, self.submitters.clone())
    }

    pub fn chains_of(&self, rpc_url: &str, submitters: Vec<PrivateKeySigner>) -> TronChain {
        self.chains_over(self.node_at(rpc_url), submitters)
    }

    fn chains_over(&self, node: Node, submitters: Vec<PrivateKeySigner>) -> TronChain {
        let submitters = submitters.into_iter().map(Into::into).collect();
        let keys = Keys {
            reserver: self.reserver.clone().into(),
            draining_reservers: Vec::new(),
            submitters,
            exit_submitters: Vec::new(),
        };
        TronChain::new(node, Some(keys), Arc::new(TestClock)).unwrap()
    }

    pub fn chains(&self) -> TronChain {
        self.chains_at(&self.tron.url())
    }

    pub fn asset(&self, asset: &str) -> AssetId {
        format!("{}/{asset}", self.chain_id).parse().unwrap()
    }

    /// A payment of the payer that pays TRX on the same chain, signed, with its windows `seconds` long from now.
    pub async fn order(&self, seconds: u64) -> Result<DepositOrder> {
        self.order_by(&self.payer, seconds, &Choice::default()).await
    }

    pub async fn order_by(&self, payer: &PrivateKeySigner, seconds: u64, choice: &Choice) -> Result<DepositOrder> {
        let payment_id = next_id(payer);
        let until = self.time().await? + seconds;
        self.order_for(payer, payment_id, CAP, until - seconds / 2, until, choice).await
    }

    /// The payment `payment_id` of at most `cap`.
    pub async fn order_for(
        &self,
        payer: &PrivateKeySigner,
        payment_id: PaymentId,
        cap: u64,
        quote_deadline: u64,
        fulfillment_deadline: u64,
        choice: &Choice,
    ) -> Result<DepositOrder> {
        let spend = self.request(payer, payment_id, cap, quote_deadline, fulfillment_deadline)?;
        let prepared = prepare_onchain(&spend, choice, &self.node(), &self.reserver.clone().into()).await?;
        let mut signed = Vec::new();
        for message in &prepared.messages {
            let signature = payer.sign_hash_sync(&message.id)?.as_bytes();
            signed.push(SignedMessage {
                message: message.id.to_string(),
                message_prehash: Some(format!("0x{}", hex::encode(&message.raw_data))),
                signature: format!("0x{}", hex::encode(signature)),
                payload: None,
            });
        }
        let authorized = authorize(&spend, &signed)?;
        Ok(self.order_of(spend, authorized))
    }

    /// What the payer is asked to authorize: a payment that pays TRX on the same chain.
    pub fn request(
        &self,
        payer: &PrivateKeySigner,
        payment_id: PaymentId,
        cap: u64,
        quote_deadline: u64,
        fulfillment_deadline: u64,
    ) -> Result<SpendRequest> {
        let source = self.asset(&format!("trc20:{}", self.token));
        let terms = Terms::new(
            OwnedAsset::new(source, &account(payer)).unwrap(),
            vec![OwnedAsset::new(self.asset("slip44:195"), &account(&self.recipient)).unwrap()],
            DELIVERED.to_string().parse().unwrap(),
            Some(cap.to_string().parse().unwrap()),
        );
        Ok(SpendRequest {
            payment_id,
            terms,
            quote_deadline: from_unix_seconds(quote_deadline).unwrap(),
            fulfillment_deadline: from_unix_seconds(fulfillment_deadline).unwrap(),
            escrow: EscrowSettings {
                contract: self.contracts.escrow.parse()?,
                reserver: holder(&self.reserver),
                releaser: holder(&self.releaser),
                permit2: Some(self.contracts.permit2.parse()?),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: Hash32::ZERO,
        })
    }

    /// What was authorized, with an award.
    pub fn order_of(&self, spend: SpendRequest, (authorization, escrow): (Authorization, EscrowPlan)) -> DepositOrder {
        let fulfill_by = escrow.fulfillment_deadline;
        DepositOrder {
            transfer: None,
            payment_id: spend.payment_id,
            terms_hash: spend.terms.hash(),
            terms: spend.terms,
            escrow,
            authorization,
            reservation: Reservation {
                quote_hash: Hash32([9; 32]),
                payout_account: holder(&self.settler),
                source_amount: PRICE.to_string().parse().unwrap(),
                fulfill_by,
            },
        }
    }

    /// Sends a transaction of the payer's, as its wallet may, and makes a block.
    pub async fn bring(&self, own: &PayerTransaction) -> Result<Info> {
        self.node().broadcast(&bytes(&own.raw)?).await?;
        self.mine(1).await?;
        let info = self.node().info(own.transaction_hash.parse()?, State::Newest).await?;
        info.context("in no block")
    }

    /// Sends approval and deposit, as the payer's wallet may.
    pub async fn deposit(&self, order: &DepositOrder) -> Result<()> {
        for own in spend(order).approval.iter().chain([&spend(order).deposit]) {
            let info = self.bring(own).await?;
            ensure!(info.failure.is_none(), "{info:?}");
        }
        Ok(())
    }

    /// Lets the port bring the payer's transactions until there is a reservation.
    pub async fn reservation(&self, chains: &TronChain, order: &DepositOrder) -> Result<TransactionPrepared> {
        for _ in 0..4 {
            match chains.prepare_deposit(order, 1).await {
                Ok(prepared) => return Ok(prepared),
                Err(PrepareError::Waiting(_) | PrepareError::PayerSent { .. }) => self.mine(1).await?,
                Err(other) => bail!("{other:?}"),
            }
        }
        bail!("nothing to reserve")
    }

    /// Sends the transaction and makes it solidified.
    pub async fn settle(&self, chains: &TronChain, prepared: &TransactionPrepared) -> Result<()> {
        chains.broadcast(prepared).await?;
        self.mine(1).await?;
        self.solidify().await
    }

    /// A payment in escrow, reserved at depth.
    pub async fn secured(&self, chains: &TronChain, order: &DepositOrder) -> Result<TransactionPrepared> {
        let prepared = self.reservation(chains, order).await?;
        self.settle(chains, &prepared).await?;
        let state = chains.deposit_state(order, from_ref(&prepared)).await?;
        ensure!(matches!(state, DepositState::Secured(_)), "{state:?}");
        Ok(prepared)
    }

    pub fn delivery(&self, order: &DepositOrder) -> DeliveryOrder {
        DeliveryOrder {
            payment_id: order.payment_id.clone(),
            quote_hash: order.reservation.quote_hash,
            destination: order.terms.destination()[0].clone(),
            amount: DELIVERED.to_string().parse().unwrap(),
            delivery_account: holder(&self.settler),
            proxy: self.contracts.proxy.parse().unwrap(),
            fulfill_by: order.reservation.fulfill_by,
        }
    }

    /// Delivers as the settler does.
    pub async fn fulfill(&self, order: &DeliveryOrder) -> Result<Info> {
        let token = token_or_coin(order.destination.asset())?;
        let call = FulfillmentProxy::fulfillCall {
            paymentId: word(order.payment_id.on_chain()),
            quoteHash: word(order.quote_hash),
            token,
            recipient: address(order.destination.account())?,
            amount: units(order.amount),
            fulfillBy: time(order.fulfill_by)?,
        };
        let value = if token.is_zero() { units(order.amount).to::<u64>() } else { 0 };
        Ok(self.dev.execute(&self.settler, &order.proxy.to_string(), call.abi_encode(), value).await?)
    }

    pub fn statement(&self, order: &DepositOrder) -> Statement {
        Statement::Delivery {
            payment_id: order.payment_id.clone(),
            quote_hash: order.reservation.quote_hash,
            payout_account: order.reservation.payout_account.clone(),
        }
    }

    pub fn non_delivery(&self, order: &DepositOrder) -> Statement {
        Statement::NonDelivery { payment_id: order.payment_id.clone(), quote_hash: order.reservation.quote_hash }
    }

    /// The releaser's signature, hex with 0x.
    pub fn attest(&self, statement: &Statement) -> String {
        let digest = statement_digest(statement, self.node().reference().into(), self.escrow(), address).unwrap();
        format!("0x{}", hex::encode(self.releaser.sign_hash_sync(&digest).unwrap().as_bytes()))
    }

    /// Brings the releaser's word to the escrow, as anyone may.
    pub async fn release(&self, order: &DepositOrder) -> Result<Info> {
        let call = GatewayEscrow::releaseCall {
            e: reserved_terms(order)?.0,
            attestation: bytes(&self.attest(&self.statement(order)))?.into(),
        };
        Ok(self.dev.execute(&self.settler, &self.contracts.escrow, call.abi_encode(), 0).await?)
    }

    pub fn cancellation(&self, order: &DepositOrder) -> RefundOrder {
        RefundOrder { non_delivery: Some(self.attest(&self.non_delivery(order))), ..refund(order) }
    }

    /// TRX of the payer, in sun.
    pub async fn sun(&self, owner: &PrivateKeySigner) -> Result<u64> {
        Ok(self.dev.balance(&account(owner)).await?)
    }
}

/// The id of a payment of which there is no other.
pub fn next_id(payer: &PrivateKeySigner) -> PaymentId {
    let number = PAYMENTS.fetch_add(1, Ordering::Relaxed);
    PaymentId::derive(&format!("tron:{}", account(payer)), &number.to_string())
}

/// The terms that the escrow of an order commits to, as anyone who holds the signed messages can write them down.
pub fn deposited_terms(order: &DepositOrder) -> Result<record::EscrowTerms> {
    let (source, plan, spend) = (&order.terms.source, &order.escrow, spend(order));
    let deposit = eip712::GatewayDeposit {
        paymentId: word(order.payment_id.on_chain()),
        termsHash: word(order.terms_hash),
        quoteHash: word(spend.quote_hash),
        payer: address(source.account())?,
        reserver: address(&plan.reserver)?,
        releaser: address(&plan.releaser)?,
        reserveDeadline: time(plan.reserve_deadline)?,
        fulfillmentDeadline: time(plan.fulfillment_deadline)?,
        refundAfter: time(plan.refund_after)?,
    };
    Ok(record::EscrowTerms::deposited(&deposit, trc20(source.asset())?, units(spend.amount)))
}

/// The same once the settler is named.
pub fn reserved_terms(order: &DepositOrder) -> Result<record::EscrowTerms> {
    let award = &order.reservation;
    let (quote, settler) = (word(award.quote_hash), address(&award.payout_account)?);
    let amount = units(award.source_amount);
    Ok(deposited_terms(order)?.reserved(quote, settler, amount, time(award.fulfill_by)?))
}

pub fn refund(order: &DepositOrder) -> RefundOrder {
    RefundOrder { payment_id: order.payment_id.clone(), escrow: order.escrow.clone(), non_delivery: None }
}

pub fn spend(order: &DepositOrder) -> &TronSpend {
    match &order.authorization {
        Authorization::Tron(spend) => spend,
        other => panic!("{other:?}"),
    }
}

pub fn spend_mut(order: &mut DepositOrder) -> &mut TronSpend {
    match &mut order.authorization {
        Authorization::Tron(spend) => spend,
        other => panic!("{other:?}"),
    }
}

pub fn bytes(text: &str) -> Result<Vec<u8>> {
    Ok(hex::decode(text.strip_prefix("0x").context("no 0x")?)?)
}

/// The refusal, and nothing else.
pub fn refusal(outcome: Result<TransactionPrepared, PrepareError>) -> Result<Refusal> {
    match outcome {
        Err(PrepareError::Refused(refusal)) => Ok(*refusal),
        other => bail!("not refused: {other:?}"),
    }
}

/// Why it is refused.
pub fn reason(outcome: Result<TransactionPrepared, PrepareError>) -> Result<String> {
    refusal(outcome)?.context.revert_reason.context("no reason")
}
