//! The windows of a deposit, which have the same rules on every family of chains (design: escrow on chain):
//! `quote_deadline < reserve_deadline ≤ fulfillment_deadline`, and the refund window far enough behind.

/// Times are bounded by what the contracts hold, so that whatever is added to one stays far from the edge of 64 bits.
const TIME_BITS: u32 = 48;

/// The windows of one deposit, and what bounds them. UNIX seconds.
#[derive(Debug, Clone, Copy)]
pub struct Windows {
    /// End of quote collection.
    pub quote_deadline: u64,
    /// Last second in which a settler may be named.
    pub reserve_deadline: u64,
    /// Last second of the delivery.
    pub fulfillment_deadline: u64,
    /// First second of the refund.
    pub refund_after: u64,
    /// Least time between the last two.
    pub refund_delay_seconds: u64,
}

/// The window that breaks a rule; the others are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// `reserve_deadline`.
    Reserve,
    /// `refund_after`.
    Refund,
}

/// A rule that is broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Broken {
    /// A window lies elsewhere than it must.
    Mismatch {
        /// Which.
        window: Window,
        /// Where it must lie.
        expected: String,
        /// Where it lies.
        found: u64,
    },
    /// A window is further away than the contracts can hold; the reason for it.
    TooFar(Window, String),
}

impl Windows {
    /// Checks the rules.
    ///
    /// # Errors
    /// The first that is broken.
    pub fn check(&self) -> Result<(), Broken> {
        let Self { quote_deadline, reserve_deadline, fulfillment_deadline, refund_after, refund_delay_seconds } = *self;
        let mismatch = |window, expected, found| Err(Broken::Mismatch { window, expected, found });
        if reserve_deadline <= quote_deadline {
            return mismatch(Window::Reserve, format!("after quote_deadline, {quote_deadline}"), reserve_deadline);
        }
        if reserve_deadline > fulfillment_deadline {
            let expected = format!("at most fulfillment_deadline, {fulfillment_deadline}");
            return mismatch(Window::Reserve, expected, reserve_deadline);
        }
        let earliest = fulfillment_deadline.saturating_add(refund_delay_seconds.max(1));
        if refund_after < earliest {
            let expected = format!("at least {earliest}, {refund_delay_seconds} s after fulfillment_deadline");
            return mismatch(Window::Refund, expected, refund_after);
        }
        if refund_after >> TIME_BITS != 0 {
            return Err(Broken::TooFar(Window::Refund, format!("must fit {TIME_BITS} bits")));
        }
        Ok(())
    }
}
