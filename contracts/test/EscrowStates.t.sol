// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";

/// @notice What happens to the money once it is in: reservation, release, cancellation, refund.
contract EscrowStatesTest is EscrowFixture {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");

    // reserve

    function test_ReservationOfADeposit() public {
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory signature = signReservation(reserverKey, r);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(ID, QUOTE, settler, QUOTED, r.fulfillBy);
        vm.prank(stranger);
        reserve(r, signature);

        GatewayEscrow.Record memory e = escrow.recordOf(ID);
        assertEq(uint8(e.state), uint8(GatewayEscrow.State.Reserved));
        assertEq(e.round, 1);
        assertEq(e.commitment, commitment(asReserved(asDeposited(depositTerms(), address(token), CAP), r)));
    }

    function test_ReservationOfAnAgreedQuoteOnly() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = QUOTE;
        depositByPayer(d, address(token));
        GatewayEscrow.Reservation memory r = reservation();
        r.quoteHash = keccak256("other quote");
        expectReserveRefused(r, abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, QUOTE, r.quoteHash));
        r = reservation();
        reserve(r, signReservation(reserverKey, r));
    }

    function test_ReservationNeedsADepositWithoutSettler() public {
        expectReserveRefused(reservation(), notAllowed(GatewayEscrow.State.None));
        reservedByPayer(address(token));
        expectReserveRefused(reservation(), notAllowed(GatewayEscrow.State.Reserved));
        escrow.release(termsOf(ID), delivery());
        expectReserveRefused(reservation(), notAllowed(GatewayEscrow.State.Released));
    }

    function test_ReservationWindowEdges() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        depositByPayer(d, address(token));
        vm.warp(d.reserveDeadline + 1);
        expectReserveRefused(
            reservation(), abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, d.reserveDeadline)
        );
        vm.warp(d.reserveDeadline);
        GatewayEscrow.Reservation memory r = reservation();
        r.fulfillBy = d.reserveDeadline;
        expectReserveRefused(r, abi.encodeWithSelector(GatewayEscrow.FulfillByPassed.selector, r.fulfillBy));
        r.fulfillBy = d.fulfillmentDeadline + 1;
        expectReserveRefused(
            r, abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, r.fulfillBy, d.fulfillmentDeadline)
        );
        r.fulfillBy = d.reserveDeadline + 1;
        reserve(r, signReservation(reserverKey, r));
    }

    function test_ReservationUpToTheDeposit() public {
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = CAP + 1;
        expectReserveRefused(r, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP));
        r.sourceAmount = 0;
        expectReserveRefused(r, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
        r = reservation();
        r.settler = address(0);
        expectReserveRefused(r, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, address(0)));
        r = reservation();
        r.sourceAmount = CAP;
        reserve(r, signReservation(reserverKey, r));
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), CAP, 0);
    }

    function test_OnlyTheReserversWordReserves() public {
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = signReservation(reserverKey, r);
        escrow = home;
        bytes[4] memory signatures = [
            bytes(""),
            foreign,
            signReservation(attackerKey, r),
            signAdmission(reserverKey, depositTerms(), r, address(token))
        ];
        for (uint256 i = 0; i < signatures.length; i++) {
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
            reserve(r, signatures[i]);
        }
        reserve(r, signReservation(reserverKey, r));
        assertState(GatewayEscrow.State.Reserved);
    }

    function test_NoReservationFieldCanBeChanged() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        depositByPayer(d, address(token));
        d.paymentId = keccak256("pay_2");
        depositByPayer(d, address(token));
        bytes memory signature = signReservation(reserverKey, reservation());
        for (uint256 field = 0; field < 5; field++) {
            GatewayEscrow.Reservation memory r = reservation();
            if (field == 0) r.paymentId = d.paymentId;
            if (field == 1) r.quoteHash = keccak256("other quote");
            if (field == 2) r.settler = attacker;
            if (field == 3) r.sourceAmount += 1;
            if (field == 4) r.fulfillBy += 1;
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
            reserve(r, signature);
        }
    }

    function test_ReservationByAContractAsReserver() public {
        address account = address(new ContractSigner(reserver));
        escrow = new GatewayEscrow(PERMIT2, account, guardian, PAYOUT_GAS);
        vm.prank(payer);
        token.approve(address(escrow), CAP);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = account;
        depositByPayer(d, address(token));
        bytes memory byAnother = signReservation(attackerKey, reservation());
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, account));
        reserve(reservation(), byAnother);
        reserve(reservation(), signReservation(reserverKey, reservation()));
        assertState(GatewayEscrow.State.Reserved);
    }

    // release

    function test_ReleasePaysTheSettlerWhateverTheCaller() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(ID, QUOTE, settler, QUOTED, 0);
        vm.prank(stranger);
        escrow.release(termsOf(ID), attestation);
        assertState(GatewayEscrow.State.Released);
        assertPaid(address(token), QUOTED, 0);
    }

    function test_ReleaseReturnsTheRemainderToThePayer() public {
        reservedByPayer(address(token));
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(ID, QUOTE, settler, QUOTED, CAP - QUOTED);
        escrow.release(termsOf(ID), attestation);
        assertPaid(address(token), QUOTED, 0);
    }

    function test_ReleaseUntilTheSecondBeforeRefund() public {
        reservedByPayer(address(token));
        uint48 refundAfter = depositTerms().refundAfter;
        vm.warp(refundAfter);
        expectReleaseRefused(
            delivery(), abi.encodeWithSelector(GatewayEscrow.ReleaseWindowClosed.selector, refundAfter)
        );
        vm.warp(refundAfter - 1);
        escrow.release(termsOf(ID), delivery());
        assertState(GatewayEscrow.State.Released);
    }

    function test_ReleaseNeedsAReservation() public {
        expectReleaseRefused(delivery(), notAllowed(GatewayEscrow.State.None));
        depositByPayer(depositTerms(), address(token));
        bytes memory early = signDelivery(releaserKey, ID, bytes32(0), address(0));
        expectReleaseRefused(early, notAllowed(GatewayEscrow.State.Deposited));
    }

    function test_ReleaseNeedsTheReleasersWordOnThisDelivery() public {
        reservedByPayer(address(token));
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser);
        expectReleaseRefused(signDelivery(attackerKey, ID, QUOTE, settler), refusal);
        expectReleaseRefused(signDelivery(releaserKey, keccak256("pay_2"), QUOTE, settler), refusal);
        expectReleaseRefused(signDelivery(releaserKey, ID, keccak256("other quote"), settler), refusal);
        expectReleaseRefused(signDelivery(releaserKey, ID, QUOTE, attacker), refusal);
        expectReleaseRefused(nonDelivery(), refusal);
        expectReleaseRefused("", refusal);

        bytes memory good = delivery();
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = delivery();
        escrow = home;
        expectReleaseRefused(foreign, refusal);
        vm.chainId(block.chainid + 1);
        expectReleaseRefused(good, refusal);
    }

    /// The other of the two signatures that fit one message (high s) is refused.
    function test_ReleaseRefusesAMalleatedSignature() public {
        reservedByPayer(address(token));
        bytes memory good = delivery();
        (bytes32 r, bytes32 s) = abi.decode(good, (bytes32, bytes32));
        uint256 n = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        uint8 v = uint8(good[64]) == 27 ? 28 : 27;
        expectReleaseRefused(
            abi.encodePacked(r, bytes32(n - uint256(s)), v),
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser)
        );
    }

    function test_ReleaserMayBeAContract() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = address(new ContractSigner(releaser));
        depositWitnessed(d, reservation(), address(token));
        expectReleaseRefused(
            signDelivery(attackerKey, ID, QUOTE, settler),
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, d.releaser)
        );
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    /// Code at the account of a key (EIP-7702) takes nothing from the key, and speaks for the account besides.
    function test_AKeyCountsWhateverCodeItsAccountHas() public {
        reservedByPayer(address(token));
        vm.etch(releaser, address(new ContractSigner(attacker)).code);
        expectReleaseRefused(
            signDelivery(payerKey, ID, QUOTE, settler),
            abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser)
        );
        uint256 snapshot = vm.snapshotState();
        escrow.release(termsOf(ID), signDelivery(attackerKey, ID, QUOTE, settler));
        assertPaid(address(token), QUOTED, 0);
        vm.revertToState(snapshot);
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    // cancel

    function test_CancelReturnsTheDepositBeforeTheAward() public {
        depositByPayer(depositTerms(), address(token));
        bytes memory word = signNonDelivery(releaserKey, ID, bytes32(0));
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(ID, bytes32(0), payer, CAP);
        vm.prank(stranger);
        escrow.cancel(termsOf(ID), word);
        assertState(GatewayEscrow.State.Refunded);
        assertPaid(address(token), 0, 0);
    }

    function test_CancelReturnsAReservedDeposit() public {
        reservedByPayer(address(token));
        bytes memory word = nonDelivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(ID, QUOTE, payer, CAP);
        escrow.cancel(termsOf(ID), word);
        assertState(GatewayEscrow.State.Refunded);
        assertPaid(address(token), 0, 0);
    }

    function test_CancelUntilTheSecondBeforeRefund() public {
        reservedByPayer(address(token));
        uint48 refundAfter = depositTerms().refundAfter;
        vm.warp(refundAfter);
        expectCancelRefused(
            nonDelivery(), abi.encodeWithSelector(GatewayEscrow.ReleaseWindowClosed.selector, refundAfter)
        );
        vm.warp(refundAfter - 1);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertState(GatewayEscrow.State.Refunded);
    }

    function test_CancelNeedsTheReleasersWordOnThisQuote() public {
        depositByPayer(depositTerms(), address(token));
        bytes memory beforeAward = signNonDelivery(releaserKey, ID, bytes32(0));
        reserve(reservation(), signReservation(reserverKey, reservation()));
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReleaserSignatureInvalid.selector, releaser);
        expectCancelRefused(beforeAward, refusal);
        expectCancelRefused(signNonDelivery(attackerKey, ID, QUOTE), refusal);
        expectCancelRefused(signNonDelivery(releaserKey, keccak256("pay_2"), QUOTE), refusal);
        expectCancelRefused(delivery(), refusal);
        escrow.cancel(termsOf(ID), nonDelivery());
    }

    // refund

    function test_RefundByAStrangerGoesToThePayer() public {
        reservedByPayer(address(token));
        vm.warp(depositTerms().refundAfter);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(ID, QUOTE, payer, CAP);
        vm.prank(stranger);
        escrow.refund(termsOf(ID));
        assertState(GatewayEscrow.State.Refunded);
        assertEq(token.balanceOf(stranger), 0);
        assertPaid(address(token), 0, 0);
    }

    function test_RefundOfADepositThatWasNeverReserved() public {
        depositByPayer(depositTerms(), address(token));
        vm.warp(depositTerms().refundAfter + 365 days);
        escrow.refund(termsOf(ID));
        assertPaid(address(token), 0, 0);
    }

    function test_RefundNotBeforeItsTime() public {
        reservedByPayer(address(token));
        uint48 refundAfter = depositTerms().refundAfter;
        vm.warp(refundAfter - 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.RefundWindowNotOpen.selector, refundAfter));
        escrow.refund(termsOf(ID));
        vm.warp(refundAfter);
        escrow.refund(termsOf(ID));
    }

    // The terms that callers bring

    /// Whoever knows the payment's id alone gets the payer its money back: the terms stand in the events.
    function test_AStrangerFindsTheTermsInTheEvents() public {
        vm.recordLogs();
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Escrow memory e = termsInEvents();
        assertEq(keccak256(abi.encode(e)), escrow.recordOf(ID).commitment, "deposited");

        reserve(reservation(), signReservation(reserverKey, reservation()));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        readReserved(logs[logs.length - 1], e);
        assertEq(keccak256(abi.encode(e)), escrow.recordOf(ID).commitment, "reserved");
        vm.warp(e.deposit.refundAfter);
        vm.prank(stranger);
        escrow.refund(e);
        assertPaid(address(token), 0, 0);
    }

    function test_AStrangerFindsTheTermsOfADepositBySignature() public {
        for (uint256 way = 0; way < 2; way++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            GatewayEscrow.Reservation memory r = reservation();
            d.paymentId = r.paymentId = keccak256(abi.encode(way));
            d.quoteHash = way == 0 ? bytes32(0) : r.quoteHash;
            vm.recordLogs();
            if (way == 0) sendWitnessed(d, r, address(token));
            else sendPermitted(d, r, address(token));
            GatewayEscrow.Escrow memory e = termsInEvents();
            assertEq(e.deposit.quoteHash, d.quoteHash);
            assertEq(keccak256(abi.encode(e)), escrow.recordOf(d.paymentId).commitment);
            assertEq(escrow.commitmentOf(e), commitment(e));
        }
    }

    /// Every word of the terms changed in turn, and dirt beyond a word's type: no call takes them.
    function test_NoOtherTermsAreTaken() public {
        reservedByPayer(address(token));
        GatewayEscrow.Escrow memory e = termsOf(ID);
        for (uint256 field = 1; field < 15; field++) {
            for (uint256 bit = 0; bit < 256; bit += 51) {
                expectOtherTermsRefused(abi.encode(e), field, bit, false);
            }
        }
        e = asDeposited(e.deposit, e.token, e.deposited);
        e.deposit.paymentId = keccak256("pay_2");
        depositByPayer(e.deposit, address(token));
        for (uint256 field = 1; field < 15; field++) {
            for (uint256 bit = 0; bit < 256; bit += 51) {
                expectOtherTermsRefused(abi.encode(e), field, bit, true);
            }
        }
    }

    /// The terms before the reservation end nothing after it: the settler's money would go back.
    function test_TheTermsBeforeTheReservationAreOver() public {
        depositByPayer(depositTerms(), address(token));
        GatewayEscrow.Escrow memory old = termsOf(ID);
        reserve(reservation(), signReservation(reserverKey, reservation()));
        bytes memory word = signNonDelivery(releaserKey, ID, bytes32(0));
        bytes memory refusal = abi.encodeWithSelector(
            GatewayEscrow.CommitmentMismatch.selector, commitment(termsOf(ID)), commitment(old)
        );
        vm.expectRevert(refusal);
        escrow.cancel(old, word);
        vm.warp(depositTerms().refundAfter);
        vm.expectRevert(refusal);
        escrow.refund(old);
    }

    /// A payment's terms are no other payment's, not even of one that differs in nothing but its id.
    function test_TheTermsOfAnotherPaymentAreRefused() public {
        reservedByPayer(address(token));
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = keccak256("pay_2");
        depositByPayer(d, address(token));
        bytes memory signature = signReservation(reserverKey, r);
        GatewayEscrow.Escrow memory e = termsOf(ID);
        vm.expectRevert(notAllowed(GatewayEscrow.State.Reserved));
        escrow.reserve(e, r, signature);
        e = termsOf(d.paymentId);
        signature = signReservation(reserverKey, reservation());
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, d.paymentId, ID));
        escrow.reserve(e, reservation(), signature);
    }

    function expectOtherTermsRefused(bytes memory encoded, uint256 field, uint256 bit, bool open) private {
        assembly ("memory-safe") {
            let at := add(add(encoded, 0x20), shl(5, field))
            mstore(at, xor(mload(at), shl(bit, 1)))
        }
        bytes32 given = keccak256(encoded);
        bytes32 id = abi.decode(encoded, (bytes32));
        GatewayEscrow.Reservation memory r = reservation();
        r.paymentId = id;
        bytes[] memory calls = new bytes[](open ? 3 : 4);
        calls[0] = bytes.concat(escrow.cancel.selector, encoded, abi.encode(16 * 32, 0));
        calls[1] = bytes.concat(escrow.refund.selector, encoded);
        if (open) {
            calls[2] = bytes.concat(escrow.reserve.selector, encoded, abi.encode(r), abi.encode(21 * 32, 0));
        } else {
            calls[2] = bytes.concat(escrow.release.selector, encoded, abi.encode(16 * 32, 0));
            calls[3] = bytes.concat(escrow.reassign.selector, encoded, abi.encode(r), abi.encode(22 * 32, 23 * 32, 0, 0));
        }
        for (uint256 i = 0; i < calls.length; i++) {
            (bool done, bytes memory why) = address(escrow).call(calls[i]);
            assertFalse(done);
            assertEq(
                why,
                abi.encodeWithSelector(
                    GatewayEscrow.CommitmentMismatch.selector, escrow.recordOf(id).commitment, given
                )
            );
        }
        assembly ("memory-safe") {
            let at := add(add(encoded, 0x20), shl(5, field))
            mstore(at, xor(mload(at), shl(bit, 1)))
        }
    }

    function termsInEvents() private returns (GatewayEscrow.Escrow memory e) {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; i++) {
            if (logs[i].emitter != address(escrow)) continue;
            if (logs[i].topics[0] == GatewayEscrow.Deposited.selector) {
                (e.deposit, e.token, e.deposited) =
                    abi.decode(logs[i].data, (GatewayEscrow.GatewayDeposit, address, uint256));
                e.quoteHash = logs[i].topics[2];
            } else {
                readReserved(logs[i], e);
            }
        }
    }

    function readReserved(Vm.Log memory log, GatewayEscrow.Escrow memory e) private pure {
        assertEq(log.topics[0], GatewayEscrow.Reserved.selector);
        e.quoteHash = log.topics[2];
        e.settler = address(uint160(uint256(log.topics[3])));
        (e.sourceAmount, e.fulfillBy) = abi.decode(log.data, (uint256, uint48));
    }

    // The end is the end

    function test_ReleasedIsFinal() public {
        reservedByPayer(address(token));
        escrow.release(termsOf(ID), delivery());
        expectEnded(GatewayEscrow.State.Released);
    }

    function test_RefundedIsFinal() public {
        reservedByPayer(address(token));
        escrow.cancel(termsOf(ID), nonDelivery());
        expectEnded(GatewayEscrow.State.Refunded);
    }

    function test_NothingCanBeDoneWithoutADeposit() public {
        expectEnded(GatewayEscrow.State.None);
    }

    function expectEnded(GatewayEscrow.State end) private {
        expectReleaseRefused(delivery(), notAllowed(end));
        expectCancelRefused(nonDelivery(), notAllowed(end));
        expectReserveRefused(reservation(), notAllowed(end));
        vm.warp(depositTerms().refundAfter);
        vm.expectRevert(notAllowed(end));
        escrow.refund(termsOf(ID));
        assertState(end);
    }

    /// At every second exactly one of release and refund is possible.
    function testFuzz_ReleaseAndRefundNeverOverlap(uint48 time) public {
        reservedByPayer(address(token));
        time = uint48(bound(time, START, type(uint48).max));
        vm.warp(time);
        bytes memory attestation = delivery();
        uint256 snapshot = vm.snapshotState();
        (bool released,) = address(escrow).call(abi.encodeCall(escrow.release, (termsOf(ID), attestation)));
        vm.revertToState(snapshot);
        (bool refunded,) = address(escrow).call(abi.encodeCall(escrow.refund, (termsOf(ID))));
        assertEq(released, time < depositTerms().refundAfter);
        assertEq(refunded, !released);
    }

    function notAllowed(GatewayEscrow.State actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.StateNotAllowed.selector, actual);
    }

    function expectReserveRefused(GatewayEscrow.Reservation memory r, bytes memory refusal) private {
        bytes memory signature = signReservation(reserverKey, r);
        vm.expectRevert(refusal);
        reserve(r, signature);
    }

    function expectReleaseRefused(bytes memory attestation, bytes memory refusal) private {
        vm.expectRevert(refusal);
        escrow.release(termsOf(ID), attestation);
    }

    function expectCancelRefused(bytes memory word, bytes memory refusal) private {
        vm.expectRevert(refusal);
        escrow.cancel(termsOf(ID), word);
    }
}
