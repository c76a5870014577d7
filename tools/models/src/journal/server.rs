//! The server's side: streams with a condition on the last sequence of a message's subject, a window in which message ids are known,
//! atomic batches, and seals.

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// `StreamMoved`: the stream begins in a newer epoch.
    Mark,
    /// A commit of this version of its stream.
    Commit(u8),
}

/// A message of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message {
    /// Its subject: the stream.
    pub stream: u8,
    /// Its id.
    pub id: u8,
    /// What it holds.
    pub body: Body,
}

/// A publish, with its condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Publish {
    /// Who sent it.
    pub writer: u8,
    /// Which of its publishes it is.
    pub number: u8,
    /// The shard.
    pub shard: u8,
    /// The last sequence of its subject that it asks for.
    pub expected: u8,
    /// The message.
    pub message: Message,
}

/// What the server answers (`requests::Published`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Published {
    /// Stored.
    Stored,
    /// A message with this id is known, at this sequence.
    Duplicate(u8),
    /// Another message is the last of the subject.
    WrongSequence,
    /// The stream takes nothing.
    Sealed,
}

/// A shard's stream.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Shard {
    /// The messages, from sequence 1.
    pub log: Vec<Message>,
    /// Sequences whose message ids are still known, one bit each.
    known: u16,
    /// How many messages it had when it was sealed.
    pub sealed: Option<usize>,
}

impl Shard {
    /// The sequence of the last message of a subject among the first `length` messages; 0 for none.
    pub fn last(&self, stream: u8, length: usize) -> u8 {
        let found = self.log[..length].iter().rposition(|message| message.stream == stream);
        found.map_or(0, |index| index as u8 + 1)
    }

    /// The first message of a subject behind `sequence`, among the first `length` messages.
    pub fn next(&self, stream: u8, sequence: u8, length: usize) -> Option<Message> {
        let behind = self.log[..length].iter().skip(usize::from(sequence));
        behind.copied().find(|message| message.stream == stream)
    }

    /// What becomes of a publish; nothing is stored yet.
    pub fn judge(&self, publish: &Publish, is_conditional: bool) -> Published {
        if self.sealed.is_some() {
            return Published::Sealed;
        }
        let is_same =
            |(index, message): &(usize, &Message)| message.id == publish.message.id && self.known & 1 << index != 0;
        if let Some((index, _)) = self.log.iter().enumerate().find(is_same) {
            return Published::Duplicate(index as u8 + 1);
        }
        match is_conditional && self.last(publish.message.stream, self.log.len()) != publish.expected {
            true => Published::WrongSequence,
            false => Published::Stored,
        }
    }

    /// Stores a message.
    pub fn store(&mut self, message: Message) {
        self.known |= 1 << self.log.len();
        self.log.push(message);
    }

    /// Forgets all message ids; whether there were any.
    pub fn forget(&mut self) -> bool {
        std::mem::take(&mut self.known) != 0
    }
}
