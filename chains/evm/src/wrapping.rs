//! Wrapping a chain's own coin: the call by which a payer turns its coins into the ERC-20 that stands for them, which the escrow
//! can draw.

use alloy::{
    primitives::{Address, Bytes, U256},
    sol,
    sol_types::SolCall,
};

use escrow_abi::contracts::{ConvertError, erc20};
use events::{Amount, AssetId};

sol! {
    /// WETH9, and whatever wraps the coin of another chain as it does.
    interface IWrappedCoin {
        function deposit() external payable;
    }
}

/// The payer's own call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrapCall {
    /// The contract of the wrapped coin.
    pub to: Address,
    /// What it is called with.
    pub data: Bytes,
    /// The coins that go along, wei.
    pub value: U256,
}

/// What wraps `amount`, in wei, of the chain's own coin into `wrapped_coin`.
///
/// # Errors
/// [`ConvertError`] when `wrapped_coin` is not an ERC-20.
pub fn wrap(wrapped_coin: &AssetId, amount: Amount) -> Result<WrapCall, ConvertError> {
    let data = IWrappedCoin::depositCall {}.abi_encode().into();
    Ok(WrapCall { to: erc20(wrapped_coin)?, data, value: amount.get() })
}

#[cfg(test)]
mod tests {
    use alloy::primitives::{address, hex};

    use super::*;

    #[test]
    fn coins_go_to_deposit_of_a_token_and_of_nothing_else() {
        let wrap = |asset: &str| {
            wrap(&format!("eip155:1/{asset}").parse::<AssetId>().unwrap(), "7".parse::<Amount>().unwrap())
        };
        let call = WrapCall {
            to: address!("c02aaa39b223fe8d0a0e5c4f27ead9083c756cc2"),
            data: hex!("d0e30db0").into(),
            value: U256::from(7),
        };
        assert_eq!(wrap("erc20:0xc02aaa39b223fe8d0a0e5c4f27ead9083c756cc2"), Ok(call));
        assert!(wrap("slip44:60").is_err());
    }
}
