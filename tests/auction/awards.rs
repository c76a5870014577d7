//! Awards after an auction, the consumers that they wait in, and reports.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::{self, consumer::PullConsumer};
use chrono::Utc;
use futures::StreamExt;

use auction::Options;
use events::{PaymentId, event::VerifierRef};
use protocol::{AWARDS_STREAM, AwardNotice, Report, Version, award_consumer, report_subject};
use sagas::ports::{Auction, Award, AwardAnswer, RequestForQuotes, VerificationCase};

use super::{Bidder, Gateway, policies, silence};
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
        quote_hash: events::Hash32::sha256(b"quote"),
        verifier: VerifierRef::single(RELEASER.parse().unwrap(), "http://127.0.0.1:1".to_owned()),
        replaceable_until: None,
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
    let other = Award { quote_hash: events::Hash32::sha256(b"another quote"), ..award };
    assert!(gateway.auction.award(&other).await.is_err_and(|fault| fault.is_misconfigured()));
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
