//! Payments with the quote that won them, as settler, verifier and auditor see them.

use std::time::Duration;

use alloy::signers::SignerSync;
use anyhow::{Result, bail};
use ed25519_dalek::SigningKey;

use chains::{auditor::Case, settler::DeliveryChain};
use chains_tron::{
    auditor::Auditor,
    authorization::{Choice, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare_onchain},
    settler::SettlerChain,
};
use events::{
    Account, Amount, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    quote::{Quote, SignedQuote, auction_of},
    time::{from_unix_seconds, unix_seconds},
};
use sagas::ports::{
    Chains, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, PayerDeposit, Reservation,
    VerificationCase,
};

use super::{
    REFUND_DELAY, World, account, holder,
    payment::{CAP, DELIVERED, PRICE},
    until,
};

pub fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

impl World {
    /// TRX for the recipient.
    pub fn trx(&self) -> OwnedAsset {
        OwnedAsset::new(self.asset("slip44:195"), &account(&self.recipient)).unwrap()
    }

    /// A token for `recipient`, `T…`.
    pub fn trc20(&self, token: &str, recipient: &str) -> OwnedAsset {
        OwnedAsset::new(self.asset(&format!("trc20:{token}")), recipient).unwrap()
    }

    /// The settler as it is after each start.
    pub fn settling(&self) -> SettlerChain {
        SettlerChain::new(self.node(), self.settler.clone())
    }

    pub fn auditor(&self) -> Auditor {
        Auditor::new(self.node())
    }

    /// What comes of `act` while blocks are made.
    pub async fn mining<T>(&self, act: impl Future<Output = T>) -> Result<T> {
        tokio::pin!(act);
        loop {
            tokio::select! {
                done = &mut act => return Ok(done),
                () = tokio::time::sleep(Duration::from_millis(20)) => self.mine(1).await?,
            }
        }
    }
}

/// A payment with the quote that won it.
#[derive(Clone)]
pub struct Payment {
    pub id: PaymentId,
    pub terms: Terms,
    pub authorization: Authorization,
    pub plan: EscrowPlan,
    pub quote: SignedQuote,
}

impl Payment {
    /// A payment from Tron to `destination` within `seconds` from now, signed by the payer, with the quote of a settler who
    /// delivers from `delivery_account` through `proxy`.
    pub async fn from_tron(
        world: &World,
        seconds: u64,
        destination: OwnedAsset,
        delivery_account: &Account,
        proxy: &Account,
    ) -> Result<Self> {
        let base = world.order(seconds).await?;
        let terms = Terms::new(base.terms.source, vec![destination], amount(DELIVERED), Some(amount(CAP)));
        let spend = SpendRequest {
            payment_id: base.payment_id,
            terms: terms.clone(),
            quote_deadline: from_unix_seconds(base.escrow.fulfillment_deadline - seconds / 2).unwrap(),
            fulfillment_deadline: from_unix_seconds(base.escrow.fulfillment_deadline).unwrap(),
            escrow: EscrowSettings {
                contract: world.contracts.escrow.parse()?,
                reserver: holder(&world.reserver),
                releaser: holder(&world.releaser),
                permit2: Some(world.contracts.permit2.parse()?),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: Hash32::ZERO,
        };
        let prepared =
            prepare_onchain(&spend, &Choice::default(), &world.node(), &world.reserver.clone().into()).await?;
        let sign = |id| world.payer.sign_hash_sync(&id).map(|signature| signature.as_bytes());
        let mut signed = Vec::new();
        for message in prepared.messages {
            signed.push(SignedMessage {
                message: message.id.to_string(),
                message_prehash: Some(format!("0x{}", hex::encode(&message.raw_data))),
                signature: format!("0x{}", hex::encode(sign(message.id)?)),
                payload: None,
            });
        }
        let (authorization, plan) = authorize(&spend, &signed)?;
        let payout = holder(&world.settler);
        Self::quoted(spend.payment_id, terms, authorization, plan, &payout, delivery_account, proxy)
    }

    /// A payment from Tron to Tron, delivered by the settler.
    pub async fn within_tron(world: &World, seconds: u64, destination: OwnedAsset) -> Result<Self> {
        Self::from_tron(world, seconds, destination, &holder(&world.settler), &world.contracts.proxy.parse()?).await
    }

    pub fn quoted(
        id: PaymentId,
        terms: Terms,
        authorization: Authorization,
        plan: EscrowPlan,
        payout_account: &Account,
        delivery_account: &Account,
        proxy: &Account,
    ) -> Result<Self> {
        let signing = SigningKey::from_bytes(&[7; 32]);
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(&id),
            terms_hash: terms.hash(),
            settler: Did::from_ed25519(&signing.verifying_key()),
            source_chain: plan.chain_id.clone(),
            source_amount: amount(PRICE),
            payout_account: payout_account.clone(),
            escrow_contract: plan.contract.clone(),
            destination: terms.destination()[0].clone(),
            fulfillment_amount: terms.fulfillment_amount,
            delivery_account: delivery_account.clone(),
            fulfillment_proxy: proxy.clone(),
            fulfill_by: from_unix_seconds(plan.fulfillment_deadline - 10).unwrap(),
            valid_until: from_unix_seconds(plan.fulfillment_deadline).unwrap(),
        };
        let quote = quote.sign(&signing, from_unix_seconds(plan.fulfillment_deadline - 600).unwrap())?;
        Ok(Self { id, terms, authorization, plan, quote })
    }

    pub fn fulfill_by(&self) -> u64 {
        unix_seconds(self.quote.quote().fulfill_by)
    }

    pub fn deposit(&self) -> DepositOrder {
        let quote = self.quote.quote();
        DepositOrder {
            transfer: None,
            payment_id: self.id.clone(),
            terms: self.terms.clone(),
            terms_hash: self.terms.hash(),
            escrow: self.plan.clone(),
            authorization: self.authorization.clone(),
            reservation: Reservation {
                quote_hash: self.quote.hash(),
                payout_account: quote.payout_account.clone(),
                source_amount: quote.source_amount,
                fulfill_by: self.fulfill_by(),
            },
        }
    }

    pub fn payer_deposit(&self) -> PayerDeposit {
        self.deposit().payer_deposit()
    }

    pub fn delivery(&self) -> DeliveryOrder {
        self.audited().delivery()
    }

    pub fn case(&self) -> VerificationCase {
        VerificationCase {
            payment_id: self.id.clone(),
            terms: self.terms.clone(),
            escrow: self.plan.clone(),
            verifier_set: None,
            quote_document: self.quote.document().to_owned(),
            payloads: Vec::new(),
        }
    }

    pub fn audited(&self) -> Case<'_> {
        Case {
            payment_id: &self.id,
            terms: &self.terms,
            authorization: &self.authorization,
            plan: &self.plan,
            quote: self.quote.quote(),
            quote_hash: self.quote.hash(),
        }
    }

    /// Brings deposit and reservation on chain, at depth.
    pub async fn secure(&self, world: &World) -> Result<(TransactionPrepared, EscrowSecured)> {
        let chains = world.chains();
        let order = self.deposit();
        let prepared = world.secured(&chains, &order).await?;
        match chains.deposit_state(&order, std::slice::from_ref(&prepared)).await? {
            DepositState::Secured(secured) => Ok((prepared, secured)),
            other => bail!("not secured: {other:?}"),
        }
    }

    /// The delivery on Tron, once it is solidified, while blocks are made.
    pub async fn delivered(&self, world: &World) -> Result<Inclusion> {
        let (order, chain) = (self.delivery(), world.settling());
        let is = |state: &DeliveryState| matches!(state, DeliveryState::Final(_));
        match world.mining(until(|| chain.delivery_state(&order), is)).await?? {
            DeliveryState::Final(inclusion) => Ok(inclusion),
            other => bail!("{other:?}"),
        }
    }

    /// How the escrow on Tron ended, once that is solidified, while blocks are made.
    pub async fn ended(&self, world: &World) -> Result<EscrowState> {
        let chains = world.chains();
        let is = |state: &EscrowState| matches!(state, EscrowState::Released(_) | EscrowState::Refunded(_));
        world.mining(until(|| chains.escrow_state(&self.id, &self.plan), is)).await?
    }
}
