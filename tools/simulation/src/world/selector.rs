//! Quote selectors that payers name, one for each behaviour.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use ed25519_dalek::SigningKey;
use events::{
    Hash32,
    quote::SignedQuote,
    selection::{Choice, SelectorKey, SelectorSigner, SignedChoice},
};
use sagas::ports::{SelectionRequest, Selector, Transient};

use super::ports::PortContext;
use crate::{
    coverage,
    plan::{Chooser, Route},
};

/// The signed choices of selectors: the auction and the quote.
#[derive(Default)]
pub struct Choices(Mutex<BTreeSet<(String, Hash32)>>);

impl Choices {
    fn record(&self, auction_id: &str, quote: Hash32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert((auction_id.to_owned(), quote));
    }

    /// Whether the selector of this auction ever chose this quote.
    pub fn holds(&self, auction_id: &str, quote: Hash32) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&(auction_id.to_owned(), quote))
    }
}

/// The selector that payment `number` names.
pub fn signer(number: usize) -> SelectorSigner {
    let mut seed = [9; 32];
    seed[0] = u8::try_from(number).unwrap_or(u8::MAX);
    SelectorSigner::Ed25519(SigningKey::from_bytes(&seed))
}

/// The key of a selector that no payment names.
fn impostor() -> SelectorSigner {
    SelectorSigner::Ed25519(SigningKey::from_bytes(&[8; 32]))
}

/// The selectors, as one process reaches them.
#[async_trait]
impl Selector for PortContext {
    async fn choose(&self, request: &SelectionRequest) -> Result<SignedChoice, Transient> {
        self.process.crash_point().await;
        if self.world.strikes(&self.random, "a call to the selector fails", self.world.plan.faults.selector) {
            return Err(Transient::unreachable("the bus is away"));
        }
        let named = self.world.plan.payments.iter().enumerate().find_map(|(number, payment)| match payment.route {
            Route::Selector(chooser) if signer(number).key() == request.selector => Some((chooser, signer(number))),
            _ => None,
        });
        let Some((chooser, signer)) = named else { return Err(Transient::misconfigured("there is no such selector")) };
        coverage::party(match chooser {
            Chooser::Cheapest => "selector chooses the cheapest",
            Chooser::Fickle => "selector chooses another each time",
            Chooser::Refusing => "selector takes none",
            Chooser::Silent => "selector is silent",
            Chooser::Forging => "selector signs with a wrong key",
            Chooser::Inventing => "selector chooses what was not shown",
        });
        if chooser == Chooser::Silent {
            self.rest(Duration::from_secs(2)).await;
            return Err(Transient::unreachable("the selector is silent"));
        }
        self.rest(Duration::from_millis(self.random.number(1..=800))).await;
        let choice = self.choice(chooser, request, &signer.key());
        let signed = match chooser {
            Chooser::Forging => choice.sign(&impostor()),
            _ => choice.sign(&signer),
        };
        if let (Some(quote), true) = (choice.quote_hash, chooser != Chooser::Forging) {
            self.world.choices.record(&request.auction_id, quote);
        }
        self.world.note(format!("{chooser:?} chooses {:?} for {}", choice.quote_hash, request.auction_id));
        self.process.crash_point().await;
        Ok(signed)
    }
}

impl PortContext {
    fn choice(&self, chooser: Chooser, request: &SelectionRequest, key: &SelectorKey) -> Choice {
        let shown = request.shown();
        let taken = match chooser {
            Chooser::Refusing => return Choice::none(shown, Some("ALL_TOO_DEAR".to_owned())),
            Chooser::Inventing => Some(Hash32::sha256(key.to_string())),
            Chooser::Fickle => Some(self.random.pick(&request.quotes)),
            Chooser::Cheapest | Chooser::Silent | Chooser::Forging => {
                let quotes = request.documents.iter().filter_map(|document| SignedQuote::parse(document).ok());
                quotes.min_by_key(|quote| (quote.quote().source_amount, quote.hash())).map(|quote| quote.hash())
            }
        };
        match taken {
            Some(taken) => Choice::of(shown, taken),
            None => Choice::none(shown, Some("NONE_READABLE".to_owned())),
        }
    }
}
