// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {MandateAddress} from "../src/MandateAddress.sol";
import {Mandates} from "../src/Mandates.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice What was signed is what is drawn: mandates, charges and admissions with any of their fields another one, on other chains, by
/// other contracts and in other escrows; and that nobody else commands an address.
contract MandatesTermsTest is Mandating {
    // Other mandates

    /// How many bits each of the words of a mandate has.
    function widthOf(uint256 field) private pure returns (uint256) {
        return [uint256(160), 160, 160, 160, 256, 160, 160, 48, 32, 32, 32, 256][field];
    }

    /// A copy with another bit of one of the twelve words, or of the first or the last byte of one of the texts.
    function changed(Mandates.Mandate memory m, uint256 field, uint256 bit)
        private
        pure
        returns (Mandates.Mandate memory)
    {
        bytes memory words = encoded(m);
        if (field < 12) {
            words[32 * (field + 1) + 31 - bit / 8] ^= bytes1(uint8(1 << bit % 8));
            return abi.decode(words, (Mandates.Mandate));
        }
        Mandates.Mandate memory other = abi.decode(words, (Mandates.Mandate));
        bytes memory text = field == 12 ? other.termsBefore : other.termsAfter;
        text[bit < 8 ? 0 : text.length - 1] ^= bytes1(uint8(1 << bit % 8));
        return other;
    }

    function bitsOf(uint256 field) private pure returns (uint256) {
        return field < 12 ? widthOf(field) : 16;
    }

    /// Every bit is another address, or none; and so is a byte that goes from one text to the other.
    function test_EachBitOfTheMandateIsOfAnotherAddress() public view {
        Mandates.Mandate memory m = mandate();
        address at = addressBy(m);
        uint256 none;
        for (uint256 field = 0; field < 14; field++) {
            for (uint256 bit = 0; bit < bitsOf(field); bit++) {
                Mandates.Mandate memory other = changed(m, field, bit);
                (bool found, bytes memory answer) = address(mandates).staticcall(abi.encodeCall(mandates.addressOf, (other)));
                if (!found) {
                    assertEq(answer, invalid());
                    none++;
                    continue;
                }
                assertEq(abi.decode(answer, (address)), addressBy(other));
                assertNotEq(addressBy(other), at);
            }
        }
        // Three of the amount, whose twelvefold Permit2 does not hold, and five of the periods, whose end it does not.
        assertEq(none, 8);
        m.termsBefore = bytes.concat(m.termsBefore, m.termsAfter[0]);
        m.termsAfter = "";
        assertNotEq(mandates.addressOf(m), at);
        m.termsBefore = "";
        assertEq(mandates.addressOf(m), addressBy(m));
    }

    /// What payer and merchant signed for one mandate serves no other: the merchant's word is for the address, and where it asks for
    /// the same there, the payer's is not.
    function testFuzz_SignaturesAreForOneMandate(uint256 field, uint256 bit) public {
        Drawing memory f = drawing(0);
        field = bound(field, 0, 13);
        bit = bound(bit, 0, bitsOf(field) - 1);
        f.mandate = changed(f.mandate, field, bit);
        Mandates.Mandate memory m = f.mandate;
        (bool found,) = address(mandates).staticcall(abi.encodeCall(mandates.addressOf, (m)));
        vm.assume(found && m.payer.code.length == 0 && m.escrow.code.length + m.token.code.length != 0);
        // In force now, with time enough, and an amount that is asked for.
        vm.assume(m.begins <= START && uint256(m.begins) + uint256(m.periodSeconds) * m.periods > START);
        vm.assume(m.lockSeconds >= LOCK && m.amount >= ASKED);
        vm.assume(m.least < type(uint192).max && f.charge.fulfillmentAmount * m.amount >= m.least * ASKED);
        expectRefused(f, callOf(f), notTheMerchant(f));
        if (field == 1) return;
        f.charge.signature = sign(merchantKey, digestOf(f));
        if (field == 2) vm.etch(m.token, address(token).code);
        if (field == 5) vm.etch(m.escrow, address(escrow).code);
        (bool made, bytes memory why) = address(mandates).call(callOf(f));
        assertFalse(made);
        assertTrue(keccak256(why) == keccak256(invalidSigner()) || bytes4(why) == bytes4(keccak256("InvalidSignature()")));
        assertPaid(address(token), 0, 0);
    }

    /// Another merchant's word is none, whoever's else it is; nor is the payer's own.
    function test_OnlyTheMerchantAsks() public {
        Drawing memory f = drawing(0);
        uint256[4] memory keys = [payerKey, reserverKey, releaserKey, attackerKey];
        for (uint256 i = 0; i < 4; i++) {
            f.charge.signature = sign(keys[i], digestOf(f));
            bytes memory refusal =
                abi.encodeWithSelector(Mandates.SignerNotMerchant.selector, vm.addr(keys[i]), merchant);
            expectDepositRefused(f, refusal);
        }
    }

    /// Another escrow, with its own reserver's word: in it nothing is deposited of this mandate.
    function test_AnotherEscrow() public {
        Drawing memory f = drawing(0);
        GatewayEscrow first = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        expectDepositRefused(f, notAdmitted());
        f.mandate.escrow = address(escrow);
        expectDepositRefused(f, notTheMerchant(f));
        f.charge.signature = sign(merchantKey, digestOf(f));
        expectDepositRefused(f, invalidSigner());
        f.mandate.escrow = stranger;
        f.charge.signature = sign(merchantKey, digestOf(f));
        expectDepositRefused(f, abi.encodeWithSelector(Mandates.EscrowMissing.selector, stranger));
        // One that knows no Permit2 draws nothing.
        f.mandate.escrow = address(new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS));
        resign(f);
        expectDepositRefused(f, "");
        escrow = first;
        makeDeposit(drawing(0));
    }

    function test_AnotherChain() public {
        Drawing memory f = drawing(0);
        bytes memory signature = sign(payerKey, cancellationDigest(f.mandate));
        vm.chainId(8_453);
        expectDepositRefused(f, notTheMerchant(f));
        f.charge.signature = sign(merchantKey, digestOf(f));
        expectDepositRefused(f, invalidSigner());
        expectNotCancelled(f.mandate, signature);
        vm.chainId(31_337);
        makeDeposit(drawing(0));
    }

    function test_AnotherContract() public {
        Mandates first = mandates;
        Drawing memory f = drawing(0);
        bytes memory signature = sign(payerKey, cancellationDigest(f.mandate));
        mandates = new Mandates();
        expectDepositRefused(f, notTheMerchant(f));
        // Also where the merchant meant this one, but the first one's address.
        f.charge.signature = sign(merchantKey, chargeDigestBy(mandates, addressBy(first, f.mandate), f.charge));
        expectDepositRefused(f, notTheMerchant(f));
        f.charge.signature = sign(merchantKey, digestOf(f));
        expectDepositRefused(f, invalidSigner());
        expectNotCancelled(f.mandate, signature);
    }

    function expectNotCancelled(Mandates.Mandate memory m, bytes memory signature) private {
        vm.prank(stranger);
        vm.expectRevert(notByPayer(m));
        mandates.cancel(m, signature);
    }

    // Other permits

    /// Any field of what the payer is to sign another one is another signature.
    function test_EveryFieldOfThePermit() public {
        Drawing memory f = drawing(0);
        for (uint256 field = 0; field < 6; field++) {
            IPermit2Allowance.PermitSingle memory p = permitBy(f.mandate);
            if (field == 0) p.details.token = address(euro);
            if (field == 1) p.details.amount += 1;
            if (field == 2) p.details.expiration += 1;
            if (field == 3) p.details.nonce += 1;
            if (field == 4) p.spender = address(mandates);
            if (field == 5) p.sigDeadline += 1;
            f.permit = sign(payerKey, permitDigest(p));
            expectDepositRefused(f, invalidSigner());
        }
        f.permit = sign(attackerKey, permitDigest(f.mandate));
        expectDepositRefused(f, invalidSigner());
        f.permit = hex"00";
        expectDepositRefused(f, abi.encodeWithSignature("InvalidSignatureLength()"));
        f.permit = "";
        expectDepositRefused(f, abi.encodeWithSignature("AllowanceExpired(uint256)", 0));
    }

    function testFuzz_NoBitOfTheSignaturesCanBeChanged(uint256 bit, bool ofMerchant) public {
        Drawing memory f = drawing(0);
        bit = bound(bit, 0, 519);
        bytes memory signature = ofMerchant ? f.charge.signature : f.permit;
        signature[bit / 8] ^= bytes1(uint8(1 << bit % 8));
        (bool made,) = address(mandates).call(callOf(f));
        assertFalse(made);
        assertPaid(address(token), 0, 0);
        signature[bit / 8] ^= bytes1(uint8(1 << bit % 8));
        makeDeposit(f);
    }

    // Other charges

    /// Any field that the merchant did not sign so is another message, and what the reserver signs for it serves nothing.
    function testFuzz_EveryFieldOfTheCharge(uint256 field, uint256 value) public {
        Drawing memory f = drawing(0);
        bytes32 was = digestOf(f);
        field = bound(field, 0, 6);
        if (field == 0) f.charge.paymentId = f.award.paymentId = bytes32(value);
        if (field == 1) f.charge.fulfillmentAmount = bound(value, RATE * ASKED, type(uint192).max);
        if (field == 2) f.charge.amount = uint160(bound(value, 0, ASKED));
        if (field == 3) f.charge.reserver = address(uint160(value));
        if (field == 4) f.charge.reserveDeadline = uint48(value);
        if (field == 5) f.charge.fulfillmentDeadline = uint48(value);
        if (field == 6) f.charge.refundAfter = uint48(bound(value, 0, START + LOCK));
        vm.assume(digestOf(f) != was);
        expectRefused(f, callOf(f), notTheMerchant(f));
    }

    /// What the merchant signed is what the escrow takes or refuses.
    function test_WhatTheEscrowRefuses() public {
        Drawing memory f = drawing(0);
        f.charge.reserver = attacker;
        expectEscrowRefuses(f, abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, attacker));
        f = drawing(0);
        f.charge.reserveDeadline = START - 1;
        expectEscrowRefuses(f, abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, START - 1));
        f = drawing(0);
        f.charge.refundAfter = START + 600;
        expectEscrowRefuses(
            f,
            abi.encodeWithSelector(GatewayEscrow.WindowsOutOfOrder.selector, START + 60, START + 600, START + 600)
        );
        f = drawing(0);
        f.award.fulfillBy = START + 601;
        expectEscrowRefuses(
            f, abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, START + 601, START + 600)
        );
        f = drawing(0);
        f.mandate.releaser = address(0);
        expectEscrowRefuses(f, abi.encodeWithSelector(GatewayEscrow.ReleaserMissing.selector));
        f = drawing(0);
        f.admittedUntil = START - 1;
        expectEscrowRefuses(f, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START - 1));
        // Nothing needs no allowance, and Permit2 knows none.
        expectEscrowRefuses(drawing(mandate(), 0, 0), abi.encodeWithSignature("AllowanceExpired(uint256)", 0));
        makeDeposit(drawing(1));
        expectEscrowRefuses(drawing(mandate(), 0, 0), abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
        vm.prank(guardian);
        escrow.retire();
        expectEscrowRefuses(drawing(0), abi.encodeWithSelector(GatewayEscrow.EscrowRetired.selector));
    }

    function expectEscrowRefuses(Drawing memory f, bytes memory refusal) private {
        resign(f);
        expectDepositRefused(f, refusal);
    }

    /// The reserver signs the deposit that follows, all of its amount, with this award and until then.
    function testFuzz_NothingOfTheAdmissionCanBeChanged(uint256 field, uint256 value) public {
        Drawing memory f = drawing(0);
        Larger memory right =
            Larger(false, depositBy(f.mandate, f.charge), f.award, address(token), ASKED, f.admittedUntil);
        Larger memory l = altered(right, field, value);
        expectRefused(f, callOf(f, admissionOf(l)), notAdmitted());
        makeDeposit(f);
    }

    /// The opening of an own deposit, or a reservation, admits nothing.
    function test_OtherWordsOfTheReservers() public {
        Drawing memory f = drawing(0);
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        expectDepositRefused(f, callOf(f, signOpening(reserverKey, d, address(token), ASKED)), notAdmitted());
        expectDepositRefused(f, callOf(f, signReservation(reserverKey, f.award)), notAdmitted());
        expectDepositRefused(f, callOf(f, signAdmission(reserverKey, d, f.award, address(token))), notAdmitted());
    }

    function invalid() private pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.MandateInvalid.selector);
    }

    // Words and callers

    /// Words whose types do not hold them are refused.
    function test_NoWordsBeyondTheirTypes() public view {
        bytes memory call = abi.encodeCall(mandates.addressOf, (mandate()));
        for (uint256 field = 0; field < 11; field++) {
            for (uint256 bit = widthOf(field); bit < 256; bit += 5) {
                uint256 place = 4 + 32 * (field + 1) + 31 - bit / 8;
                call[place] ^= bytes1(uint8(1 << bit % 8));
                (bool done, bytes memory why) = address(mandates).staticcall(call);
                assertFalse(done);
                assertEq(why, "");
                call[place] ^= bytes1(uint8(1 << bit % 8));
            }
        }
    }

    /// Nobody but the contract commands an address or the code behind it.
    function test_AnAddressObeysTheContractAlone() public {
        Drawing memory f = drawing(0);
        makeDeposit(f);
        address at = addressBy(f.mandate);
        token.mint(at, ASKED);
        DepositAddresses.Terms memory t =
            DepositAddresses.Terms(address(escrow), address(token), ASKED, depositBy(f.mandate, f.charge));
        bytes[3] memory calls = [
            abi.encodeCall(MandateAddress.draw, (IPermit2Allowance(PERMIT2), payer, address(token), 1)),
            abi.encodeCall(DepositAddress.pay, (address(token), attacker, 1)),
            abi.encodeCall(DepositAddress.deposit, (t, ASKED, f.award, f.admittedUntil, ""))
        ];
        address[2] memory targets = [at, mandates.implementation()];
        address[4] memory callers = [payer, merchant, attacker, address(escrow)];
        for (uint256 i = 0; i < 24; i++) {
            vm.prank(callers[i % 4]);
            (bool done, bytes memory why) = targets[i / 12].call(calls[i / 4 % 3]);
            assertFalse(done);
            assertEq(why, abi.encodeWithSelector(DepositAddress.CallerNotFactory.selector, callers[i % 4]));
        }
        assertEq(token.balanceOf(at), ASKED);
    }
}
