//! Malformed headers: lines that no NATS client reads, written by a settler wherever it may write, on a real nats-server with the
//! repository's nats.conf (ADR 120).

use std::{sync::atomic::Ordering, time::Duration};

use anyhow::{Context, Result, ensure};

use devnet::nats::Nats;
use protocol::{REGISTRATION_SUBJECTS, registration_subject};
use sagas::ports::{Answer, Auction};

use super::{
    bus::{Bidder, Gateway, registration},
    bus_headers::{Raw, answers_of},
};
use crate::nats_roles::{PATIENCE, Role, request, token};

/// At each of these async-nats ends its connection.
const MALFORMED: [&[u8]; 4] = [
    b"NATS/1.0\r\nX Y: z\r\n\r\n",
    b"NATS/1.0\r\nA: \xff\xfe\r\n\r\n",
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0 nonsense\r\n\r\n",
];

#[tokio::test(flavor = "multi_thread")]
async fn header_lines_that_nobody_can_read_end_no_connection_and_no_auction() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let nats = Nats::start(1, directory.path()).await?;
    let gateway = Gateway::start(&nats).await?;
    let _honest = Bidder::start(&nats, 1, true).await?;
    let mut hostile = Raw::connect(&nats, 2).await?;
    let (subject, own) = (registration_subject(&token(2)), registration(2, 1));
    let registered = async { while hostile.publish(&subject, b"NATS/1.0\r\n\r\n", &own).await.is_err() {} };
    tokio::time::timeout(PATIENCE, registered).await?;
    tokio::try_join!(gateway.knows(1), gateway.knows(2))?;

    // Control: whoever hears the same over async-nats loses its connection with each.
    let victim = nats.connect(Role::Gateway).await?;
    let _heard = victim.subscribe(REGISTRATION_SUBJECTS).await?;
    let connects = |client: &async_nats::Client| client.statistics().connects.load(Ordering::Relaxed);
    for headers in MALFORMED {
        let shown = String::from_utf8_lossy(headers).into_owned();
        let before = connects(&victim);
        let lost = async {
            // The server may not have its subscription yet, or again.
            while connects(&victim) == before {
                hostile.publish(&subject, headers, &own).await?;
            }
            anyhow::Ok(())
        };
        tokio::time::timeout(PATIENCE, lost).await.with_context(|| shown.clone())??;

        // The registration with these headers is what is stored now, and so is the answer.
        let request = request(Duration::from_secs(30));
        let auction = request.auction_id.clone();
        let window = tokio::spawn({
            let (auction, request) = (gateway.auction.clone(), request.clone());
            async move { auction.gather(&request).await }
        });
        hostile.declines(&auction, headers).await.with_context(|| shown.clone())?;
        let gathered = tokio::time::timeout(PATIENCE / 3, window).await.with_context(|| shown.clone())???;
        assert_eq!(answers_of(&gathered, 1), [&Answer::Quote("{}".to_owned())], "{shown:?}");
        assert_eq!(answers_of(&gathered, 2), [&Answer::Decline("NO_LIQUIDITY".to_owned())], "{shown:?}");
    }
    let (asks, hears) = &gateway.connections;
    ensure!((connects(asks), hears.connects()) == (1, 1), "a connection was lost");

    // A gateway that comes now reads what is stored.
    let second = Gateway::start(&nats).await?;
    tokio::try_join!(second.knows(1), second.knows(2))?;
    let (asks, hears) = &second.connections;
    ensure!((connects(asks), hears.connects()) == (1, 1), "a connection was lost");
    Ok(())
}
