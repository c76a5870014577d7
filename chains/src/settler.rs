//! The port `DeliveryChain`: what a settler reads of a chain and sends to it, whatever the chain's family.
//!
//! A family has a type for the settler's account on one of its chains, and that type implements [`DeliveryChain`]. What is
//! compared before a settler delivers is the same for every family: [`ReservationState::of`].

use async_trait::async_trait;
use ruint::aliases::U256;

use events::{Account, Amount, AssetId, Hash32, PaymentId, event::EscrowPlan};
use sagas::ports::{DeliveryOrder, DeliveryState, Escrowed, Statement, Transient};

use crate::{
    escrow::{EscrowRecord, QuotedEscrow, QuotedRecord, State},
    perform::PerformError,
};

/// The reservation that a settler requires in escrow before it delivers. Every field must be as stated here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationOrder {
    /// The payment.
    pub payment_id: PaymentId,
    /// The escrow contract with its windows and its releaser, each checked against the settler's configuration.
    pub escrow: EscrowPlan,
    /// Whose money it must hold.
    pub payer: Account,
    /// What it must hold.
    pub asset: AssetId,
    /// Hash of the terms that were quoted.
    pub terms_hash: Hash32,
    /// Hash of the settler's quote.
    pub quote_hash: Hash32,
    /// Account that is paid: the settler's own.
    pub payout_account: Account,
    /// What it is paid, smallest unit.
    pub source_amount: Amount,
    /// Last second of the delivery, UNIX.
    pub fulfill_by: u64,
    /// What is in escrow already, for another settler's quote that has lapsed; `None` where the deposit itself reserves.
    pub escrowed: Option<Escrowed>,
}

/// State of a required reservation at the depth that the source chain requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReservationState {
    /// The reservation may still come: nothing is reserved, and the deposit's window is open; or the escrow is still reserved for the
    /// quote that has lapsed, and the promise of this one has not passed.
    Open,
    /// It has not come, and a block at that depth is past the last second in which it could: it is impossible from now on.
    Lapsed,
    /// The escrow holds the reservation, every field as required.
    Reserved,
    /// The escrow holds, or held, another reservation, and none that is waited for comes after it. An escrow may be reassigned once
    /// its reservation has lapsed, but to this quote only where the settler was told so before ([`ReservationOrder::escrowed`]).
    Different {
        /// Which field differs.
        reason: String,
    },
    /// The escrow paid.
    Released,
    /// The money went back to the payer.
    Refunded,
}

impl ReservationOrder {
    /// What the escrow commits to.
    pub fn quoted(&self) -> QuotedEscrow<'_> {
        QuotedEscrow {
            payment_id: &self.payment_id,
            plan: &self.escrow,
            payer: &self.payer,
            asset: &self.asset,
            terms_hash: self.terms_hash,
            quote_hash: self.quote_hash,
            payout_account: &self.payout_account,
            source_amount: self.source_amount,
            fulfill_by: self.fulfill_by,
            deposited: self.escrowed.map(|escrowed| escrowed.amount),
        }
    }

    /// The last second in which a block may bring the reservation, UNIX.
    pub fn reservable_until(&self) -> u64 {
        match self.escrowed {
            None => self.escrow.reserve_deadline,
            // Whoever is named first is named by the reserve deadline; a further one while its promise lasts.
            Some(_) => self.fulfill_by,
        }
    }
}

impl ReservationState {
    /// As [`ReservationState::of`], of what was `found` for the order.
    pub fn of_quoted(found: &QuotedRecord, order: &ReservationOrder, settled_time: u64) -> Self {
        match found {
            QuotedRecord::Absent | QuotedRecord::Deposited => Self::of(None, order, settled_time),
            QuotedRecord::Reserved(record) => Self::of(Some(record), order, settled_time),
            QuotedRecord::Other => Self::Different { reason: "commitment".to_owned() },
        }
    }

    /// The state that `record` shows to a settler that requires `order`. The record was read at a settled block with the
    /// UNIX second `settled_time`.
    pub fn of(record: Option<&EscrowRecord>, order: &ReservationOrder, settled_time: u64) -> Self {
        let awaited = || match settled_time > order.reservable_until() {
            true => Self::Lapsed,
            false => Self::Open,
        };
        let Some(record) = record.filter(|record| record.state != State::Deposited) else { return awaited() };
        if order.escrowed.is_some_and(|escrowed| escrowed.reserved_for == record.quote_hash)
            && record.quote_hash != order.quote_hash
        {
            return match (first(deposit_fields(record, order)), record.state) {
                (Some(field), _) => Self::Different { reason: field.to_owned() },
                (None, State::Deposited | State::Reserved) => awaited(),
                (None, State::Refunded) => Self::Refunded,
                // It paid another.
                (None, State::Released) => Self::Different { reason: QUOTE_HASH.to_owned() },
            };
        }
        let different = first(award_fields(record, order)).or_else(|| first(deposit_fields(record, order)));
        if let Some(field) = different {
            return Self::Different { reason: field.to_owned() };
        }
        match record.state {
            State::Released => Self::Released,
            State::Refunded => Self::Refunded,
            State::Deposited | State::Reserved => Self::Reserved,
        }
    }
}

/// The field that tells one reservation of an escrow from another.
const QUOTE_HASH: &str = "quote hash";

/// The first field that is not the same.
fn first<const N: usize>(fields: [(&'static str, bool); N]) -> Option<&'static str> {
    fields.into_iter().find(|(_, same)| !same).map(|(field, _)| field)
}

/// What a reservation says, and whether it is the same as in the order.
fn award_fields(record: &EscrowRecord, order: &ReservationOrder) -> [(&'static str, bool); 4] {
    [
        (QUOTE_HASH, record.quote_hash == order.quote_hash),
        ("settler", record.settler.as_ref() == Some(&order.payout_account)),
        ("source amount", record.source_amount == Some(order.source_amount)),
        ("fulfill_by", record.fulfill_by == order.fulfill_by),
    ]
}

/// What the deposit says, which no reservation changes, and whether it is as the order requires.
fn deposit_fields(record: &EscrowRecord, order: &ReservationOrder) -> [(&'static str, bool); 9] {
    let plan = &order.escrow;
    [
        ("terms hash", record.terms_hash == order.terms_hash),
        ("payer", record.payer.as_ref() == Some(&order.payer)),
        ("token", record.asset == order.asset),
        ("deposit", record.deposited.is_some_and(|deposited| deposited >= order.source_amount)),
        ("releaser", record.releaser.as_ref() == Some(&plan.releaser)),
        // A verifier attests only what has all the accounts and windows of the plan.
        ("reserver", record.reserver.as_ref() == Some(&plan.reserver)),
        ("reserve_deadline", record.reserve_deadline == plan.reserve_deadline),
        ("fulfillment_deadline", record.fulfillment_deadline == plan.fulfillment_deadline),
        ("refund_after", record.refund_after == plan.refund_after),
    ]
}

/// What a settler's transactions on a chain usually cost by the chain's prices of the moment, in the smallest unit of its coin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UsualFees {
    /// A delivery of the chain's coin.
    pub coin_delivery: U256,
    /// A delivery of a token, to an account that has none yet where that is dearer.
    pub token_delivery: U256,
    /// A release.
    pub release: U256,
}

impl UsualFees {
    /// Of a delivery of `asset`.
    pub fn of_delivery(&self, asset: &AssetId) -> U256 {
        if asset.is_coin() { self.coin_delivery } else { self.token_delivery }
    }
}

/// One chain, with the settler's account on it. No other process may send from the account.
///
/// Nothing has to outlive the process. The proxy's once-only key and the escrow's state decide, so that a settler which was
/// killed at any moment continues from what the chain shows, and doing the same again has no second effect.
#[async_trait]
pub trait DeliveryChain: Send + Sync {
    /// The settler's account on this chain: where it is paid and what it delivers from.
    fn account(&self) -> &Account;

    /// What the account can deliver of `asset` in the newest block, smallest unit. On families whose fees come out of the
    /// account's own coin, what it keeps for fees is not in it.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn balance(&self, asset: &AssetId) -> Result<U256, Transient>;

    /// The UNIX second of the newest block at the depth that the chain requires, and what the escrow at `contract` has on
    /// record for the payment there; `None` when it holds nothing yet.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn reservation(
        &self,
        payment_id: &PaymentId,
        contract: &Account,
    ) -> Result<(u64, Option<EscrowRecord>), Transient>;

    /// State of the reservation that `order` requires.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn reservation_state(&self, order: &ReservationOrder) -> Result<ReservationState, Transient> {
        let (settled_time, record) = self.reservation(&order.payment_id, &order.escrow.contract).await?;
        Ok(ReservationState::of(record.as_ref(), order, settled_time))
    }

    /// State of the delivery.
    ///
    /// # Errors
    /// [`Transient`]; nothing may be concluded.
    async fn delivery_state(&self, order: &DeliveryOrder) -> Result<DeliveryState, Transient>;

    /// Makes the account that the escrow at `contract` pays `asset` into, where the family needs one and it does not exist.
    /// It comes before the delivery: once the account exists, anyone can bring the release, even when this settler cannot any
    /// more.
    ///
    /// # Errors
    /// [`PerformError`]; after [`PerformError::Transient`] the transaction may be on its way all the same.
    async fn make_payout_account(&self, contract: &Account, asset: &AssetId) -> Result<(), PerformError> {
        let _ = (contract, asset);
        Ok(())
    }

    /// Simulates at the newest state what [`DeliveryChain::deliver`] would send, and sends nothing: whether this token can be
    /// paid to this recipient.
    ///
    /// # Errors
    /// [`PerformError::Refused`] when the chain refuses it, for whatever reason, a balance that is too low too.
    async fn try_delivery(&self, order: &DeliveryOrder) -> Result<(), PerformError>;

    /// Delivers from the account and waits until the delivery is in a block. Returns its transaction; of a delivery that is
    /// there already, at whatever depth, that one.
    ///
    /// # Errors
    /// [`PerformError`]; after [`PerformError::Transient`] do the same again. The proxy takes one delivery of these terms only.
    async fn deliver(&self, order: &DeliveryOrder) -> Result<String, PerformError>;

    /// Whether `signature`, hex with 0x, is the statement signed by the key of `member`, as the escrow of `plan` would judge it of a
    /// member of a set. No node is asked.
    fn signed_by(&self, statement: &Statement, plan: &EscrowPlan, member: &Account, signature: &str) -> bool;

    /// Brings the releaser's attestation to the escrow, which then pays the settler, and waits until that is in a block.
    /// Returns the transaction; of a release that is there already, whoever made it, that one.
    ///
    /// # Errors
    /// [`PerformError`]; after [`PerformError::Transient`] do the same again.
    async fn release(
        &self,
        payment_id: &PaymentId,
        plan: &EscrowPlan,
        attestation: &str,
    ) -> Result<String, PerformError>;

    /// What the escrow at `contract` owes the account in `asset` in the newest block, from payouts that failed, smallest unit.
    /// It is zero on families whose escrows have no claims: there a payout that would fail is not made.
    ///
    /// # Errors
    /// [`Transient`], also where there is no escrow.
    async fn claimable(&self, contract: &Account, asset: &AssetId) -> Result<U256, Transient> {
        let _ = (contract, asset);
        Ok(U256::ZERO)
    }

    /// Collects what the escrow at `contract` owes the account in `asset`, and waits until that is in a block. Returns the
    /// transaction. An earlier one that may still land is waited for instead.
    ///
    /// # Errors
    /// [`PerformError::Refused`] when the newest state refuses it; nothing was sent then, unless the state changed on the way.
    async fn claim(&self, contract: &Account, asset: &AssetId) -> Result<String, PerformError> {
        let _ = asset;
        Err(Transient::misconfigured(format!("the escrow {contract} has no claims")).into())
    }

    /// What transactions usually cost now.
    ///
    /// # Errors
    /// [`Transient`], also where nobody knows.
    async fn usual_fees(&self) -> Result<UsualFees, Transient> {
        Err(Transient::misconfigured("what transactions cost here is not known"))
    }

    /// Returns when the chain has a new block, or after a bounded time.
    async fn next_block(&self);
}

#[cfg(test)]
mod tests {
    use events::ChainId;

    use super::*;

    const SETTLER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    const OTHER: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";

    fn account(text: &str) -> Account {
        text.parse().unwrap()
    }

    fn order() -> ReservationOrder {
        ReservationOrder {
            payment_id: PaymentId::derive("payer", "reserved"),
            escrow: EscrowPlan {
                chain_id: ChainId::evm(1),
                contract: account(OTHER),
                reserver: account(OTHER),
                releaser: account(OTHER),
                reserve_deadline: 100,
                fulfillment_deadline: 200,
                refund_after: 300,
            },
            payer: account(OTHER),
            asset: "eip155:1/slip44:60".parse().unwrap(),
            terms_hash: Hash32([1; 32]),
            quote_hash: Hash32([2; 32]),
            payout_account: account(SETTLER),
            source_amount: "1000".parse().unwrap(),
            fulfill_by: 150,
            escrowed: None,
        }
    }

    const LAPSED: Hash32 = Hash32([3; 32]);

    /// The order of a settler that is to take the place of the one with the quote [`LAPSED`].
    fn next_order() -> ReservationOrder {
        let escrowed = Some(Escrowed { amount: "1200".parse().unwrap(), reserved_for: LAPSED });
        ReservationOrder { escrowed, ..order() }
    }

    /// What the escrow shows for as long as it is not reassigned.
    fn lapsed(state: State) -> EscrowRecord {
        EscrowRecord {
            quote_hash: LAPSED,
            settler: Some(account(OTHER)),
            deposited: Some("1200".parse().unwrap()),
            source_amount: Some("1100".parse().unwrap()),
            fulfill_by: 90,
            ..record(state)
        }
    }

    fn record(state: State) -> EscrowRecord {
        let ReservationOrder {
            escrow, asset, terms_hash, quote_hash, payout_account, source_amount, fulfill_by, ..
        } = order();
        EscrowRecord {
            chain_id: escrow.chain_id,
            state,
            payer: Some(account(OTHER)),
            reserver: Some(escrow.reserver),
            releaser: Some(escrow.releaser),
            asset,
            settler: Some(payout_account),
            deposited: Some(source_amount),
            source_amount: Some(source_amount),
            terms_hash,
            quote_hash,
            reserve_deadline: escrow.reserve_deadline,
            fulfillment_deadline: escrow.fulfillment_deadline,
            fulfill_by,
            refund_after: escrow.refund_after,
        }
    }

    #[test]
    fn without_a_reservation_the_deposits_window_decides() {
        let deposited = record(State::Deposited);
        for record in [None, Some(&deposited)] {
            assert_eq!(ReservationState::of(record, &order(), 100), ReservationState::Open);
            assert_eq!(ReservationState::of(record, &order(), 101), ReservationState::Lapsed);
        }
    }

    #[test]
    fn the_reservation_that_is_required_counts_whatever_became_of_it() {
        for (state, expected) in [
            (State::Reserved, ReservationState::Reserved),
            (State::Released, ReservationState::Released),
            (State::Refunded, ReservationState::Refunded),
        ] {
            assert_eq!(ReservationState::of(Some(&record(state)), &order(), 1_000), expected);
        }
    }

    #[test]
    fn a_reservation_that_differs_in_any_field_is_refused_by_the_fields_name() {
        type Change = fn(&mut EscrowRecord);
        let changes: [(&str, Change); 13] = [
            ("quote hash", |record| record.quote_hash = Hash32::ZERO),
            ("terms hash", |record| record.terms_hash = Hash32::ZERO),
            ("settler", |record| record.settler = Some(account(OTHER))),
            ("payer", |record| record.payer = Some(account(SETTLER))),
            ("token", |record| {
                record.asset = "eip155:1/erc20:0x1111111111111111111111111111111111111111".parse().unwrap()
            }),
            ("source amount", |record| record.source_amount = Some("999".parse().unwrap())),
            ("deposit", |record| record.deposited = Some("999".parse().unwrap())),
            ("releaser", |record| record.releaser = None),
            ("fulfill_by", |record| record.fulfill_by += 1),
            ("reserver", |record| record.reserver = Some(account(SETTLER))),
            ("reserve_deadline", |record| record.reserve_deadline += 1),
            ("fulfillment_deadline", |record| record.fulfillment_deadline += 1),
            ("refund_after", |record| record.refund_after += 1),
        ];
        for (field, change) in changes {
            let mut record = record(State::Reserved);
            change(&mut record);
            let different = ReservationState::Different { reason: field.to_owned() };
            assert_eq!(ReservationState::of(Some(&record), &order(), 0), different);
        }
        // More than is paid may be in escrow.
        let more = EscrowRecord { deposited: Some("1001".parse().unwrap()), ..record(State::Reserved) };
        assert_eq!(ReservationState::of(Some(&more), &order(), 0), ReservationState::Reserved);
    }

    #[test]
    fn the_next_settler_waits_past_the_reserve_deadline_for_as_long_as_its_own_promise() {
        let (reserved, deposited) = (lapsed(State::Reserved), record(State::Deposited));
        // A node that does not show the reservation that lapsed is behind.
        for record in [Some(&reserved), Some(&deposited), None] {
            for time in [0, 100, 101, 150] {
                assert_eq!(ReservationState::of(record, &next_order(), time), ReservationState::Open, "{time}");
            }
            assert_eq!(ReservationState::of(record, &next_order(), 151), ReservationState::Lapsed);
        }
        assert_eq!(
            ReservationState::of(Some(&record(State::Reserved)), &next_order(), 151),
            ReservationState::Reserved
        );
        assert_eq!(
            ReservationState::of(Some(&record(State::Released)), &next_order(), 151),
            ReservationState::Released
        );
    }

    #[test]
    fn an_escrow_that_ended_before_its_reassignment_is_not_waited_for() {
        let state = |state| ReservationState::of(Some(&lapsed(state)), &next_order(), 0);
        assert_eq!(state(State::Refunded), ReservationState::Refunded);
        assert_eq!(state(State::Released), ReservationState::Different { reason: "quote hash".to_owned() });
    }

    #[test]
    fn a_reservation_for_a_third_quote_ends_the_waiting_of_all_others() {
        let third = EscrowRecord { quote_hash: Hash32([4; 32]), ..lapsed(State::Reserved) };
        let different = ReservationState::Different { reason: "quote hash".to_owned() };
        for order in [order(), next_order()] {
            for time in [0, 1_000] {
                assert_eq!(ReservationState::of(Some(&third), &order, time), different);
            }
        }
        // That of the first winner, whose own promise has passed, and of one that was told of no other.
        assert_eq!(ReservationState::of(Some(&lapsed(State::Reserved)), &order(), 0), different);
        let own = ReservationOrder { quote_hash: LAPSED, ..next_order() };
        let settler = ReservationState::Different { reason: "settler".to_owned() };
        assert_eq!(ReservationState::of(Some(&lapsed(State::Reserved)), &own, 0), settler, "it takes its own place");
    }

    #[test]
    fn what_no_reassignment_changes_must_be_right_before_it() {
        type Change = fn(&mut EscrowRecord);
        let changes: [(&str, Change); 9] = [
            ("terms hash", |record| record.terms_hash = Hash32::ZERO),
            ("payer", |record| record.payer = Some(account(SETTLER))),
            ("token", |record| {
                record.asset = "eip155:1/erc20:0x1111111111111111111111111111111111111111".parse().unwrap()
            }),
            ("deposit", |record| record.deposited = Some("999".parse().unwrap())),
            ("releaser", |record| record.releaser = None),
            ("reserver", |record| record.reserver = None),
            ("reserve_deadline", |record| record.reserve_deadline += 1),
            ("fulfillment_deadline", |record| record.fulfillment_deadline += 1),
            ("refund_after", |record| record.refund_after += 1),
        ];
        for (field, change) in changes {
            let mut record = lapsed(State::Reserved);
            change(&mut record);
            let different = ReservationState::Different { reason: field.to_owned() };
            assert_eq!(ReservationState::of(Some(&record), &next_order(), 0), different);
        }
    }
}
