//! Submitters: which of the gateway's accounts send what, whatever the chain's family.
//!
//! What brings money out of escrow must never wait for what brings it in: deposits run code that strangers chose, and may be
//! made to fail, to be dear, or to stand in the way. So exits have accounts of their own, or a reserve that deposits leave.
//! A reassignment is between the two: it runs none of that code, and its time is short, so it does not queue behind deposits; but
//! without it the money goes back by an exit, so it leaves all that exits need.

use events::PaymentId;

/// What a transaction of the gateway is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leg {
    /// It brings money into escrow, or reserves it there.
    Deposit,
    /// It gives what is in escrow to another settler than the one that did not deliver.
    Reassignment,
    /// It brings money out: a refund, a cancellation, a release.
    Exit,
}

/// Where exits have no accounts of their own, deposits leave the coins of one exit more for every so many, for reassignments.
const REASSIGNMENTS_SHARE: u64 = 5;

/// The keys of a chain's submitters.
#[derive(Debug)]
pub struct Submitters<'a, K> {
    /// They send everything that no others are for.
    pub usual: &'a [K],
    /// They send exits and reassignments and nothing else; none where the usual ones do that, too.
    pub exits: &'a [K],
}

impl<'a, K> Submitters<'a, K> {
    /// Those that may send for a payment, the preferred one first. An exit or a reassignment that none of the accounts for exits can
    /// pay for is the usual ones' to send; a deposit is never theirs.
    pub fn of(&self, leg: Leg, payment_id: &PaymentId) -> Vec<&'a K> {
        let own = match leg {
            Leg::Deposit => Vec::new(),
            Leg::Reassignment | Leg::Exit => spread(self.exits, payment_id),
        };
        own.into_iter().chain(spread(self.usual, payment_id)).collect()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &'a K> + use<'a, K> {
        self.usual.iter().chain(self.exits)
    }

    /// How many exits a transaction of this leg leaves the coins of in the account that sends it, where so many are to be
    /// paid for at any time.
    pub fn left_over(&self, leg: Leg, exits_reserved: u64) -> u64 {
        match leg {
            Leg::Exit => 0,
            Leg::Reassignment => exits_reserved,
            Leg::Deposit if !self.exits.is_empty() => 0,
            Leg::Deposit => exits_reserved.saturating_add(exits_reserved.div_ceil(REASSIGNMENTS_SHARE)),
        }
    }
}

/// The keys in the order in which a payment prefers them: the payments are spread evenly over the first place.
fn spread<'a, K>(keys: &'a [K], payment_id: &PaymentId) -> Vec<&'a K> {
    let head = payment_id.on_chain().0.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
    let mut ordered: Vec<_> = keys.iter().collect();
    let first = head.checked_rem(ordered.len() as u64).unwrap_or_default();
    // The remainder is below a length that is a usize.
    ordered.rotate_left(first as usize);
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payments_are_spread_and_stay() {
        let keys = Submitters { usual: &[1, 2, 3], exits: &[] };
        let mut counts = [0; 3];
        for number in 0..300 {
            let payment = PaymentId::derive("eip155:x", &number.to_string());
            let order = keys.of(Leg::Deposit, &payment);
            assert_eq!(order.len(), 3);
            counts[*order[0] - 1] += 1;
            assert_eq!(keys.of(Leg::Deposit, &payment), order);
            assert_eq!(keys.of(Leg::Exit, &payment), order);
        }
        assert!(counts.iter().all(|count| *count > 60), "{counts:?}");
    }

    #[test]
    fn deposits_leave_alone_what_is_for_exits() {
        let payment = PaymentId::derive("eip155:x", "order-1");
        let separate = Submitters { usual: &[1], exits: &[7, 8] };
        assert_eq!(separate.of(Leg::Deposit, &payment), [&1]);
        let exits = separate.of(Leg::Exit, &payment);
        assert!(matches!(exits[..], [&7, &8, &1] | [&8, &7, &1]), "{exits:?}");
        assert_eq!(separate.all().collect::<Vec<_>>(), [&1, &7, &8]);
        assert_eq!((separate.left_over(Leg::Deposit, 10), separate.left_over(Leg::Exit, 10)), (0, 0));
        let shared = Submitters { usual: &[1], exits: &[] };
        assert_eq!((shared.left_over(Leg::Deposit, 10), shared.left_over(Leg::Exit, 10)), (12, 0));
        assert_eq!(shared.left_over(Leg::Deposit, 0), 0, "who reserves nothing reserves nothing");
    }

    #[test]
    fn reassignments_pass_by_deposits_and_leave_exits_what_they_need() {
        let payment = PaymentId::derive("eip155:x", "order-1");
        let separate = Submitters { usual: &[1], exits: &[7] };
        assert_eq!(separate.of(Leg::Reassignment, &payment), [&7, &1]);
        let shared = Submitters { usual: &[1], exits: &[] };
        assert_eq!(shared.of(Leg::Reassignment, &payment), [&1]);
        for keys in [&separate, &shared] {
            assert_eq!(keys.left_over(Leg::Reassignment, 10), 10);
        }
        // However many deposits there are, there are coins for some reassignments left.
        assert!(shared.left_over(Leg::Deposit, 1) > shared.left_over(Leg::Reassignment, 1));
    }
}
