// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {VerifierSets} from "./support/VerifierSets.sol";

/// @notice `contracts/vectors/verifier-set.json`: worked examples for whoever makes or reads set attestations in another language.
/// They are made here, and tried on the escrow as they stand in the file. `UPDATE_VECTORS=true` writes the file anew.
contract VerifierSetVectorsTest is VerifierSets {
    string private constant PATH = "contracts/vectors/verifier-set.json";
    /// The accounts that every development chain has.
    string private constant MNEMONIC = "test test test test test test test test test test test junk";
    GatewayEscrow private constant HOME = GatewayEscrow(0x5FbDB2315678afecb367f032d93F642f64180aa3);
    uint256 private constant CHAIN_ID = 31_337;

    string private json;

    function setUp() public override {
        super.setUp();
        vm.chainId(CHAIN_ID);
        bytes memory creation = abi.encodePacked(
            type(GatewayEscrow).creationCode, abi.encode(PERMIT2, reserver, guardian, PAYOUT_GAS)
        );
        vm.etch(address(HOME), creation);
        (bool deployed, bytes memory code) = address(HOME).call("");
        assertTrue(deployed);
        vm.etch(address(HOME), code);
        escrow = HOME;
        string memory made = vectors();
        if (vm.envOr("UPDATE_VECTORS", false)) vm.writeFile(PATH, made);
        json = vm.readFile(PATH);
        assertEq(json, made, "UPDATE_VECTORS=true writes the vectors anew");
    }

    function test_TheSetsInTheVectorsReleaseAndCancel() public {
        uint256 taken;
        for (uint256 i = 0; vm.keyExistsJson(json, entry(".sets", i)); i++) {
            string memory set = entry(".sets", i);
            address id = vm.parseJsonAddress(json, string.concat(set, ".id"));
            string[2] memory kinds = [".delivery", ".non_delivery"];
            for (uint256 kind = 0; kind < 2; kind++) {
                string memory list = string.concat(set, kinds[kind]);
                for (uint256 j = 0; vm.keyExistsJson(json, entry(list, j)); j++) {
                    bytes memory attestation = vm.parseJsonBytes(json, string.concat(entry(list, j), ".attestation"));
                    uint256 snapshot = vm.snapshotState();
                    reservedFor(id);
                    if (kind == 0) escrow.release(termsOf(PAYMENT), attestation);
                    else escrow.cancel(termsOf(PAYMENT), attestation);
                    assertState(kind == 0 ? GatewayEscrow.State.Released : GatewayEscrow.State.Refunded);
                    vm.revertToState(snapshot);
                    taken++;
                }
            }
        }
        assertEq(taken, 2 * (3 + 10));
    }

    function test_WhatTheVectorsCallRefusedIs() public {
        uint256 refused;
        for (; vm.keyExistsJson(json, entry(".refused", refused)); refused++) {
            string memory one = entry(".refused", refused);
            address releaser_ = vm.parseJsonAddress(json, string.concat(one, ".releaser"));
            bytes memory attestation = vm.parseJsonBytes(json, string.concat(one, ".attestation"));
            uint256 snapshot = vm.snapshotState();
            reservedFor(releaser_);
            GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser_));
            escrow.release(e, attestation);
            vm.revertToState(snapshot);
        }
        assertEq(refused, 18);
    }

    function reservedFor(address by) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = by;
        depositWitnessed(d, reservation(), address(token));
    }

    function entry(string memory list, uint256 at) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(at), "]");
    }

    // How they are made

    function vectors() private view returns (string memory) {
        string memory domain = string.concat(
            '    "name": "GatewayEscrow",\n    "version": "1",\n    "chain_id": ',
            vm.toString(CHAIN_ID),
            ',\n    "verifying_contract": "',
            hexOf(address(HOME)),
            '"\n'
        );
        return string.concat(
            '{\n  "domain": {\n', domain, '  },\n  "delivery": {\n', statement(true), '  },\n  "non_delivery": {\n',
            statement(false), '  },\n  "sets": [\n', setOf(2, 3), ",\n", setOf(3, 5), '\n  ],\n  "refused": [\n', refusals(),
            "\n  ]\n}\n"
        );
    }

    function statement(bool delivered) private view returns (string memory) {
        string memory text = string.concat(
            '    "payment_id": "', vm.toString(PAYMENT), '",\n    "quote_hash": "', vm.toString(AGREED), '",\n'
        );
        if (delivered) text = string.concat(text, '    "settler": "', hexOf(settler), '",\n');
        return string.concat(text, '    "digest": "', vm.toString(digestOf(delivered)), '"\n');
    }

    function digestOf(bool delivered) private view returns (bytes32) {
        return delivered ? deliveryDigest(PAYMENT, AGREED, settler) : nonDeliveryDigest(PAYMENT, AGREED);
    }

    /// The first `n` development accounts, any `threshold` of them.
    function known(uint256 threshold, uint256 n) private pure returns (Verifiers memory) {
        uint256[] memory keys = new uint256[](n);
        for (uint256 i = 0; i < n; i++) {
            keys[i] = vm.deriveKey(MNEMONIC, uint32(i));
        }
        return Verifiers(uint8(threshold), inOrder(keys));
    }

    function setOf(uint256 threshold, uint256 n) private view returns (string memory) {
        Verifiers memory set = known(threshold, n);
        string memory members;
        string memory keys;
        for (uint256 i = 0; i < n; i++) {
            string memory separator = i == 0 ? "" : ", ";
            members = string.concat(members, separator, quoted(hexOf(vm.addr(set.keys[i]))));
            keys = string.concat(keys, separator, quoted(vm.toString(bytes32(set.keys[i]))));
        }
        bytes memory preimage = bytes.concat("gw-verifier-set", hex"01", headOf(set));
        string memory text = string.concat(
            '      "threshold": ', vm.toString(threshold), ',\n      "members": [', members, '],\n      "private_keys": ['
        );
        text = string.concat(text, keys, '],\n      "preimage": "', vm.toString(preimage), '",\n      "id": "');
        text = string.concat(text, hexOf(idOf(set)), '",\n      "delivery": [\n', attestations(set, true));
        return string.concat(
            "    {\n", text, '\n      ],\n      "non_delivery": [\n', attestations(set, false), "\n      ]\n    }"
        );
    }

    /// One by each choice of as many members as the threshold says.
    function attestations(Verifiers memory set, bool delivered) private view returns (string memory list) {
        for (uint256 signers = 0; signers < 1 << set.keys.length; signers++) {
            string memory indices;
            uint256 count;
            for (uint256 i = 0; i < set.keys.length; i++) {
                if (signers >> i & 1 == 0) continue;
                indices = string.concat(indices, count++ == 0 ? "" : ", ", vm.toString(i));
            }
            if (count != set.threshold) continue;
            string memory attestation = vm.toString(attest(set, digestOf(delivered), signers));
            list = string.concat(list, bytes(list).length == 0 ? "" : ",\n", '        { "signers": [', indices);
            list = string.concat(list, '], "attestation": "', attestation, '" }');
        }
    }

    function refusals() private view returns (string memory list) {
        Verifiers memory set = known(2, 3);
        address id = idOf(set);
        bytes memory head = headOf(set);
        bytes32 digest = digestOf(true);
        bytes memory first = signatureAt(0, set.keys[0], digest);
        bytes memory second = signatureAt(1, set.keys[1], digest);
        uint256 stranger_ = vm.deriveKey(MNEMONIC, 9);
        list = refusal("", "one signature too few", id, bytes.concat(head, first));
        list = refusal(list, "one signature too many", id, attest(set, digest, 7));
        list = refusal(list, "a byte behind the signatures", id, bytes.concat(head, first, second, hex"00"));
        list = refusal(list, "one signature twice", id, bytes.concat(head, first, first));
        bytes memory other = bytes.concat(hex"00", malleated(sign(set.keys[0], digest)));
        list = refusal(list, "one signer twice, the second time with a high s", id, bytes.concat(head, first, other));
        list = refusal(list, "signers in descending order", id, bytes.concat(head, second, first));
        other = bytes.concat(hex"01", malleated(sign(set.keys[1], digest)));
        list = refusal(list, "a signature with a high s", id, bytes.concat(head, first, other));
        other = bytes.concat(second);
        other[65] = bytes1(uint8(other[65]) - 27);
        list = refusal(list, "a v that is 0 or 1", id, bytes.concat(head, first, other));
        other = signatureAt(2, set.keys[1], digest);
        list = refusal(list, "an index of another member than the signer", id, bytes.concat(head, first, other));
        other = signatureAt(3, set.keys[2], digest);
        list = refusal(list, "an index of no member", id, bytes.concat(head, first, other));
        other = signatureAt(1, stranger_, digest);
        list = refusal(list, "a stranger's signature in a member's place", id, bytes.concat(head, first, other));
        list = refusal(list, "a non-delivery's attestation", id, attest(set, digestOf(false), 3));
        other = signatureAt(1, set.keys[1], digestOf(false));
        list = refusal(list, "one of two signatures of a non-delivery", id, bytes.concat(head, first, other));
        list = refusal(list, "another set's id: a lower threshold", id, attest(known(1, 3), digest, 1));
        list = refusal(list, "a member's own signature", id, sign(set.keys[0], digest));
        list = unfit(list, "no set: threshold 0", headOf(known(0, 3)), "");
        head = headOf(known(4, 3));
        list = unfit(list, "no set: a threshold above the members", head, bytes.concat(signaturesOf(set, digest, 7), first));
        list = unfit(list, "no set: 17 members", headOf(known(1, 17)), signaturesOf(known(1, 17), digest, 1));
    }

    /// A refusal also by the payment that names the very id of these bytes.
    function unfit(string memory list, string memory why, bytes memory head, bytes memory signatures)
        private
        pure
        returns (string memory)
    {
        return refusal(list, why, idOf(head), bytes.concat(head, signatures));
    }

    function refusal(string memory list, string memory why, address by, bytes memory attestation)
        private
        pure
        returns (string memory)
    {
        list = string.concat(list, bytes(list).length == 0 ? "" : ",\n", '    { "why": "', why, '", "releaser": "');
        return string.concat(list, hexOf(by), '", "attestation": "', vm.toString(attestation), '" }');
    }

    function quoted(string memory inner) private pure returns (string memory) {
        return string.concat('"', inner, '"');
    }

    /// In small letters, without a checksum.
    function hexOf(address account) private pure returns (string memory) {
        return vm.toString(abi.encodePacked(account));
    }
}
