//! Nonces in memory, by the rules of the trait.

use std::{collections::HashMap, sync::Mutex};

use async_trait::async_trait;

use events::{
    ledger::{Error, Ledger, Purpose, Reservation, SignerAccount},
    time::Timestamp,
};

#[derive(Default)]
struct Account {
    next: u64,
    open: Vec<Reservation>,
}

#[derive(Default)]
pub struct TestLedger(Mutex<HashMap<SignerAccount, Account>>);

#[async_trait]
impl Ledger for TestLedger {
    async fn reserve(
        &self,
        account: &SignerAccount,
        purpose: &Purpose,
        chain_nonce: u64,
        final_nonce: u64,
        now: Timestamp,
    ) -> Result<u64, Error> {
        let mut accounts = self.0.lock().unwrap();
        let account = accounts.entry(account.clone()).or_default();
        account.open.retain(|open| open.nonce >= final_nonce);
        if let Some(open) = account.open.iter().find(|open| open.purpose == *purpose) {
            return Ok(open.nonce);
        }
        let nonce = account.next.max(chain_nonce);
        account.next = nonce + 1;
        account.open.push(Reservation { nonce, purpose: purpose.clone(), reserved_at: now });
        Ok(nonce)
    }

    async fn open(&self, account: &SignerAccount) -> Result<Vec<Reservation>, Error> {
        Ok(self.0.lock().unwrap().get(account).map(|account| account.open.clone()).unwrap_or_default())
    }
}
