//! The roles that an operator runs.

use clap::ValueEnum;

/// What is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Role {
    /// `gw serve`.
    Gateway,
    /// `gw settler`.
    Settler,
    /// `gw verifier`.
    Verifier,
    /// `gw selector`.
    Selector,
    /// `gw audit`.
    Auditor,
}

impl Role {
    /// As it is named on the command line, and as its file is.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Settler => "settler",
            Self::Verifier => "verifier",
            Self::Selector => "selector",
            Self::Auditor => "auditor",
        }
    }

    /// What runs it.
    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Gateway => "gw serve",
            Self::Settler => "gw settler",
            Self::Verifier => "gw verifier",
            Self::Selector => "gw selector",
            Self::Auditor => "gw audit",
        }
    }
}
