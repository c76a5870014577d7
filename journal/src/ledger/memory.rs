//! The signer ledger in memory, for the simulation and for tests.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;

use events::time::Timestamp;

use super::{
    Error, Ledger, Purpose, Reservation, SignerAccount,
    state::{Decision, Entry, decide, give_back, retire},
};

/// The signer ledger in memory. Clones share the same accounts.
#[derive(Debug, Clone, Default)]
pub struct MemoryLedger(Arc<Mutex<HashMap<SignerAccount, Entry>>>);

#[async_trait]
impl Ledger for MemoryLedger {
    async fn reserve(
        &self,
        account: &SignerAccount,
        purpose: &Purpose,
        chain_nonce: u64,
        final_nonce: u64,
        now: Timestamp,
    ) -> Result<u64, Error> {
        // Entries are replaced whole, so a poisoned lock guards nothing half done.
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match decide(accounts.get(account), purpose, chain_nonce, final_nonce, now)? {
            Decision::Known(nonce) => Ok(nonce),
            Decision::New(nonce, entry) => {
                accounts.insert(account.clone(), *entry);
                Ok(nonce)
            }
        }
    }

    async fn retire(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(retired) = retire(accounts.get(account), reservation) else { return Ok(false) };
        if let Some(entry) = retired {
            accounts.insert(account.clone(), *entry);
        }
        Ok(true)
    }

    async fn give_back(&self, account: &SignerAccount, reservation: &Reservation) -> Result<bool, Error> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(given_back) = give_back(accounts.get(account), reservation) else { return Ok(false) };
        if let Some(entry) = given_back {
            accounts.insert(account.clone(), *entry);
        }
        Ok(true)
    }

    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, Error> {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(accounts.get(account).map(|entry| entry.open().to_vec()).unwrap_or_default())
    }
}
