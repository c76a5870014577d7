//! Gas budgets in memory, for the simulation and for tests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;

use events::time::Timestamp;

use super::{
    Budget, BudgetKey, BudgetState, Budgets, Error, Room,
    state::{self, Entry},
};
use crate::ledger::Purpose;

/// Gas budgets in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryBudgets(Arc<Mutex<HashMap<BudgetKey, Entry>>>);

impl MemoryBudgets {
    fn entries(&self) -> MutexGuard<'_, HashMap<BudgetKey, Entry>> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Budgets for MemoryBudgets {
    async fn charge_one(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        others: &[BudgetKey],
        now: Timestamp,
    ) -> Result<Room, Error> {
        let mut entries = self.entries();
        let (room, changed) = state::charge(entries.get(&budget.key), budget, purpose, gas, others, now);
        if let Some(entry) = changed {
            entries.insert(budget.key.clone(), entry);
        }
        Ok(room)
    }

    async fn close_one(&self, key: &BudgetKey, purpose: &Purpose, lost: u64, now: Timestamp) -> Result<bool, Error> {
        let mut entries = self.entries();
        let Some(entry) = state::close(entries.get(key), purpose, lost, now) else { return Ok(false) };
        entries.insert(key.clone(), entry);
        Ok(true)
    }

    async fn charged(&self, key: &BudgetKey, purpose: &Purpose) -> Result<Option<Vec<BudgetKey>>, Error> {
        Ok(self.entries().get(key).and_then(|entry| entry.charged(purpose)))
    }

    async fn room_of(&self, budget: &Budget, gas: u64, now: Timestamp) -> Result<Room, Error> {
        Ok(state::room(self.entries().get(&budget.key), budget, gas, now))
    }

    async fn state_of(
        &self,
        budget: &Budget,
        purpose: &Purpose,
        gas: u64,
        now: Timestamp,
    ) -> Result<BudgetState, Error> {
        Ok(state::state_of(self.entries().get(&budget.key), budget, purpose, gas, now))
    }
}
