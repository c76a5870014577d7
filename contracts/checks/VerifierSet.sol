// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @notice What a set of verifiers would be as a contract account (ERC-1271), to measure it against the sets that the escrow
/// reads itself. Threshold and members stand behind the code, which is the cheapest place for them: no storage is read, and the
/// address that CREATE2 gives it is of them. Nothing deploys it but the measurement.
contract VerifierSet {
    /// @param signatures as many as the threshold says: index (1 byte), r, s, v (65), the signers in ascending order
    function isValidSignature(bytes32 hash, bytes calldata signatures) external view returns (bytes4) {
        uint256 threshold;
        uint256 members;
        uint256 list;
        assembly ("memory-safe") {
            // The code ends with threshold, number of members, members, and their number once more, by which all is found.
            codecopy(0, sub(codesize(), 1), 1)
            members := byte(0, mload(0))
            list := sub(codesize(), add(1, mul(20, members)))
            codecopy(0, sub(list, 2), 1)
            threshold := byte(0, mload(0))
        }
        if (signatures.length != 66 * threshold) return bytes4(0);
        address last;
        for (uint256 at = 0; at < signatures.length; at += 66) {
            uint256 index;
            bytes32 r;
            bytes32 s;
            uint8 v;
            address member;
            assembly ("memory-safe") {
                let signature := add(signatures.offset, at)
                index := byte(0, calldataload(signature))
                r := calldataload(add(signature, 1))
                s := calldataload(add(signature, 33))
                v := byte(0, calldataload(add(signature, 65)))
                codecopy(0, add(list, mul(20, index)), 20)
                member := shr(96, mload(0))
            }
            if (index >= members) return bytes4(0);
            (address signer,,) = ECDSA.tryRecover(hash, v, r, s);
            if (signer <= last || signer != member) return bytes4(0);
            last = signer;
        }
        return this.isValidSignature.selector;
    }
}

/// @notice Deploys such accounts.
library VerifierSetFactory {
    /// @param head threshold, number of members and members, as a set attestation begins
    function deploy(bytes memory head) internal returns (address account) {
        bytes memory code = bytes.concat(type(VerifierSet).runtimeCode, head, head[1]);
        // Copies what follows these twelve bytes, and returns it as the code.
        bytes memory creation = bytes.concat(hex"61", bytes2(uint16(code.length)), hex"80600c6000396000f3", code);
        assembly ("memory-safe") {
            account := create2(0, add(creation, 0x20), mload(creation), 0)
        }
        require(account.code.length == code.length, "not deployed");
    }
}
