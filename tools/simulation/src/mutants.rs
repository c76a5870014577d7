//! Deliberately broken variants of the engine, and the number of seeds within which the simulation must catch each.
//!
//! Where a variant breaks something, `events::mutant!` names it. Some variants that come to mind are not in the list, since
//! a second line of defence makes them harmless:
//!
//! - to take an append of unknown outcome for one that failed: the expected position fences the next one;
//! - to sign with a nonce of its own for each try: the gap is found and filled;
//! - to look only for the newest version of a repriced transaction: the escrow itself is looked at before;
//! - to sign a deposit without having told the winner: it does not answer then, and without its word there is no deposit;
//! - to go on with a shard that was lost: as before, and every effect is repeated from journaled bytes;
//! - to forget which members of a verifier set have signed: they are asked again, and say the same.

#[cfg(debug_assertions)]
use crate::{
    plan::Plan,
    run::{Report, run},
    world::SetupError,
};

/// A broken variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mutant {
    /// Its name, as in the code.
    pub name: &'static str,
    /// What it does wrong.
    pub fault: &'static str,
    /// Seeds within which it must be caught.
    pub within: u64,
    /// The worlds in which it shows.
    pub worlds: Worlds,
}

/// Which plans are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Worlds {
    /// Any.
    All,
    /// Those with chains and nodes at their worst.
    Storms,
    /// Those in which reservations lapse.
    Lapses,
}

const fn mutant(name: &'static str, within: u64, fault: &'static str) -> Mutant {
    Mutant { name, fault, within, worlds: Worlds::All }
}

const fn in_storms(mutant: Mutant) -> Mutant {
    Mutant { worlds: Worlds::Storms, ..mutant }
}

const fn in_lapses(mutant: Mutant) -> Mutant {
    Mutant { worlds: Worlds::Lapses, ..mutant }
}

/// The broken variants.
pub const MUTANTS: [Mutant; 37] = [
    mutant("accepted-award-lapses", 200, "another quote is awarded although the winner has agreed"),
    mutant("answer-not-awaited", 200, "a deposit is signed for a winner that has not agreed"),
    mutant("broadcast-before-journal", 20, "a deposit is broadcast before it is stored"),
    mutant("reprice-before-journal", 100, "a repriced transaction is broadcast before it is stored"),
    mutant("unknown-is-stored", 200, "an append of unknown outcome is taken for stored"),
    mutant("conflict-ignored", 100, "an append that conflicts is taken for stored"),
    mutant("time-out-is-failure", 100, "half a minute without a receipt ends the payment"),
    mutant("new-attempt-without-proof", 100, "half a minute without a receipt leads to another attempt"),
    in_storms(mutant(
        "superseded-by-the-newest-state",
        400,
        "a nonce counts as used when the newest block has it used",
    )),
    mutant("nonce-from-the-chain", 100, "nonces come from the chain and not from the ledger"),
    mutant("admission-not-waited-out", 400, "a reverted deposit ends the payment while anyone may still send it"),
    mutant("delivery-without-depth", 100, "a delivery in the newest block counts as settled"),
    mutant("delivery-amount-not-compared", 200, "a delivery of another amount counts"),
    mutant("refund-before-evidence", 200, "a payment fails by the gateway's clock, without a settled block"),
    mutant("attestation-not-checked", 100, "what the verifier answers is believed"),
    mutant("threshold-one-less", 50, "one verifier of a set fewer than its threshold is taken for its word"),
    mutant("member-counted-twice", 50, "a verifier of a set counts twice"),
    mutant("one-speaks-for-all", 200, "the first verifier of a set that states a non-delivery is taken for its word"),
    mutant("members-in-turn", 200, "the verifiers of a set are asked one after the other"),
    mutant("one-answer-settles", 400, "one node's word that a block is settled is believed"),
    mutant("newest-is-settled", 100, "the newest block counts as settled"),
    mutant("cap-not-compared", 300, "a quote above what the payer permitted wins"),
    mutant("release-left-to-the-settler", 200, "the gateway never brings a release itself"),
    mutant("completed-is-not-terminal", 20, "a completed payment is driven as if it were not"),
    mutant("take-over-forgets", 100, "who takes a shard over drives only what is new"),
    mutant("timers-not-armed", 100, "the timer of a payment that has waited long for its release is not armed again"),
    mutant("folded-wait-forgotten", 100, "a payment that waits without a task is forgotten"),
    mutant("folded-timer-not-armed", 200, "nothing wakes a payment that waits without a task for a time"),
    mutant("projection-skips-a-commit", 20, "the read model leaves one commit out"),
    in_lapses(mutant("escrowed-cap-not-compared", 150, "a quote above what is in escrow wins it")),
    in_lapses(mutant("faded-settler-wins-again", 50, "a settler that did not deliver is asked again")),
    in_lapses(mutant(
        "reassigned-before-evidence",
        50,
        "a reservation lapses by the gateway's clock, with nobody's word for it",
    )),
    in_lapses(mutant("reassigned-taken-for-granted", 50, "a reassignment that was sent counts as settled")),
    in_lapses(mutant("round-keeps-attestations", 100, "words about a reservation count for the next")),
    in_lapses(mutant("older-verifiers-follow", 50, "verifiers are taken to follow reassignments that do not")),
    in_lapses(mutant("older-settlers-follow", 250, "settlers are taken to follow reassignments that do not")),
    in_lapses(mutant("any-reservation-is-mine", 50, "a settler delivers while the escrow is reserved for another")),
];

/// The first run of `mutant` that breaks something that must hold, from seed 1 on; `None` when none does in time.
///
/// # Errors
/// [`SetupError`] when there is nothing to run on.
#[cfg(debug_assertions)]
pub fn hunt(mutant: &Mutant) -> Result<Option<Report>, SetupError> {
    events::mutants::choose(Some(mutant.name));
    let mut found = Ok(None);
    for seed in 1..=mutant.within {
        let plan = match mutant.worlds {
            Worlds::All => Plan::draw(seed),
            Worlds::Storms => Plan::storm(seed),
            Worlds::Lapses => Plan::lapsing(seed),
        };
        match run(seed, plan, false) {
            Ok(report) if report.violation.is_some() => {
                found = Ok(Some(report));
                break;
            }
            Ok(_) => {}
            Err(error) => {
                found = Err(error);
                break;
            }
        }
    }
    events::mutants::choose(None);
    found
}
