// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Authorizations} from "./support/Authorizations.sol";
import {AuthorizingToken, FailsWithBytes, TakesEveryCall} from "./support/AuthorizingToken.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Deposits by an ERC-3009 authorization: the reserver's word, the windows, and tokens that do not do as they are told.
contract EscrowAuthorizationRulesTest is Authorizations {
    bytes32 private constant PAYMENT = keccak256("pay_1");

    // The reserver's word

    /// Everything else is made right for the changed field, the payer's signature too.
    function test_NoAdmittedFieldCanBeChanged() public {
        bytes memory admission = admissionOf(good());
        DevStablecoin otherToken = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
        otherToken.mint(payer, WEALTH);
        stable.mint(attacker, WEALTH);
        for (uint256 field = 0; field < 17; field++) {
            Authorized memory a = good();
            if (field == 0) a.terms.paymentId = a.award.paymentId = keccak256("pay_2");
            if (field == 1) a.terms.termsHash = keccak256("other terms");
            if (field == 2) a.terms.quoteHash = a.award.quoteHash;
            if (field == 3) a.terms.payer = attacker;
            if (field == 4) a.terms.releaser = attacker;
            if (field == 5) a.terms.reserveDeadline += 1;
            if (field == 6) a.terms.fulfillmentDeadline += 1;
            if (field == 7) a.terms.refundAfter += 1;
            if (field == 8) a.award.quoteHash = keccak256("other quote");
            if (field == 9) a.award.settler = attacker;
            if (field == 10) a.award.sourceAmount += 1;
            if (field == 11) a.award.sourceAmount = CAP;
            if (field == 12) a.award.fulfillBy += 1;
            if (field == 13) a.authorization.token = address(otherToken);
            if (field == 14) a.authorization.amount += 1;
            if (field == 15) a.authorization.amount -= 1;
            if (field == 16) a.admittedUntil += 1;
            a.authorization = authorizationBy(
                field == 3 ? attackerKey : payerKey, a.terms, a.authorization.token, a.authorization.amount
            );
            expectCallRefused(callOf(a, admission), reserverInvalid());
        }
        // Until when the token takes it is the payer's affair.
        Authorized memory longer = good();
        longer.authorization.validBefore += 1;
        longer.authorization.signature = sign(payerKey, authorizationDigest(longer.terms, longer.authorization));
        (bool made,) = address(escrow).call(callOf(longer, admission));
        assertTrue(made);
    }

    function test_NoneButTheReserversWordOnThisDeposit() public {
        Authorized memory a = good();
        bytes[8] memory others = [
            bytes(""),
            a.authorization.signature,
            signAdmission(reserverKey, a.terms, a.award, address(stable)),
            signLargerAdmission(attackerKey, a.terms, a.award, address(stable), CAP, ADMITTED_UNTIL),
            signLargerAdmission(releaserKey, a.terms, a.award, address(stable), CAP, ADMITTED_UNTIL),
            signLargerAdmission(payerKey, a.terms, a.award, address(stable), CAP, ADMITTED_UNTIL),
            signOpening(reserverKey, a.terms, address(stable), CAP),
            signReservation(reserverKey, a.award)
        ];
        for (uint256 i = 0; i < others.length; i++) {
            expectCallRefused(callOf(a, others[i]), reserverInvalid());
        }
        expectMade(a);
    }

    /// Where the award asks for all that was authorized, the plain admission is what counts, and that alone.
    function test_ThePriceItselfTakesThePlainAdmission() public {
        Authorized memory a = authorized(depositTerms(), reservation(), address(stable), QUOTED);
        bytes memory larger =
            signLargerAdmission(reserverKey, a.terms, a.award, address(stable), QUOTED, ADMITTED_UNTIL);
        expectCallRefused(callOf(a, larger), reserverInvalid());
        bytes memory plain = signAdmission(reserverKey, a.terms, a.award, address(stable));
        (bool made,) = address(escrow).call(callOf(a, plain));
        assertTrue(made);
        assertPaid(address(stable), 0, QUOTED);
        noteTerms(asReserved(asDeposited(a.terms, address(stable), QUOTED), a.award));
        escrow.release(termsOf(PAYMENT), delivery());
        assertPaid(address(stable), QUOTED, 0);
    }

    function test_ByAContractAsReserver() public {
        address contract_ = address(new ContractSigner(reserver));
        escrow = new GatewayEscrow(PERMIT2, contract_, guardian, PAYOUT_GAS);
        Authorized memory a = good();
        a.terms.reserver = contract_;
        a.authorization = authorizationBy(payerKey, a.terms, address(stable), CAP);
        bytes memory byAnother =
            signLargerAdmission(attackerKey, a.terms, a.award, address(stable), CAP, ADMITTED_UNTIL);
        expectCallRefused(
            callOf(a, byAnother), abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, contract_)
        );
        expectMade(a);
    }

    function test_TheAdmissionEnds() public {
        Authorized memory a = good();
        a.admittedUntil = START + 20;
        bytes memory call = callOf(a);
        vm.warp(a.admittedUntil + 1);
        expectCallRefused(call, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, a.admittedUntil));
        vm.warp(a.admittedUntil);
        expectMade(a);
    }

    function test_ARetiredEscrowTakesNothing() public {
        vm.prank(guardian);
        escrow.retire();
        expectRefused(good(), GatewayEscrow.EscrowRetired.selector);
    }

    // The terms, each refused by its own error with all signatures right

    function test_EveryPartyAndAmountMustBeThere() public {
        Authorized memory a = good();
        a.award.paymentId = keccak256("pay_2");
        expectRefused(
            a, abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, PAYMENT, a.award.paymentId)
        );
        a = good();
        a.terms.payer = address(0);
        expectResigned(a, abi.encodeWithSelector(GatewayEscrow.PayerMissing.selector));
        a = good();
        a.terms.releaser = address(0);
        expectResigned(a, abi.encodeWithSelector(GatewayEscrow.ReleaserMissing.selector));
        a = good();
        a.terms.reserver = attacker;
        expectResigned(a, abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, attacker));
        a = good();
        a.award.settler = address(0);
        expectRefused(a, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, address(0)));
        a.award.settler = address(escrow);
        expectRefused(a, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, address(escrow)));
        a = good();
        a.award.sourceAmount = 0;
        expectRefused(a, GatewayEscrow.AmountZero.selector);
        a.authorization.amount = 0;
        expectResigned(a, abi.encodePacked(GatewayEscrow.AmountZero.selector));
        a = good();
        a.award.sourceAmount = CAP + 1;
        expectRefused(a, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP));
    }

    function test_TheEscrowItselfPaysNothing() public {
        stable.mint(address(escrow), CAP);
        Authorized memory a = good();
        a.terms.payer = address(escrow);
        expectResigned(a, abi.encodePacked(DevStablecoin.SignatureInvalid.selector));
    }

    // Windows, at both edges

    function test_ReserveDeadlineIsTheLastSecond() public {
        Authorized memory a = good();
        vm.warp(a.terms.reserveDeadline + 1);
        expectRefused(
            a, abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, a.terms.reserveDeadline)
        );
        vm.warp(a.terms.reserveDeadline);
        expectMade(a);
    }

    function test_ValidBeforeIsTheFirstSecondOfTheTokensRefusal() public {
        Authorized memory a = good();
        a.authorization.validBefore = START + 30;
        a.authorization.signature = sign(payerKey, authorizationDigest(a.terms, a.authorization));
        vm.warp(START + 30);
        expectRefused(a, DevStablecoin.AuthorizationExpired.selector);
        vm.warp(START + 29);
        expectMade(a);
    }

    function test_TheWindowsAreInOrder() public {
        Authorized memory a = good();
        a.terms.reserveDeadline = a.terms.fulfillmentDeadline + 1;
        expectResigned(a, windowsOutOfOrder(a.terms));
        a = good();
        a.terms.refundAfter = a.terms.fulfillmentDeadline;
        expectResigned(a, windowsOutOfOrder(a.terms));
        a = good();
        a.award.fulfillBy = START;
        expectRefused(a, abi.encodeWithSelector(GatewayEscrow.FulfillByPassed.selector, START));
        a.award.fulfillBy = a.terms.fulfillmentDeadline + 1;
        expectRefused(
            a,
            abi.encodeWithSelector(
                GatewayEscrow.FulfillByTooLate.selector, a.award.fulfillBy, a.terms.fulfillmentDeadline
            )
        );
        a.award.fulfillBy = a.terms.fulfillmentDeadline;
        expectMade(a);
    }

    // Tokens

    function test_WhatIsNoTokenOrKnowsNoAuthorizations() public {
        expectRefused(inToken(stranger), abi.encodeWithSelector(GatewayEscrow.TokenHasNoCode.selector, stranger));
        // A call of what it does not know fails, and one that a fallback takes moves nothing.
        expectRefused(inToken(address(token)), bytes(""));
        TakesEveryCall takesAll = new TakesEveryCall();
        takesAll.mint(payer, WEALTH);
        vm.prank(payer);
        takesAll.approve(address(escrow), type(uint256).max);
        expectRefused(inToken(address(takesAll)), notExact(0));
        assertEq(takesAll.balanceOf(payer), WEALTH);
    }

    function test_ATokenThatMovesAnotherAmount() public {
        AuthorizingToken tricky = trickyToken();
        uint256 snapshot = vm.snapshotState();
        tricky.setFee(1);
        expectRefused(inToken(address(tricky)), notExact(CAP - 1));
        tricky.setFee(CAP);
        expectRefused(inToken(address(tricky)), notExact(0));
        vm.revertToState(snapshot);
        tricky.setDenial(address(escrow), TrickToken.Denial.MovesNothing);
        expectRefused(inToken(address(tricky)), notExact(0));
        tricky.setDenial(address(escrow), TrickToken.Denial.Reverts);
        expectRefused(inToken(address(tricky)), abi.encodeWithSignature("Error(string)", "denied"));
        vm.revertToState(snapshot);
        tricky.setHook(address(tricky), abi.encodeCall(TrickToken.mint, (address(escrow), 1)));
        expectRefused(inToken(address(tricky)), notExact(CAP + 1));
        vm.revertToState(snapshot);
        // What others have here is not counted as the payer's.
        tricky.mint(address(escrow), CAP);
        tricky.setDenial(address(escrow), TrickToken.Denial.MovesNothing);
        expectRefused(inToken(address(tricky)), notExact(0));
        vm.revertToState(snapshot);
        // While a charge on the payer besides is between it and the token.
        tricky.setSurcharge(5);
        makes(inToken(address(tricky)));
        assertEq(tricky.balanceOf(payer), WEALTH - CAP - 5);
    }

    /// Even less is there afterwards than before: it took what is others'.
    function test_ATokenThatTakesFromTheEscrow() public {
        AuthorizingToken tricky = trickyToken();
        Authorized memory first = inToken(address(tricky));
        first.terms.paymentId = first.award.paymentId = keccak256("pay_0");
        first.authorization = authorizationBy(payerKey, first.terms, address(tricky), CAP);
        makes(first);
        tricky.setFee(CAP);
        tricky.setHook(address(tricky), abi.encodeCall(TrickToken.shrink, (address(escrow), 1)));
        expectRefused(inToken(address(tricky)), notExact(0));
        tricky.setFee(0);
        tricky.setHook(address(0), "");
        tricky.shrink(address(escrow), 1);
        expectRefused(
            inToken(address(tricky)),
            abi.encodeWithSelector(GatewayEscrow.TokenShort.selector, address(tricky), CAP, CAP - 1)
        );
        assertEq(escrow.owedIn(address(tricky)), CAP);
    }

    /// What a token answers is not looked at, and not copied, however much it is.
    function test_WhateverATokenAnswers() public {
        AuthorizingToken tricky = trickyToken();
        uint256[4] memory used;
        for (uint8 answer = 0; answer < 4; answer++) {
            uint256 snapshot = vm.snapshotState();
            tricky.setAnswer(TrickToken.Answer(answer));
            bytes memory call = callOf(inToken(address(tricky)));
            uint256 left = gasleft();
            (bool done,) = address(escrow).call(call);
            used[answer] = left - gasleft();
            assertTrue(done);
            assertEq(tricky.balanceOf(address(escrow)), CAP);
            vm.revertToState(snapshot);
        }
        // To have 250,000 bytes costs 142,642, once.
        assertLt(used[3], used[0] + 160_000);
    }

    /// What a token fails with is told, and a gas limit is all that it can use up.
    function test_ATokenThatFailsWithABomb() public {
        FailsWithBytes bomb = new FailsWithBytes(500_000);
        Authorized memory a = inToken(address(bomb));
        bytes memory data = callOf(a);
        for (uint256 limit = 200_000; limit < 4_000_000; limit += 400_000) {
            uint256 left = gasleft();
            bool done;
            address at = address(escrow);
            assembly {
                done := call(limit, at, 0, add(data, 32), mload(data), 0, 0)
            }
            assertFalse(done);
            assertLt(left - gasleft(), limit + 20_000);
        }
        assertState(GatewayEscrow.State.None);
        assertFalse(bomb.authorizationState(payer, depositHash(a.terms)));
        // The lock is open again.
        expectMade(good());
    }

    function test_ATokenThatBurnsAllGas() public {
        AuthorizingToken tricky = trickyToken();
        tricky.setDenial(address(escrow), TrickToken.Denial.BurnsGas);
        (bool done,) = address(escrow).call{gas: 1_000_000}(callOf(inToken(address(tricky))));
        assertFalse(done);
        assertState(GatewayEscrow.State.None);
    }

    /// A token that calls the escrow in the middle gets nothing done, also not the very deposit or another payment's.
    function test_ATokenThatReenters() public {
        AuthorizingToken tricky = trickyToken();
        Authorized memory a = inToken(address(tricky));
        Authorized memory other = good();
        other.terms.paymentId = other.award.paymentId = keccak256("pay_2");
        other.authorization = authorizationBy(payerKey, other.terms, address(stable), CAP);
        bytes[3] memory calls = [callOf(a), callOf(other), abi.encodeCall(escrow.claimFor, (payer, address(stable)))];
        for (uint256 i = 0; i < calls.length; i++) {
            uint256 snapshot = vm.snapshotState();
            tricky.setHook(address(escrow), calls[i]);
            makes(a);
            assertFalse(tricky.hookSucceeded());
            assertEq(bytes4(tricky.hookResult()), GatewayEscrow.Reentered.selector);
            assertEq(stable.balanceOf(address(escrow)), 0);
            assertEq(tricky.balanceOf(address(escrow)), CAP);
            vm.revertToState(snapshot);
        }
    }

    // Helpers

    function trickyToken() private returns (AuthorizingToken tricky) {
        tricky = new AuthorizingToken();
        tricky.mint(payer, WEALTH);
    }

    /// A deposit of the cap in that token with all right.
    function inToken(address asset) private view returns (Authorized memory) {
        return authorized(depositTerms(), reservation(), asset, CAP);
    }

    function makes(Authorized memory a) private {
        (bool done,) = address(escrow).call(callOf(a));
        assertTrue(done, "refused");
    }

    /// Refused with the payer's signature over the terms and the amount as they are now, by its key.
    function expectResigned(Authorized memory a, bytes memory refusal) private {
        a.authorization = authorizationBy(payerKey, a.terms, a.authorization.token, a.authorization.amount);
        expectRefused(a, refusal);
    }

    function notExact(uint256 received) private pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, received);
    }

    function windowsOutOfOrder(GatewayEscrow.GatewayDeposit memory d) private pure returns (bytes memory) {
        return abi.encodeWithSelector(
            GatewayEscrow.WindowsOutOfOrder.selector, d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter
        );
    }
}
