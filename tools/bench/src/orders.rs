//! Payments as payers submit them, signed before any clock runs.

use std::{ops::Range, time::Duration};

use alloy::signers::{SignerSync, local::PrivateKeySigner};
use anyhow::{Context, Result};
use bytes::Bytes;
use chrono::{SubsecRound, Utc};
use ed25519_dalek::SigningKey;
use serde_json::json;

use chains_evm::authorization::{self, Choice, EscrowSettings, Scheme, SignedMessage, SpendRequest};
use devnet::{
    keys::Role,
    network::{DESTINATION_ID, SOURCE_ID},
};
use events::{
    ChainId, CommitId, Did, Hash32, OwnedAsset, PaymentId, Terms,
    event::{PaymentEvent, Submitted, VerifierRef},
    quote::{Quote, auction_of},
    time::{Timestamp, from_unix_seconds},
};
use journal::{Commit, Position};

use crate::environment::{ESCROW, PERMIT2, PROXY, REFUND_DELAY_SECONDS, TOKEN, VERIFIER};

/// What is delivered, smallest unit.
const AMOUNT: &str = "25000000";
/// The most it may cost, smallest unit.
const CAP: &str = "25500000";
/// What the settler asks for, smallest unit.
const PRICE: &str = "25025000";

/// A submission, ready to be sent.
#[derive(Debug, Clone)]
pub struct Order {
    /// The body of `POST /v1/payments`.
    pub body: Bytes,
    /// The id that the payment will have.
    pub payment_id: PaymentId,
    /// What the payer is asked to authorize.
    pub spend: SpendRequest,
    /// What it signed.
    pub signed: SignedMessage,
    request_id: String,
}

/// A payer with the development network's key.
pub struct Payer {
    signer: PrivateKeySigner,
    source: OwnedAsset,
    destination: OwnedAsset,
}

impl Payer {
    /// The payer.
    ///
    /// # Errors
    /// Never, for the assets of the development network.
    pub fn new() -> Result<Self> {
        let owned = |id: u64, role: Role| -> Result<OwnedAsset> {
            Ok(OwnedAsset::new(format!("eip155:{id}/erc20:{TOKEN}").parse()?, &role.account())?)
        };
        Ok(Self {
            signer: Role::Payer.signer(),
            source: owned(SOURCE_ID, Role::Payer)?,
            destination: owned(DESTINATION_ID, Role::Recipient)?,
        })
    }

    /// Signs the orders `{name}-{number}`, by all processors together. Quotes are collected for `window`, and
    /// settlement has twenty minutes more.
    ///
    /// # Errors
    /// When an order cannot be signed.
    pub fn sign(&self, name: &str, numbers: Range<usize>, window: Duration) -> Result<Vec<Order>> {
        let quote_deadline = (Utc::now() + window).trunc_subsecs(0);
        let fulfillment_deadline = quote_deadline + Duration::from_secs(1_200);
        in_parallel(numbers, |number| self.sign_one(&format!("{name}-{number}"), quote_deadline, fulfillment_deadline))
    }

    /// Signs the order `request_id`.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn sign_one(
        &self,
        request_id: &str,
        quote_deadline: Timestamp,
        fulfillment_deadline: Timestamp,
    ) -> Result<Order> {
        let terms =
            Terms::new(self.source.clone(), vec![self.destination.clone()], AMOUNT.parse()?, Some(CAP.parse()?));
        let payment_id = PaymentId::derive(&format!("eip155:{}", self.source.account()), request_id);
        let spend = SpendRequest {
            scheme: Scheme::EvmPermit2Escrow,
            payment_id: payment_id.clone(),
            terms,
            quote_deadline,
            fulfillment_deadline,
            escrow: EscrowSettings {
                contract: ESCROW.parse()?,
                reserver: Role::Reserver.account().parse()?,
                releaser: Role::Releaser.account().parse()?,
                permit2: PERMIT2.parse()?,
                refund_delay_seconds: REFUND_DELAY_SECONDS,
            },
            quote_hash: Hash32::ZERO,
            token: None,
        };
        let prepared = authorization::prepare(&spend, &Choice::default())?;
        let signed = SignedMessage {
            message: prepared.digest.to_string(),
            message_prehash: Some(prepared.typed_data.to_string()),
            signature: self.signer.sign_hash_sync(&prepared.digest.0.into())?.to_string(),
            payload: None,
        };
        let owned =
            |owned: &OwnedAsset| json!({"asset_identifier": owned.asset(), "account": owned.account().to_string()});
        let body = json!({
            "version": "1.0",
            "request_id": request_id,
            "source": owned(&self.source),
            "destination": [owned(&self.destination)],
            "fulfillment_amount": AMOUNT,
            "max_source_amount": CAP,
            "quote_deadline": quote_deadline,
            "fulfillment_deadline": fulfillment_deadline,
            "sender_auth": {
                "message_scheme": "EVM_PERMIT2_ESCROW",
                "signed_messages": [{
                    "message": signed.message,
                    "message_prehash": signed.message_prehash,
                    "signature": signed.signature,
                }],
            },
        });
        Ok(Order { body: body.to_string().into(), payment_id, spend, signed, request_id: request_id.to_owned() })
    }
}

impl Order {
    /// What a gateway records of this submission.
    ///
    /// # Errors
    /// When the signature does not hold, which it does.
    pub fn submitted(&self) -> Result<Submitted> {
        let (authorization, escrow) = authorization::authorize(&self.spend, &self.signed)?;
        Ok(Submitted {
            payment_id: self.payment_id.clone(),
            request_id: self.request_id.clone(),
            originator: format!("eip155:{}", self.spend.terms.source.account()),
            terms: self.spend.terms.clone(),
            terms_hash: self.spend.terms.hash(),
            quote_deadline: self.spend.quote_deadline,
            fulfillment_deadline: self.spend.fulfillment_deadline,
            authorization,
            escrow,
            fulfillment_proxies: vec![PROXY.parse()?],
            verifier: VerifierRef::single(Role::Releaser.account().parse()?, VERIFIER.to_owned()),
            whitelist: Vec::new(),
            blacklist: Vec::new(),
            required_policies: Vec::new(),
            collected_quote: None,
            selector: None,
            counterparty: None,
            identities: Vec::new(),
            submitted_at: Utc::now(),
            request: String::from_utf8_lossy(&self.body).into_owned(),
        })
    }

    /// The commit by which a gateway accepts it.
    ///
    /// # Errors
    /// As [`Order::submitted`].
    pub fn commit(&self) -> Result<Commit> {
        // As long as the ids of requests are.
        let correlation = CommitId::random();
        Ok(Commit {
            stream_id: self.payment_id.clone().into(),
            expected: Position::START,
            commit_id: CommitId::random(),
            events: vec![PaymentEvent::Submitted(Box::new(self.submitted()?)).into()],
            correlation: correlation.to_string(),
            causation: correlation.to_string(),
        })
    }

    /// A settler's signed quote for it, as no one has read it before: what was verified once is remembered by its
    /// bytes, and signing verifies, so these have a blank more at their end.
    ///
    /// # Errors
    /// When it cannot be signed.
    pub fn quote(&self, settler: &SigningKey) -> Result<String> {
        let deadline = events::time::unix_seconds(self.spend.fulfillment_deadline);
        let quote = Quote {
            kind: Quote::kind(),
            auction_id: auction_of(&self.payment_id),
            terms_hash: self.spend.terms.hash(),
            settler: Did::from_ed25519(&settler.verifying_key()),
            source_chain: ChainId::evm(SOURCE_ID),
            source_amount: PRICE.parse()?,
            payout_account: Role::Settler(1).account().parse()?,
            escrow_contract: ESCROW.parse()?,
            destination: self.spend.terms.destination()[0].clone(),
            fulfillment_amount: AMOUNT.parse()?,
            delivery_account: Role::Settler(1).account().parse()?,
            fulfillment_proxy: PROXY.parse()?,
            fulfill_by: from_unix_seconds(deadline).context("a time")?,
            valid_until: from_unix_seconds(deadline).context("a time")?,
        };
        let signed = quote.sign(settler, Utc::now().trunc_subsecs(0))?;
        Ok(format!("{} ", signed.document()))
    }
}

/// What `make` makes of each number, in their order, by all processors together.
///
/// # Errors
/// One that `make` met.
pub fn in_parallel<T: Send>(numbers: Range<usize>, make: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = numbers.len().div_ceil(threads).max(1);
    let make = &make;
    // The runtime's other tasks go on meanwhile: leases have to be renewed.
    tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            let starts = numbers.clone().step_by(share);
            let parts = starts.map(|start| (start, (start + share).min(numbers.end)));
            let parts: Vec<_> = parts
                .map(|(start, end)| scope.spawn(move || (start..end).map(make).collect::<Result<Vec<_>>>()))
                .collect();
            let mut all = Vec::with_capacity(numbers.len());
            for part in parts {
                all.extend(part.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??);
            }
            Ok(all)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_such_as_a_gateway_accepts_and_a_settler_may_quote_for() {
        let orders = Payer::new().unwrap().sign("t", 3..8, Duration::from_secs(60)).unwrap();
        assert_eq!(
            orders.iter().map(|order| order.request_id.as_str()).collect::<Vec<_>>(),
            ["t-3", "t-4", "t-5", "t-6", "t-7"]
        );
        let settler = settler::dev::key(1).unwrap();
        let document = orders[0].quote(&settler).unwrap();
        let signed = events::quote::SignedQuote::parse(&document).unwrap();
        let submitted = orders[0].submitted().unwrap();
        let request = sagas::auction::request_for_quotes(&submitted);
        let permitted = Some(submitted.authorization.permitted());
        sagas::auction::check_content(&request, permitted, &signed.quote().settler, signed.quote()).unwrap();
    }

    #[test]
    fn work_is_shared_out_without_loss() {
        for count in [0, 1, 2, 7, 100] {
            assert_eq!(in_parallel(5..5 + count, Ok).unwrap(), (5..5 + count).collect::<Vec<_>>());
        }
        assert!(in_parallel(0..9, |n| if n == 8 { anyhow::bail!("no") } else { Ok(n) }).is_err());
    }
}
