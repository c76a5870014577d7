//! The plan of a run: its parties and fault rates, drawn from the seed before the run begins.

mod adversity;
mod families;
mod faults;
mod lapses;
mod verifiers;

use std::time::Duration;

use events::Family;

pub use self::adversity::{Adversities, ClockPlan, ClockStep, EpochPlan, Theft};
pub use self::faults::Faults;
use self::faults::faults;
pub use self::lapses::{LapsesPlan, Offer};
pub use self::verifiers::{Conduct, MemberPlan, Span, VerifiersPlan};
use crate::random::RandomSource;

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
    /// Delivers twice, the second time in other terms, for the proxy takes the same only once; asks to be paid at once.
    Twice,
    /// Never delivers, asks to be paid, and brings forged attestations and reports.
    Liar,
    /// Delivers one unit less, and asks to be paid.
    WrongAmount,
    /// Delivers to itself, and asks to be paid.
    WrongRecipient,
    /// Delivers another token, and asks to be paid.
    WrongToken,
    /// Sends documents that are not quotes.
    Malformed,
    /// Bids after the deadline.
    LateBidder,
    /// Sends quotes signed by another settler, or for another auction.
    Impostor,
    /// Asks for more than the payer permitted.
    Greedy,
    /// Declines.
    Declining,
    /// Agrees to its award and never delivers.
    Fading,
    /// Delivers only when its promise is over, which the proxy refuses.
    Overdue,
    /// Agrees to its award, and dies before it delivers or right after.
    Dying,
    /// Refuses its first award of each payment, and stands by the next.
    Reluctant,
}

/// Behaviours of settlers that win auctions and do not deliver as quoted.
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
    /// Seconds from its quote to the end of its promise; to the end that the payer allows when `None`.
    pub promise: Option<u64>,
    /// What it answers where the money is in escrow already.
    pub offer: Offer,
    /// Whether it delivers out of escrows that were reassigned, or that hold more than its price. One of an older version does not.
    pub follows: bool,
}

/// How the payer of a payment behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Funding {
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

/// An outage of all verifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
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
    pub funding: Funding,
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
    /// Its family.
    pub family: Family,
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
    /// It crashes after this many calls of its ports; the processes started after it draw anew.
    pub dies_after: Option<u64>,
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
    /// Fault rates.
    pub faults: Faults,
    /// Calls between two crashes of a process, on average; 0 for none.
    pub crash_every: u64,
    /// When all faults stop, from the start of the run.
    pub faults_end_after: Duration,
    /// Submitter accounts on each chain.
    pub submitters: usize,
    /// The fulfillment verifiers.
    pub verifiers: VerifiersPlan,
    /// When no verifier answers anybody, from the start of the run.
    pub verifier_outage: Option<Outage>,
    /// Who follows a settler that does not deliver, and who gets in the way.
    pub lapses: LapsesPlan,
    /// The submitter whose key an attacker has.
    pub theft: Option<Theft>,
    /// The clocks of the gateway's processes, by their places; right where there is none.
    pub gateway_clocks: Vec<ClockPlan>,
    /// The clocks of the settlers, by their places; right where there is none.
    pub settler_clocks: Vec<ClockPlan>,
    /// The epochs of the journal that follow the first.
    pub epochs: Vec<EpochPlan>,
}

impl Plan {
    /// The plan of `seed`.
    pub fn draw(seed: u64) -> Self {
        if families::are_in(seed) { Self::mixed(seed) } else { Self::whole(seed, None) }
    }

    fn whole(seed: u64, families: Option<(Family, Family)>) -> Self {
        let plan = Self::drawn(seed);
        let plan = match families {
            Some(pair) => plan.with_families(seed, pair),
            None => plan,
        };
        let plan = if lapses::are_in(seed) { plan.with_lapses(seed) } else { plan };
        plan.with(seed, Adversities::draw(seed))
    }

    fn drawn(seed: u64) -> Self {
        let random = RandomSource::new(seed, "plan");
        let chains = (0..2)
            .map(|_| ChainPlan {
                family: Family::Evm,
                block: random.number(4..=12),
                depth: random.number(1..=4),
                by_tag: random.chance(500),
            })
            .collect();
        // Two processes in most runs, so that they get into each other's way.
        let gateways = (0..if random.chance(750) { 2 } else { 1 })
            .map(|_| {
                let skew = random.number(0..=4000);
                GatewayPlan { skew_ms: skew as i64 - 2000, dies_after: None }
            })
            .collect();
        let settlers = settlers(&random);
        let count = random.pick(&[1, 1, 2, 2, 3]);
        let routes = RandomSource::new(seed, "routes");
        let payments: Vec<_> = (0..count).map(|_| payment(&random, &routes)).collect();
        let faults = faults(&random, &routes);
        let crash_every = if random.chance(400) { random.number(20..=400) } else { 0 };
        let verifiers = VerifiersPlan::draw(&RandomSource::new(seed, "verifiers"));
        let faults_end_after = Duration::from_secs(random.number(60..=600));
        let faults_end_after = if verifiers.faults_end_first { faults_end_after / 30 } else { faults_end_after };
        let absences = RandomSource::new(seed, "absences");
        let verifier_outage = absences.chance(200).then(|| Outage {
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
            faults_end_after,
            submitters: random.pick(&[1, 1, 2]),
            verifiers,
            verifier_outage,
            lapses: LapsesPlan::default(),
            theft: None,
            gateway_clocks: Vec::new(),
            settler_clocks: Vec::new(),
            epochs: Vec::new(),
        }
    }

    /// The plan of `seed` with chains and nodes at their worst.
    pub fn storm(seed: u64) -> Self {
        Self::draw(seed).at_worst()
    }

    /// The plan with chains and nodes at their worst.
    pub fn at_worst(mut self) -> Self {
        let Faults { lagging, on_fork, reorganisation, dropped, stuck, .. } = &mut self.faults;
        (*lagging, *on_fork, *reorganisation, *dropped, *stuck) = (150, 150, 150, 200, 200);
        self
    }

    /// The plan of `seed` without anything that goes wrong, with one honest settler and one payment.
    pub fn fair(seed: u64) -> Self {
        let mut plan = Self::drawn(seed);
        plan.faults = Faults::default();
        plan.verifiers = plan.verifiers.calmed();
        plan.verifier_outage = None;
        plan.crash_every = 0;
        plan.gateways.truncate(1);
        plan.payments.truncate(1);
        let payment = &mut plan.payments[0];
        (payment.funding, payment.route, payment.poison) = (Funding::Sound, Route::Auction, None);
        plan.settlers.truncate(1);
        plan.settlers[0] = SettlerPlan { character: Character::Honest, margin: 2, ..plan.settlers[0] };
        plan
    }
}

fn settlers(random: &RandomSource) -> Vec<SettlerPlan> {
    let mut characters = Vec::new();
    for _ in 0..random.number(1..=2) {
        characters.push(match random.number(0..=9) {
            0..=5 => Character::Honest,
            6 => Character::Gone,
            7 => Character::Idle,
            8 => Character::LateBidder,
            _ => Character::Declining,
        });
    }
    for _ in 0..random.number(0..=2) {
        characters.push(random.pick(&ROGUES));
    }
    characters
        .into_iter()
        .map(|character| SettlerPlan {
            character,
            margin: random.number(1..=9),
            answers_after: Duration::from_millis(random.number(10..=4000)),
            promise: None,
            offer: Offer::AtMost,
            follows: true,
        })
        .collect()
}

fn payment(random: &RandomSource, routes: &RandomSource) -> PaymentPlan {
    let source = random.number(0..=1) as usize;
    PaymentPlan {
        at: Duration::from_millis(random.number(100..=60_000)),
        corridor: (source, 1 - source),
        coin: random.chance(200),
        amount: random.number(1_000..=1_000_000),
        headroom: random.number(8..=20),
        quote: random.number(6..=15),
        reserve: random.number(30..=120),
        fulfill: random.number(60..=240),
        refund: random.number(0..=200),
        funding: match random.number(0..=15) {
            0 => Funding::NoAllowance,
            1 => Funding::Withdraws,
            2 => Funding::Wavers,
            _ => Funding::Sound,
        },
        replays: random.number(0..=2),
        bare_permit: random.chance(150),
        shares_payer: random.chance(300),
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
