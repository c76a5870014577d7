//! What is to happen in a run, drawn from its seed before it begins.

use std::time::Duration;

use crate::dice::Dice;

/// How a settler behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Character {
    /// Bids, delivers once, fetches its money.
    Honest,
    /// Bids and delivers, but looks after its money only shortly before the refund window.
    Idle,
    /// Bids and delivers, and is never seen again.
    Gone,
    /// Bids and is never seen again.
    Vanishing,
    /// Delivers as late as it can, at times too late.
    Tardy,
    /// Delivers twice, the second time in other terms, for the proxy takes the same only once.
    Twice,
    /// Never delivers, and brings forged attestations and reports.
    Liar,
    /// Delivers one unit less.
    WrongAmount,
    /// Delivers to itself.
    WrongRecipient,
    /// Delivers another token.
    WrongToken,
    /// Sends what is no quote.
    Malformed,
    /// Bids after the deadline.
    LateBidder,
    /// Sends quotes signed by another settler, or for another auction.
    Impostor,
    /// Asks for more than the payer permitted.
    Greedy,
    /// Declines.
    Declining,
}

/// Characters that win auctions and then do not keep their word.
const ROGUES: [Character; 12] = [
    Character::Vanishing,
    Character::Vanishing,
    Character::Tardy,
    Character::Tardy,
    Character::Twice,
    Character::Liar,
    Character::WrongAmount,
    Character::WrongRecipient,
    Character::WrongToken,
    Character::Malformed,
    Character::Impostor,
    Character::Greedy,
];

/// A settler that will be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettlerPlan {
    /// How it behaves.
    pub character: Character,
    /// What it asks beyond the amount it delivers, in thousandths.
    pub margin: u64,
    /// How long it takes to answer.
    pub answers_after: Duration,
}

/// How the payer of a payment behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// It has the money and gave Permit2 its allowance.
    Sound,
    /// It never gave an allowance.
    NoAllowance,
    /// It takes the allowance away shortly after it has signed.
    Withdraws,
    /// It takes the allowance away and gives it again a little later.
    Wavers,
}

/// How a quote selector behaves that a payer named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chooser {
    /// Takes the cheapest quote.
    Cheapest,
    /// Takes another quote each time it is asked.
    Fickle,
    /// Takes none.
    Refusing,
    /// Never answers.
    Silent,
    /// Signs with the key of another.
    Forging,
    /// Takes a quote that it was not shown.
    Inventing,
}

const CHOOSERS: [Chooser; 9] = [
    Chooser::Cheapest,
    Chooser::Cheapest,
    Chooser::Cheapest,
    Chooser::Fickle,
    Chooser::Fickle,
    Chooser::Refusing,
    Chooser::Silent,
    Chooser::Forging,
    Chooser::Inventing,
];

/// How the quote of a payment is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// The payer signs first, and the gateway awards the best quote.
    Auction,
    /// The payer signs first, and its selector chooses.
    Selector(Chooser),
    /// The payer collects quotes, and signs for the one that it awards.
    Batch {
        /// Whether it awards another one at the same time, as another payment.
        twice: bool,
        /// Whether it gives up at the first award of unknown outcome.
        abandons: bool,
    },
}

/// A time in which the journal has a payment's stream for unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Poison {
    /// When it begins, from the payment's submission.
    pub after: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A time in which somebody is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Away {
    /// When it begins, from the start of the run.
    pub after: Duration,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A payment that will be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaymentPlan {
    /// When it is submitted, from the start of the run.
    pub at: Duration,
    /// Source and destination, as indices of the chains.
    pub corridor: (usize, usize),
    /// Whether the recipient gets the destination's own coin instead of its token.
    pub coin: bool,
    /// Smallest units that the recipient gets.
    pub amount: u64,
    /// What the payer allows beyond it, in thousandths.
    pub headroom: u64,
    /// Seconds for quotes.
    pub quote: u64,
    /// Seconds from the end of quotes to the end of the deposit.
    pub reserve: u64,
    /// Seconds from there to the end of the delivery.
    pub fulfill: u64,
    /// Seconds from there to the refund.
    pub refund: u64,
    /// How the payer behaves.
    pub means: Means,
    /// How often the client asks again under the same id.
    pub replays: u64,
    /// Whether the payer signs for any settlement, without a witness (`EVM_PERMIT2`).
    pub bare_permit: bool,
    /// Whether the same payer makes the next payment too.
    pub shares_payer: bool,
    /// How its quote is found.
    pub route: Route,
    /// When its stream is unreadable.
    pub poison: Option<Poison>,
}

/// How a chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainPlan {
    /// Seconds from block to block.
    pub block: u64,
    /// Blocks until one is settled.
    pub depth: u64,
    /// Whether the gateway goes by the chain's own finality tag instead of by confirmations.
    pub by_tag: bool,
}

/// A process of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GatewayPlan {
    /// Its clock against the world's, in milliseconds.
    pub skew_ms: i64,
    /// It dies after this many calls of its ports, in the first life; later lives draw anew.
    pub dies_after: Option<u64>,
}

/// How often what goes wrong, in a thousand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Faults {
    /// An append that is refused before it is stored.
    pub refused: u32,
    /// An append that is stored and not acknowledged.
    pub unacknowledged: u32,
    /// An append that is not acknowledged and stored only later, or never.
    pub stored_late: u32,
    /// An append that is told a conflict.
    pub conflict: u32,
    /// A read of the journal that fails.
    pub unread: u32,
    /// A replay that ends before the head.
    pub stale: u32,
    /// A wake-up that comes twice, late, or behind a later one.
    pub wake_ups: u32,
    /// A shard that changes hands, at each second.
    pub takeover: u32,
    /// A call to a node that is lost on the way.
    pub request_lost: u32,
    /// A call to a node whose answer is lost.
    pub answer_lost: u32,
    /// A call that the node refuses.
    pub refuses: u32,
    /// A call that is answered late.
    pub slow: u32,
    /// A call that a lagging node answers.
    pub lagging: u32,
    /// A call that a node on a dropped branch answers.
    pub on_fork: u32,
    /// A call that a node answers that lies about its head.
    pub lying: u32,
    /// A sleep that ends early, or late.
    pub sleep: u32,
    /// A call of the verifier that is not answered, answered late, or with a wrong signature.
    pub verifier: u32,
    /// A call of the auction that fails before or after its effect.
    pub auction: u32,
    /// A block that comes with a reorganisation.
    pub reorganisation: u32,
    /// A transaction that the pool forgets, at each block.
    pub dropped: u32,
    /// A transaction that is not mined for a time, at each block.
    pub stuck: u32,
    /// A spike of the base fee, at each block.
    pub spike: u32,
    /// A stranger that meddles, at each block.
    pub stranger: u32,
    /// A nonce that is not given out because the ledger does not answer, before or after it was stored.
    pub ledger: u32,
    /// A call of a selector that fails.
    pub selector: u32,
    /// A call of the parking that fails.
    pub parking: u32,
    /// A settler's report that is lost or comes twice.
    pub reports: u32,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The chains.
    pub chains: Vec<ChainPlan>,
    /// The processes of the gateway.
    pub gateways: Vec<GatewayPlan>,
    /// The settlers.
    pub settlers: Vec<SettlerPlan>,
    /// The payments.
    pub payments: Vec<PaymentPlan>,
    /// What goes wrong.
    pub faults: Faults,
    /// Calls between two deaths of a process, on average; 0 for none.
    pub crash_every: u64,
    /// When all faults stop, from the start of the run.
    pub calm_after: Duration,
    /// Submitter accounts on each chain.
    pub submitters: usize,
    /// When the verifier answers nobody, from the start of the run.
    pub verifier_away: Option<Away>,
}

impl Plan {
    /// The plan of `seed`.
    pub fn draw(seed: u64) -> Self {
        let dice = Dice::new(seed, "plan");
        let chains = (0..2)
            .map(|_| ChainPlan { block: dice.number(4..=12), depth: dice.number(1..=4), by_tag: dice.chance(500) })
            .collect();
        // Two processes in most runs, so that they get into each other's way.
        let gateways = (0..if dice.chance(750) { 2 } else { 1 })
            .map(|_| {
                let skew = dice.number(0..=4000);
                GatewayPlan { skew_ms: skew as i64 - 2000, dies_after: None }
            })
            .collect();
        let settlers = settlers(&dice);
        let count = dice.pick(&[1, 1, 2, 2, 3]);
        let routes = Dice::new(seed, "routes");
        let payments: Vec<_> = (0..count).map(|_| payment(&dice, &routes)).collect();
        let faults = faults(&dice, &routes);
        let crash_every = if dice.chance(400) { dice.number(20..=400) } else { 0 };
        let calm_after = Duration::from_secs(dice.number(60..=600));
        let absences = Dice::new(seed, "absences");
        let verifier_away = absences.chance(200).then(|| Away {
            after: Duration::from_secs(absences.number(0..=300)),
            lasts: Duration::from_secs(absences.number(60..=400)),
        });
        Self {
            chains,
            gateways,
            settlers,
            payments,
            faults,
            crash_every,
            calm_after,
            submitters: dice.pick(&[1, 1, 2]),
            verifier_away,
        }
    }

    /// The plan of `seed` with chains and nodes at their worst.
    pub fn storm(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        let Faults { lagging, on_fork, reorganisation, dropped, stuck, .. } = &mut plan.faults;
        (*lagging, *on_fork, *reorganisation, *dropped, *stuck) = (150, 150, 150, 200, 200);
        plan
    }

    /// The plan of `seed` without anything that goes wrong, with one honest settler and one payment.
    pub fn fair(seed: u64) -> Self {
        let mut plan = Self::draw(seed);
        plan.faults = Faults::default();
        plan.verifier_away = None;
        plan.crash_every = 0;
        plan.gateways.truncate(1);
        plan.payments.truncate(1);
        let payment = &mut plan.payments[0];
        (payment.means, payment.route, payment.poison) = (Means::Sound, Route::Auction, None);
        plan.settlers.truncate(1);
        plan.settlers[0] = SettlerPlan { character: Character::Honest, margin: 2, ..plan.settlers[0] };
        plan
    }
}

fn settlers(dice: &Dice) -> Vec<SettlerPlan> {
    let mut characters = Vec::new();
    for _ in 0..dice.number(1..=2) {
        characters.push(match dice.number(0..=9) {
            0..=5 => Character::Honest,
            6 => Character::Gone,
            7 => Character::Idle,
            8 => Character::LateBidder,
            _ => Character::Declining,
        });
    }
    for _ in 0..dice.number(0..=2) {
        characters.push(dice.pick(&ROGUES));
    }
    characters
        .into_iter()
        .map(|character| SettlerPlan {
            character,
            margin: dice.number(1..=9),
            answers_after: Duration::from_millis(dice.number(10..=4000)),
        })
        .collect()
}

fn payment(dice: &Dice, routes: &Dice) -> PaymentPlan {
    let source = dice.number(0..=1) as usize;
    PaymentPlan {
        at: Duration::from_millis(dice.number(100..=60_000)),
        corridor: (source, 1 - source),
        coin: dice.chance(200),
        amount: dice.number(1_000..=1_000_000),
        headroom: dice.number(8..=20),
        quote: dice.number(6..=15),
        reserve: dice.number(30..=120),
        fulfill: dice.number(60..=240),
        refund: dice.number(0..=200),
        means: match dice.number(0..=15) {
            0 => Means::NoAllowance,
            1 => Means::Withdraws,
            2 => Means::Wavers,
            _ => Means::Sound,
        },
        replays: dice.number(0..=2),
        bare_permit: dice.chance(150),
        shares_payer: dice.chance(300),
        route: match routes.number(0..=9) {
            0..=4 => Route::Auction,
            5 | 6 => Route::Selector(routes.pick(&CHOOSERS)),
            _ => Route::Batch { twice: routes.chance(350), abandons: routes.chance(80) },
        },
        poison: routes.chance(100).then(|| Poison {
            after: Duration::from_millis(routes.number(0..=90_000)),
            lasts: Duration::from_secs(routes.number(5..=90)),
        }),
    }
}

/// Some kinds of faults are away in each run, and others rage: a mixture of everything at all times would hide much.
fn faults(dice: &Dice, routes: &Dice) -> Faults {
    let drawn = |dice: &Dice, max: u64| match dice.number(0..=3) {
        0 | 1 => 0,
        2 => dice.number(1..=max / 4 + 1) as u32,
        _ => dice.number(1..=max) as u32,
    };
    let rate = |max| drawn(dice, max);
    Faults {
        refused: rate(200),
        unacknowledged: rate(300),
        stored_late: rate(150),
        conflict: rate(300),
        unread: rate(150),
        stale: rate(500),
        wake_ups: rate(500),
        takeover: rate(60),
        request_lost: rate(60),
        answer_lost: rate(60),
        refuses: rate(60),
        slow: rate(200),
        lagging: rate(150),
        on_fork: rate(150),
        lying: rate(60),
        sleep: rate(200),
        verifier: rate(500),
        auction: rate(300),
        reorganisation: rate(150),
        dropped: rate(200),
        stuck: rate(200),
        spike: rate(150),
        stranger: rate(300),
        ledger: rate(200),
        selector: drawn(routes, 400),
        parking: drawn(routes, 300),
        reports: drawn(routes, 500),
    }
}
