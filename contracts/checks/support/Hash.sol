// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice Stands for SHA-256, which Halmos does not compute: another hash, at an address that is no precompile.
contract Hash {
    fallback(bytes calldata data) external returns (bytes memory) {
        return abi.encode(keccak256(data));
    }
}
