//! Fault coverage: how often each fault struck, each kind of party took part and each invariant was checked.
//!
//! A fault that never strikes and an invariant that is never checked prove nothing. So both are counted where they happen,
//! and [`EXPECTED`] lists everything that must happen at least once.

use std::{cell::RefCell, collections::BTreeMap, fmt};

/// Kinds of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An injected fault.
    Fault,
    /// A party that took part, by its behaviour.
    Party,
    /// An invariant that was checked.
    Invariant,
}

/// Counts by kind and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultCoverage(BTreeMap<(Kind, &'static str), u64>);

thread_local! {
    // Each run has a thread of its own.
    static COVERAGE: RefCell<FaultCoverage> = RefCell::default();
}

/// Counts a fault.
pub fn fault(name: &'static str) {
    count(Kind::Fault, name);
}

/// Counts a party.
pub fn party(name: &'static str) {
    count(Kind::Party, name);
}

/// Counts a check of an invariant.
pub fn checked(name: &'static str) {
    count(Kind::Invariant, name);
}

fn count(kind: Kind, name: &'static str) {
    COVERAGE.with_borrow_mut(|coverage| *coverage.0.entry((kind, name)).or_default() += 1);
}

/// Takes the counts of this thread since the last call.
pub fn take() -> FaultCoverage {
    COVERAGE.take()
}

impl FaultCoverage {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.0 {
            *self.0.entry(*name).or_default() += count;
        }
    }

    /// Names that are expected and have no count, and names that have a count and are not expected.
    pub fn at_odds(&self) -> Vec<(Kind, &'static str)> {
        let expected = || EXPECTED.iter().flat_map(|(kind, names)| names.iter().map(|name| (*kind, *name)));
        let missing = expected().filter(|name| !self.0.contains_key(name));
        let unknown = self.0.keys().copied().filter(|name| expected().all(|expected| expected != *name));
        missing.chain(unknown).collect()
    }
}

impl fmt::Display for FaultCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (kind, title) in
            [(Kind::Fault, "faults"), (Kind::Party, "parties"), (Kind::Invariant, "invariants checked")]
        {
            writeln!(f, "{title}")?;
            for ((_, name), count) in self.0.iter().filter(|((counted, _), _)| *counted == kind) {
                writeln!(f, "{count:>12}  {name}")?;
            }
        }
        Ok(())
    }
}

/// All that happens at least once in a few hundred runs.
pub const EXPECTED: [(Kind, &[&str]); 3] = [
    (
        Kind::Fault,
        &[
            "a call to the auction fails",
            "a call to the ledger fails",
            "a call to the parking fails",
            "a call to the selector fails",
            "an account runs out of TRX",
            "answer of a node is lost",
            "append conflicts",
            "append is not acknowledged",
            "append is refused",
            "append is stored late",
            "append is stored never",
            "base fee rises",
            "beginning of an epoch dies half-way",
            "blocks are solidified late",
            "clock drifts",
            "clock of a gateway steps back",
            "clock of a gateway steps forward",
            "clock of a settler steps back",
            "clock of a settler steps forward",
            "death at a call to a node",
            "death of a process",
            "delivery after another settler took the place",
            "delivery after the promise",
            "energy becomes dearer",
            "epoch begins while payments are open",
            "epoch is sealed",
            "epoch is sealed while others have open payments",
            "fork, some of the transactions are forgotten",
            "fork, the same transactions in other slots",
            "gateway dies at the beginning of an epoch",
            "journal cannot be read",
            "journal is unreadable for a time",
            "key of a submitter is replaced",
            "leaders make no block",
            "ledger stores and does not say so",
            "member of a verifier set answers late",
            "member of a verifier set copies another",
            "member of a verifier set denies all",
            "member of a verifier set garbles its signature",
            "member of a verifier set is behind",
            "member of a verifier set is on a dropped branch",
            "member of a verifier set is silent",
            "member of a verifier set signs anything",
            "member of a verifier set signs with a wrong key",
            "node answers late",
            "node is behind",
            "node is on a dropped branch",
            "node lies about its head",
            "node refuses",
            "older verifier takes a larger deposit for another",
            "payer sends what it signed itself",
            "read model is lost",
            "reorganisation about a reassignment or the end of a promise",
            "reorganisation takes a reassignment away",
            "reorganisation, transactions forgotten",
            "reorganisation, transactions pooled",
            "reorganisation, transactions reordered",
            "replay ends before the head",
            "replay repeats",
            "replayed commits change places",
            "report comes twice",
            "report is lost",
            "request to a node is lost",
            "sealing of an epoch dies half-way",
            "shard changes hands",
            "slots are missed",
            "stolen key of a submitter is tried on an escrow",
            "stolen key of a submitter sends what was published",
            "stolen key of a submitter takes a nonce ahead of its turn",
            "stolen key of a submitter takes its coins",
            "stolen key of a submitter takes the place of a transaction",
            "stolen key of a submitter uses up a nonce",
            "stolen key of the reserver is tried before the promise is over",
            "stolen key of the reserver is tried without the verifiers' word",
            "stolen keys of a verifier set are tried",
            "stranger cancels",
            "stranger cancels with the word about an older reservation",
            "stream begins in an epoch that is not the newest",
            "stream is parked",
            "third party copies a transaction",
            "timer ends at once",
            "timer ends early",
            "timer ends late",
            "transaction is forgotten",
            "transaction is stuck",
            "transaction is stuck until it has expired",
            "two own one shard",
            "verifier answers late",
            "verifier does not follow reassignments",
            "verifier is away",
            "verifier is silent",
            "verifier signs with a wrong key",
            "verifier talks nonsense",
            "verifiers' word is tried without the reserver's key",
            "wait for a block ends early",
            "wake-up comes late",
            "wake-up comes more than once",
        ],
    ),
    (
        Kind::Party,
        &[
            "award begun again after an unknown outcome",
            "award refused, another was first",
            "batch opened",
            "client asks again",
            "client gives up",
            "many payments at once",
            "deposit is larger than the price",
            "escrow is reassigned",
            "escrow is reassigned once more",
            "payer never allowed",
            "payer trusts any of several verifiers",
            "payer trusts one verifier",
            "payer trusts three of five verifiers",
            "payer trusts two of three verifiers",
            "payer takes its allowance away",
            "payer gives its allowance again",
            "payer signs without a witness",
            "payer's deposit is ruled out",
            "payer's deposit is stranded",
            "payment accepted",
            "payment accepted from a batch",
            "payment by a selector",
            "payment fails after a reassignment was signed",
            "payment fails because nobody follows",
            "payment from EVM to EVM",
            "payment from EVM to Solana",
            "payment from EVM to Tron",
            "payment from Solana to EVM",
            "payment from Solana to Solana",
            "payment from Solana to Tron",
            "payment from Tron to EVM",
            "payment from Tron to Solana",
            "payment from Tron to Tron",
            "reassignment is signed again with higher fees",
            "reservation lapses",
            "selector chooses another each time",
            "selector chooses the cheapest",
            "selector chooses what was not shown",
            "selector is silent",
            "selector signs with a wrong key",
            "selector takes none",
            "settler agrees and does not deliver",
            "settler agrees the second time",
            "settler answers its award late",
            "settler asks for more than is in escrow",
            "settler asks too much",
            "settler bids late",
            "settler bids as another",
            "settler claims without a delivery",
            "settler declines",
            "settler declines what is in escrow",
            "settler delivers after its promise",
            "settler delivers and is gone",
            "settler does not answer its award",
            "settler delivers another amount",
            "settler delivers another token",
            "settler delivers late",
            "settler delivers to another",
            "settler delivers twice",
            "settler dies",
            "settler fetches its money late",
            "settler is honest",
            "settler offers for what is in escrow",
            "settler refuses its award",
            "settler refuses its first award",
            "settler sends no quote",
            "settler vanishes",
            "settler wins the same payment again",
            "settler wins what is in escrow",
        ],
    ),
    (
        Kind::Invariant,
        &[
            "a batch is awarded once",
            "a completed payment is attested",
            "a completed payment is delivered for good",
            "a nonce serves one purpose",
            "a deposit is ruled out when it can never be made",
            "a delivered payment never fails",
            "a delivery is attested in time",
            "a delivery whose attestation is awaited is for good",
            "a larger deposit is for those who may follow",
            "a member is on record once",
            "a member on record made its statement",
            "a payment fails on evidence only",
            "a payment that failed free of charge stays so",
            "a payment is delivered once",
            "a payout is settled",
            "a reassigned escrow is settled",
            "a refund ahead of its time is attested",
            "a reservation ends on its verifiers' word",
            "a reservation lasts as long as its promise",
            "a secured escrow is settled",
            "a sealed epoch takes nothing",
            "a settler delivers for its own settled reservation",
            "a silent verifier holds nobody up",
            "a stranded deposit is settled",
            "a stream stays in its shard",
            "a transaction is given up only when it can never land",
            "a word about one reservation does not end another",
            "an award of a collected quote is fit",
            "an escrow is cancelled on its verifiers' word",
            "an escrow is released on its verifiers' word",
            "an escrow pays out once",
            "at most one effective deposit",
            "every batch comes to rest",
            "every deadline is acted on",
            "every escrow is empty in the end",
            "every payment comes to an end",
            "every payment comes to rest",
            "every promise is acted on",
            "intent before effect",
            "money in is money out",
            "no more is taken than was permitted",
            "no more is taken than was quoted",
            "no reassignment above what was deposited, or past the payer's deadline",
            "no reassignment that verifiers do not follow",
            "nobody is paid for what is no payment",
            "nothing accepted is lost",
            "nothing is delivered after its promise",
            "nothing needs an operator",
            "nothing panics",
            "one batch per id",
            "one payment per id",
            "one reservation at a time",
            "only what is poisoned is parked",
            "projection equals fold",
            "quotes are signed",
            "reassigned no more often than allowed",
            "settlers are told what is in escrow",
            "streams fold legally",
            "terminal states never change",
            "the payer's selector chooses",
            "the winner agrees before money moves",
            "the winner hears of the end",
            "the winner is told before money moves",
            "too few keys move nothing",
            "who delivered and is attested is paid in time",
            "who did not deliver is not asked again",
            "who accepted is not passed over",
            "who delivered in time is paid",
            "who failed keeps the money",
            "who lost an award has nothing to deliver",
            "whom the payer chose nobody follows",
        ],
    ),
];
