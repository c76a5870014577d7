//! Outcome of an award: how it ended for the settler.

/// How an award ended. From [`Outcome::Released`] on, each outcome is proven by a chain at the depth it requires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The settler did not stand by its quote.
    Refused,
    /// The gateway withdrew the award before the settler answered, or afterwards without a deposit.
    Withdrawn,
    /// The escrow paid.
    Released,
    /// The money went back to the payer.
    Refunded,
    /// Nothing was reserved for the quote in time.
    Lapsed,
    /// The settler's time was over without a delivery, and the escrow was reassigned to another.
    Reassigned,
    /// Nothing was delivered in time.
    NotDelivered,
    /// The escrow holds another reservation than the one that was quoted.
    Different {
        /// Which field differs.
        reason: String,
    },
}

impl Outcome {
    /// The outcome as operators see it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Withdrawn => "withdrawn",
            Self::Released => "released",
            Self::Refunded => "refunded",
            Self::Lapsed => "lapsed",
            Self::Reassigned => "reassigned",
            Self::NotDelivered => "not_delivered",
            Self::Different { .. } => "different",
        }
    }

    /// What it means that the escrow holds another reservation than the one for a quote whose promise ends at `fulfill_by`, UNIX
    /// seconds, at `now`. When that is over without a delivery another settler may take the place (ADR 148), and a reservation that
    /// was there before, in a settled block, changes in no other way.
    pub fn of_different(reason: String, was_reserved: bool, fulfill_by: u64, now: u64) -> Self {
        if was_reserved || now > fulfill_by { Self::Reassigned } else { Self::Different { reason } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_escrow_that_is_anothers_was_reassigned_once_the_settlers_time_is_over() {
        let of = |was_reserved, now| Outcome::of_different("quote hash".to_owned(), was_reserved, 100, now);
        let different = Outcome::Different { reason: "quote hash".to_owned() };
        assert_eq!([of(false, 0), of(false, 100)], [different.clone(), different]);
        assert_eq!([of(false, 101), of(true, 99), of(true, 101)], [(); 3].map(|()| Outcome::Reassigned));
    }
}
