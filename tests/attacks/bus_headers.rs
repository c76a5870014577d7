//! Headers that a settler writes into its own bids and registration, byte by byte, on a real nats-server with the
//! repository's nats.conf.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_nats::{HeaderMap, jetstream};
use data_encoding::BASE64URL_NOPAD;
use ed25519_dalek::Signer;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use auction::{Progress, streams};
use devnet::nats::Nats;
use protocol::{Bid, bid_subject, registration_subject, rfq_subject, rfq_subjects};
use sagas::ports::{Answer, Auction, Gathered, RequestForQuotes};
use settler::nats_credentials::inbox_prefix;

use super::bus::{Bidder, Gateway, registration, stored};
use crate::nats_roles::{PATIENCE, Role, did, request, token, until};

/// A settler that writes its own lines to the server: no client in its way decides which headers there are.
pub(super) struct Raw {
    stream: BufReader<TcpStream>,
    number: usize,
}

impl Raw {
    /// Connects as settler `number`.
    pub(super) async fn connect(nats: &Nats, number: usize) -> Result<Self> {
        let address = nats.url().trim_start_matches("nats://").to_owned();
        let mut raw = Self { stream: BufReader::new(TcpStream::connect(address).await?), number };
        let line = raw.line().await?;
        let info: Value = serde_json::from_str(line.strip_prefix("INFO ").context("no INFO")?)?;
        let (role, nonce) = (Role::Settler(number), info["nonce"].as_str().context("no nonce")?);
        let connect = json!({
            "verbose": false, "pedantic": false, "lang": "raw", "version": "0", "protocol": 1, "headers": true,
            "no_responders": true, "nkey": role.nkey(),
            "sig": BASE64URL_NOPAD.encode(&role.key().sign(nonce.as_bytes()).to_bytes()),
        });
        let (acks, requests) = (raw.acks(), rfq_subjects(&token(number)));
        let lines = format!("CONNECT {connect}\r\nSUB {acks} 1\r\nSUB {requests} 2\r\nPING\r\n");
        raw.stream.write_all(lines.as_bytes()).await?;
        let said = raw.line().await?;
        ensure!(said == "PONG", "{said}");
        Ok(raw)
    }

    /// Where streams say what they have stored.
    fn acks(&self) -> String {
        format!("{}.acks", inbox_prefix(&token(self.number)))
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await?;
        ensure!(read? > 0, "the server has closed the connection");
        Ok(line.trim_end().to_owned())
    }

    /// The next message on `subject`: the reply that it names, and its body with any headers before it.
    async fn message(&mut self, subject: &str) -> Result<(Option<String>, Vec<u8>)> {
        loop {
            let line = self.line().await?;
            let words: Vec<_> = line.split(' ').collect();
            let (lengths, reply) = match words[0] {
                "MSG" => (1, words.get(3).filter(|_| words.len() == 5)),
                "HMSG" => (2, words.get(3).filter(|_| words.len() == 6)),
                "PING" => {
                    self.stream.write_all(b"PONG\r\n").await?;
                    continue;
                }
                "-ERR" => bail!("{line}"),
                _ => continue,
            };
            ensure!(words.len() > 2 + lengths, "{line}");
            let mut body = vec![0; words[words.len() - 1].parse::<usize>()? + 2];
            self.stream.read_exact(&mut body).await?;
            body.truncate(body.len() - 2);
            if words[1] == subject {
                return Ok((reply.map(|reply| (*reply).to_owned()), body));
            }
        }
    }

    /// Publishes `headers` as they are, and waits until a stream has stored the message; an error when none does.
    pub(super) async fn publish(&mut self, subject: &str, headers: &[u8], body: &[u8]) -> Result<()> {
        let acks = self.acks();
        let (of_headers, all) = (headers.len(), headers.len() + body.len());
        let line = format!("HPUB {subject} {acks} {of_headers} {all}\r\n");
        self.stream.write_all(&[line.as_bytes(), headers, body, b"\r\n"].concat()).await?;
        let (_, stored) = tokio::time::timeout(PATIENCE / 12, self.message(&acks)).await??;
        let stored = String::from_utf8_lossy(&stored).into_owned();
        ensure!(stored.contains("\"seq\""), "{stored}");
        Ok(())
    }

    /// Waits until it is asked in an auction, and answers with these headers and a decline.
    pub(super) async fn declines(&mut self, auction: &str, headers: &[u8]) -> Result<()> {
        let (reply, _) = self.message(&rfq_subject(&token(self.number), auction)).await?;
        let reply = reply.context("the request names no reply")?;
        self.publish(&reply, headers, &protocol::write(&Bid::decline("NO_LIQUIDITY"))).await
    }
}

pub(super) fn answers_of(gathered: &Gathered, number: usize) -> Vec<&Answer> {
    gathered.bids.iter().filter(|bid| bid.settler == token(number)).map(|bid| &bid.answer).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_bid_change_nobody_elses_bid_and_stop_no_auction() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let (first, second) = tokio::try_join!(Gateway::start(&nats), Gateway::start(&nats))?;
    let _honest = Bidder::start(&nats, 1, true).await?;
    let mut hostile = Raw::connect(&nats, 2).await?;
    let plain = b"NATS/1.0\r\n\r\n";
    let (subject, own) = (registration_subject(&token(2)), registration(2, 1));
    let registered = async { while hostile.publish(&subject, plain, &own).await.is_err() {} };
    tokio::time::timeout(PATIENCE, registered).await?;
    tokio::try_join!(first.knows(1), first.knows(2), second.knows(1))?;

    let theirs = |auction: &str| bid_subject(&token(1), auction);
    let past = "Nats-Time-Stamp: 2020-01-01T00:00:00Z";
    let forged: [&dyn Fn(&str) -> String; 6] = [
        // A status, by which it was taken for the server's word that the settler is away, and another's subject.
        &|auction| format!("NATS/1.0 100\r\nNats-Subject: {}\r\n{past}\r\n\r\n", theirs(auction)),
        &|_| "NATS/1.0 100\r\nNats-Time-Stamp: x\r\n\r\n".to_owned(),
        &|auction| format!("NATS/1.0\r\nNats-Sequence: x\r\nNats-Subject: {}\r\n\r\n", theirs(auction)),
        // Not ended: nothing takes the status away when this is stored, and the server's next header continues the line.
        &|auction| format!("NATS/1.0 404\r\nNats-Subject: {}", theirs(auction)),
        &|_| "NATS/1.0 503 No Responders".to_owned(),
        &|auction| format!("NATS/1.0\nNats-Subject: {}\n{past}\n ", theirs(auction)),
    ];
    for forged in forged {
        let request = request(Duration::from_secs(30));
        let auction = request.auction_id.clone();
        let window = tokio::spawn({
            let (auction, request) = (first.auction.clone(), request.clone());
            async move { auction.gather(&request).await }
        });
        let headers = forged(&auction);
        hostile.declines(&auction, headers.as_bytes()).await.with_context(|| headers.clone())?;
        until("the bid is stored", || async {
            stored(&nats, 1).await.is_ok_and(|found| found.contains(&theirs(&auction)))
        })
        .await?;
        let heard = tokio::time::timeout(PATIENCE / 3, window).await.with_context(|| headers.clone())???;
        // Who reads what is stored: a gateway that takes the auction over, and one that is asked how it stands.
        let read = tokio::time::timeout(PATIENCE / 3, second.auction.gather(&request)).await;
        let read = read.with_context(|| headers.clone())??;
        let so_far = second.auction.so_far(&request).await?;
        let (quote, decline) = (Answer::Quote("{}".to_owned()), Answer::Decline("NO_LIQUIDITY".to_owned()));
        for gathered in [&heard, &read, &so_far] {
            assert_eq!(answers_of(gathered, 1), [&quote], "{headers:?}");
            assert_eq!(answers_of(gathered, 2).len(), 1, "{headers:?}");
        }
        assert_eq!(answers_of(&read, 2), [&decline], "{headers:?}");
        assert_eq!(answers_of(&so_far, 2), [&decline], "{headers:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_registration_do_not_keep_the_registry_from_being_read() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let first = Gateway::start(&nats).await?;
    let mut hostile = Raw::connect(&nats, 2).await?;
    let subject = registration_subject(&token(2));
    let another = format!("NATS/1.0\r\nNats-Subject: {}\r\n\r\n", registration_subject(&token(1)));
    for headers in ["NATS/1.0\r\nNats-Time-Stamp: x\r\n\r\n", "NATS/1.0 503 No", &another] {
        let registered = async {
            // Before there is a stream for it the gateway stores it, without any headers.
            while hostile.publish(&subject, headers.as_bytes(), &registration(2, 1)).await.is_err() {}
            hostile.publish(&subject, headers.as_bytes(), &registration(2, 1)).await
        };
        tokio::time::timeout(PATIENCE, registered).await.with_context(|| headers.to_owned())??;
        first.knows(2).await.with_context(|| headers.to_owned())?;
        // A gateway that has heard nothing of it, and reads it. One that cannot read says of nobody that he is not there.
        let second = Gateway::start(&nats).await?;
        let nobody = RequestForQuotes { whitelist: vec![did(3)], ..request(PATIENCE) };
        let gathered = tokio::time::timeout(PATIENCE / 4, second.auction.gather(&nobody)).await;
        assert_eq!(gathered.with_context(|| headers.to_owned())??.addressed, Vec::new());
        second.knows(2).await.with_context(|| headers.to_owned())?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_forgets_at_once_what_a_settler_calls_its_messages() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let gateway = Gateway::start(&nats).await?;
    let bidder = Bidder::start(&nats, 1, true).await?;
    gateway.knows(1).await?;
    let asked = request(Duration::from_secs(30));
    gateway.auction.gather(&asked).await?;
    let settler = jetstream::new(bidder.client.clone());
    let large = "x".repeat(30_000);
    let forgotten = Duration::from_secs(5);
    for subject in [registration_subject(&token(1)), bid_subject(&token(1), &asked.auction_id)] {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", large.as_str());
        let publish = || async {
            let stored = settler.publish_with_headers(subject.clone(), headers.clone(), "x".into()).await?;
            anyhow::Ok(stored.await?.duplicate)
        };
        assert!(!publish().await?, "{subject}");
        let begun = Instant::now();
        // Longer than the window between two: where one follows the other without a pause, the server goes on knowing the id.
        loop {
            tokio::time::sleep(Duration::from_millis(300)).await;
            if !publish().await? {
                break;
            }
            ensure!(begun.elapsed() < forgotten, "{subject}: the id is still known");
        }
    }
    // Control: nothing larger than the largest message is stored, headers and body together.
    let stream = jetstream::new(nats.connect(Role::Gateway).await?);
    for config in [streams::registration(&token(1)), streams::bids(&token(1))] {
        let found = stream.get_stream(&config.name).await?.cached_info().config.clone();
        assert_eq!(found.duplicate_window, Duration::from_millis(100), "{}", config.name);
        assert_eq!(found.max_message_size, config.max_message_size);
    }
    Ok(())
}
