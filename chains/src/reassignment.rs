//! Reassignment: where it stands, by what the escrow has on record at a settled block, whatever the chain's family (ADR 148).

use events::Hash32;
use sagas::ports::{ReassignmentOrder, ReassignmentState, Reservation};

use crate::escrow::{EscrowRecord, State};

/// What a record shows of a reassignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The escrow is reserved for the quote that lapsed, and may still be reassigned.
    Open,
    /// It is reserved for the new quote, or was until it ended.
    Reassigned,
    /// It never will be: this is why.
    Missed(Miss),
}

/// Why an escrow will not be reserved for a quote any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Miss {
    /// It has released, under another reservation.
    Released,
    /// It has given the money back.
    Refunded,
    /// The promise of the quote has passed.
    TooLate,
    /// The refund window is open, and the escrow is reserved for a quote that the payment does not know.
    Replaced,
}

impl Miss {
    /// The engine's state of it, as it was found `at` a settled block.
    pub fn state(self, at: &str) -> ReassignmentState {
        let evidence = format!("{at}: {self}");
        match self {
            Self::Refunded | Self::TooLate => ReassignmentState::Missed { evidence },
            Self::Released | Self::Replaced => ReassignmentState::Lost { evidence },
        }
    }
}

/// Why what is on record says nothing of a reassignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The record is not that of the payment's deposit, which was settled before.
    #[error("another escrow than the payment's")]
    Other,
    /// No settler is named, where one was at a settled block before.
    #[error("a deposit for which no settler is named")]
    Unreserved,
    /// It is reserved for a quote that is neither the one that lapsed nor the new one.
    #[error("a reservation for the quote {0}")]
    Third(Hash32),
}

impl std::fmt::Display for Miss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Released => "the escrow has released under another reservation",
            Self::Refunded => "the escrow has given the money back",
            Self::Replaced => "the refund window is open, and the escrow is reserved for another quote",
            Self::TooLate => "the promise of the new quote has passed, and the escrow is not reserved for it",
        })
    }
}

impl Standing {
    /// What `record`, read at a settled block with the UNIX second `settled_time`, shows of the reassignment.
    ///
    /// # Errors
    /// [`Unknown`], where nothing may be concluded.
    pub fn of(record: &EscrowRecord, order: &ReassignmentOrder, settled_time: u64) -> Result<Self, Unknown> {
        if !record.is_deposit_of(&order.terms.source, order.terms_hash, &order.escrow) {
            return Err(Unknown::Other);
        }
        if is_reserved_under(record, &order.reservation) {
            return Ok(Self::Reassigned);
        }
        match record.state {
            State::Released => Ok(Self::Missed(Miss::Released)),
            State::Refunded => Ok(Self::Missed(Miss::Refunded)),
            State::Deposited => Err(Unknown::Unreserved),
            // Another may have come after the new one, once that lapsed as well. From the refund window on it is paid to nobody.
            State::Reserved if !is_reserved_under(record, &order.lapsed) => match settled_time >= record.refund_after {
                true => Ok(Self::Missed(Miss::Replaced)),
                false => Err(Unknown::Third(record.quote_hash)),
            },
            // The contract takes none in a block that is not before the new promise's end, and later blocks are no earlier.
            State::Reserved if settled_time > order.reservation.fulfill_by => Ok(Self::Missed(Miss::TooLate)),
            State::Reserved => Ok(Self::Open),
        }
    }
}

/// Whether the escrow is, or was until it ended, reserved under this reservation, every field the same.
pub fn is_reserved_under(record: &EscrowRecord, reservation: &Reservation) -> bool {
    let Reservation { quote_hash, payout_account, source_amount, fulfill_by } = reservation;
    record.quote_hash == *quote_hash
        && record.settler.as_ref() == Some(payout_account)
        && record.source_amount == Some(*source_amount)
        && record.fulfill_by == *fulfill_by
}

#[cfg(test)]
mod tests {
    use events::{
        Account, ChainId, OwnedAsset, PaymentId, Terms,
        event::{Authorization, EscrowPlan, Permit2},
    };

    use super::*;

    const PAYER: &str = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
    const FIRST: &str = "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d359";
    const NEXT: &str = "0xdbf03b407c01e7cd3cbea99509d93f8dddc8c6fb";
    const TOKEN: &str = "eip155:1/erc20:0x1111111111111111111111111111111111111111";

    fn account(text: &str) -> Account {
        text.parse().unwrap()
    }

    fn reservation(quote: u8, settler: &str, fulfill_by: u64) -> Reservation {
        Reservation {
            quote_hash: Hash32([quote; 32]),
            payout_account: account(settler),
            source_amount: "900".parse().unwrap(),
            fulfill_by,
        }
    }

    fn order() -> ReassignmentOrder {
        let terms = Terms::new(
            OwnedAsset::new(TOKEN.parse().unwrap(), PAYER).unwrap(),
            vec![OwnedAsset::new("eip155:2/slip44:60".parse().unwrap(), PAYER).unwrap()],
            "800".parse().unwrap(),
            None,
        );
        ReassignmentOrder {
            payment_id: PaymentId::derive("payer", "reassigned"),
            terms_hash: terms.hash(),
            terms,
            escrow: EscrowPlan {
                chain_id: ChainId::evm(1),
                contract: account(PAYER),
                reserver: account(PAYER),
                releaser: account(PAYER),
                reserve_deadline: 100,
                fulfillment_deadline: 500,
                refund_after: 600,
            },
            authorization: Authorization::EvmPermit2Escrow(Permit2 {
                amount: "1000".parse().unwrap(),
                nonce: Hash32::ZERO,
                deadline: 100,
                quote_hash: Hash32::ZERO,
                signature: "0x".to_owned(),
                allowance: None,
            }),
            deposited: "1000".parse().unwrap(),
            lapsed: reservation(1, FIRST, 150),
            non_delivery: "0x".to_owned(),
            reservation: reservation(2, NEXT, 300),
        }
    }

    fn record(state: State, reservation: &Reservation) -> EscrowRecord {
        let ReassignmentOrder { escrow, terms, terms_hash, deposited, .. } = order();
        EscrowRecord {
            chain_id: escrow.chain_id,
            state,
            payer: Some(terms.source.account().clone()),
            reserver: Some(escrow.reserver),
            releaser: Some(escrow.releaser),
            asset: terms.source.asset().clone(),
            settler: Some(reservation.payout_account.clone()),
            deposited: Some(deposited),
            source_amount: Some(reservation.source_amount),
            terms_hash,
            quote_hash: reservation.quote_hash,
            reserve_deadline: escrow.reserve_deadline,
            fulfillment_deadline: escrow.fulfillment_deadline,
            fulfill_by: reservation.fulfill_by,
            refund_after: escrow.refund_after,
        }
    }

    fn standing(record: &EscrowRecord, settled_time: u64) -> Result<Standing, Unknown> {
        Standing::of(record, &order(), settled_time)
    }

    #[test]
    fn one_that_is_there_is_there_whatever_became_of_it_and_whenever() {
        for state in [State::Reserved, State::Released, State::Refunded] {
            for time in [0, 1_000] {
                assert_eq!(standing(&record(state, &order().reservation), time), Ok(Standing::Reassigned));
            }
        }
    }

    #[test]
    fn it_may_come_up_to_the_end_of_the_new_promise_and_not_after() {
        let lapsed = record(State::Reserved, &order().lapsed);
        // The reserve deadline and the promise that lapsed are no ends of it.
        for time in [0, 150, 151, 300] {
            assert_eq!(standing(&lapsed, time), Ok(Standing::Open), "{time}");
        }
        assert_eq!(standing(&lapsed, 301), Ok(Standing::Missed(Miss::TooLate)));
    }

    #[test]
    fn an_escrow_that_ended_under_another_reservation_takes_none() {
        let third = reservation(3, FIRST, 200);
        for reservation in [&order().lapsed, &third] {
            let state = |state| standing(&record(state, reservation), 0);
            assert_eq!(state(State::Released), Ok(Standing::Missed(Miss::Released)));
            assert_eq!(state(State::Refunded), Ok(Standing::Missed(Miss::Refunded)));
        }
    }

    #[test]
    fn a_third_reservation_is_over_with_the_refund_window_and_somebody_may_have_been_paid() {
        let third = record(State::Reserved, &reservation(3, FIRST, 200));
        assert_eq!(standing(&third, 600), Ok(Standing::Missed(Miss::Replaced)));
        for (miss, is_lost) in
            [(Miss::Replaced, true), (Miss::Released, true), (Miss::Refunded, false), (Miss::TooLate, false)]
        {
            assert_eq!(matches!(miss.state("here"), ReassignmentState::Lost { .. }), is_lost, "{miss}");
        }
    }

    #[test]
    fn every_field_of_the_new_reservation_counts() {
        type Change = fn(&mut EscrowRecord);
        let changes: [Change; 4] = [
            |record| record.quote_hash = Hash32([9; 32]),
            |record| record.settler = Some(account(FIRST)),
            |record| record.source_amount = Some("901".parse().unwrap()),
            |record| record.fulfill_by += 1,
        ];
        for change in changes {
            let mut record = record(State::Reserved, &order().reservation);
            change(&mut record);
            assert_eq!(standing(&record, 0), Err(Unknown::Third(record.quote_hash)), "{record:?}");
        }
    }

    #[test]
    fn what_the_payment_never_was_proves_nothing() {
        type Change = fn(&mut EscrowRecord);
        let changes: [Change; 4] = [
            |record| record.payer = Some(account(NEXT)),
            |record| record.asset = "eip155:1/erc20:0x2222222222222222222222222222222222222222".parse().unwrap(),
            |record| record.terms_hash = Hash32::ZERO,
            |record| record.refund_after += 1,
        ];
        for change in changes {
            for state in [State::Reserved, State::Refunded] {
                let mut record = record(state, &order().reservation);
                change(&mut record);
                assert_eq!(standing(&record, 1_000), Err(Unknown::Other));
            }
        }
        assert_eq!(standing(&record(State::Deposited, &order().lapsed), 1_000), Err(Unknown::Unreserved));
        let third = record(State::Reserved, &reservation(3, FIRST, 200));
        for time in [300, 301, 599] {
            assert_eq!(standing(&third, time), Err(Unknown::Third(Hash32([3; 32]))));
        }
    }
}
