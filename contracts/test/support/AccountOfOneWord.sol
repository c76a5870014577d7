// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice An ERC-1271 account that takes one signature of one hash, whatever its form.
contract AccountOfOneWord {
    bytes32 private immutable _word;

    constructor(bytes32 hash, bytes memory signature) {
        _word = keccak256(bytes.concat(hash, signature));
    }

    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return keccak256(bytes.concat(hash, signature)) == _word ? this.isValidSignature.selector : bytes4(0);
    }
}
