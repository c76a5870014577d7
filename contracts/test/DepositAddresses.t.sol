// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {DepositAddressing} from "./support/DepositAddressing.sol";

/// @notice What becomes of money that was sent to a deposit address: in time and too late, too much and too little, once and
/// twice, the right token and others.
contract DepositAddressesTest is DepositAddressing {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");

    // The address

    function test_TheAddressIsWhatAnyoneComputes() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        assertEq(factory.implementation(), implementationOf(factory));
        assertEq(factory.addressOf(t), addressBy(t));
        assertEq(keccak256(abi.encode(t)), keccak256(abi.encodePacked(wordsOf(t))));
        assertEq(addressBy(t).code.length, 0);
        pay(t, LARGER);
        depositFrom(t, LARGER);
        assertEq(factory.addressOf(t), addressBy(t), "it stays");
        assertEq(addressBy(t).code, proxyCode(factory));
        DepositAddresses another = newFactory();
        assertEq(another.addressOf(t), addressBy(another, t));
        assertNotEq(another.addressOf(t), addressBy(t));
    }

    function test_TermsWithoutAPayerHaveNoAddress() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.deposit.payer = address(0);
        bytes memory refusal = abi.encodeWithSelector(DepositAddresses.PayerMissing.selector);
        expectRefused(abi.encodeCall(factory.addressOf, (t)), refusal);
        pay(t, LARGER);
        expectNotDeposited(t, LARGER, refusal);
        vm.warp(t.deposit.reserveDeadline + 1);
        expectNotGivenBack(t, address(token), refusal);
    }

    // Into the escrow

    function test_WhatWasSentIsDepositedAndReserved() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        GatewayEscrow.Reservation memory r = reservation();
        address at = pay(t, LARGER);
        vm.expectEmit(address(factory));
        emit DepositAddresses.Made(at, ID);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(ID, QUOTE, payer, t.deposit, address(token), LARGER);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(ID, QUOTE, settler, QUOTED, r.fulfillBy);
        depositFrom(t, LARGER);

        assertPaid(address(token), 0, LARGER);
        assertEq(escrow.owedIn(address(token)), LARGER);
        assertEq(token.allowance(at, address(escrow)), 0);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(t.deposit, address(token), LARGER), r))
        });
        assertEq(abi.encode(escrow.recordOf(ID)), abi.encode(expected));
    }

    function test_JustThePriceIsAdmittedAsForAnySignature() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.amount = QUOTED;
        pay(t, QUOTED);
        bytes memory signature = signAdmission(reserverKey, t.deposit, reservation(), address(token));
        factory.deposit(t, QUOTED, reservation(), ADMITTED_UNTIL, signature);
        assertState(GatewayEscrow.State.Reserved);
        assertPaid(address(token), 0, QUOTED);
    }

    function test_TheReleasePaysTheSettlerAndThePayerGetsTheRest() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositFrom(t, LARGER);
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    function test_ThePayerGetsAllOfItWithoutADelivery() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositFrom(t, LARGER);
        uint256 snapshot = vm.snapshotState();
        escrow.cancel(termsOf(ID), nonDelivery());
        assertPaid(address(token), 0, 0);
        vm.revertToState(snapshot);
        vm.warp(t.deposit.refundAfter);
        escrow.refund(termsOf(ID));
        assertPaid(address(token), 0, 0);
    }

    function test_ADearerSettlerMayFollow() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositFrom(t, LARGER);
        GatewayEscrow.Reservation memory r = nextReservation();
        r.sourceAmount = LARGER;
        vm.warp(reservation().fulfillBy + 1);
        reassign(r);
        escrow.release(termsOf(ID), signDelivery(releaserKey, ID, r.quoteHash, nextSettler));
        assertEq(token.balanceOf(nextSettler), LARGER);
        assertPaid(address(token), 0, 0, LARGER);
    }

    /// All of it goes in, and what is over goes back with the release.
    function test_MoreThanTheTermsSayIsDepositedWhole() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        address at = pay(t, CAP - LARGER);
        depositFrom(t, CAP);
        assertEq(token.balanceOf(at), 0);
        assertPaid(address(token), 0, CAP);
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    /// Also a part of it, as long as the terms are kept; the rest goes back at once.
    function test_OfMoreAPartMayBeDeposited() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, CAP);
        depositFrom(t, LARGER + 1);
        assertPaid(address(token), 0, LARGER + 1, CAP - LARGER - 1);
        assertEq(giveBack(t, address(token)), CAP - LARGER - 1);
        assertPaid(address(token), 0, LARGER + 1);
    }

    function test_LessThanTheTermsSayIsNotDeposited() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER - 1);
        expectNotDeposited(
            t, LARGER - 1, abi.encodeWithSelector(DepositAddresses.AmountBelowTerms.selector, LARGER - 1, LARGER)
        );
        expectNotDeposited(t, LARGER, notExact(LARGER, 0));
        expectNotGivenBack(t, address(token), notYet(t));
        assertEq(token.balanceOf(at), LARGER - 1);
        assertState(GatewayEscrow.State.None);
        // In halves is enough, too, if the other comes in time.
        uint256 snapshot = vm.snapshotState();
        pay(t, 1);
        depositFrom(t, LARGER);
        assertPaid(address(token), 0, LARGER);
        vm.revertToState(snapshot);
        vm.warp(t.deposit.reserveDeadline + 1);
        assertEq(giveBack(t, address(token)), LARGER - 1);
        assertPaid(address(token), 0, 0);
    }

    function test_ThePriceIsAtMostWhatIsDeposited() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        FromAddress memory f = fromAddress(t, LARGER);
        f.award.sourceAmount = LARGER + 1;
        expectRefused(
            callOf(f), abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, LARGER + 1, LARGER)
        );
        f.award.sourceAmount = LARGER;
        depositFrom(f);
        assertPaid(address(token), 0, LARGER);
    }

    function test_APaymentOfTheQuoteThatThePayerNamed() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.deposit.quoteHash = keccak256("another quote");
        pay(t, LARGER);
        expectNotDeposited(
            t,
            LARGER,
            abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, keccak256("another quote"), QUOTE)
        );
        t.deposit.quoteHash = QUOTE;
        pay(t, LARGER);
        depositFrom(t, LARGER);
        assertState(GatewayEscrow.State.Reserved);
    }

    // Back to the payer

    /// Deposited up to the last second of `reserveDeadline`, given back from the next on; never both.
    function test_InTimeItIsDepositedAndAfterItGivenBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        vm.warp(t.deposit.reserveDeadline);
        expectNotGivenBack(t, address(token), notYet(t));
        uint256 snapshot = vm.snapshotState();
        depositFrom(t, LARGER);
        assertPaid(address(token), 0, LARGER);
        vm.revertToState(snapshot);

        vm.warp(t.deposit.reserveDeadline + 1);
        expectNotDeposited(
            t,
            LARGER,
            abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, t.deposit.reserveDeadline)
        );
        vm.expectEmit(address(factory));
        emit DepositAddresses.Made(at, ID);
        vm.expectEmit(address(factory));
        emit DepositAddresses.GivenBack(at, payer, address(token), LARGER);
        assertEq(giveBack(t, address(token)), LARGER);
        assertPaid(address(token), 0, 0);
        assertState(GatewayEscrow.State.None);
        expectNotGivenBack(t, address(token), nothingThere(address(token)));
    }

    /// However the payment stands, what comes to its address after the deposit goes back at once, as often as it comes.
    function test_WhatComesAfterTheDepositGoesBackAtOnce() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        depositFrom(t, LARGER);
        for (uint256 i = 0; i < 3; i++) {
            if (i == 1) escrow.release(termsOf(ID), delivery());
            pay(t, LARGER + i);
            expectNotDeposited(t, LARGER + i, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID));
            vm.expectEmit(address(factory));
            emit DepositAddresses.GivenBack(at, payer, address(token), LARGER + i);
            assertEq(giveBack(t, address(token)), LARGER + i);
            assertPaid(address(token), i == 0 ? 0 : QUOTED, i == 0 ? LARGER : 0);
        }
    }

    function test_WhatComesAfterARefundGoesBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositFrom(t, LARGER);
        escrow.cancel(termsOf(ID), nonDelivery());
        pay(t, 1);
        giveBack(t, address(token));
        assertPaid(address(token), 0, 0);
    }

    /// The record counts, whoever made it: here the payer by its own transaction, of which no settler is named yet.
    function test_WhoPaidAnotherWayGetsThisBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositByPayer(t.deposit, address(token));
        assertState(GatewayEscrow.State.Deposited);
        expectNotDeposited(t, LARGER, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID));
        assertEq(giveBack(t, address(token)), LARGER);
        assertPaid(address(token), 0, CAP);
    }

    /// Before and after the code is there, and nothing of the right token goes with it.
    function test_AnotherTokenGoesBackAtAnyTime() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        for (uint256 i = 0; i < 2; i++) {
            pay(t, address(trick), 7e6 + i);
            vm.expectEmit(address(factory));
            emit DepositAddresses.GivenBack(at, payer, address(trick), 7e6 + i);
            assertEq(giveBack(t, address(trick)), 7e6 + i);
            assertEq(trick.balanceOf(payer), WEALTH);
            assertEq(at.code, proxyCode(factory));
            assertEq(token.balanceOf(at), LARGER);
        }
        depositFrom(t, LARGER);
        pay(t, address(trick), 1);
        vm.warp(t.deposit.refundAfter);
        giveBack(t, address(trick));
        assertEq(trick.balanceOf(payer), WEALTH);
    }

    /// Coins come in before the code is there; afterwards their sender keeps them, unless he does not ask (as who mines a block).
    function test_CoinsGoBackAtAnyTime() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        vm.deal(stranger, 3 ether);
        vm.prank(stranger);
        (bool sent,) = at.call{value: 1 ether}("");
        assertTrue(sent);
        vm.expectEmit(address(factory));
        emit DepositAddresses.GivenBack(at, payer, address(0), 1 ether);
        assertEq(giveBack(t, address(0)), 1 ether);
        assertEq(payer.balance, 1 ether);

        vm.prank(stranger);
        (sent,) = at.call{value: 1 ether}("");
        assertFalse(sent);
        assertEq(at.balance, 0);
        vm.deal(at, 2 ether);
        depositFrom(t, LARGER);
        assertEq(giveBack(t, address(0)), 2 ether);
        assertEq(payer.balance, 3 ether);
        assertPaid(address(token), 0, LARGER);
        expectNotGivenBack(t, address(0), nothingThere(address(0)));
    }

    function test_NothingIsThere() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        expectNotGivenBack(t, address(trick), nothingThere(address(trick)));
        // Whoever has no code is no token.
        expectNotGivenBack(t, stranger, nothingThere(stranger));
        assertEq(addressBy(t).code.length, 0);
    }

    function test_TermsInACoinAreGivenBackInTime() public {
        DepositAddresses.Terms memory t = addressTerms(address(0));
        vm.deal(addressBy(t), LARGER);
        expectNotDeposited(t, LARGER, abi.encodeWithSelector(GatewayEscrow.TokenHasNoCode.selector, address(0)));
        expectNotGivenBack(t, address(0), notYet(t));
        vm.warp(t.deposit.reserveDeadline + 1);
        assertEq(giveBack(t, address(0)), LARGER);
        assertEq(payer.balance, LARGER);
    }

    /// The escrow takes nothing any more: what is on its way is given back when its time is over.
    function test_AnEscrowThatRetiredMeanwhile() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        vm.prank(guardian);
        escrow.retire();
        expectNotDeposited(t, LARGER, abi.encodeWithSelector(GatewayEscrow.EscrowRetired.selector));
        expectNotGivenBack(t, address(token), notYet(t));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBack(t, address(token));
        assertPaid(address(token), 0, 0);
    }

    function test_AReserverThatWasReplacedMeanwhile() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        vm.startPrank(guardian);
        escrow.proposeReserver(attacker);
        vm.warp(START + escrow.RESERVER_DELAY());
        escrow.installReserver();
        vm.stopPrank();
        t.deposit.reserveDeadline += escrow.RESERVER_DELAY();
        t.deposit.fulfillmentDeadline += escrow.RESERVER_DELAY();
        t.deposit.refundAfter += escrow.RESERVER_DELAY();
        pay(t, LARGER);
        FromAddress memory f = fromAddress(t, LARGER);
        f.award.fulfillBy += escrow.RESERVER_DELAY();
        expectRefused(callOf(f), abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, reserver));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBack(t, address(token));
        assertPaid(address(token), 0, 0);
    }

    // Other chains

    /// The same address there: nothing is deposited, since the admission is for one chain, and all of it comes back.
    function test_WhoSendsOnAnotherChainGetsItBackThere() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        bytes memory call = callOf(fromAddress(t, LARGER));
        vm.chainId(block.chainid + 1);
        assertEq(factory.addressOf(t), addressBy(t));
        expectRefused(call, abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver));
        expectNotGivenBack(t, address(token), notYet(t));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBack(t, address(token));
        assertPaid(address(token), 0, 0);
    }

    /// There is neither that escrow nor that token: another token goes back at once, a token at the same address in time.
    function test_WhereThereIsNoEscrow() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        t.escrow = makeAddr("an escrow of another chain");
        pay(t, address(trick), 5e6);
        pay(t, LARGER);
        expectNotDeposited(
            t, LARGER, abi.encodeWithSelector(DepositAddresses.EscrowMissing.selector, t.escrow)
        );
        expectNotGivenBack(t, address(token), notYet(t));
        giveBack(t, address(trick));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBack(t, address(token));
        assertPaid(address(token), 0, 0);
        assertPaid(address(trick), 0, 0);

        t.token = makeAddr("a token of another chain");
        vm.warp(START);
        vm.deal(addressBy(t), 1 ether);
        pay(t, address(trick), 5e6);
        giveBack(t, address(0));
        giveBack(t, address(trick));
        assertEq(payer.balance, 1 ether);
        assertPaid(address(trick), 0, 0);
    }

    // All of it

    /// Whatever comes when, and however the payment ends: settler and payer have all of it, to the unit.
    function testFuzz_EverythingReachesSettlerOrPayer(
        uint256 sent,
        uint256 more,
        uint256 deposited,
        bool delivered,
        bool late
    ) public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        sent = bound(sent, 1, 2 * CAP);
        more = bound(more, 0, CAP);
        deposited = bound(deposited, 1, 2 * CAP);
        pay(t, sent);
        bytes memory call = callOf(fromAddress(t, deposited));
        if (late) vm.warp(t.deposit.reserveDeadline + 1);
        (bool done,) = address(factory).call(call);
        assertEq(done, !late && deposited >= LARGER && deposited <= sent, "deposited");
        noteTerms(asReserved(asDeposited(t.deposit, address(token), deposited), reservation()));
        if (more != 0) pay(t, more);
        assertPaid(address(token), 0, done ? deposited : 0, sent + more - (done ? deposited : 0));
        if (done && delivered) escrow.release(termsOf(ID), delivery());
        else if (done) escrow.cancel(termsOf(ID), nonDelivery());
        if (!done) vm.warp(t.deposit.reserveDeadline + 1);
        if (token.balanceOf(addressBy(t)) != 0) giveBack(t, address(token));
        assertPaid(address(token), done && delivered ? QUOTED : 0, 0);
    }

    /// As the fixture's, while something is at the address, or with another settler.
    function assertPaid(address asset, uint256 toSettler, uint256 inEscrow, uint256 elsewhere) private view {
        DevToken t = DevToken(asset);
        assertEq(t.balanceOf(settler), toSettler, "settler's balance");
        assertEq(t.balanceOf(address(escrow)), inEscrow, "escrow's balance");
        assertEq(t.balanceOf(payer), WEALTH - toSettler - inEscrow - elsewhere, "payer's balance");
    }
}
