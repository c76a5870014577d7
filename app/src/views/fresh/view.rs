//! The kinds of views that are kept fresh.

use journal::Recorded;
use projections::{PaymentView, QuoteRequestView};

/// A view of one kind of stream.
pub(super) trait View: Clone + Send + Sync + Sized + 'static {
    fn fold(commits: &[Recorded]) -> Option<Self>;

    /// Whether nothing that is shown of it will ever change.
    fn is_at_rest(&self) -> bool;

    /// Commits in it.
    fn version(&self) -> u64;
}

impl View for PaymentView {
    fn fold(commits: &[Recorded]) -> Option<Self> {
        Self::fold(commits)
    }

    fn is_at_rest(&self) -> bool {
        self.at_rest
    }

    fn version(&self) -> u64 {
        self.version
    }
}

impl View for QuoteRequestView {
    fn fold(commits: &[Recorded]) -> Option<Self> {
        Self::fold(commits)
    }

    fn is_at_rest(&self) -> bool {
        self.award.is_some()
    }

    fn version(&self) -> u64 {
        self.version
    }
}
