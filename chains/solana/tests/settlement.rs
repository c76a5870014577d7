//! Settler, verifier and auditor against a real Solana runtime with the real program, and between it and EVM chains.

mod audit;
mod delivery;
mod families;
mod reassignment;
mod reassignment_audit;
mod remainder;
mod verifier;
mod verifier_sets;

use anyhow::{Result, bail};
use ed25519_dalek::{Signer, SigningKey};

use chains::{
    auditor::{Case, Discrepancy, Kind},
    settler::DeliveryChain,
    verifier::Verifier,
};
use chains_solana::{
    authorization::{Choice, ClusterId, EscrowSettings, SignedMessage, SpendRequest, authorize, prepare},
    escrows::Escrows,
    keys::account,
    program::key,
    settler::SettlerChain,
};
use events::{
    Amount, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{Authorization, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
    quote::{Quote, SignedQuote, auction_of},
    time::{from_unix_seconds, unix_seconds},
};
use gateway_program::host;
use sagas::ports::{
    Chains, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState, Reservation, VerificationCase,
};

use crate::support::{CAP, PRICE, REFUND_DELAY, World, settle, until, wallet};

const DELIVERED: u64 = 1_500_000;

pub(super) fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

pub(super) fn native(world: &World) -> OwnedAsset {
    let asset = format!("{}/slip44:501", world.surfnet.chain_id());
    OwnedAsset::new(asset.parse().unwrap(), &account(&world.recipient)).unwrap()
}

fn tokens(world: &World, mint: &str, recipient: &str) -> OwnedAsset {
    let asset = format!("{}/token:{mint}", world.surfnet.chain_id());
    OwnedAsset::new(asset.parse().unwrap(), recipient).unwrap()
}

/// A payment with the quote that won it.
#[derive(Clone)]
pub(super) struct Payment {
    pub(super) id: PaymentId,
    pub(super) terms: Terms,
    pub(super) authorization: Authorization,
    pub(super) plan: EscrowPlan,
    pub(super) quote: SignedQuote,
}

impl Payment {
    /// A payment from Solana to `destination`, signed by the payer, with the quote of a settler who delivers from
    /// `delivery_account` through `proxy`.
    pub(super) async fn from_solana(
        world: &World,
        destination: OwnedAsset,
        delivery_account: &str,
        proxy: &str,
    ) -> Result<Self> {
        let base = world.order(600).await?;
        let delivered = amount(DELIVERED);
        let terms = Terms::new(base.terms.source.clone(), vec![destination], delivered, Some(amount(CAP)));
        let spend = SpendRequest {
            payment_id: base.payment_id,
            terms: terms.clone(),
            quote_deadline: from_unix_seconds(base.escrow.fulfillment_deadline - 300).unwrap(),
            fulfillment_deadline: from_unix_seconds(base.escrow.fulfillment_deadline).unwrap(),
            cluster_id: ClusterId::parse(world.surfnet.genesis_hash()).unwrap(),
            escrow: EscrowSettings {
                program: world.program.parse()?,
                reserver: wallet(&world.reserver),
                releaser: world.releaser_account.clone(),
                refund_delay_seconds: REFUND_DELAY,
            },
            quote_hash: Hash32::ZERO,
        };
        let prepared = prepare(&spend, &Choice::default())?;
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: None,
            signature: format!("0x{}", hex::encode(world.payer.sign(&prepared.digest.0).to_bytes())),
            payload: None,
        };
        let (authorization, plan) = authorize(&spend, &signed)?;
        let payout = account(&world.settler);
        Self::quoted(spend.payment_id, terms, authorization, plan, &payout, delivery_account, proxy)
    }

    fn quoted(
        id: PaymentId,
        terms: Terms,
        authorization: Authorization,
        plan: EscrowPlan,
        payout_account: &str,
        delivery_account: &str,
        proxy: &str,
    ) -> Result<Self> {
        let signing = SigningKey::from_bytes(&[7; 32]);
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(&id),
            terms_hash: terms.hash(),
            settler: Did::from_ed25519(&signing.verifying_key()),
            source_chain: plan.chain_id.clone(),
            source_amount: amount(PRICE),
            payout_account: payout_account.parse()?,
            escrow_contract: plan.contract.clone(),
            destination: terms.destination()[0].clone(),
            fulfillment_amount: terms.fulfillment_amount,
            delivery_account: delivery_account.parse()?,
            fulfillment_proxy: proxy.parse()?,
            fulfill_by: from_unix_seconds(plan.fulfillment_deadline - 10).unwrap(),
            valid_until: from_unix_seconds(plan.fulfillment_deadline).unwrap(),
        };
        let quote = quote.sign(&signing, from_unix_seconds(plan.fulfillment_deadline - 600).unwrap())?;
        Ok(Self { id, terms, authorization, plan, quote })
    }

    /// The same payment with the quote of a settler who is paid at `payout_account`, asks `asked` and delivers until `fulfill_by`.
    fn requoted(&self, payout_account: &str, asked: u64, fulfill_by: u64) -> Result<Self> {
        let quote = Quote {
            payout_account: payout_account.parse()?,
            delivery_account: payout_account.parse()?,
            source_amount: amount(asked),
            fulfill_by: from_unix_seconds(fulfill_by).unwrap(),
            ..self.quote.quote().clone()
        };
        let signed_at = from_unix_seconds(self.plan.fulfillment_deadline - 600).unwrap();
        let quote = quote.sign(&SigningKey::from_bytes(&[7; 32]), signed_at)?;
        Ok(Self { quote, ..self.clone() })
    }

    pub(super) fn fulfill_by(&self) -> u64 {
        unix_seconds(self.quote.quote().fulfill_by)
    }

    pub(super) fn deposit(&self) -> DepositOrder {
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

    fn delivery(&self) -> DeliveryOrder {
        self.audited().delivery()
    }

    fn case(&self) -> VerificationCase {
        VerificationCase {
            payment_id: self.id.clone(),
            terms: self.terms.clone(),
            escrow: self.plan.clone(),
            verifier_set: None,
            quote_document: self.quote.document().to_owned(),
            payloads: Vec::new(),
        }
    }

    pub(super) fn audited(&self) -> Case<'_> {
        Case {
            payment_id: &self.id,
            terms: &self.terms,
            authorization: &self.authorization,
            plan: &self.plan,
            quote: self.quote.quote(),
            quote_hash: self.quote.hash(),
        }
    }
}

async fn secure(world: &World, payment: &Payment) -> Result<(TransactionPrepared, EscrowSecured)> {
    let chain = world.chain();
    let prepared = chain.prepare_deposit(&payment.deposit(), 1).await?;
    match settle(&chain, &payment.deposit(), std::slice::from_ref(&prepared)).await? {
        DepositState::Secured(secured) => Ok((prepared, secured)),
        other => bail!("not secured: {other:?}"),
    }
}

async fn delivered(chain: &SettlerChain, payment: &Payment) -> Result<Inclusion> {
    let order = payment.delivery();
    match until(|| chain.delivery_state(&order), |state| matches!(state, DeliveryState::Final(_))).await? {
        DeliveryState::Final(inclusion) => Ok(inclusion),
        other => bail!("{other:?}"),
    }
}

pub(super) async fn ended(world: &World, payment: &Payment) -> Result<EscrowState> {
    let node = world.node();
    let escrows = Escrows::of(&node);
    until(
        || escrows.state(&payment.id, &payment.plan),
        |state| matches!(state, EscrowState::Released(_) | EscrowState::Refunded(_)),
    )
    .await
}

fn verifier(world: &World, releaser: &SigningKey) -> Verifier {
    Verifier::default().with_chains([world.node()], Some(releaser.clone().into()))
}

fn vault(payment: &Payment) -> Result<[u8; 32]> {
    Ok(host::vault_address(&key(&payment.plan.contract)?, &payment.id.on_chain().0).key)
}

pub(super) fn kinds(discrepancies: &[Discrepancy]) -> Vec<Kind> {
    discrepancies.iter().map(|discrepancy| discrepancy.kind).collect()
}
