//! Settlers as they are: they quote, decline, say nothing, bid twice or too late, answer awards again and otherwise, and flood.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::{Client, Message, jetstream};
use chrono::{SubsecRound, Utc};
use futures::StreamExt;
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

use devkit::natsfaults::{Dice, FaultProxy};
use events::{
    quote::Quote,
    time::{Timestamp, from_unix_seconds, unix_seconds},
};
use protocol::{
    AWARDS_STREAM, AnswerStatus, AwardAnswer, AwardDecision, AwardMessage, AwardNotice, AwardReceipt, AwardToken, Bid,
    Corridor, MESSAGE_BYTES_MAX, Registration, Rfq, Version, answer_subject, award_consumer, bid_subject,
    over_subjects, registration_subject, report_subject, rfq_subjects,
};

use super::world::{ACCOUNT, EXCLUDED, Run, did, key, token};

/// Messages of a flood, of each kind.
const FLOOD: usize = 400;
/// How long an answer to an award waits for its receipt before it is given again.
const RECEIPT_WAIT: Duration = Duration::from_millis(300);

/// How a settler bids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bids {
    Once,
    Declines,
    Never,
    TooLate,
    Twice,
}

/// How it answers an award.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    Accepts,
    Refuses,
    Never,
    /// Accepts, and then refuses.
    Both,
}

/// What a settler saw and said.
#[derive(Default)]
pub struct Seen {
    /// Auctions in which it was asked.
    pub asked: Vec<String>,
    /// Bids it sent, and when.
    pub sent: Vec<(Timestamp, String)>,
    /// What lay in its consumer.
    pub awards: Vec<AwardMessage>,
    /// What it was told of its answers.
    pub receipts: Vec<AnswerStatus>,
    /// Auctions that it was told to have lost.
    pub over: usize,
}

pub struct Settler {
    pub number: usize,
    pub bids: Bids,
    pub answers: Answers,
    pub client: Client,
    pub proxy: FaultProxy,
    pub seen: Arc<Mutex<Seen>>,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

impl Settler {
    /// Settler `number` of a run, which follows what the gateways say.
    pub async fn start(run: &Run, number: usize) -> Self {
        let mut dice = Dice::new(run.seed, "settler", number as u64);
        // Most bid once, so that there is something to compare.
        let bids = match dice.below(10) {
            0 => Bids::Declines,
            1 => Bids::Never,
            2 => Bids::TooLate,
            3 => Bids::Twice,
            _ => Bids::Once,
        };
        let answers = [Answers::Accepts, Answers::Refuses, Answers::Never, Answers::Both];
        let answers = answers[usize::try_from(dice.below(4)).unwrap()];
        let (client, proxy) = run.settler(number).await;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut requests = client.subscribe(rfq_subjects(&token(number))).await.unwrap();
        let mut over = client.subscribe(over_subjects(&token(number))).await.unwrap();
        let answering = tokio::spawn({
            let (client, seen) = (client.clone(), seen.clone());
            async move {
                while let Some(message) = requests.next().await {
                    bid(&client, number, bids, &message, &seen, &mut dice).await;
                }
            }
        });
        let hearing = tokio::spawn({
            let seen = seen.clone();
            async move {
                while over.next().await.is_some() {
                    seen.lock().unwrap().over += 1;
                }
            }
        });
        let awards = tokio::spawn(follow_awards(client.clone(), number, answers, seen.clone()));
        let tasks = [answering, hearing, awards].map(AbortOnDropHandle::new).into();
        Self { number, bids, answers, client, proxy, seen, _tasks: tasks }
    }

    /// Registers, again until it is stored.
    pub async fn register(&self) {
        let context = jetstream::new(self.client.clone());
        let registration = protocol::write(&registration(self.number, 0));
        loop {
            let subject = registration_subject(&token(self.number));
            if let Ok(stored) = context.publish(subject, registration.clone().into()).await
                && matches!(timeout(Duration::from_millis(700), stored).await, Ok(Ok(_)))
            {
                return;
            }
        }
    }

    /// Answers an award that is another's, under its own subject, until it is told what it is worth.
    pub async fn answers_anothers(&self, notice: &AwardNotice) -> AnswerStatus {
        let answer = answer(notice, AwardDecision::Refuse);
        loop {
            if let Some(receipt) = said(&self.client, self.number, notice, &answer).await {
                return receipt;
            }
        }
    }

    /// Says as much as it can, of everything that it may.
    pub async fn flood(&self, auction_id: &str, notice: &AwardNotice) {
        let (own, large) = (token(self.number), "x".repeat(MESSAGE_BYTES_MAX + 1));
        for n in 0..FLOOD {
            let bid = protocol::write(&Bid::decline(format!("FLOOD_{n}")));
            let variant = protocol::write(&registration(self.number, n + 1));
            let answer = protocol::write(&answer(notice, AwardDecision::Refuse));
            let messages = [
                (bid_subject(&own, auction_id), bid),
                (registration_subject(&own), variant),
                (answer_subject(&own, token_of(notice)), answer),
                (report_subject(&own, &notice.payment_id), b"{}".to_vec()),
                (bid_subject(&own, auction_id), if n % 40 == 0 { large.clone().into_bytes() } else { b"?".to_vec() }),
            ];
            for (subject, payload) in messages {
                // What its connection does not take is its own loss.
                let _ = self.client.publish(subject, payload.into()).await;
            }
            tokio::task::yield_now().await;
        }
    }
}

fn registration(number: usize, variant: usize) -> Registration {
    let corridor = Corridor {
        source_asset: super::world::SOURCE.parse().unwrap(),
        destination_asset: super::world::DESTINATION.parse().unwrap(),
    };
    Registration {
        version: Version,
        settler: did(number),
        accounts: Vec::new(),
        corridors: vec![corridor],
        policies: if variant == 0 { Vec::new() } else { vec![format!("variant-{variant}")] },
        credentials: Vec::new(),
        follows_reassignments: true,
    }
}

/// A quote that counts, as far as it comes in time.
pub fn quote(number: usize, rfq: &Rfq, price: u64) -> String {
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: rfq.auction_id.clone(),
        terms_hash: rfq.terms_hash,
        settler: did(number),
        source_chain: rfq.escrow.chain_id.clone(),
        source_amount: price.to_string().parse().unwrap(),
        payout_account: ACCOUNT.parse().unwrap(),
        escrow_contract: rfq.escrow.contract.clone(),
        destination: rfq.terms.destination()[0].clone(),
        fulfillment_amount: rfq.terms.fulfillment_amount,
        delivery_account: ACCOUNT.parse().unwrap(),
        fulfillment_proxy: rfq.fulfillment_proxies[0].clone(),
        fulfill_by: from_unix_seconds(unix_seconds(rfq.quote_deadline) + 300).unwrap(),
        valid_until: from_unix_seconds(unix_seconds(rfq.quote_deadline) + 120).unwrap(),
    };
    quote.sign(&key(number), Utc::now().trunc_subsecs(0)).unwrap().document().to_owned()
}

async fn bid(client: &Client, number: usize, bids: Bids, message: &Message, seen: &Mutex<Seen>, dice: &mut Dice) {
    let Ok(rfq) = protocol::read::<Rfq>(&message.payload) else { return };
    let is_first = {
        let mut seen = seen.lock().unwrap();
        let is_first = !seen.asked.contains(&rfq.auction_id);
        seen.asked.push(rfq.auction_id.clone());
        is_first
    };
    let price = 1_000_000 + (number as u64) * 100 + dice.below(3) * 1000;
    let sent = |document: String| {
        seen.lock().unwrap().sent.push((Utc::now(), document.clone()));
        document
    };
    let Some(reply) = message.reply.clone() else { return };
    // Asked again it says the same again.
    let before = seen.lock().unwrap().sent.first().map(|(_, document)| document.clone());
    let mut documents = Vec::new();
    match bids {
        Bids::Never => return,
        Bids::Declines => documents.push(Bid::decline("INSUFFICIENT_LIQUIDITY")),
        Bids::TooLate => {
            let left = (rfq.quote_deadline - Utc::now()).to_std().unwrap_or_default();
            sleep(left + Duration::from_millis(5 + dice.below(40))).await;
            documents.push(Bid::quote(before.unwrap_or_else(|| quote(number, &rfq, price))));
        }
        Bids::Once | Bids::Twice => {
            documents.push(Bid::quote(before.unwrap_or_else(|| quote(number, &rfq, price))));
            if bids == Bids::Twice && is_first {
                documents.push(Bid::quote(quote(number, &rfq, price + 7)));
            }
        }
    }
    for bid in documents {
        if let Some(document) = &bid.quote {
            sent(document.clone());
        }
        let _ = client.publish(reply.clone(), protocol::write(&bid).into()).await;
    }
}

fn token_of(notice: &AwardNotice) -> AwardToken {
    AwardToken::of(&notice.payment_id, notice.quote_hash, notice.escrowed.is_some())
}

fn answer(notice: &AwardNotice, word: AwardDecision) -> AwardAnswer {
    let reason = (word == AwardDecision::Refuse).then(|| "INSUFFICIENT_LIQUIDITY".to_owned());
    AwardAnswer { version: Version, payment_id: notice.payment_id.clone(), quote_hash: notice.quote_hash, word, reason }
}

/// Gives an answer once; what it is told, if it is.
async fn said(client: &Client, number: usize, notice: &AwardNotice, answer: &AwardAnswer) -> Option<AnswerStatus> {
    let subject = answer_subject(&token(number), token_of(notice));
    let receipt = timeout(RECEIPT_WAIT, client.request(subject, protocol::write(answer).into())).await;
    let receipt = receipt.ok()?.ok();
    if receipt.is_none() {
        // Nobody responds, and it says so at once.
        sleep(Duration::from_millis(20)).await;
    }
    Some(protocol::read::<AwardReceipt>(&receipt?.payload).ok()?.standing)
}

/// Pulls from the consumer of awards, and answers what is in it.
async fn follow_awards(client: Client, number: usize, answers: Answers, seen: Arc<Mutex<Seen>>) {
    let consumer = award_consumer(&token(number));
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{AWARDS_STREAM}.{consumer}");
    loop {
        let inbox = client.new_inbox();
        let Ok(mut messages) = client.subscribe(inbox.clone()).await else { continue };
        let pull = r#"{"batch":8,"expires":900000000}"#;
        let _ = client.publish_with_reply(subject.clone(), inbox, pull.into()).await;
        let Ok(Some(message)) = timeout(Duration::from_millis(1000), messages.next()).await else { continue };
        if message.status.is_some() && message.payload.is_empty() {
            sleep(Duration::from_millis(100)).await;
            continue;
        }
        let Ok(award) = AwardMessage::read(&message.payload) else { continue };
        seen.lock().unwrap().awards.push(award.clone());
        if let AwardMessage::Award(notice) = award {
            let words: &[AwardDecision] = match answers {
                Answers::Never => &[],
                Answers::Accepts => &[AwardDecision::Accept],
                Answers::Refuses => &[AwardDecision::Refuse],
                Answers::Both => &[AwardDecision::Accept, AwardDecision::Refuse],
            };
            for word in words {
                for _ in 0..10 {
                    if let Some(standing) = said(&client, number, &notice, &answer(&notice, *word)).await {
                        seen.lock().unwrap().receipts.push(standing);
                        break;
                    }
                }
            }
        }
        if let Some(reply) = message.reply {
            let _ = client.publish(reply, "+ACK".into()).await;
        }
    }
}

/// The excluded settler bids all the same.
pub async fn intrude(settler: &Settler, auction_id: &str) {
    assert_eq!(settler.number, EXCLUDED);
    let bid = protocol::write(&Bid::quote("{}"));
    let _ = settler.client.publish(bid_subject(&token(EXCLUDED), auction_id), bid.into()).await;
}
