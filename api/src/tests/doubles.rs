//! The parts of a gateway that can be made to misbehave.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use ruint::aliases::U256;
use serde_json::{Map, Value, json};

use app::{
    ChainHeads, Readiness,
    authorization::{
        AuthorizationRequest, AuthorizeError, Authorized, Authorizer, Prepared, PreparedDraw, SignedMessage,
        UnsignedMessage,
    },
    funds::{Approval, Coin, Funds, Holding, Spend},
    views::payments::{Payments, from_journal},
};
use events::{
    Amount, ChainId, Epochs, Hash32, PaymentId, StreamId,
    event::{Authorization, EscrowPlan, Permit2},
    time::{Timestamp, unix_seconds},
};
use journal::{AppendError, Commit, ReadError, Recorded, ShardLog, StreamStore, memory::MemoryJournal};
use projections::{PaymentView, Unavailable};
use sagas::ports::{Clock, Transient};

use super::{FORGED, PANICKING, UNAPPROVED, UNJUDGED, at};

/// Takes every signature but the few that are named above.
pub struct LenientAuthorizer;

#[async_trait]
impl Authorizer for LenientAuthorizer {
    async fn authorize(&self, request: &AuthorizationRequest<'_>) -> Result<Authorized, AuthorizeError> {
        match request.signed_messages[0].signature.as_str() {
            FORGED => return Err(AuthorizeError::Refused("signature is not that of the payer".to_owned())),
            UNJUDGED => return Err(Transient::unreachable("node secret.internal is down").into()),
            PANICKING => panic!("a defect, with secrets"),
            _ => {}
        }
        let fulfillment_deadline = unix_seconds(request.fulfillment_deadline);
        let authorization = Authorization::EvmPermit2Escrow(Permit2 {
            amount: request.terms.max_source_amount.unwrap_or(request.terms.fulfillment_amount),
            nonce: Hash32::ZERO,
            deadline: fulfillment_deadline,
            quote_hash: request.quote_hash,
            signature: request.signed_messages[0].signature.clone(),
            allowance: None,
        });
        let escrow = EscrowPlan {
            chain_id: request.terms.source.asset().chain().clone(),
            contract: request.escrow_contract.clone(),
            reserver: request.reserver.clone(),
            releaser: request.releaser.clone(),
            reserve_deadline: fulfillment_deadline,
            fulfillment_deadline,
            refund_after: fulfillment_deadline + request.refund_delay_seconds,
        };
        Ok(Authorized { authorization, escrow })
    }

    async fn confirm(&self, _: &AuthorizationRequest<'_>, authorized: &Authorized) -> Result<(), AuthorizeError> {
        match &authorized.authorization {
            Authorization::EvmPermit2Escrow(permit) if permit.signature == UNAPPROVED => {
                Err(AuthorizeError::Refused("signer is not approved".to_owned()))
            }
            _ => Ok(()),
        }
    }

    async fn prepare(
        &self,
        request: &AuthorizationRequest<'_>,
        _: Option<&Map<String, Value>>,
    ) -> Result<Prepared, AuthorizeError> {
        let message = request.terms_hash.to_string();
        let signed = AuthorizationRequest {
            signed_messages: &[SignedMessage {
                message: message.clone(),
                message_prehash: None,
                signature: String::new(),
                payload: None,
            }],
            ..*request
        };
        let Authorized { authorization, escrow } = self.authorize(&signed).await?;
        Ok(Prepared {
            messages: vec![UnsignedMessage { message, message_prehash: "{}".to_owned(), payload: Map::new() }],
            amount: authorization.permitted(),
            draw: PreparedDraw::Permit2(Hash32::ZERO),
            escrow,
        })
    }
}

/// A read model that is the journal itself, and that can be made to know nothing.
pub struct JournalPayments {
    pub journal: MemoryJournal,
    pub blind: AtomicBool,
    /// Batches that are said to collect quotes.
    pub collecting: AtomicUsize,
}

impl JournalPayments {
    pub fn set_blind(&self, blind: bool) {
        self.blind.store(blind, Ordering::SeqCst);
    }
}

#[async_trait]
impl Payments for JournalPayments {
    async fn view(&self, payment_id: &PaymentId) -> Result<Option<PaymentView>, Unavailable> {
        if self.blind.load(Ordering::SeqCst) {
            return Err(Unavailable::CatchingUp { shard: 0 });
        }
        Ok(from_journal(&self.journal, payment_id).await.unwrap())
    }

    async fn changed(&self, payment_id: &PaymentId, seen_version: u64, wait_max: Duration) -> Option<PaymentView> {
        let shard = payment_id.shard(self.journal.shards());
        let newer = async {
            loop {
                let head = self.journal.head(shard).await.unwrap();
                match from_journal(&self.journal, payment_id).await.unwrap() {
                    Some(view) if view.version > seen_version => return view,
                    _ => self.journal.wait_beyond(shard, head).await.unwrap(),
                }
            }
        };
        tokio::time::timeout(wait_max, newer).await.ok()
    }
}

pub struct SetClock(pub Mutex<Timestamp>);

impl SetClock {
    pub fn set(&self, text: &str) {
        *self.0.lock().unwrap() = at(text);
    }
}

#[async_trait]
impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Every chain's newest block is 3.
pub struct SetHeads;

impl ChainHeads for SetHeads {
    fn head(&self, _: &ChainId) -> Option<u64> {
        Some(3)
    }
}

pub struct SetReadiness(pub Mutex<Result<(), String>>, pub Mutex<Vec<String>>);

#[async_trait]
impl Readiness for SetReadiness {
    async fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap().clone()
    }

    fn alarms(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }
}

/// What every payer holds, lets be drawn, and has used up.
pub struct SetFunds {
    pub holding: Mutex<Result<Holding, Transient>>,
    pub used: AtomicBool,
    /// How often a node was asked.
    pub asked: AtomicUsize,
}

impl SetFunds {
    pub fn set(&self, balance: u64, allowance: u64) {
        let (balance, allowance) = (U256::from(balance), Some(U256::from(allowance)));
        *self.holding.lock().unwrap() =
            Ok(Holding { balance, allowance, spender: "permit2".to_owned(), mandate: None, coin: None });
    }

    /// Besides, so much of the coin that the source is the wrapped form of.
    pub fn set_coin(&self, asset: &str, balance: u64) {
        let coin = Coin { asset: asset.parse().unwrap(), balance: U256::from(balance) };
        self.holding.lock().unwrap().as_mut().unwrap().coin = Some(coin);
    }

    pub fn fail(&self, reason: &str) {
        *self.holding.lock().unwrap() = Err(Transient::unreachable(reason));
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Default for SetFunds {
    fn default() -> Self {
        let endless = Holding {
            balance: U256::MAX,
            allowance: Some(U256::MAX),
            spender: "permit2".to_owned(),
            mandate: None,
            coin: None,
        };
        Self { holding: Mutex::new(Ok(endless)), used: AtomicBool::new(false), asked: AtomicUsize::new(0) }
    }
}

#[async_trait]
impl Funds for SetFunds {
    async fn holding(&self, _: &Spend<'_>) -> Result<Holding, Transient> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.holding.lock().unwrap().clone()
    }

    async fn is_used(&self, _: &Spend<'_>) -> Result<bool, Transient> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.used.load(Ordering::SeqCst))
    }

    async fn approval(&self, spend: &Spend<'_>) -> Result<Option<Approval>, Transient> {
        Ok(Some(Approval {
            asset_identifier: spend.source.asset().clone(),
            spender: "permit2".to_owned(),
            amount: spend.amount,
            call: json!({"to": "token"}),
        }))
    }

    fn wrapping(&self, _: &Spend<'_>, amount: Amount) -> Result<Vec<Value>, Transient> {
        Ok(vec![json!({"to": "token", "value": amount})])
    }
}

/// A journal that can be away, and counts the streams that were asked for.
pub struct AwayJournal {
    journal: MemoryJournal,
    away: AtomicBool,
    loads: AtomicUsize,
}

impl AwayJournal {
    pub fn of(journal: &MemoryJournal) -> Arc<Self> {
        Arc::new(Self { journal: journal.clone(), away: AtomicBool::new(false), loads: AtomicUsize::new(0) })
    }

    pub fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    pub fn loads(&self) -> usize {
        self.loads.load(Ordering::SeqCst)
    }

    /// The journal, while it is there.
    fn there(&self) -> Result<&MemoryJournal, ReadError> {
        match self.away.load(Ordering::SeqCst) {
            true => Err(ReadError::Unavailable("away".to_owned())),
            false => Ok(&self.journal),
        }
    }
}

#[async_trait]
impl StreamStore for AwayJournal {
    async fn append(&self, commit: &Commit) -> Result<Recorded, AppendError> {
        self.there().map_err(|away| AppendError::Unavailable(away.to_string()))?.append(commit).await
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.loads.fetch_add(1, Ordering::SeqCst);
        self.there()?.load(stream_id).await
    }
}

#[async_trait]
impl ShardLog for AwayJournal {
    fn epochs(&self) -> Epochs {
        self.journal.epochs()
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.there()?.replay(shard, from, limit).await
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.there()?.head(shard).await
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.there()?.wait_beyond(shard, sequence).await
    }
}
