//! What is not taken for granted since the journal was put in place from a copy (ADR 136): the copy may lack a payment, or the award
//! of a quote. What a payer signed before the loss is still good, and would be accepted as new.

use std::{collections::BTreeMap, sync::Arc};

use async_trait::async_trait;
use chrono::SecondsFormat;

use events::{Account, Family, PaymentId, event::EscrowPlan, time::Timestamp};
use journal::Position;
use sagas::ports::{Chains, Transient};

use crate::{
    admission::restore_mark::RestoreMark,
    bulkhead::families::FamilyBulkheads,
    error::{Code, Error},
};

/// Where escrows are looked up.
#[async_trait]
pub trait Escrows: Send + Sync {
    /// Whether `payer` has, or had, an escrow of the payment at a settled block, under whatever windows, as it may have signed anew
    /// since; with that block's time, UNIX seconds.
    ///
    /// # Errors
    /// [`Transient`].
    async fn has(&self, payment_id: &PaymentId, escrow: &EscrowPlan, payer: &Account)
    -> Result<(bool, u64), Transient>;
}

#[async_trait]
impl<C: Chains> Escrows for C {
    async fn has(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient> {
        self.payer_has_escrow(payment_id, escrow, payer).await
    }
}

/// A journal that came out of a copy.
#[derive(Clone)]
pub struct RestoredJournal {
    /// By shard, the last sequence that came out of the copy.
    heads: Arc<BTreeMap<u16, u64>>,
    accepts_from: Timestamp,
    escrows: Arc<FamilyBulkheads<dyn Escrows>>,
}

impl RestoredJournal {
    /// The journal of which `mark` tells.
    pub fn new(mark: &RestoreMark, escrows: Arc<dyn Escrows>) -> Self {
        let families = [Family::Evm, Family::Solana, Family::Tron].map(|family| (family, escrows.clone()));
        let escrows = Arc::new(FamilyBulkheads::new(families));
        Self { heads: Arc::new(mark.heads.clone()), accepts_from: mark.accepts_from, escrows }
    }

    /// Whether the commit at `position` came out of the copy.
    fn is_copied(&self, position: Position) -> bool {
        self.heads.get(&position.shard).is_some_and(|last| position.sequence <= *last)
    }

    /// Refuses a payment that the copy lacks and that has an escrow already, and any while a deposit of before the loss may still come.
    /// A record stands for ever, and so does the question: one call to the source chain for each new payment.
    pub(crate) async fn check_payment(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(), Error> {
        let family = escrow.chain_id.family().and_then(|family| self.escrows.of(family).ok());
        let family = family.ok_or(Code::SERVICE_UNAVAILABLE)?;
        // Chains that do not answer hold up no other family's.
        let _permit = family.signed.permit().await.ok_or(Code::SERVICE_UNAVAILABLE)?;
        let found = family.inner.has(payment_id, escrow, payer).await;
        let (found, settled) = found.map_err(|fault| Error::unavailable(&fault, "an escrow could not be looked up"))?;
        if found {
            return Err(Error::from(Code::JOURNAL_RESTORED).about(payment_id));
        }
        match u64::try_from(self.accepts_from.timestamp()).is_ok_and(|from| settled <= from) {
            false => Ok(()),
            true => {
                let from = self.accepts_from.to_rfc3339_opts(SecondsFormat::Secs, true);
                let rule = format!(
                    "The gateway's journal was restored: payments from this chain are accepted once its settled blocks are later than {from}."
                );
                Err(Error::new(Code::SERVICE_UNAVAILABLE, rule))
            }
        }
    }

    /// Refuses the award of a quote of a quote-request that begins at `begun`, where that came out of the copy: another may have been
    /// awarded since.
    pub(crate) fn check_batch(&self, begun: Position) -> Result<(), Error> {
        match self.is_copied(begun) {
            true => {
                let rule = "quote_id: the quote-request is from before the gateway's journal was restored from a copy, and a quote of \
                            it may have been awarded since; open a new quote-request";
                Err(Error::new(Code::JOURNAL_RESTORED, rule))
            }
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use chrono::DateTime;
    use futures::future::{join_all, pending};

    use super::*;
    use crate::admission::restore_mark::RestoreState;

    /// Nodes of EVM chains never answer; those of Tron know no escrow.
    struct Halted;

    #[async_trait]
    impl Escrows for Halted {
        async fn has(&self, _: &PaymentId, escrow: &EscrowPlan, _: &Account) -> Result<(bool, u64), Transient> {
            match escrow.chain_id.family() {
                Some(Family::Evm) => pending().await,
                _ => Ok((false, 1_000)),
            }
        }
    }

    fn escrow(chain: &str, account: &str) -> EscrowPlan {
        let account: Account = account.parse().unwrap();
        EscrowPlan {
            chain_id: chain.parse().unwrap(),
            contract: account.clone(),
            reserver: account.clone(),
            releaser: account,
            reserve_deadline: 1,
            fulfillment_deadline: 1,
            refund_after: 1,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn chains_that_do_not_answer_hold_up_no_other_family() {
        let time = DateTime::from_timestamp(1, 0).unwrap();
        let mark = RestoreMark {
            state: RestoreState::Done,
            copied_at: time,
            since: time,
            accepts_from: time,
            heads: BTreeMap::new(),
        };
        let journal = RestoredJournal::new(&mark, Arc::new(Halted));
        let payment_id = PaymentId::derive("originator", "order");
        let evm = escrow("eip155:1", "0x70997970c51812dc3a010c7d01b50e0d17dc79c8");
        let tron = escrow("tron:728126428", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t");
        let halted = async {
            let calls = (0..500).map(|_| {
                tokio::time::timeout(Duration::from_secs(5), journal.check_payment(&payment_id, &evm, &evm.contract))
            });
            join_all(calls).await
        };
        let answered = async {
            for _ in 0..500 {
                journal.check_payment(&payment_id, &tron, &tron.contract).await.unwrap();
            }
        };
        let (halted, ()) = tokio::join!(halted, answered);
        let at_once = |error: &Error| error.code.code == "SERVICE_UNAVAILABLE";
        let refused = halted.iter().filter(|call| matches!(call, Ok(Err(error)) if at_once(error)));
        assert!(refused.count() > 300, "whoever finds too many before it is told at once");
    }
}
