// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {BatchEscrow} from "./support/BatchEscrow.sol";
import {CoinTaker} from "./support/CoinTaker.sol";
import {Mandating} from "./support/Mandating.sol";
import {CallsOnce, HalfToken, Liar, Mute, OddApproval} from "./support/OddTokens.sol";
import {OwnAllowances} from "./support/OwnAllowances.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Mandates in tokens, of payers and with escrows that misbehave, and the same words again and elsewhere: what is drawn comes
/// into the escrow as it was signed or not at all, and nothing of one mandate is another's.
contract MandatesHostileTest is Mandating {
    /// The first charge under a mandate in that token, with all right.
    function drawingIn(TrickToken asset) private returns (Drawing memory) {
        if (address(asset) != address(trick)) enrich(address(asset));
        return drawing(mandateOf(payer, address(asset)), 0, ASKED);
    }

    // Tokens: what they answer

    /// Permit2 asks for true or nothing, also where the money moved.
    function test_WhateverATokenAnswers() public {
        Drawing memory f = drawingIn(trick);
        for (uint8 answer = 0; answer <= uint8(TrickToken.Answer.Bomb); answer++) {
            uint256 snapshot = vm.snapshotState();
            trick.setAnswer(TrickToken.Answer(answer));
            bool refused = answer == uint8(TrickToken.Answer.False) || answer == uint8(TrickToken.Answer.Bomb);
            if (refused) expectDepositRefused(f, failedTransfer());
            else makeDeposit(f);
            // What lies there is given back all the same.
            trick.mint(addressBy(f.mandate), 7);
            assertEq(giveBack(f.mandate, address(trick)), 7);
            assertEq(trick.balanceOf(payer), WEALTH + 7 - (refused ? 0 : ASKED));
            vm.revertToState(snapshot);
        }
    }

    /// Where no allowance can be given, nothing is deposited; one that is left is ended first.
    function test_EveryKindOfApprove() public {
        for (uint8 kind = 0; kind <= uint8(OddApproval.Kind.Fails); kind++) {
            OddApproval asset = new OddApproval(OddApproval.Kind(kind));
            asset.mint(payer, WEALTH);
            vm.prank(payer);
            (bool allowed,) = address(asset).call(abi.encodeCall(asset.approve, (PERMIT2, type(uint256).max)));
            Drawing memory f = drawing(mandateOf(payer, address(asset)), 10 + kind, ASKED);
            if (kind == uint8(OddApproval.Kind.Fails)) {
                assertFalse(allowed);
                expectDepositRefused(f, failedTransfer());
            } else {
                makeDeposit(f);
                assertEq(asset.balanceOf(address(escrow)), ASKED);
            }
        }
    }

    function test_WhatIsNoTokenOrTellsNoBalance() public {
        Drawing memory f = drawing(mandateOf(payer, stranger), 0, ASKED);
        expectDepositRefused(f, "");
        f = drawing(mandateOf(payer, address(new Mute(32))), 0, ASKED);
        expectDepositRefused(f, failedTransfer());
        f = drawing(mandateOf(payer, address(new Mute(0))), 0, ASKED);
        expectDepositRefused(f, "");
        expectNotGivenBack(f.mandate, f.mandate.token, "");
    }

    // Tokens: what they move

    /// Less than was asked for, nothing or more is not drawn, whatever lies there already.
    function test_ATokenThatMovesAnotherAmount() public {
        Drawing memory f = drawingIn(trick);
        address at = addressBy(f.mandate);
        for (uint256 strays = 0; strays <= ASKED; strays += ASKED) {
            trick.mint(at, strays);
            uint256 snapshot = vm.snapshotState();
            trick.setFee(1);
            expectDepositRefused(f, drawnNotExact(ASKED, ASKED - 1));
            trick.setFee(ASKED);
            expectDepositRefused(f, drawnNotExact(ASKED, 0));
            vm.revertToState(snapshot);
            trick.setDenial(at, TrickToken.Denial.MovesNothing);
            expectDepositRefused(f, drawnNotExact(ASKED, 0));
            trick.setDenial(at, TrickToken.Denial.Reverts);
            expectDepositRefused(f, failedTransfer());
            vm.revertToState(snapshot);
            trick.setHook(address(trick), abi.encodeCall(TrickToken.mint, (at, 1)));
            expectDepositRefused(f, drawnNotExact(ASKED, ASKED + 1));
            vm.revertToState(snapshot);
        }
        // Even less is there afterwards than before.
        trick.setFee(ASKED);
        trick.setHook(address(trick), abi.encodeCall(TrickToken.shrink, (at, 1)));
        expectDepositRefused(f, drawnNotExact(ASKED, 0));
        expectDepositRefused(drawingIn(new HalfToken()), drawnNotExact(ASKED, ASKED / 2));
    }

    /// Of a token that lies about the address more is told than came, or less, or nothing came at all; the escrow is not told so.
    function test_ATokenThatLiesAboutTheAddress() public {
        int256[3] memory lies = [int256(1), -1, -int256(uint256(ASKED))];
        for (uint256 i = 0; i < lies.length; i++) {
            Drawing memory f = drawingIn(new Liar());
            Liar(f.mandate.token).setLie(addressBy(f.mandate), lies[i], true);
            expectDepositRefused(f, drawnNotExact(ASKED, uint256(int256(uint256(ASKED)) + lies[i])));
        }
        Drawing memory nothing = drawingIn(new Liar());
        Liar(nothing.mandate.token).setLie(addressBy(nothing.mandate), int256(uint256(ASKED)), false);
        expectDepositRefused(nothing, escrowReceived(ASKED, 0));
    }

    /// One that the escrow is denied by draws nothing; one that denies the payer gives back later, and one with a fee less that.
    function test_ATokenThatDeniesOrCharges() public {
        Drawing memory f = drawingIn(trick);
        address at = addressBy(f.mandate);
        trick.setDenial(address(escrow), TrickToken.Denial.MovesNothing);
        expectDepositRefused(f, escrowReceived(ASKED, 0));
        trick.setDenial(payer, TrickToken.Denial.Reverts);
        trick.mint(at, 10);
        expectNotGivenBack(f.mandate, address(trick), notMoved(address(trick)));
        trick.setDenial(payer, TrickToken.Denial.None);
        trick.setFee(3);
        vm.expectEmit(address(mandates));
        emit Mandates.GivenBack(at, payer, address(trick), 10);
        assertEq(giveBack(f.mandate, address(trick)), 10);
        assertEq(trick.balanceOf(payer), WEALTH + 7);
    }

    // Tokens and payers that call back

    /// What is called while the token moves the money to the address, or on into the escrow: the same charge, another of the period, one
    /// beyond it, another payer's, the end of the mandate, and a return. Nothing of it draws more or deposits anything else.
    function test_ATokenThatCallsBackDuringTheDeposit() public {
        CallsOnce asset = new CallsOnce();
        Drawing memory f = drawingIn(asset);
        address at = addressBy(f.mandate);
        bytes[6] memory calls = callsDuring(asset, f);
        for (uint256 i = 0; i < 24; i++) {
            (uint256 call, bool late, bool onward) = (i % 6, i / 6 % 2 == 1, i > 11);
            uint256 snapshot = vm.snapshotState();
            if (late) asset.setAfter();
            if (onward) asset.setSkipped(1);
            asset.setHook(address(mandates), calls[call]);
            if (call == 0 && !onward) {
                expectDepositRefused(f, idUsed(0));
            } else if (call == 5 && late && !onward) {
                expectDepositRefused(f, drawnNotExact(ASKED, 0));
            } else if (call == 5 && !late && onward) {
                expectDepositRefused(f, escrowReceived(ASKED, 0));
            } else {
                makeDeposit(f);
                // Others go in beside it, unless the escrow is busy.
                bool another = call == 1 && !onward;
                bool both = another || call == 3 && !onward;
                assertEq(asset.hookSucceeded(), both || call == 4, "called");
                assertEq(asset.balanceOf(address(escrow)), both ? 2 * ASKED : ASKED);
                assertEq(asset.balanceOf(payer), WEALTH - (another ? 2 * ASKED : ASKED));
                (, uint160 drawn, bool cancelled) = mandates.used(at);
                assertEq(drawn, another ? 2 * ASKED : ASKED);
                assertEq(cancelled, call == 4);
            }
            assertEq(asset.balanceOf(at), 0);
            vm.revertToState(snapshot);
        }
    }

    function callsDuring(CallsOnce asset, Drawing memory f) private returns (bytes[6] memory) {
        asset.mint(attacker, ASKED);
        vm.prank(attacker);
        asset.approve(PERMIT2, type(uint256).max);
        Drawing memory other = drawing(mandateOf(attacker, address(asset)), 20, ASKED);
        other.permit = sign(attackerKey, permitDigest(other.mandate));
        return [
            callOf(f),
            callOf(drawing(f.mandate, 1, ASKED)),
            callOf(drawing(f.mandate, 2, MOST)),
            callOf(other),
            abi.encodeCall(mandates.cancel, (f.mandate, sign(payerKey, cancellationDigest(f.mandate)))),
            abi.encodeCall(mandates.giveBack, (f.mandate, address(asset)))
        ];
    }

    function test_ATokenThatCallsBackWhileItIsGivenBack() public {
        CallsOnce asset = new CallsOnce();
        Drawing memory f = drawingIn(asset);
        asset.mint(addressBy(f.mandate), 9);
        bytes[2] memory calls = [callOf(f), abi.encodeCall(mandates.giveBack, (f.mandate, address(asset)))];
        for (uint256 i = 0; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            if (i > 1) asset.setAfter();
            asset.setHook(address(mandates), calls[i % 2]);
            if (i == 1) {
                // What was sent meanwhile cannot be sent again, so all of it is undone.
                expectNotGivenBack(f.mandate, address(asset), notMoved(address(asset)));
            } else {
                assertEq(giveBack(f.mandate, address(asset)), 9);
                assertEq(asset.hookSucceeded(), i % 2 == 0);
                assertEq(asset.balanceOf(address(escrow)), i % 2 == 0 ? ASKED : 0);
                assertEq(asset.balanceOf(payer), WEALTH + 9 - (i % 2 == 0 ? ASKED : 0));
            }
            vm.revertToState(snapshot);
        }
    }

    function test_APayerThatRefusesCoinsOrCallsBack() public {
        CoinTaker account = new CoinTaker();
        Mandates.Mandate memory m = mandateOf(address(account), address(token));
        address at = addressBy(m);
        vm.deal(at, 1 ether);
        account.setRefuses(true);
        expectNotGivenBack(m, address(0), notMoved(address(0)));
        account.setRefuses(false);
        bytes[2] memory calls = [
            abi.encodeCall(mandates.giveBack, (m, address(0))),
            abi.encodeCall(DepositAddress.pay, (address(token), attacker, 1))
        ];
        token.mint(at, 1);
        for (uint256 i = 0; i < 2; i++) {
            account.setCall(i == 0 ? address(mandates) : at, calls[i]);
            assertEq(giveBack(m, address(0)), 1 ether);
            assertFalse(account.succeeded());
            vm.deal(at, 1 ether);
        }
        assertEq(token.balanceOf(at), 1);
    }

    // Escrows and what they call their Permit2

    /// A mandate of the attacker's own, of its own merchant's, with its own escrow and Permit2, which brings the money itself.
    function ownDrawing(address by) private returns (Drawing memory f, BatchEscrow own, OwnAllowances allowances) {
        allowances = new OwnAllowances();
        own = new BatchEscrow(address(allowances));
        trick.mint(address(allowances), 10 * CAP);
        f = drawing(mandateOf(by, address(trick)), 50, ASKED);
        (f.mandate.escrow, f.mandate.merchant, f.mandate.amount) = (address(own), attacker, 10 * MOST);
        f.charge.signature = sign(attackerKey, digestOf(f));
    }

    function test_AnEscrowThatTakesLessOrLater() public {
        (Drawing memory f, BatchEscrow own,) = ownDrawing(attacker);
        address at = addressBy(f.mandate);
        own.setTaken(ASKED - 1);
        mandates.deposit(f.mandate, f.permit, f.charge, f.award, f.admittedUntil, "");
        assertEq(giveBack(f.mandate, address(trick)), 1);
        // What it may take still it takes of what comes to this address, which is the attacker's.
        trick.mint(at, 1);
        own.take(address(trick), at, 1);
        assertEq(trick.balanceOf(at), 0);
        assertEq(trick.balanceOf(payer), WEALTH);
        own.setFailure("as it likes");
        f.charge.paymentId = idOf(51);
        f.charge.signature = sign(attackerKey, digestOf(f));
        expectCallRefused(callOf(f, ""), "as it likes");
    }

    /// It is asked as Permit2 is, and judged by what moved.
    function test_APermit2ThatBringsAnotherAmount() public {
        (Drawing memory f, BatchEscrow own, OwnAllowances allowances) = ownDrawing(attacker);
        own.setTaken(ASKED);
        int256[3] memory excesses = [-int256(uint256(ASKED)), -1, int256(1)];
        for (uint256 i = 0; i < 3; i++) {
            allowances.setExcess(excesses[i]);
            uint256 came = uint256(int256(uint256(ASKED)) + excesses[i]);
            expectCallRefused(callOf(f, ""), drawnNotExact(ASKED, came));
        }
        allowances.setExcess(0);
        allowances.setAsksForPermits();
        mandates.deposit(f.mandate, f.permit, f.charge, f.award, f.admittedUntil, "");
        assertEq(allowances.permits(), 1);
        own.setPermit2(stranger);
        f.charge.paymentId = idOf(51);
        f.charge.signature = sign(attackerKey, digestOf(f));
        expectCallRefused(callOf(f, ""), "");
    }

    /// In the middle of the attacker's own draw nothing can be had of the payer's that could not be had beside it; and what names the payer,
    /// but not what it signed, has no allowance.
    function test_NothingOfAnothersMandate() public {
        Drawing memory f = drawingIn(trick);
        makeDeposit(f);
        trick.mint(addressBy(f.mandate), 5);
        (Drawing memory own, BatchEscrow escrow_, OwnAllowances allowances) = ownDrawing(attacker);
        escrow_.setTaken(ASKED);
        bytes[4] memory calls = [
            callOf(f),
            callOf(drawing(f.mandate, 1, MOST)),
            abi.encodeCall(mandates.cancel, (f.mandate, sign(attackerKey, cancellationDigest(f.mandate)))),
            abi.encodeWithSignature("draw(address,address,address,uint160)", PERMIT2, payer, address(trick), 1)
        ];
        for (uint256 i = 0; i < 8; i++) {
            own.charge.paymentId = idOf(60 + i);
            own.charge.signature = sign(attackerKey, digestOf(own));
            address target = i % 4 == 3 ? addressBy(f.mandate) : address(mandates);
            if (i < 4) allowances.setCall(target, calls[i % 4], i % 2 == 0);
            else escrow_.setCall(target, calls[i % 4]);
            mandates.deposit(own.mandate, "", own.charge, own.award, own.admittedUntil, "");
            assertFalse(allowances.succeeded() || escrow_.succeeded());
        }
        assertEq(trick.balanceOf(addressBy(f.mandate)), 5);
        assertEq(trick.balanceOf(payer), WEALTH - ASKED);
        assertUsed(f.mandate, 0, ASKED);
        // The payer's name on another mandate, with the Permit2 of all or with none at all.
        (own, escrow_,) = ownDrawing(payer);
        escrow_.setPermit2(PERMIT2);
        own.permit = f.permit;
        expectCallRefused(callOf(own, ""), invalidSigner());
        own.permit = "";
        expectCallRefused(callOf(own, ""), abi.encodeWithSignature("AllowanceExpired(uint256)", 0));
    }

    // Words again, elsewhere and in other forms

    /// The lower half of `s` alone, in 65 bytes, with a `v` of 27 or 28. Permit2 takes both halves, once.
    function test_OneFormOfASignature() public {
        Drawing memory f = drawing(0);
        bytes memory right = f.charge.signature;
        (bytes32 r, bytes32 s) = abi.decode(right, (bytes32, bytes32));
        f.charge.signature = otherHalf(right);
        (, bytes32 high) = abi.decode(f.charge.signature, (bytes32, bytes32));
        expectDepositRefused(f, abi.encodeWithSignature("ECDSAInvalidSignatureS(bytes32)", high));
        f.charge.signature = abi.encodePacked(r, s);
        expectDepositRefused(f, abi.encodeWithSignature("ECDSAInvalidSignatureLength(uint256)", 64));
        f.charge.signature = abi.encodePacked(r, s, uint8(right[64]) - 27);
        expectDepositRefused(f, abi.encodeWithSignature("ECDSAInvalidSignature()"));
        f.charge.signature = right;
        bytes memory end = otherHalf(sign(payerKey, cancellationDigest(f.mandate)));
        vm.prank(stranger);
        vm.expectRevert(notByPayer(f.mandate));
        mandates.cancel(f.mandate, end);
        f.permit = otherHalf(f.permit);
        makeDeposit(f);
        IPermit2Allowance.PermitSingle memory p = permitBy(f.mandate);
        vm.expectRevert(abi.encodeWithSignature("InvalidNonce()"));
        IPermit2Allowance(PERMIT2).permit(payer, p, otherHalf(f.permit));
    }

    function otherHalf(bytes memory signature) private pure returns (bytes memory) {
        (bytes32 r, uint256 s) = abi.decode(signature, (bytes32, uint256));
        uint256 order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141;
        return abi.encodePacked(r, order - s, uint8(signature[64]) ^ 7);
    }

    /// The same call, the same charge admitted anew, and both when the payment is over and when another period has begun.
    function test_TheSameChargeAgain() public {
        Drawing memory f = drawing(0);
        f.mandate.lockSeconds = 2 * PERIOD;
        (f.charge.reserveDeadline, f.charge.fulfillmentDeadline) = (START + PERIOD, START + PERIOD + 1);
        (f.charge.refundAfter, f.admittedUntil) = (START + PERIOD + 2, START + PERIOD);
        resign(f);
        bytes memory call = callOf(f);
        makeDeposit(f);
        for (uint256 i = 0; i < 3; i++) {
            if (i == 1) escrow.cancel(termsOf(idOf(0)), signNonDelivery(releaserKey, idOf(0), QUOTE));
            if (i == 2) vm.warp(startOf(1));
            expectDepositRefused(f, call, idUsed(0));
            f.award.quoteHash = keccak256(abi.encode("another quote", i));
            expectDepositRefused(f, idUsed(0));
        }
        assertPaid(address(token), 0, 0);
    }

    /// A merchant of many payers asks each by itself.
    function test_AChargeOfAnotherMandate() public {
        Drawing memory f = drawing(0);
        Drawing memory other = drawing(mandateOf(attacker, address(token)), 0, ASKED);
        other.permit = sign(attackerKey, permitDigest(other.mandate));
        token.mint(attacker, ASKED);
        vm.prank(attacker);
        token.approve(PERMIT2, type(uint256).max);
        f.charge.signature = other.charge.signature;
        expectDepositRefused(f, notTheMerchant(f));
        // And one payment's id is one payer's alone, in whoever's mandate it came first.
        makeDeposit(other);
        expectDepositRefused(drawing(0), idUsed(0));
        assertEq(token.balanceOf(payer), WEALTH);
    }

    /// What was ended before the permit was ever brought is not drawn, whoever brings that.
    function test_EndedBeforeThePermitWasBrought() public {
        Drawing memory f = drawing(0);
        vm.prank(payer);
        mandates.cancel(f.mandate, "");
        expectDepositRefused(f, cancelledAt(f.mandate));
        vm.prank(attacker);
        IPermit2Allowance(PERMIT2).permit(payer, permitBy(f.mandate), f.permit);
        expectDepositRefused(f, cancelledAt(f.mandate));
        vm.warp(startOf(3));
        expectDepositRefused(drawing(1), cancelledAt(f.mandate));
        assertEq(allowanceOf(f.mandate).amount, MOST * PERIODS);
    }

    /// Who sees the call first can bring the permit, make the code, or pay in the payer's place, which leaves the payer its money.
    function test_WhoIsFaster() public {
        Drawing memory f = drawing(0);
        token.mint(addressBy(f.mandate), 1);
        vm.startPrank(attacker);
        mandates.giveBack(f.mandate, address(token));
        IPermit2Allowance(PERMIT2).permit(payer, permitBy(f.mandate), f.permit);
        uint256 snapshot = vm.snapshotState();
        token.mint(attacker, ASKED);
        token.approve(address(escrow), ASKED);
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        escrow.depositFor(d, address(token), ASKED, f.award, f.admittedUntil, admissionOf(f));
        vm.stopPrank();
        expectDepositRefused(f, idUsed(0));
        assertEq(token.balanceOf(payer), WEALTH + 1);
        assertUsed(f.mandate, 0, 0);
        vm.revertToState(snapshot);
        makeDeposit(f);
        assertEq(token.balanceOf(payer), WEALTH + 1 - ASKED);
    }

    // Gas

    /// However little gas a caller sends along: all of it is done or nothing.
    function testFuzz_AnyGasDoesAllOrNothing(uint256 limit, uint256 needed) public {
        Drawing memory f = drawingIn(trick);
        trick.setGasNeeded(bound(needed, 0, 200_000));
        (bool done,) = address(mandates).call{gas: bound(limit, 1_000, 800_000)}(callOf(f));
        assertUsed(f.mandate, 0, done ? ASKED : 0);
        assertEq(trick.balanceOf(payer), WEALTH - (done ? ASKED : 0));
        assertEq(trick.balanceOf(address(escrow)), done ? ASKED : 0);
        assertEq(uint8(stateOf(idOf(0))), uint8(done ? GatewayEscrow.State.Reserved : GatewayEscrow.State.None));
        assertEq(allowanceOf(f.mandate).nonce, done ? 1 : 0);
    }
}
