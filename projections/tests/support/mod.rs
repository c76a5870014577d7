//! Histories of payments, and a journal that can be told to fail.

use std::{collections::HashMap, sync::Mutex, time::Duration};

use async_trait::async_trait;
use tokio::sync::watch;

use events::{
    Amount, ChainId, CommitId, Did, Epochs, Event, Failure, Hash32, OwnedAsset, PaymentEvent, PaymentId,
    QuoteRequestEvent, QuoteRequestId, StreamId, Terms,
    event::*,
    failure::BlockchainContext,
    quote_request::{CollectedDocument, QuoteRequestAwarded, QuoteRequestOpened, QuotesCollected},
    time::{Timestamp, from_unix_seconds},
};
use journal::{
    AppendError, Commit, Position, ReadError, Recorded, ShardLeases, ShardLog, ShardWorker, StreamStore, envelope,
};

pub const ACCOUNT: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
pub const TOKEN: &str = "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48";

pub fn at(seconds: u64) -> Timestamp {
    from_unix_seconds(1_800_000_000 + seconds).unwrap()
}

pub fn hash(byte: u8) -> String {
    Hash32([byte; 32]).to_string()
}

pub fn owned(chain: u64) -> OwnedAsset {
    OwnedAsset::new(format!("eip155:{chain}/erc20:{TOKEN}").parse().unwrap(), ACCOUNT).unwrap()
}

pub fn did(name: &str) -> Did {
    format!("did:example:{name}").parse().unwrap()
}

pub fn amount(units: u64) -> Amount {
    units.to_string().parse().unwrap()
}

pub fn terms() -> Terms {
    Terms::new(owned(1), vec![owned(10), owned(137)], amount(100), Some(amount(110)))
}

pub fn submitted(payment_id: &PaymentId) -> PaymentEvent {
    PaymentEvent::Submitted(Box::new(Submitted {
        payment_id: payment_id.clone(),
        request_id: "order-1".to_owned(),
        originator: format!("eip155:{ACCOUNT}"),
        terms: terms(),
        terms_hash: terms().hash(),
        quote_deadline: at(10),
        fulfillment_deadline: at(100),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount(110),
            nonce: Hash32([9; 32]),
            deadline: 1_800_000_050,
            quote_hash: Hash32::ZERO,
            signature: "0x00".to_owned(),
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: ACCOUNT.to_owned(),
            reserver: ACCOUNT.to_owned(),
            releaser: ACCOUNT.to_owned(),
            reserve_deadline: 1_800_000_050,
            fulfillment_deadline: 1_800_000_100,
            refund_after: 1_800_000_200,
        },
        fulfillment_proxies: vec![ACCOUNT.to_owned(), ACCOUNT.to_owned()],
        verifier: VerifierRef { account: ACCOUNT.to_owned(), endpoint: "http://127.0.0.1:1".to_owned() },
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: at(0),
        request: "{}".to_owned(),
    }))
}

/// A submission whose payer deposits by a transaction of its own.
pub fn own_submitted(payment_id: &PaymentId) -> PaymentEvent {
    let PaymentEvent::Submitted(submitted) = submitted(payment_id) else { unreachable!() };
    let deposit =
        PayerTransaction { transaction_hash: hash(0x11), raw: "0x0a".to_owned(), expires_at: 1_800_000_050_000 };
    let spend = TronSpend { amount: amount(110), quote_hash: Hash32::ZERO, approval: None, deposit };
    PaymentEvent::Submitted(Box::new(Submitted { authorization: Authorization::Tron(spend), ..*submitted }))
}

pub fn auction_closed(addressed: &[&str], declines: &[(&str, &str)]) -> PaymentEvent {
    let decline = |(settler, reason): &(&str, &str)| Decline { settler: did(settler), reason: (*reason).to_owned() };
    PaymentEvent::AuctionClosed(AuctionClosed {
        addressed: addressed.iter().map(|name| did(name)).collect(),
        quotes: Vec::new(),
        declines: declines.iter().map(decline).collect(),
        dropped: Vec::new(),
        held_policies: Vec::new(),
        closed_at: at(10),
    })
}

pub fn awarded() -> PaymentEvent {
    PaymentEvent::QuoteAwarded(Box::new(QuoteAwarded {
        quote_id: "quo_1".to_owned(),
        quote_hash: Hash32([3; 32]),
        document: r#"{"type":"GatewayQuote"}"#.to_owned(),
        awarded_at: at(11),
    }))
}

fn prepared(attempt: u32, hash: String) -> TransactionPrepared {
    TransactionPrepared {
        attempt,
        chain_id: ChainId::evm(1),
        sender: ACCOUNT.to_owned(),
        validity: Validity::Nonce(u64::from(attempt)),
        transaction_hash: hash,
        raw: "0x02".to_owned(),
        prepared_at: at(12),
    }
}

pub fn deposit_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::DepositPrepared(prepared(attempt, hash))
}

pub fn deposit_repriced(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::DepositRepriced(prepared(attempt, hash))
}

pub fn deposit_abandoned(attempt: u32) -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::DepositAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at(13) })
}

pub fn inclusion(chain: u64, hash: String, block_number: u64) -> Inclusion {
    Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: hash,
        block_number,
        block_hash: Hash32([8; 32]).to_string(),
        block_time: 1_800_000_000 + block_number,
    }
}

pub fn secured(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowSecured(EscrowSecured { inclusion: inclusion(1, hash, block), amount: amount(105) })
}

pub fn escrow_opened(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowOpened(EscrowOpened { inclusion: inclusion(1, hash, block), amount: amount(110) })
}

pub fn ruled_out() -> PaymentEvent {
    PaymentEvent::DepositRuledOut(DepositRuledOut { ruled_out_at: at(80) })
}

pub fn seen(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(10, hash, block) })
}

pub fn confirmed(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::FulfillmentConfirmed(FulfillmentConfirmed {
        inclusion: inclusion(10, hash, block),
        attestation: "0x01".to_owned(),
        confirmed_at: at(50),
        release_from: Some(at(55)),
    })
}

pub fn unattested(hash: String, block: u64) -> PaymentEvent {
    let inclusion = inclusion(10, hash, block);
    PaymentEvent::AttestationAwaited(AttestationAwaited { inclusion, awaited_at: at(51) })
}

pub fn release_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::ReleasePrepared(prepared(attempt, hash))
}

pub fn released() -> PaymentEvent {
    PaymentEvent::EscrowReleased(EscrowReleased { inclusion: inclusion(1, hash(0x77), 90), claims: Vec::new() })
}

pub fn failed(refund: RefundDue, context: Option<BlockchainContext>) -> PaymentEvent {
    PaymentEvent::Failed(Box::new(Failed {
        failure: Failure {
            code: Failure::SETTLEMENT_FAILED.to_owned(),
            message: "the deposit reverted".to_owned(),
            domain: None,
            retry_classification: Some(events::failure::RetryClassification::RetryWithNewRequestId),
            blockchain_context: context,
        },
        refund,
        failed_at: at(60),
    }))
}

pub fn refund_prepared(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::RefundPrepared(prepared(attempt, hash))
}

pub fn refund_repriced(attempt: u32, hash: String) -> PaymentEvent {
    PaymentEvent::RefundRepriced(prepared(attempt, hash))
}

pub fn refund_abandoned(attempt: u32) -> PaymentEvent {
    let evidence = "nonce consumed".to_owned();
    PaymentEvent::RefundAbandoned(TransactionAbandoned { attempt, evidence, abandoned_at: at(70) })
}

pub fn refunded(hash: String, block: u64) -> PaymentEvent {
    PaymentEvent::EscrowRefunded(EscrowRefunded {
        inclusion: inclusion(1, hash, block),
        amount: amount(105),
        claims: Vec::new(),
    })
}

/// A payment that has gone through its whole life, a commit an event.
pub fn whole_life(payment_id: &PaymentId) -> Vec<Vec<PaymentEvent>> {
    vec![
        vec![submitted(payment_id)],
        vec![auction_closed(&["a", "b"], &[("b", "INSUFFICIENT_LIQUIDITY")]), awarded()],
        vec![deposit_prepared(1, hash(0x11))],
        vec![secured(hash(0x11), 20)],
        vec![seen(hash(0x22), 30)],
        vec![confirmed(hash(0x22), 31)],
        vec![released()],
    ]
}

pub fn opened(id: &QuoteRequestId) -> QuoteRequestEvent {
    let PaymentEvent::Submitted(submitted) = submitted(&PaymentId::derive("payer", "batch")) else { unreachable!() };
    QuoteRequestEvent::Opened(Box::new(QuoteRequestOpened {
        quote_request_id: id.clone(),
        request_id: "batch-1".to_owned(),
        originator: submitted.originator,
        terms: submitted.terms,
        terms_hash: submitted.terms_hash,
        quote_deadline: submitted.quote_deadline,
        quote_deadline_text: "2027-01-15T08:00:10+00:00".to_owned(),
        fulfillment_deadline: submitted.fulfillment_deadline,
        fulfillment_deadline_text: "2027-01-15T09:01:40.0+01:00".to_owned(),
        escrow: submitted.escrow.of_batch(1_800_000_100, 100),
        fulfillment_proxies: submitted.fulfillment_proxies,
        verifier: submitted.verifier,
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        counterparty: None,
        identities: Vec::new(),
        selector: None,
        caller_secret_hash: None,
        opened_at: at(0),
        request: r#"{"request_id":"batch-1"}"#.to_owned(),
    }))
}

/// The collection of quotes that are valid until these seconds, of settlers a, b, c …, with the declines of others.
pub fn collected(valid_until: &[u64], declines: &[(&str, &str)]) -> QuoteRequestEvent {
    let quotes: Vec<_> = (0u8..).zip(valid_until).collect();
    let name = |n: u8| char::from(b'a' + n).to_string();
    let addressed: Vec<_> = quotes.iter().map(|(n, _)| name(*n)).collect();
    let all: Vec<&str> = addressed.iter().map(String::as_str).chain(declines.iter().map(|(who, _)| *who)).collect();
    let PaymentEvent::AuctionClosed(mut auction) = auction_closed(&all, declines) else { unreachable!() };
    auction.quotes = quotes
        .iter()
        .map(|(n, _)| QuoteReceived {
            settler: did(&name(*n)),
            quote_hash: Hash32([*n; 32]),
            source_amount: amount(105),
            fulfill_by: at(90),
        })
        .collect();
    let documents = quotes.into_iter().map(|(n, seconds)| CollectedDocument {
        quote_id: format!("quo_{n}"),
        quote_hash: Hash32([n; 32]),
        valid_until: at(*seconds),
        document: format!(r#"{{"n":{n}}}"#),
    });
    QuoteRequestEvent::Collected(Box::new(QuotesCollected { auction, quotes: documents.collect() }))
}

pub fn batch_awarded(quote_id: &str) -> QuoteRequestEvent {
    QuoteRequestEvent::Awarded(QuoteRequestAwarded {
        quote_id: quote_id.to_owned(),
        payment_id: PaymentId::derive("payer", "award-1"),
        awarded_at: at(20),
    })
}

/// The commits of one stream, version 1 on, stored a second apart.
pub fn history<E: Into<Event>>(stream_id: impl Into<StreamId>, commits: Vec<Vec<E>>) -> Vec<Recorded> {
    let stream_id = stream_id.into();
    let recorded = commits.into_iter().zip(1..).map(|(events, version)| Recorded {
        stream_id: stream_id.clone(),
        position: Position { shard: 0, version, sequence: version, hash: Hash32([version as u8; 32]) },
        commit_id: CommitId::random(),
        prev: Hash32::ZERO,
        correlation: String::new(),
        causation: String::new(),
        stored_at: at(version),
        events: events.into_iter().map(Into::into).collect(),
    });
    recorded.collect()
}

/// A journal of which the test is the only writer, and which can be made to fail.
pub struct Streams {
    epochs: watch::Sender<Epochs>,
    shards: Mutex<Vec<Shard>>,
    streams: Mutex<HashMap<StreamId, Stream>>,
    faults: Mutex<Faults>,
}

#[derive(Default)]
struct Shard {
    log: Vec<Recorded>,
    head: watch::Sender<u64>,
    /// Calls about it that were answered or refused so far.
    reads: u64,
}

#[derive(Clone, Copy)]
struct Stream {
    shard: u16,
    version: u64,
}

#[derive(Default)]
struct Faults {
    unavailable: bool,
    unreadable: Option<(u16, u64)>,
    /// Whether what is unreadable is so because it is not there.
    missing: bool,
    short_heads: u32,
    replayed: u64,
    from_the_start: u64,
}

impl Faults {
    fn readable(&self, commits: &[Recorded]) -> Result<(), ReadError> {
        let Some((shard, sequence)) = self.unreadable else { return Ok(()) };
        let is_bad = |commit: &&Recorded| (commit.position.shard, commit.position.sequence) == (shard, sequence);
        let Some(bad) = commits.iter().find(is_bad) else { return Ok(()) };
        let subject = (!self.missing).then(|| envelope::subject(shard, &bad.stream_id));
        Err(ReadError::Unreadable { shard, sequence, subject, reason: "unknown event Mystery".to_owned() })
    }
}

impl Streams {
    pub fn new(shards: u16) -> Self {
        let epochs = Epochs::one(shards);
        Self {
            shards: Mutex::new((0..epochs.shards()).map(|_| Shard::default()).collect()),
            epochs: watch::Sender::new(epochs),
            streams: Mutex::default(),
            faults: Mutex::default(),
        }
    }

    /// Begins an epoch of `shards` shards.
    pub fn begin_epoch(&self, shards: u16) {
        let epochs = self.epochs.borrow().followed_by(shards);
        self.shards.lock().unwrap().resize_with(usize::from(epochs.shards()), Shard::default);
        self.epochs.send_replace(epochs);
    }

    /// Lets the shards of an epoch take nothing any more.
    pub fn seal_epoch(&self, number: u16) {
        let mut epochs = self.epochs.borrow().all().to_vec();
        epochs[usize::from(number)].sealed = true;
        self.epochs.send_replace(Epochs::new(epochs).unwrap());
    }

    /// Appends a commit and returns where it lies. A stream begins in the newest epoch and stays in its shard.
    pub fn push<E: Into<Event>>(&self, stream_id: impl Into<StreamId>, events: Vec<E>) -> (u16, u64) {
        let stream_id = stream_id.into();
        let mut streams = self.streams.lock().unwrap();
        let shard = self.epochs.borrow().current().shard_of(&stream_id);
        let stream = streams.entry(stream_id.clone()).or_insert(Stream { shard, version: 0 });
        stream.version += 1;
        let Stream { shard, version } = *stream;
        (shard, self.store(shard, version, stream_id, events.into_iter().map(Into::into).collect()))
    }

    /// Leaves a mark in `shard` that the stream begins in a later epoch, and returns where it lies.
    pub fn mark(&self, stream_id: impl Into<StreamId>, shard: u16) -> u64 {
        self.store(shard, 1, stream_id.into(), vec![Mark::Moved(Moved { to_epoch: 1 }).into()])
    }

    fn store(&self, shard: u16, version: u64, stream_id: StreamId, events: Vec<Event>) -> u64 {
        assert!(!self.epochs.borrow().is_sealed(shard));
        let mut shards = self.shards.lock().unwrap();
        let Shard { log, head, .. } = &mut shards[usize::from(shard)];
        let sequence = log.len() as u64 + 1;
        log.push(Recorded {
            stream_id,
            position: Position { shard, version, sequence, hash: Hash32::sha256(sequence.to_be_bytes()) },
            commit_id: CommitId::random(),
            prev: Hash32::ZERO,
            correlation: String::new(),
            causation: String::new(),
            stored_at: at(sequence),
            events,
        });
        head.send_replace(sequence);
        sequence
    }

    /// The shard in which the stream lies.
    pub fn shard_of(&self, stream_id: impl Into<StreamId>) -> Option<u16> {
        self.streams.lock().unwrap().get(&stream_id.into()).map(|stream| stream.shard)
    }

    pub fn commits_of(&self, stream_id: impl Into<StreamId>) -> Vec<Recorded> {
        let stream_id = stream_id.into();
        let Some(shard) = self.shard_of(stream_id.clone()) else { return Vec::new() };
        let shards = self.shards.lock().unwrap();
        let log = shards[usize::from(shard)].log.iter();
        log.filter(|recorded| recorded.stream_id == stream_id).cloned().collect()
    }

    pub fn streams(&self) -> Vec<StreamId> {
        self.streams.lock().unwrap().keys().cloned().collect()
    }

    pub fn payments(&self) -> Vec<PaymentId> {
        self.streams().iter().filter_map(StreamId::payment).cloned().collect()
    }

    pub fn head_of(&self, shard: u16) -> u64 {
        *self.shards.lock().unwrap()[usize::from(shard)].head.borrow()
    }

    /// Calls about the shard that were answered or refused so far.
    pub fn reads_of(&self, shard: u16) -> u64 {
        self.shards.lock().unwrap()[usize::from(shard)].reads
    }

    /// Replays of any shard from its first commit on, so far.
    pub fn replays_from_the_start(&self) -> u64 {
        self.faults.lock().unwrap().from_the_start
    }

    pub fn set_unavailable(&self, unavailable: bool) {
        self.faults.lock().unwrap().unavailable = unavailable;
    }

    pub fn set_unreadable(&self, shard: u16, sequence: u64) {
        self.faults.lock().unwrap().unreadable = Some((shard, sequence));
    }

    /// Makes the message readable that was not.
    pub fn set_readable(&self) {
        self.faults.lock().unwrap().unreadable = None;
    }

    /// Makes a message vanish.
    pub fn set_missing(&self, shard: u16, sequence: u64) {
        let mut faults = self.faults.lock().unwrap();
        (faults.unreadable, faults.missing) = (Some((shard, sequence)), true);
    }

    /// Lets so many answers about a head say that the stream is empty.
    pub fn set_short_heads(&self, count: u32) {
        self.faults.lock().unwrap().short_heads = count;
    }

    /// Answers of that kind still to be given.
    pub fn short_heads(&self) -> u32 {
        self.faults.lock().unwrap().short_heads
    }

    /// Calls that were answered or refused so far.
    pub fn reads(&self) -> u64 {
        self.shards.lock().unwrap().iter().map(|shard| shard.reads).sum()
    }

    /// Commits that were given out by replay so far.
    pub fn replayed(&self) -> u64 {
        self.faults.lock().unwrap().replayed
    }

    fn read(&self, shard: u16) -> Result<(), ReadError> {
        self.shards.lock().unwrap()[usize::from(shard)].reads += 1;
        self.available()
    }

    fn available(&self) -> Result<(), ReadError> {
        let unavailable = self.faults.lock().unwrap().unavailable;
        if unavailable { Err(ReadError::Unavailable("switched off".to_owned())) } else { Ok(()) }
    }
}

#[async_trait]
impl StreamStore for Streams {
    async fn append(&self, _: &Commit) -> Result<Recorded, AppendError> {
        Err(AppendError::Unacceptable("the test writes with push".to_owned()))
    }

    async fn load(&self, stream_id: &StreamId) -> Result<Vec<Recorded>, ReadError> {
        self.available()?;
        let commits = self.commits_of(stream_id.clone());
        self.faults.lock().unwrap().readable(&commits)?;
        Ok(commits)
    }
}

#[async_trait]
impl ShardLog for Streams {
    fn epochs(&self) -> Epochs {
        self.epochs.borrow().clone()
    }

    async fn grown(&self, shards: u16) {
        self.epochs.subscribe().wait_for(|epochs| epochs.shards() > shards).await.unwrap();
    }

    async fn replay(&self, shard: u16, from: u64, limit: usize) -> Result<Vec<Recorded>, ReadError> {
        self.faults.lock().unwrap().from_the_start += u64::from(from == 1);
        self.read(shard)?;
        let shards = self.shards.lock().unwrap();
        // Sequences are 1, 2, 3 and so on.
        let stream = shards[usize::from(shard)].log.iter().skip(from.saturating_sub(1) as usize);
        let page: Vec<Recorded> = stream.take(limit).cloned().collect();
        let mut faults = self.faults.lock().unwrap();
        faults.readable(&page)?;
        faults.replayed += page.len() as u64;
        Ok(page)
    }

    async fn head(&self, shard: u16) -> Result<u64, ReadError> {
        self.read(shard)?;
        let mut faults = self.faults.lock().unwrap();
        if faults.short_heads > 0 {
            faults.short_heads -= 1;
            return Ok(0);
        }
        drop(faults);
        Ok(self.head_of(shard))
    }

    async fn wait_beyond(&self, shard: u16, sequence: u64) -> Result<(), ReadError> {
        self.read(shard)?;
        let mut head = self.shards.lock().unwrap()[usize::from(shard)].head.subscribe();
        let beyond = head.wait_for(|head| *head > sequence);
        let _ = tokio::time::timeout(Duration::from_millis(50), beyond).await;
        Ok(())
    }
}

#[async_trait]
impl ShardLeases for Streams {
    async fn work(&self, _: u16, _: &str) -> Box<dyn ShardWorker> {
        unreachable!("projections do no work")
    }
}
