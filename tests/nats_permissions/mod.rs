//! NATS permissions of each role in nats.conf, on a real nats-server: nothing beyond its part.

mod auditors;
mod journal;
mod operators;
mod settlers;

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::{
    Client, Request, StatusCode,
    jetstream::{self, stream},
};
use futures::StreamExt;

use devkit::NatsServer;
use events::{Hash32, event::VerifierRef};
use identity::SettlerPolicies;
use protocol::{award_consumer, bid_subject, rfq_subject};
use sagas::ports::{Auction, Award, VerificationCase};

use crate::nats_roles::{PATIENCE, RELEASER, Role, connect, did, headerless, payment_of, request, server, token};

const EVENTS: &str = "gw.evt.00.pay_x";
/// What is in the streams before anyone tries anything.
const COMMITS: u64 = 2;

/// A server with the auction's streams, a journal of two commits and an award to settler 2.
struct Environment {
    server: NatsServer,
    gateway: Client,
}

impl Environment {
    async fn start() -> Result<Self> {
        Self::on(server().await?).await
    }

    async fn on(server: NatsServer) -> Result<Self> {
        let (gateway, heard) = tokio::try_join!(connect(&server, Role::Gateway), headerless(&server, Role::Gateway))?;
        let jetstream = jetstream::new(gateway.clone());
        let (auction, _service, _hints) =
            auction::open(gateway.clone(), heard, auction::Options::default(), SettlerPolicies::default(), None)
                .await?;
        jetstream
            .create_stream(stream::Config {
                name: "EVT_00".to_owned(),
                subjects: vec!["gw.evt.00.>".to_owned()],
                allow_direct: true,
                ..Default::default()
            })
            .await?;
        for commit in 1..=COMMITS {
            jetstream.publish(EVENTS, commit.to_string().into()).await?.await?;
        }
        for number in [1, 2] {
            auction.award(&award(number)).await?;
        }
        Ok(Self { server, gateway })
    }

    async fn messages(&self, stream: &str) -> Result<u64> {
        Ok(jetstream::new(self.gateway.clone()).get_stream(stream).await?.get_info().await?.state.messages)
    }

    /// Subjects in `stream`, sorted.
    async fn subjects(&self, stream: &str) -> Result<Vec<String>> {
        let stream = jetstream::new(self.gateway.clone()).get_stream(stream).await?;
        let mut info = std::pin::pin!(stream.info_with_subjects(">").await?);
        let mut subjects = Vec::new();
        while let Some(subject) = info.next().await {
            subjects.push(subject?.0);
        }
        subjects.sort();
        Ok(subjects)
    }

    /// Asks settler `number` for a bid, and returns when its `client` has heard it and may answer.
    async fn ask(&self, client: &Client, number: usize, auction: &str) -> Result<()> {
        let mut requests = client.subscribe(rfq_subject(&token(number), auction)).await?;
        let reply = bid_subject(&token(number), auction);
        let heard = async {
            loop {
                // The server may learn of the subscription after the request.
                let subject = rfq_subject(&token(number), auction);
                self.gateway.publish_with_reply(subject, reply.clone(), "?".into()).await?;
                if let Ok(request) = tokio::time::timeout(Duration::from_millis(200), requests.next()).await {
                    return request.context("closed");
                }
            }
        };
        let request = tokio::time::timeout(PATIENCE, heard).await??;
        assert_eq!(request.reply.as_deref(), Some(reply.as_str()), "the answer's subject crosses accounts as it is");
        Ok(())
    }

    async fn untouched(&self) -> Result<()> {
        assert_eq!(self.messages("EVT_00").await?, COMMITS, "journal");
        assert_eq!(self.messages("AWARDS").await?, 2, "awards");
        Ok(())
    }
}

/// The stream of a settler's bids.
fn bids(number: usize) -> String {
    format!("BIDS_{}", token(number))
}

/// The stream of a settler's registration.
fn registration(number: usize) -> String {
    format!("SETTLER_{}", token(number))
}

fn award(number: usize) -> Award {
    let request = request(Duration::from_secs(1));
    let case = VerificationCase {
        payment_id: payment_of(&request),
        terms: request.terms,
        escrow: request.escrow,
        verifier_set: None,
        quote_document: "{}".to_owned(),
        payloads: Vec::new(),
    };
    let verifier = VerifierRef::single(RELEASER.parse().unwrap(), String::new());
    Award {
        settler: did(number),
        case,
        quote_hash: Hash32::sha256(b"quote"),
        verifier,
        replaceable_until: None,
        escrowed: None,
    }
}

/// The number of awards that `client` gets when it asks for those of settler `number`.
async fn pulled(client: &Client, number: usize) -> Result<usize> {
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await?;
    let subject = format!("$JS.API.CONSUMER.MSG.NEXT.AWARDS.{}", award_consumer(&token(number)));
    client.publish_with_reply(subject, inbox, r#"{"batch":9,"no_wait":true}"#.into()).await?;
    let mut awards = 0;
    // A request that is allowed ends with a status; one that is not is never answered.
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_secs(1), answers.next()).await {
        match message.status {
            None => awards += 1,
            Some(_) => break,
        }
    }
    Ok(awards)
}

/// Whether the server, or somebody behind it, answered. A refused request is answered by nobody.
async fn answered(client: &Client, subject: &str, payload: &str) -> bool {
    let request = Request::new().payload(payload.to_owned().into()).timeout(Some(Duration::from_secs(1)));
    match client.send_request(subject.to_owned(), request).await {
        Ok(message) => {
            let error = String::from_utf8_lossy(&message.payload).contains("\"error\"");
            message.status.is_none_or(|status| status == StatusCode::OK) && !error
        }
        Err(_) => false,
    }
}

/// Returns once the server has processed what `client` sent before.
async fn processed(client: &Client, own: &str) -> Result<()> {
    jetstream::new(client.clone()).publish(own.to_owned(), "x".into()).await?.await?;
    Ok(())
}
