//! The chains of the small world: deposits, deliveries and escrows as the plot has them.

use super::*;

impl World {
    /// Whoever asks about an escrow has told what it commits to, in this process.
    fn expects(&self, payment_id: &PaymentId) {
        // Nobody can tell before there is an award.
        if matches!(self.plot, Plot::Restored(_)) {
            return;
        }
        assert!(self.state.lock().unwrap().expected.contains(payment_id), "{payment_id} was not expected");
    }
}

#[async_trait]
impl Chains for World {
    fn expect_terms(&self, expected: &ExpectedTerms<'_>) {
        assert!(expected.reservation.is_some() || expected.authorization.is_payer_deposit());
        let mut state = self.state.lock().unwrap();
        state.expected.insert(expected.payment_id.clone());
        let reserved_for = expected.reservation.as_ref().map(|reservation| reservation.quote_hash);
        state.reserved.expected = Some((reserved_for, expected.deposited));
    }

    async fn prepare_deposit(&self, order: &DepositOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.expects(&order.payment_id);
        if let Plot::PayerDeposits(plot) = self.plot {
            return payer_deposit::prepare(self, plot, attempt).await;
        }
        let refuses =
            matches!(self.plot, Plot::Refuses | Plot::Usurped | Plot::Resubmitted(restored::Resubmitted::Refused));
        if refuses {
            let context = context("TRANSFER_FROM_FAILED");
            return Err(PrepareError::Refused(Box::new(Refusal {
                context,
                valid_until: unix_seconds(at(REFUSED_UNTIL)),
            })));
        }
        let prepared = self.call(|state| {
            if let Plot::Reassigns(_) = self.plot {
                state.reserved.deposit = Some(order.reservation.clone());
            }
            transaction(attempt)
        });
        Ok(prepared.await?)
    }

    async fn prepare_larger_deposit(
        &self,
        order: &DepositOrder,
        amount: events::Amount,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        assert!(amount > order.reservation.source_amount);
        let is_taken = self.call(|state| self.takes_larger(state, amount)).await?;
        if !is_taken {
            let refusal = Refusal { context: context("TRANSFER_FROM_FAILED"), valid_until: unix_seconds(at(30)) };
            return Err(PrepareError::Refused(Box::new(refusal)));
        }
        self.prepare_deposit(order, attempt).await
    }

    fn takes_reassignments(&self, _: &EscrowPlan) -> bool {
        matches!(self.plot, Plot::Reassigns(course) if course.chain != reassignment::Chain::OldEscrow)
    }

    async fn prepare_reassignment(
        &self,
        order: &ReassignmentOrder,
        attempt: u32,
    ) -> Result<TransactionPrepared, PrepareError> {
        self.expects(&order.payment_id);
        self.sign_reassignment(order, attempt).await
    }

    async fn reassignment_state(&self, order: &ReassignmentOrder) -> Result<ReassignmentState, Transient> {
        self.expects(&order.payment_id);
        self.call(|state| self.state_of_reassignment(state, order)).await
    }

    async fn prepare_refund(&self, order: &RefundOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.expects(&order.payment_id);
        if self.plot == Plot::WordRefused && order.non_delivery.is_some() {
            let context = context("NonDeliveryInvalid");
            return Err(PrepareError::Refused(Box::new(Refusal { context, valid_until: 0 })));
        }
        let prepared = self
            .call(|state| {
                assert!(order.non_delivery.is_some() || at(state.now) > at(100), "refund before its window");
                let is_taken = !matches!(self.plot, Plot::Reassigns(_)) || self.takes_refund(state, order);
                is_taken.then(|| transaction(attempt))
            })
            .await?;
        let refused = || Refusal { context: context("NonDeliveryInvalid"), valid_until: 0 };
        prepared.ok_or_else(|| PrepareError::Refused(Box::new(refused())))
    }

    async fn prepare_release(&self, order: &ReleaseOrder, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        self.expects(&order.payment_id);
        assert_eq!(order.attestation, "0xgood");
        assert_eq!(order.payout_account, quote(1, "1010").payout_account);
        let prepared = self
            .call(|state| {
                assert!(at(state.now) < at(100), "release after its window");
                (self.plot != Plot::Unreleasable).then(|| transaction(attempt))
            })
            .await?;
        let refused = || Refusal { context: context("PayoutFailed"), valid_until: 0 };
        prepared.ok_or_else(|| PrepareError::Refused(Box::new(refused())))
    }

    async fn reprice(&self, versions: &[TransactionPrepared]) -> Result<Option<TransactionPrepared>, Transient> {
        let is_dear = self.is_dear();
        self.call(|state| {
            if let Some(repriced) = self.reprice_reassignment(state, versions) {
                return Some(repriced);
            }
            let next = u32::try_from(versions.len()).unwrap() + 1;
            let sent = |version: &TransactionPrepared| state.sent.contains(&version.transaction_hash);
            (is_dear && next <= PRICES && versions.last().is_some_and(sent)).then(|| version(versions[0].attempt, next))
        })
        .await
    }

    async fn broadcast(&self, transaction: &TransactionPrepared) -> Result<(), Transient> {
        let mut commits = Vec::new();
        for shard in 0..self.journal.shards() {
            commits.extend(self.journal.replay(shard, 1, 1_000).await.unwrap());
        }
        let journaled = commits.iter().flat_map(Recorded::payment_events).any(|event| match event {
            PaymentEvent::DepositPrepared(prepared)
            | PaymentEvent::DepositRepriced(prepared)
            | PaymentEvent::ReassignmentPrepared(prepared)
            | PaymentEvent::ReassignmentRepriced(prepared)
            | PaymentEvent::ReleasePrepared(prepared)
            | PaymentEvent::ReleaseRepriced(prepared)
            | PaymentEvent::RefundPrepared(prepared)
            | PaymentEvent::RefundRepriced(prepared) => prepared == transaction,
            _ => false,
        });
        assert!(journaled, "sent before it was journaled");
        let is_dear = self.is_dear();
        self.call(|state| {
            state.sent.insert(transaction.transaction_hash.clone());
            if self.took_reassignment(state, transaction) || matches!(self.plot, Plot::Addressed(_)) {
                return;
            }
            if matches!(self.plot, Plot::MinedFirst | Plot::MinedOnForks) && state.effective.is_some() {
                // The same bytes again; this world would take them for a refund.
                *state.deposits.entry(transaction.transaction_hash.clone()).or_default() += 1;
                return;
            }
            if let Plot::PayerDeposits(plot) = self.plot
                && payer_deposit::took(plot, state, transaction)
            {
                return;
            }
            if is_dear && *transaction != version(transaction.attempt, PRICES) {
                return;
            }
            if self.plot == Plot::WordTooLate && state.effective.is_some() && transaction.attempt == 1 {
                return;
            }
            let first = self::transaction(transaction.attempt);
            let transaction = if self.plot == Plot::DearAtFirst { &first } else { transaction };
            if state.effective.is_none() {
                *state.deposits.entry(transaction.transaction_hash.clone()).or_default() += 1;
                let lost = self.plot == Plot::Superseded && transaction.attempt == 1
                    || matches!(self.plot, Plot::Resubmitted(_));
                if !lost {
                    state.effective = Some(transaction.transaction_hash.clone());
                    let second = state.now;
                    let named = state.reserved.deposit.clone().map(|reservation| (reservation, second));
                    state.reserved.reservations.extend(named);
                }
            } else if idle(self.plot) && state.now <= 100 {
                *state.releases.entry(transaction.transaction_hash.clone()).or_default() += 1;
                let lost = self.plot == Plot::IdleLost && transaction.attempt == 1;
                let lands = !matches!(self.plot, Plot::Overtaken | Plot::LandsTooLate | Plot::IdleHidden);
                state.released |= !lost && lands;
            } else if escrowed(state) {
                *state.refunds.entry(transaction.transaction_hash.clone()).or_default() += 1;
            }
        })
        .await
    }

    async fn deposit_state(
        &self,
        order: &DepositOrder,
        versions: &[TransactionPrepared],
    ) -> Result<DepositState, Transient> {
        self.expects(&order.payment_id);
        self.call(|state| {
            match self.plot {
                Plot::Resubmitted(restored::Resubmitted::Reverted) => {
                    return DepositState::Reverted(Box::new(context("PaymentExists")));
                }
                Plot::Resubmitted(_) => return DepositState::Expired { evidence: "no receipt".to_owned() },
                _ => {}
            }
            if matches!(self.plot, Plot::MinedFirst | Plot::MinedOnForks) && state.now < MINED_UNTIL {
                return DepositState::Pending;
            }
            if state.effective.is_some() {
                return DepositState::Secured(EscrowSecured {
                    inclusion: inclusion(5),
                    amount: state.reserved.deposited.unwrap_or(drawn(self.plot)),
                    deposit: None,
                });
            }
            if let Some(opened) = payer_deposit::stranded(state) {
                return DepositState::Stranded(opened);
            }
            let sent = versions.iter().any(|version| state.deposits.contains_key(&version.transaction_hash));
            if sent && self.plot == Plot::Superseded {
                return DepositState::Superseded { evidence: "nonce taken".to_owned() };
            }
            DepositState::Pending
        })
        .await
    }

    async fn deposit_mined(&self, _: &DepositOrder, _: &[TransactionPrepared]) -> Result<Option<Inclusion>, Transient> {
        if !matches!(self.plot, Plot::MinedFirst | Plot::MinedOnForks) {
            return Ok(None);
        }
        self.call(|state| {
            let transaction_hash = state.effective.clone()?;
            state.asked += 1;
            assert!(state.asked < 100, "asked without a pause");
            let fork = if self.plot == Plot::MinedOnForks { state.asked % 2 } else { 0 };
            Some(Inclusion { transaction_hash, ..inclusion(4 + u64::from(fork)) })
        })
        .await
    }

    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient> {
        self.call(|state| match self.plot {
            Plot::Reassigns(_) => self.delivery_of_reserved(state, order),
            plot if vanishes(plot) && state.now > 60 => DeliveryState::Impossible,
            plot if vanishes(plot) => DeliveryState::NotSeen,
            _ if state.now < 16 => DeliveryState::NotSeen,
            _ if state.now < 18 => DeliveryState::Seen(inclusion(7)),
            Plot::Reorganised(to) if state.now > 50 => {
                to.map_or(DeliveryState::NotSeen, |block| DeliveryState::Seen(inclusion(block)))
            }
            _ => DeliveryState::Final(inclusion(7)),
        })
        .await
    }

    async fn escrow_state(&self, payment_id: &PaymentId, _: &EscrowPlan) -> Result<EscrowState, Transient> {
        self.expects(payment_id);
        self.call(|state| {
            if let Plot::PayerDeposits(plot) = self.plot
                && let Some(told) = payer_deposit::escrow_state(plot, state)
            {
                return told;
            }
            if state.effective.is_none() {
                return EscrowState::Absent;
            }
            if let Plot::Reassigns(_) = self.plot {
                return self.state_of_reserved(state);
            }
            if let Plot::Restored(restored::Escrow::ReleasedForAnother) = self.plot {
                return EscrowState::Released(inclusion(9));
            }
            if matches!(self.plot, Plot::Restored(restored::Escrow::OfAnother) | Plot::Resubmitted(_))
                && state.refunds.is_empty()
            {
                return if state.now > 100 { EscrowState::Lapsed } else { EscrowState::Held };
            }
            if !state.refunds.is_empty() {
                state.refunded = true;
                let refunded = EscrowRefunded { inclusion: inclusion(9), amount: drawn(self.plot), claims: Vec::new() };
                return EscrowState::Refunded(refunded);
            }
            match self.plot {
                plot if lapses(plot) && state.now > 100 => EscrowState::Lapsed,
                plot if lapses(plot) => EscrowState::Held,
                _ if state.released => EscrowState::Released(inclusion(9)),
                Plot::Overtaken if state.now > 61 => EscrowState::Released(inclusion(9)),
                plot if idle(plot) && state.now > 100 => EscrowState::Lapsed,
                plot if idle(plot) => EscrowState::Held,
                Plot::AttestedLate | Plot::Reorganised(_) if state.now < 73 => EscrowState::Held,
                Plot::Set(verifier_sets::Members::OneHangsOneLags | verifier_sets::Members::OneDeniesOneSlow)
                    if state.now < 60 =>
                {
                    EscrowState::Held
                }
                Plot::Set(verifier_sets::Members::AloneUntil(until)) if state.now < until + 3 => EscrowState::Held,
                Plot::LapsedByOneNode if state.now < 73 => EscrowState::Lapsed,
                _ if state.now > 20 => EscrowState::Released(inclusion(9)),
                _ => EscrowState::Held,
            }
        })
        .await
    }

    async fn deposit_secured(&self, order: &DepositOrder) -> Result<Option<EscrowSecured>, Transient> {
        self.expects(&order.payment_id);
        if let Plot::Restored(escrow) = self.plot {
            let secured = escrow == restored::Escrow::OfTheAward;
            return self.call(|state| secured.then(|| restored::secured(state))).await;
        }
        if matches!(self.plot, Plot::Resubmitted(_)) {
            return self.call(|_| None).await;
        }
        self.call(|state| {
            let secured = || EscrowSecured { inclusion: inclusion(5), amount: drawn(self.plot), deposit: None };
            (state.effective.is_some() || self.plot == Plot::Usurped).then(secured)
        })
        .await
    }

    async fn stranded_deposit(&self, deposit: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        assert!(deposit.authorization.is_payer_deposit(), "nothing else can be stranded");
        self.expects(&deposit.payment_id);
        self.call(|state| payer_deposit::stranded(state)).await
    }

    async fn payer_has_escrow(
        &self,
        _: &PaymentId,
        _: &EscrowPlan,
        _: &events::Account,
    ) -> Result<(bool, u64), Transient> {
        unreachable!("asked at admission alone")
    }

    async fn escrow_found(&self, _: &PayerDeposit) -> Result<Option<EscrowOpened>, Transient> {
        let escrow = match self.plot {
            Plot::Restored(escrow) => escrow,
            Plot::Resubmitted(_) => restored::Escrow::OfAnother,
            Plot::Reassigns(_) => return self.call(|state| Some(state.reserved.found(state.now))).await,
            _ => unreachable!("asked after a restore alone"),
        };
        self.call(|state| restored::found(escrow, state)).await
    }

    async fn deposit_ruled_out(&self, payment_id: &PaymentId, _: &EscrowPlan, after: u64) -> Result<bool, Transient> {
        self.expects(payment_id);
        self.call(|state| {
            state.effective.is_none() && !state.payer_deposit.deposited && unix_seconds(at(state.now)) > after
        })
        .await
    }

    async fn address_state(&self, _: &PayerDeposit, _: Option<u64>) -> Result<AddressState, Transient> {
        self.call(|state| deposit_address::state(state)).await
    }

    async fn prepare_give_back(&self, _: &PayerDeposit, attempt: u32) -> Result<TransactionPrepared, PrepareError> {
        Ok(self.call(|_| transaction(attempt)).await?)
    }

    async fn given_back_by(&self, _: &PayerDeposit, versions: &[TransactionPrepared]) -> Result<OwnReturn, Transient> {
        let Plot::Addressed(emptied) = self.plot else { panic!("no money is at an address") };
        self.call(|state| deposit_address::given_back_by(state, emptied, versions)).await
    }

    async fn transaction_state(&self, versions: &[TransactionPrepared]) -> Result<TransactionState, Transient> {
        self.call(|state| match versions[0].attempt == 1 && self.is_lost(state) {
            _ if self.is_reassignment_dead(state, versions) => {
                TransactionState::Dead { evidence: "nonce taken".to_owned() }
            }
            true if self.plot == Plot::IdleHidden => {
                state.released = true;
                TransactionState::Dead { evidence: "NoReceipt".to_owned() }
            }
            true => TransactionState::Dead { evidence: "ReleaseWindowClosed".to_owned() },
            false => TransactionState::Pending,
        })
        .await
    }

    async fn attestation_holds(
        &self,
        statement: &Statement,
        _: &EscrowPlan,
        signature: &str,
    ) -> Result<bool, Transient> {
        let good = match self.plot {
            Plot::Reassigns(_) => escrow::word(statement, &submission().verifier.account),
            _ => "0xgood".to_owned(),
        };
        self.call(|_| signature == good).await
    }

    async fn signed_by(
        &self,
        statement: &Statement,
        _: &EscrowPlan,
        member: &Account,
        signature: &str,
    ) -> Result<bool, Transient> {
        let good = match self.plot {
            Plot::Reassigns(_) => escrow::word(statement, member),
            _ => verifier_sets::signature(member),
        };
        self.call(|_| signature == good).await
    }

    async fn next_block(&self, _: &ChainId) {
        self.state.lock().unwrap().now += 1;
        tokio::task::yield_now().await;
    }
}
