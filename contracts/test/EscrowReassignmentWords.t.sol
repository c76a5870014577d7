// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {LapsedReservations} from "./support/LapsedReservations.sol";

/// @notice With whose words another settler takes the place of one that did not deliver, and what words about the first still do.
contract EscrowReassignmentWordsTest is LapsedReservations {
    // The reserver's word

    function test_OnlyTheReserversWordAboutThisReplacement() public {
        reservedBy(0);
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        bytes memory good = signReassignment(reserverKey, AGREED, r);
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = signReassignment(reserverKey, AGREED, r);
        escrow = home;
        bytes[8] memory signatures = [
            bytes(""),
            foreign,
            malleated(good),
            signReassignment(attackerKey, AGREED, r),
            signReassignment(releaserKey, AGREED, r),
            signReassignment(reserverKey, keccak256("other quote"), r),
            signReservation(reserverKey, r),
            signAdmission(reserverKey, depositTerms(), r, address(token))
        ];
        for (uint256 i = 0; i < signatures.length; i++) {
            expectReserverRefused(r, signatures[i]);
        }
        uint256 chain = block.chainid;
        bytes memory word = nonDelivery();
        vm.chainId(chain + 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        reassign(r, good, word);
        vm.chainId(chain);
        reassign(r, good, word);
    }

    /// A signature over a reassignment names no settler first either.
    function test_AReassignmentIsNoReservation() public {
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory signature = signReassignment(reserverKey, bytes32(0), r);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        reserve(r, signature);
    }

    function test_NoFieldCanBeChanged() public {
        reservedBy(0);
        lapse();
        bytes memory signature = signReassignment(reserverKey, AGREED, nextReservation());
        for (uint256 field = 0; field < 4; field++) {
            GatewayEscrow.Reservation memory r = nextReservation();
            if (field == 0) r.quoteHash = keccak256("other quote");
            if (field == 1) r.settler = attacker;
            if (field == 2) r.sourceAmount += 1;
            if (field == 3) r.fulfillBy += 1;
            expectReserverRefused(r, signature);
        }
    }

    /// What brought a settler in brings it in once: not again at once, and not after yet another.
    function test_ASignatureServesOnce() public {
        reservedBy(0);
        lapse();
        GatewayEscrow.Escrow memory first = termsOf(PAYMENT);
        GatewayEscrow.Reservation memory r = nextReservation();
        r.fulfillBy = uint48(block.timestamp) + 10;
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        bytes memory word = nonDelivery();
        reassign(r, signature, word);
        bytes32 committed = escrow.recordOf(PAYMENT).commitment;
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.CommitmentMismatch.selector, committed, commitment(first))
        );
        escrow.reassign(first, r, signature, word);

        vm.warp(r.fulfillBy + 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.QuoteNotAnother.selector, NEXT));
        reassign(r, signature, word);
        GatewayEscrow.Reservation memory third = nextReservation();
        (third.quoteHash, third.fulfillBy) = (keccak256("third quote"), uint48(block.timestamp) + 10);
        reassign(third);
        vm.warp(third.fulfillBy + 1);
        expectReserverRefused(r, signature);
        r.fulfillBy = uint48(block.timestamp) + 10;
        expectReserverRefused(r, signature);
    }

    function test_ByAContractAsReserverAndAsReleaser() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = address(new ContractSigner(reserver));
        d.releaser = address(new ContractSigner(releaser));
        escrow = new GatewayEscrow(PERMIT2, d.reserver, guardian, PAYOUT_GAS);
        depositWitnessed(d, reservation(), address(token));
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        bytes memory byAnother = signReassignment(attackerKey, AGREED, r);
        bytes memory word = nonDelivery();
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, d.reserver));
        reassign(r, byAnother, word);
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        word = signNonDelivery(attackerKey, PAYMENT, AGREED);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, d.releaser));
        reassign(r, signature, word);
        reassign(r);
        assertEq(escrow.recordOf(PAYMENT).round, 2);
    }

    // The releaser's word

    function test_OnlyTheReleasersWordAboutTheReservedQuote() public {
        reservedBy(2);
        lapse();
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = nonDelivery();
        escrow = home;
        bytes[9] memory words = [
            bytes(""),
            foreign,
            malleated(nonDelivery()),
            signNonDelivery(attackerKey, PAYMENT, AGREED),
            signNonDelivery(reserverKey, PAYMENT, AGREED),
            signNonDelivery(releaserKey, PAYMENT, bytes32(0)),
            signNonDelivery(releaserKey, PAYMENT, NEXT),
            signNonDelivery(releaserKey, keccak256("pay_2"), AGREED),
            delivery()
        ];
        for (uint256 i = 0; i < words.length; i++) {
            expectReleaserRefused(words[i]);
        }
        reassign(nextReservation());
    }

    function testFuzz_ASetSaysItByItsThreshold(uint256 n, uint256 threshold, uint256 seed) public {
        n = bound(n, 1, MEMBERS_MAX);
        Verifiers memory set = verifiers(bound(threshold, 1, n), n);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = idOf(set);
        depositWitnessed(d, reservation(), address(token));
        lapse();
        bytes32 digest = nonDeliveryDigest(PAYMENT, AGREED);
        expectReleaserRefused(attest(set, digest, chosen(set.threshold - 1, n, seed)));
        expectReleaserRefused(nonDelivery());
        expectReleaserRefused(sign(set.keys[0], digest));
        uint256 signers = chosen(set.threshold, n, seed);
        expectReleaserRefused(attest(set, deliveryDigest(PAYMENT, AGREED, settler), signers));
        expectReleaserRefused(attest(set, nonDeliveryDigest(PAYMENT, NEXT), signers));
        GatewayEscrow.Reservation memory r = nextReservation();
        reassign(r, signReassignment(reserverKey, AGREED, r), attest(set, digest, signers));
        digest = deliveryDigest(PAYMENT, NEXT, nextSettler);
        escrow.release(termsOf(PAYMENT), attest(set, digest, signers));
        assertEq(token.balanceOf(nextSettler), NEXT_QUOTED);
    }

    // Words about the first

    function test_WordsAboutTheFirstEndNothing() public {
        reservedBy(0);
        lapse();
        GatewayEscrow.Escrow memory first = termsOf(PAYMENT);
        reassign(nextReservation());
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser);
        bytes memory word = nonDelivery();
        vm.expectRevert(refusal);
        escrow.cancel(e, word);
        bytes[3] memory deliveries = [
            delivery(),
            signDelivery(releaserKey, PAYMENT, NEXT, settler),
            signDelivery(releaserKey, PAYMENT, AGREED, nextSettler)
        ];
        for (uint256 i = 0; i < deliveries.length; i++) {
            vm.expectRevert(refusal);
            escrow.release(e, deliveries[i]);
        }
        refusal = abi.encodeWithSelector(GatewayEscrow.CommitmentMismatch.selector, commitment(e), commitment(first));
        vm.expectRevert(refusal);
        escrow.cancel(first, word);
        vm.expectRevert(refusal);
        escrow.release(first, deliveries[0]);
        vm.warp(depositTerms().refundAfter);
        vm.expectRevert(refusal);
        escrow.refund(first);
        escrow.refund(e);
    }

    // Helpers

    function expectReserverRefused(GatewayEscrow.Reservation memory r, bytes memory signature) private {
        bytes memory word = signNonDelivery(releaserKey, PAYMENT, termsOf(PAYMENT).quoteHash);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        reassign(r, signature, word);
    }

    function expectReleaserRefused(bytes memory word) private {
        GatewayEscrow.Reservation memory r = nextReservation();
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, e.deposit.releaser)
        );
        escrow.reassign(e, r, signature, word);
    }
}
