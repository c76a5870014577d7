//! What holds of the payment protocol in every state, and what has to happen in some, so that the check is not an empty one.

use sagas::payment::{Payment, Stage};
use stateright::Property;

use super::{
    Payments,
    chains::{FIRST_SETTLER, FUNDS, HELD, PAYER, State},
    config::{Conduct, Config, Scheme},
    documents::{CAP, PRICES, QUOTES, auction, settler_of},
    fairness,
    plan::Plan,
    world::World,
};

type Holds = fn(&Payments, &World) -> bool;

/// Names of properties that tests ask for.
pub mod names {
    /// Released and refunded exclude each other.
    pub const EXCLUSIVE: &str = "at no second both the release and the refund are taken";
    /// Money is conserved.
    pub const CONSERVED: &str = "money is conserved";
    /// One deposit.
    pub const ONE_DEPOSIT: &str = "at most one deposit takes effect";
    /// Who is paid delivered.
    pub const PAID_DELIVERED: &str = "the settler that is paid delivered";
    /// Who delivered is not robbed.
    pub const DELIVERED_KEPT: &str = "no reservation is taken from a settler that delivered for it in time";
    /// Who delivered can be paid.
    pub const DELIVERED_PAYABLE: &str = "a settler that delivered for its settled reservation in time can be paid";
    /// The payer's losses.
    pub const PAYER_KEPT: &str =
        "the payer pays what a settler asked for that delivered, never more than its cap, or nothing";
    /// One delivery.
    pub const ONE_DELIVERY: &str = "at most one delivery counts";
    /// The journal is true.
    pub const JOURNAL_TRUE: &str = "what the journal says of the chains is so in settled blocks";
    /// A failure is true.
    pub const FAILURE_TRUE: &str = "a payment that failed for want of a delivery was not delivered";
    /// No money is left behind.
    pub const NOTHING_STRANDED: &str = "nothing can come into escrow once a payment rests without a deposit";
    /// The engine agrees with itself.
    pub const ENGINE_AGREES: &str = "what the handlers lead to is decided and legal, and ends do not change";
    /// Journaled before it is sent.
    pub const JOURNALED: &str = "what a node is shown is journaled";
    /// An end is reached.
    pub const RESTS: &str = "the payment comes to rest, and the money out of the escrow, once faults are over";
    /// An end is reached on every way.
    pub const ALL_REST: &str = "on every way on which nothing is forgotten or taken back the payment comes to rest";
}

/// The properties of a check under these bounds.
pub fn all(config: &Config) -> Vec<Property<Payments>> {
    let always: [(&'static str, Holds); 14] = [
        (names::EXCLUSIVE, exclusive),
        (names::CONSERVED, |_, world| world.source.head.escrow.balances.iter().sum::<u16>() == FUNDS),
        (names::ONE_DEPOSIT, |_, world| world.source.head.escrow.deposits <= 1),
        (names::PAID_DELIVERED, paid_delivered),
        (names::DELIVERED_KEPT, delivered_kept),
        (names::DELIVERED_PAYABLE, delivered_payable),
        (names::PAYER_KEPT, payer_kept),
        (names::ONE_DELIVERY, one_delivery),
        (names::JOURNAL_TRUE, journal_true),
        (names::FAILURE_TRUE, failure_true),
        (names::NOTHING_STRANDED, nothing_stranded),
        (names::ENGINE_AGREES, |model, world| {
            world.fault.is_none() && model.engine.plan(world.journal, world.now) != Plan::Unexpected
        }),
        (names::JOURNALED, |_, world| !world.is_unjournaled),
        (names::RESTS, fairness::comes_to_rest),
    ];
    let eventually = config.is_acyclic().then(|| Property::eventually(names::ALL_REST, fairness::is_at_rest));
    let always = always.into_iter().map(|(name, holds)| Property::always(name, holds)).chain(eventually);
    if config.variant.is_some() {
        return always.collect();
    }
    let mut sometimes: Vec<(&'static str, Holds)> = vec![
        ("a settler of the first auction is paid", |_, world| {
            let escrow = &world.source.settled.escrow;
            escrow.state == State::Released && auction(escrow.quote) == 0
        }),
        ("the money goes back before its time", |model, world| {
            let escrow = &world.source.settled.escrow;
            escrow.state == State::Refunded && escrow.ended < model.config.windows.refund_after
        }),
        ("the money goes back by its time", |model, world| {
            let escrow = &world.source.settled.escrow;
            escrow.state == State::Refunded && escrow.ended >= model.config.windows.refund_after
        }),
        ("a payment fails without a deposit", |model, world| {
            let payment = model.engine.payment(world.journal);
            payment.stage() == Stage::Rest && payment.failed.is_some() && payment.secured.is_none()
        }),
        ("a payment is completed and released", |model, world| {
            let payment = model.engine.payment(world.journal);
            payment.delivery().is_some() && payment.released.is_some()
        }),
    ];
    if config.reassignments > 0 {
        sometimes.push(("a settler of the second auction is paid", |_, world| {
            let escrow = &world.source.settled.escrow;
            escrow.state == State::Released && auction(escrow.quote) == 1
        }));
    }
    if config.silent_verifiers {
        sometimes.push(("what was delivered and not attested goes back", |model, world| {
            let payment = model.engine.payment(world.journal);
            payment.delivery().is_some() && payment.refunded.is_some()
        }));
    }
    if config.refusals && config.windows.reserve > 0 {
        sometimes.push(("the next quote is awarded and paid", |model, world| {
            let payment = model.engine.payment(world.journal);
            !payment.lapsed.is_empty() && payment.lapsed_reservations.is_empty() && payment.released.is_some()
        }));
    }
    if config.nonces_lost > 0 && config.windows.admission < config.windows.reserve {
        sometimes
            .push(("a second deposit is tried", |model, world| model.engine.payment(world.journal).deposit.count > 1));
    }
    if config.reorganisations > 0 {
        sometimes.push(("a delivery is seen in a second block", |model, world| {
            model.engine.payment(world.journal).seen.as_ref().is_some_and(|seen| seen.block_number > 1)
        }));
    }
    if config.scheme == Scheme::OwnTransaction {
        sometimes.push(("what the payer deposited for nobody goes back", |model, world| {
            let payment = model.engine.payment(world.journal);
            payment.opened.is_some() && payment.refunded.is_some()
        }));
        sometimes.push(("it is proven that the payer's own transaction can't come", |model, world| {
            model.engine.payment(world.journal).ruled_out
        }));
    }
    if config.conduct == Conduct::Reckless {
        sometimes.push(("two settlers deliver", |_, world| {
            (0..QUOTES as u8).filter(|quote| world.destination.settled.has(*quote)).count() > 1
        }));
    }
    always.chain(sometimes.into_iter().map(|(name, holds)| Property::sometimes(name, holds))).collect()
}

fn exclusive(model: &Payments, world: &World) -> bool {
    let (config, escrow) = (&model.config, &world.source.head.escrow);
    let time = world.source_time(config);
    !(escrow.releases(config, time) && escrow.refunds(config, time))
}

fn paid_delivered(_: &Payments, world: &World) -> bool {
    let escrow = &world.source.head.escrow;
    escrow.state != State::Released || world.destination.head.has(escrow.quote)
}

/// Quotes whose settlers delivered in a settled block, while the escrow was reserved for them in one.
fn delivered_for(world: &World) -> impl Iterator<Item = u8> {
    (0..QUOTES as u8).filter(|quote| world.destination.settled.has(*quote) && world.diligent & 1 << quote != 0)
}

fn delivered_kept(model: &Payments, world: &World) -> bool {
    let escrow = &world.source.head.escrow;
    delivered_for(world).all(|quote| {
        let is_its = escrow.quote == quote;
        let is_early = escrow.state == State::Refunded && escrow.ended < model.config.windows.refund_after;
        is_its && !is_early
    })
}

fn delivered_payable(model: &Payments, world: &World) -> bool {
    let time = world.source_time(&model.config);
    if time >= model.config.windows.refund_after || world.source.settled.escrow.state != State::Reserved {
        return true;
    }
    delivered_for(world).all(|quote| {
        let mut escrow = world.source.head.escrow;
        escrow.state == State::Released || escrow.release(&model.config, quote, world.words, time)
    })
}

fn payer_kept(_: &Payments, world: &World) -> bool {
    let escrow = &world.source.head.escrow;
    let [payer, held] = [PAYER, HELD].map(|place| escrow.balances[place]);
    let price = PRICES[usize::from(escrow.quote)];
    match escrow.state {
        State::None | State::Refunded => payer == FUNDS,
        State::Deposited | State::Reserved => payer + held == FUNDS && held <= CAP,
        State::Released => {
            let paid = escrow.balances[FIRST_SETTLER + settler_of(escrow.quote)];
            payer == FUNDS - price && paid == price && price <= CAP && world.destination.head.has(escrow.quote)
        }
    }
}

fn one_delivery(_: &Payments, world: &World) -> bool {
    delivered_for(world).count() <= 1
}

/// The quote that the journal has the money reserved for.
fn awarded(model: &Payments, payment: &Payment) -> Option<u8> {
    payment.award.as_ref().and_then(|award| model.engine.documents.quote_of(award.event.quote_hash))
}

fn journal_true(model: &Payments, world: &World) -> bool {
    let payment = model.engine.payment(world.journal);
    let escrow = &world.source.settled.escrow;
    let award = awarded(model, &payment);
    let is_secured = payment.secured.is_none() || escrow.state != State::None;
    let is_opened = payment.opened.is_none() || escrow.state != State::None && !escrow.is_named;
    let is_reserved =
        payment.secured.is_none() || payment.is_reopened || payment.failed.is_some() || award == Some(escrow.quote);
    let is_released = payment.released.is_none() || escrow.state == State::Released;
    let is_refunded = payment.refunded.is_none() || escrow.state == State::Refunded;
    let is_delivered = payment.delivery().is_none() || award.is_some_and(|award| world.destination.settled.has(award));
    is_secured && is_opened && is_reserved && is_released && is_refunded && is_delivered
}

fn failure_true(model: &Payments, world: &World) -> bool {
    let payment = model.engine.payment(world.journal);
    let escrow = &world.source.settled.escrow;
    // What was reserved for a quote that the payment does not follow is said to be unknown.
    let is_known = payment.failed.as_ref().is_some_and(|failed| {
        failed.failure.retry_classification != Some(events::failure::RetryClassification::ReconcileThenDecide)
    });
    let is_secured = payment.secured.is_some() && escrow.state != State::None;
    !is_known || !is_secured || !delivered_for(world).any(|quote| quote == escrow.quote)
}

fn nothing_stranded(model: &Payments, world: &World) -> bool {
    let payment = model.engine.payment(world.journal);
    if payment.stage() != Stage::Rest || payment.secured.is_some() || payment.opened.is_some() {
        return true;
    }
    let (config, time) = (&model.config, world.source_time(&model.config));
    let mut own = world.source.head.escrow;
    let own_comes = config.scheme == Scheme::OwnTransaction && !world.is_spent && own.deposit_own(config, time);
    let can_come = (0..QUOTES as u8).any(|quote| {
        let mut escrow = world.source.head.escrow;
        let admission = world.admissions[usize::from(quote)].filter(|_| config.scheme == Scheme::Signature);
        admission.is_some_and(|(amount, until)| escrow.deposit(config, quote, amount, until, time))
    });
    world.source.head.escrow.state == State::None && !can_come && !own_comes
}
