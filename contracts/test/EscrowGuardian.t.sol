// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";

/// @notice What the guardian can do, alone and with the reserver, and what a thief of either key cannot.
contract EscrowGuardianTest is EscrowFixture {
    bytes32 private constant ID = keccak256("pay_1");

    address private next;
    uint256 private nextKey;

    function setUp() public override {
        super.setUp();
        (next, nextKey) = makeAddrAndKey("next reserver");
    }

    function propose(address wanted) private {
        vm.prank(guardian);
        escrow.proposeReserver(wanted);
    }

    function install() private {
        propose(next);
        vm.warp(block.timestamp + escrow.RESERVER_DELAY());
        vm.prank(guardian);
        escrow.installReserver();
    }

    /// A deposit whose windows begin now.
    function termsFromNow(bytes32 id, address reserver_)
        private
        view
        returns (GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r)
    {
        d = depositTerms();
        r = reservation();
        d.paymentId = r.paymentId = id;
        d.reserver = reserver_;
        uint48 now_ = uint48(block.timestamp);
        (d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter) = (now_ + 60, now_ + 600, now_ + 1_200);
        r.fulfillBy = now_ + 300;
    }

    // Retirement

    function test_OnlyTheGuardianRetiresOnceForEver() public {
        for (uint256 i = 0; i < 3; i++) {
            address caller = [reserver, releaser, attacker][i];
            vm.prank(caller);
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotGuardian.selector, caller));
            escrow.retire();
        }
        vm.startPrank(guardian);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Retired(guardian);
        escrow.retire();
        assertTrue(escrow.retired());
        vm.expectRevert(GatewayEscrow.EscrowRetired.selector);
        escrow.retire();
    }

    function test_ARetiredEscrowTakesNothingIn() public {
        vm.prank(guardian);
        escrow.retire();
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        bytes memory admission = signAdmission(reserverKey, d, r, address(token));
        p.signature = signWitness(payerKey, p, d);
        vm.expectRevert(GatewayEscrow.EscrowRetired.selector);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, admission);
        p.signature = signPermit(payerKey, p);
        vm.expectRevert(GatewayEscrow.EscrowRetired.selector);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, admission);
        bytes memory opening = signOpening(reserverKey, d, address(token), CAP);
        vm.prank(payer);
        vm.expectRevert(GatewayEscrow.EscrowRetired.selector);
        escrow.depositOwn(d, address(token), CAP, opening);
    }

    /// All that is there leaves as if nothing had happened: reserve, reassign, release, cancel, refund, claim.
    function test_ExitsAreUntouchedByRetirement() public {
        depositByPayer(depositTerms(), address(token));
        vm.prank(guardian);
        escrow.retire();
        uint256 open = vm.snapshotState();

        GatewayEscrow.Reservation memory r = reservation();
        reserve(r, signReservation(reserverKey, r));
        uint256 reserved = vm.snapshotState();
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
        vm.revertToState(reserved);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertPaid(address(token), 0, 0);
        vm.revertToState(reserved);
        vm.warp(r.fulfillBy + 1);
        reassign(nextReservation());
        escrow.release(termsOf(ID), signDelivery(releaserKey, ID, termsOf(ID).quoteHash, nextSettler));
        assertEq(token.balanceOf(nextSettler), NEXT_QUOTED);
        assertEq(token.balanceOf(address(escrow)), 0);

        vm.revertToState(open);
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertPaid(address(token), 0, 0);
    }

    function test_WithoutAGuardianNothingOfThisIsPossible() public {
        escrow = new GatewayEscrow(PERMIT2, reserver, address(0), PAYOUT_GAS);
        vm.startPrank(attacker);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotGuardian.selector, attacker));
        escrow.retire();
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotGuardian.selector, attacker));
        escrow.proposeReserver(attacker);
    }

    // Another reserver

    function test_AnotherReserverTakesOverAfterTheDelay() public {
        uint48 from = uint48(block.timestamp) + escrow.RESERVER_DELAY();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.ReserverProposed(next, from);
        propose(next);
        assertEq(escrow.nextReserver(), next);
        assertEq(escrow.reserver(), reserver, "the present one goes on meanwhile");

        vm.warp(from - 1);
        vm.prank(guardian);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverDelayNotOver.selector, from));
        escrow.installReserver();

        vm.warp(from);
        vm.prank(guardian);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.ReserverChanged(reserver, next);
        escrow.installReserver();
        assertEq(escrow.reserver(), next);
        assertEq(escrow.nextReserver(), address(0));
        vm.prank(guardian);
        vm.expectRevert(GatewayEscrow.NoReserverProposed.selector);
        escrow.installReserver();

        (GatewayEscrow.GatewayDeposit memory d,) = termsFromNow(ID, reserver);
        bytes memory old = signOpening(reserverKey, d, address(token), CAP);
        vm.prank(payer);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, reserver));
        escrow.depositOwn(d, address(token), CAP, old);
        GatewayEscrow.Reservation memory r;
        (d, r) = termsFromNow(ID, next);
        bytes memory opening = signOpening(nextKey, d, address(token), CAP);
        vm.prank(payer);
        escrow.depositOwn(d, address(token), CAP, opening);
        noteTerms(asDeposited(d, address(token), CAP));
        reserve(r, signReservation(nextKey, r));
        assertState(GatewayEscrow.State.Reserved);
    }

    /// The payer agreed to the reserver that its deposit names; a later one has no say about it.
    function test_APaymentKeepsItsReserver() public {
        (GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r) = termsFromNow(ID, reserver);
        uint48 delay = escrow.RESERVER_DELAY();
        (d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter) =
            (uint48(block.timestamp) + 3 * delay, uint48(block.timestamp) + 3 * delay, uint48(block.timestamp) + 4 * delay);
        bytes memory opening = signOpening(reserverKey, d, address(token), CAP);
        vm.prank(payer);
        escrow.depositOwn(d, address(token), CAP, opening);
        noteTerms(asDeposited(d, address(token), CAP));
        install();
        r.fulfillBy = uint48(block.timestamp) + 100;
        bytes memory byNext = signReservation(nextKey, r);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        reserve(r, byNext);
        reserve(r, signReservation(reserverKey, r));
        GatewayEscrow.Reservation memory another = nextReservation();
        vm.warp(r.fulfillBy + 1);
        another.fulfillBy = uint48(block.timestamp) + 100;
        byNext = signReassignment(nextKey, r.quoteHash, another);
        bytes memory word = nonDelivery();
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        reassign(another, byNext, word);
        reassign(another);
        escrow.release(termsOf(ID), signDelivery(releaserKey, ID, another.quoteHash, nextSettler));
        assertEq(token.balanceOf(nextSettler), NEXT_QUOTED);
    }

    function test_OnlyTheGuardianProposesAndInstalls() public {
        for (uint256 i = 0; i < 3; i++) {
            address caller = [reserver, next, attacker][i];
            vm.startPrank(caller);
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotGuardian.selector, caller));
            escrow.proposeReserver(caller);
            vm.stopPrank();
        }
        propose(next);
        vm.warp(block.timestamp + escrow.RESERVER_DELAY());
        for (uint256 i = 0; i < 3; i++) {
            address caller = [reserver, next, attacker][i];
            vm.prank(caller);
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotGuardian.selector, caller));
            escrow.installReserver();
        }
        vm.prank(guardian);
        vm.expectRevert(GatewayEscrow.ReserverMissing.selector);
        escrow.proposeReserver(address(0));
    }

    /// A thief of the guardian's key can be refused by the reserver for as long as it tries.
    function test_TheReserverRefusesAThiefOfTheGuardiansKey() public {
        propose(attacker);
        vm.prank(attacker);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.CallerNeitherGuardianNorReserver.selector, attacker)
        );
        escrow.cancelReserver();
        vm.prank(reserver);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.ReserverProposalCancelled(attacker, reserver);
        escrow.cancelReserver();
        vm.warp(block.timestamp + 2 * escrow.RESERVER_DELAY());
        vm.prank(guardian);
        vm.expectRevert(GatewayEscrow.NoReserverProposed.selector);
        escrow.installReserver();
        vm.prank(reserver);
        vm.expectRevert(GatewayEscrow.NoReserverProposed.selector);
        escrow.cancelReserver();
    }

    /// A proposal that replaces another begins its own delay.
    function test_ANewProposalWaitsAnew() public {
        propose(next);
        vm.warp(block.timestamp + escrow.RESERVER_DELAY());
        propose(attacker);
        uint48 from = uint48(block.timestamp) + escrow.RESERVER_DELAY();
        vm.prank(guardian);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReserverDelayNotOver.selector, from));
        escrow.installReserver();
    }

    /// A thief of the reserver's key keeps another one out at most until the guardian retires the escrow.
    function test_TheGuardianEndsWhatAThiefOfTheReserversKeyBegan() public {
        depositByPayer(depositTerms(), address(token));
        propose(next);
        vm.prank(reserver);
        escrow.cancelReserver();
        vm.prank(guardian);
        escrow.retire();
        (GatewayEscrow.GatewayDeposit memory d,) = termsFromNow(keccak256("pay_2"), reserver);
        bytes memory opening = signOpening(reserverKey, d, address(token), CAP);
        vm.prank(payer);
        vm.expectRevert(GatewayEscrow.EscrowRetired.selector);
        escrow.depositOwn(d, address(token), CAP, opening);
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertPaid(address(token), 0, 0);
    }

    // The deployment

    function test_PayoutGasHasBounds() public {
        for (uint256 i = 0; i < 2; i++) {
            uint256 gas_ = [uint256(99_999), 5_000_001][i];
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.PayoutGasInvalid.selector, gas_));
            new GatewayEscrow(PERMIT2, reserver, guardian, gas_);
        }
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, 5_000_000);
        assertEq(escrow.payoutGas(), 5_000_000);
        vm.prank(payer);
        token.approve(address(escrow), type(uint256).max);
        reservedByPayer(address(token));
        bytes memory call = abi.encodeCall(escrow.release, (termsOf(ID), delivery()));
        (bool done, bytes memory why) = address(escrow).call{gas: 5_000_000}(call);
        assertFalse(done);
        assertEq(bytes4(why), GatewayEscrow.GasTooLow.selector);
        (done,) = address(escrow).call{gas: 5_400_000}(call);
        assertTrue(done);
    }

    /// The lock stands beside what the guardian writes, and neither wipes out the other.
    function test_TheGuardianMayActWhileMoneyMoves() public {
        escrow = new GatewayEscrow(PERMIT2, reserver, address(trick), PAYOUT_GAS);
        vm.prank(payer);
        trick.approve(address(escrow), type(uint256).max);
        reservedByPayer(address(trick));
        trick.setHook(address(escrow), abi.encodeCall(escrow.proposeReserver, (attacker)));
        uint256 snapshot = vm.snapshotState();
        escrow.release(termsOf(ID), delivery());
        assertTrue(trick.hookSucceeded());
        assertEq(escrow.nextReserver(), attacker);
        assertEq(escrow.nextReserverFrom(), block.timestamp + escrow.RESERVER_DELAY());
        assertPaid(address(trick), QUOTED, 0);

        vm.revertToState(snapshot);
        trick.setHook(address(escrow), abi.encodeCall(escrow.retire, ()));
        escrow.cancel(termsOf(ID), nonDelivery());
        assertTrue(escrow.retired());
        assertEq(escrow.reserver(), reserver);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, payer, address(trick)));
        escrow.claimFor(payer, address(trick));
    }
}
