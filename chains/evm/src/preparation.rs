//! Preparation of a transaction: tried out, its payer charged, its nonce taken, signed. Nothing is sent.

use alloy::primitives::Address;

use escrow_abi::contracts::text;
use events::event::{TransactionPrepared, Validity};
use journal::ledger::Purpose;
use sagas::ports::{PrepareError, Refusal, Transient};
use signer::Secp256k1Key;

use super::{
    calls::{Call, CallError, Calls, Trial},
    node::{At, Node},
    payer_budgets::{Charge, Payer, PayerBudgets},
    query::{Fees, Query},
    submitters::{Senders, SubmitterAccounts},
    transaction::{self, account_of},
};

/// Gas limit of a call that the newest state refuses but whose nonce was taken before, so it must be sent.
const REFUSED_CALL_GAS: u64 = 700_000;

/// What is to be sent, and for what.
pub(crate) struct Intent<'a> {
    /// The accounts that may send it.
    pub senders: Senders<'a>,
    /// The most gas that it may take, where it runs code that a stranger chose.
    pub gas_max: Option<u64>,
    /// Whom it is charged to when it comes to nothing; nobody where it brings no money into escrow.
    pub payer: Option<Payer>,
    /// What is tried out.
    pub trial: Call,
    /// The last second in which the escrow takes the trial from anyone, or 0 when that does no harm.
    pub trial_until: u64,
    /// What is signed when the trial is taken. Its effect is the same whoever sends it.
    pub call: Call,
    /// The escrow, which the call ends in.
    pub escrow: Address,
    /// What the nonce is taken for; the same purpose gets the same one until it is retired.
    pub purpose: Purpose,
    /// Number of the attempt, 1 for the first.
    pub attempt: u32,
}

impl Intent<'_> {
    /// Why it is not sent, and the gas that it would have needed.
    fn refused(&self, node: &Node, reason: String, gas: Option<u64>) -> PrepareError {
        let mut context = Calls::of(node).refusal(Some(self.escrow), reason);
        context.estimated_gas_needed = gas.map(|gas| gas.to_string());
        PrepareError::Refused(Box::new(Refusal { context, valid_until: self.trial_until }))
    }
}

/// What is signed, and by whom.
struct Decision<'a> {
    call: &'a Call,
    gas_limit: u64,
    signer: &'a Secp256k1Key,
}

/// Who takes part in a preparation.
pub(crate) struct Preparation<'a> {
    /// The chain that it is for.
    pub node: &'a Node,
    /// The accounts that send, with their nonces and coins.
    pub submitters: &'a SubmitterAccounts,
    /// What payers may still cost.
    pub payers: &'a PayerBudgets,
}

impl Preparation<'_> {
    /// Simulates, takes a nonce, signs.
    ///
    /// # Errors
    /// [`PrepareError`].
    pub async fn prepare(&self, intent: Intent<'_>) -> Result<TransactionPrepared, PrepareError> {
        let fees = Query::of(self.node).fees().await?;
        let Decision { call, gas_limit, signer } = self.decide(&intent, fees).await?;
        let charge = match &intent.payer {
            Some(payer) => {
                let refused = |reason| intent.refused(self.node, reason, None);
                self.payers.charge(payer, &intent.purpose, gas_limit, refused).await?
            }
            None => Charge::None,
        };
        let taken = self.submitters.take_nonce(signer, &intent.purpose).await?;
        let unsigned = transaction::transaction(call, self.node.evm_id(), taken.nonce, gas_limit, fees);
        let signed = match self.submitters.sign(signer, &unsigned).await {
            Ok(signed) => signed,
            Err(error) => {
                // A nonce that goes back was this worker's alone, so nothing is under way; the next try charges anew.
                if self.submitters.give_back(signer, &intent.purpose, taken).await {
                    self.payers.release(charge, &intent.purpose).await;
                }
                return Err(Transient::from(error).into());
            }
        };
        Ok(TransactionPrepared {
            attempt: intent.attempt,
            chain_id: self.node.chain_id().clone(),
            sender: account_of(signer),
            validity: Validity::Nonce(taken.nonce),
            transaction_hash: signed.hash.to_string(),
            raw: signed.raw.to_string(),
            prepared_at: taken.at,
        })
    }

    /// Tries the transaction out, and decides what is signed by whom.
    async fn decide<'a>(&self, intent: &'a Intent<'_>, fees: Fees) -> Result<Decision<'a>, PrepareError> {
        let Intent { senders, purpose, .. } = intent;
        // An earlier try may have taken a nonce and been cut off; the purpose stays with its account.
        let mut holder = None;
        if senders.holders.len() > 1 {
            holder = self.submitters.holder(&senders.holders, purpose).await?;
        }
        // Code that may be a stranger's is tried out by the very account that would send it, which can pay for all of it.
        let able = match (intent.gas_max, holder) {
            (Some(gas), None) => Some(self.submitters.payer_of_gas(senders, gas, fees).await?),
            _ => None,
        };
        let trier = holder.or(able).map_or(senders.preferred, |signer| signer.address());
        let simulated = self.simulate(intent, trier, fees).await;
        if holder.is_none() && matches!(simulated, Err(PrepareError::Refused(_))) {
            holder = self.submitters.holder(&senders.holders, purpose).await?;
        }
        let gas_most = intent.gas_max.unwrap_or(u64::MAX);
        match (simulated, holder) {
            (Ok(gas), holder) => {
                let gas_limit = transaction::gas_limit(gas).min(gas_most);
                let signer = match holder.or(able) {
                    Some(signer) => signer,
                    None => self.submitters.payer_of_gas(senders, gas_limit, fees).await?,
                };
                Ok(Decision { call: &intent.call, gas_limit, signer })
            }
            // The chain will refuse this transaction, but it uses the nonce up, and the refusal becomes a fact with a
            // receipt.
            (Err(PrepareError::Refused(_)), Some(signer)) => {
                Ok(Decision { call: &intent.trial, gas_limit: REFUSED_CALL_GAS.min(gas_most), signer })
            }
            (Err(fault), _) => Err(fault),
        }
    }

    /// Gas that the call needs, or why it is not sent: the chain refuses it, or it is dearer than a deposit may be. What may
    /// run a stranger's code is tried out by `trier` for the price that it would be sent for, so that it shows what it will do.
    async fn simulate(&self, intent: &Intent<'_>, trier: Address, fees: Fees) -> Result<u64, PrepareError> {
        let escrow = intent.escrow;
        let refused = |reason, gas| intent.refused(self.node, reason, gas);
        if Query::of(self.node).code(escrow, At::Latest).await?.is_empty() {
            // A call of an account without code succeeds and does nothing.
            return Err(refused(format!("there is no contract at {}", text(escrow)), None));
        }
        let call = Call { from: trier, ..intent.trial.clone() };
        let trial = Trial { gas: intent.gas_max, fees: intent.gas_max.map(|_| fees) };
        let gas = Calls::of(self.node).simulate(&call, trial).await.map_err(|error| match error {
            CallError::Transient(fault) => fault.into(),
            CallError::Reverted(revert) => match intent.gas_max.filter(|_| revert.data.is_empty()) {
                Some(gas) => refused(format!("{}; it was given {gas} gas", revert.reason), None),
                None => refused(revert.reason, None),
            },
        })?;
        let most = intent.gas_max.unwrap_or(u64::MAX).min(fees.block_gas);
        if gas > most {
            // No node takes what fits no block, and it would use its nonce up all the same.
            return Err(refused(format!("it needs {gas} gas, and {most} is the most"), Some(gas)));
        }
        Ok(gas)
    }
}
