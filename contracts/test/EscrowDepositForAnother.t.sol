// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {LargerDeposits} from "./support/LargerDeposits.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Deposits of the caller's money for another's payment: whose money, with whose word, and who gets it at the end. Those
/// from deposit addresses are in `DepositAddresses.t.sol`.
contract EscrowDepositForAnotherTest is LargerDeposits {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");

    address private sponsor = makeAddr("sponsor");

    function setUp() public override {
        super.setUp();
        fund(sponsor, address(token), CAP);
    }

    /// It has so much and lets the escrow take it.
    function fund(address who, address asset, uint256 amount) private {
        TrickToken(asset).mint(who, amount);
        vm.prank(who);
        TrickToken(asset).approve(address(escrow), amount);
    }

    function larger(uint256 amount) private view returns (Larger memory) {
        return Larger(false, depositTerms(), reservation(), address(token), amount, ADMITTED_UNTIL);
    }

    function callOf(Larger memory l, bytes memory signature) private view returns (bytes memory) {
        return abi.encodeCall(
            escrow.depositFor, (l.terms, l.asset, l.amount, l.award, l.admittedUntil, signature)
        );
    }

    function send(address by, Larger memory l) private {
        bytes memory call = callOf(l, admissionOf(l));
        vm.prank(by);
        (bool done,) = address(escrow).call(call);
        assertTrue(done, "refused");
        noteTerms(asReserved(asDeposited(l.terms, l.asset, l.amount), l.award));
    }

    function expectRefused(address by, Larger memory l, bytes memory signature, bytes memory refusal) private {
        vm.prank(by);
        (bool done, bytes memory why) = address(escrow).call(callOf(l, signature));
        assertFalse(done, "made");
        assertEq(why, refusal);
        assertState(GatewayEscrow.State.None);
    }

    /// With the reserver's signature right.
    function expectRefused(Larger memory l, bytes memory refusal) private {
        expectRefused(sponsor, l, admissionOf(l), refusal);
    }

    function reserverInvalid() private view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }

    function assertHas(address who, uint256 amount) private view {
        assertEq(token.balanceOf(who), amount);
    }

    // Whose money

    function test_TheCallerPaysAndThePayerGetsWhatGoesBack() public {
        Larger memory l = larger(LARGER);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(ID, QUOTE, payer, l.terms, address(token), LARGER);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(ID, QUOTE, settler, QUOTED, l.award.fulfillBy);
        send(sponsor, l);
        assertHas(sponsor, CAP - LARGER);
        assertHas(payer, WEALTH);
        assertHas(address(escrow), LARGER);
        assertEq(escrow.owedIn(address(token)), LARGER);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(l.terms, address(token), LARGER), l.award))
        });
        assertEq(abi.encode(escrow.recordOf(ID)), abi.encode(expected));

        uint256 snapshot = vm.snapshotState();
        escrow.release(termsOf(ID), delivery());
        assertHas(settler, QUOTED);
        assertHas(payer, WEALTH + LARGER - QUOTED);
        vm.revertToState(snapshot);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertHas(payer, WEALTH + LARGER);
        vm.revertToState(snapshot);
        vm.warp(l.terms.refundAfter);
        escrow.refund(termsOf(ID));
        assertHas(payer, WEALTH + LARGER);
        assertHas(sponsor, CAP - LARGER);
    }

    /// The payer has let the escrow take all that it has; of use is that to its own call alone.
    function test_NobodyElsesAllowanceIsTaken() public {
        assertEq(token.allowance(payer, address(escrow)), type(uint256).max);
        Larger memory l = larger(LARGER);
        address[3] memory callers = [stranger, settler, reserver];
        for (uint256 i = 0; i < callers.length; i++) {
            expectRefused(
                callers[i],
                l,
                admissionOf(l),
                abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, LARGER, 0)
            );
        }
        assertHas(payer, WEALTH);
        send(payer, l);
        assertHas(payer, WEALTH - LARGER);
    }

    /// Who has seen the reserver's word for a payer's signature may pay in the payer's place. Then the payer's signature is of no
    /// more use, and what goes back is the payer's.
    function test_WhoPaysInThePayersPlaceMakesAPresent() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        bytes memory admission = signAdmission(reserverKey, d, reservation(), address(token));
        Larger memory l = larger(QUOTED);
        vm.prank(sponsor);
        (bool done,) = address(escrow).call(callOf(l, admission));
        assertTrue(done);
        noteTerms(asReserved(asDeposited(d, address(token), QUOTED), reservation()));
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID);
        for (uint256 i = 0; i < 2; i++) {
            bytes memory signed = largerCall(i == 0, d, reservation(), address(token), QUOTED, admission);
            (bool again, bytes memory why) = address(escrow).call(signed);
            assertFalse(again);
            assertEq(why, used);
        }
        assertHas(payer, WEALTH);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertHas(payer, WEALTH + QUOTED);
    }

    // With whose word

    function test_NothingOfTheAdmissionCanBeChanged() public {
        bytes memory signature = admissionOf(larger(LARGER));
        Larger[14] memory other;
        for (uint256 i = 0; i < other.length; i++) {
            other[i] = larger(LARGER);
        }
        other[0].terms.termsHash = keccak256("other terms");
        other[1].terms.quoteHash = QUOTE;
        other[2].terms.payer = sponsor;
        other[3].terms.releaser = sponsor;
        other[4].terms.reserveDeadline += 1;
        other[5].terms.fulfillmentDeadline += 1;
        other[6].terms.refundAfter += 1;
        other[7].asset = address(trick);
        other[8].amount += 1;
        other[9].award.quoteHash = keccak256("another quote");
        other[10].award.settler = sponsor;
        other[11].award.sourceAmount -= 1;
        other[12].award.fulfillBy += 1;
        other[13].admittedUntil += 1;
        for (uint256 i = 0; i < other.length; i++) {
            expectRefused(sponsor, other[i], signature, reserverInvalid());
        }
        Larger memory foreign = larger(LARGER);
        foreign.terms.paymentId = foreign.award.paymentId = keccak256("pay_2");
        expectRefused(sponsor, foreign, signature, reserverInvalid());
        foreign = larger(LARGER);
        foreign.terms.reserver = sponsor;
        expectRefused(
            foreign, abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, sponsor)
        );
        send(sponsor, larger(LARGER));
    }

    /// Which of the two admissions counts is a matter of the amounts.
    function test_EachAdmissionForItsAmount() public {
        Larger memory l = larger(LARGER);
        expectRefused(sponsor, l, signAdmission(reserverKey, l.terms, l.award, l.asset), reserverInvalid());
        expectRefused(sponsor, l, signOpening(reserverKey, l.terms, l.asset, LARGER), reserverInvalid());
        expectRefused(
            sponsor,
            l,
            signLargerAdmission(attackerKey, l.terms, l.award, l.asset, LARGER, ADMITTED_UNTIL),
            reserverInvalid()
        );
        l.amount = QUOTED;
        expectRefused(
            sponsor,
            l,
            signLargerAdmission(reserverKey, l.terms, l.award, l.asset, QUOTED, ADMITTED_UNTIL),
            reserverInvalid()
        );
        send(sponsor, l);
    }

    function test_AnotherEscrowsAndAnotherChainsWordsAreNone() public {
        Larger memory l = larger(LARGER);
        GatewayEscrow first = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory elsewhere = admissionOf(l);
        escrow = first;
        expectRefused(sponsor, l, elsewhere, reserverInvalid());
        vm.chainId(block.chainid + 1);
        elsewhere = admissionOf(l);
        vm.chainId(block.chainid - 1);
        expectRefused(sponsor, l, elsewhere, reserverInvalid());
    }

    // The rules of all deposits

    function test_InTime() public {
        Larger memory l = larger(LARGER);
        l.admittedUntil = START + 50;
        uint256 snapshot = vm.snapshotState();
        vm.warp(START + 51);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 50));
        vm.warp(START + 50);
        send(sponsor, l);
        vm.revertToState(snapshot);
        l.admittedUntil = ADMITTED_UNTIL;
        vm.warp(START + 61);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, START + 60));
        vm.warp(START + 60);
        send(sponsor, l);
    }

    function test_WhatIsRefusedOfEveryDeposit() public {
        Larger memory l = larger(LARGER);
        l.terms.payer = address(0);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.PayerMissing.selector));
        l = larger(LARGER);
        l.terms.releaser = address(0);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.ReleaserMissing.selector));
        l = larger(LARGER);
        l.award.settler = address(escrow);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, address(escrow)));
        l = larger(QUOTED - 1);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, QUOTED, QUOTED - 1));
        l = larger(LARGER);
        l.asset = stranger;
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.TokenHasNoCode.selector, stranger));
        l = larger(0);
        l.award.sourceAmount = 0;
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
        vm.prank(guardian);
        escrow.retire();
        expectRefused(larger(LARGER), abi.encodeWithSelector(GatewayEscrow.EscrowRetired.selector));
    }

    function test_OnlyOnce() public {
        send(sponsor, larger(QUOTED));
        fund(stranger, address(token), QUOTED);
        Larger memory l = larger(QUOTED);
        bytes memory call = callOf(l, admissionOf(l));
        vm.prank(stranger);
        (bool done, bytes memory why) = address(escrow).call(call);
        assertFalse(done);
        assertEq(why, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID));
        assertHas(stranger, QUOTED);
    }

    function test_JustWhatIsSaidHasToArrive() public {
        fund(sponsor, address(trick), CAP);
        Larger memory l = larger(LARGER);
        l.asset = address(trick);
        trick.setFee(1);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, LARGER, LARGER - 1));
        trick.setFee(0);
        trick.setDenial(address(escrow), TrickToken.Denial.MovesNothing);
        expectRefused(l, abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, LARGER, 0));
        trick.setDenial(address(escrow), TrickToken.Denial.None);
        send(sponsor, l);
        assertEq(trick.balanceOf(address(escrow)), LARGER);
        // Less is here than is owed: nothing new comes in.
        trick.shrink(address(escrow), 1);
        l.terms.paymentId = l.award.paymentId = keccak256("pay_2");
        fund(sponsor, address(trick), CAP);
        bytes memory call = callOf(l, admissionOf(l));
        vm.prank(sponsor);
        (bool done, bytes memory why) = address(escrow).call(call);
        assertFalse(done);
        assertEq(
            why, abi.encodeWithSelector(GatewayEscrow.TokenShort.selector, address(trick), LARGER, LARGER - 1)
        );
    }

    /// A token that calls back in the middle is refused there.
    function test_DuringAnotherCallItIsRefused() public {
        fund(sponsor, address(trick), CAP);
        fund(address(trick), address(token), CAP);
        Larger memory inner = larger(LARGER);
        inner.terms.paymentId = inner.award.paymentId = keccak256("pay_2");
        trick.setHook(address(escrow), callOf(inner, admissionOf(inner)));
        Larger memory l = larger(LARGER);
        l.asset = address(trick);
        send(sponsor, l);
        assertFalse(trick.hookSucceeded());
        assertEq(trick.hookResult(), abi.encodeWithSelector(GatewayEscrow.Reentered.selector));
    }

    function testFuzz_WhatComesOutIsWhatWentIn(uint256 amount, uint256 price, bool delivered) public {
        amount = bound(amount, 1, CAP);
        Larger memory l = larger(amount);
        l.award.sourceAmount = bound(price, 1, amount);
        send(sponsor, l);
        assertHas(sponsor, CAP - amount);
        if (delivered) escrow.release(termsOf(ID), delivery());
        else escrow.cancel(termsOf(ID), nonDelivery());
        assertHas(settler, delivered ? l.award.sourceAmount : 0);
        assertHas(payer, WEALTH + amount - (delivered ? l.award.sourceAmount : 0));
        assertHas(address(escrow), 0);
    }
}
