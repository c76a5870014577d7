//! Hash chain: the walk along the commits of one payment or batch.

use super::Error;
use crate::{Position, Recorded};

/// Walks along one stream's commits and checks that each is the successor of the one before.
#[derive(Debug, Clone)]
pub struct Chain {
    at: Position,
}

impl Default for Chain {
    fn default() -> Self {
        Self { at: Position::START }
    }
}

impl Chain {
    /// Where the walk stands.
    pub fn position(&self) -> Position {
        self.at
    }

    /// Takes the next commit.
    ///
    /// # Errors
    /// [`Error::Chain`] when its version, predecessor's hash or sequence is not that of the successor.
    pub fn follow(&mut self, next: &Recorded) -> Result<(), Error> {
        let expected = self.at.version + 1;
        if next.position.version != expected {
            return Err(Error::Chain(format!("version {} where {expected} belongs", next.position.version)));
        }
        if next.prev != self.at.hash {
            return Err(Error::Chain(format!(
                "Gw-Prev is {}, the message before hashes to {}",
                next.prev, self.at.hash
            )));
        }
        if next.position.sequence <= self.at.sequence {
            return Err(Error::Chain(format!("sequence {} is not above {}", next.position.sequence, self.at.sequence)));
        }
        self.at = next.position;
        Ok(())
    }
}
