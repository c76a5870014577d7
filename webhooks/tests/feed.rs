//! The feed: which commits become messages for whom.

use std::sync::Arc;

use bytes::Bytes;
use chrono::Utc;
use devkit::NatsServer;

use events::{
    Account, Amount, ChainId, CommitId, Event, Failure, Hash32, OwnedAsset, PaymentEvent, PaymentId, Terms,
    event::{
        Authorization, EscrowPlan, EscrowReassigned, Failed, FulfillmentSeen, Inclusion, Permit2, RefundDue,
        ReservationLapsed, Submitted, VerifierRef,
    },
};
use journal::{Commit, Position, StreamStore, memory::MemoryJournal};
use webhooks::{
    records::{
        self, Records,
        nats::{DELIVERIES, NatsStreams},
    },
    webhook::{EventType, Registration, Scope, Webhook, WebhookOwner},
};

use crate::support::{Gateway, STREAM_BYTES, SetEndpoints, client, due, eventually, url};

const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
const SHOP: &str = "did:web:shop.example";

fn owned(chain: u64) -> OwnedAsset {
    let asset = format!("eip155:{chain}/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48");
    OwnedAsset::new(asset.parse().unwrap(), PAYER).unwrap()
}

fn account(text: &str) -> Account {
    text.parse().unwrap()
}

/// A payment that the payer pays, asked for in the name of `originator`.
fn submitted(originator: &str, request_id: &str) -> Submitted {
    let amount = |units: &str| units.parse::<Amount>().unwrap();
    let terms = Terms::new(owned(1), vec![owned(10)], amount("100"), Some(amount("110")));
    Submitted {
        payment_id: PaymentId::derive(originator, request_id),
        request_id: request_id.to_owned(),
        originator: originator.to_owned(),
        terms_hash: terms.hash(),
        terms,
        quote_deadline: Utc::now(),
        fulfillment_deadline: Utc::now(),
        authorization: Authorization::EvmPermit2Escrow(Permit2 {
            amount: amount("110"),
            nonce: Hash32([9; 32]),
            deadline: 1_800_000_050,
            quote_hash: Hash32::ZERO,
            signature: "0x00".to_owned(),
            allowance: None,
        }),
        escrow: EscrowPlan {
            chain_id: ChainId::evm(1),
            contract: account(OTHER),
            reserver: account(OTHER),
            releaser: account(OTHER),
            reserve_deadline: 1_800_000_060,
            fulfillment_deadline: 1_800_000_100,
            refund_after: 1_800_000_200,
        },
        fulfillment_proxies: vec![account(OTHER)],
        verifier: VerifierRef::single(account(OTHER), "https://verifier.example".to_owned()),
        whitelist: Vec::new(),
        blacklist: Vec::new(),
        required_policies: Vec::new(),
        collected_quote: None,
        selector: None,
        counterparty: None,
        identities: Vec::new(),
        submitted_at: Utc::now(),
        request: "{}".to_owned(),
    }
}

fn failed() -> PaymentEvent {
    let failure = Failure {
        code: "NO_QUOTES_RECEIVED".to_owned(),
        message: "nobody".to_owned(),
        domain: None,
        retry_classification: None,
        blockchain_context: None,
    };
    PaymentEvent::Failed(Box::new(Failed { failure, refund: RefundDue::Nothing, failed_at: Utc::now() }))
}

async fn append(log: &MemoryJournal, payment_id: &PaymentId, expected: Position, event: PaymentEvent) -> Position {
    let commit = Commit {
        stream_id: payment_id.into(),
        expected,
        commit_id: CommitId::random(),
        events: vec![Event::from(event)],
        correlation: "test".to_owned(),
        causation: "test".to_owned(),
    };
    log.append(&commit).await.unwrap().position
}

/// A payment that fails in its second commit.
async fn fails(log: &MemoryJournal, originator: &str, request_id: &str) -> PaymentId {
    let submitted = submitted(originator, request_id);
    let payment_id = submitted.payment_id.clone();
    let first = append(log, &payment_id, Position::START, PaymentEvent::Submitted(Box::new(submitted))).await;
    append(log, &payment_id, first, failed()).await;
    payment_id
}

async fn register(gateway: &Gateway, originator: &str, scope: Scope, events: &[EventType]) -> Arc<Webhook> {
    let owner = WebhookOwner { originator: originator.to_owned(), chain: None };
    let registration = Registration { owner, url: url("shop"), scope, events: events.to_vec() };
    gateway.registry.register(registration, true, Utc::now()).await.unwrap()
}

/// What was put into the stream of deliveries by nobody who could.
async fn break_queue(server: &NatsServer, webhook: &Webhook, payment_id: &PaymentId) {
    let streams = NatsStreams::open(client(server).await, 1, STREAM_BYTES).await.unwrap();
    let partition = webhook.id.partition(crate::support::PARTITIONS);
    let subject = format!("gw.delivery.{partition:02}.{}.due.{payment_id}", webhook.id);
    streams.deliveries.append(&subject, None, Bytes::from_static(b"{}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_whose_messages_cannot_be_read_holds_up_no_other() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, &[60_000]).await;
    let (broken, well) =
        (register(&gateway, SHOP, Scope::Owner, &[]).await, register(&gateway, SHOP, Scope::Owner, &[]).await);
    let payment_id = PaymentId::derive(SHOP, "one");
    break_queue(&server, &broken, &payment_id).await;
    fails(&gateway.log, SHOP, "one").await;
    eventually(async || kinds(&gateway, &well, &payment_id).await == [EventType::Pending, EventType::Failed]).await;
    gateway.stop().await;
}

async fn kinds(gateway: &Gateway, webhook: &Webhook, payment_id: &PaymentId) -> Vec<EventType> {
    let dues = gateway.deliveries.dues_of(&webhook.id, payment_id).await.unwrap();
    dues.iter().map(|stored| stored.due.kind).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_hear_of_their_payments_from_when_they_registered_and_of_no_others() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, &[60_000]).await;
    let log = &gateway.log;
    let payer = format!("eip155:{PAYER}");
    let of_payer = register(&gateway, &payer, Scope::Owner, &[]).await;
    let of_shop = register(&gateway, SHOP, Scope::Owner, &[EventType::Failed]).await;
    let of_other = register(&gateway, &format!("eip155:{OTHER}"), Scope::Owner, &[]).await;
    let (alone, for_shop) = (fails(log, &payer, "alone").await, fails(log, SHOP, "shop").await);
    let of_one = register(&gateway, &payer, Scope::Payment(PaymentId::derive(&payer, "later")), &[]).await;
    let later = fails(log, &payer, "later").await;

    let both = [EventType::Pending, EventType::Failed];
    for payment_id in [&alone, &for_shop, &later] {
        eventually(async || kinds(&gateway, &of_payer, payment_id).await == both).await;
    }
    assert_eq!(kinds(&gateway, &of_shop, &for_shop).await, [EventType::Failed]);
    assert_eq!(kinds(&gateway, &of_shop, &alone).await, []);
    assert_eq!(kinds(&gateway, &of_one, &later).await, both);
    assert_eq!(kinds(&gateway, &of_one, &alone).await, []);
    for payment_id in [&alone, &for_shop, &later] {
        assert_eq!(kinds(&gateway, &of_other, payment_id).await, []);
    }

    // Who begins from the very beginning, as after a restore, makes no message twice, and tells nobody of before he came.
    let late = register(&gateway, SHOP, Scope::Owner, &[]).await;
    let (before, log) = (gateway.deliveries.head().await.unwrap(), gateway.log.clone());
    gateway.stop().await;
    let again = Gateway::start_on(&server, &endpoints, &[60_000], log).await;
    for shard in 0..crate::support::PARTITIONS {
        again.deliveries.keep_cursor(shard, 0).await.unwrap();
    }
    let last = fails(&again.log, SHOP, "last").await;
    eventually(async || kinds(&again, &late, &last).await == both).await;
    assert_eq!(kinds(&again, &of_payer, &alone).await, both);
    let mut repeated = again.deliveries.dues(&of_payer.id, before + 1, 99).await.unwrap();
    repeated.retain(|stored| stored.due.payment_id != last);
    assert_eq!(repeated, []);
    again.stop().await;
}

/// A delivery that was seen is gone, and another settler is looked for: the payment is pending again, and its owner hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_whose_settler_did_not_deliver_is_told_to_be_pending_again() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    let gateway = Gateway::start(&server, &endpoints, &[60_000]).await;
    let webhook = register(&gateway, SHOP, Scope::Owner, &[]).await;
    let first = submitted(SHOP, "reassigned");
    let payment_id = first.payment_id.clone();
    let inclusion = |chain, digit: &str| Inclusion {
        chain_id: ChainId::evm(chain),
        transaction_hash: format!("0x{}", digit.repeat(64)),
        block_number: 1,
        block_hash: Hash32::ZERO.to_string(),
        block_time: 1_800_000_000,
    };
    let seen = |digit| PaymentEvent::FulfillmentSeen(FulfillmentSeen { inclusion: inclusion(10, digit) });
    let lapsed = ReservationLapsed {
        settler: "did:web:settler.example".parse().unwrap(),
        quote_hash: Hash32::ZERO,
        attestation: "0x".to_owned(),
        quote_deadline: Utc::now(),
        lapsed_at: Utc::now(),
    };
    let mut at = Position::START;
    for event in [
        PaymentEvent::Submitted(Box::new(first)),
        seen("1"),
        PaymentEvent::ReservationLapsed(lapsed),
        // The status stays what it is, and of that nothing is told.
        PaymentEvent::EscrowReassigned(EscrowReassigned { inclusion: inclusion(1, "2") }),
        seen("3"),
        failed(),
    ] {
        at = append(&gateway.log, &payment_id, at, event).await;
    }
    let (pending, finalizing) = (EventType::Pending, EventType::Finalizing);
    let told = [pending, finalizing, pending, finalizing, EventType::Failed];
    eventually(async || kinds(&gateway, &webhook, &payment_id).await == told).await;
    gateway.stop().await;
}

/// The feed does not move on over a commit that the stream has no room for, and goes on where it was given more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_stream_has_no_room_for_is_told_when_it_has() {
    let (server, endpoints) = (NatsServer::open().await.unwrap(), Arc::<SetEndpoints>::default());
    // Gateways take the streams as they are.
    let small = NatsStreams::open(client(&server).await, 1, 16 << 10).await.unwrap();
    let gateway = Gateway::start(&server, &endpoints, &[60_000]).await;
    let webhook = register(&gateway, SHOP, Scope::Owner, &[]).await;
    let filler = Bytes::from(vec![b' '; 1 << 10]);
    let mut number = 0;
    let refused = loop {
        let subject = format!("gw.delivery.00.whk_filler.due.{number}");
        match small.deliveries.append(&subject, None, filler.clone()).await {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, records::Error::Full), "{refused}");
    // Smaller ones may still find room.
    while gateway.deliveries.enqueue(&webhook.id, &due(&webhook, number, 1)).await.is_ok() {
        number += 1;
    }
    let payment_id = fails(&gateway.log, SHOP, "late").await;
    assert_eq!(kinds(&gateway, &webhook, &payment_id).await, []);

    let context = async_nats::jetstream::new(client(&server).await);
    let mut config = context.get_stream(DELIVERIES).await.unwrap().cached_info().config.clone();
    config.max_bytes = 1 << 20;
    context.update_stream(config).await.unwrap();
    let both = [EventType::Pending, EventType::Failed];
    eventually(async || kinds(&gateway, &webhook, &payment_id).await == both).await;
    gateway.stop().await;
}
