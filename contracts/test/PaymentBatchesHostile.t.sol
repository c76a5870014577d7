// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {BatchPaying} from "./support/BatchPaying.sol";
import {CoinTaker} from "./support/CoinTaker.sol";
import {CallsOnce, HalfToken, Liar, Mute, OddApproval, TwoNames} from "./support/OddTokens.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice A payer that takes whatever signature is brought, and does with coins what it is told: takes them, refuses them, or calls
/// somebody.
contract CoinPayer is CoinTaker {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        return this.isValidSignature.selector;
    }
}

/// @notice Batches in tokens and of payers that misbehave: a payment is deposited as it was signed or not at all, and what is left goes to
/// the payer or nowhere.
contract PaymentBatchesHostileTest is BatchPaying {
    /// Two payments in that token, of `CAP` and of one unit more, with all right.
    function batchIn(TrickToken asset) private returns (Signed memory) {
        if (address(asset) != address(trick)) enrich(address(asset));
        return signed(paymentsIn(address(asset), 2));
    }

    function assertHeld(Signed memory s, uint256 left, uint256 inEscrow) private view {
        TrickToken asset = TrickToken(s.payments[0].token);
        assertEq(asset.balanceOf(addressBy(s.batch)), left, "at the address");
        assertEq(asset.balanceOf(address(escrow)), inEscrow, "in the escrow");
    }

    function failedTransfer() private pure returns (bytes memory) {
        return abi.encodeWithSignature("Error(string)", "TRANSFER_FROM_FAILED");
    }

    // Tokens: what they answer

    /// Permit2 asks for true or nothing, also where the money moved; what is drawn already moves whatever the token answers.
    function test_WhateverATokenAnswersOnceItIsDrawn() public {
        for (uint8 answer = 0; answer <= uint8(TrickToken.Answer.Bomb); answer++) {
            uint256 snapshot = vm.snapshotState();
            Signed memory s = batchIn(trick);
            trick.setAnswer(TrickToken.Answer(answer));
            if (answer == uint8(TrickToken.Answer.False) || answer == uint8(TrickToken.Answer.Bomb)) {
                expectDepositRefused(fromBatch(s, 0), failedTransfer());
                trick.setAnswer(TrickToken.Answer.True);
            }
            makeDeposit(s, 0);
            trick.setAnswer(TrickToken.Answer(answer));
            makeDeposit(s, 1);
            assertHeld(s, 0, 2 * CAP + 1);
            trick.mint(addressBy(s.batch), 7);
            afterTheDeadline();
            assertEq(giveBack(s.batch, address(trick)), 7);
            vm.revertToState(snapshot);
        }
    }

    /// Where no allowance can be given, nothing is deposited; one that is left is ended first.
    function test_EveryKindOfApprove() public {
        for (uint8 kind = 0; kind <= uint8(OddApproval.Kind.Fails); kind++) {
            uint256 snapshot = vm.snapshotState();
            OddApproval asset = new OddApproval(OddApproval.Kind(kind));
            asset.mint(payer, WEALTH);
            vm.prank(payer);
            (bool allowed,) = address(asset).call(abi.encodeCall(asset.approve, (PERMIT2, type(uint256).max)));
            Signed memory s = signed(paymentsIn(address(asset), 2));
            if (kind == uint8(OddApproval.Kind.Fails)) {
                // So the payer could allow Permit2 nothing, either.
                assertFalse(allowed);
                expectDepositRefused(fromBatch(s, 0), failedTransfer());
            } else {
                makeDeposit(s, 0);
                makeDeposit(s, 1);
                assertHeld(s, 0, 2 * CAP + 1);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_WhatIsNoTokenOrTellsNoBalance() public {
        Signed memory s = signed(paymentsIn(stranger, 2));
        expectDepositRefused(fromBatch(s, 0), "");
        s = signed(paymentsIn(address(new Mute(32)), 2));
        expectDepositRefused(fromBatch(s, 0), failedTransfer());
        s = signed(paymentsIn(address(new Mute(0)), 2));
        expectDepositRefused(fromBatch(s, 0), "");
        token.mint(addressBy(s.batch), 1);
        afterTheDeadline();
        expectNotGivenBack(s.batch, s.payments[0].token, "");
        expectNotGivenBack(s.batch, stranger, nothingThere(stranger));
        // What else is there is the payer's.
        assertEq(giveBack(s.batch, address(token)), 1);
    }

    /// One of the batch's tokens that cannot be moved keeps all of it from being drawn; after the draw it keeps its own.
    function test_ATokenThatStopsHoldsUpItsOwn() public {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 2);
        payments[1].token = address(trick);
        Signed memory s = signed(payments);
        address at = addressBy(s.batch);
        trick.setDenial(at, TrickToken.Denial.Reverts);
        expectDepositRefused(fromBatch(s, 0), failedTransfer());
        trick.setDenial(at, TrickToken.Denial.MovesNothing);
        expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), CAP + 1, 0));
        trick.setDenial(at, TrickToken.Denial.None);
        uint256 snapshot = vm.snapshotState();
        makeDeposit(s, 0);
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.MovesNothing); d++) {
            trick.setDenial(address(escrow), TrickToken.Denial(d));
            expectDepositRefused(fromBatch(s, 1), escrowReceived(CAP + 1, 0));
        }
        vm.revertToState(snapshot);
        trick.setDenial(address(escrow), TrickToken.Denial.Reverts);
        makeDeposit(s, 0);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(trick)), CAP + 1);
    }

    // Tokens: what they move

    /// Less than was permitted, nothing or more is not drawn, whatever lies there already.
    function test_ATokenThatMovesAnotherAmount() public {
        Signed memory s = batchIn(trick);
        address at = addressBy(s.batch);
        uint256 all = 2 * CAP + 1;
        for (uint256 strays = 0; strays <= all; strays += all) {
            trick.mint(at, strays);
            uint256 snapshot = vm.snapshotState();
            trick.setFee(1);
            expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), all, all - 1));
            trick.setFee(all);
            expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), all, 0));
            vm.revertToState(snapshot);
            trick.setDenial(at, TrickToken.Denial.MovesNothing);
            expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), all, 0));
            vm.revertToState(snapshot);
            trick.setHook(address(trick), abi.encodeCall(TrickToken.mint, (at, 1)));
            expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), all, all + 1));
            vm.revertToState(snapshot);
        }
        // Even less is there afterwards than before.
        trick.setFee(all);
        trick.setHook(address(trick), abi.encodeCall(TrickToken.shrink, (at, 1)));
        expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(trick), all, 0));
        Signed memory half = batchIn(new HalfToken());
        expectDepositRefused(fromBatch(half, 0), drawnNotExact(half.payments[0].token, all, CAP + 1));
    }

    /// One that begins to charge when the batch is drawn has the escrow refuse the rest, and takes its fee of what is given back.
    function test_ATokenThatBeginsToCharge() public {
        Signed memory s = batchIn(trick);
        address at = addressBy(s.batch);
        makeDeposit(s, 0);
        trick.setFee(3);
        expectDepositRefused(fromBatch(s, 1), escrowReceived(CAP + 1, CAP - 2));
        afterTheDeadline();
        vm.expectEmit(address(batches));
        emit PaymentBatches.GivenBack(at, payer, address(trick), CAP + 1);
        assertEq(giveBack(s.batch, address(trick)), CAP + 1);
        assertEq(trick.balanceOf(payer), WEALTH - CAP - 3);
        trick.setFee(0);
        // One that charges the sender besides is not moved while it does.
        trick.mint(at, 100);
        trick.setSurcharge(1);
        expectNotGivenBack(s.batch, address(trick), notMoved(address(trick)));
        trick.setSurcharge(0);
        assertEq(giveBack(s.batch, address(trick)), 100);
    }

    /// A charge besides is between token and payer, while it is drawn; the address pays one of what is there, so the last lacks it.
    function test_ATokenThatChargesItsSender() public {
        Signed memory s = batchIn(trick);
        trick.setSurcharge(5);
        makeDeposit(s, 0);
        assertEq(trick.balanceOf(payer), WEALTH - 2 * CAP - 6);
        expectDepositRefused(fromBatch(s, 1), escrowReceived(CAP + 1, 0));
        trick.mint(addressBy(s.batch), 10);
        makeDeposit(s, 1);
        assertHeld(s, 0, 2 * CAP + 1);
    }

    /// What a token takes from its holders is its payers' loss, and no others'.
    function test_ATokenThatShrinks() public {
        Signed memory s = batchIn(trick);
        makeDeposit(s, 0);
        trick.shrink(addressBy(s.batch), 1);
        expectDepositRefused(fromBatch(s, 1), escrowReceived(CAP + 1, 0));
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(trick)), CAP);
    }

    /// Of a token that lies about the address more is told than came, or less, or nothing came at all; the escrow is not told so.
    function test_ATokenThatLiesAboutTheAddress() public {
        int256[3] memory lies = [int256(1), -1, -int256(2 * CAP + 1)];
        for (uint256 i = 0; i < lies.length; i++) {
            Signed memory s = batchIn(new Liar());
            Liar(s.payments[0].token).setLie(addressBy(s.batch), lies[i], true);
            expectDepositRefused(
                fromBatch(s, 0),
                drawnNotExact(s.payments[0].token, 2 * CAP + 1, uint256(int256(2 * CAP + 1) + lies[i]))
            );
        }
        Signed memory nothing = batchIn(new Liar());
        Liar(nothing.payments[0].token).setLie(addressBy(nothing.batch), int256(2 * CAP + 1), false);
        expectDepositRefused(fromBatch(nothing, 0), escrowReceived(CAP, 0));
    }

    /// By neither name before the deadline, by either after it.
    function test_ATokenWithTwoAddresses() public {
        TwoNames asset = new TwoNames();
        Signed memory s = batchIn(asset);
        makeDeposit(s, 0);
        expectNotGivenBack(s.batch, address(asset.other()), notYet());
        uint256 snapshot = vm.snapshotState();
        makeDeposit(s, 1);
        vm.revertToState(snapshot);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(asset.other())), CAP + 1);
        expectNotGivenBack(s.batch, address(asset), nothingThere(address(asset)));
        assertPaid(address(asset), 0, CAP);
    }

    function test_APayerThatTheTokenDeniesGetsItLater() public {
        Signed memory s = batchIn(trick);
        makeDeposit(s, 0);
        afterTheDeadline();
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.BurnsGas); d++) {
            trick.setDenial(payer, TrickToken.Denial(d));
            bytes memory call = abi.encodeCall(batches.giveBack, (s.batch, address(trick)));
            (bool done, bytes memory why) = address(batches).call{gas: 5_000_000}(call);
            assertFalse(done);
            assertEq(why, notMoved(address(trick)));
        }
        trick.setDenial(payer, TrickToken.Denial.None);
        assertEq(giveBack(s.batch, address(trick)), CAP + 1);
        assertPaid(address(trick), 0, CAP);
    }

    // Tokens and payers that call back

    /// What is called while the token moves the money to the address, or on into the escrow: this payment or the other of the batch,
    /// another payer's, and returns of this batch and of one that is over. Nothing of it makes the deposit another one: it goes
    /// through, or all is undone.
    function test_ATokenThatCallsBackDuringTheDeposit() public {
        CallsOnce asset = new CallsOnce();
        Signed memory s = batchIn(asset);
        (Signed memory over, Signed memory other) = others(asset);
        bytes[5] memory calls = [
            callOf(fromBatch(s, 0)),
            callOf(fromBatch(s, 1)),
            callOf(fromBatch(other, 0)),
            abi.encodeCall(batches.giveBack, (s.batch, address(asset))),
            abi.encodeCall(batches.giveBack, (over.batch, address(asset)))
        ];
        for (uint256 i = 0; i < 20; i++) {
            (uint256 call, bool late, bool onward) = (i % 5, i / 5 % 2 == 1, i > 9);
            uint256 snapshot = vm.snapshotState();
            if (late) asset.setAfter();
            if (onward) asset.setSkipped(1);
            asset.setHook(address(batches), calls[call]);
            if (call < 2 && late && !onward) {
                // What was just drawn went on before it was counted.
                uint256 left = call == 0 ? CAP + 1 : CAP;
                expectDepositRefused(fromBatch(s, 0), drawnNotExact(address(asset), 2 * CAP + 1, left));
            } else {
                makeDeposit(s, 0);
                // Another's goes in beside it, unless the escrow is busy.
                bool both = call == 2 && !onward;
                assertEq(asset.hookSucceeded(), both || call == 4, "called");
                assertHeld(s, CAP + 1, (both ? 2 : 1) * CAP + CAP);
                assertEq(asset.balanceOf(addressBy(over.batch)), call == 4 ? 0 : CAP + 1);
                assertEq(asset.balanceOf(payer), WEALTH - 4 * CAP - 2 + (call == 4 ? CAP + 1 : 0));
                assertEq(asset.balanceOf(addressBy(other.batch)), both ? CAP + 1 : 0);
                assertEq(asset.balanceOf(attacker), both ? 0 : 2 * CAP + 1);
            }
            vm.revertToState(snapshot);
        }
    }

    /// The payer's of former times, of which something is left, and another payer's.
    function others(CallsOnce asset) private returns (Signed memory over, Signed memory other) {
        vm.warp(START - 100);
        DepositAddresses.Terms[] memory payments = paymentsIn(address(asset), 2);
        for (uint256 i = 0; i < 2; i++) {
            payments[i].deposit.paymentId = idOf(10 + i);
            payments[i].deposit.reserveDeadline = START - 1;
        }
        over = signedBy(payments, payer, payerKey, 1);
        over.batch.deadline = START - 1;
        resign(over);
        makeDeposit(over, 0);
        vm.warp(START);
        payments = paymentsIn(address(asset), 2);
        for (uint256 i = 0; i < 2; i++) payments[i].deposit.paymentId = idOf(20 + i);
        other = signedBy(payments, attacker, attackerKey, NONCE);
        asset.mint(attacker, 2 * CAP + 1);
        vm.prank(attacker);
        asset.approve(PERMIT2, type(uint256).max);
    }

    /// While one token of the batch is drawn, what came of another is not taken away: all is undone.
    function test_ATokenThatTakesWhatCameOfAnother() public {
        CallsOnce asset = new CallsOnce();
        while (address(asset) < address(token)) asset = new CallsOnce();
        enrich(address(asset));
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 3);
        payments[2].token = address(asset);
        Signed memory s = signed(payments);
        for (uint256 i = 0; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            if (i > 1) asset.setAfter();
            asset.setHook(address(batches), callOf(fromBatch(s, i % 2)));
            // It is the second that is drawn, so the first is there by then.
            uint256 left = i % 2 == 0 ? CAP + 1 : CAP;
            expectDepositRefused(fromBatch(s, 2), drawnNotExact(address(token), 2 * CAP + 1, left));
            vm.revertToState(snapshot);
        }
    }

    function test_ATokenThatCallsBackWhileItIsGivenBack() public {
        CallsOnce asset = new CallsOnce();
        Signed memory s = batchIn(asset);
        makeDeposit(s, 0);
        bytes[2] memory calls =
            [callOf(fromBatch(s, 1)), abi.encodeCall(batches.giveBack, (s.batch, address(asset)))];
        afterTheDeadline();
        for (uint256 i = 0; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            if (i > 1) asset.setAfter();
            asset.setHook(address(batches), calls[i % 2]);
            if (i == 1) {
                // What was sent meanwhile cannot be sent again, so all of it is undone.
                expectNotGivenBack(s.batch, address(asset), notMoved(address(asset)));
                assertHeld(s, CAP + 1, CAP);
            } else {
                assertEq(giveBack(s.batch, address(asset)), CAP + 1);
                assertFalse(asset.hookSucceeded());
                assertPaid(address(asset), 0, CAP);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_APayerThatRefusesCoins() public {
        (Signed memory s, CoinPayer account) = coinPayer();
        address at = addressBy(s.batch);
        vm.deal(at, 1 ether);
        makeDeposit(s, 0);
        afterTheDeadline();
        account.setRefuses(true);
        expectNotGivenBack(s.batch, address(0), notMoved(address(0)));
        assertEq(at.balance, 1 ether);
        assertEq(giveBack(s.batch, address(token)), CAP + 1);
        account.setRefuses(false);
        assertEq(giveBack(s.batch, address(0)), 1 ether);
        assertEq(address(account).balance, 1 ether);
    }

    function test_APayerThatCallsBackWhenItGetsCoins() public {
        (Signed memory s, CoinPayer account) = coinPayer();
        address at = addressBy(s.batch);
        makeDeposit(s, 0);
        bytes memory next = callOf(fromBatch(s, 1));
        afterTheDeadline();
        vm.deal(at, 1 ether);
        account.setCall(address(batches), abi.encodeCall(batches.giveBack, (s.batch, address(0))));
        assertEq(giveBack(s.batch, address(0)), 1 ether);
        assertFalse(account.succeeded());
        vm.deal(at, 1 ether);
        account.setCall(at, abi.encodeCall(DepositAddress.pay, (address(token), attacker, CAP)));
        assertEq(giveBack(s.batch, address(0)), 1 ether);
        assertFalse(account.succeeded());
        vm.deal(at, 1 ether);
        account.setCall(address(batches), next);
        assertEq(giveBack(s.batch, address(0)), 1 ether);
        assertFalse(account.succeeded());
        vm.deal(at, 1 ether);
        account.setCall(address(batches), abi.encodeCall(batches.giveBack, (s.batch, address(token))));
        assertEq(giveBack(s.batch, address(0)), 1 ether);
        assertTrue(account.succeeded());
        assertEq(token.balanceOf(address(account)), CAP + 1);
    }

    function coinPayer() private returns (Signed memory s, CoinPayer account) {
        account = new CoinPayer();
        s = signedBy(paymentsIn(address(token), 2), address(account), payerKey, NONCE);
        token.mint(address(account), 2 * CAP + 1);
        vm.prank(address(account));
        token.approve(PERMIT2, type(uint256).max);
    }

    // Gas

    /// However little gas a caller sends along: all of it is done or nothing.
    function testFuzz_AnyGasDoesAllOrNothing(uint256 limit, uint256 needed, bool drawn, bool ended) public {
        Signed memory s = batchIn(trick);
        if (drawn || ended) makeDeposit(s, 1);
        bytes memory call = callOf(fromBatch(s, 0));
        if (ended) {
            afterTheDeadline();
            call = abi.encodeCall(batches.giveBack, (s.batch, address(trick)));
        }
        trick.setGasNeeded(bound(needed, 0, 400_000));
        (bool done,) = address(batches).call{gas: bound(limit, 1_000, 1_000_000)}(call);
        uint256 before = drawn || ended ? CAP + 1 : 0;
        if (ended) {
            assertHeld(s, done ? 0 : CAP, CAP + 1);
        } else if (done) {
            assertHeld(s, CAP + 1 - before, CAP + before);
        } else {
            assertHeld(s, drawn ? CAP : 0, before);
            assertEq(uint8(stateOf(idOf(0))), uint8(GatewayEscrow.State.None));
            assertEq(isUsed(payer, NONCE), drawn);
        }
        uint256 paid = ended ? done ? CAP + 1 : 2 * CAP + 1 : drawn || done ? 2 * CAP + 1 : 0;
        assertEq(trick.balanceOf(payer), WEALTH - paid);
    }
}
