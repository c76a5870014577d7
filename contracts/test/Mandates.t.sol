// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice What becomes of payments that a merchant asks for under a mandate: who brings the allowance, how much is drawn in which
/// period, who gets what at each end, and what is given back.
contract MandatesTest is Mandating {
    // The address and what is signed

    function test_TheAddressIsWhatAnyoneComputes() public {
        Mandates.Mandate memory m = mandate();
        address at = addressBy(m);
        assertEq(keccak256(abi.encode(m)), keccak256(encoded(m)));
        assertEq(mandates.addressOf(m), at);
        assertEq(at.code.length, 0);
        makeDeposit(drawing(0));
        assertEq(mandates.addressOf(m), at, "it stays");
        assertEq(at.code, proxyCode(mandates));
        Mandates another = new Mandates();
        assertEq(another.addressOf(m), addressBy(another, m));
        assertNotEq(another.addressOf(m), at);
    }

    function testFuzz_TheAddressAndThePermitOfAnyMandate(Mandates.Mandate memory m) public view {
        if (m.payer == address(0)) m.payer = payer;
        if (m.merchant == address(0)) m.merchant = merchant;
        m.amount = uint160(bound(m.amount, 1, type(uint128).max));
        m.periods = uint32(bound(m.periods, 1, type(uint32).max - 1));
        m.periodSeconds = uint32(bound(m.periodSeconds, 1, 60_000));
        m.begins = uint48(bound(m.begins, 0, 1 << 40));
        assertEq(mandates.addressOf(m), addressBy(m));
        (IPermit2Allowance.PermitDetails memory details, address at) = mandates.permitOf(m);
        IPermit2Allowance.PermitSingle memory p = permitBy(m);
        assertEq(abi.encode(details, at, details.expiration), abi.encode(p.details, p.spender, p.sigDeadline));
    }

    /// Twelve periods of 1,000, up to the last second of the last.
    function test_WhatThePayerSigns() public view {
        Mandates.Mandate memory m = mandate();
        (IPermit2Allowance.PermitDetails memory details, address at) = mandates.permitOf(m);
        assertEq(details.token, address(token));
        assertEq(details.amount, 12_000e6);
        assertEq(details.expiration, START + 360 days - 1);
        assertEq(details.nonce, 0);
        assertEq(at, addressBy(m));
    }

    function testFuzz_WhatTheMerchantSigns(address at, Mandates.Charge memory c) public view {
        assertEq(mandates.chargeDigest(at, c), chargeDigestBy(mandates, at, c));
    }

    /// The very text that the gateway hashes (`events::Terms`), as it stands in its own tests.
    function test_TheTermsAreTheGateways() public view {
        Drawing memory f = drawing(0);
        f.mandate.termsBefore =
            '{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:10/slip44:60"},{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:137/slip44:966"}],"fulfillment_amount":"';
        f.mandate.termsAfter =
            '","source":{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}';
        (f.charge.fulfillmentAmount, f.charge.amount) = (25, 30);
        bytes memory canonical =
            '{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:10/slip44:60"},{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:137/slip44:966"}],"fulfillment_amount":"25","max_source_amount":"30","source":{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}';
        assertEq(mandates.depositOf(f.mandate, f.charge).termsHash, sha256(canonical));
    }

    function testFuzz_TheDepositOfAnyCharge(Mandates.Mandate memory m, Mandates.Charge memory c) public view {
        assertEq(abi.encode(mandates.depositOf(m, c)), abi.encode(depositBy(m, c)));
    }

    // Into the escrow

    function test_TheFirstChargeBringsThePermitAndLaterOnesNeedNone() public {
        Drawing memory first = drawing(0);
        address at = addressBy(first.mandate);
        vm.expectEmit(address(mandates));
        emit Mandates.Charged(at, idOf(0), 0, ASKED, ASKED);
        expectEscrowed(first);
        makeDeposit(first);
        isDrawn(first, 1);

        Drawing memory next = drawing(mandate(), 1, 600e6);
        next.permit = "";
        vm.expectEmit(address(mandates));
        emit Mandates.Charged(at, idOf(1), 0, 600e6, MOST);
        expectEscrowed(next);
        makeDeposit(next);
        assertUsed(next.mandate, 0, MOST);
        assertPaid(address(token), 0, 1_000e6);
        assertEq(token.balanceOf(at) + token.allowance(at, address(escrow)), 0);
        assertEq(allowanceOf(next.mandate).amount, 11_000e6);
    }

    function expectEscrowed(Drawing memory f) private {
        bytes32 id = f.charge.paymentId;
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(id, QUOTE, f.mandate.payer, d, f.mandate.token, f.charge.amount);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(id, QUOTE, settler, PRICE, f.award.fulfillBy);
    }

    /// The charge is the first, by itself in the escrow, with an allowance of which it has taken its part.
    function isDrawn(Drawing memory f, uint48 nonce) private view {
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(d, f.mandate.token, f.charge.amount), f.award))
        });
        assertEq(abi.encode(escrow.recordOf(f.charge.paymentId)), abi.encode(expected));
        assertUsed(f.mandate, 0, ASKED);
        assertPaid(address(token), 0, ASKED);
        assertEq(token.balanceOf(addressBy(f.mandate)), 0);
        Allowance memory left = Allowance(12_000e6 - ASKED, END - 1, nonce);
        assertEq(abi.encode(allowanceOf(f.mandate)), abi.encode(left));
    }

    function test_ByWhomever() public {
        Drawing memory f = drawing(0);
        bytes memory call = callOf(f);
        address[6] memory callers = [payer, merchant, settler, attacker, reserver, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            uint256 snapshot = vm.snapshotState();
            vm.prank(callers[i]);
            (bool made,) = address(mandates).call(call);
            assertTrue(made);
            isDrawn(f, 1);
            vm.revertToState(snapshot);
        }
    }

    /// Where the price is all that is drawn, the smaller admission is the one; what costs more is refused.
    function test_AtThePrice() public {
        Drawing memory f = drawing(0);
        f.award.sourceAmount = ASKED;
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        bytes memory larger = signLargerAdmission(reserverKey, d, f.award, address(token), ASKED, f.admittedUntil);
        expectDepositRefused(f, callOf(f, larger), notAdmitted());
        makeDeposit(f);
        f = drawing(1);
        f.award.sourceAmount = ASKED + 1;
        expectDepositRefused(f, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, ASKED + 1, ASKED));
    }

    // Periods

    function test_UpToTheAmountOfAPeriod() public {
        for (uint256 i = 0; i < 2; i++) makeDeposit(drawing(i));
        expectDepositRefused(drawing(mandate(), 2, 200e6 + 1), aboveThePeriod(200e6 + 1, 200e6));
        makeDeposit(drawing(mandate(), 2, 200e6));
        expectDepositRefused(drawing(mandate(), 3, 1), aboveThePeriod(1, 0));
        assertPaid(address(token), 0, MOST);
        expectDepositRefused(drawing(mandate(), 3, type(uint160).max), aboveThePeriod(type(uint160).max, 0));
    }

    /// Each period has the whole amount, whatever was left of those before it.
    function test_WhatIsNotDrawnInAPeriodIsLost() public {
        vm.warp(startOf(2));
        makeDeposit(drawing(mandate(), 0, 1));
        assertUsed(mandate(), 2, 1);
        assertEq(mandates.leftOf(mandate()), MOST - 1);
        vm.warp(startOf(3));
        assertEq(mandates.leftOf(mandate()), MOST);
        expectDepositRefused(drawing(mandate(), 1, MOST + 1), aboveThePeriod(MOST + 1, MOST));
        makeDeposit(drawing(mandate(), 1, MOST));
        expectDepositRefused(drawing(mandate(), 2, 1), aboveThePeriod(1, 0));
        vm.warp(startOf(7));
        expectDepositRefused(drawing(mandate(), 2, MOST + 1), aboveThePeriod(MOST + 1, MOST));
        makeDeposit(drawing(mandate(), 2, ASKED));
        assertUsed(mandate(), 7, ASKED);
        assertPaid(address(token), 0, 1 + MOST + ASKED);
    }

    /// All of every period is all that was permitted.
    function test_EveryPeriodToTheEnd() public {
        for (uint256 i = 0; i < PERIODS; i++) {
            vm.warp(startOf(i + 1) - 1);
            Drawing memory f = drawing(mandate(), i, MOST);
            makeDeposit(f);
            assertUsed(f.mandate, uint32(i), MOST);
        }
        assertEq(allowanceOf(mandate()).amount, 0);
        assertPaid(address(token), 0, 12_000e6);
        vm.warp(END);
        expectDepositRefused(drawing(mandate(), 20, 1), notInForce(START, END));
    }

    // Out of the escrow

    /// What a payment does not cost, and all of one that is not delivered, goes to the payer; the period stays as drawn.
    function test_WhatComesBackIsThePayersAndIsNotDrawnAgain() public {
        makeDeposit(drawing(mandate(), 0, 400e6));
        makeDeposit(drawing(mandate(), 1, 350e6));
        makeDeposit(drawing(mandate(), 2, 250e6));
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(idOf(0), QUOTE, settler, PRICE, 30e6);
        escrow.release(termsOf(idOf(0)), signDelivery(releaserKey, idOf(0), QUOTE, settler));
        assertPaid(address(token), PRICE, 600e6);
        escrow.cancel(termsOf(idOf(1)), signNonDelivery(releaserKey, idOf(1), QUOTE));
        assertPaid(address(token), PRICE, 250e6);
        expectDepositRefused(drawing(mandate(), 3, 1), aboveThePeriod(1, 0));
        vm.warp(START + LOCK);
        escrow.refund(termsOf(idOf(2)));
        assertPaid(address(token), PRICE, 0);
        expectDepositRefused(drawing(mandate(), 3, 1), aboveThePeriod(1, 0));
        assertEq(allowanceOf(mandate()).amount, 11_000e6);
        // What ended is not deposited again, in whatever period.
        vm.warp(startOf(1));
        for (uint256 i = 0; i < 3; i++) expectDepositRefused(drawing(i), idUsed(i));
    }

    function test_MandatesOfOnePayerAreApart() public {
        Mandates.Mandate memory other = mandate();
        other.salt = keccak256("another salt");
        makeDeposit(drawing(mandate(), 0, MOST));
        makeDeposit(drawing(other, 1, MOST));
        makeDeposit(drawing(mandateOf(payer, address(euro)), 2, MOST));
        assertPaid(address(token), 0, 2 * MOST);
        assertPaid(address(euro), 0, MOST);
        vm.prank(payer);
        mandates.cancel(other, "");
        vm.warp(startOf(1));
        expectDepositRefused(drawing(other, 3, 1), cancelledAt(other));
        makeDeposit(drawing(mandate(), 3, MOST));
    }

    // The allowance

    /// The payer's own call at Permit2, of all or of less; a charge beyond it needs the signature.
    function test_AnAllowanceWithoutASignature() public {
        Drawing memory f = drawing(0);
        f.permit = "";
        allowAtPermit2(12_000e6, END - 1);
        makeDeposit(f);
        isDrawn(f, 0);
        allowAtPermit2(ASKED - 1, END - 1);
        f = drawing(1);
        bytes memory permit = f.permit;
        f.permit = "";
        expectDepositRefused(f, insufficient(ASKED - 1));
        f.permit = permit;
        makeDeposit(f);
        assertEq(allowanceOf(f.mandate).amount, 12_000e6 - ASKED);
        // One without end is not more than the mandate.
        allowAtPermit2(type(uint160).max, type(uint48).max);
        expectDepositRefused(drawing(mandate(), 2, MOST), aboveThePeriod(MOST, 200e6));
        makeDeposit(drawing(mandate(), 2, 200e6));
        assertEq(allowanceOf(f.mandate).amount, type(uint160).max);
        vm.warp(END);
        expectDepositRefused(drawing(mandate(), 3, 1), notInForce(START, END));
    }

    function test_AnAllowanceThatEndsBeforeTheMandate() public {
        allowAtPermit2(12_000e6, START + 100);
        vm.warp(START + 100);
        makeDeposit(drawing(0));
        vm.warp(START + 101);
        bytes memory expired = abi.encodeWithSignature("AllowanceExpired(uint256)", START + 100);
        expectDepositRefused(drawing(1), expired);
        allowAtPermit2(12_000e6, END - 1);
        makeDeposit(drawing(1));
    }

    function test_SomebodyElseBroughtThePermit() public {
        Drawing memory f = drawing(0);
        vm.prank(attacker);
        IPermit2Allowance(PERMIT2).permit(payer, permitBy(f.mandate), f.permit);
        makeDeposit(f);
        isDrawn(f, 1);
    }

    /// As short as keys' signatures can be (ERC-2098).
    function test_WithAShortSignature() public {
        Drawing memory f = drawing(0);
        (bytes32 r, bytes32 rest) = abi.decode(f.permit, (bytes32, bytes32));
        if (f.permit[64] == hex"1c") rest |= bytes32(uint256(1) << 255);
        f.permit = abi.encodePacked(r, rest);
        makeDeposit(f);
        isDrawn(f, 1);
    }

    function test_OfAPayerThatIsAContract() public {
        address account = address(new ContractSigner(payer));
        Mandates.Mandate memory m = mandateOf(account, address(token));
        token.mint(account, MOST);
        vm.prank(account);
        token.approve(PERMIT2, type(uint256).max);
        Drawing memory f = drawing(m, 0, ASKED);
        f.permit = sign(attackerKey, permitDigest(m));
        expectDepositRefused(f, abi.encodeWithSignature("InvalidContractSignature()"));
        makeDeposit(drawing(m, 0, ASKED));
        makeDeposit(drawing(m, 1, ASKED));
        escrow.cancel(termsOf(idOf(0)), signNonDelivery(releaserKey, idOf(0), QUOTE));
        assertEq(token.balanceOf(account), MOST - ASKED);
        // It is asked about the end, too.
        bytes memory signature = sign(attackerKey, cancellationDigest(m));
        vm.startPrank(stranger);
        vm.expectRevert(notByPayer(m));
        mandates.cancel(m, signature);
        mandates.cancel(m, sign(payerKey, cancellationDigest(m)));
        vm.stopPrank();
        expectDepositRefused(drawing(m, 2, 1), cancelledAt(m));
    }

    // What is given back

    /// The token, another and coins, sent before the address has its code and after; all of it is the payer's, at any time.
    function test_StraysAreThePayers() public {
        Mandates.Mandate memory m = mandate();
        address at = addressBy(m);
        for (uint256 i = 0; i < 3; i++) {
            uint256 snapshot = vm.snapshotState();
            if (i == 1) makeDeposit(drawing(0));
            if (i == 2) vm.warp(END + 1);
            expectNotGivenBack(m, address(token), nothingThere(address(token)));
            expectNotGivenBack(m, address(0), nothingThere(address(0)));
            expectNotGivenBack(m, stranger, nothingThere(stranger));
            token.mint(at, 3);
            euro.mint(at, 4);
            vm.deal(at, 5);
            assertEq(giveBack(m, address(euro)), 4);
            vm.expectEmit(address(mandates));
            emit Mandates.GivenBack(at, payer, address(0), 5);
            assertEq(giveBack(m, address(0)), 5);
            vm.expectEmit(address(mandates));
            emit Mandates.GivenBack(at, payer, address(token), 3);
            assertEq(giveBack(m, address(token)), 3);
            assertEq(token.balanceOf(payer), WEALTH + 3 - (i == 1 ? ASKED : 0));
            assertEq(euro.balanceOf(payer) - WEALTH + payer.balance, 9);
            if (i < 2) makeDeposit(drawing(1));
            vm.revertToState(snapshot);
        }
    }

    /// Once there is the code a coin is refused, unless it is forced on it.
    function test_CoinsAreRefusedOnceTheCodeIsThere() public {
        makeDeposit(drawing(0));
        vm.deal(stranger, 2);
        vm.startPrank(stranger);
        (bool taken,) = addressBy(mandate()).call{value: 1}("");
        assertFalse(taken);
        (taken,) = address(mandates).call{value: 1}("");
        assertFalse(taken);
        vm.stopPrank();
    }

    /// What a stranger adds changes no deposit, and no deposit takes of it.
    function testFuzz_StraysChangeNoDeposit(uint128 sent) public {
        Mandates.Mandate memory m = mandate();
        token.mint(addressBy(m), sent);
        makeDeposit(drawing(0));
        makeDeposit(drawing(1));
        assertEq(token.balanceOf(addressBy(m)), sent);
        assertPaid(address(token), 0, 2 * ASKED);
        assertUsed(m, 0, 2 * ASKED);
        if (sent != 0) assertEq(giveBack(m, address(token)), sent);
    }
}
