//! Wrapping TRX: the call by which a payer turns its TRX into the TRC-20 that stands for it, which the escrow can draw.

use alloy::primitives::Address;

use events::{Amount, AssetId};
use sagas::ports::Transient;

use super::address::trc20;

/// The function that wraps what comes along, as WTRX has it.
const DEPOSIT: &str = "deposit()";
/// What wrapping may burn for energy at most, in sun: more than twice what WTRX takes of an account without energy. Only what is
/// used is paid.
const FEE_LIMIT_SUN: u64 = 30_000_000;

/// The payer's own call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrapCall {
    /// The contract of wrapped TRX.
    pub contract: Address,
    /// The function's signature; it takes no arguments.
    pub function: &'static str,
    /// The TRX that go along, in sun.
    pub value_sun: u64,
    /// Most that may be burnt for energy, in sun.
    pub fee_limit_sun: u64,
}

/// What wraps `amount`, in sun, into `wrapped_coin`.
///
/// # Errors
/// [`Transient`] when `wrapped_coin` is not a TRC-20, or `amount` more than there can be.
pub fn wrap(wrapped_coin: &AssetId, amount: Amount) -> Result<WrapCall, Transient> {
    let value_sun = u64::try_from(amount.get()).map_err(|_| Transient::misconfigured("more TRX than there are"))?;
    Ok(WrapCall { contract: trc20(wrapped_coin)?, function: DEPOSIT, value_sun, fee_limit_sun: FEE_LIMIT_SUN })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trx_go_to_deposit_of_a_token_and_no_more_than_there_can_be() {
        let asset = |asset: &str| format!("tron:728126428/{asset}").parse::<AssetId>().unwrap();
        let amount = |text: &str| text.parse::<Amount>().unwrap();
        let wtrx = asset("trc20:TNUC9Qb1rRpS5CbWLmNMxXBjyFoydXjWFR");
        let call = wrap(&wtrx, amount("7")).unwrap();
        assert_eq!((call.contract, call.function, call.value_sun), (trc20(&wtrx).unwrap(), "deposit()", 7));
        assert!(wrap(&wtrx, amount("18446744073709551616")).is_err());
        assert!(wrap(&asset("slip44:195"), amount("7")).is_err());
    }
}
