//! Runtime: executes transactions on a state, by Solana's own virtual machine and programs (LiteSVM).
//!
//! Blockhashes, signatures and repetitions are looked at by the cluster and not here: they are questions of a branch.

use std::{fmt, sync::Arc};

use litesvm::LiteSVM;
use solana_account::{AccountSharedData, ReadableAccount};
use solana_address::Address;
use solana_clock::Clock;
use solana_message::inner_instruction::InnerInstructionsList;
use solana_transaction::TransactionError;

use gateway_program::Key;

use super::{SimError, state::State, wire::Signed};

/// When a transaction is executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// The slot.
    pub slot: u64,
    /// The UNIX second of the cluster's clock.
    pub time: u64,
}

impl Moment {
    fn clock(self) -> Clock {
        Clock { slot: self.slot, unix_timestamp: i64::try_from(self.time).unwrap_or(i64::MAX), ..Clock::default() }
    }

    /// The bytes of the clock's account.
    pub fn bytes(self) -> Vec<u8> {
        let Clock { slot, epoch_start_timestamp, epoch, leader_schedule_epoch, unix_timestamp } = self.clock();
        let epochs = [epoch.to_le_bytes(), leader_schedule_epoch.to_le_bytes()].concat();
        [&slot.to_le_bytes()[..], &epoch_start_timestamp.to_le_bytes(), &epochs, &unix_timestamp.to_le_bytes()].concat()
    }
}

/// What executing a transaction did.
#[derive(Debug, Clone)]
pub(super) struct Execution {
    /// Why it failed.
    pub error: Option<TransactionError>,
    /// Whether a block can hold it: it paid its fee.
    pub is_paid: bool,
    /// What its programs said.
    pub logs: Vec<String>,
    /// The instructions that each of its instructions called.
    pub inner: InnerInstructionsList,
    /// Compute units used.
    pub units: u64,
    /// The fee, lamports.
    pub fee: u64,
}

/// The genesis: what every state is a change of.
pub(super) struct Base(LiteSVM);

/// The virtual machine.
#[derive(Clone)]
pub(super) struct Runtime {
    base: Arc<Base>,
    svm: LiteSVM,
    loaded: State,
    moment: Option<Moment>,
}

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Base")
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("moment", &self.moment).finish_non_exhaustive()
    }
}

impl Base {
    /// A genesis with the programs and sysvars that `svm` has.
    pub fn new(svm: LiteSVM) -> Self {
        Self(svm.with_sigverify(false).with_blockhash_check(false).with_transaction_history(0))
    }

    /// The account of the genesis.
    pub fn account(&self, key: &Key) -> Option<&AccountSharedData> {
        let account = self.0.accounts_db().get_account_ref(&Address::from(*key));
        account.filter(|account| account.lamports() > 0)
    }

    /// Lamports with which an account of so many bytes lives for ever.
    pub fn rent(&self, bytes: usize) -> u64 {
        self.0.minimum_balance_for_rent_exemption(bytes)
    }
}

impl Runtime {
    /// A virtual machine over `base`.
    pub fn new(base: Arc<Base>) -> Self {
        Self { svm: base.0.clone(), base, loaded: State::default(), moment: None }
    }

    /// The account in `state`.
    pub fn account<'a>(&'a self, state: &'a State, key: &Key) -> Option<&'a AccountSharedData> {
        match state.changed(key) {
            Some(account) => Some(account).filter(|account| account.lamports() > 0),
            None => self.base.account(key),
        }
    }

    /// The genesis.
    pub fn base(&self) -> &Base {
        &self.base
    }

    /// Executes `signed` on `state`, which becomes what it leaves.
    ///
    /// # Errors
    /// [`SimError::Refused`] when the virtual machine does not take the state.
    pub fn execute(&mut self, state: &mut State, moment: Moment, signed: &Signed) -> Result<Execution, SimError> {
        self.load(state, moment)?;
        let result = self.svm.send_transaction(signed.transaction.clone());
        let (error, meta) = match result {
            Ok(meta) => (None, meta),
            Err(failed) => (Some(failed.err), failed.meta),
        };
        for key in signed.keys() {
            let bytes = key.to_bytes();
            let now = self.svm.accounts_db().get_account_ref(key);
            let before = self.account(state, &bytes);
            if now.filter(|account| account.lamports() > 0) != before {
                let now = now.cloned().unwrap_or_default();
                state.set(bytes, now);
            }
        }
        self.loaded = state.clone();
        let is_paid = is_paid(error.as_ref());
        let (logs, inner, units) = (meta.logs, meta.inner_instructions, meta.compute_units_consumed);
        Ok(Execution { error, is_paid, logs, inner, units, fee: meta.fee })
    }

    /// What executing `signed` on `state` would do.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn simulate(&mut self, state: &State, moment: Moment, signed: &Signed) -> Result<Execution, SimError> {
        self.load(state, moment)?;
        let (error, meta) = match self.svm.simulate_transaction(signed.transaction.clone()) {
            Ok(done) => (None, done.meta),
            Err(failed) => (Some(failed.err), failed.meta),
        };
        let is_paid = is_paid(error.as_ref());
        let (logs, inner, units) = (meta.logs, meta.inner_instructions, meta.compute_units_consumed);
        Ok(Execution { error, is_paid, logs, inner, units, fee: meta.fee })
    }

    fn load(&mut self, state: &State, moment: Moment) -> Result<(), SimError> {
        let refused = |error: &dyn fmt::Display| SimError::Refused(format!("the virtual machine: {error}"));
        if !self.loaded.is(state) {
            for key in state.differences(&self.loaded) {
                let account = self.account(state, &key).cloned().unwrap_or_default();
                self.svm.set_account(key.into(), account.into()).map_err(|error| refused(&error))?;
            }
            self.loaded = state.clone();
        }
        if self.moment != Some(moment) {
            self.svm.set_sysvar(&moment.clock());
            self.moment = Some(moment);
        }
        Ok(())
    }
}

/// Whether a transaction that ended so has paid its fee and is in a block.
fn is_paid(error: Option<&TransactionError>) -> bool {
    matches!(
        error,
        None | Some(TransactionError::InstructionError(..) | TransactionError::InsufficientFundsForRent { .. })
    )
}
