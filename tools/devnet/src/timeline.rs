//! A payment's events as an auditor sees them, read with the auditor's credentials.

use anyhow::Result;
use journal::StreamStore;

use audit::entry::Entry;
use events::{PaymentEvent, PaymentId};
use journal_jetstream::store::{NatsJournal, Options};

use super::{network::Network, users::NatsUser};

/// Reads payments with read-only credentials.
pub struct Auditor {
    journal: NatsJournal,
}

impl Auditor {
    /// Connects as the auditor of `network`.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn connect(network: &Network) -> Result<Self> {
        let client = network.nats.connect(NatsUser::Auditor).await?;
        Ok(Self { journal: NatsJournal::bind(client, Options::default()).await? })
    }

    /// The events of a payment in order.
    ///
    /// # Errors
    /// When they cannot be read.
    pub async fn timeline(&self, payment_id: &PaymentId) -> Result<Vec<Entry>> {
        let commits = self.journal.load(&payment_id.into()).await?;
        let entries = commits.into_iter().flat_map(|commit| {
            let stored_at = commit.stored_at;
            let events: Vec<PaymentEvent> = commit.payment_events().cloned().collect();
            events.into_iter().map(move |event| Entry { stored_at, event })
        });
        Ok(entries.collect())
    }
}
