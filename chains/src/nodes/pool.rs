//! Pool: which nodes are asked, in which order, and when an answer is enough.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::{
    StreamExt,
    future::{Either, join_all, pending, select},
    stream::FuturesUnordered,
};
use tokio::{sync::OnceCell, time::Instant};

use events::ChainId;
use sagas::ports::Transient;

use super::{
    Endpoint, NodeOutcome, NodeReport, Verdict,
    health::{Health, Standing},
    report::{origin, voter},
};

/// Nodes of different origins whose word money needs, where so many are configured.
const QUORUM: usize = 2;
/// Most nodes that a transaction is sent to.
const SENDS_MAX: usize = 3;
/// When one node has taken a transaction, so long the others are waited for.
const SENDS_GRACE: Duration = Duration::from_millis(250);

/// What a pool is told about its chain.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The chain, for metrics and messages.
    pub chain_id: ChainId,
    /// A node that is more blocks behind another one lags.
    pub lag_blocks_max: u64,
    /// Whether there is a clock. Without one nothing is hedged and no node rests, and the same calls do the same.
    pub has_clock: bool,
}

/// The nodes of one chain.
#[derive(Debug)]
pub struct Pool<E> {
    settings: Settings,
    members: Vec<Member<E>>,
    quorum: usize,
    turn: AtomicU64,
}

#[derive(Debug)]
struct Member<E> {
    endpoint: E,
    origin: String,
    /// Which of the voters it is: nodes of one origin are one.
    voter: usize,
    weight: u64,
    checked: OnceCell<()>,
    health: Health,
}

/// Answers, each with the number of its node.
type Answers<E> = Vec<(usize, <E as Endpoint>::Answer)>;

/// Too few answers.
struct TooFew<E: Endpoint> {
    answers: Answers<E>,
    faults: Vec<E::Fault>,
}

impl<E: Endpoint> Pool<E> {
    /// The nodes at these addresses, each with its weight. Those of one origin have one vote.
    pub fn new(settings: Settings, nodes: impl IntoIterator<Item = (E, String, u32)>) -> Self {
        let mut voters: Vec<String> = Vec::new();
        let members: Vec<_> = nodes
            .into_iter()
            .map(|(endpoint, url, weight)| {
                let voter = voter(&url);
                let known = voters.iter().position(|known| *known == voter);
                let voter = known.unwrap_or_else(|| {
                    voters.push(voter);
                    voters.len() - 1
                });
                let origin = origin(&url).unwrap_or(url);
                let (checked, health) = (OnceCell::new(), Health::default());
                Member { endpoint, origin, voter, weight: u64::from(weight.max(1)), checked, health }
            })
            .collect();
        if members.len() > 1 && voters.len() < members.len() {
            let (chain_id, origins) = (&settings.chain_id, voters.len());
            tracing::warn!(%chain_id, nodes = members.len(), origins, "nodes of one origin have one vote together");
        }
        let quorum = voters.len().clamp(1, QUORUM);
        Self { settings, members, quorum, turn: AtomicU64::new(0) }
    }

    /// How many nodes of different origins have to agree.
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// Whether as many nodes are of the chain as have to agree.
    ///
    /// # Errors
    /// The fault of the first that is not, or does not say so.
    pub async fn check(&self) -> Result<(), E::Fault> {
        let asked = self.members.iter().map(|member| member.checked.get_or_try_init(|| member.endpoint.check()));
        let (mut voters, mut faults) = (BTreeSet::new(), Vec::new());
        for (member, checked) in self.members.iter().zip(join_all(asked).await) {
            match checked {
                Ok(()) => drop(voters.insert(member.voter)),
                Err(fault) => faults.push(fault),
            }
        }
        match faults.into_iter().next() {
            Some(fault) if voters.len() < self.quorum => Err(fault),
            _ => Ok(()),
        }
    }

    /// What one node answers; the next one is asked where there is no answer, or none in the time that it usually takes.
    ///
    /// # Errors
    /// A node's refusal where all refuse or are silent; otherwise why the first one is silent.
    pub async fn any(&self, question: &E::Question) -> Result<E::Answer, E::Fault> {
        if let [_] = self.members.as_slice() {
            return self.ask(0, question).await;
        }
        let answers = self.gather(question, 1, |answers| !answers.is_empty()).await;
        let answers = answers.map_err(|few| self.fault(question, few))?;
        answers.into_iter().next().map(|(_, answer)| answer).ok_or_else(|| self.nothing(question))
    }

    /// What two nodes of different origins answer alike, where there are two; what the only one answers, where there is one.
    ///
    /// # Errors
    /// A contradiction where no two agree; otherwise as [`Pool::any`].
    pub async fn agreed(&self, question: &E::Question) -> Result<E::Answer, E::Fault> {
        if self.quorum == 1 {
            return self.any(question).await;
        }
        let answers = self.gather(question, self.quorum, |answers| self.majority(question, answers).is_some()).await;
        match answers {
            Ok(mut answers) => {
                let chosen = self.majority(question, &answers).unwrap_or_default();
                self.judge_others(question, &answers, chosen);
                Ok(answers.swap_remove(chosen).1)
            }
            Err(few) => Err(self.fault(question, few)),
        }
    }

    /// What as many nodes of different origins answer as have to agree, each with the number of its node.
    ///
    /// # Errors
    /// As [`Pool::any`], also where one of them is silent and no other takes its place.
    pub async fn each(&self, question: &E::Question) -> Result<Answers<E>, E::Fault> {
        if let [_] = self.members.as_slice() {
            return Ok(vec![(0, self.ask(0, question).await?)]);
        }
        let answers = self.gather(question, self.quorum, |answers| self.voters(answers).len() >= self.quorum).await;
        answers.map_err(|few| self.fault(question, few))
    }

    /// As [`Pool::each`], from nodes whose answers are `is_there`: one that is not yet there is no voice, and counted as behind. Where
    /// not as many are there as have to agree, it is what [`Pool::each`] gives: those who want to know find that out.
    ///
    /// # Errors
    /// As [`Pool::each`].
    pub async fn each_there(
        &self,
        question: &E::Question,
        is_there: impl Fn(&E::Answer) -> bool,
    ) -> Result<Answers<E>, E::Fault> {
        if let [_] = self.members.as_slice() {
            return self.each(question).await;
        }
        let are_enough = |answers: &Answers<E>| {
            let there = answers.iter().filter(|(_, answer)| is_there(answer));
            there.map(|(node, _)| self.members[*node].voter).collect::<BTreeSet<_>>().len() >= self.quorum
        };
        match self.gather(question, self.quorum, are_enough).await {
            Ok(answers) => {
                let (there, behind): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| is_there(answer));
                behind.iter().for_each(|(node, _)| self.count(&self.members[*node], "behind"));
                Ok(there)
            }
            Err(few) if self.voters(&few.answers).len() >= self.quorum => Ok(few.answers),
            Err(few) => Err(self.fault(question, few)),
        }
    }

    /// What the node with this number answers.
    ///
    /// # Errors
    /// Its fault.
    pub async fn ask(&self, node: usize, question: &E::Question) -> Result<E::Answer, E::Fault> {
        let Some(member) = self.members.get(node) else { return Err(self.nothing(question)) };
        let begun = self.settings.has_clock.then(Instant::now);
        let answer = async {
            member.checked.get_or_try_init(|| member.endpoint.check()).await?;
            member.endpoint.ask(question).await
        };
        let answer = answer.await;
        self.note(member, begun, answer.as_ref().err());
        answer
    }

    /// Puts the same to several nodes at once, for instance a transaction to be sent: enough when one takes it.
    ///
    /// # Errors
    /// A refusal only where every node that was asked refuses: what one has not answered may have been taken.
    pub async fn send(&self, question: &E::Question) -> Result<E::Answer, E::Fault> {
        if let [_] = self.members.as_slice() {
            return self.ask(0, question).await;
        }
        let order = self.order();
        let mut flying: FuturesUnordered<_> =
            order.into_iter().take(SENDS_MAX).map(|node| self.ask(node, question)).collect();
        let (mut taken, mut silent, mut refused) = (None, None, None);
        let mut until = None;
        loop {
            let answer = match select(flying.next(), std::pin::pin!(sleep_until(until))).await {
                Either::Left((Some(answer), _)) => answer,
                Either::Left((None, _)) | Either::Right(_) => break,
            };
            match answer {
                Ok(answer) => {
                    taken.get_or_insert(answer);
                    if self.settings.has_clock {
                        until.get_or_insert_with(|| Instant::now() + SENDS_GRACE);
                    }
                }
                Err(fault) if E::silence(&fault).is_some() => drop(silent.get_or_insert(fault)),
                Err(fault) => drop(refused.get_or_insert(fault)),
            }
        }
        taken.ok_or_else(|| silent.or(refused).unwrap_or_else(|| self.nothing(question)))
    }

    /// Notes that the newest block of a node has this number.
    pub fn note_height(&self, node: usize, height: u64) {
        let Some(member) = self.members.get(node).filter(|_| self.settings.has_clock) else { return };
        let now = Instant::now();
        member.health.is_at(height, now);
        let lag = self.highest(now).saturating_sub(height);
        let labels = self.labels(member);
        #[expect(clippy::cast_precision_loss, reason = "a gauge is a float, and a lag beyond 2^52 blocks is none")]
        metrics::gauge!("gw_node_lag_blocks", &labels).set(lag as f64);
    }

    /// Counts that a node's word stood against that of others; where it cannot be told whose is right, it is counted for each.
    pub fn note_disagreement(&self, node: usize) {
        let Some(member) = self.members.get(node) else { return };
        metrics::counter!("gw_node_disagreements_total", &self.labels(member)).increment(1);
        if self.settings.has_clock {
            member.health.was_alone(Instant::now());
        }
    }

    /// What each node answers to `question`, of which `height` reads the number of the newest block.
    pub async fn report(&self, question: &E::Question, height: impl Fn(&E::Answer) -> Option<u64>) -> Vec<NodeReport> {
        let asked = join_all((0..self.members.len()).map(|node| self.ask(node, question))).await;
        let heads: Vec<_> = asked.iter().map(|answer| answer.as_ref().ok().and_then(&height)).collect();
        let highest = heads.iter().flatten().copied().max().unwrap_or_default();
        let reports = self.members.iter().zip(asked).zip(heads);
        let reports = reports.map(|((member, answer), head)| {
            let outcome = match (answer, head) {
                (Ok(_), Some(head)) => NodeOutcome::Answers { head, lag_blocks: highest - head },
                (Ok(_), None) => NodeOutcome::Silent("no newest block".to_owned()),
                (Err(fault), _) => match fault.into() {
                    fault if fault.is_misconfigured() => NodeOutcome::Unusable(fault.to_string()),
                    fault => NodeOutcome::Silent(fault.to_string()),
                },
            };
            NodeReport { origin: member.origin.clone(), outcome }
        });
        reports.collect()
    }

    /// Asks nodes of different origins, `votes` at once, and further ones for those that are silent or keep waiting, until
    /// `is_enough`.
    async fn gather(
        &self,
        question: &E::Question,
        votes: usize,
        is_enough: impl Fn(&Answers<E>) -> bool,
    ) -> Result<Answers<E>, TooFew<E>> {
        let mut waiting: VecDeque<usize> = self.order().into();
        let ask = |node| async move { (node, self.ask(node, question).await) };
        let mut flying = FuturesUnordered::new();
        // Number, and since when.
        let mut asked: Vec<(usize, Option<Instant>)> = Vec::new();
        let (mut answers, mut faults): (Answers<E>, Vec<E::Fault>) = (Vec::new(), Vec::new());
        let mut may_hedge = true;
        loop {
            let answered = self.voters(&answers).len();
            let missing = votes.saturating_sub(answered + flying.len());
            // Answers that do not say the same are not enough, however many there are.
            let mut more = if flying.is_empty() { missing.max(1) } else { missing };
            while more > 0 {
                let Some(node) = self.next_voter(&mut waiting, &answers, &asked) else { break };
                asked.push((node, self.settings.has_clock.then(Instant::now)));
                flying.push(ask(node));
                more -= 1;
            }
            if flying.is_empty() {
                return Err(TooFew { answers, faults });
            }
            let hedge_at = self.hedge_at(&asked).filter(|_| may_hedge && !waiting.is_empty());
            let event = match select(flying.next(), std::pin::pin!(sleep_until(hedge_at))).await {
                Either::Left((event, _)) => event,
                Either::Right(_) => {
                    match self.next_voter(&mut waiting, &answers, &asked) {
                        Some(node) => {
                            self.note_waiting(&asked);
                            asked.push((node, Some(Instant::now())));
                            flying.push(ask(node));
                        }
                        // Nobody is left to be asked instead, until one who is being asked fails.
                        None => may_hedge = false,
                    }
                    continue;
                }
            };
            let Some((node, outcome)) = event else { continue };
            asked.retain(|(other, _)| *other != node);
            may_hedge = true;
            match outcome.map(|answer| (node, answer)) {
                Ok(answer) => {
                    answers.push(answer);
                    if is_enough(&answers) {
                        return Ok(answers);
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
    }

    /// The next node whose voter has not answered and is not being asked.
    fn next_voter(
        &self,
        waiting: &mut VecDeque<usize>,
        answers: &Answers<E>,
        asked: &[(usize, Option<Instant>)],
    ) -> Option<usize> {
        let heard = self.voters(answers);
        let is_free = |node: &usize| {
            let voter = self.members[*node].voter;
            !heard.contains(&voter) && !asked.iter().any(|(other, _)| self.members[*other].voter == voter)
        };
        let at = waiting.iter().position(is_free)?;
        waiting.remove(at)
    }

    fn voters(&self, answers: &Answers<E>) -> BTreeSet<usize> {
        answers.iter().map(|(node, _)| self.members[*node].voter).collect()
    }

    /// The place of an answer that enough voters gave, the oldest of those that say the same.
    fn majority(&self, question: &E::Question, answers: &Answers<E>) -> Option<usize> {
        let is_same = |one: &E::Answer, other: &E::Answer| E::compare(question, one, other) == Verdict::Same;
        for (node, answer) in answers {
            let voters = answers.iter().filter(|(other, said)| other == node || is_same(said, answer));
            let same: Vec<_> = voters.map(|(other, _)| *other).collect();
            if same.iter().map(|node| self.members[*node].voter).collect::<BTreeSet<_>>().len() < self.quorum {
                continue;
            }
            let mut chosen: Option<usize> = None;
            for (place, (_, said)) in answers.iter().enumerate().filter(|(_, (node, _))| same.contains(node)) {
                if chosen.is_none_or(|chosen| E::is_older(question, said, &answers[chosen].1)) {
                    chosen = Some(place);
                }
            }
            return chosen;
        }
        None
    }

    /// Counts what those said who do not say what was believed.
    fn judge_others(&self, question: &E::Question, answers: &Answers<E>, chosen: usize) {
        let Some((_, believed)) = answers.get(chosen) else { return };
        for (node, said) in answers {
            match E::compare(question, said, believed) {
                Verdict::Same => {}
                Verdict::Behind | Verdict::Ahead => self.count(&self.members[*node], "behind"),
                Verdict::Differs => {
                    let (chain_id, origin) = (&self.settings.chain_id, &self.members[*node].origin);
                    tracing::warn!(%chain_id, origin, question = E::name(question), "a node is alone with its word");
                    self.note_disagreement(*node);
                }
            }
        }
    }

    /// Why so few answers are not enough.
    fn fault(&self, question: &E::Question, few: TooFew<E>) -> E::Fault {
        let TooFew { answers, faults } = few;
        if answers.len() < QUORUM {
            let refusal = faults.iter().position(|fault| E::silence(fault).is_none());
            let fault = faults.into_iter().nth(refusal.unwrap_or_default());
            return fault.unwrap_or_else(|| self.nothing(question));
        }
        let verdict = |one: &(usize, E::Answer), other: &(usize, E::Answer)| E::compare(question, &one.1, &other.1);
        let differ = answers.iter().any(|one| answers.iter().any(|other| verdict(one, other) == Verdict::Differs));
        for one in &answers {
            let against = |verdict_of| answers.iter().any(|other| verdict(one, other) == verdict_of);
            match (differ, against(Verdict::Differs), against(Verdict::Behind)) {
                (true, true, _) => self.note_disagreement(one.0),
                (false, _, true) => self.count(&self.members[one.0], "behind"),
                _ => {}
            }
        }
        let origins: Vec<_> = answers.iter().map(|(node, _)| self.members[*node].origin.as_str()).collect();
        let (chain_id, origins, name) = (&self.settings.chain_id, origins.join(", "), E::name(question));
        if differ {
            tracing::warn!(%chain_id, origins, question = name, "nodes contradict each other");
        }
        Transient::contradiction(format!("{chain_id}: {origins} do not say the same to {name}")).into()
    }

    fn nothing(&self, question: &E::Question) -> E::Fault {
        Transient::unreachable(format!("{}: too few nodes answer {}", self.settings.chain_id, E::name(question))).into()
    }

    /// All nodes: by their standing, those of one standing from a place on that moves with each call by their weights.
    fn order(&self) -> Vec<usize> {
        let total: u64 = self.members.iter().map(|member| member.weight).sum();
        let mut turn = self.turn.fetch_add(1, Ordering::Relaxed) % total.max(1);
        let first = self.members.iter().position(|member| {
            let is_here = turn < member.weight;
            turn = turn.saturating_sub(member.weight);
            is_here
        });
        let (first, count) = (first.unwrap_or_default(), self.members.len());
        let mut order: Vec<usize> = (0..count).map(|place| (first + place) % count).collect();
        if self.settings.has_clock {
            let now = Instant::now();
            let fastest = self.members.iter().filter_map(|member| member.health.latency(now)).min();
            let height_least = self.reached(now).saturating_sub(self.settings.lag_blocks_max);
            let standings: Vec<Standing> =
                self.members.iter().map(|member| member.health.standing(fastest, height_least, now)).collect();
            order.sort_by_key(|node| standings[*node]);
            let usable = order.iter().filter(|node| standings[**node] < Standing::Unusable).count();
            // Where none is left the first is asked again, so that it is found when it becomes usable.
            order.truncate(usable.max(1));
        }
        order
    }

    /// The height that as many nodes have reached as have to agree: one that makes up blocks makes no other one lag.
    fn reached(&self, now: Instant) -> u64 {
        let mut heights: Vec<_> = self.members.iter().filter_map(|member| member.health.height(now)).collect();
        heights.sort_unstable();
        heights.into_iter().rev().nth(self.quorum - 1).unwrap_or_default()
    }

    fn highest(&self, now: Instant) -> u64 {
        self.members.iter().filter_map(|member| member.health.height(now)).max().unwrap_or_default()
    }

    /// When another node is asked beside those that are being asked.
    fn hedge_at(&self, asked: &[(usize, Option<Instant>)]) -> Option<Instant> {
        let patience = |node: usize, since: Instant| since + self.members[node].health.hedge_after(since);
        asked.iter().filter_map(|(node, since)| since.map(|since| patience(*node, since))).max()
    }

    fn note_waiting(&self, asked: &[(usize, Option<Instant>)]) {
        let now = Instant::now();
        for (node, since) in asked {
            if let Some(since) = since {
                self.members[*node].health.kept_waiting(now.duration_since(*since), now);
            }
        }
    }

    fn note(&self, member: &Member<E>, begun: Option<Instant>, fault: Option<&E::Fault>) {
        let silence = fault.and_then(E::silence);
        let outcome = match (fault, silence) {
            (None, _) => "ok",
            (Some(_), None) => "refused",
            (Some(_), Some(Transient::Unreachable(_))) => "unreachable",
            (Some(_), Some(Transient::RateLimited(_))) => "rate_limited",
            (Some(_), Some(Transient::Contradiction(_))) => "contradiction",
            (Some(_), Some(Transient::Misconfigured(_))) => "misconfigured",
        };
        self.count(member, outcome);
        let Some(begun) = begun else { return };
        let (now, labels) = (Instant::now(), self.labels(member));
        let took = now.duration_since(begun);
        metrics::histogram!("gw_node_call_seconds", &labels).record(took.as_secs_f64());
        match silence {
            None => member.health.answered(took, now),
            Some(Transient::Misconfigured(_)) => member.health.is_unusable(now),
            Some(_) => member.health.failed(now),
        }
        let is_up = !matches!(silence, Some(Transient::Unreachable(_) | Transient::Misconfigured(_)));
        metrics::gauge!("gw_node_up", &labels).set(if is_up { 1.0 } else { 0.0 });
    }

    fn count(&self, member: &Member<E>, outcome: &'static str) {
        let mut labels = self.labels(member).to_vec();
        labels.push(("outcome", outcome.to_owned()));
        metrics::counter!("gw_node_calls_total", &labels).increment(1);
    }

    fn labels(&self, member: &Member<E>) -> [(&'static str, String); 2] {
        [("chain", self.settings.chain_id.to_string()), ("node", member.origin.clone())]
    }
}

/// Returns at that time; never where there is none.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}
