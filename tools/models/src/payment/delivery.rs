//! The settlement leg of a gateway's turn, as `runner::delivery` and `runner::attestation` of `sagas` do it: the delivery is looked for,
//! and the verifiers are asked.

use sagas::payment::Payment;

use super::{
    chains::State,
    command::Command,
    config::Verifiers,
    documents::auction,
    perform::{Outcome, Turn},
    variant::Variant,
};

/// Member of the set who signs whatever it likes; the others are honest, and alike.
const BYZANTINE: u8 = 0b100;

/// What the verifiers say.
enum Asked {
    /// The releaser's word, with the members whose signatures are new.
    Word(u8),
    /// Signatures of too few members.
    Few(u8),
    /// Nothing new.
    Nothing,
}

impl Turn<'_> {
    /// `runner::attestation::Gathering`: what may come of asking all members; `known` are on record.
    fn ask(&self, is_so: bool, known: u8) -> Vec<Asked> {
        if self.config.verifiers == Verifiers::Single {
            let mut asked = Vec::new();
            if is_so {
                asked.push(Asked::Word(0));
            }
            if !is_so || self.config.silent_verifiers {
                asked.push(Asked::Nothing);
            }
            return asked;
        }
        let mut asked = Vec::new();
        if is_so {
            match known {
                0 => asked.extend([Asked::Word(0b011), Asked::Word(0b001 | BYZANTINE)]),
                BYZANTINE => asked.push(Asked::Word(0b001)),
                _ => asked.extend([Asked::Word(0b011 & !known), Asked::Word(BYZANTINE & !known)]),
            }
        }
        if !is_so || self.config.silent_verifiers {
            if known & BYZANTINE == 0 {
                asked.push(Asked::Few(BYZANTINE));
            }
            if is_so && known == 0 {
                asked.push(Asked::Few(0b001));
            }
            asked.push(Asked::Nothing);
        }
        // Signatures of two are the word, so few are fewer.
        asked.retain(|asked| !matches!(asked, Asked::Few(new) if (known | new).count_ones() > 1));
        asked
    }

    fn members(&self, attested: &[events::event::MemberAttested]) -> u8 {
        let is_of = |place: &usize| {
            let account = self.engine.documents.member(*place).account;
            attested.iter().any(|attested| attested.member == account)
        };
        match self.config.verifiers {
            Verifiers::Single => 0,
            Verifiers::TwoOfThree => (0..3).filter(is_of).map(|place| 1 << place).sum(),
        }
    }

    /// `runner::delivery::Delivery::follow`.
    pub(super) fn follow_delivery(&self, payment: &Payment, quote: u8, window_open: bool) -> Vec<Outcome> {
        let world = self.world;
        let place = usize::from(quote);
        let (settled, head) = (world.destination.settled.delivered[place], world.destination.head.delivered[place]);
        let seen = payment.seen.as_ref().map_or(0, |seen| seen.block_number);
        if settled != 0 {
            return self.settled(payment, quote, settled, seen);
        }
        if head != 0 {
            let is_new = seen != u64::from(head);
            return is_new.then(|| Outcome::of(Command::ObserveDelivery(head))).into_iter().collect();
        }
        let promise = self.config.windows.promises[auction(quote)];
        if world.destination.settled_at <= promise {
            let is_hasty = self.config.is(Variant::FailedBeforeEvidence) && world.now > promise;
            let failed = Command::FailUndelivered { given: 0, word: false };
            return is_hasty.then(|| Outcome::of(failed)).into_iter().collect();
        }
        let known = self.members(&payment.nondelivery_by);
        let is_said = world.words.non_delivery(quote);
        let commands = self.ask(is_said, known).into_iter().filter_map(|asked| match asked {
            Asked::Word(given) if self.may_reassign(payment) && !window_open => {
                Some(Command::LapseReservation { given, at: world.now })
            }
            Asked::Word(given) => Some(Command::FailUndelivered { given, word: true }),
            Asked::Few(given) if window_open => Some(Command::FailUndelivered { given, word: false }),
            Asked::Nothing if window_open => Some(Command::FailUndelivered { given: 0, word: false }),
            Asked::Few(given) => Some(Command::RecordNonDeliveries { given }),
            Asked::Nothing => None,
        });
        commands.map(Outcome::of).collect()
    }

    /// `runner::reassignment::quote_deadline`.
    fn may_reassign(&self, payment: &Payment) -> bool {
        let rule = sagas::reassignment::ReassignmentRule {
            reassignments_max: self.config.reassignments,
            ..sagas::reassignment::ReassignmentRule::DEFAULT
        };
        let at = self.engine.documents.time(self.world.now);
        let deadline = rule.quote_deadline(payment.lapsed_reservations.len(), at);
        deadline.is_some_and(|deadline| payment.may_reopen(at, deadline))
    }

    /// `runner::delivery::Delivery::settled`.
    fn settled(&self, payment: &Payment, quote: u8, block: u8, seen: u64) -> Vec<Outcome> {
        let at = self.world.now;
        if at >= self.config.windows.refund_after {
            return vec![Outcome::of(Command::FinalizeDelivery { block, given: 0, at })];
        }
        let known = self.members(&payment.attested_by);
        let is_said = self.world.words.delivery(quote);
        let mut commands = Vec::new();
        for asked in self.ask(is_said, known) {
            match asked {
                Asked::Word(given) => commands.push(Command::ConfirmDelivery { block, given }),
                Asked::Few(given) => {
                    commands.push(Command::FinalizeDelivery { block, given, at });
                    if seen == u64::from(block) {
                        commands.push(Command::RecordAttestations { given });
                    }
                }
                Asked::Nothing => {
                    commands.push(Command::FinalizeDelivery { block, given: 0, at });
                    if seen != u64::from(block) {
                        commands.push(Command::ObserveDelivery(block));
                    }
                }
            }
        }
        commands.into_iter().map(Outcome::of).collect()
    }

    /// `runner::delivery::Attesting::follow`.
    pub(super) fn follow_attestation(&self, payment: &Payment, quote: u8, is_late: bool) -> Vec<Outcome> {
        let world = self.world;
        let is_over = world.now >= self.config.windows.refund_after;
        let known = self.members(&payment.attested_by);
        let asked = match is_over {
            true => vec![Asked::Nothing],
            false => self.ask(world.words.delivery(quote), known),
        };
        let block = world.destination.settled.delivered[usize::from(quote)];
        let mut outcomes = Vec::new();
        for asked in asked {
            match asked {
                Asked::Word(given) => outcomes.push(Outcome::of(Command::ConfirmDelivery { block, given })),
                Asked::Few(given) if !is_late => outcomes.push(Outcome::of(Command::RecordAttestations { given })),
                Asked::Few(_) | Asked::Nothing if !is_late => {}
                Asked::Few(_) | Asked::Nothing => {
                    let is_lapsed = self.escrow().state == State::Reserved
                        && world.source.settled_at >= self.config.windows.refund_after;
                    if is_lapsed && is_over {
                        outcomes.push(Outcome::of(Command::MissAttestation));
                    } else if let Some(ended) = self.ended() {
                        outcomes.push(ended);
                    } else if !payment.attestation_awaited {
                        outcomes.push(Outcome::of(Command::AwaitAttestation));
                    }
                }
            }
        }
        outcomes
    }
}
