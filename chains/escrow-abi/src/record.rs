//! The escrow's record as `GatewayEscrow` returns it, in the words of every family.

use alloy::primitives::Address;

use chains::escrow::{EscrowRecord, State};
use events::{Account, Amount, ChainId, Family, Hash32};

use crate::contracts::{GatewayEscrow, seconds};

/// Why what `escrowOf` returned is not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The contract numbers a state that it does not have.
    #[error("the unknown state {0}")]
    State(u8),
    /// The chain has no `GatewayEscrow` of Solidity.
    #[error("{0} is neither an EVM chain nor Tron")]
    Chain(ChainId),
    /// The token cannot be named on the chain.
    #[error("{0} is not an asset")]
    Token(String),
}

/// The state that `GatewayEscrow` numbers `number`; `None` where no deposit was ever made.
///
/// # Errors
/// [`RecordError::State`] when it has no such state.
pub fn state(number: u8) -> Result<Option<State>, RecordError> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(State::Deposited)),
        2 => Ok(Some(State::Reserved)),
        3 => Ok(Some(State::Released)),
        4 => Ok(Some(State::Refunded)),
        unknown => Err(RecordError::State(unknown)),
    }
}

/// The record that `escrow` is on the chain `chain_id`, EVM or Tron; `None` when the contract knows nothing of the payment.
///
/// # Errors
/// [`RecordError`].
pub fn read(escrow: &GatewayEscrow::Escrow, chain_id: &ChainId) -> Result<Option<EscrowRecord>, RecordError> {
    let Some(state) = state(escrow.state)? else { return Ok(None) };
    let (family, namespace) = match chain_id.family() {
        Some(family @ Family::Evm) => (family, "erc20"),
        Some(family @ Family::Tron) => (family, "trc20"),
        Some(Family::Solana) | None => return Err(RecordError::Chain(chain_id.clone())),
    };
    let account = |address: Address| Account::from_bytes(family, address.as_slice());
    let token = account(escrow.token).ok_or_else(|| RecordError::Token(escrow.token.to_string()))?;
    let asset = format!("{chain_id}/{namespace}:{token}");
    Ok(Some(EscrowRecord {
        chain_id: chain_id.clone(),
        state,
        payer: account(escrow.payer),
        reserver: account(escrow.reserver),
        releaser: account(escrow.releaser),
        asset: asset.parse().map_err(|_| RecordError::Token(asset))?,
        settler: account(escrow.settler),
        deposited: Amount::new(escrow.deposited),
        source_amount: Amount::new(escrow.sourceAmount),
        terms_hash: Hash32(escrow.termsHash.0),
        quote_hash: Hash32(escrow.quoteHash.0),
        reserve_deadline: seconds(escrow.reserveDeadline),
        fulfillment_deadline: seconds(escrow.fulfillmentDeadline),
        fulfill_by: seconds(escrow.fulfillBy),
        refund_after: seconds(escrow.refundAfter),
    }))
}

#[cfg(test)]
mod tests {
    use alloy::sol_types::{SolType, SolValue};

    use super::*;

    #[test]
    fn a_record_is_of_a_family_that_has_the_contract() {
        let bytes = vec![0; GatewayEscrow::Escrow::ENCODED_SIZE.unwrap()];
        let mut escrow = <GatewayEscrow::Escrow as SolValue>::abi_decode(&bytes).unwrap();
        (escrow.state, escrow.token) = (1, Address::repeat_byte(7));
        let read = |chain: &str| super::read(&escrow, &chain.parse().unwrap());
        for (chain, token) in [("eip155:1", "eip155:1/erc20:0x07"), ("tron:5", "tron:5/trc20:T")] {
            let record = read(chain).unwrap().unwrap();
            assert!(record.asset.to_string().starts_with(token), "{record:?}");
            assert_eq!((record.state, record.payer), (State::Deposited, None));
        }
        for chain in ["solana:abc", "cosmos:cosmoshub-4"] {
            assert_eq!(read(chain), Err(RecordError::Chain(chain.parse().unwrap())));
        }
    }
}
