// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Money that a payout left behind, and tokens that change their rules while money is here: everyone who is owed
/// something gets out with his part of what is there, and with nobody else's.
contract EscrowExitsTest is EscrowFixture {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant SECOND = keccak256("pay_2");

    /// A second payment of the same payer, all of it for the same settler.
    function reserveSecond() private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = SECOND;
        r.sourceAmount = CAP;
        depositByPayer(d, address(trick));
        reserve(r, signReservation(reserverKey, r));
    }

    function releaseSecond() private {
        escrow.release(termsOf(SECOND), signDelivery(releaserKey, SECOND, keccak256("quote"), settler));
    }

    function refundFirst() private {
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
    }

    // Claims brought by others

    function test_AnyoneBringsAClaimToItsOwnerAndOnlyThere() public {
        reservedByPayer(address(trick));
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        vm.startPrank(attacker);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ClaimNotPaid.selector, QUOTED, 0));
        escrow.claimFor(settler, address(trick));
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, attacker, address(trick)));
        escrow.claimFor(attacker, address(trick));

        trick.setDenial(settler, TrickToken.Denial.None);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Claimed(settler, address(trick), settler, QUOTED);
        assertEq(escrow.claimFor(settler, address(trick)), QUOTED);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, settler, address(trick)));
        escrow.claimFor(settler, address(trick));
        assertPaid(address(trick), QUOTED, 0);
        assertEq(trick.balanceOf(attacker), 0);
        assertEq(escrow.owedIn(address(trick)), 0);
    }

    /// Starving a claim leads nowhere: it is paid or stays.
    function testFuzz_AClaimIsPaidWhollyOrStays(uint256 limit, uint256 lookGas) public {
        reservedByPayer(address(trick));
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        trick.setDenial(settler, TrickToken.Denial.None);
        trick.setLookGas(bound(lookGas, 0, 100_000));
        trick.setGasNeeded(60_000);
        limit = bound(limit, 25_000, 600_000);
        (bool done,) = address(escrow).call{gas: limit}(abi.encodeCall(escrow.claimFor, (settler, address(trick))));
        trick.setLookGas(0);
        assertEq(escrow.claimable(settler, address(trick)), done ? 0 : QUOTED);
        assertEq(trick.balanceOf(settler), done ? QUOTED : 0);
    }

    // A token that begins to charge its sender

    function test_AChargeOnTheSenderTakesNobodyElsesMoney() public {
        reservedByPayer(address(trick));
        reserveSecond();
        trick.setSurcharge(7e6);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Claimable(settler, address(trick), QUOTED);
        escrow.release(termsOf(ID), delivery());
        assertState(GatewayEscrow.State.Released);
        assertEq(trick.balanceOf(address(escrow)), 2 * CAP, "nothing moved");

        assertEq(escrow.claimFor(settler, address(trick)), QUOTED);
        assertEq(trick.balanceOf(settler), QUOTED - 7e6, "the charge is the receiver's");
        escrow.claimFor(payer, address(trick));
        assertEq(escrow.claimable(payer, address(trick)), 0);
        assertEq(trick.balanceOf(address(escrow)), CAP, "the other payment's money is whole");
        assertEq(escrow.owedIn(address(trick)), CAP);
    }

    function testFuzz_AnyChargeHasAnExit(uint256 fixedCharge, uint256 rate, uint256 amount) public {
        amount = bound(amount, 1e6, CAP);
        depositByPayer(depositTerms(), address(trick));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = amount;
        reserve(r, signReservation(reserverKey, r));
        reserveSecond();
        trick.setSurcharge(bound(fixedCharge, 0, 4e5));
        trick.setSurchargeRate(bound(rate, 0, 3e5));
        escrow.release(termsOf(ID), delivery());
        // Up to 4e5 / (1 - 0.3) the charge can be more than the claim, and nothing can be moved.
        for (uint256 i = 0; i < 40 && escrow.claimable(settler, address(trick)) > 6e5; i++) {
            escrow.claimFor(settler, address(trick));
        }
        assertLe(escrow.claimable(settler, address(trick)), 6e5, "what is left is about the charge itself");
        uint256 paidOut = 2 * CAP - trick.balanceOf(address(escrow));
        assertLe(paidOut, CAP, "no more left than this payment brought");
        assertEq(escrow.owedIn(address(trick)), trick.balanceOf(address(escrow)));
        releaseSecond();
    }

    function test_AChargeAboveTheClaimMovesNothing() public {
        reservedByPayer(address(trick));
        reserveSecond();
        trick.setSurcharge(QUOTED);
        escrow.release(termsOf(ID), delivery());
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ClaimNotPaid.selector, QUOTED, 0));
        escrow.claimFor(settler, address(trick));
        trick.setSurcharge(0);
        escrow.claimFor(settler, address(trick));
        assertEq(trick.balanceOf(settler), QUOTED);
    }

    // A token that shrinks

    /// Two payments of one token that lost a fifth: each is paid four fifths, in whatever order.
    function test_WhoeverComesFirstGetsNoMoreThanItsPart() public {
        reservedByPayer(address(trick));
        reserveSecond();
        trick.shrink(address(escrow), 2 * CAP / 5);
        uint256 snapshot = vm.snapshotState();

        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Shortfall(settler, address(trick), CAP, CAP * 4 / 5);
        releaseSecond();
        assertEq(trick.balanceOf(settler), CAP * 4 / 5);
        refundFirst();
        assertEq(trick.balanceOf(payer), 1_000_000e6 - 2 * CAP + CAP * 4 / 5);
        assertEq(trick.balanceOf(address(escrow)), 0);
        assertEq(escrow.owedIn(address(trick)), 0);

        vm.revertToState(snapshot);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertEq(trick.balanceOf(payer), 1_000_000e6 - 2 * CAP + CAP * 4 / 5);
        releaseSecond();
        assertEq(trick.balanceOf(settler), CAP * 4 / 5);
        assertEq(trick.balanceOf(address(escrow)), 0);
    }

    function testFuzz_TheLossIsSharedInProportion(uint256 lost, uint256 quoted, bool deniedFirst) public {
        quoted = bound(quoted, 1e6, CAP);
        depositByPayer(depositTerms(), address(trick));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = quoted;
        reserve(r, signReservation(reserverKey, r));
        reserveSecond();
        lost = bound(lost, 0, 2 * CAP);
        trick.shrink(address(escrow), lost);
        uint256 left = 2 * CAP - lost;
        if (deniedFirst) trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        releaseSecond();
        trick.setDenial(settler, TrickToken.Denial.None);
        if (escrow.claimable(settler, address(trick)) != 0) {
            // A part of next to nothing may be rounded to nothing, and is not paid.
            if (left <= 1e3) return;
            escrow.claimFor(settler, address(trick));
        }

        uint256 got = trick.balanceOf(settler);
        uint256 due = left * (quoted + CAP) / (2 * CAP);
        assertApproxEqAbs(got, due, 3, "the settler's part of what is there");
        assertApproxEqAbs(trick.balanceOf(payer) - (1_000_000e6 - 2 * CAP), left - due, 3, "the payer's part");
    }

    function test_NobodyDepositsIntoALoss() public {
        reservedByPayer(address(trick));
        trick.shrink(address(escrow), 1);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = SECOND;
        bytes memory opening = signOpening(reserverKey, d, address(trick), CAP);
        vm.prank(payer);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.TokenShort.selector, address(trick), CAP, CAP - 1)
        );
        escrow.depositOwn(d, address(trick), CAP, opening);
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(trick));
        p.signature = signWitness(payerKey, p, d);
        bytes memory admission = signAdmission(reserverKey, d, r, address(trick));
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.TokenShort.selector, address(trick), CAP, CAP - 1)
        );
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, admission);
    }

    /// Everything is gone for a time: the payments end as claims, which are paid when there is something again.
    function test_ATokenThatIsGoneLeavesClaims() public {
        reservedByPayer(address(trick));
        trick.shrink(address(escrow), CAP);
        escrow.release(termsOf(ID), delivery());
        assertState(GatewayEscrow.State.Released);
        assertEq(escrow.claimable(settler, address(trick)), QUOTED);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ClaimNotPaid.selector, QUOTED, 0));
        escrow.claimFor(settler, address(trick));
        trick.mint(address(escrow), CAP);
        escrow.claimFor(payer, address(trick));
        escrow.claimFor(settler, address(trick));
        assertPaid(address(trick), QUOTED, 0);
    }

    /// What a token gives to its holders stays; nobody is owed it.
    function test_AGiftIsNobodys() public {
        reservedByPayer(address(trick));
        trick.mint(address(escrow), 5e6);
        escrow.release(termsOf(ID), delivery());
        assertEq(trick.balanceOf(settler), QUOTED);
        assertEq(trick.balanceOf(address(escrow)), 5e6);
        assertEq(escrow.owedIn(address(trick)), 0);
    }

    function test_TransferAtMostIsTheEscrowsOwn() public {
        reservedByPayer(address(trick));
        for (uint256 i = 0; i < 3; i++) {
            address caller = [attacker, reserver, guardian][i];
            vm.prank(caller);
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotSelf.selector, caller));
            escrow.transferAtMost(address(trick), caller, CAP, CAP, CAP, 0);
        }
        trick.setHook(
            address(escrow), abi.encodeCall(escrow.transferAtMost, (address(trick), attacker, 1, CAP, CAP, 0))
        );
        escrow.release(termsOf(ID), delivery());
        assertFalse(trick.hookSucceeded());
    }
}
