//! Account resources: bandwidth and its price. Nothing is staked here, so energy is always paid for.

use super::state::Account;
use crate::{Options, Refusal};

/// Sun for a memo.
pub(crate) const MEMO_SUN: u64 = 1_000_000;
/// Sun for the bandwidth of a transfer that makes an account, whatever its size.
pub(crate) const NEW_ACCOUNT_NET_SUN: u64 = 100_000;
/// Used free bandwidth is there again after a day, bit by bit.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1000;

/// Bandwidth that a transaction took: free bytes, or sun for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Net {
    pub usage: u64,
    /// Sun.
    pub fee: u64,
}

/// Free bandwidth of `account` that is still counted as used at `now`.
pub(crate) fn free_used(account: &Account, now: i64) -> u64 {
    let elapsed = now.saturating_sub(account.free_used_at).clamp(0, WINDOW_MS);
    let left = u128::from((WINDOW_MS - elapsed).unsigned_abs());
    let share = (u128::from(account.free_used) * left).div_ceil(u128::from(WINDOW_MS.unsigned_abs()));
    // A share of a u64.
    u64::try_from(share).unwrap_or(account.free_used)
}

/// Takes `bytes` from the free bandwidth, or sun for all of them where that does not suffice.
pub(crate) fn take_bandwidth(
    account: &mut Account,
    options: &Options,
    now: i64,
    bytes: u64,
    makes_account: bool,
) -> Result<Net, Refusal> {
    if makes_account {
        account.balance = account.balance.checked_sub(NEW_ACCOUNT_NET_SUN).ok_or(Refusal::Bandwidth)?;
        return Ok(Net { usage: 0, fee: NEW_ACCOUNT_NET_SUN });
    }
    let used = free_used(account, now);
    if bytes <= options.free_bandwidth.saturating_sub(used) {
        account.free_used = used + bytes;
        account.free_used_at = now;
        return Ok(Net { usage: bytes, fee: 0 });
    }
    let fee = bytes.saturating_mul(options.bandwidth_price_sun);
    account.balance = account.balance.checked_sub(fee).ok_or(Refusal::Bandwidth)?;
    Ok(Net { usage: 0, fee })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_bandwidth_comes_back_within_a_day() {
        let options = Options::default();
        let mut account = Account::new(0);
        account.balance = 300_000;
        assert_eq!(take_bandwidth(&mut account, &options, 0, 400, false), Ok(Net { usage: 400, fee: 0 }));
        assert_eq!(take_bandwidth(&mut account, &options, 0, 201, false), Ok(Net { usage: 0, fee: 201_000 }));
        assert_eq!(account.balance, 99_000);
        assert_eq!(take_bandwidth(&mut account, &options, 0, 201, false), Err(Refusal::Bandwidth));
        assert_eq!(free_used(&account, WINDOW_MS / 2), 200);
        assert_eq!(take_bandwidth(&mut account, &options, WINDOW_MS / 2, 400, false), Ok(Net { usage: 400, fee: 0 }));
        assert_eq!(free_used(&account, 2 * WINDOW_MS), 0);
    }
}
