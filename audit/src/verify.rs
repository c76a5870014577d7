//! `gw audit verify`: one stream, or all of them.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};

use events::{Did, StreamId};
use journal::{
    checkpoint::{self, Rolling},
    envelope,
};
use journal_jetstream::raw::{BATCH_MESSAGES, RawMessage};

use super::{
    Error, Finding, JournalLocation, Severity,
    audit_state::{AuditState, Seen},
    checkpoints::Walk,
    consistency::{self, about},
    examine::{Examined, State, examine},
    layout::Layout,
    onchain::Chains,
    progress::Progress,
    report::Report,
    source::Source,
    uniqueness,
};

/// Streams of one shard that are checked at the same time.
const CHECKS_AT_ONCE: usize = 8;
/// How often a message that a replica does not give is asked for again before it counts as missing.
const ASKED_AGAIN: u32 = 100;
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// What is audited, and against what.
pub struct Auditor {
    /// Where messages come from.
    pub source: Source,
    /// The chains; `None` to check streams only.
    pub chains: Option<Chains>,
    /// Whose checkpoints are believed; everyone's when empty.
    pub signers: Vec<Did>,
}

/// What a shard's audit gives.
struct ShardOutcome {
    shard: u16,
    report: Report,
    seen: Option<Seen>,
}

impl Auditor {
    /// Checks one payment or batch, wherever it lies, and that it lies in one epoch only.
    ///
    /// # Errors
    /// [`Error`] when the messages cannot be read.
    pub async fn verify(&self, id: &StreamId) -> Result<Report, Error> {
        let mut report = Report::default();
        let (layout, found) = loop {
            let layout = self.source.layout().await?;
            let found = uniqueness::everywhere(&self.source, &layout, id).await?;
            // Nothing can be said about an epoch that was begun or sealed in the middle of it.
            if self.source.layout().await? == layout {
                break (layout, found);
            }
        };
        self.say_what_is_not_checked(&layout, &mut report);
        report
            .not_checked
            .push("signed checkpoints, which cover all messages of a shard: `--all` checks them".to_owned());
        if found.iter().all(|(shard, messages)| uniqueness::is_moved(*shard, messages)) {
            let shard = layout.epochs().current().shard_of(id);
            let subject = envelope::subject(shard, id);
            report.absorb(self.check(&layout, shard, subject, Vec::new()).await?);
        }
        for (shard, messages) in found {
            let (stream, subject) = (envelope::stream(shard), envelope::subject(shard, id));
            let last = self.source.last(&stream, &subject).await?;
            if let (Some(read), Some(last)) = (messages.last(), &last)
                && last.sequence < read.sequence
            {
                let what = format!(
                    "a direct get says that #{} is the last, the replay goes on to #{}",
                    last.sequence, read.sequence
                );
                report.add(Finding::new(Severity::Contradiction, "tail", JournalLocation::message(last), what));
            }
            report.absorb(self.check(&layout, shard, subject, messages).await?);
        }
        report.close();
        Ok(report)
    }

    /// Checks everything: every message of every shard, every stream, every checkpoint. Memory holds what is being worked
    /// on and 8 bytes a stream. `state` is told what was seen.
    ///
    /// # Errors
    /// [`Error`] when the messages cannot be read.
    pub async fn verify_all(
        self: &Arc<Self>,
        state: &mut AuditState,
        progress: &Arc<Progress>,
    ) -> Result<Report, Error> {
        let mut report = Report::default();
        for fault in self.source.faults() {
            report.add(fault.clone());
        }
        let (layout, heads, strays) = loop {
            let layout = self.source.layout().await?;
            let mut heads = Vec::new();
            for shard in 0..layout.shards() {
                heads.push(self.source.head(&envelope::stream(shard)).await?);
            }
            let strays = uniqueness::shards_that_are_gone(&self.source, &layout, state).await?;
            // What lies before these heads was begun in these epochs, and a shard that was open is so still.
            if self.source.layout().await? == layout {
                break (Arc::new(layout), heads, strays);
            }
        };
        self.say_what_is_not_checked(&layout, &mut report);
        for stray in strays {
            report.add(stray);
        }
        progress.expect(heads.iter().sum());
        self.check_checkpoints_exist(state, &heads, &mut report).await?;
        let mut running = JoinSet::new();
        for (shard, head) in (0..layout.shards()).zip(heads) {
            let (auditor, layout, progress) = (self.clone(), layout.clone(), progress.clone());
            let remembered = state.shards.get(&shard).cloned();
            running.spawn(async move { auditor.verify_shard(layout, shard, head, remembered, &progress).await });
        }
        while let Some(ended) = running.join_next().await {
            // A panic of the check is a bug, and goes on up as it would without the task.
            let outcome = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
            if let Some(seen) = outcome.seen {
                state.note(outcome.shard, seen);
            }
            report.absorb(outcome.report);
        }
        report.close();
        Ok(report)
    }

    fn say_what_is_not_checked(&self, layout: &Layout, report: &mut Report) {
        if self.chains.is_none() {
            report.not_checked.push(
                "everything that needs a chain: transactions, balances, signatures of payers and verifiers".to_owned(),
            );
        }
        if self.signers.is_empty() {
            report.not_checked.push("who signed the checkpoints: no checkpoint_signers are configured".to_owned());
        }
        let closed = layout.epochs().all().iter().filter(|epoch| epoch.sealed).map(|epoch| epoch.number.to_string());
        let closed: Vec<_> = closed.collect();
        if !closed.is_empty() {
            let whose = if matches!(self.source, Source::Nats(_)) { "the server's" } else { "the export's" };
            let what = "that nothing more can come into the sealed epochs";
            report.not_checked.push(format!("{what} {}: it is {whose} word", closed.join(", ")));
        }
    }

    async fn check_checkpoints_exist(
        &self,
        state: &AuditState,
        heads: &[u64],
        report: &mut Report,
    ) -> Result<(), Error> {
        if self.source.has_checkpoints().await? {
            return Ok(());
        }
        let expected = !state.shards.is_empty() || !self.signers.is_empty();
        if expected && heads.iter().any(|head| *head > 0) {
            let location = JournalLocation::stream(checkpoint::STREAM, None);
            report.add(Finding::new(Severity::Missing, "checkpoint", location, "there are no checkpoints at all"));
        } else {
            report.not_checked.push("whether a shard was cut off or written anew: there are no checkpoints".to_owned());
        }
        Ok(())
    }

    async fn verify_shard(
        self: Arc<Self>,
        layout: Arc<Layout>,
        shard: u16,
        head: u64,
        remembered: Option<Seen>,
        progress: &Progress,
    ) -> Result<ShardOutcome, Error> {
        let stream = envelope::stream(shard);
        let mut walk = Walk::start(&self.source, shard, &self.signers, remembered).await?;
        // `None` after a gap: nothing can be said about what comes behind it.
        let mut rolling = Some(Rolling::START);
        let mut checks = Checks::default();
        let mut next = 1;
        while next <= head {
            let batch = self.contiguous(&stream, next, head).await?;
            if batch.first().is_none_or(|first| first.sequence != next) {
                rolling = None;
                let until = batch.first().map_or(head, |first| first.sequence - 1);
                checks.report.add(gap(&stream, next, until));
                next = until + 1;
            }
            for message in batch {
                next = message.sequence + 1;
                checks.report.messages += 1;
                progress.add(1);
                if let Some(rolling) = &mut rolling {
                    rolling.follow(message.hash());
                    walk.pass(rolling, &message).await?;
                }
                match checks.streams.classify(&message) {
                    MessageKind::First => {
                        checks.wait_below(CHECKS_AT_ONCE).await?;
                        let (auditor, layout, stream) = (self.clone(), layout.clone(), stream.clone());
                        checks.running.spawn(async move {
                            let messages = auditor.source.subject(&stream, &message.subject, head).await?;
                            auditor.check(&layout, shard, message.subject, messages).await
                        });
                    }
                    MessageKind::Orphan => checks.report.add(orphan(&message)),
                    MessageKind::Later => {}
                }
            }
        }
        checks.wait_below(1).await?;
        let Checks { mut report, streams, .. } = checks;
        if let Some(difference) = streams.difference(&stream) {
            report.add(difference);
        }
        walk.finish(head).await?;
        report.checkpoints = walk.compared;
        report.unsigned = head.saturating_sub(walk.covered());
        let seen = walk.to_remember().filter(|_| rolling.is_some());
        for finding in walk.findings {
            report.add(finding);
        }
        Ok(ShardOutcome { shard, report, seen })
    }

    /// The messages from `next` on up to a gap, or those behind the gap when there is one right here. Replicas may be
    /// behind, so what is not given is asked for again before it counts as missing.
    async fn contiguous(&self, stream: &str, next: u64, head: u64) -> Result<Vec<RawMessage>, Error> {
        let mut batch = Vec::new();
        for attempt in 0..ASKED_AGAIN {
            batch = self.source.batch(stream, next, None, BATCH_MESSAGES).await?;
            batch.retain(|message| message.sequence <= head);
            let whole = (next..).zip(&batch).take_while(|(sequence, message)| message.sequence == *sequence).count();
            if whole > 0 {
                batch.truncate(whole);
                return Ok(batch);
            }
            if matches!(self.source, Source::Export(_)) {
                break;
            }
            if attempt + 1 < ASKED_AGAIN {
                sleep(ASK_PAUSE).await;
            }
        }
        let first = batch.first().map_or(0, |first| first.sequence);
        let whole = (first..).zip(&batch).take_while(|(sequence, message)| message.sequence == *sequence).count();
        batch.truncate(whole);
        Ok(batch)
    }

    /// Checks one stream with all its messages.
    async fn check(
        &self,
        layout: &Layout,
        shard: u16,
        subject: String,
        messages: Vec<RawMessage>,
    ) -> Result<Report, Error> {
        let examined = examine(layout, shard, &subject, &messages);
        let mut report = Report { messages: messages.len() as u64, ..Report::default() };
        let sound = examined.findings.is_empty();
        for finding in examined.findings.iter().cloned().chain(consistency::check(&examined)) {
            report.add(finding);
        }
        if examined.is_mark {
            report.marks = 1;
            return Ok(report);
        }
        if !messages.is_empty() {
            uniqueness::check(&self.source, layout, shard, &examined, &mut report).await?;
        }
        match &examined.state {
            Some(State::Payment(payment)) => {
                report.payments = 1;
                self.check_batch_of(&examined, layout, &mut report).await?;
                // What a broken stream claims need not be asked of a chain: it is known not to be what was written.
                if let (true, Some(chains)) = (sound, &self.chains) {
                    for finding in chains.check(&examined, payment).await {
                        report.add(finding);
                    }
                }
            }
            Some(State::Batch(_)) => {
                report.batches = 1;
                self.check_award_of(&examined, layout, &mut report).await?;
            }
            None => match examined.commits.first().map(|commit| &commit.stream_id) {
                Some(StreamId::QuoteRequest(_)) => report.batches = 1,
                Some(StreamId::Payment(_)) | None => report.payments = 1,
            },
        }
        Ok(report)
    }

    /// A payment that came out of a batch must be the one that the batch was awarded to.
    async fn check_batch_of(&self, examined: &Examined, layout: &Layout, report: &mut Report) -> Result<(), Error> {
        let Some(State::Payment(payment)) = &examined.state else { return Ok(()) };
        let Some(collected) = &payment.submitted.collected_quote else { return Ok(()) };
        let batch_id = StreamId::from(&collected.quote_request_id);
        let batch = match uniqueness::find(&self.source, layout, &batch_id).await? {
            Some((shard, messages)) => examine(layout, shard, &envelope::subject(shard, &batch_id), &messages).state,
            None => None,
        };
        let awarded = match &batch {
            Some(State::Batch(batch)) => batch.awarded.as_ref(),
            _ => None,
        };
        match awarded {
            Some(awarded)
                if awarded.payment_id == payment.submitted.payment_id && awarded.quote_id == collected.quote_id => {}
            Some(awarded) => {
                let what = format!("batch {batch_id} was awarded to {} with {}", awarded.payment_id, awarded.quote_id);
                report.add(about(examined, Severity::Contradiction, "batch", what));
            }
            None => {
                let what = format!("batch {batch_id}, out of which the payment came, is not there or was not awarded");
                report.add(about(examined, Severity::Missing, "batch", what));
            }
        }
        Ok(())
    }

    /// A batch that was awarded leads to a payment; a gateway may have died in between, before anything was taken.
    async fn check_award_of(&self, examined: &Examined, layout: &Layout, report: &mut Report) -> Result<(), Error> {
        let Some(State::Batch(batch)) = &examined.state else { return Ok(()) };
        let Some(awarded) = &batch.awarded else { return Ok(()) };
        let payment_id = StreamId::from(&awarded.payment_id);
        if uniqueness::find(&self.source, layout, &payment_id).await?.is_none() {
            let what = format!("it was awarded to {payment_id}, which was never begun");
            report.add(about(examined, Severity::Open, "award", what));
        }
        Ok(())
    }
}

/// The checks of a shard's streams that are under way, and what was found in the shard so far.
#[derive(Default)]
struct Checks {
    report: Report,
    streams: Streams,
    running: JoinSet<Result<Report, Error>>,
}

impl Checks {
    /// Takes what checks have found until fewer than `limit`, which is above 0, are under way.
    async fn wait_below(&mut self, limit: usize) -> Result<(), Error> {
        while self.running.len() >= limit {
            let Some(ended) = self.running.join_next().await else { break };
            // A panic of the check is a bug, and goes on up as it would without the task.
            let mut checked = ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
            self.streams.direct += checked.messages;
            // They were counted when the shard was replayed.
            checked.messages = 0;
            self.report.absorb(checked);
        }
        Ok(())
    }
}

/// The streams met in a shard's replay.
#[derive(Default)]
struct Streams {
    /// Hashes of their subjects.
    known: HashSet<u64>,
    hasher: RandomState,
    /// Messages met.
    replayed: u64,
    /// Messages read by subject.
    direct: u64,
}

/// What a message is to its stream, by the messages met so far.
enum MessageKind {
    /// The first message of a stream.
    First,
    /// A later one.
    Later,
    /// The first one met, but not the first by its own word.
    Orphan,
}

impl Streams {
    fn classify(&mut self, message: &RawMessage) -> MessageKind {
        let first = self.known.insert(self.hasher.hash_one(&message.subject));
        // A message without an envelope begins its stream as well as any: examining it says what is wrong.
        let begins = message.envelope().map_or(first, |envelope| envelope.version == 1 && first);
        if first && !begins {
            self.direct += 1;
        }
        self.replayed += 1;
        match (begins, first) {
            (true, _) => MessageKind::First,
            (false, true) => MessageKind::Orphan,
            (false, false) => MessageKind::Later,
        }
    }

    /// What is wrong when a replay of `stream` and reads by subject do not give as many messages.
    fn difference(&self, stream: &str) -> Option<Finding> {
        let Self { replayed, direct, .. } = self;
        let what = format!(
            "the replay holds {replayed} messages of payments and batches, reading each by its subject gives {direct}"
        );
        (replayed != direct)
            .then(|| Finding::new(Severity::Contradiction, "tail", JournalLocation::stream(stream, None), what))
    }
}

/// The messages of a stream from `next` to `until` are not there.
fn gap(stream: &str, next: u64, until: u64) -> Finding {
    let what = match until == next {
        true => "the message is missing".to_owned(),
        false => format!("the messages {next} to {until} are missing"),
    };
    Finding::new(Severity::Missing, "gap", JournalLocation::at(stream, next, None), what)
}

fn orphan(message: &RawMessage) -> Finding {
    let what = "there is no first message of this subject before it";
    Finding::new(Severity::Missing, "orphan", JournalLocation::message(message), what)
}
