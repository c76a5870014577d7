// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {FulfillmentProxy} from "../src/FulfillmentProxy.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";
import {TronUsd} from "./support/TronUsd.sol";

/// @notice What the chains without Permit2 and without a log search (Tron) stand on: deposits of the cap by the payer's own
/// transaction, in a token whose `transfer` answers false, and records that say when they changed.
contract EscrowPayerDepositTest is EscrowFixture {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");

    TronUsd private usd;

    function setUp() public override {
        super.setUp();
        escrow = new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS);
        usd = new TronUsd();
        usd.mint(payer, 1_000_000e6);
        vm.prank(payer);
        usd.approve(address(escrow), CAP);
        vm.roll(1_000);
    }

    // Money

    function test_TheAllowanceIsUsedUp() public {
        depositByPayer(depositTerms(), address(usd));
        assertPaid(address(usd), 0, CAP);
        assertEq(usd.allowance(payer, address(escrow)), 0);
    }

    function test_ReleasePaysThePriceAndReturnsTheRemainder() public {
        reservedByPayer(address(usd));
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(ID, QUOTE, settler, QUOTED, CAP - QUOTED);
        escrow.release(termsOf(ID), attestation);
        assertPaid(address(usd), QUOTED, 0);
        assertNothingOwed();
    }

    function test_ReleaseOfTheWholeCapReturnsNothing() public {
        depositByPayer(depositTerms(), address(usd));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = CAP;
        reserve(r, signReservation(reserverKey, r));
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(usd), CAP, 0);
        assertNothingOwed();
    }

    function test_RefundReturnsTheCap() public {
        reservedByPayer(address(usd));
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertPaid(address(usd), 0, 0);
        assertNothingOwed();
    }

    function test_RefundOfADepositThatNobodyReservedReturnsTheCap() public {
        depositByPayer(depositTerms(), address(usd));
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertPaid(address(usd), 0, 0);
        assertNothingOwed();
    }

    function test_CancelReturnsTheCap() public {
        reservedByPayer(address(usd));
        escrow.cancel(termsOf(ID), nonDelivery());
        assertPaid(address(usd), 0, 0);
        assertNothingOwed();
    }

    function test_ADeniedPayerDepositsNothing() public {
        usd.setBlackListed(payer, true);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        bytes memory signature = signOpening(reserverKey, d, address(usd), CAP);
        vm.prank(payer);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, 0));
        escrow.depositOwn(d, address(usd), CAP, signature);
        assertState(GatewayEscrow.State.None);
    }

    /// A denied escrow can pay nobody: all that was due is owed, and both can take it when the denial ends.
    function test_WhatADeniedEscrowOwesIsTakenByClaims() public {
        reservedByPayer(address(usd));
        usd.setBlackListed(address(escrow), true);
        escrow.release(termsOf(ID), delivery());
        assertState(GatewayEscrow.State.Released);
        assertPaid(address(usd), 0, CAP);
        assertEq(escrow.claimable(settler, address(usd)), QUOTED);
        assertEq(escrow.claimable(payer, address(usd)), CAP - QUOTED);

        vm.prank(settler);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ClaimNotPaid.selector, QUOTED, 0));
        escrow.claim(address(usd), settler);
        usd.setBlackListed(address(escrow), false);
        vm.prank(settler);
        assertEq(escrow.claim(address(usd), settler), QUOTED);
        vm.prank(payer);
        assertEq(escrow.claim(address(usd), payer), CAP - QUOTED);
        assertPaid(address(usd), QUOTED, 0);
        assertNothingOwed();
    }

    /// The cap is all there: the settler that follows may ask more than the first did.
    function test_TheNextSettlerMayBeDearerUpToTheCap() public {
        reservedByPayer(address(usd));
        GatewayEscrow.Reservation memory r = nextReservation();
        r.sourceAmount = QUOTED + 7e6;
        vm.warp(reservation().fulfillBy + 1);
        reassign(r);
        assertPaid(address(usd), 0, CAP);
        escrow.release(termsOf(ID), signDelivery(releaserKey, ID, r.quoteHash, nextSettler));
        assertEq(usd.balanceOf(nextSettler), QUOTED + 7e6);
        assertEq(usd.balanceOf(payer), 1_000_000e6 - QUOTED - 7e6);
        assertEq(usd.balanceOf(settler), 0);
        assertNothingOwed();
    }

    function testFuzz_WhatComesOutIsWhatWentIn(uint256 price, bool isDelivered) public {
        price = bound(price, 1, CAP);
        depositByPayer(depositTerms(), address(usd));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = price;
        reserve(r, signReservation(reserverKey, r));
        if (isDelivered) {
            escrow.release(termsOf(ID), delivery());
        } else {
            escrow.cancel(termsOf(ID), nonDelivery());
        }
        assertPaid(address(usd), isDelivered ? price : 0, 0);
        assertNothingOwed();
    }

    // Records

    function test_TheRecordSaysInWhichBlocksItChanged() public {
        assertBlocks(0, 0, 0);
        depositByPayer(depositTerms(), address(usd));
        assertBlocks(1_000, 0, 0);
        vm.roll(1_007);
        GatewayEscrow.Reservation memory r = reservation();
        reserve(r, signReservation(reserverKey, r));
        assertBlocks(1_000, 1_007, 0);
        vm.roll(1_019);
        assertBlocks(1_000, 1_007, 0);
        escrow.release(termsOf(ID), delivery());
        assertBlocks(1_000, 1_007, 1_019);
        vm.roll(1_020);
        assertBlocks(1_000, 1_007, 1_019);
    }

    function test_TheRecordOfAReassignedPaymentKeepsItsDeposit() public {
        reservedByPayer(address(usd));
        vm.warp(reservation().fulfillBy + 1);
        vm.roll(1_005);
        reassign(nextReservation());
        assertBlocks(1_000, 1_005, 0);
        vm.roll(1_009);
        escrow.cancel(termsOf(ID), signNonDelivery(releaserKey, ID, nextReservation().quoteHash));
        assertBlocks(1_000, 1_005, 1_009);
    }

    function test_TheRecordSaysInWhichBlockItWasRefunded() public {
        depositByPayer(depositTerms(), address(usd));
        vm.roll(1_003);
        escrow.cancel(termsOf(ID), signNonDelivery(releaserKey, ID, bytes32(0)));
        assertBlocks(1_000, 0, 1_003);
    }

    function test_TheRecordOfARefundByTimeKeepsItsReservation() public {
        reservedByPayer(address(usd));
        vm.roll(2_000);
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertBlocks(1_000, 1_000, 2_000);
    }

    function test_AWitnessedDepositIsReservedInItsBlock() public {
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        depositWitnessed(depositTerms(), reservation(), address(token));
        assertBlocks(1_000, 1_000, 0);
    }

    /// Numbers are kept in 40 bits, which at one block a millisecond last for more than thirty years.
    function test_TheHighestNumberThatIsKept() public {
        vm.roll(type(uint40).max);
        reservedByPayer(address(usd));
        assertBlocks(type(uint40).max, type(uint40).max, 0);
    }

    function test_TheAnswerSaysWhichBlockItIsOf() public {
        reservedByPayer(address(usd));
        vm.roll(1_234);
        vm.warp(START + 77);
        (GatewayEscrow.Record memory e, uint256 number, uint256 time) = escrow.recordAsOf(ID);
        assertEq(abi.encode(e), abi.encode(escrow.recordOf(ID)));
        assertEq(uint8(e.state), uint8(GatewayEscrow.State.Reserved));
        assertEq(number, 1_234);
        assertEq(time, START + 77);
        (e, number, time) = escrow.recordAsOf(keccak256("pay_2"));
        GatewayEscrow.Record memory nothing;
        assertEq(abi.encode(e), abi.encode(nothing));
        assertEq(number, 1_234);
        assertEq(time, START + 77);
    }

    function test_TheProxysAnswerSaysWhichBlockItIsOf() public {
        FulfillmentProxy proxy = new FulfillmentProxy();
        usd.mint(settler, QUOTED);
        vm.startPrank(settler);
        usd.approve(address(proxy), type(uint256).max);
        bytes32 key = proxy.fulfillmentKey(ID, QUOTE, settler, address(usd), stranger, QUOTED, START + 300);
        assertAsOf(proxy, key, 0);
        proxy.fulfill(ID, QUOTE, address(usd), stranger, QUOTED, START + 300);
        assertAsOf(proxy, key, 1_000);
        vm.roll(1_001);
        vm.warp(START + 3);
        assertAsOf(proxy, key, 1_000);
        assertEq(usd.balanceOf(stranger), QUOTED);
    }

    function assertAsOf(FulfillmentProxy proxy, bytes32 key, uint256 expected) private view {
        (uint256 fulfilledIn, uint256 number, uint256 time) = proxy.fulfilledAsOf(key);
        assertEq(fulfilledIn, expected);
        assertEq(fulfilledIn, proxy.fulfilledAt(key));
        assertEq(number, block.number);
        assertEq(time, block.timestamp);
    }

    function assertBlocks(uint40 deposited, uint40 reserved, uint40 ended) private view {
        GatewayEscrow.Record memory e = escrow.recordOf(ID);
        assertEq(e.depositedAt, deposited, "depositedAt");
        assertEq(e.reservedAt, reserved, "reservedAt");
        assertEq(e.endedAt, ended, "endedAt");
    }

    function assertNothingOwed() private view {
        assertEq(escrow.claimable(settler, address(usd)), 0, "settler's claim");
        assertEq(escrow.claimable(payer, address(usd)), 0, "payer's claim");
    }
}
