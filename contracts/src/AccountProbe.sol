// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";

/// @title Judges the signature of an account that may not be deployed yet (ERC-6492)
/// @notice Never deployed: its creation code is run by `eth_call` without a receiver, which returns the answer and
/// changes nothing.
contract AccountProbe {
    /// @notice "Returns" 1 when `account` takes `signature` for its own, deployed by `factory` if it is not yet, else 0.
    /// @param account the account that is said to have signed
    /// @param digest what was signed
    /// @param signature as the account takes it (ERC-1271)
    /// @param factory what deploys the account
    /// @param factoryCall what it is called with
    constructor(address account, bytes32 digest, bytes memory signature, address factory, bytes memory factoryCall) {
        bool called = true;
        if (account.code.length == 0) (called,) = factory.call(factoryCall);
        bool accepted = called && SignatureChecker.isValidERC1271SignatureNow(account, digest, signature);
        assembly ("memory-safe") {
            mstore(0, accepted)
            return(0, 32)
        }
    }
}
