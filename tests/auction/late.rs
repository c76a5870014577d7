//! What came in time counts, and nothing that came later: whatever a settler says after it, and whatever a gateway's own clock
//! says.

use chrono::{DateTime, TimeDelta};

use super::*;

/// Says `document` in the auction of `request`, and waits until it is stored.
async fn say(bidder: &Bidder, number: usize, request: &RequestForQuotes, document: &str) -> Result<()> {
    let subject = bid_subject(&token(number), &request.auction_id);
    let bid = protocol::write(&Bid::quote(document));
    jetstream::new(bidder.client.clone()).publish(subject, bid.into()).await?.await?;
    Ok(())
}

async fn past(deadline: DateTime<Utc>) -> Result<()> {
    until("the deadline has passed", || async { Utc::now() > deadline }).await
}

#[tokio::test]
async fn what_a_settler_says_too_late_hides_nothing_from_whoever_takes_over() -> Result<()> {
    let server = server().await?;
    let first = Gateway::start(&server).await?;
    let one = Bidder::start(&server, 1, quote("{\"offer\":1}")).await?;
    registered(&first, 1).await?;
    let request = request(Duration::from_secs(6));
    let gathered = tokio::time::timeout(PATIENCE, first.auction.gather(&request)).await??;
    assert_eq!(gathered.bids.len(), 1);
    say(&one, 1, &request, "{\"offer\":2}").await?;
    past(request.quote_deadline).await?;
    for late in ["{\"offer\":3}", "{\"offer\":4}"] {
        say(&one, 1, &request, late).await?;
    }
    drop((first, one));

    let second = Gateway::start(&server).await?;
    let gathered = tokio::time::timeout(PATIENCE, second.auction.gather(&request)).await??;
    assert_eq!(gathered.addressed, [did(1)]);
    let answers: Vec<_> = gathered.bids.iter().map(|bid| &bid.answer).collect();
    assert_eq!(answers, [&Answer::Quote("{\"offer\":2}".to_owned())], "the last in time stands");
    Ok(())
}

/// A gateway whose own clock is so far off.
async fn gateway_by(server: &NatsServer, own_clock: fn() -> DateTime<Utc>) -> Result<Gateway> {
    let (client, heard) = tokio::try_join!(connect(server, Role::Gateway), headerless(server, Role::Gateway))?;
    let options = auction::Options::default();
    let opened = auction::open_by(own_clock, client, heard, options, policies(), None).await?;
    let (auction, service, hints) = opened;
    let service = tokio::spawn(service.run(CancellationToken::new()));
    Ok(Gateway { auction, hints, _service: AbortOnDropHandle::new(service) })
}

fn ahead() -> DateTime<Utc> {
    Utc::now() + TimeDelta::seconds(90)
}

fn behind() -> DateTime<Utc> {
    Utc::now() - TimeDelta::seconds(90)
}

/// Neither are its windows over before anybody could be asked, nor are they open when all others have closed theirs.
#[tokio::test]
async fn a_gateway_whose_clock_is_off_keeps_its_windows_by_the_servers() -> Result<()> {
    let server = server().await?;
    // Settlers need one that stores what they register.
    let _first = Gateway::start(&server).await?;
    let _one = Bidder::start(&server, 1, quote("{}")).await?;
    let _silent = Bidder::start(&server, 2, silence).await?;
    for own_clock in [ahead as fn() -> DateTime<Utc>, behind] {
        let gateway = gateway_by(&server, own_clock).await?;
        until("both are known", || async { gateway.auction.registered().len() == 2 }).await?;
        let request = request(Duration::from_secs(4));
        let gathered = tokio::time::timeout(PATIENCE, gateway.auction.gather(&request)).await??;
        let mut both = vec![did(1), did(2)];
        both.sort();
        assert_eq!(gathered.addressed, both);
        assert_eq!(answer_of(&gathered.bids, &token(1)), Some(Answer::Quote("{}".to_owned())));
        let over = Utc::now() - request.quote_deadline;
        assert!(over.abs() < TimeDelta::seconds(60), "it closed {over} after its deadline");
    }
    Ok(())
}
