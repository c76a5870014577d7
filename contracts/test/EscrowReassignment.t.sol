// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {LapsedReservations} from "./support/LapsedReservations.sol";

/// @notice A settler that did not deliver in time, and the one that takes its place: when, for how much, and what becomes of the
/// money. With whose words is in `EscrowReassignmentWords.t.sol`.
contract EscrowReassignmentTest is LapsedReservations {
    // The next settler delivers

    function test_TheNextSettlerIsPaidAndTheRestGoesToThePayer() public {
        for (uint256 way = 0; way < WAYS; way++) {
            uint256 snapshot = vm.snapshotState();
            reservedBy(way);
            lapse();
            reassign(nextReservation());
            vm.prank(stranger);
            escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, NEXT, nextSettler));
            assertState(GatewayEscrow.State.Released);
            assertEq(token.balanceOf(nextSettler), NEXT_QUOTED);
            assertEq(token.balanceOf(payer), 1_000_000e6 - NEXT_QUOTED, "the rest");
            assertEq(token.balanceOf(settler), 0);
            assertEq(token.balanceOf(address(escrow)), 0);
            assertEq(escrow.owedIn(address(token)), 0);
            vm.revertToState(snapshot);
        }
    }

    function test_WhatIsOnRecordAfterwards() public {
        vm.roll(1_000);
        reservedBy(0);
        lapse();
        vm.roll(1_020);
        GatewayEscrow.Escrow memory before = termsOf(PAYMENT);
        GatewayEscrow.Reservation memory r = nextReservation();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reassigned(PAYMENT, AGREED, NEXT);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(PAYMENT, NEXT, nextSettler, NEXT_QUOTED, r.fulfillBy);
        reassign(r);
        GatewayEscrow.Record memory record = escrow.recordOf(PAYMENT);
        assertEq(uint8(record.state), uint8(GatewayEscrow.State.Reserved));
        assertEq(record.round, 2);
        assertEq(record.depositedAt, 1_000);
        assertEq(record.reservedAt, 1_020);
        assertEq(record.endedAt, 0);
        assertEq(record.commitment, commitment(asReserved(before, r)));
    }

    /// No token is asked and nothing that is owed changes: all that happens are two events of the escrow's.
    function test_NoMoneyMoves() public {
        reservedBy(2);
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        bytes memory word = nonDelivery();
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        vm.expectCall(address(token), "", 0);
        vm.recordLogs();
        escrow.reassign(e, r, signature, word);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 2);
        assertEq(logs[0].topics[0], GatewayEscrow.Reassigned.selector);
        assertEq(logs[1].topics[0], GatewayEscrow.Reserved.selector);
    }

    function test_TheBooksStayAsTheyAre() public {
        for (uint256 way = 0; way < WAYS; way++) {
            uint256 snapshot = vm.snapshotState();
            uint256 deposited = reservedBy(way);
            lapse();
            reassign(nextReservation());
            assertEq(escrow.owedIn(address(token)), deposited);
            assertPaid(address(token), 0, deposited);
            assertEq(escrow.claimable(settler, address(token)), 0);
            vm.revertToState(snapshot);
        }
    }

    /// Whoever knows the payment's id alone finds its terms: the deposit's event, and the last reservation's.
    function test_AStrangerFindsTheTermsInTheEvents() public {
        vm.recordLogs();
        reservedBy(2);
        lapse();
        reassign(nextReservation());
        Vm.Log[] memory logs = vm.getRecordedLogs();
        GatewayEscrow.Escrow memory e;
        for (uint256 i = 0; i < logs.length; i++) {
            if (logs[i].emitter != address(escrow)) continue;
            if (logs[i].topics[0] == GatewayEscrow.Deposited.selector) {
                (e.deposit, e.token, e.deposited) =
                    abi.decode(logs[i].data, (GatewayEscrow.GatewayDeposit, address, uint256));
            }
            if (logs[i].topics[0] != GatewayEscrow.Reserved.selector) continue;
            e.quoteHash = logs[i].topics[2];
            e.settler = address(uint160(uint256(logs[i].topics[3])));
            (e.sourceAmount, e.fulfillBy) = abi.decode(logs[i].data, (uint256, uint48));
        }
        assertEq(keccak256(abi.encode(e)), escrow.recordOf(PAYMENT).commitment);
        vm.warp(e.deposit.refundAfter);
        vm.prank(stranger);
        escrow.refund(e);
        assertPaid(address(token), 0, 0);
    }

    // When

    function test_NotWhileTheSettlerMayDeliver() public {
        reservedBy(0);
        uint48 fulfillBy = reservation().fulfillBy;
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReservationNotOver.selector, fulfillBy);
        expectRefused(nextReservation(), refusal);
        vm.warp(fulfillBy);
        expectRefused(nextReservation(), refusal);
        vm.warp(fulfillBy + 1);
        reassign(nextReservation());
    }

    /// The time for naming the first settler is long over then.
    function test_TheReserveDeadlineDoesNotCount() public {
        reservedBy(0);
        vm.warp(depositTerms().fulfillmentDeadline - 1);
        assertGt(block.timestamp, depositTerms().reserveDeadline);
        GatewayEscrow.Reservation memory r = nextReservation();
        r.fulfillBy = depositTerms().fulfillmentDeadline;
        reassign(r);
        assertEq(escrow.recordOf(PAYMENT).round, 2);
    }

    function test_TheNextSettlerHasTimeWithinThePayersWindow() public {
        reservedBy(0);
        lapse();
        uint48 end = depositTerms().fulfillmentDeadline;
        GatewayEscrow.Reservation memory r = nextReservation();
        r.fulfillBy = uint48(block.timestamp);
        expectRefused(r, abi.encodeWithSelector(GatewayEscrow.FulfillByPassed.selector, r.fulfillBy));
        r.fulfillBy = end + 1;
        expectRefused(r, abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, end + 1, end));
        uint48[4] memory times = [end, end + 1, depositTerms().refundAfter, depositTerms().refundAfter + 1];
        for (uint256 i = 0; i < times.length; i++) {
            vm.warp(times[i]);
            r.fulfillBy = end;
            expectRefused(r, abi.encodeWithSelector(GatewayEscrow.FulfillByPassed.selector, end));
            r.fulfillBy = times[i] + 1;
            expectRefused(r, abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, r.fulfillBy, end));
        }
        vm.warp(reservation().fulfillBy + 1);
        r.fulfillBy = uint48(block.timestamp) + 1;
        reassign(r);
    }

    /// Possible at just those seconds that lie behind the reservation and before what the next settler promises, within the window.
    function testFuzz_ExactlyBetweenTheTwoPromises(uint48 time, uint48 fulfillBy) public {
        reservedBy(1);
        time = uint48(bound(time, START, depositTerms().refundAfter + 60));
        GatewayEscrow.Reservation memory r = nextReservation();
        r.fulfillBy = fulfillBy = uint48(bound(fulfillBy, START, depositTerms().refundAfter + 60));
        vm.warp(time);
        bool can = time > reservation().fulfillBy && fulfillBy > time && fulfillBy <= depositTerms().fulfillmentDeadline;
        assertEq(tried(r, signReassignment(reserverKey, AGREED, r), nonDelivery()), can);
    }

    function test_OnlyAReservedPayment() public {
        expectRefused(nextReservation(), notAllowed(GatewayEscrow.State.None));
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        depositByPayer(d, address(token));
        lapse();
        expectRefused(nextReservation(), notAllowed(GatewayEscrow.State.Deposited));
        vm.warp(START);
        reserve(reservation(), signReservation(reserverKey, reservation()));
        lapse();
        uint256 snapshot = vm.snapshotState();
        escrow.release(termsOf(PAYMENT), delivery());
        expectRefused(nextReservation(), notAllowed(GatewayEscrow.State.Released));
        vm.revertToState(snapshot);
        escrow.cancel(termsOf(PAYMENT), nonDelivery());
        expectRefused(nextReservation(), notAllowed(GatewayEscrow.State.Refunded));
    }

    // What

    function test_AQuoteThatThePayerNamedIsNotReplaced() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = AGREED;
        depositWitnessed(d, reservation(), address(token));
        lapse();
        expectRefused(
            nextReservation(), abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, AGREED, NEXT)
        );
        GatewayEscrow.Reservation memory same = nextReservation();
        same.quoteHash = AGREED;
        expectRefused(same, abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, AGREED, AGREED));
        escrow.cancel(termsOf(PAYMENT), nonDelivery());
        assertPaid(address(token), 0, 0);
    }

    function test_TheSameQuoteIsNotReservedAgain() public {
        reservedBy(0);
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        r.quoteHash = AGREED;
        expectRefused(r, abi.encodeWithSelector(GatewayEscrow.QuoteNotAnother.selector, AGREED));
    }

    function test_NoMoreThanWasDeposited() public {
        for (uint256 way = 0; way < WAYS; way++) {
            uint256 snapshot = vm.snapshotState();
            uint256 deposited = reservedBy(way);
            lapse();
            GatewayEscrow.Reservation memory r = nextReservation();
            r.sourceAmount = deposited + 1;
            expectRefused(r, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, deposited + 1, deposited));
            r.sourceAmount = 0;
            expectRefused(r, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
            r.sourceAmount = deposited;
            reassign(r);
            escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, NEXT, nextSettler));
            assertEq(token.balanceOf(nextSettler), deposited);
            vm.revertToState(snapshot);
        }
    }

    function test_ToSomebodyWhoCanBePaid() public {
        reservedBy(0);
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        for (uint256 i = 0; i < 2; i++) {
            r.settler = i == 0 ? address(0) : address(escrow);
            expectRefused(r, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, r.settler));
        }
    }

    function test_OfThisPaymentOnItsTerms() public {
        reservedBy(0);
        GatewayEscrow.Escrow memory e = termsOf(PAYMENT);
        lapse();
        GatewayEscrow.Reservation memory r = nextReservation();
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        bytes memory word = nonDelivery();
        GatewayEscrow.Escrow memory other = asDeposited(e.deposit, e.token, e.deposited);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.CommitmentMismatch.selector, commitment(e), commitment(other))
        );
        escrow.reassign(other, r, signature, word);

        r.paymentId = keccak256("pay_2");
        signature = signReassignment(reserverKey, AGREED, r);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, PAYMENT, r.paymentId));
        escrow.reassign(e, r, signature, word);
    }

    // Afterwards

    function test_ItIsCancelledByTheWordAboutTheNext() public {
        uint256 deposited = reservedBy(2);
        lapse();
        reassign(nextReservation());
        bytes memory word = signNonDelivery(releaserKey, PAYMENT, NEXT);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(PAYMENT, NEXT, payer, deposited);
        escrow.cancel(termsOf(PAYMENT), word);
        assertState(GatewayEscrow.State.Refunded);
        assertPaid(address(token), 0, 0);
        assertEq(token.balanceOf(nextSettler), 0);
    }

    function test_ItIsRefundedInTimeAsEver() public {
        reservedBy(0);
        lapse();
        reassign(nextReservation());
        uint48 refundAfter = depositTerms().refundAfter;
        vm.warp(refundAfter - 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.RefundWindowNotOpen.selector, refundAfter));
        escrow.refund(termsOf(PAYMENT));
        vm.warp(refundAfter);
        bytes memory late = signDelivery(releaserKey, PAYMENT, NEXT, nextSettler);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReleaseWindowClosed.selector, refundAfter));
        escrow.release(termsOf(PAYMENT), late);
        escrow.refund(termsOf(PAYMENT));
        assertPaid(address(token), 0, 0);
    }

    function test_SeveralInTurn() public {
        uint256 deposited = reservedBy(0);
        GatewayEscrow.Reservation memory r = reservation();
        for (uint256 round = 2; round <= 7; round++) {
            vm.warp(r.fulfillBy + 1);
            r = nextReservation();
            r.quoteHash = keccak256(abi.encode(round));
            r.settler = address(uint160(0x5e77 + round));
            r.sourceAmount = deposited - round;
            r.fulfillBy = uint48(block.timestamp) + 9;
            reassign(r);
            assertEq(escrow.recordOf(PAYMENT).round, round);
            assertEq(escrow.owedIn(address(token)), deposited);
        }
        escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, r.quoteHash, r.settler));
        assertEq(token.balanceOf(r.settler), deposited - 7);
        assertEq(token.balanceOf(payer), 1_000_000e6 - deposited + 7);
        assertEq(token.balanceOf(address(escrow)), 0);
    }

    /// The number of reservations is kept in a byte. When it is full the payment ends as ever.
    function test_NoMoreThan255Reservations() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        (d.fulfillmentDeadline, d.refundAfter) = (START + 1_000, START + 2_000);
        GatewayEscrow.Reservation memory r = reservation();
        r.fulfillBy = START + 1;
        depositWitnessed(d, r, address(token));
        for (uint256 round = 2; round <= 255; round++) {
            vm.warp(r.fulfillBy + 1);
            r.quoteHash = keccak256(abi.encode(round));
            r.fulfillBy = uint48(block.timestamp) + 1;
            reassign(r);
        }
        assertEq(escrow.recordOf(PAYMENT).round, 255);
        vm.warp(r.fulfillBy + 1);
        GatewayEscrow.Reservation memory more = nextReservation();
        more.fulfillBy = uint48(block.timestamp) + 1;
        bytes memory signature = signReassignment(reserverKey, r.quoteHash, more);
        bytes memory word = signNonDelivery(releaserKey, PAYMENT, r.quoteHash);
        vm.expectRevert(abi.encodeWithSignature("Panic(uint256)", 0x11));
        reassign(more, signature, word);
        escrow.cancel(termsOf(PAYMENT), word);
        assertPaid(address(token), 0, 0);
    }

    /// Whatever the two ask, and however it ends: all that was deposited goes to the last settler and the payer.
    function testFuzz_WhatComesOutIsWhatWentIn(uint256 way, uint256 asked, uint256 turns, bool delivered) public {
        uint256 deposited = reservedBy(way % WAYS);
        GatewayEscrow.Reservation memory r = reservation();
        turns = bound(turns, 1, 5);
        for (uint256 turn = 1; turn <= turns; turn++) {
            vm.warp(r.fulfillBy + 1);
            r = nextReservation();
            r.quoteHash = keccak256(abi.encode(turn));
            r.sourceAmount = bound(uint256(keccak256(abi.encode(asked, turn))), 1, deposited);
            r.fulfillBy = uint48(block.timestamp) + 20;
            reassign(r);
        }
        if (delivered) escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, r.quoteHash, nextSettler));
        else escrow.cancel(termsOf(PAYMENT), signNonDelivery(releaserKey, PAYMENT, r.quoteHash));
        uint256 paid = delivered ? r.sourceAmount : 0;
        assertEq(token.balanceOf(nextSettler), paid);
        assertEq(token.balanceOf(payer), 1_000_000e6 - paid);
        assertEq(token.balanceOf(address(escrow)), 0);
        assertEq(escrow.owedIn(address(token)), 0);
    }

    // Helpers

    function notAllowed(GatewayEscrow.State actual) private pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.StateNotAllowed.selector, actual);
    }

    function tried(GatewayEscrow.Reservation memory r, bytes memory signature, bytes memory word)
        private
        returns (bool done)
    {
        (done,) = address(escrow).call(abi.encodeCall(escrow.reassign, (termsOf(PAYMENT), r, signature, word)));
    }

    /// Refused with both signatures right.
    function expectRefused(GatewayEscrow.Reservation memory r, bytes memory refusal) private {
        bytes memory signature = signReassignment(reserverKey, AGREED, r);
        bytes memory word = nonDelivery();
        vm.expectRevert(refusal);
        reassign(r, signature, word);
    }
}
