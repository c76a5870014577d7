//! What a gateway does in one turn, as `runner::perform` of `sagas` does it: it looks at the chains, tells and asks others, and comes
//! to a command, or to nothing. Each element of what is returned is one way in which it may go.

use sagas::payment::Payment;

use super::{
    chains::{Mined, State},
    command::{Call, Command, DepositLook, Kind},
    config::{Config, Scheme},
    documents::{auction, previous},
    engine::Engine,
    plan::Plan,
    variant::Variant,
    world::{Answer, Gateway, World},
};

/// What comes of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Outcome {
    /// What the winner answered.
    pub answered: Option<(u8, Answer)>,
    /// A deposit that a node was shown: its quote, amount and last tick.
    pub admitted: Option<(u8, u16, u8)>,
    /// A reassignment that a node was shown.
    pub signed: Option<u8>,
    /// A transaction that is sent, with its attempt.
    pub sent: Option<(Kind, u32)>,
    /// The end of the admission of a deposit that was refused.
    pub refused: Option<u8>,
    /// What is to be recorded.
    pub command: Option<Command>,
}

impl Outcome {
    pub(super) fn of(command: Command) -> Self {
        Self { command: Some(command), ..Self::default() }
    }
}

/// One gateway's turn.
pub struct Turn<'a> {
    /// The bounds.
    pub config: &'a Config,
    /// The engine.
    pub engine: &'a Engine,
    /// The state.
    pub world: &'a World,
    /// Whose turn it is.
    pub gateway: &'a Gateway,
}

impl Turn<'_> {
    /// Every way in which the turn may go; none when there is nothing to do.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let Some(loaded) = self.gateway.loaded else { return Vec::new() };
        let payment = &self.engine.payment(loaded);
        let now = self.world.now;
        match self.engine.plan(loaded, now) {
            Plan::Rest | Plan::Unexpected => Vec::new(),
            Plan::GatherBids { round } => {
                let bidders = self.config.bidders.get(round).copied().unwrap_or_default();
                let close = |&bidders| Outcome::of(Command::CloseAuction { bidders, at: now });
                bidders.iter().map(close).collect()
            }
            Plan::SecureDeposit { quote, attempt, amount } => self.secure_deposit(quote, attempt, amount),
            Plan::RuleOutDeposit { .. } if let Some(stranded) = self.stranded() => vec![stranded],
            Plan::RuleOutDeposit { quote } => {
                let window = self.gateway.refused.map_or(self.config.windows.reserve, |until| until);
                let missed = match self.gateway.refused {
                    Some(_) => Command::RefuseDeposit,
                    None => Command::MissDepositWindow,
                };
                self.rule_out(quote, window, missed)
            }
            Plan::FollowDeposit { quote } => self.follow_deposit(payment, quote),
            Plan::FollowDelivery { quote, window_open } => self.follow_delivery(payment, quote, window_open),
            Plan::FollowAttestation { quote, is_late } => self.follow_attestation(payment, quote, is_late),
            Plan::SecureReassignment { quote, attempt } => self.secure_reassignment(payment, quote, attempt),
            Plan::FollowReassignment { quote } => self.follow_reassignment(payment, quote),
            Plan::FollowEscrow => self.ended().into_iter().collect(),
            Plan::SecureRelease { quote, attempt } => self.secure_release(quote, attempt),
            Plan::FollowRelease => self.follow_release(payment),
            Plan::SecureRefund { attempt, is_cancellation } => self.secure_refund(payment, attempt, is_cancellation),
            Plan::FollowRefund => self.follow_refund(payment),
            Plan::WatchDeposit => match self.stranded() {
                Some(stranded) => vec![stranded],
                None => self.rule_out_any(self.config.windows.reserve, Command::MissDepositWindow),
            },
            Plan::TellWinner => vec![Outcome::of(Command::TellWinner)],
        }
    }

    /// The escrow as the gateway believes it: in the newest settled block.
    pub(super) fn escrow(&self) -> &super::chains::Escrow {
        match self.config.is(Variant::EscrowNotSettled) {
            true => &self.world.source.head.escrow,
            false => &self.world.source.settled.escrow,
        }
    }

    /// `Chains::deposit_secured`.
    fn secured(&self, quote: u8) -> Option<u16> {
        let escrow = self.escrow();
        (escrow.is_named && escrow.quote == quote).then_some(escrow.deposited)
    }

    /// `runner::perform::rule_out`.
    fn rule_out(&self, quote: u8, after: u8, ruled_out: Command) -> Vec<Outcome> {
        if let Some(amount) = self.secured(quote) {
            return vec![Outcome::of(Command::AdoptDeposit(amount))];
        }
        self.rule_out_any(after, ruled_out)
    }

    /// `Chains::stranded_deposit`, and what follows.
    fn stranded(&self) -> Option<Outcome> {
        let escrow = self.escrow();
        let is_over = self.world.source.settled_at > self.config.windows.reserve;
        let is_stranded = is_over && escrow.state != State::None && !escrow.is_named;
        is_stranded.then(|| Outcome::of(Command::StrandDeposit(escrow.deposited)))
    }

    /// `Chains::deposit_ruled_out`, and what follows.
    fn rule_out_any(&self, after: u8, ruled_out: Command) -> Vec<Outcome> {
        let is_hasty = self.config.is(Variant::NotWatched) && ruled_out == Command::MissDepositWindow;
        let is_proven = (self.world.source.settled_at > after || is_hasty) && self.escrow().state == State::None;
        is_proven.then(|| Outcome::of(ruled_out)).into_iter().collect()
    }

    /// `runner::perform::agree`: the ways in which the winner's answer may be heard, or what follows from it; `None` when it stands by
    /// its quote.
    fn agree(&self, quote: u8, is_signed: bool) -> Option<Vec<Outcome>> {
        let now = self.world.now;
        let answer = |answer| Outcome { answered: Some((quote, answer)), ..Outcome::default() };
        let heard = self.world.answers[usize::from(quote)];
        let lost = |refused| Some(vec![Outcome::of(Command::LoseWinner { refused, at: now })]);
        match heard {
            _ if is_signed => None,
            Answer::Unheard if self.config.refusals => {
                Some([Answer::Accepted, Answer::Refused, Answer::Silent].map(answer).to_vec())
            }
            Answer::Unheard => Some(vec![answer(Answer::Accepted)]),
            Answer::Accepted => None,
            Answer::Refused => lost(true),
            Answer::Silent => lost(false),
        }
    }

    fn secure_deposit(&self, quote: u8, attempt: u32, amount: u16) -> Vec<Outcome> {
        if let Some(until) = self.gateway.refused {
            return self.rule_out(quote, until, Command::RefuseDeposit);
        }
        if let Some(answers) = self.agree(quote, attempt > 1) {
            return answers;
        }
        if self.config.scheme == Scheme::OwnTransaction {
            return self.secure_own_deposit(quote, attempt);
        }
        let Config { windows, .. } = self.config;
        let until = windows.reserve.min(self.world.now + windows.admission);
        let admitted = Some((quote, amount, until));
        let mut escrow = self.world.source.head.escrow;
        let is_taken = !self.world.is_spent
            && escrow.deposit(self.config, quote, amount, until, self.world.source_time(self.config));
        let mut outcomes = vec![match is_taken {
            true => {
                let call = Call { kind: Kind::Deposit, quote, amount, until, is_cancellation: false };
                Outcome { admitted, ..self.prepared(attempt, call) }
            }
            false => Outcome { admitted, refused: Some(until), ..Outcome::default() },
        }];
        if self.config.is(Variant::AnswerNotFinal) && attempt == 1 {
            outcomes.push(Outcome::of(Command::LoseWinner { refused: true, at: self.world.now }));
        }
        outcomes
    }

    /// `chains::tron::reservation::next`: the payer's transaction is sent, and once it is in a block the reservation is signed.
    fn secure_own_deposit(&self, quote: u8, attempt: u32) -> Vec<Outcome> {
        let (world, until) = (self.world, self.config.windows.reserve);
        let mut escrow = world.source.head.escrow;
        let time = world.source_time(self.config);
        match escrow.state {
            State::None => {
                let is_sent = !world.is_spent && escrow.deposit_own(self.config, time);
                is_sent.then(|| Outcome::of(Command::RecordPayerTransaction)).into_iter().collect()
            }
            State::Deposited => {
                let admitted = Some((quote, 0, until));
                match escrow.reserve(self.config, quote, time) {
                    true => {
                        let call = Call { kind: Kind::Deposit, quote, amount: 0, until, is_cancellation: false };
                        vec![Outcome { admitted, ..self.prepared(attempt, call) }]
                    }
                    // Refused for now, and shown all the same.
                    false => vec![Outcome { admitted, ..Outcome::default() }],
                }
            }
            // Whoever was shown the reservation may have brought it.
            State::Reserved | State::Released | State::Refunded => {
                self.secured(quote).map(|amount| Outcome::of(Command::AdoptDeposit(amount))).into_iter().collect()
            }
        }
    }

    fn prepared(&self, attempt: u32, call: Call) -> Outcome {
        let sent = self.config.is(Variant::BroadcastBeforeJournal).then_some((call.kind, attempt));
        Outcome { sent, ..Outcome::of(Command::Prepare { attempt, call }) }
    }

    /// `chains::evm::transaction_status::deposit_state`, and what follows.
    fn follow_deposit(&self, payment: &Payment, quote: u8) -> Vec<Outcome> {
        let world = self.world;
        let look = |look| vec![Outcome::of(Command::ObserveDeposit(look))];
        if let Some(amount) = self.secured(quote) {
            return look(DepositLook::Secured(amount));
        }
        let Some(own) = world.own(Kind::Deposit).filter(|own| own.attempt == payment.deposit.count) else {
            return self.send(Kind::Deposit, payment.deposit.count);
        };
        if self.config.scheme == Scheme::OwnTransaction {
            return self.follow_own_deposit(own.is_dead, own.attempt);
        }
        let (until, settled_at) = (own.call.until, world.source.settled_at);
        let status = world.source.settled.mined[Kind::Deposit as usize];
        let is_waited_out = settled_at > until || self.config.is(Variant::AdmissionNotWaitedOut);
        match status {
            // The money is reserved for another quote, which the port calls a contradiction.
            Mined::Done => return Vec::new(),
            Mined::Reverted(at) if at <= until && is_waited_out => return look(DepositLook::Reverted),
            Mined::No if own.is_dead && settled_at > until => return look(DepositLook::Superseded),
            _ if settled_at > self.config.windows.reserve => return look(DepositLook::Expired),
            Mined::No if self.config.is(Variant::TimeOutIsFailure) && world.now > self.config.windows.reserve => {
                return look(DepositLook::Expired);
            }
            Mined::Reverted(at) if at > until => return look(DepositLook::Superseded),
            Mined::Reverted(_) | Mined::No => {}
        }
        let mut outcomes = self.send(Kind::Deposit, own.attempt);
        let is_mined = world.source.head.mined[Kind::Deposit as usize] == Mined::Done;
        if self.config.provisional && is_mined {
            outcomes.push(Outcome::of(Command::ObserveMinedDeposit(world.block(self.config))));
        }
        outcomes
    }

    /// `chains::tron::deposits::state`, of a reservation that has no effect in a settled block.
    fn follow_own_deposit(&self, is_dead: bool, attempt: u32) -> Vec<Outcome> {
        let world = self.world;
        let look = |look| vec![Outcome::of(Command::ObserveDeposit(look))];
        if world.source.settled_at > self.config.windows.reserve {
            let escrow = self.escrow();
            let is_stranded = escrow.state != State::None && !escrow.is_named;
            return look(if is_stranded { DepositLook::Stranded(escrow.deposited) } else { DepositLook::Expired });
        }
        let status = world.source.settled.mined[Kind::Deposit as usize];
        if is_dead || matches!(status, Mined::Reverted(_)) {
            return look(DepositLook::Superseded);
        }
        self.send(Kind::Deposit, attempt)
    }

    /// `runner::perform::keep_alive`, without better paid versions, which have the same effect.
    fn send(&self, kind: Kind, attempt: u32) -> Vec<Outcome> {
        vec![Outcome { sent: Some((kind, attempt)), ..Outcome::default() }]
    }

    /// `runner::reassignment::known` over `chains::reassignment::Standing`; `None` while it is open.
    fn known(&self, quote: u8) -> Option<Vec<Outcome>> {
        let escrow = self.escrow();
        let settled_at = self.world.source.settled_at;
        let command = match escrow.state {
            State::None | State::Deposited => return Some(Vec::new()),
            _ if escrow.quote == quote => Command::ObserveReassignment,
            State::Released => Command::ForgoReassignment,
            State::Refunded => Command::GiveUpReassignment,
            State::Reserved if previous(quote) != Some(escrow.quote) => {
                match settled_at >= self.config.windows.refund_after {
                    true => Command::ForgoReassignment,
                    false => return Some(Vec::new()),
                }
            }
            State::Reserved if settled_at > self.config.windows.promises[auction(quote)] => Command::GiveUpReassignment,
            State::Reserved => return None,
        };
        Some(vec![Outcome::of(command)])
    }

    fn secure_reassignment(&self, payment: &Payment, quote: u8, attempt: u32) -> Vec<Outcome> {
        if let Some(answers) = self.agree(quote, payment.is_reassignment_signed()) {
            return answers;
        }
        if let Some(known) = self.known(quote) {
            return known;
        }
        let mut escrow = self.world.source.head.escrow;
        let time = self.world.source_time(self.config);
        let signed = Some(quote);
        vec![match escrow.reassign(self.config, quote, self.world.words, time) {
            true => {
                let call = Call { kind: Kind::Reassignment, quote, amount: 0, until: 0, is_cancellation: false };
                Outcome { signed, ..self.prepared(attempt, call) }
            }
            // Refused for now, and shown all the same.
            false => Outcome { signed, ..Outcome::default() },
        }]
    }

    fn follow_reassignment(&self, payment: &Payment, quote: u8) -> Vec<Outcome> {
        if let Some(known) = self.known(quote) {
            return known;
        }
        self.abandon_or_send(Kind::Reassignment, payment.reassignment.count)
    }

    /// `Chains::transaction_state`, and what follows.
    fn abandon_or_send(&self, kind: Kind, attempt: u32) -> Vec<Outcome> {
        let own = self.world.own(kind).filter(|own| own.attempt == attempt);
        let reverted = matches!(self.world.source.settled.mined[kind as usize], Mined::Reverted(_));
        match own {
            Some(own) if own.is_dead || reverted => vec![Outcome::of(Command::Abandon(kind))],
            _ => self.send(kind, attempt),
        }
    }

    /// `runner::outcome::ended` of what `Chains::escrow_state` says.
    pub(super) fn ended(&self) -> Option<Outcome> {
        let escrow = self.escrow();
        match escrow.state {
            State::Released => Some(Outcome::of(Command::ObserveReleased)),
            State::Refunded => Some(Outcome::of(Command::ObserveRefunded(escrow.deposited))),
            State::None | State::Deposited | State::Reserved => None,
        }
    }

    fn is_lapsed(&self) -> bool {
        self.world.source.settled_at >= self.config.windows.refund_after
    }

    fn secure_release(&self, quote: u8, attempt: u32) -> Vec<Outcome> {
        if let Some(ended) = self.ended() {
            return vec![ended];
        }
        let mut escrow = self.world.source.head.escrow;
        let time = self.world.source_time(self.config);
        let is_taken = !self.is_lapsed() && escrow.release(self.config, quote, self.world.words, time);
        let call = Call { kind: Kind::Release, quote, amount: 0, until: 0, is_cancellation: false };
        is_taken.then(|| self.prepared(attempt, call)).into_iter().collect()
    }

    fn follow_release(&self, payment: &Payment) -> Vec<Outcome> {
        if let Some(ended) = self.ended() {
            return vec![ended];
        }
        let outcomes = self.abandon_or_send(Kind::Release, payment.release.count);
        match outcomes.first().is_some_and(|outcome| outcome.command.is_none()) && self.is_lapsed() {
            // The escrow takes it no more; what became of it is waited for.
            true => Vec::new(),
            false => outcomes,
        }
    }

    fn secure_refund(&self, payment: &Payment, attempt: u32, is_cancellation: bool) -> Vec<Outcome> {
        if let Some(ended) = self.ended() {
            return vec![ended];
        }
        let is_completed = payment.stage() == sagas::payment::Stage::Completed;
        if is_completed && !self.is_lapsed() || self.config.is(Variant::RefundLeftToOthers) {
            return Vec::new();
        }
        let mut escrow = self.world.source.head.escrow;
        let quote = escrow.quote;
        let time = self.world.source_time(self.config);
        let is_taken = match is_cancellation {
            true => escrow.cancel(self.config, self.world.words, time),
            false => escrow.refund(self.config, time),
        };
        let call = Call { kind: Kind::Refund, quote, amount: 0, until: 0, is_cancellation };
        is_taken.then(|| self.prepared(attempt, call)).into_iter().collect()
    }

    fn follow_refund(&self, payment: &Payment) -> Vec<Outcome> {
        match self.ended() {
            Some(ended) => vec![ended],
            None => self.abandon_or_send(Kind::Refund, payment.refund.count),
        }
    }
}
