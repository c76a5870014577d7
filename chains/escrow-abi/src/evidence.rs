//! Event evidence: what the events of a transaction prove, on all chains whose contracts are the Solidity ones.
//!
//! A transaction runs whole or not at all, so an event of the gateway's contracts in one that succeeded is their word. What
//! moved is read from the token's own events.

use alloy::{
    primitives::{Address, B256, Log, U256},
    sol,
    sol_types::SolEvent,
};

use chains::auditor::{Case, Discrepancies, Kind};
use events::{
    Amount, Hash32,
    event::{EscrowPlan, EscrowRefunded, Inclusion},
    time::unix_seconds,
};

use super::{
    contracts::{self, FulfillmentProxy, GatewayEscrow, units, word},
    deposit_addresses::DepositAddresses,
    reservations,
};

sol! {
    /// A movement of a token.
    #[derive(Debug)]
    event Transfer(address indexed from, address indexed to, uint256 value);
}

mod earlier {
    alloy::sol! {
        /// A deposit by contracts that kept the terms themselves.
        #[derive(Debug)]
        event Deposited(
            bytes32 indexed paymentId,
            bytes32 indexed quoteHash,
            address indexed payer,
            bytes32 termsHash,
            address token,
            uint256 amount
        );
    }
}

/// A transaction that is on the chain and had its effect.
#[derive(Debug)]
pub struct Evidence {
    /// UNIX second of its block.
    pub time: u64,
    /// All that contracts logged in it.
    pub logs: Vec<Log>,
}

/// Who and what a payment is about on its source chain.
#[derive(Debug, Clone, Copy)]
pub struct Parties {
    /// The payment's id as contracts know it.
    pub id: B256,
    /// The escrow contract.
    pub escrow: Address,
    /// The account that pays.
    pub payer: Address,
    /// The contract of the token that is paid with.
    pub token: Address,
    /// The account that names the settler.
    pub reserver: Address,
    /// The account that attests the delivery.
    pub releaser: Address,
    /// How the chain's family writes an address.
    pub text: fn(Address) -> String,
}

/// What a deposit must say besides who and what it is about.
#[derive(Debug, Clone, Copy)]
pub struct Agreement<'a> {
    /// The windows.
    pub plan: &'a EscrowPlan,
    /// Hash of the payment's terms.
    pub terms_hash: Hash32,
    /// Hash of the quote that the payer agreed to, or zero.
    pub agreed: Hash32,
    /// Hash of the quote that the deposit is made for: the awarded one where it is reserved at once, else the agreed one.
    pub quote_hash: Hash32,
}

/// A reservation that another took the place of.
#[derive(Debug, Clone, Copy)]
pub struct Replaced {
    /// Hash of its quote.
    pub quote_hash: Hash32,
    /// The last UNIX second in which it could be delivered.
    pub fulfill_by: u64,
}

impl Parties {
    /// `name` must be the same account in the stream and on the chain.
    pub fn same(&self, name: &str, stream: Address, chain: Address, discrepancies: &mut Discrepancies) {
        discrepancies.same(name, (self.text)(stream), (self.text)(chain));
    }
}

impl Evidence {
    /// The events of one kind that `contract` emitted.
    pub fn events<E: SolEvent>(&self, contract: Address) -> Vec<E> {
        let own = self.logs.iter().filter(|log| log.address == contract);
        own.filter_map(|log| E::decode_log(log).ok().map(|event| event.data)).collect()
    }

    /// What moved of `token` in transfers for which `counts`.
    pub fn moved(&self, token: Address, counts: impl Fn(&Transfer) -> bool) -> U256 {
        let transfers: Vec<Transfer> = self.events(token);
        let counted = transfers.iter().filter(|event| counts(event));
        counted.fold(U256::ZERO, |sum, event| sum.saturating_add(event.value))
    }

    /// Says that the transaction `place` made no deposit for the payment that could be checked here: it made none, or one by a
    /// contract of the layout before this one.
    pub fn no_deposit(&self, parties: &Parties, place: &str, discrepancies: &mut Discrepancies) {
        let earlier: Vec<earlier::Deposited> = self.events(parties.escrow);
        match earlier.iter().any(|event| event.paymentId == parties.id) {
            true => discrepancies.add(
                Kind::Unverifiable,
                format!("{place} made the deposit by a contract of an earlier version, which audits it"),
            ),
            false => discrepancies.add(Kind::Missing, format!("{place} made no deposit for the payment")),
        }
    }

    /// Checks that the deposit took from the payer what it says, no more and no less. `deposits` is how many deposits the
    /// transaction made.
    pub fn taken(&self, parties: &Parties, deposits: usize, due: U256, discrepancies: &mut Discrepancies) {
        let taken = self.moved(parties.token, |event| event.from == parties.payer && event.to == parties.escrow);
        discrepancies.require(covers(deposits, taken, due), || {
            format!("{taken} were taken from the payer for a deposit of {due}")
        });
    }

    /// Checks that the transaction gave back what was at the address `at` of `factory`, as the stream says, to the payer; `share` is what of
    /// so much is the payment's.
    pub fn given_back(
        &self,
        parties: &Parties,
        (factory, at): (Address, Address),
        share: impl FnOnce(Amount) -> Amount,
        refunded: &EscrowRefunded,
        discrepancies: &mut Discrepancies,
    ) {
        let events: Vec<DepositAddresses::GivenBack> = self.events(factory);
        match events.iter().find(|event| event.from == at && event.token == parties.token) {
            None => {
                let transaction = &refunded.inclusion.transaction_hash;
                discrepancies.add(Kind::Missing, format!("{transaction} gave nothing back from the deposit address"));
            }
            Some(event) => {
                let given_back = Amount::new(event.amount).map_or(U256::ZERO, |amount| units(share(amount)));
                discrepancies.same("the amount given back", units(refunded.amount), given_back);
                parties.same("who got it back", parties.payer, event.to, discrepancies);
            }
        }
    }

    /// Checks that a deposit is the payment's. That of `amount` is the caller's to check.
    pub fn deposited(
        parties: &Parties,
        agreement: &Agreement<'_>,
        deposit: &GatewayEscrow::Deposited,
        discrepancies: &mut Discrepancies,
    ) {
        let Agreement { plan, terms_hash, agreed, quote_hash } = *agreement;
        let signed = &deposit.deposit;
        discrepancies.same("the id in the deposit", parties.id, signed.paymentId);
        parties.same("the payer", parties.payer, deposit.payer, discrepancies);
        parties.same("the payer in the deposit", parties.payer, signed.payer, discrepancies);
        parties.same("the token", parties.token, deposit.token, discrepancies);
        parties.same("the reserver in the deposit", parties.reserver, signed.reserver, discrepancies);
        parties.same("the releaser in the deposit", parties.releaser, signed.releaser, discrepancies);
        discrepancies.same("the terms' hash in the deposit", word(terms_hash), signed.termsHash);
        discrepancies.same("the agreed quote's hash in the deposit", word(agreed), signed.quoteHash);
        discrepancies.same("the quote's hash in the deposit", word(quote_hash), deposit.quoteHash);
        for (name, stream, chain) in [
            ("the reserve deadline in the deposit", plan.reserve_deadline, signed.reserveDeadline),
            ("the fulfillment deadline in the deposit", plan.fulfillment_deadline, signed.fulfillmentDeadline),
            ("the refund window in the deposit", plan.refund_after, signed.refundAfter),
        ] {
            discrepancies.same(name, stream, contracts::seconds(chain));
        }
    }

    /// Checks that a reservation is for the quote of the case.
    pub fn reserved(
        case: &Case<'_>,
        parties: &Parties,
        payout: Address,
        reserved: &GatewayEscrow::Reserved,
        discrepancies: &mut Discrepancies,
    ) {
        discrepancies.same("the quote's hash in the reservation", word(case.quote_hash), reserved.quoteHash);
        parties.same("the account that is to be paid", payout, reserved.settler, discrepancies);
        discrepancies.same("the amount that is to be paid", units(case.quote.source_amount), reserved.sourceAmount);
        let fulfill_by = unix_seconds(case.quote.fulfill_by);
        discrepancies.same(
            "the time of delivery in the reservation",
            fulfill_by,
            contracts::seconds(reserved.fulfillBy),
        );
    }

    /// Checks that the transaction `inclusion` gave the reservation `before` to the quote of the case, which asks no more than what
    /// was `deposited`, once the time of the settler before was over.
    pub fn reassigned(
        &self,
        case: &Case<'_>,
        (parties, payout): (&Parties, Address),
        before: Replaced,
        inclusion: &Inclusion,
        deposited: Amount,
        discrepancies: &mut Discrepancies,
    ) {
        let Some(reserved) = self.replacement(parties, before, &inclusion.transaction_hash, discrepancies) else {
            return;
        };
        Self::reserved(case, parties, payout, &reserved, discrepancies);
        discrepancies.require(reserved.sourceAmount <= units(deposited), || {
            format!("{deposited} went into the escrow and {} were reserved of it", reserved.sourceAmount)
        });
        discrepancies.require(self.time < case.plan.fulfillment_deadline, || {
            let deadline = case.plan.fulfillment_deadline;
            format!("the reassignment came at {}, not before the fulfillment deadline {deadline}", self.time)
        });
    }

    /// What the transaction `place` reserved in the place of `before`, if it did.
    fn replacement(
        &self,
        parties: &Parties,
        before: Replaced,
        place: &str,
        discrepancies: &mut Discrepancies,
    ) -> Option<GatewayEscrow::Reserved> {
        let logs = self.logs.iter().map(|log| ((), log));
        let told = match reservations::in_order(logs, parties.escrow, parties.id) {
            Ok(told) => told,
            Err(error) => {
                discrepancies.add(Kind::Contradiction, format!("{place}: {error}"));
                return None;
            }
        };
        // None follows within the second in which it was promised, so a transaction holds one at most.
        let Some((previous, reserved)) = told.into_iter().find_map(|told| Some((told.previous?, told.reserved))) else {
            discrepancies.add(Kind::Missing, format!("{place} reassigned nothing for the payment"));
            return None;
        };
        discrepancies.same("the replaced quote's hash in the reassignment", word(before.quote_hash), previous);
        discrepancies.require(self.time > before.fulfill_by, || {
            let until = before.fulfill_by;
            format!("the reassignment came at {}, and the settler before could deliver until {until}", self.time)
        });
        Some(reserved)
    }

    /// Checks that the transaction `inclusion` paid the settler its price out of `deposited`, and the rest to the payer.
    pub fn released(
        &self,
        case: &Case<'_>,
        parties: &Parties,
        payout: Address,
        inclusion: &Inclusion,
        deposited: Amount,
        discrepancies: &mut Discrepancies,
    ) {
        let releases: Vec<GatewayEscrow::Released> = self.events(parties.escrow);
        let Some(release) = releases.iter().find(|event| event.paymentId == parties.id) else {
            return discrepancies
                .add(Kind::Missing, format!("{} released nothing for the payment", inclusion.transaction_hash));
        };
        discrepancies.same("the quote's hash in the release", word(case.quote_hash), release.quoteHash);
        parties.same("the account that was paid", payout, release.settler, discrepancies);
        discrepancies.same("the amount that was paid", units(case.quote.source_amount), release.amount);
        let out = release.amount.saturating_add(release.remainder);
        discrepancies
            .require(out == units(deposited), || format!("{deposited} went into the escrow and {out} came out"));
        self.paid_out(parties, out, discrepancies);
        discrepancies.require(self.time < case.plan.refund_after, || {
            format!("the release came at {}, inside the refund window from {}", self.time, case.plan.refund_after)
        });
    }

    /// Checks that the transaction of `refunded` returned the whole deposit to the payer.
    pub fn refunded(
        &self,
        parties: &Parties,
        refunded: &EscrowRefunded,
        deposited: Amount,
        discrepancies: &mut Discrepancies,
    ) {
        discrepancies.require(refunded.amount == deposited, || {
            format!("{deposited} went into the escrow and {} came back", refunded.amount)
        });
        let refunds: Vec<GatewayEscrow::Refunded> = self.events(parties.escrow);
        let Some(refund) = refunds.iter().find(|event| event.paymentId == parties.id) else {
            return discrepancies
                .add(Kind::Missing, format!("{} refunded nothing", refunded.inclusion.transaction_hash));
        };
        discrepancies.same("the amount that came back", units(refunded.amount), refund.amount);
        parties.same("the account that was refunded", parties.payer, refund.payer, discrepancies);
        self.paid_out(parties, refund.amount, discrepancies);
    }

    /// Checks that the transaction `inclusion` is the delivery `wanted` through the proxy at `proxy`.
    pub fn delivered(
        &self,
        wanted: &FulfillmentProxy::Fulfilled,
        proxy: Address,
        inclusion: &Inclusion,
        discrepancies: &mut Discrepancies,
    ) {
        let found: Vec<FulfillmentProxy::Fulfilled> = self.events(proxy);
        if !found.contains(wanted) {
            let what = format!("{} is not a delivery of {} under the quote", inclusion.transaction_hash, wanted.amount);
            discrepancies.add(if found.is_empty() { Kind::Missing } else { Kind::Contradiction }, what);
        }
    }

    /// Checks that what left the escrow covers `due`. Whoever sends the transaction may bundle other payments' ends and claims
    /// into it, which leave the escrow, too.
    fn paid_out(&self, parties: &Parties, due: U256, discrepancies: &mut Discrepancies) {
        let releases: Vec<GatewayEscrow::Released> = self.events(parties.escrow);
        let refunds: Vec<GatewayEscrow::Refunded> = self.events(parties.escrow);
        let claimed: Vec<GatewayEscrow::Claimed> = self.events(parties.escrow);
        let payouts = releases.len() + refunds.len() + claimed.len();
        let claims: Vec<GatewayEscrow::Claimable> = self.events(parties.escrow);
        let claims = claims.iter().filter(|claim| claim.token == parties.token);
        let owed = claims.fold(U256::ZERO, |sum, claim| sum.saturating_add(claim.amount));
        // A token that shrank settles its debts with less than they were.
        let losses: Vec<GatewayEscrow::Shortfall> = self.events(parties.escrow);
        let losses = losses.iter().filter(|loss| loss.token == parties.token);
        let lost = losses.fold(U256::ZERO, |sum, loss| sum.saturating_add(loss.amount.saturating_sub(loss.paid)));
        let out = self.moved(parties.token, |event| event.from == parties.escrow);
        let out = out.saturating_add(owed).saturating_add(lost);
        discrepancies
            .require(covers(payouts, out, due), || format!("{due} were due from the escrow and {out} left it"));
    }
}

/// Whether what moved is what one of `events` in the transaction asked for. A transaction may hold those of several
/// payments; then it must have moved at least so much.
fn covers(events: usize, moved: U256, due: U256) -> bool {
    if events == 1 { moved == due } else { moved >= due }
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{LogData, aliases::U48};

    use super::*;

    const ESCROW: Address = Address::repeat_byte(1);
    const TOKEN: Address = Address::repeat_byte(2);
    const SETTLER: Address = Address::repeat_byte(3);
    const OTHER: Address = Address::repeat_byte(4);

    fn log(address: Address, data: LogData) -> Log {
        Log { address, data }
    }

    fn transfer(to: Address, value: u64) -> Log {
        log(TOKEN, Transfer { from: ESCROW, to, value: U256::from(value) }.encode_log_data())
    }

    fn released(amount: u64) -> Log {
        let event = GatewayEscrow::Released {
            paymentId: B256::repeat_byte(9),
            quoteHash: B256::ZERO,
            settler: SETTLER,
            amount: U256::from(amount),
            remainder: U256::ZERO,
        };
        log(ESCROW, event.encode_log_data())
    }

    fn parties() -> Parties {
        Parties {
            id: B256::repeat_byte(9),
            escrow: ESCROW,
            payer: OTHER,
            token: TOKEN,
            reserver: OTHER,
            releaser: OTHER,
            text: contracts::text,
        }
    }

    fn discrepancies_about(logs: Vec<Log>, due: u64) -> usize {
        let mut discrepancies = Discrepancies::default();
        Evidence { time: 1, logs }.paid_out(&parties(), U256::from(due), &mut discrepancies);
        discrepancies.0.len()
    }

    #[test]
    fn a_deposit_of_the_earlier_layout_is_not_missing() {
        let parties = parties();
        let earlier = earlier::Deposited {
            paymentId: parties.id,
            quoteHash: B256::ZERO,
            payer: OTHER,
            termsHash: B256::ZERO,
            token: TOKEN,
            amount: U256::from(1),
        };
        let another = earlier::Deposited { paymentId: B256::repeat_byte(8), ..earlier.clone() };
        for (logs, kind) in [
            (vec![log(ESCROW, earlier.encode_log_data())], Kind::Unverifiable),
            (vec![log(OTHER, earlier.encode_log_data())], Kind::Missing),
            (vec![log(ESCROW, another.encode_log_data())], Kind::Missing),
            (Vec::new(), Kind::Missing),
        ] {
            let mut discrepancies = Discrepancies::default();
            Evidence { time: 1, logs }.no_deposit(&parties, "it", &mut discrepancies);
            assert_eq!(discrepancies.0.iter().map(|found| found.kind).collect::<Vec<_>>(), [kind]);
        }
    }

    #[test]
    fn a_reassignment_takes_the_place_of_the_reservation_before() {
        let parties = parties();
        let before = Replaced { quote_hash: Hash32([6; 32]), fulfill_by: 100 };
        let reassigned = |payment: B256, previous: u8| {
            let event = GatewayEscrow::Reassigned {
                paymentId: payment,
                previousQuoteHash: B256::repeat_byte(previous),
                quoteHash: B256::repeat_byte(7),
            };
            log(ESCROW, event.encode_log_data())
        };
        let event = GatewayEscrow::Reserved {
            paymentId: parties.id,
            quoteHash: B256::repeat_byte(7),
            settler: SETTLER,
            sourceAmount: U256::from(9),
            fulfillBy: U48::from(200),
        };
        let reserved = log(ESCROW, event.encode_log_data());
        let of_another = |log: Log| Log { address: OTHER, ..log };
        for (logs, time, found, kinds) in [
            (vec![reassigned(parties.id, 6), reserved.clone()], 101, true, vec![]),
            (vec![reassigned(parties.id, 6), reserved.clone()], 100, true, vec![Kind::Contradiction]),
            (vec![reassigned(parties.id, 5), reserved.clone()], 101, true, vec![Kind::Contradiction]),
            (vec![reassigned(parties.id, 6)], 101, false, vec![Kind::Contradiction]),
            (vec![reserved.clone()], 101, false, vec![Kind::Missing]),
            (vec![reassigned(B256::repeat_byte(8), 6), reserved.clone()], 101, false, vec![Kind::Missing]),
            (vec![of_another(reassigned(parties.id, 6)), of_another(reserved)], 101, false, vec![Kind::Missing]),
        ] {
            let mut discrepancies = Discrepancies::default();
            let evidence = Evidence { time, logs };
            let replacement = evidence.replacement(&parties, before, "it", &mut discrepancies);
            assert_eq!(replacement, found.then(|| event.clone()), "{evidence:?}");
            assert_eq!(discrepancies.0.iter().map(|found| found.kind).collect::<Vec<_>>(), kinds, "{evidence:?}");
        }
    }

    /// Whoever brings a release may bring somebody's claim, or another payment's end, in the same transaction.
    #[test]
    fn what_strangers_bundle_contradicts_nothing() {
        let claimed = GatewayEscrow::Claimed { owner: OTHER, token: TOKEN, to: OTHER, amount: U256::from(7) };
        let refunded = GatewayEscrow::Refunded {
            paymentId: B256::repeat_byte(8),
            quoteHash: B256::ZERO,
            payer: OTHER,
            amount: U256::from(50),
        };
        let bundles = [
            vec![log(ESCROW, claimed.encode_log_data()), transfer(OTHER, 7)],
            vec![log(ESCROW, refunded.encode_log_data()), transfer(OTHER, 50)],
        ];
        for bundle in bundles {
            let logs = [vec![released(100), transfer(SETTLER, 100)], bundle].concat();
            assert_eq!(discrepancies_about(logs, 100), 0);
        }
        // The same money without the events that explain it, and too little of it.
        assert_eq!(discrepancies_about(vec![released(100), transfer(SETTLER, 100), transfer(OTHER, 7)], 100), 1);
        assert_eq!(discrepancies_about(vec![released(100), transfer(SETTLER, 99)], 100), 1);
    }

    #[test]
    fn a_loss_and_a_claim_count_as_paid() {
        let shortfall =
            GatewayEscrow::Shortfall { owner: SETTLER, token: TOKEN, amount: U256::from(100), paid: U256::from(80) };
        let logs = vec![released(100), transfer(SETTLER, 80), log(ESCROW, shortfall.encode_log_data())];
        assert_eq!(discrepancies_about(logs, 100), 0);
        let claim = GatewayEscrow::Claimable { owner: SETTLER, token: TOKEN, amount: U256::from(100) };
        assert_eq!(discrepancies_about(vec![released(100), log(ESCROW, claim.encode_log_data())], 100), 0);
    }
}
