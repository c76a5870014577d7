//! The deterministic deployer: a contract that is at the same address on every chain, and puts what it is sent at an address
//! that follows from the code alone (CREATE2, EIP-1014). So a gateway's contracts have one address on all EVM chains.
//!
//! It is Arachnid's deterministic-deployment-proxy, which other tools use as well. It comes by a transaction whose signature
//! was chosen and not made, so that nobody has the key of its sender, and the same transaction works on every chain.

use alloy::primitives::{Address, B256, U256, address, hex, keccak256};

/// Where it is.
pub(crate) const FACTORY: Address = address!("4e59b44847b379578588920ca78fbf26c0b4956c");
/// Who sends it, with the first transaction of the account.
pub(crate) const FACTORY_SENDER: Address = address!("3fab184622dc19b6109349b94811493bf2a45362");
/// What that transaction costs its sender: 100,000 gas at 100 gwei.
pub(crate) const FACTORY_COST: U256 = U256::from_limbs([10_000_000_000_000_000, 0, 0, 0]);
/// That transaction, signed for no chain in particular.
pub(crate) const FACTORY_TRANSACTION: &[u8] = &hex!(
    "f8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba022222222222222222222"
    "22222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222"
);
/// The code that is there afterwards.
pub(crate) const FACTORY_CODE: &[u8] = &hex!(
    "7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182"
    "fd5b8082525050506014600cf3"
);
/// One of these contracts with the same arguments is enough for a chain.
const SALT: B256 = B256::ZERO;

/// Where the deployer puts `creation` code.
pub(crate) fn place_of(creation: &[u8]) -> Address {
    FACTORY.create2(SALT, keccak256(creation))
}

/// What the deployer is called with to put `creation` code there.
pub(crate) fn call(creation: &[u8]) -> Vec<u8> {
    [SALT.as_slice(), creation].concat()
}

#[cfg(test)]
mod tests {
    use alloy::{
        consensus::{Transaction, TxEnvelope},
        eips::eip2718::Decodable2718,
    };

    use super::*;
    use escrow_abi::signature::recover;

    #[test]
    fn the_transaction_is_of_its_sender_and_makes_the_deployer() {
        let transaction = TxEnvelope::decode_2718(&mut &*FACTORY_TRANSACTION).unwrap();
        assert_eq!(recover(transaction.signature(), transaction.signature_hash()).unwrap(), FACTORY_SENDER);
        assert_eq!((transaction.nonce(), transaction.chain_id()), (0, None));
        assert_eq!(FACTORY_SENDER.create(0), FACTORY);
        let cost = U256::from(transaction.gas_limit()) * U256::from(transaction.max_fee_per_gas());
        assert_eq!(cost, FACTORY_COST);
        assert!(transaction.input().ends_with(FACTORY_CODE), "the code is what the transaction creates");
    }

    #[test]
    fn places_are_those_of_eip_1014() {
        // The fifth example of the EIP, with its own deployer and salt, shows that the library reckons as the EIP does.
        let deployer = address!("00000000000000000000000000000000deadbeef");
        let salt = B256::left_padding_from(&hex!("cafebabe"));
        let place = deployer.create2(salt, keccak256(hex!("deadbeef")));
        assert_eq!(place, address!("60f3f640a8508fc6a86d45df051962668e1e8ac7"));
        assert_eq!(place_of(&[1]), FACTORY.create2(B256::ZERO, keccak256([1])));
        assert_eq!(call(&[1, 2])[31..], [0, 1, 2]);
    }
}
