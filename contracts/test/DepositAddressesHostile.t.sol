// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {CoinTaker} from "./support/CoinTaker.sol";
import {DepositAddressing} from "./support/DepositAddressing.sol";
import {CallsOnce, HalfToken, Mute, OddApproval, TwoNames} from "./support/OddTokens.sol";
import {OddEscrow} from "./support/OddEscrow.sol";
import {TrickToken} from "./support/TrickToken.sol";
import {TronUsd} from "./support/TronUsd.sol";

/// @notice Deposit addresses in tokens, for payers and with escrows that misbehave: nothing goes anywhere else, and what goes
/// nowhere stays until it can.
contract DepositAddressesHostileTest is DepositAddressing {
    bytes32 private constant ID = keccak256("pay_1");

    function enriched(TrickToken asset) private returns (DepositAddresses.Terms memory) {
        enrich(address(asset));
        return addressTerms(address(asset));
    }

    function late(DepositAddresses.Terms memory t) private {
        vm.warp(t.deposit.reserveDeadline + 1);
    }

    // Tokens: what they answer

    function test_WhateverATokenAnswersTheBalanceCounts() public {
        for (uint8 answer = 0; answer <= uint8(TrickToken.Answer.Bomb); answer++) {
            DepositAddresses.Terms memory t = enriched(new TrickToken());
            TrickToken asset = TrickToken(t.token);
            t.deposit.paymentId = keccak256(abi.encode(answer));
            asset.setAnswer(TrickToken.Answer(answer));
            pay(t, LARGER);
            FromAddress memory f = fromAddress(t, LARGER);
            f.award.paymentId = t.deposit.paymentId;
            depositFrom(f);
            assertPaid(t.token, 0, LARGER);
            pay(t, LARGER);
            assertEq(giveBack(t, t.token), LARGER);
            assertPaid(t.token, 0, LARGER);
        }
    }

    /// What `approve` answers does not count either; one that wants an allowance ended first is asked for it. Where none can be
    /// given, nothing is deposited, and it goes back in time.
    function test_EveryKindOfApprove() public {
        for (uint8 kind = 0; kind <= uint8(OddApproval.Kind.Fails); kind++) {
            uint256 snapshot = vm.snapshotState();
            OddApproval asset = new OddApproval(OddApproval.Kind(kind));
            asset.mint(payer, WEALTH);
            DepositAddresses.Terms memory t = addressTerms(address(asset));
            address at = pay(t, LARGER);
            if (kind == uint8(OddApproval.Kind.Fails)) {
                expectNotDeposited(t, LARGER, notExact(LARGER, 0));
                late(t);
                giveBack(t, t.token);
                assertPaid(t.token, 0, 0);
            } else {
                depositFrom(t, LARGER);
                assertPaid(t.token, 0, LARGER);
                assertEq(asset.allowance(at, address(escrow)), 0);
            }
            vm.revertToState(snapshot);
        }
    }

    /// Such an allowance is there only where an escrow did not take what it was given.
    function test_AnAllowanceThatIsLeftIsEndedFirst() public {
        OddEscrow odd = new OddEscrow();
        OddApproval asset = new OddApproval(OddApproval.Kind.FromOrToZero);
        asset.mint(payer, WEALTH);
        DepositAddresses.Terms memory t = addressTerms(address(asset));
        t.escrow = address(odd);
        address at = pay(t, CAP);
        depositFrom(t, LARGER);
        assertEq(asset.allowance(at, address(odd)), LARGER);
        depositFrom(t, CAP);
        assertEq(asset.allowance(at, address(odd)), CAP);
    }

    /// As Tether's on Tron.
    function test_ATokenThatAnswersFalseAndDenies() public {
        TronUsd usd = new TronUsd();
        usd.mint(payer, WEALTH);
        DepositAddresses.Terms memory t = addressTerms(address(usd));
        address at = pay(t, LARGER);
        usd.setBlackListed(at, true);
        expectNotDeposited(t, LARGER, notExact(LARGER, 0));
        late(t);
        expectNotGivenBack(t, address(usd), notMoved(address(usd)));
        usd.setBlackListed(at, false);
        vm.warp(START);
        depositFrom(t, LARGER);
        assertPaid(address(usd), 0, LARGER);
        pay(t, 5);
        assertEq(giveBack(t, address(usd)), 5);
        assertPaid(address(usd), 0, LARGER);
    }

    function test_ATokenThatTellsNoBalance() public {
        DepositAddresses.Terms memory t = addressTerms(address(new Mute(0)));
        expectNotDeposited(t, LARGER, "");
        // Another token waits until the time of the terms' token is over: whether that moved cannot be told.
        pay(t, address(trick), 1);
        expectNotGivenBack(t, address(trick), "");
        late(t);
        expectNotGivenBack(t, t.token, "");
        giveBack(t, address(trick));
        assertPaid(address(trick), 0, 0);
        vm.warp(START);
        t = addressTerms(address(new Mute(32)));
        expectNotDeposited(t, LARGER, notExact(LARGER, 0));
        late(t);
        expectNotGivenBack(t, t.token, nothingThere(t.token));
    }

    // Tokens: what they move

    function test_ATokenWithAFeeIsGivenBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        address at = pay(t, LARGER + 3);
        trick.setFee(3);
        expectNotDeposited(t, LARGER, notExact(LARGER, LARGER - 3));
        late(t);
        vm.expectEmit(address(factory));
        emit DepositAddresses.GivenBack(at, payer, address(trick), LARGER + 3);
        giveBack(t, address(trick));
        assertEq(trick.balanceOf(payer), WEALTH - 3);
        assertEq(trick.balanceOf(at), 0);
    }

    /// The whole balance cannot be moved while the token takes something besides; it stays until it does not.
    function test_ATokenThatChargesItsSender() public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        pay(t, LARGER);
        trick.setSurcharge(1);
        expectNotDeposited(t, LARGER, notExact(LARGER, 0));
        late(t);
        expectNotGivenBack(t, address(trick), notMoved(address(trick)));
        trick.setSurcharge(0);
        giveBack(t, address(trick));
        assertPaid(address(trick), 0, 0);
    }

    function test_ATokenThatMovesHalf() public {
        HalfToken half = new HalfToken();
        half.mint(payer, WEALTH);
        DepositAddresses.Terms memory t = addressTerms(address(half));
        address at = pay(t, LARGER);
        pay(t, LARGER);
        assertEq(half.balanceOf(at), LARGER);
        expectNotDeposited(t, LARGER, notExact(LARGER, LARGER / 2));
        late(t);
        assertEq(giveBack(t, address(half)), LARGER / 2);
        assertEq(giveBack(t, address(half)), LARGER / 4);
        assertEq(half.balanceOf(payer), WEALTH - LARGER / 4);
        while (half.balanceOf(at) != 0) {
            giveBack(t, address(half));
        }
        assertPaid(address(half), 0, 0);
    }

    function test_APayerThatTheTokenDeniesGetsItLater() public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        address at = pay(t, LARGER);
        late(t);
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.BurnsGas); d++) {
            trick.setDenial(payer, TrickToken.Denial(d));
            bytes memory call = abi.encodeCall(factory.giveBack, (t, address(trick)));
            vm.prank(stranger);
            (bool done, bytes memory why) = address(factory).call{gas: 5_000_000}(call);
            assertFalse(done);
            assertEq(why, notMoved(address(trick)));
            assertEq(trick.balanceOf(at), LARGER);
        }
        trick.setDenial(payer, TrickToken.Denial.None);
        giveBack(t, address(trick));
        assertPaid(address(trick), 0, 0);
    }

    /// A denied payer does not hold up its payment; what goes back is then its claim on the escrow.
    function test_APayerThatTheTokenDeniesPays() public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        pay(t, LARGER);
        trick.setDenial(payer, TrickToken.Denial.Reverts);
        depositFrom(t, LARGER);
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(trick), QUOTED, LARGER - QUOTED);
        assertEq(escrow.claimable(payer, address(trick)), LARGER - QUOTED);
    }

    /// By no name of the token is given back what may be deposited; afterwards by each.
    function test_ATokenWithTwoAddresses() public {
        TwoNames asset = new TwoNames();
        DepositAddresses.Terms memory t = enriched(asset);
        address other = address(asset.other());
        pay(t, LARGER);
        expectNotGivenBack(t, other, notYet(t));
        expectNotGivenBack(t, address(asset), notYet(t));
        uint256 snapshot = vm.snapshotState();
        late(t);
        assertEq(giveBack(t, other), LARGER);
        assertPaid(address(asset), 0, 0);
        vm.revertToState(snapshot);
        depositFrom(t, LARGER);
        // In time the right name is the one that gives back what came too much.
        pay(t, 1);
        expectNotGivenBack(t, other, notYet(t));
        giveBack(t, address(asset));
        assertPaid(address(asset), 0, LARGER);
    }

    // Tokens and payers that call back

    /// From within the transfer to the escrow nothing else is done with the money: the deposit goes through, or nothing does.
    function test_ATokenThatCallsBackDuringTheDeposit() public {
        CallsOnce asset = new CallsOnce();
        DepositAddresses.Terms memory t = enriched(asset);
        address at = pay(t, LARGER);
        bytes memory deposit = callOf(fromAddress(t, LARGER));
        bytes[3] memory calls = [
            deposit,
            abi.encodeCall(factory.giveBack, (t, address(trick))),
            abi.encodeCall(factory.giveBack, (t, address(asset)))
        ];
        for (uint256 i = 0; i < 6; i++) {
            uint256 snapshot = vm.snapshotState();
            if (i > 2) asset.setAfter();
            asset.setHook(address(factory), calls[i % 3]);
            // The record is there by now: what comes first, the money, takes all of it out, and so nothing of that stays.
            if (i == 2) {
                expectNotDeposited(t, LARGER, notExact(LARGER, 0));
                assertEq(asset.balanceOf(at), LARGER);
            } else {
                depositFrom(t, LARGER);
                assertFalse(asset.hookSucceeded());
                assertPaid(address(asset), 0, LARGER);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_ATokenThatCallsBackWhenItIsGivenBack() public {
        CallsOnce asset = new CallsOnce();
        DepositAddresses.Terms memory t = enriched(asset);
        pay(t, LARGER);
        asset.setAfter();
        asset.setHook(address(factory), callOf(fromAddress(t, LARGER)));
        late(t);
        uint256 snapshot = vm.snapshotState();
        assertEq(giveBack(t, address(asset)), LARGER);
        assertFalse(asset.hookSucceeded());
        vm.revertToState(snapshot);
        asset.setHook(address(factory), abi.encodeCall(factory.giveBack, (t, address(asset))));
        assertEq(giveBack(t, address(asset)), LARGER);
        assertFalse(asset.hookSucceeded());
        assertEq(asset.hookResult(), nothingThere(address(asset)));
        assertPaid(address(asset), 0, 0);
    }

    /// What some token does while it is given back does not make a deposit of it, nor end the time of one.
    function test_AnotherTokenThatDepositsWhileItIsGivenBack() public {
        CallsOnce junk = new CallsOnce();
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        junk.mint(at, 1);
        junk.setHook(address(factory), callOf(fromAddress(t, LARGER)));
        expectNotGivenBack(t, address(junk), notYet(t));
        assertEq(token.balanceOf(at), LARGER);
        assertState(GatewayEscrow.State.None);
        depositFrom(t, LARGER);
    }

    function test_APayerThatRefusesCoins() public {
        CoinTaker account = new CoinTaker();
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.deposit.payer = address(account);
        address at = pay(t, LARGER);
        vm.deal(at, 1 ether);
        account.setRefuses(true);
        expectNotGivenBack(t, address(0), notMoved(address(0)));
        assertEq(at.balance, 1 ether);
        // It holds up neither its payment nor what goes back of the token.
        depositFrom(t, LARGER);
        pay(t, 1);
        giveBack(t, address(token));
        assertEq(token.balanceOf(address(account)), 1);
        account.setRefuses(false);
        assertEq(giveBack(t, address(0)), 1 ether);
        assertEq(address(account).balance, 1 ether);
    }

    function test_APayerThatCallsBackWhenItGetsCoins() public {
        CoinTaker account = new CoinTaker();
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.deposit.payer = address(account);
        address at = pay(t, LARGER);
        vm.deal(at, 1 ether);
        account.setCall(address(factory), abi.encodeCall(factory.giveBack, (t, address(0))));
        assertEq(giveBack(t, address(0)), 1 ether);
        assertFalse(account.succeeded());
        // A deposit in the middle of it takes the terms' token away, so all of it is undone.
        vm.deal(at, 1 ether);
        account.setCall(address(factory), callOf(fromAddress(t, LARGER)));
        expectNotGivenBack(t, address(0), notYet(t));
        assertEq(at.balance, 1 ether);
        assertState(GatewayEscrow.State.None);
    }

    // Escrows

    function test_AnEscrowsRefusalIsPassedOn() public {
        (DepositAddresses.Terms memory t, OddEscrow odd) = oddTerms();
        address at = pay(t, LARGER);
        bytes[3] memory failures = [
            abi.encodeWithSignature("Error(string)", "because"),
            bytes(hex"01"),
            abi.encodePacked(keccak256("many"), new bytes(1_000))
        ];
        for (uint256 i = 0; i < failures.length; i++) {
            odd.setFailure(failures[i]);
            expectNotDeposited(t, LARGER, failures[i]);
            assertEq(trick.balanceOf(at), LARGER);
            assertEq(trick.allowance(at, address(odd)), 0);
            assertEq(at.code.length, 0);
        }
    }

    /// One without this call, as escrows of former versions are.
    function test_AnEscrowThatDoesNotKnowTheCall() public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        t.escrow = address(token);
        pay(t, LARGER);
        expectNotDeposited(t, LARGER, "");
        expectNotGivenBack(t, address(trick), notYet(t));
        late(t);
        giveBack(t, address(trick));
        assertPaid(address(trick), 0, 0);
    }

    /// A record is six words, the first of which is not zero. Whatever else is said in time, or not said, is none; when the time
    /// is over nobody is asked.
    function test_WhatAnEscrowSaysOfItsRecord() public {
        (DepositAddresses.Terms memory t, OddEscrow odd) = oddTerms();
        pay(t, LARGER);
        bytes memory record = abi.encode(uint256(1), 0, 0, 0, 0, 0);
        bytes[5] memory none = [
            bytes(""),
            abi.encode(1),
            abi.encodePacked(abi.encode(1, 0, 0, 0, 0), new bytes(31)),
            abi.encode(0, 1, 1, 1, 1, 1),
            abi.encode(0, 1, 1, 1, 1, 1, 1)
        ];
        for (uint256 i = 0; i < none.length; i++) {
            odd.setReply(OddEscrow.Reply.Says, none[i]);
            expectNotGivenBack(t, address(trick), notYet(t));
        }
        // A failure is no record either, whatever it says.
        odd.setReply(OddEscrow.Reply.Fails, record);
        expectNotGivenBack(t, address(trick), notYet(t));
        odd.setReply(OddEscrow.Reply.BurnsGas, record);
        bytes memory call = abi.encodeCall(factory.giveBack, (t, address(trick)));
        (bool done, bytes memory why) = address(factory).call{gas: 1_000_000}(call);
        assertFalse(done);
        assertEq(why, notYet(t));

        uint256 snapshot = vm.snapshotState();
        bytes[3] memory some =
            [record, abi.encode(type(uint256).max, 0, 0, 0, 0, 0), abi.encode(uint256(1) << 255, 0, 0, 0, 0, 0, 0)];
        for (uint256 i = 0; i < some.length; i++) {
            odd.setReply(OddEscrow.Reply.Says, some[i]);
            giveBack(t, address(trick));
            assertPaid(address(trick), 0, 0);
            vm.revertToState(snapshot);
        }
        // It burns gas still.
        late(t);
        (done,) = address(factory).call{gas: 1_000_000}(call);
        assertTrue(done);
        assertPaid(address(trick), 0, 0);
    }

    /// Who names an escrow of his own gives it his money and no other's.
    function test_AnEscrowTakesWhatItIsAllowedAndNoMore() public {
        (DepositAddresses.Terms memory t, OddEscrow odd) = oddTerms();
        address at = pay(t, CAP);
        DepositAddresses.Terms memory other = addressTerms(address(trick));
        address otherAt = pay(other, LARGER);
        odd.setTaken(LARGER + 1);
        expectNotDeposited(t, LARGER, abi.encodeWithSignature("Error(string)", "allowance"));
        odd.setTaken(LARGER - 1);
        depositFrom(t, LARGER);
        assertEq(trick.balanceOf(address(odd)), LARGER - 1);
        vm.expectRevert("allowance");
        odd.take(address(trick), otherAt, 1);
        // What it left it may take later; what is beyond it goes back.
        odd.take(address(trick), at, 1);
        vm.expectRevert("allowance");
        odd.take(address(trick), at, 1);
        late(t);
        assertEq(giveBack(t, address(trick)), CAP - LARGER);
        assertEq(trick.balanceOf(otherAt), LARGER);
    }

    /// In the middle of a deposit it may call for other terms what everyone may call.
    function test_AnEscrowThatCallsForOtherTerms() public {
        (DepositAddresses.Terms memory t, OddEscrow odd) = oddTerms();
        pay(t, LARGER);
        DepositAddresses.Terms memory other = addressTerms(address(trick));
        address otherAt = pay(other, LARGER);
        odd.setCall(address(factory), abi.encodeCall(factory.giveBack, (other, address(trick))));
        depositFrom(t, LARGER);
        assertFalse(odd.succeeded());
        assertEq(trick.balanceOf(otherAt), LARGER);
        odd.setCall(address(factory), callOf(fromAddress(other, LARGER)));
        depositFrom(t, LARGER);
        assertTrue(odd.succeeded());
        assertEq(trick.balanceOf(address(escrow)), LARGER);
    }

    function oddTerms() private returns (DepositAddresses.Terms memory t, OddEscrow odd) {
        odd = new OddEscrow();
        t = addressTerms(address(trick));
        t.escrow = address(odd);
    }

    // Gas

    /// However little gas a caller sends along: all of it is done or nothing.
    function testFuzz_AnyGasDoesAllOrNothing(uint256 limit, uint256 needed, bool back, bool made) public {
        DepositAddresses.Terms memory t = addressTerms(address(trick));
        address at = pay(t, LARGER);
        if (made) {
            pay(t, address(token), 1);
            giveBack(t, address(token));
        }
        trick.setGasNeeded(bound(needed, 0, 400_000));
        bytes memory call =
            back ? abi.encodeCall(factory.giveBack, (t, address(trick))) : callOf(fromAddress(t, LARGER));
        if (back) late(t);
        (bool done,) = address(factory).call{gas: bound(limit, 1_000, 800_000)}(call);
        if (!done) {
            assertEq(trick.balanceOf(at), LARGER);
            assertState(GatewayEscrow.State.None);
        } else if (back) {
            assertPaid(address(trick), 0, 0);
        } else {
            assertPaid(address(trick), 0, LARGER);
            assertState(GatewayEscrow.State.Reserved);
        }
    }
}
