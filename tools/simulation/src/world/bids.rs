//! The answers of settlers of every character to requests for quotes.

use std::{sync::Arc, time::Duration};

use alloy::primitives::U256;
use tokio::time::sleep;

use escrow_abi::contracts::units;
use events::{
    Amount,
    quote::{Quote, SignedQuote},
    time::{from_unix_seconds, unix_seconds},
};
use sagas::ports::{Answer, Bid, RequestForQuotes};

use super::{World, settlers::Settler};
use crate::{
    coverage,
    plan::{Character, Offer},
};

/// How long a quote is firm after the auction.
const FIRM_SECONDS: u64 = 30;

/// Answers a request for quotes.
pub async fn bid(world: Arc<World>, settler: Settler, request: RequestForQuotes) {
    let character = settler.plan.character;
    let now = settler.now(&world);
    let wait = match character {
        Character::LateBidder => (request.quote_deadline - now).to_std().unwrap_or_default() + Duration::from_secs(1),
        _ => settler.plan.answers_after,
    };
    sleep(wait).await;
    coverage::party(named(character));
    let offer = request.escrowed.map(|_| settler.plan.offer);
    if let Some(offer) = offer {
        coverage::party(match offer {
            Offer::AtMost => "settler offers for what is in escrow",
            Offer::Declines => "settler declines what is in escrow",
            Offer::AsksMore => "settler asks for more than is in escrow",
        });
    }
    let answers = match character {
        _ if offer == Some(Offer::Declines) => vec![Answer::Decline("NO_INVENTORY".to_owned())],
        Character::Malformed => {
            vec![Answer::Quote("{\"type\": \"GatewayQuote\"".to_owned()), Answer::Malformed("no JSON".to_owned())]
        }
        Character::Declining => vec![Answer::Decline("NO_INVENTORY".to_owned())],
        Character::Impostor => impostures(&world, &settler, &request),
        _ => quote(&world, &settler, &request).into_iter().map(answer).collect(),
    };
    for answer in answers {
        let bid = Bid { settler: settler.did.token(), received_at: world.now(), answer };
        world.auctions.bid(&request.auction_id, bid.clone());
        // A message bus delivers at least once.
        world.auctions.bid(&request.auction_id, bid);
    }
}

fn named(character: Character) -> &'static str {
    match character {
        Character::Honest => "settler is honest",
        Character::Idle => "settler fetches its money late",
        Character::Gone => "settler delivers and is gone",
        Character::Vanishing => "settler vanishes",
        Character::Tardy => "settler delivers late",
        Character::Twice => "settler delivers twice",
        Character::Liar => "settler claims without a delivery",
        Character::WrongAmount => "settler delivers another amount",
        Character::WrongRecipient => "settler delivers to another",
        Character::WrongToken => "settler delivers another token",
        Character::Malformed => "settler sends no quote",
        Character::LateBidder => "settler bids late",
        Character::Impostor => "settler bids as another",
        Character::Greedy => "settler asks too much",
        Character::Declining => "settler declines",
        Character::Fading => "settler agrees and does not deliver",
        Character::Overdue => "settler delivers after its promise",
        Character::Dying => "settler dies",
        Character::Reluctant => "settler agrees the second time",
    }
}

fn answer(quote: SignedQuote) -> Answer {
    Answer::Quote(quote.document().to_owned())
}

/// A quote of another settler under one's own name, and one's own for another auction.
fn impostures(world: &World, settler: &Settler, request: &RequestForQuotes) -> Vec<Answer> {
    let others = world.settlers().iter().filter(|other| other.did != settler.did);
    let stolen = others.filter_map(|other| quote(world, other, request)).map(answer).next();
    let elsewhere = RequestForQuotes { auction_id: "pay_another".to_owned(), ..request.clone() };
    stolen.into_iter().chain(quote(world, settler, &elsewhere).map(answer)).collect()
}

fn quote(world: &World, settler: &Settler, request: &RequestForQuotes) -> Option<SignedQuote> {
    let destination = request.terms.destination().first()?.clone();
    let amount = units(request.terms.fulfillment_amount);
    let price = amount + amount * U256::from(settler.plan.margin) / U256::from(1000) + U256::from(1);
    let price = match (settler.plan.character, request.escrowed) {
        (Character::Greedy, _) => amount * U256::from(10),
        (_, Some(escrowed)) => match settler.plan.offer {
            Offer::AsksMore => price.max(units(escrowed.amount) + U256::from(1)),
            Offer::AtMost | Offer::Declines => price.min(units(escrowed.amount)),
        },
        (_, None) => price,
    };
    let account = |chain| Some(world.chain(chain)?.account(&settler.name));
    let source_chain = request.terms.source.asset().chain();
    let (payout_account, delivery_account) = (account(source_chain)?, account(destination.asset().chain())?);
    let deadline = request.escrow.fulfillment_deadline;
    let promise = settler.plan.promise.map_or(deadline, |promise| unix_seconds(settler.now(world)) + promise);
    let quote = Quote {
        kind: Quote::kind(),
        auction_id: request.auction_id.clone(),
        terms_hash: request.terms_hash,
        settler: settler.did.clone(),
        source_chain: source_chain.clone(),
        source_amount: Amount::new(price)?,
        payout_account,
        escrow_contract: request.escrow.contract.clone(),
        destination,
        fulfillment_amount: request.terms.fulfillment_amount,
        delivery_account,
        fulfillment_proxy: request.fulfillment_proxies.first()?.clone(),
        fulfill_by: from_unix_seconds(promise.min(deadline))?,
        valid_until: from_unix_seconds(unix_seconds(request.quote_deadline) + FIRM_SECONDS)?,
    };
    quote.sign(&settler.key, from_unix_seconds(unix_seconds(settler.now(world)))?).ok()
}
