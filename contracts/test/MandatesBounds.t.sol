// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice Every bound of a mandate, to the unit and to the second: what has an address, when it is in force, how long a payment is held,
/// how much is delivered at least, and where one period ends and the next begins.
contract MandatesBoundsTest is Mandating {
    function invalid() private pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.MandateInvalid.selector);
    }

    function expectInvalid(Mandates.Mandate memory m) private {
        expectCallRefused(abi.encodeCall(mandates.addressOf, (m)), invalid());
        expectCallRefused(abi.encodeCall(mandates.permitOf, (m)), invalid());
        expectCallRefused(abi.encodeCall(mandates.giveBack, (m, address(token))), invalid());
        expectCallRefused(abi.encodeCall(mandates.cancel, (m, "")), invalid());
        Drawing memory f = drawing(0);
        f.mandate = m;
        expectCallRefused(callOf(f), invalid());
    }

    function test_AMandateOfNobodyOrOfNothingHasNoAddress() public {
        for (uint256 field = 0; field < 5; field++) {
            Mandates.Mandate memory m = mandate();
            if (field == 0) m.payer = address(0);
            if (field == 1) m.merchant = address(0);
            if (field == 2) m.amount = 0;
            if (field == 3) m.periodSeconds = 0;
            if (field == 4) m.periods = 0;
            token.mint(addressBy(m), 1);
            expectInvalid(m);
        }
    }

    /// All periods together are less than the number that is without limit for Permit2, and end while its seconds last.
    function test_AMandateIsWithinWhatPermit2Counts() public {
        Mandates.Mandate memory m = mandate();
        (m.amount, m.periods) = (type(uint160).max, 1);
        expectInvalid(m);
        m.amount -= 1;
        assertEq(permitted(m).amount, type(uint160).max - 1);
        // 2^160 - 1 is divisible by three.
        (m.amount, m.periods) = (type(uint160).max / 3, 3);
        expectInvalid(m);
        m.amount -= 1;
        assertEq(permitted(m).amount, type(uint160).max - 3);
        (m.amount, m.periods) = (type(uint160).max, type(uint32).max);
        expectInvalid(m);
        m = mandate();
        m.begins = type(uint48).max - PERIOD * PERIODS;
        assertEq(permitted(m).expiration, type(uint48).max - 1);
        m.begins += 1;
        expectInvalid(m);
        m = mandate();
        (m.periodSeconds, m.periods) = (type(uint32).max, type(uint32).max);
        expectInvalid(m);
    }

    function permitted(Mandates.Mandate memory m)
        private
        view
        returns (IPermit2Allowance.PermitDetails memory details)
    {
        (details,) = mandates.permitOf(m);
    }

    function test_BeforeItBeginsAndWhenItIsOver() public {
        vm.warp(START - 1);
        assertEq(mandates.leftOf(mandate()), 0);
        expectDepositRefused(drawing(0), notInForce(START, END));
        vm.warp(START);
        makeDeposit(drawing(0));
        vm.warp(END - 1);
        makeDeposit(drawing(1));
        assertUsed(mandate(), PERIODS - 1, ASKED);
        assertEq(mandates.leftOf(mandate()), MOST - ASKED);
        vm.warp(END);
        assertEq(mandates.leftOf(mandate()), 0);
        expectDepositRefused(drawing(2), notInForce(START, END));
        vm.warp(uint256(1) << 60);
        expectDepositRefused(drawing(2), notInForce(START, END));
    }

    /// The last second of all is one in which the permit is still brought.
    function test_TheFirstDrawInTheLastSecond() public {
        vm.warp(END - 1);
        makeDeposit(drawing(mandate(), 0, MOST));
        assertPaid(address(token), 0, MOST);
    }

    /// The payer's bound counts from the deposit, so the same charge is refused while it is too early.
    function test_HowLongAPaymentMayBeHeld() public {
        Drawing memory f = drawing(0);
        f.charge.refundAfter = START + LOCK + 1;
        resign(f);
        bytes memory refusal =
            abi.encodeWithSelector(Mandates.LockTooLong.selector, START + LOCK + 1, START + LOCK);
        expectDepositRefused(f, refusal);
        vm.warp(START + 1);
        makeDeposit(f);
        f = drawing(1);
        f.mandate.lockSeconds = 0;
        resign(f);
        refusal = abi.encodeWithSelector(Mandates.LockTooLong.selector, START + 1 + LOCK, START + 1);
        expectDepositRefused(f, refusal);
        // As long as its type holds.
        f = drawing(1);
        f.mandate.lockSeconds = type(uint32).max;
        f.charge.refundAfter = START + 1 + type(uint32).max;
        resign(f);
        makeDeposit(f);
    }

    /// As much as the payer says where all of a period is drawn, and so in proportion, to the unit.
    function test_HowMuchIsDeliveredAtLeast() public {
        Drawing memory f = drawing(0);
        f.charge.fulfillmentAmount = LEAST_RATE * ASKED - 1;
        resign(f);
        expectDepositRefused(f, tooSmall(f));
        f.charge.fulfillmentAmount += 1;
        resign(f);
        makeDeposit(f);
        // What is not a whole number is rounded up.
        f = drawing(1);
        (f.mandate.least, f.mandate.amount, f.charge.amount) = (10, 7, 2);
        f.award.sourceAmount = 2;
        f.charge.fulfillmentAmount = 2;
        resign(f);
        expectDepositRefused(f, tooSmall(f));
        f.charge.fulfillmentAmount = 3;
        resign(f);
        makeDeposit(f);
        // Without a bound nothing is little enough, and beyond what 256 bits hold nothing is enough.
        f = drawing(2);
        (f.mandate.least, f.charge.fulfillmentAmount) = (0, 0);
        resign(f);
        makeDeposit(f);
        f = drawing(3);
        f.mandate.least = type(uint256).max / ASKED + 1;
        f.charge.fulfillmentAmount = type(uint256).max / MOST;
        resign(f);
        bytes memory overflow = abi.encodeWithSignature("Panic(uint256)", 0x11);
        expectDepositRefused(f, overflow);
        f.mandate.least -= 1;
        f.charge.fulfillmentAmount -= 1;
        resign(f);
        expectDepositRefused(f, tooSmall(f));
        f.charge.fulfillmentAmount += 2;
        resign(f);
        expectDepositRefused(f, overflow);
    }

    function tooSmall(Drawing memory f) private pure returns (bytes memory) {
        return
            abi.encodeWithSelector(Mandates.DeliveryTooSmall.selector, f.charge.fulfillmentAmount, f.charge.amount);
    }

    function test_WhereAPeriodEnds() public {
        vm.warp(startOf(1) - 1);
        makeDeposit(drawing(mandate(), 0, MOST));
        assertUsed(mandate(), 0, MOST);
        expectDepositRefused(drawing(mandate(), 1, 1), aboveThePeriod(1, 0));
        vm.warp(startOf(1));
        makeDeposit(drawing(mandate(), 1, MOST));
        assertUsed(mandate(), 1, MOST);
        vm.warp(startOf(2) - 1);
        expectDepositRefused(drawing(mandate(), 2, 1), aboveThePeriod(1, 0));
        vm.warp(startOf(2));
        makeDeposit(drawing(mandate(), 2, MOST));
    }

    /// Two charges under any mandate at any times: together in one period they are what it has or less, in two each has its own.
    function testFuzz_TwoChargesAtAnyTimes(uint256 most, uint256 length, uint256 first, uint256 next, uint256 a, uint256 b)
        public
    {
        Mandates.Mandate memory m = mandate();
        m.amount = uint160(bound(most, 1, CAP));
        m.least = LEAST_RATE * m.amount;
        m.periodSeconds = uint32(bound(length, 1, 10_000));
        m.periods = uint32(bound(length >> 128, 1, 10_000));
        uint256 all = uint256(m.periodSeconds) * m.periods;
        first = bound(first, 0, all - 1);
        next = bound(next, first, all - 1);
        a = bound(a, 1, m.amount);
        b = bound(b, 1, uint256(m.amount) + 1);
        vm.warp(START + first);
        makeDeposit(drawing(m, 0, uint160(a)));
        assertUsed(m, uint32(first / m.periodSeconds), uint160(a));
        vm.warp(START + next);
        uint256 drawn = first / m.periodSeconds == next / m.periodSeconds ? a : 0;
        if (b > m.amount - drawn) {
            Drawing memory f = drawing(m, 1, uint160(b));
            expectRefused(f, callOf(f), aboveThePeriod(b, m.amount - drawn));
        } else {
            makeDeposit(drawing(m, 1, uint160(b)));
            assertUsed(m, uint32(next / m.periodSeconds), uint160(drawn + b));
        }
    }
}
