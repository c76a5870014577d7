// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2} from "../src/IPermit2.sol";
import {IPermit2Batch} from "../src/IPermit2Batch.sol";
import {BatchEscrow, OwnPermit2} from "./support/BatchEscrow.sol";
import {BatchPaying} from "./support/BatchPaying.sol";

/// @notice Payers whose batch names an escrow of their own: what that takes, keeps and calls its Permit2 is of their own batch's money,
/// and of no other's, be it the same payer's. And strangers who come first.
contract PaymentBatchesEscrowsTest is BatchPaying {
    BatchEscrow private own;
    OwnPermit2 private ownPermit2;

    function setUp() public override {
        super.setUp();
        own = new BatchEscrow(PERMIT2);
        ownPermit2 = new OwnPermit2();
    }

    /// Two payments, both in the payer's own escrow.
    function ownBatch() private view returns (Signed memory) {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(trick), 2);
        for (uint256 i = 0; i < 2; i++) payments[i].escrow = address(own);
        return signed(payments);
    }

    /// Another of the same payer's or of another payer's, in the gateway's escrow, which is drawn: one of its two payments is deposited.
    function otherBatch(bool ofThePayer) private returns (Signed memory s) {
        DepositAddresses.Terms[] memory payments = new DepositAddresses.Terms[](2);
        for (uint256 i = 0; i < 2; i++) payments[i] = payment(10 + i, address(trick), CAP);
        s = ofThePayer
            ? signedBy(payments, payer, payerKey, NONCE ^ 1)
            : signedBy(payments, attacker, attackerKey, NONCE);
        trick.mint(s.batch.payer, 2 * CAP);
        vm.prank(s.batch.payer);
        trick.approve(PERMIT2, type(uint256).max);
        makeDeposit(s, 0);
    }

    function allowanceRefused() private pure returns (bytes memory) {
        return abi.encodeWithSignature("Error(string)", "allowance");
    }

    function tooLittle() private pure returns (bytes memory) {
        return abi.encodeWithSignature("Panic(uint256)", 0x11);
    }

    // What it takes

    function test_AnEscrowsRefusalIsPassedOn() public {
        Signed memory s = ownBatch();
        bytes[3] memory failures = [
            abi.encodeWithSignature("Error(string)", "because"),
            bytes(hex"01"),
            abi.encodePacked(keccak256("many"), new bytes(1_000))
        ];
        for (uint256 i = 0; i < failures.length; i++) {
            own.setFailure(failures[i]);
            expectDepositRefused(fromBatch(s, 1), failures[i]);
        }
        // One without these calls, as what is no escrow is, or an account without code for its Permit2.
        own.setPermit2(stranger);
        expectDepositRefused(fromBatch(s, 1), "");
        for (uint256 i = 0; i < 2; i++) s.payments[i].escrow = address(token);
        resign(s);
        expectDepositRefused(fromBatch(s, 1), "");
    }

    function test_AnEscrowTakesWhatItIsAllowedAndNoMore() public {
        for (uint256 i = 0; i < 2; i++) {
            uint256 snapshot = vm.snapshotState();
            Signed memory other = otherBatch(i == 0);
            Signed memory s = ownBatch();
            address at = addressBy(s.batch);
            own.setTaken(CAP + 2);
            expectDepositRefused(fromBatch(s, 1), allowanceRefused());
            own.setTaken(CAP);
            makeDeposit(s, 1);
            assertEq(trick.balanceOf(address(own)), CAP);
            vm.expectRevert(allowanceRefused());
            own.take(address(trick), addressBy(other.batch), 1);
            vm.expectRevert(allowanceRefused());
            own.take(address(trick), at, 2);
            // What it left it takes yet.
            own.take(address(trick), at, 1);
            makeDeposit(s, 0);
            assertEq(trick.balanceOf(at), 0);
            makeDeposit(other, 1);
            assertEq(trick.balanceOf(address(escrow)), 2 * CAP);
            vm.revertToState(snapshot);
        }
    }

    /// It may take a payment twice, and after the deadline, as long as there is money of this batch; no other batch lacks it then.
    function test_AnEscrowThatTakesAPaymentTwice() public {
        for (uint256 i = 0; i < 2; i++) {
            uint256 snapshot = vm.snapshotState();
            Signed memory other = otherBatch(i == 0);
            Signed memory s = ownBatch();
            own.setTaken(CAP);
            makeDeposit(s, 0);
            makeDeposit(other, 1);
            afterTheDeadline();
            makeDeposit(s, 0);
            expectDepositRefused(fromBatch(s, 0), tooLittle());
            assertEq(giveBack(s.batch, address(trick)), 1);
            assertEq(trick.balanceOf(address(own)), 2 * CAP);
            assertEq(trick.balanceOf(address(escrow)), 2 * CAP);
            vm.revertToState(snapshot);
        }
        // But it is not drawn by that when it is over.
        afterTheDeadline();
        expectDepositRefused(
            fromBatch(ownBatch(), 0), abi.encodeWithSignature("SignatureExpired(uint256)", DEADLINE)
        );
    }

    /// An allowance that it keeps is of this address, which is never drawn again: after the give-back there is nothing to take.
    function test_AnEscrowThatKeepsItsAllowance() public {
        Signed memory s = ownBatch();
        address at = addressBy(s.batch);
        makeDeposit(s, 1);
        assertEq(trick.allowance(at, address(own)), CAP + 1);
        afterTheDeadline();
        uint256 snapshot = vm.snapshotState();
        own.take(address(trick), at, CAP + 1);
        assertEq(giveBack(s.batch, address(trick)), CAP);
        vm.revertToState(snapshot);
        assertEq(giveBack(s.batch, address(trick)), 2 * CAP + 1);
        vm.expectRevert(tooLittle());
        own.take(address(trick), at, 1);
        assertPaid(address(trick), 0, 0);
    }

    /// In the middle of its deposit it may call what everyone may call: for the other payment of the batch, or another batch's.
    function test_AnEscrowThatCallsBack() public {
        Signed memory other = otherBatch(false);
        Signed memory s = ownBatch();
        bytes[4] memory calls = [
            callOf(fromBatch(s, 0)),
            callOf(fromBatch(other, 1)),
            abi.encodeCall(batches.giveBack, (s.batch, address(trick))),
            abi.encodeCall(batches.giveBack, (other.batch, address(trick)))
        ];
        own.setTaken(CAP);
        for (uint256 i = 1; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            own.setCall(address(batches), calls[i]);
            makeDeposit(s, 1);
            assertEq(own.succeeded(), i == 1);
            assertEq(trick.balanceOf(addressBy(s.batch)), CAP + 1);
            assertEq(trick.balanceOf(addressBy(other.batch)), i == 1 ? 0 : CAP);
            assertEq(trick.balanceOf(address(escrow)), i == 1 ? 2 * CAP : CAP);
            assertEq(trick.balanceOf(address(own)), CAP);
            vm.revertToState(snapshot);
        }
        // When it is late, what is given back meanwhile it cannot take any more.
        makeDeposit(s, 0);
        afterTheDeadline();
        own.setCall(address(batches), calls[2]);
        expectBatchCallRefused(callOf(fromBatch(s, 1)), tooLittle());
        assertEq(trick.balanceOf(addressBy(s.batch)), CAP + 1);
    }

    // What it calls its Permit2

    /// Which brings the money itself, to the unit; less, more or nothing is not drawn. The payer's is not touched.
    function test_APermit2ThatBringsTheMoneyItself() public {
        Signed memory s = ownBatch();
        own.setPermit2(address(ownPermit2));
        trick.mint(address(ownPermit2), 10 * CAP);
        uint256 all = 2 * CAP + 1;
        int256[3] memory excess = [int256(1), -1, -int256(all)];
        for (uint256 i = 0; i < 3; i++) {
            ownPermit2.setExcess(excess[i]);
            bytes memory refusal = drawnNotExact(address(trick), all, uint256(int256(all) + excess[i]));
            expectDepositRefused(fromBatch(s, 1), refusal);
        }
        ownPermit2.setExcess(0);
        FromBatch memory f = fromBatch(s, 1);
        f.signature = "";
        own.setTaken(CAP);
        makeDeposit(f);
        // And what the payer signed draws nothing any more.
        own.setPermit2(PERMIT2);
        makeDeposit(s, 0);
        assertFalse(isUsed(payer, NONCE));
        assertEq(trick.balanceOf(payer), WEALTH);
        assertEq(trick.balanceOf(address(own)), 2 * CAP);
    }

    /// It draws nothing of an account whose batch is for the gateway's escrow, nor of any that signed for nothing.
    function test_APermit2ServesItsOwnBatchAlone() public {
        Signed memory other = signed(paymentsIn(address(trick), 2));
        own.setPermit2(address(ownPermit2));
        trick.mint(address(ownPermit2), 10 * CAP);
        FromBatch memory f = fromBatch(other, 0);
        f.terms.escrow = address(own);
        expectDepositRefused(f, notItsEscrow(address(own)));
        f.batch.escrow = address(own);
        expectDepositRefused(f, notInBatch(f));
        other = signed(paymentsIn(address(trick), 2));
        // A batch of the payer's for it is another address, where the payer's money never is.
        f = fromBatch(ownBatch(), 0);
        f.signature = "";
        makeDeposit(f);
        assertEq(trick.balanceOf(addressBy(other.batch)), 0);
        makeDeposit(other, 0);
        assertEq(trick.balanceOf(payer), WEALTH - 2 * CAP - 1);
        assertEq(trick.balanceOf(addressBy(other.batch)), CAP + 1);
    }

    /// A batch that permits nothing of a token is drawn of nothing, and there is nothing to deposit then.
    function test_APermit2ThatBringsNothingWhereNothingIsPermitted() public {
        Signed memory s = ownBatch();
        s.batch.permitted[0].amount = 0;
        resign(s);
        own.setPermit2(address(ownPermit2));
        makeDeposit(s, 1);
        own.setTaken(CAP);
        expectDepositRefused(fromBatch(s, 0), tooLittle());
        assertPaid(address(trick), 0, 0);
    }

    /// Nor does the payer's signature serve it: the spender would be another.
    function test_APermit2ThatGoesToTheRightOne() public {
        Signed memory s = ownBatch();
        own.setPermit2(address(ownPermit2));
        IPermit2.SignatureTransferDetails[] memory transfers = new IPermit2.SignatureTransferDetails[](1);
        transfers[0] = IPermit2.SignatureTransferDetails(addressBy(s.batch), 2 * CAP + 1);
        bytes memory call = abi.encodeCall(
            IPermit2Batch.permitWitnessTransferFrom,
            (
                IPermit2Batch.PermitBatchTransferFrom(s.batch.permitted, NONCE, DEADLINE),
                transfers,
                payer,
                keccak256(abi.encode(WITNESS_TYPEHASH, s.batch.escrow, s.batch.payments)),
                batches.WITNESS_TYPE(),
                s.signature
            )
        );
        ownPermit2.setCall(PERMIT2, call, false);
        ownPermit2.setExcess(-int256(2 * CAP + 1));
        expectDepositRefused(fromBatch(s, 1), drawnNotExact(address(trick), 2 * CAP + 1, 0));
    }

    /// In the middle of the draw it may have the other payment deposited, of what it brought: then it brings that once more, or all
    /// is undone. What is there of strays counts for nothing.
    function test_APermit2ThatCallsBack() public {
        Signed memory s = ownBatch();
        own.setPermit2(address(ownPermit2));
        own.setTaken(CAP);
        trick.mint(address(ownPermit2), 10 * CAP);
        uint256 all = 2 * CAP + 1;
        for (uint256 i = 0; i < 8; i++) {
            (bool late, bool strays, bool replaced) = (i % 2 == 1, i / 2 % 2 == 1, i > 3);
            uint256 snapshot = vm.snapshotState();
            if (strays) trick.mint(addressBy(s.batch), CAP);
            if (replaced) ownPermit2.setExcess(int256(CAP));
            ownPermit2.setCall(address(batches), callOf(fromBatch(s, 0)), late);
            bool deposited = late || strays;
            uint256 received = all + (replaced ? CAP : 0) - (deposited ? CAP : 0);
            if (received != all) {
                expectDepositRefused(fromBatch(s, 1), drawnNotExact(address(trick), all, received));
            } else {
                makeDeposit(s, 1);
                assertEq(ownPermit2.succeeded(), deposited);
                assertEq(trick.balanceOf(addressBy(s.batch)), CAP + 1 + (strays ? CAP : 0));
                assertEq(trick.balanceOf(address(own)), deposited ? 2 * CAP : CAP);
                assertEq(trick.balanceOf(payer), WEALTH);
            }
            vm.revertToState(snapshot);
        }
    }

    /// A batch's address, the contract itself, an escrow or a token in its place is asked for what it does not know.
    function test_WhatIsNoPermit2() public {
        Signed memory other = otherBatch(false);
        Signed memory s = ownBatch();
        address[5] memory named =
            [addressBy(other.batch), batches.implementation(), address(batches), address(escrow), address(trick)];
        for (uint256 i = 0; i < named.length; i++) {
            own.setPermit2(named[i]);
            expectDepositRefused(fromBatch(s, 1), "");
        }
        assertEq(trick.balanceOf(addressBy(other.batch)), CAP);
        assertEq(trick.balanceOf(payer), WEALTH);
    }

    // Others' deposits

    /// Who sees a deposit coming can make it first, or that of another payment: it is the same deposit, and the other finds the money.
    /// With a wrong signature, proof or award he makes none, and leaves nothing behind that would stop the right one.
    function test_AStrangerWhoComesFirst() public {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 3);
        Signed memory s = signed(payments);
        FromBatch memory f = fromBatch(s, 0);
        bytes memory call = callOf(f);
        FromBatch memory wrong = fromBatch(s, 0);
        wrong.signature = sign(attackerKey, batchDigest(s.batch));
        expectDepositRefused(wrong, invalidSigner());
        wrong = fromBatch(s, 0);
        wrong.award.settler = attacker;
        expectDepositRefused(wrong, callOf(wrong, admissionOf(f)), notAdmitted());
        expectNotGivenBack(s.batch, address(token), notYet());

        uint256 snapshot = vm.snapshotState();
        vm.prank(attacker);
        (bool made,) = address(batches).call(call);
        assertTrue(made);
        bytes32 first = keccak256(abi.encode(escrow.recordOf(idOf(0)), token.balanceOf(payer)));
        expectDepositRefused(f, call, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(0)));
        vm.revertToState(snapshot);
        makeDeposit(f);
        assertEq(keccak256(abi.encode(escrow.recordOf(idOf(0)), token.balanceOf(payer))), first);
        vm.revertToState(snapshot);
        bytes memory another = callOf(fromBatch(s, 2));
        vm.prank(attacker);
        (made,) = address(batches).call(another);
        assertTrue(made);
        makeDeposit(f);
        makeDeposit(s, 1);
        assertEq(token.balanceOf(address(escrow)), 3 * CAP + 3);
    }

    /// What is admitted for a payment can be paid by anybody in the payer's place, with his own money. Then the payer's is not taken for
    /// it, and comes back.
    function test_AStrangerWhoPaysInThePayersPlace() public {
        Signed memory s = signed(paymentsIn(address(token), 2));
        FromBatch memory f = fromBatch(s, 0);
        bytes memory admission = admissionOf(f);
        token.mint(attacker, CAP);
        vm.startPrank(attacker);
        token.approve(address(escrow), CAP);
        escrow.depositFor(f.terms.deposit, address(token), CAP, f.award, f.admittedUntil, admission);
        vm.stopPrank();
        expectDepositRefused(f, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(0)));
        makeDeposit(s, 1);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), CAP);
        assertEq(token.balanceOf(payer), WEALTH - CAP - 1);
    }
}
