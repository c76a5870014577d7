//! Checkpoint walk: the checkpoints of a shard, passed beside its messages and compared with them.

use std::collections::VecDeque;

use events::{Did, Hash32};
use journal::{
    checkpoint::{self, Checkpoint, Rolling, SignedCheckpoint},
    envelope,
};
use journal_jetstream::raw::{BATCH_MESSAGES, RawMessage};

use super::{Error, Finding, JournalLocation, Severity, audit_state::Seen, source::Source};

/// The walk along one shard's checkpoints. Memory holds one batch of them at a time.
pub struct Walk<'a> {
    source: &'a Source,
    shard: u16,
    subject: String,
    /// Whose checkpoints are believed; everyone's when empty.
    signers: &'a [Did],
    /// The checkpoint that an earlier run saw last.
    remembered: Option<Seen>,
    /// Last sequence of `CHK` that is looked at; 0 when there are no checkpoints at all.
    head: u64,
    next: u64,
    waiting: VecDeque<(u64, Checkpoint)>,
    /// Hash of the last checkpoint that was read.
    previous: Hash32,
    /// Sequence of the shard that it signed.
    sequence: u64,
    /// The last checkpoint that agreed with the messages.
    agreed: Option<Seen>,
    /// Checkpoints that were compared.
    pub compared: u64,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

impl<'a> Walk<'a> {
    /// A walk along the checkpoints of `shard` as they are now.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn start(
        source: &'a Source,
        shard: u16,
        signers: &'a [Did],
        remembered: Option<Seen>,
    ) -> Result<Self, Error> {
        let head = if source.has_checkpoints().await? { source.head(checkpoint::STREAM).await? } else { 0 };
        Ok(Self {
            source,
            shard,
            subject: checkpoint::subject(shard),
            signers,
            remembered,
            head,
            next: 1,
            waiting: VecDeque::new(),
            previous: Hash32::ZERO,
            sequence: 0,
            agreed: None,
            compared: 0,
            findings: Vec::new(),
        })
    }

    /// Compares with the checkpoint at the very sequence of `rolling`, when there is one. `message` is the one at that
    /// sequence.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn pass(&mut self, rolling: &Rolling, message: &RawMessage) -> Result<(), Error> {
        self.fill().await?;
        let due = self.waiting.front().is_some_and(|(_, next)| next.sequence == rolling.sequence);
        let Some((stored, signed)) = self.waiting.pop_front_if(|_| due) else { return Ok(()) };
        self.compared += 1;
        if signed.rolling_hash == rolling.hash {
            let agreed = Seen { stored, sequence: signed.sequence, hash: signed.hash() };
            self.agreed = Some(agreed);
            return Ok(());
        }
        let first = self.agreed.as_ref().map_or(1, |agreed| agreed.sequence + 1);
        let what = format!(
            "one of the messages {first} to {} is not the one that was signed: checkpoint #{stored} by {} has rolling hash \
             {}, the messages give {}",
            rolling.sequence, signed.signer, signed.rolling_hash, rolling.hash
        );
        let only = first == rolling.sequence;
        let location = if only { JournalLocation::message(message) } else { self.journal(Some(rolling.sequence)) };
        self.findings.push(Finding::new(Severity::Tampered, "checkpoint", location, what));
        Ok(())
    }

    /// Ends the walk at the last message of the shard.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn finish(&mut self, head: u64) -> Result<(), Error> {
        let mut beyond = None;
        loop {
            self.fill().await?;
            match self.waiting.pop_front() {
                // While this was read, more was stored and signed.
                Some((_, signed)) if signed.sequence > head => beyond = Some(signed.sequence),
                Some(_) => {}
                None => break,
            }
        }
        let now = self.source.head(&envelope::stream(self.shard)).await?;
        if let Some(signed) = beyond.filter(|signed| *signed > now) {
            let what = format!("the shard ends at sequence {now}, and sequence {signed} was signed in a checkpoint");
            self.findings.push(Finding::new(Severity::Missing, "truncated", self.journal(Some(signed)), what));
        }
        if let Some(remembered) = self.remembered.take() {
            let location = JournalLocation::at(checkpoint::STREAM, remembered.stored, Some(&self.subject));
            let what = format!(
                "the checkpoint of sequence {} that an earlier run saw is gone ({})",
                remembered.sequence, remembered.hash
            );
            self.findings.push(Finding::new(Severity::Missing, "checkpoint-gone", location, what));
        }
        if self.head > 0 && self.sequence == 0 && now > 0 && !self.signers.is_empty() {
            let what = "the shard has messages and no checkpoint";
            self.findings.push(Finding::new(Severity::Missing, "checkpoint", self.journal(None), what));
        }
        Ok(())
    }

    /// The highest checkpoint that agreed with the messages, when nothing is wrong with any.
    pub fn to_remember(&self) -> Option<Seen> {
        self.agreed.clone().filter(|_| self.findings.is_empty())
    }

    /// Last sequence of the shard that a checkpoint covers.
    pub fn covered(&self) -> u64 {
        self.agreed.as_ref().map_or(0, |agreed| agreed.sequence)
    }

    fn journal(&self, sequence: Option<u64>) -> JournalLocation {
        JournalLocation { stream: Some(envelope::stream(self.shard)), sequence, subject: None }
    }

    async fn fill(&mut self) -> Result<(), Error> {
        while self.waiting.is_empty() && self.next <= self.head {
            let batch = self.source.batch(checkpoint::STREAM, self.next, Some(&self.subject), BATCH_MESSAGES).await?;
            let Some(last) = batch.last() else {
                self.next = self.head + 1;
                break;
            };
            self.next = last.sequence + 1;
            let head = self.head;
            for message in batch.iter().take_while(|message| message.sequence <= head) {
                self.take(message);
            }
        }
        Ok(())
    }

    fn take(&mut self, message: &RawMessage) {
        let mut find = |check, what: String| {
            self.findings.push(Finding::new(Severity::Tampered, check, JournalLocation::message(message), what));
        };
        let signed = match SignedCheckpoint::parse(&message.body) {
            Ok(signed) => signed.checkpoint().clone(),
            Err(error) => return find("checkpoint-signature", error.to_string()),
        };
        if signed.shard != self.shard {
            return find("checkpoint-signature", format!("it is of shard {}", signed.shard));
        }
        if !self.signers.is_empty() && !self.signers.contains(&signed.signer) {
            find("checkpoint-signer", format!("{} is not trusted to sign checkpoints", signed.signer));
        }
        let hash = signed.hash();
        if let Some(seen) = self.remembered.take_if(|seen| seen.stored <= message.sequence)
            && (seen.stored, seen.hash) != (message.sequence, hash)
        {
            find(
                "checkpoint-fork",
                format!("an earlier run saw another checkpoint here, {} of sequence {}", seen.hash, seen.sequence),
            );
        }
        if signed.previous != self.previous || signed.sequence <= self.sequence {
            let what = format!("it follows {} and stands behind {}", signed.previous, self.previous);
            find("checkpoint-fork", what);
        }
        self.previous = hash;
        // One that goes back signs messages that were passed already; it can no longer be compared.
        if signed.sequence > self.sequence {
            self.sequence = signed.sequence;
            self.waiting.push_back((message.sequence, signed));
        }
    }
}
