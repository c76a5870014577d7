// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {EscrowFixture} from "./EscrowFixture.sol";

/// @notice Sets of verifiers with their members' keys, and what they attest. Ids and attestations are put together here from
/// their description, apart from the contract's own reading of them.
abstract contract VerifierSets is EscrowFixture {
    uint256 internal constant MEMBERS_MAX = 16;
    uint256 internal constant CURVE_ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
    bytes32 internal constant PAYMENT = keccak256("pay_1");
    bytes32 internal constant AGREED = keccak256("quote");

    /// @param threshold how many members have to sign
    /// @param keys the members' secret keys, in the order of their accounts
    struct Verifiers {
        uint8 threshold;
        uint256[] keys;
    }

    /// A set of `n` members that no other test signs with.
    function verifiers(uint256 threshold, uint256 n) internal pure returns (Verifiers memory) {
        uint256[] memory keys = new uint256[](n);
        for (uint256 i = 0; i < n; i++) {
            keys[i] = uint256(keccak256(abi.encode("verifier", i)));
        }
        return Verifiers(uint8(threshold), inOrder(keys));
    }

    /// The keys in the ascending order of their accounts.
    function inOrder(uint256[] memory keys) internal pure returns (uint256[] memory) {
        for (uint256 i = 1; i < keys.length; i++) {
            for (uint256 j = i; j > 0 && vm.addr(keys[j]) < vm.addr(keys[j - 1]); j--) {
                (keys[j], keys[j - 1]) = (keys[j - 1], keys[j]);
            }
        }
        return keys;
    }

    /// Threshold, number of members and members: what the id is of, and how an attestation begins.
    function headOf(Verifiers memory set) internal pure returns (bytes memory head) {
        head = abi.encodePacked(set.threshold, uint8(set.keys.length));
        for (uint256 i = 0; i < set.keys.length; i++) {
            head = bytes.concat(head, bytes20(vm.addr(set.keys[i])));
        }
    }

    function idOf(bytes memory head) internal pure returns (address) {
        return address(uint160(uint256(keccak256(bytes.concat("gw-verifier-set", hex"01", head)))));
    }

    function idOf(Verifiers memory set) internal pure returns (address) {
        return idOf(headOf(set));
    }

    /// What the members signed whose bits are set in `signers`.
    function attest(Verifiers memory set, bytes32 digest, uint256 signers) internal pure returns (bytes memory) {
        return bytes.concat(headOf(set), signaturesOf(set, digest, signers));
    }

    function signaturesOf(Verifiers memory set, bytes32 digest, uint256 signers)
        internal
        pure
        returns (bytes memory signatures)
    {
        for (uint256 i = 0; i < set.keys.length; i++) {
            if (signers >> i & 1 == 1) signatures = bytes.concat(signatures, signatureAt(i, set.keys[i], digest));
        }
    }

    /// One signature as it stands in an attestation.
    function signatureAt(uint256 index, uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        return bytes.concat(bytes1(uint8(index)), sign(key, digest));
    }

    /// The other signature of the same message by the same key: with a high `s`.
    function malleated(bytes memory signature) internal pure returns (bytes memory) {
        (bytes32 r, bytes32 s) = abi.decode(signature, (bytes32, bytes32));
        uint8 v = uint8(signature[64]) == 27 ? 28 : 27;
        return abi.encodePacked(r, bytes32(CURVE_ORDER - uint256(s)), v);
    }

    /// As many of `n` members as `threshold`, chosen by `seed`.
    function chosen(uint256 threshold, uint256 n, uint256 seed) internal pure returns (uint256 signers) {
        for (uint256 left = threshold; left > 0;) {
            seed = uint256(keccak256(abi.encode(seed)));
            uint256 bit = 1 << seed % n;
            if (signers & bit == 0) {
                signers |= bit;
                left--;
            }
        }
    }

    /// Whether these signers, by their bits, are members and as many as the threshold says.
    function enough(Verifiers memory set, uint256 signers) internal pure returns (bool) {
        uint256 n = 0;
        for (uint256 left = signers; left > 0; left >>= 1) {
            n += left & 1;
        }
        return n == set.threshold && signers >> set.keys.length == 0;
    }
}
