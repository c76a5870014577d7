//! Following a payment live: its stages as they happen, as a progress bar on a terminal and as lines elsewhere.

use std::{
    io::{IsTerminal, stderr},
    pin::pin,
    time::Duration,
};

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{Instant, timeout_at};

use events::PaymentId;
use gateway_client::{Entry, Error, Gateway, Payment};

use super::text::plain;

/// The stages that a payment passes, by the events that end them.
const STAGES: [(&[&str], &str); 5] = [
    (&["Submitted"], "accepted; settlers are asked"),
    (&["QuoteAwarded"], "a settler won"),
    (&["EscrowSecured", "ReservationLapsed", "EscrowReassigned"], "the money is in escrow"),
    (&["FulfillmentSeen"], "delivered, and gathering confirmations"),
    (&["FulfillmentFinalized", "FulfillmentConfirmed"], "delivered"),
];
const TICK: Duration = Duration::from_millis(120);

/// What is shown.
enum Shown {
    Bar(ProgressBar),
    Lines,
}

impl Shown {
    fn start() -> Self {
        if !stderr().is_terminal() {
            return Self::Lines;
        }
        let bar = ProgressBar::new(STAGES.len() as u64);
        if let Ok(style) = ProgressStyle::with_template("{spinner} [{bar:24}] {elapsed_precise} {msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self::Bar(bar)
    }

    fn entry(&self, entry: &Entry) {
        let (event, summary) = (plain(&entry.event), plain(&entry.summary));
        match self {
            Self::Bar(bar) => {
                if let Some(place) = STAGES.iter().position(|(events, _)| events.contains(&entry.event.as_str())) {
                    bar.set_position(bar.position().max(place as u64 + 1));
                    bar.set_message(STAGES[place].1);
                }
                bar.println(format!("  {} {summary}", entry.at.format("%H:%M:%S")));
            }
            Self::Lines => eprintln!("{} {event}: {summary}", entry.at.format("%H:%M:%S")),
        }
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}

/// Shows what happens to a payment until it is completed or failed, or until `until`; returns how it stands then.
///
/// # Errors
/// [`Error`]: then nothing is known.
pub async fn follow(gateway: &Gateway, payment_id: &PaymentId, until: Instant) -> Result<Payment, Error> {
    {
        let shown = Shown::start();
        let mut entries = pin!(gateway.watch(payment_id));
        // A stream that is refused, or breaks for good, leaves the status to be polled.
        while let Ok(Some(Ok(entry))) = timeout_at(until, entries.next()).await {
            shown.entry(&entry);
            if entry.status.is_final() {
                break;
            }
        }
    }
    gateway.wait(payment_id, until).await
}
