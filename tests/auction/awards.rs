//! Awards after an auction, the consumers that they wait in, and reports.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::{self, consumer::PullConsumer};
use chrono::Utc;
use futures::StreamExt;
use tokio::sync::mpsc;

use auction::Options;
use events::{Hash32, PaymentId, event::VerifierRef, quote::reassignment_auction_of};
use protocol::{
    AWARDS_STREAM, AnswerStatus, AwardDecision, AwardMessage, AwardNotice, AwardReceipt, AwardToken, Registration,
    Report, Rfq, Version, answer_subject, award_consumer, report_subject,
};
use sagas::ports::{Auction, Award, AwardAnswer, AwardEnd, Escrowed, RequestForQuotes, VerificationCase};

use super::{Bidder, Gateway, decline, policies, registered, registration, silence};
use crate::nats_roles::{PATIENCE, RELEASER, Role, connect, did, payment_of, request, server, token, until};

fn award(number: usize, request: &RequestForQuotes) -> Award {
    Award {
        settler: did(number),
        case: VerificationCase {
            payment_id: payment_of(request),
            terms: request.terms.clone(),
            escrow: request.escrow.clone(),
            verifier_set: None,
            quote_document: "{}".to_owned(),
            payloads: request.payloads.clone(),
        },
        quote_hash: Hash32::sha256(b"quote"),
        verifier: VerifierRef::single(RELEASER.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        replaceable_until: None,
        escrowed: None,
    }
}

#[tokio::test]
async fn an_award_waits_for_a_settler_that_is_away() -> Result<()> {
    let mut server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let request = request(Duration::from_secs(1));
    let award = award(1, &request);
    gateway.auction.award(&award).await?;
    gateway.auction.award(&award).await?;
    server.kill().await?;
    server.restart().await?;
    until("the award is known to be stored", || async { gateway.auction.award(&award).await.is_ok() }).await?;

    let client = connect(&server, Role::Gateway).await?;
    let jetstream = jetstream::new(client);
    let consumer: PullConsumer = jetstream.get_consumer_from_stream(award_consumer(&token(1)), AWARDS_STREAM).await?;
    assert_eq!(consumer.cached_info().num_pending, 1, "the same award is stored once");
    let mut awards = consumer.messages().await?;
    let message = tokio::time::timeout(PATIENCE, awards.next()).await?.context("no award")??;
    let notice: AwardNotice = protocol::read(&message.payload)?;
    assert_eq!(notice.payment_id, payment_of(&request));
    assert_eq!(notice.quote_hash, award.quote_hash);
    assert_eq!(notice.payloads, request.payloads);
    assert_eq!(notice.payloads[0].as_str(), r#"{"order":12345678901234567890123}"#);
    assert_eq!(events::event::EscrowPlan::from(notice.escrow), request.escrow);
    message.double_ack().await.map_err(anyhow::Error::msg)?;
    let info = consumer.get_info().await?;
    assert_eq!((info.num_pending, info.num_ack_pending), (0, 0));
    Ok(())
}

#[tokio::test]
async fn two_awards_of_one_payment_to_one_settler_are_not_mixed_up() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let award = award(1, &request(Duration::from_secs(1)));
    gateway.auction.award(&award).await?;
    let other = Award { quote_hash: Hash32::sha256(b"another quote"), ..award };
    assert!(gateway.auction.award(&other).await.is_err_and(|fault| fault.is_misconfigured()));
    Ok(())
}

/// The award of another quote of the same settler, in an auction for the escrow of the same payment.
fn reassigned(award: &Award, quote: &str, reserved_for: Hash32) -> Award {
    let escrowed = Some(Escrowed { amount: "1000000".parse().unwrap(), reserved_for });
    Award { quote_hash: Hash32::sha256(quote), escrowed, ..award.clone() }
}

fn end(award: &Award, auction_id: &str) -> AwardEnd {
    AwardEnd {
        settler: award.settler.clone(),
        payment_id: award.case.payment_id.clone(),
        quote_hash: award.quote_hash,
        auction_id: auction_id.to_owned(),
        code: "AWARD_REFUSED".to_owned(),
    }
}

/// What the gateway says of this settler's answer to `award`, which is given under `token`.
async fn said(
    client: &async_nats::Client,
    award: &Award,
    token: &AwardToken,
    word: AwardDecision,
) -> Result<AnswerStatus> {
    let answer = protocol::AwardAnswer {
        version: Version,
        payment_id: award.case.payment_id.clone(),
        quote_hash: award.quote_hash,
        word,
        reason: (word == AwardDecision::Refuse).then(|| "INSUFFICIENT_LIQUIDITY".to_owned()),
    };
    let receipt = async {
        loop {
            // Given again, since nothing says when the gateway has begun to listen.
            let subject = answer_subject(&award.settler.token(), token);
            if let Ok(receipt) = client.request(subject, protocol::write(&answer).into()).await {
                return protocol::read::<AwardReceipt>(&receipt.payload);
            }
        }
    };
    Ok(tokio::time::timeout(PATIENCE, receipt).await??.standing)
}

/// One settler wins a payment's first auction, loses the award, and wins two later ones for the payment's escrow.
#[tokio::test]
async fn each_award_of_one_payment_to_one_settler_has_an_end_and_an_answer_of_its_own() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let client = connect(&server, Role::Settler(1)).await?;
    let request = request(Duration::from_secs(1));
    let first = award(1, &request);
    let payment_id = payment_of(&request);
    let of_payment = AwardToken::of_payment(&payment_id);
    gateway.auction.award(&first).await?;
    assert_eq!(said(&client, &first, &of_payment, AwardDecision::Refuse).await?, AnswerStatus::Refused);
    let refused = AwardAnswer::Refused("INSUFFICIENT_LIQUIDITY".to_owned());
    assert_eq!(gateway.auction.answer(&first).await?, refused);
    gateway.auction.end(&end(&first, &request.auction_id)).await?;

    let second = reassigned(&first, "second", Hash32::sha256("another's"));
    let of_second = AwardToken::of_quote(second.quote_hash);
    for _ in 0..2 {
        gateway.auction.award(&second).await?;
    }
    // Neither what is said of the first award, late and under either name, nor what is said of the second under the first's name is
    // an answer to the second.
    let stale = [(&first, &of_payment), (&first, &AwardToken::of_quote(first.quote_hash)), (&second, &of_payment)];
    for (award, token) in stale {
        assert_eq!(said(&client, award, token, AwardDecision::Refuse).await?, AnswerStatus::Unknown, "{token}");
    }
    let answer = tokio::spawn({
        let (auction, second) = (gateway.auction.clone(), second.clone());
        async move { auction.answer(&second).await }
    });
    for (award, token) in stale {
        assert_eq!(said(&client, award, token, AwardDecision::Refuse).await?, AnswerStatus::Unknown, "{token}");
    }
    assert!(!answer.is_finished(), "nobody has answered");
    assert_eq!(said(&client, &second, &of_second, AwardDecision::Accept).await?, AnswerStatus::Accepted);
    assert_eq!(tokio::time::timeout(PATIENCE, answer).await???, AwardAnswer::Accepted);

    // The settler of the third quote did not answer in time, which a gateway noted that knows of neither before.
    let options = Options { answer_wait: Duration::from_millis(50), ..Options::default() };
    let other = Gateway::with(&server, options, policies(), None).await?;
    let third = reassigned(&first, "third", second.quote_hash);
    other.auction.award(&third).await?;
    assert_eq!(other.auction.answer(&third).await?, AwardAnswer::Silent);
    other.auction.end(&end(&third, &reassignment_auction_of(&payment_id, 2))).await?;
    for gateway in [&gateway, &other] {
        assert_eq!(gateway.auction.answer(&first).await?, refused);
        assert_eq!(gateway.auction.answer(&second).await?, AwardAnswer::Accepted);
        assert_eq!(gateway.auction.answer(&third).await?, AwardAnswer::Silent);
    }

    // Each lies in its own place, or its end does.
    let jetstream = jetstream::new(connect(&server, Role::Gateway).await?);
    let consumer: PullConsumer = jetstream.get_consumer_from_stream(award_consumer(&token(1)), AWARDS_STREAM).await?;
    assert_eq!(consumer.cached_info().num_pending, 3);
    let mut messages = consumer.messages().await?;
    let mut found = Vec::new();
    for _ in 0..3 {
        let message = tokio::time::timeout(PATIENCE, messages.next()).await?.context("no message")??;
        found.push(match AwardMessage::read(&message.payload)? {
            AwardMessage::Award(notice) => (notice.quote_hash, notice.escrowed.map(|it| it.reserved_for), None),
            AwardMessage::End(end) => (end.quote_hash, None, end.auction_id),
        });
    }
    let expected = [
        (first.quote_hash, None, Some(request.auction_id.clone())),
        (second.quote_hash, Some(Hash32::sha256("another's")), None),
        (third.quote_hash, None, Some(reassignment_auction_of(&payment_id, 2))),
    ];
    assert_eq!(found, expected);
    Ok(())
}

#[tokio::test]
async fn an_escrow_is_asked_about_with_what_is_in_it_and_those_alone_who_take_it_over() -> Result<()> {
    let server = server().await?;
    let gateway = Gateway::start(&server).await?;
    let (told, mut heard) = mpsc::unbounded_channel();
    let _one = Bidder::start(&server, 1, move |rfq| {
        let _ = told.send(rfq.clone());
        decline("PRICE_ABOVE_CAP")(rfq)
    })
    .await?;
    let older = Registration { follows_reassignments: false, ..registration(2) };
    let older = Bidder::registered(&server, 2, older, decline("PRICE_ABOVE_CAP")).await?;
    let faded = Bidder::start(&server, 3, decline("PRICE_ABOVE_CAP")).await?;
    for settler in 1..=3 {
        registered(&gateway, settler).await?;
    }
    let first = request(Duration::from_secs(3600));
    let escrowed = Escrowed { amount: "1000000".parse()?, reserved_for: Hash32::sha256("quote") };
    let request = RequestForQuotes {
        auction_id: reassignment_auction_of(&payment_of(&first), 1),
        escrowed: Some(escrowed),
        blacklist: vec![did(3)],
        ..first
    };
    let before = (older.asked(), faded.asked());
    let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;
    assert_eq!((gathered.addressed, (older.asked(), faded.asked())), (vec![did(1)], before));
    let is_its = |rfq: &Rfq| rfq.auction_id == request.auction_id;
    let rfq = std::iter::from_fn(|| heard.try_recv().ok()).find(is_its).context("the request")?;
    let told = protocol::Escrowed { amount: escrowed.amount, reserved_for: escrowed.reserved_for };
    assert_eq!((rfq.payment_id, rfq.escrowed), (request.payment_id, Some(told)));
    Ok(())
}

/// A silent winner is given up sooner where another quote can be awarded in its place, and what was found stays.
#[tokio::test]
async fn a_winner_is_waited_for_as_long_as_its_place_cannot_be_taken() -> Result<()> {
    let server = server().await?;
    let (short, hour) = (Duration::from_millis(50), Duration::from_secs(3600));
    // In two hours, in a moment and never another quote can be awarded; what cannot be any more after the wait replaces nobody.
    for (lasts, is_replaceable) in [(Some(2 * hour), true), (Some(hour / 2), false), (None, false)] {
        let (answer_wait, replaceable_answer_wait) = match is_replaceable {
            true => (hour, short),
            false => (short, hour),
        };
        let options = Options { answer_wait, replaceable_answer_wait, ..Options::default() };
        let gateway = Gateway::with(&server, options, policies(), None).await?;
        let replaceable_until = lasts.map(|lasts| Utc::now() + lasts);
        let award = Award { replaceable_until, ..award(1, &request(Duration::from_secs(1))) };
        gateway.auction.award(&award).await?;
        let answer = tokio::time::timeout(PATIENCE, gateway.auction.answer(&award)).await??;
        assert_eq!(answer, AwardAnswer::Silent);
        let other = Award { replaceable_until: (!is_replaceable).then(|| Utc::now() + 2 * hour), ..award };
        let again = tokio::time::timeout(PATIENCE, gateway.auction.answer(&other)).await??;
        assert_eq!(again, AwardAnswer::Silent);
    }
    Ok(())
}

#[tokio::test]
async fn a_settler_finds_its_consumer_when_it_has_registered() -> Result<()> {
    let server = server().await?;
    let _gateway = Gateway::start(&server).await?;
    let _one = Bidder::start(&server, 1, silence).await?;
    let jetstream = jetstream::new(connect(&server, Role::Gateway).await?);
    until("the consumer is there", || async {
        let consumer = jetstream.get_consumer_from_stream(award_consumer(&token(1)), AWARDS_STREAM).await;
        consumer.is_ok_and(|_: PullConsumer| true)
    })
    .await
}

#[tokio::test]
async fn reports_are_hints_about_the_payment_in_their_subject() -> Result<()> {
    let server = server().await?;
    let mut gateway = Gateway::start(&server).await?;
    let client = connect(&server, Role::Settler(1)).await?;
    let (mine, other) = (payment_of(&request(Duration::ZERO)), payment_of(&request(Duration::ZERO)));
    let report = |payment_id: &PaymentId| {
        let report = Report { version: Version, payment_id: payment_id.clone(), transaction_hash: "0x00".to_owned() };
        protocol::write(&report)
    };
    let hint = async {
        loop {
            // Repeated, since nothing says when the gateway has begun to listen.
            client.publish(report_subject(&token(1), &mine), report(&other).into()).await?;
            client.publish(report_subject(&token(1), &mine), b"no report".to_vec().into()).await?;
            client.publish(report_subject(&token(1), &mine), report(&mine).into()).await?;
            if let Ok(hint) = tokio::time::timeout(Duration::from_millis(200), gateway.hints.recv()).await {
                return anyhow::Ok(hint);
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, hint).await??, Some(mine));
    Ok(())
}
