//! The port to the chains: sign, broadcast and look, and wait for the next block or event.

use async_trait::async_trait;

use events::{
    Account, Amount, ChainId, PaymentId,
    event::{Claim, EscrowOpened, EscrowPlan, EscrowSecured, Inclusion, TransactionPrepared},
};

use super::{
    orders::{
        AddressFunds, AddressState, DeliveryOrder, DeliveryState, DepositOrder, DepositState, EscrowState,
        ExpectedTerms, OwnReturn, PayerDeposit, PrepareError, ReassignmentOrder, ReassignmentState, RefundOrder,
        ReleaseOrder, Statement, TransactionState,
    },
    transient::Transient,
    waiting::{Cursor, Look, Waiting},
};

/// The chains, source and destination.
#[async_trait]
pub trait Chains: Send + Sync {
    /// Tells what the escrow of a payment commits to, before each action of the payment: where a contract keeps a hash of its
    /// terms, its node need not tell them then, after a restart either. Asks nobody, and nothing follows from it alone. Terms
    /// that fit no escrow of the chain are left out.
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        let _ = expected;
    }

    /// Simulates, takes a nonce for and signs the deposit-and-reserve; broadcasts nothing of its own. Where the payer's own
    /// transactions deposit, which the journal holds since the submission, it broadcasts those and signs the reservation.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// As [`Chains::prepare_deposit`], of `amount` instead of what the quote asks for, so that the escrow can be reassigned to a
    /// dearer quote (ADR 148): no less than the one and no more than the payer permitted. What is over goes back to the payer when the settler is
    /// paid. Where an escrow takes no such deposit it is made of what the quote asks for.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let _ = amount;
        self.prepare_deposit(order, attempt).await
    }

    /// Simulates, takes a nonce for and signs the refund; broadcasts nothing.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// Simulates, takes a nonce for and signs the release, as [`Chains::prepare_refund`] does a refund and from the same
    /// accounts; broadcasts nothing. A release that the escrow takes no more, because it was released or its refund window is
    /// open, is refused.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError>;

    /// Whether the escrow of a payment takes a reassignment, as far as is known without asking: it is the chain's own, and not one
    /// of an older version that is trusted for its last payments.
    fn takes_reassignments(&self, escrow: &EscrowPlan) -> bool {
        let _ = escrow;
        false
    }

    /// Simulates, takes a nonce for and signs the reassignment of an escrow whose reservation has lapsed; broadcasts nothing. The
    /// node that is shown it may bring it, up to the promise of the new quote.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let _ = attempt;
        Err(Transient::misconfigured(format!("escrows of {} are not reassigned", order.escrow.chain_id)).into())
    }

    /// Where a reassignment stands at the required depth, in a block that is not older than any that this port concluded from
    /// before.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        Err(Transient::misconfigured(format!("escrows of {} are not reassigned", order.escrow.chain_id)))
    }

    /// Signs the transaction under way again, for the same call at the same nonce with higher fees; broadcasts nothing.
    /// `versions` are all that were journaled of it, oldest first. `None` while none is called for: the newest has not
    /// waited long, it is mined, it offers enough for the chain's blocks, or what it may offer is bounded.
    ///
    /// # Errors
    /// [`Transient`]; the versions there are stay as they are.
    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient>;

    /// Sends the very bytes of a journaled transaction. Sending again what is known already is not a fault.
    ///
    /// # Errors
    /// [`Transient`]; the transaction may be on its way all the same.
    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient>;

    /// Where a prepared deposit stands, of whose versions any may have landed.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient>;

    /// The block that holds a prepared deposit, of whose versions any may have landed, while that block is not settled and the
    /// transaction succeeded in it; asked while [`Chains::deposit_state`] says `Pending`. `None` while no block does, and on
    /// chains that tell nothing before it is settled. Nothing rests on it: it is shown as provisional (spec 2.7).
    ///
    /// # Errors
    /// [`Transient`].
    async fn deposit_mined(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<Option<Inclusion>, Transient> {
        let _ = (order, versions);
        Ok(None)
    }

    /// Where the delivery stands.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient>;

    /// Where the escrow stands at the required depth, in a block that is not older than any that this port concluded from
    /// before.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn escrow_state(&self, payment_id: &PaymentId, escrow: &EscrowPlan) -> Result<EscrowState, Transient>;

    /// The payouts of an escrow's end that became claims. `end` is the transaction that [`Chains::escrow_state`] told, whose
    /// own `claims` are empty. None on chains where a payout that does not go through is not made.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn claims(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        end: &Inclusion,
    ) -> Result<Vec<Claim>, Transient> {
        let _ = (payment_id, escrow, end);
        Ok(Vec::new())
    }

    /// The escrow of a deposit at the required depth, whoever sent it; `None` while there is none.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient>;

    /// The payer's money in escrow, at a settled block past the reserve deadline, with no settler named: what became of a
    /// deposit by the payer's own transaction that nobody can reserve any more. `None` while that is not so, and always on
    /// chains where a deposit is reserved at once.
    ///
    /// It is told also when it has gone back meanwhile, which anyone can bring about from `refund_after` on; and when its
    /// terms are others than these under the same plan, because whoever prepares a payment twice has two deposits signed for
    /// one id, of which the escrow takes either. Told neither, the payment would be watched for ever.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let _ = deposit;
        Ok(None)
    }

    /// What is at the payment's deposit address, by the newest block.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn address_funds(&self, deposit: &PayerDeposit) -> Result<AddressFunds, Transient> {
        Err(Transient::misconfigured(format!("{} has no deposit addresses", deposit.escrow.chain_id)))
    }

    /// What became of the money at the payment's deposit address, by a settled block that is not older than any that this port
    /// concluded from before. Asked of payments that failed before their escrow. Where it is known that it was there in block `since`,
    /// what was given back after that is told; else only when nothing is there.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn address_state(&self, deposit: &PayerDeposit, since: Option<u64>) -> Result<AddressState, Transient> {
        let _ = since;
        Err(Transient::misconfigured(format!("{} has no deposit addresses", deposit.escrow.chain_id)))
    }

    /// Simulates, takes a nonce for and signs what gives the money at the payment's deposit address back to the payer, from the
    /// accounts that deposits are sent from; broadcasts nothing.
    ///
    /// # Errors
    /// See [`PrepareError`].
    async fn prepare_give_back(
        &self,
        deposit: &PayerDeposit,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        let _ = attempt;
        Err(Transient::misconfigured(format!("{} has no deposit addresses", deposit.escrow.chain_id)).into())
    }

    /// What the gateway's own transaction gave back from the payment's deposit address, of whose `versions` any may have landed. Where
    /// [`Chains::address_state`] tells every return by itself, none is told here.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn given_back_by(
        &self,
        deposit: &PayerDeposit,
        versions: &[TransactionPrepared],
    ) -> Result<OwnReturn, Transient> {
        let _ = (deposit, versions);
        Ok(OwnReturn::NotLanded)
    }

    /// The escrow of the payment's accounts and windows at a settled block, whatever became of it, with the quote that it is
    /// reserved for; where no settler is named, only past the reserve deadline. `None` while there is none. Asked where
    /// the journal may have lost the award, as after it was put in place from a copy.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn escrow_found(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient>;

    /// Whether the escrow contract of `escrow` holds, or held, money of `payer` under the payment's id, under whatever windows, as of a
    /// settled block; with that block's time, UNIX seconds. Asked where the journal may have lost the payment.
    ///
    /// # Errors
    /// [`Transient`], also while there is a record that is not settled yet.
    async fn payer_has_escrow(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        payer: &Account,
    ) -> Result<(bool, u64), Transient>;

    /// Whether a settled block later than the UNIX second `after` holds no escrow for the payment: the proof that a
    /// deposit which the escrow takes up to `after` was not made and can't be made any more.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_ruled_out(
        &self,
        payment_id: &PaymentId,
        escrow: &EscrowPlan,
        after: u64,
    ) -> Result<bool, Transient>;

    /// Whether the payer has used the payment's id at the escrow up by a deposit of its own, as of a settled block, of a payment
    /// whose deposit names the settler at once: then that deposit can't be made any more, and what is there goes back to the payer
    /// when its window opens. Only where payers deposit by themselves, too (Tron).
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn deposit_forestalled(&self, _: &PayerDeposit) -> Result<bool, Transient> {
        Ok(false)
    }

    /// Where a prepared refund, release or reassignment transaction stands, of whose versions any may have landed; asked while
    /// [`Chains::escrow_state`] says `Held`.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient>;

    /// Whether `signature` is the releaser's statement about this payment, as the escrow would judge it: of a set what
    /// [`VerifierSet::attestation`](events::VerifierSet::attestation) makes of its members' signatures.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn attestation_holds(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient>;

    /// Whether `signature` is the statement signed by the key of `member`, as the escrow would judge it of a member of a set.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn signed_by(
        &self,
        statement: &Statement,
        escrow: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient>;

    /// The number (slot on Solana) of the newest block of the chain that was seen, without asking it; `None` where none was.
    /// Chains are followed while something on them is awaited, so what it says of others ages. It is shown, and nothing rests
    /// on it.
    fn head(&self, chain_id: &ChainId) -> Option<u64> {
        let _ = chain_id;
        None
    }

    /// Returns when the chain has a new block, or after a bounded time.
    async fn next_block(&self, chain_id: &ChainId);

    /// A cursor behind what was seen of a chain so far, to wait from; `None` where the port does not follow the events of
    /// `contract`.
    fn cursor(&self, chain_id: &ChainId, contract: &Account) -> Option<Cursor> {
        let _ = (chain_id, contract);
        None
    }

    /// Returns when something may have happened to the payment since. It may return for nothing, and what happens may
    /// escape it, so within [`UNSEEN_MAX`](super::UNSEEN_MAX) the caller looks without it.
    async fn next_event(&self, waiting: &Waiting<'_>) {
        self.next_block(waiting.chain_id).await;
    }

    /// Whether the next block is waited for and no event, as of now: the port does not follow events, or nothing of a
    /// transaction that is to get into a block was seen yet.
    fn awaits_block(&self, waiting: &Waiting<'_>) -> bool {
        let _ = waiting;
        true
    }

    /// Whether something may have happened to the payment since, by what was seen of the chain; where nothing did,
    /// `waiting.since` becomes now. Asks nobody, and is asked of all who wait after each [`Look`]. Not asked where
    /// [`Chains::awaits_block`].
    fn has_news(&self, waiting: &mut Waiting<'_>) -> bool {
        let _ = waiting;
        true
    }

    /// Returns when more may be known of the chain than in the look with this `round`: for one who waits for many, instead of
    /// [`Chains::next_block`] and [`Chains::next_event`] for each. Returns after a bounded time.
    async fn next_look(&self, chain_id: &ChainId, round: u64) -> Look {
        self.next_block(chain_id).await;
        Look { round: round.wrapping_add(1), is_block: true }
    }
}
