// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {LapsedReservations} from "./support/LapsedReservations.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Deposits by signature of more than the award asks for: for how much, with whose word on it, and where it goes. All is
/// tried with and without a witness. What becomes of them after a reassignment is also in `EscrowReassignment.t.sol`.
contract EscrowLargerDepositTest is LapsedReservations {
    // What comes in, and what becomes of it

    function test_TheAmountIsDrawnAndThePriceReserved() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(PAYMENT, AGREED, payer, d, address(token), LARGER);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(PAYMENT, AGREED, settler, QUOTED, r.fulfillBy);
        deposit(LARGER);

        assertPaid(address(token), 0, LARGER);
        assertEq(escrow.owedIn(address(token)), LARGER);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(d, address(token), LARGER), r))
        });
        assertEq(abi.encode(escrow.recordOf(PAYMENT)), abi.encode(expected));
    }

    function test_TheRestGoesBackWithTheRelease() public eitherWay {
        deposit(LARGER);
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(PAYMENT, AGREED, settler, QUOTED, LARGER - QUOTED);
        escrow.release(termsOf(PAYMENT), attestation);
        assertPaid(address(token), QUOTED, 0);
        assertNothingOwed();
    }

    function test_AllOfItGoesBackWithACancellation() public eitherWay {
        deposit(LARGER);
        bytes memory word = nonDelivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(PAYMENT, AGREED, payer, LARGER);
        escrow.cancel(termsOf(PAYMENT), word);
        assertPaid(address(token), 0, 0);
        assertNothingOwed();
    }

    function test_AllOfItGoesBackInTime() public eitherWay {
        deposit(LARGER);
        vm.warp(depositTerms().refundAfter);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Refunded(PAYMENT, AGREED, payer, LARGER);
        escrow.refund(termsOf(PAYMENT));
        assertPaid(address(token), 0, 0);
        assertNothingOwed();
    }

    /// What it is for: the one that follows asks more than the first did.
    function test_ADearerSettlerFollowsUpToTheAmount() public eitherWay {
        for (uint256 asked = QUOTED + 1; asked <= LARGER; asked += LARGER - QUOTED - 1) {
            uint256 snapshot = vm.snapshotState();
            deposit(LARGER);
            lapse();
            GatewayEscrow.Reservation memory r = nextReservation();
            r.sourceAmount = asked;
            reassign(r);
            assertPaid(address(token), 0, LARGER);
            assertEq(escrow.owedIn(address(token)), LARGER);
            escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, NEXT, nextSettler));
            assertEq(token.balanceOf(nextSettler), asked);
            assertEq(token.balanceOf(settler), 0);
            assertEq(token.balanceOf(payer), 1_000_000e6 - asked);
            assertEq(token.balanceOf(address(escrow)), 0);
            assertNothingOwed();
            vm.revertToState(snapshot);
        }
        deposit(LARGER);
        lapse();
        GatewayEscrow.Reservation memory above = nextReservation();
        above.sourceAmount = LARGER + 1;
        bytes memory signature = signReassignment(reserverKey, AGREED, above);
        bytes memory word = nonDelivery();
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, LARGER + 1, LARGER));
        reassign(above, signature, word);
    }

    function test_APayerWhoRefusesTheRestHoldsUpNobody() public eitherWay {
        depositLarger(witnessed, depositTerms(), reservation(), address(trick), LARGER);
        trick.setDenial(payer, TrickToken.Denial.BurnsGas);
        escrow.release{gas: 1_500_000}(termsOf(PAYMENT), delivery());
        assertPaid(address(trick), QUOTED, LARGER - QUOTED);
        assertEq(escrow.claimable(payer, address(trick)), LARGER - QUOTED);
        assertEq(escrow.owedIn(address(trick)), LARGER - QUOTED);
    }

    /// The payer that named its quote is bound to it, whatever is deposited.
    function test_OfTheQuoteThatThePayerNamed() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = NEXT;
        expectRefused(
            d, reservation(), LARGER, abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, NEXT, AGREED)
        );
        d.quoteHash = AGREED;
        depositLarger(witnessed, d, reservation(), address(token), LARGER);
        escrow.release(termsOf(PAYMENT), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    // How much

    function test_UpToWhatThePayerPermits() public eitherWay {
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP);
        expectRefused(depositTerms(), reservation(), CAP + 1, refusal);
        refusal = abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, type(uint256).max, CAP);
        expectRefused(depositTerms(), reservation(), type(uint256).max, refusal);
        deposit(CAP);
        assertPaid(address(token), 0, CAP);
    }

    function test_NoLessThanTheAwardAsksFor() public eitherWay {
        for (uint256 i = 0; i < 3; i++) {
            uint256 amount = [QUOTED - 1, 1, 0][i];
            bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, QUOTED, amount);
            expectRefused(depositTerms(), reservation(), amount, refusal);
        }
        deposit(QUOTED + 1);
        assertPaid(address(token), 0, QUOTED + 1);
    }

    function test_NothingForTheSettlerIsNoAward() public eitherWay {
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = 0;
        expectRefused(depositTerms(), r, LARGER, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
        expectRefused(depositTerms(), r, 0, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
    }

    /// Just the price is no larger deposit: the reserver's plain admission is what counts, and that alone.
    function test_ThePriceItselfTakesThePlainAdmission() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory larger = signLargerAdmission(reserverKey, d, r, address(token), QUOTED, ADMITTED_UNTIL);
        expectCallRefused(largerCall(witnessed, d, r, address(token), QUOTED, larger), signatureInvalid());
        bytes memory plain = signAdmission(reserverKey, d, r, address(token));
        expectMade(largerCall(witnessed, d, r, address(token), QUOTED, plain));
        assertPaid(address(token), 0, QUOTED);
        noteTerms(asReserved(asDeposited(d, address(token), QUOTED), r));
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(PAYMENT, AGREED, settler, QUOTED, 0);
        escrow.release(termsOf(PAYMENT), attestation);
        assertPaid(address(token), QUOTED, 0);
    }

    /// What the payer has less than is dealt with as any deposit that reverts; the plain one still comes in.
    function test_APayerThatHasNotSoMuchStillPaysThePrice() public eitherWay {
        vm.prank(payer);
        token.approve(PERMIT2, LARGER - 1);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        bytes memory signature = admissionOf(d, reservation(), address(token), LARGER);
        bytes memory call = largerCall(witnessed, d, reservation(), address(token), LARGER, signature);
        expectCallRefused(call, abi.encodeWithSignature("Error(string)", "TRANSFER_FROM_FAILED"));
        if (witnessed) depositWitnessed(d, reservation(), address(token));
        else depositPermitted(d, reservation(), address(token));
        assertPaid(address(token), 0, QUOTED);
        // And the larger one never beside it, though the payer has mended its allowance.
        vm.prank(payer);
        token.approve(PERMIT2, type(uint256).max);
        expectCallRefused(call, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, PAYMENT));
        assertPaid(address(token), 0, QUOTED);
    }

    function test_OneDepositForAPaymentForEver() public eitherWay {
        deposit(LARGER);
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, PAYMENT);
        expectRefused(depositTerms(), reservation(), LARGER, used);
        expectRefused(depositTerms(), reservation(), LARGER + 1, used);
        expectRefused(depositTerms(), reservation(), QUOTED, used);
        expectPlainRefused(signAdmission(reserverKey, depositTerms(), reservation(), address(token)), used);
        escrow.cancel(termsOf(PAYMENT), nonDelivery());
        expectRefused(depositTerms(), reservation(), LARGER, used);
    }

    // The reserver's word

    /// Everything else is made right for the changed field, the payer's signature too.
    function test_NoAdmittedFieldCanBeChanged() public eitherWay {
        bytes memory admission = admissionOf(depositTerms(), reservation(), address(token), LARGER);
        token.mint(attacker, CAP);
        vm.prank(attacker);
        token.approve(PERMIT2, CAP);
        for (uint256 field = 0; field < 17; field++) {
            Larger memory other =
                Larger(witnessed, depositTerms(), reservation(), address(token), LARGER, ADMITTED_UNTIL);
            if (field == 0) other.terms.paymentId = other.award.paymentId = keccak256("pay_2");
            if (field == 1) other.terms.termsHash = keccak256("other terms");
            if (field == 2) other.terms.quoteHash = AGREED;
            if (field == 3) other.terms.payer = attacker;
            if (field == 4) other.terms.releaser = attacker;
            if (field == 5) other.terms.reserveDeadline += 1;
            if (field == 6) other.terms.fulfillmentDeadline += 1;
            if (field == 7) other.terms.refundAfter += 1;
            if (field == 8) other.award.quoteHash = keccak256("other quote");
            if (field == 9) other.award.settler = attacker;
            if (field == 10) other.award.sourceAmount += 1;
            if (field == 11) other.award.sourceAmount = LARGER;
            if (field == 12) other.award.fulfillBy += 1;
            if (field == 13) other.asset = address(trick);
            if (field == 14) other.amount += 1;
            if (field == 15) other.amount -= 1;
            if (field == 16) other.admittedUntil += 1;
            bytes memory call = largerCall(other, field == 3 ? attackerKey : payerKey, admission);
            expectCallRefused(call, signatureInvalid());
        }
        deposit(LARGER);
    }

    /// Neither is the reserver's word on a larger deposit one on a plain one, nor the other way round, whatever amounts they name.
    function test_AnAdmissionIsNoLargerOneAndTheOtherWayRound() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow.Reservation memory whole = reservation();
        whole.sourceAmount = LARGER;
        bytes[5] memory others = [
            signAdmission(reserverKey, d, r, address(token)),
            signAdmission(reserverKey, d, whole, address(token)),
            signOpening(reserverKey, d, address(token), LARGER),
            signReservation(reserverKey, r),
            signReassignment(reserverKey, bytes32(0), r)
        ];
        for (uint256 i = 0; i < others.length; i++) {
            expectCallRefused(largerCall(witnessed, d, r, address(token), LARGER, others[i]), signatureInvalid());
        }
        bytes memory larger = admissionOf(d, r, address(token), LARGER);
        expectPlainRefused(larger, signatureInvalid());
        bytes memory asked = signLargerAdmission(reserverKey, d, r, address(token), QUOTED, ADMITTED_UNTIL);
        expectPlainRefused(asked, signatureInvalid());
        expectCallRefused(largerCall(witnessed, d, r, address(token), QUOTED, larger), signatureInvalid());
        expectCallRefused(largerCall(witnessed, d, whole, address(token), LARGER, larger), signatureInvalid());
        vm.prank(payer);
        vm.expectRevert(signatureInvalid());
        escrow.depositOwn(d, address(token), LARGER, larger);
        depositByPayer(d, address(token));
        vm.expectRevert(signatureInvalid());
        reserve(r, larger);
    }

    function test_OnlyTheReserversWordForThisEscrowOnThisChain() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory good = admissionOf(d, r, address(token), LARGER);
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory foreign = admissionOf(d, r, address(token), LARGER);
        escrow = home;
        bytes[5] memory signatures = [
            bytes(""),
            foreign,
            malleated(good),
            signLargerAdmission(attackerKey, d, r, address(token), LARGER, ADMITTED_UNTIL),
            signLargerAdmission(releaserKey, d, r, address(token), LARGER, ADMITTED_UNTIL)
        ];
        for (uint256 i = 0; i < signatures.length; i++) {
            expectCallRefused(largerCall(witnessed, d, r, address(token), LARGER, signatures[i]), signatureInvalid());
        }
        uint256 chain = block.chainid;
        vm.chainId(chain + 1);
        expectCallRefused(largerCall(witnessed, d, r, address(token), LARGER, good), signatureInvalid());
        vm.chainId(chain);
        expectMade(largerCall(witnessed, d, r, address(token), LARGER, good));
    }

    function test_ByAContractAsReserver() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = address(new ContractSigner(reserver));
        escrow = new GatewayEscrow(PERMIT2, d.reserver, guardian, PAYOUT_GAS);
        bytes memory byAnother =
            signLargerAdmission(attackerKey, d, reservation(), address(token), LARGER, ADMITTED_UNTIL);
        expectCallRefused(
            largerCall(witnessed, d, reservation(), address(token), LARGER, byAnother),
            abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, d.reserver)
        );
        depositLarger(witnessed, d, reservation(), address(token), LARGER);
        assertPaid(address(token), 0, LARGER);
    }

    function test_TheAdmissionEnds() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        uint48 until = START + 20;
        bytes memory admission = signLargerAdmission(reserverKey, d, r, address(token), LARGER, until);
        bytes memory call = largerCall(Larger(witnessed, d, r, address(token), LARGER, until), payerKey, admission);
        vm.warp(until + 1);
        expectCallRefused(call, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, until));
        vm.warp(until);
        expectMade(call);
    }

    // The payer's word

    function test_NoneButThePayersSignatureOfThisKind() public eitherWay {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        bytes memory admission = admissionOf(d, reservation(), address(token), LARGER);
        Larger memory larger = Larger(witnessed, d, reservation(), address(token), LARGER, ADMITTED_UNTIL);
        bytes memory byAnother = largerCall(larger, attackerKey, admission);
        expectCallRefused(byAnother, abi.encodeWithSignature("InvalidSigner()"));
        bytes memory otherKind = largerCall(!witnessed, d, reservation(), address(token), LARGER, admission);
        bytes4 selector = witnessed ? escrow.depositMoreWithWitness.selector : escrow.depositMoreWithPermit.selector;
        for (uint256 i = 0; i < 4; i++) otherKind[i] = selector[i];
        expectCallRefused(otherKind, abi.encodeWithSignature("InvalidSigner()"));
    }

    function test_WithoutPermit2OrRetiredNothingComesIn() public eitherWay {
        uint256 snapshot = vm.snapshotState();
        vm.prank(guardian);
        escrow.retire();
        bytes memory over = abi.encodeWithSelector(GatewayEscrow.EscrowRetired.selector);
        expectRefused(depositTerms(), reservation(), LARGER, over);
        vm.revertToState(snapshot);
        escrow = new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS);
        bytes memory missing = abi.encodeWithSelector(GatewayEscrow.Permit2Missing.selector);
        expectRefused(depositTerms(), reservation(), LARGER, missing);
    }

    function test_AFeeOnTransferIsRefused() public eitherWay {
        trick.setFee(1);
        bytes memory admission = admissionOf(depositTerms(), reservation(), address(trick), LARGER);
        bytes memory call = largerCall(witnessed, depositTerms(), reservation(), address(trick), LARGER, admission);
        expectCallRefused(call, abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, LARGER, LARGER - 1));
    }

    // For all amounts

    /// It comes in just where it lies between price and permit, and however it ends all of it leaves.
    function testFuzz_WhatComesOutIsWhatWentIn(uint256 amount, uint256 price, bool byWitness, bool delivered) public {
        witnessed = byWitness;
        amount = bound(amount, 0, CAP * 3 / 2);
        price = bound(price, 0, CAP * 3 / 2);
        bool made = tried(amount, price);
        assertEq(made, price != 0 && price <= amount && amount <= CAP);
        assertPaid(address(token), 0, made ? amount : 0);
        assertEq(escrow.owedIn(address(token)), made ? amount : 0);
        if (!made) return;
        if (delivered) escrow.release(termsOf(PAYMENT), delivery());
        else escrow.cancel(termsOf(PAYMENT), nonDelivery());
        assertPaid(address(token), delivered ? price : 0, 0);
        assertNothingOwed();
    }

    // Helpers

    /// Whether the payer signs a witness in what is tried now.
    bool private witnessed;

    modifier eitherWay() {
        uint256 snapshot = vm.snapshotState();
        _;
        vm.revertToState(snapshot);
        witnessed = true;
        _;
    }

    function deposit(uint256 amount) private {
        depositLarger(witnessed, depositTerms(), reservation(), address(token), amount);
    }

    /// With both signatures right.
    function tried(uint256 amount, uint256 price) private returns (bool made) {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = price;
        bytes memory admission = admissionOf(d, r, address(token), amount);
        vm.prank(stranger);
        (made,) = address(escrow).call(largerCall(witnessed, d, r, address(token), amount, admission));
        noteTerms(asReserved(asDeposited(d, address(token), amount), r));
    }

    /// Refused with both signatures right.
    function expectRefused(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        uint256 amount,
        bytes memory refusal
    ) private {
        bytes memory admission = admissionOf(d, r, address(token), amount);
        expectCallRefused(largerCall(witnessed, d, r, address(token), amount, admission), refusal);
    }

    /// The deposit of just the price, with the payer's signature right.
    function expectPlainRefused(bytes memory reserverSignature, bytes memory refusal) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.signature = witnessed ? signWitness(payerKey, p, d) : signPermit(payerKey, p);
        bytes4 selector = witnessed ? escrow.depositWithWitness.selector : escrow.depositWithPermit.selector;
        expectCallRefused(
            bytes.concat(selector, abi.encode(d, p, reservation(), ADMITTED_UNTIL, reserverSignature)), refusal
        );
    }

    function expectCallRefused(bytes memory call, bytes memory refusal) private {
        bytes32 before = keccak256(abi.encode(escrow.recordOf(PAYMENT), token.balanceOf(payer)));
        vm.prank(stranger);
        (bool made, bytes memory why) = address(escrow).call(call);
        assertFalse(made, "made");
        assertEq(why, refusal);
        assertEq(keccak256(abi.encode(escrow.recordOf(PAYMENT), token.balanceOf(payer))), before);
    }

    function expectMade(bytes memory call) private {
        vm.prank(stranger);
        (bool made,) = address(escrow).call(call);
        assertTrue(made, "refused");
        assertState(GatewayEscrow.State.Reserved);
    }

    function signatureInvalid() private view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }

    function assertNothingOwed() private view {
        assertEq(escrow.owedIn(address(token)), 0);
        assertEq(escrow.claimable(payer, address(token)) + escrow.claimable(settler, address(token)), 0);
    }
}
