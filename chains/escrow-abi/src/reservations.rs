//! A payment's reservations: the first, and each that took the place of the one before it.
//!
//! The escrow tells a reservation by `Reserved`; of one that takes another's place (`reassign`) it says so right before, by
//! `Reassigned`. A record counts them all (`round`) and keeps the last.

use alloy::{
    primitives::{Address, B256, Log},
    sol_types::SolEventInterface,
};

use crate::contracts::GatewayEscrow::{self, GatewayEscrowEvents};

/// A reservation as the escrow told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<P> {
    /// Where it was told: what the caller knows of the event's transaction.
    pub place: P,
    /// What was reserved.
    pub reserved: GatewayEscrow::Reserved,
    /// Hash of the quote whose place it takes; `None` for a payment's first reservation.
    pub previous: Option<B256>,
}

/// Events that do not follow on each other, so that some are missing, twice there or not in their order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OutOfOrder {
    /// A further reservation takes nobody's place.
    #[error("the reservation for {0} takes no other's place, and is not the first")]
    Unannounced(B256),
    /// A reservation takes the place of another than the one before it.
    #[error("the reservation for {next} takes the place of {previous}, and {last} was reserved before")]
    Previous {
        /// The quote that was reserved before.
        last: B256,
        /// The quote whose place is taken.
        previous: B256,
        /// The quote that takes it.
        next: B256,
    },
    /// It was told that another quote takes a reservation's place, and not what is reserved for it.
    #[error("nothing was reserved for {0}, which takes the place of another")]
    Unreserved(B256),
}

/// The reservations of the payment `id` in `escrow`, by logs in their order, each with its place. Logs that begin later than the
/// payment give its later ones; all of them are as many as the record's `round`.
///
/// # Errors
/// [`OutOfOrder`].
pub fn in_order<'a, P>(
    logs: impl IntoIterator<Item = (P, &'a Log)>,
    escrow: Address,
    id: B256,
) -> Result<Vec<Told<P>>, OutOfOrder> {
    let mut told: Vec<Told<P>> = Vec::new();
    let mut announced: Option<GatewayEscrow::Reassigned> = None;
    for (place, log) in logs.into_iter().filter(|(_, log)| log.address == escrow) {
        match GatewayEscrowEvents::decode_log(log).map(|event| event.data) {
            Ok(GatewayEscrowEvents::Reassigned(event)) if event.paymentId == id => {
                if let Some(before) = announced {
                    return Err(OutOfOrder::Unreserved(before.quoteHash));
                }
                if let Some(last) = told.last().map(|last| last.reserved.quoteHash)
                    && last != event.previousQuoteHash
                {
                    return Err(OutOfOrder::Previous {
                        last,
                        previous: event.previousQuoteHash,
                        next: event.quoteHash,
                    });
                }
                announced = Some(event);
            }
            Ok(GatewayEscrowEvents::Reserved(reserved)) if reserved.paymentId == id => {
                let previous = match announced.take() {
                    Some(event) if event.quoteHash == reserved.quoteHash => Some(event.previousQuoteHash),
                    Some(event) => return Err(OutOfOrder::Unreserved(event.quoteHash)),
                    None if told.is_empty() => None,
                    None => return Err(OutOfOrder::Unannounced(reserved.quoteHash)),
                };
                told.push(Told { place, reserved, previous });
            }
            _ => {}
        }
    }
    match announced {
        Some(event) => Err(OutOfOrder::Unreserved(event.quoteHash)),
        None => Ok(told),
    }
}

#[cfg(test)]
mod tests {
    use alloy::{
        primitives::{U256, aliases::U48},
        sol_types::SolEvent,
    };

    use super::*;

    const ESCROW: Address = Address::repeat_byte(1);
    const ID: B256 = B256::repeat_byte(2);

    fn quote(number: u8) -> B256 {
        B256::repeat_byte(number)
    }

    fn log(event: &impl SolEvent) -> Log {
        Log { address: ESCROW, data: event.encode_log_data() }
    }

    fn event_of(id: B256, number: u8) -> GatewayEscrow::Reserved {
        GatewayEscrow::Reserved {
            paymentId: id,
            quoteHash: quote(number),
            settler: Address::repeat_byte(number),
            sourceAmount: U256::from(number),
            fulfillBy: U48::from(number),
        }
    }

    fn reserved(number: u8) -> Log {
        log(&event_of(ID, number))
    }

    fn reassigned_of(id: B256, previous: u8, next: u8) -> Log {
        log(&GatewayEscrow::Reassigned { paymentId: id, previousQuoteHash: quote(previous), quoteHash: quote(next) })
    }

    fn reassigned(previous: u8, next: u8) -> Log {
        reassigned_of(ID, previous, next)
    }

    fn read(logs: &[Log]) -> Result<Vec<Told<usize>>, OutOfOrder> {
        in_order(logs.iter().enumerate(), ESCROW, ID)
    }

    #[test]
    fn each_takes_the_place_of_the_one_before() {
        let another = B256::repeat_byte(9);
        let logs = [
            reserved(10),
            // Another payment's, and another contract's.
            log(&event_of(another, 50)),
            reassigned_of(another, 50, 51),
            Log { address: Address::repeat_byte(8), ..reassigned(10, 52) },
            reassigned(10, 11),
            reserved(11),
            log(&event_of(another, 51)),
            reassigned(11, 12),
            reserved(12),
        ];
        let told = |place, number, previous: Option<u8>| Told {
            place,
            reserved: event_of(ID, number),
            previous: previous.map(quote),
        };
        let all = [told(0, 10, None), told(5, 11, Some(10)), told(8, 12, Some(11))];
        assert_eq!(read(&logs).unwrap(), all);
        // Of the last transactions alone.
        assert_eq!(read(&logs[4..]).unwrap(), [told(1, 11, Some(10)), told(4, 12, Some(11))]);
        assert_eq!(read(&[]), Ok(Vec::new()));
    }

    #[test]
    fn what_is_missing_or_in_disorder_is_noticed() {
        for (logs, error) in [
            (vec![reserved(10), reserved(11)], OutOfOrder::Unannounced(quote(11))),
            (vec![reserved(10), reserved(10)], OutOfOrder::Unannounced(quote(10))),
            (
                vec![reserved(10), reassigned(11, 12), reserved(12)],
                OutOfOrder::Previous { last: quote(10), previous: quote(11), next: quote(12) },
            ),
            (vec![reserved(10), reassigned(10, 11)], OutOfOrder::Unreserved(quote(11))),
            (vec![reassigned(10, 11), reserved(12)], OutOfOrder::Unreserved(quote(11))),
            (vec![reassigned(10, 11), reassigned(11, 12), reserved(12)], OutOfOrder::Unreserved(quote(11))),
        ] {
            assert_eq!(read(&logs), Err(error));
        }
    }
}
