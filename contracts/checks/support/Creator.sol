// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice Creates a contract by a call, of which the cost can be told. It is that of the transaction which creates it, but for the
/// copying.
contract Creator {
    function create(bytes calldata creation) external {
        assembly ("memory-safe") {
            let code := mload(0x40)
            calldatacopy(code, creation.offset, creation.length)
            pop(create(0, code, creation.length))
        }
    }
}
