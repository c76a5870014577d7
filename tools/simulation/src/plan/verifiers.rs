//! The plan of a run's fulfillment verifiers: one, or a set of them, and what is wrong with each member.

use std::time::Duration;

use crate::{chain::NodeKind, random::RandomSource};

/// How a member of a verifier set behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conduct {
    /// Says what the chains say.
    Honest,
    /// Says so seconds later.
    Late,
    /// Never answers.
    Silent,
    /// Says that nothing is so.
    Denying,
    /// Signs whatever it is asked, also a delivery and a non-delivery of the same payment.
    Perjured,
    /// Answers what is no signature, or a right one in a form that no escrow takes.
    Garbling,
    /// Signs with a key that is not its own.
    Forging,
    /// Answers with the signature of another member.
    Copying,
}

/// Ways in which a member withholds its word.
const WITHHOLDING: [Conduct; 7] = [
    Conduct::Silent,
    Conduct::Silent,
    Conduct::Late,
    Conduct::Denying,
    Conduct::Garbling,
    Conduct::Forging,
    Conduct::Copying,
];

/// A part of a run, from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it begins.
    pub after: Duration,
    /// How long it lasts; to the end of the run when `None`, also when all other faults have ended.
    pub lasts: Option<Duration>,
}

impl Span {
    /// Whether `at` is in it.
    pub fn holds(&self, at: Duration) -> bool {
        at >= self.after && self.lasts.is_none_or(|lasts| at < self.after + lasts)
    }
}

/// A verifier that will be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberPlan {
    /// How it behaves during the span; honestly otherwise.
    pub conduct: Conduct,
    /// When it behaves so.
    pub span: Span,
    /// Whether an attacker has its key, besides the member itself.
    pub stolen: bool,
    /// Nodes of its own, behind the others' or on a branch that they left, and when; until faults end.
    pub apart: Option<(NodeKind, Span)>,
    /// Whether it attests deliveries out of escrows that were reassigned, and says so.
    pub follows: bool,
}

const ALWAYS: Span = Span { after: Duration::ZERO, lasts: None };

const HONEST: MemberPlan =
    MemberPlan { conduct: Conduct::Honest, span: ALWAYS, stolen: false, apart: None, follows: true };

/// The verifiers of all payments of a run.
///
/// Of a set's n members, k of which have to sign, at most n − k withhold their word, and at most k − 1 lie or have lost their
/// keys, so that the others decide, and can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiersPlan {
    /// How many have to sign.
    pub threshold: u8,
    /// All of them. A single one is no set: escrows name its account.
    pub members: Vec<MemberPlan>,
    /// Whether all other faults end early, so that nothing but verifiers can be what holds a payment up: as many withhold their
    /// word as may, all the time.
    pub faults_end_first: bool,
}

impl VerifiersPlan {
    /// `threshold` of `members` honest verifiers.
    pub fn honest(threshold: u8, members: usize) -> Self {
        Self { threshold, members: vec![HONEST; members], faults_end_first: false }
    }

    /// Whether it is a set.
    pub fn is_set(&self) -> bool {
        self.members.len() > 1
    }

    /// What it is, for the record.
    pub fn name(&self) -> &'static str {
        match (self.threshold, self.members.len()) {
            (1, 1) => "payer trusts one verifier",
            (1, _) => "payer trusts any of several verifiers",
            (2, 3) => "payer trusts two of three verifiers",
            _ => "payer trusts three of five verifiers",
        }
    }

    pub(super) fn draw(random: &RandomSource) -> Self {
        let mut plan = match random.number(0..=19) {
            0..=9 => return Self::honest(1, 1),
            10..=15 => Self::honest(2, 3),
            16 | 17 => Self::honest(3, 5),
            _ => Self::honest(1, 3),
        };
        plan.faults_end_first = random.chance(300);
        let (n, k) = (plan.members.len(), usize::from(plan.threshold));
        let span = || match plan.faults_end_first {
            true => ALWAYS,
            false => Span {
                after: Duration::from_secs(random.number(0..=150)),
                lasts: random.chance(400).then(|| Duration::from_secs(random.number(30..=400))),
            },
        };
        for place in some(random, 0, k - 1, n) {
            match random.chance(500) {
                true => plan.members[place].stolen = true,
                false => (plan.members[place].conduct, plan.members[place].span) = (Conduct::Perjured, ALWAYS),
            }
        }
        let least = if plan.faults_end_first { n - k } else { 0 };
        for place in some(random, least, n - k, n) {
            // One that signs anything has lied enough.
            if plan.members[place].conduct == Conduct::Honest {
                (plan.members[place].conduct, plan.members[place].span) = (random.pick(&WITHHOLDING), span());
            }
        }
        for member in &mut plan.members {
            member.apart = match random.number(0..=9) {
                0 => Some((NodeKind::Lagging { blocks: random.number(1..=8) }, span())),
                1 | 2 => Some((NodeKind::OnFork, span())),
                _ => None,
            };
        }
        plan
    }

    /// Makes some of the verifiers of an older version, which does not follow reassignments: either so few that the others can still
    /// sign, whoever withholds its word, or so many that nobody may rest on the others.
    pub(super) fn age(&mut self, random: &RandomSource) {
        let (n, k) = (self.members.len(), usize::from(self.threshold));
        let keeps_word = |member: &&mut MemberPlan| matches!(member.conduct, Conduct::Honest | Conduct::Perjured);
        if random.chance(if self.is_set() { 850 } else { 200 }) {
            let spare = self.members.iter_mut().filter(keeps_word).count().saturating_sub(k);
            self.members.iter_mut().filter(keeps_word).take(spare).for_each(|member| member.follows = false);
        } else {
            self.members.iter_mut().take(n - k + 1).for_each(|member| member.follows = false);
        }
    }

    /// Whether as many follow reassignments as have to sign.
    pub fn follow(&self) -> bool {
        self.members.iter().filter(|member| member.follows).count() >= usize::from(self.threshold)
    }

    /// The same verifiers with nothing wrong.
    pub(super) fn calmed(&self) -> Self {
        Self::honest(self.threshold, self.members.len())
    }
}

/// The places of `least` to `most` members of `n`, next to each other from any one on.
fn some(random: &RandomSource, least: usize, most: usize, n: usize) -> impl Iterator<Item = usize> + use<> {
    let (count, first) = (random.number(least as u64..=most as u64), random.number(0..=n as u64 - 1));
    (first..first + count).map(move |place| (place % n as u64) as usize)
}
