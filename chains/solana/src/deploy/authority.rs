//! Upgrade authority: who may replace the program, and so its rules, once it is set up.

use chains::deployment::Finding;
use events::Account;
use gateway_program::Key;

use crate::program::{self, text};

/// Who may replace the program in the end. Until then it is the payer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpgradeAuthority {
    /// It stays with the payer.
    Payer,
    /// This account, for example that of a multi-signature program. It does not have to agree.
    Account(Account),
    /// Nobody, ever.
    Nobody,
}

/// An [`UpgradeAuthority`] in the program's types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Payer,
    Key(Key),
    Nobody,
}

impl Wanted {
    /// Reads what the operator wants.
    ///
    /// # Errors
    /// [`program::ConvertError`] for an account of another family.
    pub fn of(authority: &UpgradeAuthority) -> Result<Self, program::ConvertError> {
        Ok(match authority {
            UpgradeAuthority::Payer => Self::Payer,
            UpgradeAuthority::Account(account) => Self::Key(program::key(account)?),
            UpgradeAuthority::Nobody => Self::Nobody,
        })
    }

    /// Whom the authority of a program, which `current` has now, is to be handed to by `payer`: `None` where nothing is to be done,
    /// `Some(None)` where it is given up.
    ///
    /// # Errors
    /// What is wrong, when neither the payer has it nor who should.
    pub fn hand_over(self, current: Option<Key>, payer: &Key) -> Result<Option<Option<Key>>, String> {
        let next = match self {
            // What was given up, or is another's already by the operator's own doing, stays as it is.
            Self::Payer => return Ok(None),
            Self::Key(key) => Some(key),
            Self::Nobody => None,
        };
        match current {
            None => Ok(None),
            current if current == next => Ok(None),
            Some(current) if current == *payer => Ok(Some(next)),
            Some(current) => Err(format!(
                "the program's upgrade authority is {}, and only that account can hand it over",
                text(&current)
            )),
        }
    }

    /// Compares who has the authority of `program` with who should.
    pub fn compare(self, program: &Key, current: Option<Key>) -> Finding {
        let program = text(program);
        let Some(current) = current else {
            return Finding::good(format!("upgrade authority of {program}: nobody can replace the program"));
        };
        let (subject, current) = (format!("upgrade authority of {program}"), text(&current));
        match self {
            Self::Payer => Finding::good(format!("{subject}: {current} can replace the program")),
            Self::Key(key) => Finding::compare(subject, &current, &text(&key)),
            Self::Nobody => Finding::bad(subject, format!("is {current}, and should be given up")),
        }
    }

    /// What becomes of the authority, for people.
    pub fn title(self, payer: &Key) -> String {
        match self {
            Self::Payer => format!("upgrade authority, which stays with {}", text(payer)),
            Self::Key(key) => format!("upgrade authority, which goes to {}", text(&key)),
            Self::Nobody => "upgrade authority, which is given up for good".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYER: Key = [1; 32];
    const OTHER: Key = [2; 32];

    #[test]
    fn only_what_the_payer_has_is_handed_over() {
        let next = |wanted: Wanted, current| wanted.hand_over(current, &PAYER);
        for wanted in [Wanted::Payer, Wanted::Key(OTHER), Wanted::Nobody] {
            assert_eq!(next(wanted, None).unwrap(), None, "{wanted:?}");
        }
        assert_eq!(next(Wanted::Payer, Some(PAYER)).unwrap(), None);
        assert_eq!(next(Wanted::Payer, Some(OTHER)).unwrap(), None);
        assert_eq!(next(Wanted::Key(OTHER), Some(PAYER)).unwrap(), Some(Some(OTHER)));
        assert_eq!(next(Wanted::Key(OTHER), Some(OTHER)).unwrap(), None);
        assert_eq!(next(Wanted::Key(PAYER), Some(PAYER)).unwrap(), None);
        assert_eq!(next(Wanted::Nobody, Some(PAYER)).unwrap(), Some(None));
        next(Wanted::Key([3; 32]), Some(OTHER)).unwrap_err();
        next(Wanted::Nobody, Some(OTHER)).unwrap_err();
    }

    #[test]
    fn only_another_than_was_named_is_a_fault() {
        let fault = |wanted: Wanted, current| wanted.compare(&[9; 32], current).fault;
        for wanted in [Wanted::Payer, Wanted::Key(OTHER), Wanted::Nobody] {
            assert_eq!(fault(wanted, None), None, "{wanted:?}");
        }
        assert_eq!(fault(Wanted::Payer, Some(OTHER)), None);
        assert_eq!(fault(Wanted::Key(OTHER), Some(OTHER)), None);
        assert!(fault(Wanted::Key(OTHER), Some(PAYER)).is_some());
        assert!(fault(Wanted::Nobody, Some(PAYER)).is_some());
        assert!(Wanted::Payer.compare(&[9; 32], Some(OTHER)).subject.contains(&text(&OTHER)));
    }
}
