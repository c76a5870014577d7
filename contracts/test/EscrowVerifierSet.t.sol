// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {AccountOfOneWord} from "./support/AccountOfOneWord.sol";
import {VerifierSets} from "./support/VerifierSets.sol";

/// @notice A set of verifiers as the releaser: as many of its members as its threshold says release and cancel, and nobody
/// else does, whatever bytes are brought.
contract EscrowVerifierSetTest is VerifierSets {
    /// Length of one signature with its index, bytes.
    uint256 private constant SIGNATURE = 66;

    // What counts

    function testFuzz_AnyMembersUpToTheThresholdRelease(uint256 n, uint256 threshold, uint256 seed) public {
        Verifiers memory set = anySet(n, threshold);
        reservedFor(idOf(set));
        uint256 signers = chosen(set.threshold, set.keys.length, seed);
        vm.prank(stranger);
        escrow.release(termsOf(PAYMENT), attest(set, delivered(), signers));
        assertState(GatewayEscrow.State.Released);
        assertPaid(address(token), QUOTED, 0);
    }

    function testFuzz_AnyMembersUpToTheThresholdCancel(uint256 n, uint256 threshold, uint256 seed, bool awarded) public {
        Verifiers memory set = anySet(n, threshold);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = idOf(set);
        if (awarded) reservedFor(d.releaser);
        else depositByPayer(d, address(token));
        bytes32 digest = nonDeliveryDigest(PAYMENT, awarded ? AGREED : bytes32(0));
        vm.prank(stranger);
        escrow.cancel(termsOf(PAYMENT), attest(set, digest, chosen(set.threshold, set.keys.length, seed)));
        assertState(GatewayEscrow.State.Refunded);
        assertPaid(address(token), 0, 0);
    }

    /// Three of five in each of the ten ways, for one payment.
    function test_EachTrioOfFiveReleases() public {
        Verifiers memory set = verifiers(3, 5);
        reservedFor(idOf(set));
        uint256 snapshot = vm.snapshotState();
        uint256 released;
        for (uint256 signers = 0; signers < 32; signers++) {
            (bool done,) =
                address(escrow).call(abi.encodeCall(escrow.release, (termsOf(PAYMENT), attest(set, delivered(), signers))));
            uint256 bits;
            for (uint256 i = 0; i < 5; i++) {
                bits += signers >> i & 1;
            }
            assertEq(done, bits == 3);
            if (done) released++;
            vm.revertToState(snapshot);
        }
        assertEq(released, 10);
    }

    // Fewer than the threshold

    /// In every form that fewer signatures can be brought in: alone, under a lower threshold, one of them again, another's or nobody's in
    /// the place of the missing one.
    function testFuzz_FewerThanTheThresholdNever(uint256 n, uint256 threshold, uint256 seed, uint256 form) public {
        Verifiers memory set = anySet(bound(n, 2, MEMBERS_MAX), threshold);
        if (set.threshold == 1) set.threshold = 2;
        reservedFor(idOf(set));
        uint256 fewer = chosen(set.threshold - 1, set.keys.length, seed);
        bytes memory attestation = attest(set, delivered(), fewer);
        form = form % 6;
        if (form == 1) attestation[0] = bytes1(set.threshold - 1);
        if (form == 2) attestation = bytes.concat(attestation, ending(attestation, SIGNATURE));
        if (form == 3) attestation = bytes.concat(attestation, new bytes(SIGNATURE));
        if (form == 4) attestation = bytes.concat(attestation, signatureAt(missing(fewer), attackerKey, delivered()));
        if (form == 5) {
            bytes memory first = headOf(set);
            bytes memory own = signaturesOf(set, delivered(), fewer);
            attestation = bytes.concat(first, slice(own, 0, SIGNATURE), own);
        }
        expectRefused(attestation);
    }

    function test_AMembersOwnSignatureIsNotTheSets() public {
        Verifiers memory set = verifiers(1, 3);
        reservedFor(idOf(set));
        for (uint256 i = 0; i < 3; i++) {
            expectRefused(sign(set.keys[i], delivered()));
        }
        expectRefused("");
    }

    function test_ASetSaysNothingForItsMembersAccount() public {
        Verifiers memory set = verifiers(1, 2);
        reservedFor(vm.addr(set.keys[0]));
        expectRefused(attest(set, delivered(), 1));
        expectRefused(attest(set, delivered(), 2));
        escrow.release(termsOf(PAYMENT), sign(set.keys[0], delivered()));
        assertPaid(address(token), QUOTED, 0);
    }

    // Other bytes

    /// Whichever byte becomes whichever other.
    function testFuzz_NoByteCanBeChanged(uint256 n, uint256 threshold, uint256 seed, uint256 at, uint8 change) public {
        vm.assume(change != 0);
        Verifiers memory set = anySet(n, threshold);
        reservedFor(idOf(set));
        bytes memory attestation = attest(set, delivered(), chosen(set.threshold, set.keys.length, seed));
        at = bound(at, 0, attestation.length - 1);
        attestation[at] ^= bytes1(change);
        expectRefused(attestation);
        attestation[at] ^= bytes1(change);
        escrow.release(termsOf(PAYMENT), attestation);
    }

    function test_NoBitCanBeChanged() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        bytes memory attestation = attest(set, delivered(), 5);
        assertEq(attestation.length, 2 + 3 * 20 + 2 * SIGNATURE);
        for (uint256 bit = 0; bit < attestation.length * 8; bit++) {
            bytes1 change = bytes1(uint8(1 << bit % 8));
            attestation[bit / 8] ^= change;
            expectRefused(attestation);
            attestation[bit / 8] ^= change;
        }
    }

    function test_TheLengthIsExact() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        bytes memory attestation = attest(set, delivered(), 5);
        for (uint256 length = 0; length < attestation.length; length++) {
            expectRefused(slice(attestation, 0, length));
        }
        for (uint256 more = 1; more <= 2 * SIGNATURE; more++) {
            expectRefused(bytes.concat(attestation, new bytes(more)));
        }
        expectRefused(attest(set, delivered(), 7));
        escrow.release(termsOf(PAYMENT), attestation);
    }

    /// A length in the call that goes beyond the call.
    function test_NothingIsReadBehindTheCall() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        bytes memory attestation = attest(set, delivered(), 5);
        bytes memory head =
            bytes.concat(escrow.release.selector, abi.encode(termsOf(PAYMENT)), abi.encode(16 * 32, attestation.length));
        for (uint256 length = 0; length < attestation.length; length++) {
            (bool done,) = address(escrow).call(bytes.concat(head, slice(attestation, 0, length)));
            assertFalse(done);
        }
        (bool whole,) = address(escrow).call(bytes.concat(head, attestation));
        assertTrue(whole);
    }

    function test_SignaturesStandInTheOrderOfTheSigners() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        bytes memory head = headOf(set);
        bytes memory first = signatureAt(0, set.keys[0], delivered());
        bytes memory last = signatureAt(2, set.keys[2], delivered());
        expectRefused(bytes.concat(head, last, first));
        expectRefused(bytes.concat(head, first, first));
        expectRefused(bytes.concat(head, last, last));
        escrow.release(termsOf(PAYMENT), bytes.concat(head, first, last));
    }

    /// The index is of the signer, and of a member: also where what stands there, or behind everything, is zero as the signer of
    /// no signature is.
    function test_AnIndexIsOfTheSigner() public {
        Verifiers memory set = verifiers(1, 2);
        reservedFor(idOf(set));
        for (uint256 index = 1; index < 256; index++) {
            expectRefused(bytes.concat(headOf(set), signatureAt(index, set.keys[0], delivered())));
            expectRefused(bytes.concat(headOf(set), bytes1(uint8(index)), new bytes(65)));
        }
        escrow.release(termsOf(PAYMENT), bytes.concat(headOf(set), signatureAt(0, set.keys[0], delivered())));
    }

    /// A call may go on behind the attestation, with whatever its sender wants to be a member.
    function test_WhatStandsBehindTheAttestationIsNoMember() public {
        Verifiers memory set = verifiers(1, 1);
        reservedFor(idOf(set));
        bytes memory head = bytes.concat(escrow.release.selector, abi.encode(termsOf(PAYMENT)), abi.encode(16 * 32, 88));
        for (uint256 index = 5; index < 256; index++) {
            bytes memory attestation = bytes.concat(headOf(set), signatureAt(index, attackerKey, delivered()));
            assertEq(attestation.length, 88);
            bytes memory member = bytes.concat(new bytes(2 + 20 * index - attestation.length), bytes20(attacker));
            (bool done,) = address(escrow).call(bytes.concat(head, attestation, member));
            assertFalse(done);
        }
        bytes memory own = bytes.concat(attest(set, delivered(), 1), bytes20(attacker));
        (bool released,) = address(escrow).call(bytes.concat(head, own));
        assertTrue(released);
    }

    function test_OnlyOneOfTheTwoFormsOfASignatureCounts() public {
        Verifiers memory set = verifiers(2, 2);
        reservedFor(idOf(set));
        bytes memory head = headOf(set);
        bytes memory first = sign(set.keys[0], delivered());
        bytes memory last = sign(set.keys[1], delivered());
        expectRefused(bytes.concat(head, hex"00", malleated(first), hex"01", last));
        expectRefused(bytes.concat(head, hex"00", first, hex"01", malleated(last)));
        expectRefused(bytes.concat(head, hex"00", first, hex"00", malleated(first)));
        first[64] = bytes1(uint8(first[64]) - 27);
        expectRefused(bytes.concat(head, hex"00", first, hex"01", last));
    }

    // Ids of what is no set

    /// A payer that signed such an id is paid back in time; until then nobody speaks for it.
    function test_NoSetWithoutThresholdOrMembers() public {
        Verifiers memory set = verifiers(0, 3);
        expectRefusedOf(headOf(set), "");
        expectRefusedOf(headOf(set), signaturesOf(set, delivered(), 1));
        expectRefusedOf(hex"0000", "");
        expectRefusedOf(hex"0100", signatureAt(0, attackerKey, delivered()));
        expectRefusedOf(hex"0100", new bytes(SIGNATURE));
    }

    function test_NoThresholdAboveTheMembers() public {
        Verifiers memory set = verifiers(4, 3);
        bytes memory signatures = signaturesOf(set, delivered(), 7);
        expectRefusedOf(headOf(set), signatures);
        expectRefusedOf(headOf(set), bytes.concat(signatures, slice(signatures, 0, SIGNATURE)));
    }

    function test_NoMoreThanSixteenMembers() public {
        Verifiers memory set = verifiers(1, 17);
        expectRefusedOf(headOf(set), signaturesOf(set, delivered(), 1));
        set = verifiers(17, 17);
        expectRefusedOf(headOf(set), signaturesOf(set, delivered(), type(uint256).max));
        set = verifiers(16, 16);
        reservedFor(idOf(set));
        escrow.release(termsOf(PAYMENT), attest(set, delivered(), type(uint256).max));
        assertPaid(address(token), QUOTED, 0);
    }

    /// Whoever made an id of a set that has a member twice: that member counts once.
    function test_NoKeyCountsTwice() public {
        uint256 key = verifiers(1, 1).keys[0];
        Verifiers memory set = Verifiers(2, new uint256[](2));
        (set.keys[0], set.keys[1]) = (key, key);
        expectRefusedOf(headOf(set), signaturesOf(set, delivered(), 3));
        bytes memory twice = bytes.concat(signatureAt(0, key, delivered()), hex"01", malleated(sign(key, delivered())));
        expectRefusedOf(headOf(set), twice);
        // The same with another between them, in an order that no set has.
        Verifiers memory three = Verifiers(3, new uint256[](3));
        (three.keys[0], three.keys[1], three.keys[2]) = (key, attackerKey, key);
        expectRefusedOf(headOf(three), signaturesOf(three, delivered(), 7));
    }

    /// What recovers to nobody is no member's signature, even if somebody made nobody a member.
    function test_NobodyIsNoMember() public {
        expectRefusedOf(abi.encodePacked(uint8(1), uint8(1), address(0)), new bytes(SIGNATURE));
        Verifiers memory set = verifiers(1, 1);
        bytes memory head = abi.encodePacked(uint8(2), uint8(2), address(0), vm.addr(set.keys[0]));
        expectRefusedOf(head, bytes.concat(new bytes(SIGNATURE), signatureAt(1, set.keys[0], delivered())));
    }

    // Of something else

    function test_AnAttestationIsOfOnePaymentEscrowAndChain() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        expectRefused(attest(set, deliveryDigest(keccak256("pay_2"), AGREED, settler), 3));
        expectRefused(attest(set, deliveryDigest(PAYMENT, keccak256("other quote"), settler), 3));
        expectRefused(attest(set, deliveryDigest(PAYMENT, AGREED, attacker), 3));
        expectRefused(attest(set, nonDeliveryDigest(PAYMENT, AGREED), 3));
        expectCancelRefused(attest(set, delivered(), 3));
        expectCancelRefused(attest(set, nonDeliveryDigest(PAYMENT, bytes32(0)), 3));
        // One of two words is of something else.
        bytes memory other = signatureAt(1, set.keys[1], nonDeliveryDigest(PAYMENT, AGREED));
        expectRefused(bytes.concat(headOf(set), signatureAt(0, set.keys[0], delivered()), other));

        bytes memory good = attest(set, delivered(), 3);
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = attest(set, delivered(), 3);
        escrow = home;
        expectRefused(foreign);
        vm.chainId(block.chainid + 1);
        expectRefused(good);
    }

    function test_AnotherSetSaysNothing() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        for (uint256 threshold = 1; threshold <= 3; threshold += 2) {
            expectRefused(attest(verifiers(threshold, 3), delivered(), (1 << threshold) - 1));
        }
        expectRefused(attest(verifiers(2, 2), delivered(), 3));
        expectRefused(attest(verifiers(2, 4), delivered(), 3));
        // The same members in another order.
        (set.keys[0], set.keys[1]) = (set.keys[1], set.keys[0]);
        bytes memory swapped =
            bytes.concat(signatureAt(1, set.keys[1], delivered()), signatureAt(0, set.keys[0], delivered()));
        expectRefused(bytes.concat(headOf(set), swapped));
    }

    // Accounts with code, and the reserver

    /// Code that takes signatures of such a form is asked, whether they hold as a set's or not.
    function test_AContractMayTakeWhatLooksLikeASets() public {
        Verifiers memory set = verifiers(2, 3);
        bytes[3] memory words =
            [attest(set, delivered(), 3), headOf(set), bytes.concat(headOf(set), new bytes(2 * SIGNATURE))];
        uint256 snapshot = vm.snapshotState();
        for (uint256 i = 0; i < words.length; i++) {
            reservedFor(address(new AccountOfOneWord(delivered(), words[i])));
            expectRefused(attest(set, delivered(), 5));
            escrow.release(termsOf(PAYMENT), words[i]);
            assertPaid(address(token), QUOTED, 0);
            vm.revertToState(snapshot);
        }
    }

    /// Code at a set's id takes nothing from the set.
    function test_ASetCountsWhateverCodeItsIdHas() public {
        Verifiers memory set = verifiers(2, 3);
        reservedFor(idOf(set));
        vm.etch(idOf(set), address(new AccountOfOneWord(delivered(), "word")).code);
        expectRefused(attest(set, delivered(), 1));
        escrow.release(termsOf(PAYMENT), attest(set, delivered(), 3));
        assertPaid(address(token), QUOTED, 0);
    }

    function test_TheReserverIsNoSet() public {
        Verifiers memory set = verifiers(1, 1);
        address id = idOf(set);
        escrow = new GatewayEscrow(PERMIT2, id, guardian, PAYOUT_GAS);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = id;
        bytes32 digest = escrowDigest(escrow, openingHash(d, address(token), CAP));
        vm.prank(payer);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, id));
        escrow.depositOwn(d, address(token), CAP, attest(set, digest, 1));
    }

    // Helpers

    function anySet(uint256 n, uint256 threshold) private pure returns (Verifiers memory) {
        n = bound(n, 1, MEMBERS_MAX);
        return verifiers(bound(threshold, 1, n), n);
    }

    function reservedFor(address by) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = by;
        depositWitnessed(d, reservation(), address(token));
    }

    /// The digest that a releaser of this payment signs.
    function delivered() private view returns (bytes32) {
        return deliveryDigest(PAYMENT, AGREED, settler);
    }

    function expectRefused(bytes memory attestation) private {
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, e.deposit.releaser)
        );
        escrow.release(e, attestation);
    }

    function expectCancelRefused(bytes memory attestation) private {
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, e.deposit.releaser)
        );
        escrow.cancel(e, attestation);
    }

    /// A payment whose releaser is the id of just this head is not released by it.
    function expectRefusedOf(bytes memory head, bytes memory signatures) private {
        uint256 snapshot = vm.snapshotState();
        reservedFor(idOf(head));
        expectRefused(bytes.concat(head, signatures));
        vm.revertToState(snapshot);
    }

    /// The first member that is not among `signers`.
    function missing(uint256 signers) private pure returns (uint256 index) {
        while (signers >> index & 1 == 1) {
            index++;
        }
    }

    function ending(bytes memory from, uint256 length) private pure returns (bytes memory) {
        return slice(from, from.length - length, length);
    }

    function slice(bytes memory from, uint256 start, uint256 length) private pure returns (bytes memory part) {
        part = new bytes(length);
        for (uint256 i = 0; i < length; i++) {
            part[i] = from[start + i];
        }
    }
}
