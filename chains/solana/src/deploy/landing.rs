//! Landing: transactions are sent, watched and sent again until each has landed or never can.
//!
//! A transaction lands once at most, and not above the block height that its blockhash counts up to. What its effect is is not read
//! here but in the accounts: each of these transactions does the same a second time, or is refused then.

use futures::future::join_all;
use serde_json::Value;
use tokio::time::Instant;

use chains::deployment::DeployError;
use ed25519_dalek::SigningKey;
use gateway_program::{Key, host::Instruction};

use super::{
    cluster::{Cluster, Status},
    keypairs::address,
};
use crate::{
    program::reason,
    transaction::{self, Budget},
};

/// Most transactions that are under way at once.
const IN_FLIGHT_MAX: usize = 16;

/// Transactions that are alike.
pub(super) struct Batch<'a> {
    /// Their instructions, without those of the budget. All take as many compute units as the first.
    pub transactions: &'a [Vec<Instruction>],
    /// Who signs each; the first pays.
    pub signers: &'a [&'a SigningKey],
    /// What they write to.
    pub writes: &'a [Key],
    /// How often they were tried, with this time. Each attempt offers twice as much.
    pub attempt: u32,
    /// The slot of what they were made from: a node that has not seen it says nothing about them.
    pub slot: u64,
}

/// What became of a [`Batch`].
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Landing {
    /// The last slot in which one of them landed.
    pub slot: u64,
    /// How many landed and had their effect.
    pub landed: usize,
    /// Why one of them was refused.
    pub refusal: Option<String>,
    /// What the node said of one that it did not take.
    pub fault: Option<String>,
}

/// A transaction under way.
struct Flight {
    hash: String,
    wire: Vec<u8>,
    programs: Vec<Key>,
    last_valid_height: u64,
    launched_at: Instant,
    sent_at: Instant,
}

/// Lands a batch. `landed` is told how many have landed whenever more have.
///
/// # Errors
/// [`DeployError::Unanswered`]; any of them may land later.
pub(super) async fn land(
    cluster: &Cluster,
    batch: &Batch<'_>,
    landed: &(dyn Fn(usize) + Sync),
) -> Result<Landing, DeployError> {
    let (Some(payer), Some(first)) = (batch.signers.first(), batch.transactions.first()) else {
        return Ok(Landing::default());
    };
    let payer = address(payer);
    let budget = match budget(cluster, batch, first, &payer).await? {
        Ok(budget) => budget,
        Err(refusal) => return Ok(Landing { refusal: Some(refusal), ..Landing::default() }),
    };
    let mut run = Run { cluster, batch, payer, budget, flights: Vec::new(), landing: Landing::default() };
    let mut waiting = batch.transactions.iter();
    loop {
        let room = IN_FLIGHT_MAX.saturating_sub(run.flights.len());
        let next: Vec<_> = waiting.by_ref().take(room).collect();
        if !next.is_empty() {
            run.launch(&next).await?;
        }
        if run.flights.is_empty() {
            return Ok(run.landing);
        }
        let before = run.landing.landed;
        run.poll().await?;
        if run.landing.landed > before {
            landed(run.landing.landed);
        }
        if !run.flights.is_empty() {
            run.keep_alive().await;
            tokio::time::sleep(cluster.patience().poll).await;
        }
    }
}

/// What each may take and offers, by a simulation of the first; or why it would be refused.
async fn budget(
    cluster: &Cluster,
    batch: &Batch<'_>,
    first: &[Instruction],
    payer: &Key,
) -> Result<Result<Budget, String>, DeployError> {
    let trial = transaction::message(first, Budget::TRIAL, payer, &[0; 32]);
    let simulated = cluster.simulate(&transaction::unsigned(&trial), batch.slot).await?;
    if let Some(error) = &simulated.error {
        let reason = reason(error, &transaction::programs(&trial));
        return Ok(Err(match simulated.log {
            Some(log) => format!("{reason} ({log})"),
            None => reason,
        }));
    }
    let recent = cluster.recent_fees(batch.writes).await?;
    Ok(Ok(Budget::new(simulated.units, &recent, batch.attempt)))
}

struct Run<'a> {
    cluster: &'a Cluster,
    batch: &'a Batch<'a>,
    payer: Key,
    budget: Budget,
    flights: Vec<Flight>,
    landing: Landing,
}

impl Run<'_> {
    /// Signs and sends.
    async fn launch(&mut self, transactions: &[&Vec<Instruction>]) -> Result<(), DeployError> {
        let blockhash = self.cluster.blockhash().await?;
        let mut launched = Vec::new();
        for instructions in transactions {
            let message = transaction::message(instructions, self.budget, &self.payer, &blockhash.hash);
            let signed = transaction::sign(&message, self.batch.signers);
            let signed = signed.map_err(|error| DeployError::Unfit(format!("cannot be signed: {error}")))?;
            let now = Instant::now();
            launched.push(Flight {
                hash: signed.hash,
                wire: signed.wire,
                programs: transaction::programs(&message),
                last_valid_height: blockhash.last_valid_height,
                launched_at: now,
                sent_at: now,
            });
        }
        self.send(&launched.iter().collect::<Vec<_>>()).await;
        self.flights.extend(launched);
        Ok(())
    }

    /// Silence is not refusal: a transaction may be on its way, so it is watched, and sent again.
    async fn send(&mut self, flights: &[&Flight]) {
        let cluster = self.cluster;
        let sent = join_all(flights.iter().map(|flight| cluster.send(&flight.wire))).await;
        if let Some(fault) = sent.into_iter().find_map(Result::err) {
            tracing::debug!(%fault, "a transaction was not taken");
            self.landing.fault = Some(fault.to_string());
        }
    }

    /// Looks what became of those under way.
    async fn poll(&mut self) -> Result<(), DeployError> {
        // Asked for first: whatever landed up to this height is known when the statuses are asked for.
        let is_old = |flight: &Flight| flight.launched_at.elapsed() >= self.cluster.patience().resend_after;
        let height = if self.flights.iter().any(is_old) { Some(self.cluster.height().await?) } else { None };
        let hashes: Vec<&str> = self.flights.iter().map(|flight| flight.hash.as_str()).collect();
        let statuses = self.cluster.statuses(&hashes).await?;
        let flights = std::mem::take(&mut self.flights);
        for (flight, status) in flights.into_iter().zip(statuses) {
            match status {
                Some(Status { slot, error }) => {
                    self.landing.slot = slot.max(self.landing.slot);
                    match error {
                        None => self.landing.landed += 1,
                        Some(error) => self.landing.refusal = Some(refusal(&error, &flight)),
                    }
                }
                None if height.is_some_and(|height| height > flight.last_valid_height) => {
                    tracing::debug!(hash = flight.hash, "a transaction did not land in time");
                }
                None => self.flights.push(flight),
            }
        }
        Ok(())
    }

    /// Sends again what nobody has seen for a while: nodes forget.
    async fn keep_alive(&mut self) {
        let resend_after = self.cluster.patience().resend_after;
        let (stale, mut flights): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.flights).into_iter().partition(|flight| flight.sent_at.elapsed() >= resend_after);
        if !stale.is_empty() {
            self.send(&stale.iter().collect::<Vec<_>>()).await;
        }
        let now = Instant::now();
        flights.extend(stale.into_iter().map(|flight| Flight { sent_at: now, ..flight }));
        self.flights = flights;
    }
}

fn refusal(error: &Value, flight: &Flight) -> String {
    format!("{} failed: {}", flight.hash, reason(error, &flight.programs))
}
