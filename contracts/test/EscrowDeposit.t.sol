// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice How money gets in, and every way it must not.
contract EscrowDepositTest is EscrowFixture {
    bytes4 private constant INVALID_SIGNER = bytes4(keccak256("InvalidSigner()"));

    // Permit2 with witness

    function test_WitnessedDepositIsReservedAndDrawsTheQuotedAmountOnly() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(d.paymentId, r.quoteHash, payer, d, address(token), QUOTED);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(d.paymentId, r.quoteHash, settler, QUOTED, r.fulfillBy);
        depositWitnessed(d, r, address(token));

        assertPaid(address(token), 0, QUOTED);
        GatewayEscrow.Record memory e = escrow.recordOf(d.paymentId);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(d, address(token), QUOTED), r))
        });
        assertEq(abi.encode(e), abi.encode(expected));
    }

    function test_WitnessedDepositOfAnAgreedQuote() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = reservation().quoteHash;
        depositWitnessed(d, reservation(), address(token));
        assertState(GatewayEscrow.State.Reserved);
    }

    function test_WitnessedDepositDrawsUpToTheWholeCap() public {
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = CAP;
        depositWitnessed(depositTerms(), r, address(token));
        assertPaid(address(token), 0, CAP);
    }

    function test_PayerMayBeAContract() public {
        ContractSigner account = new ContractSigner(payer);
        token.mint(address(account), CAP);
        vm.prank(address(account));
        token.approve(PERMIT2, CAP);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.payer = address(account);
        depositWitnessed(d, reservation(), address(token));
        assertEq(token.balanceOf(address(escrow)), QUOTED);
        assertEq(termsOf(d.paymentId).deposit.payer, address(account));
    }

    function test_PayerMaySignShort() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        bytes memory long = signWitness(payerKey, p, d);
        (bytes32 r, bytes32 s) = abi.decode(long, (bytes32, bytes32));
        if (long[64] == bytes1(uint8(28))) s |= bytes32(uint256(1) << 255);
        p.signature = abi.encodePacked(r, s);
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
        assertState(GatewayEscrow.State.Reserved);
    }

    /// The payer signed `depositTerms()`. Even the reserver's word does not change one field, though all the rest is
    /// made to agree with it: Permit2 must then refuse the payer's signature.
    function test_NoWitnessFieldCanBeChanged() public {
        GatewayEscrow.GatewayDeposit memory signed = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(signed, address(token));
        p.signature = signWitness(payerKey, p, signed);
        address victim = makeAddr("victim");
        token.mint(victim, CAP);
        vm.prank(victim);
        token.approve(PERMIT2, CAP);

        for (uint256 field = 0; field < 8; field++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            GatewayEscrow.Reservation memory r = reservation();
            if (field == 0) d.paymentId = r.paymentId = keccak256("pay_2");
            if (field == 1) d.termsHash = keccak256("other terms");
            if (field == 2) d.quoteHash = r.quoteHash;
            if (field == 3) d.payer = victim;
            if (field == 4) d.releaser = attacker;
            if (field == 5) d.reserveDeadline += 1;
            if (field == 6) d.fulfillmentDeadline += 1;
            if (field == 7) d.refundAfter += 1;
            p.nonce = nonceOf(d);
            bytes memory signature = signAdmission(reserverKey, d, r, address(token));
            vm.expectRevert(INVALID_SIGNER);
            escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, signature);
        }
        assertState(GatewayEscrow.State.None);
    }

    function test_AWitnessOfAnotherReserverIsRefused() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = attacker;
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.signature = signWitness(payerKey, p, d);
        d.reserver = reserver;
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        vm.expectRevert(INVALID_SIGNER);
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
    }

    function test_NoPermitFieldCanBeChanged() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory signed = unsignedPermit(d, address(token));
        bytes memory payerSignature = signWitness(payerKey, signed, d);
        for (uint256 field = 0; field < 3; field++) {
            GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
            p.signature = payerSignature;
            if (field == 0) p.token = address(trick);
            if (field == 1) p.amount += 1;
            if (field == 2) p.deadline += 1;
            bytes memory signature = signAdmission(reserverKey, d, reservation(), p.token);
            vm.expectRevert(INVALID_SIGNER);
            escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
        }
    }

    function test_ExpiredPermitIsRefusedByPermit2() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.deadline = START - 1;
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        vm.expectRevert(abi.encodeWithSignature("SignatureExpired(uint256)", p.deadline));
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
    }

    // The same payment twice

    function test_OneDepositForAPaymentForEver() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        expectIdUsed();
        escrow.release(termsOf(keccak256("pay_1")), delivery());
        expectIdUsed();
    }

    function test_NoSecondDepositAfterARefund() public {
        depositByPayer(depositTerms(), address(token));
        expectIdUsed();
        bytes memory word = signNonDelivery(releaserKey, keccak256("pay_1"), bytes32(0));
        escrow.cancel(termsOf(keccak256("pay_1")), word);
        expectIdUsed();
    }

    /// By every way in, with everything else right.
    function expectIdUsed() private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, d.paymentId);

        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, r, address(token));
        vm.expectRevert(used);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, signature);

        p.signature = signPermit(payerKey, p);
        vm.expectRevert(used);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, signature);

        expectOwnRefused(d, address(token), CAP, used);
    }

    // Rules of the terms, each refused by its own error

    function test_NonceMustBindPaymentAndTerms() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.nonce = 7;
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NonceNotOfPayment.selector, nonceOf(d), 7));
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);

        p.signature = signPermit(payerKey, p);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NonceNotOfPayment.selector, nonceOf(d), 7));
        escrow.depositWithPermit(d, p, reservation(), ADMITTED_UNTIL, signature);
    }

    function test_ReservationMustBeForThisPayment() public {
        GatewayEscrow.Reservation memory r = reservation();
        r.paymentId = keccak256("pay_2");
        expectRefused(
            depositTerms(),
            r,
            abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, depositTerms().paymentId, r.paymentId)
        );
    }

    function test_QuoteMustBeTheAgreedOne() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = keccak256("agreed");
        expectRefused(
            d,
            reservation(),
            abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, d.quoteHash, reservation().quoteHash)
        );
    }

    function test_AmountMustBeWithinTheCap() public {
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = CAP + 1;
        expectRefused(
            depositTerms(), r, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP)
        );
        r.sourceAmount = 0;
        expectRefused(depositTerms(), r, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector));
        r.sourceAmount = 1;
        depositWitnessed(depositTerms(), r, address(token));
    }

    function test_EveryPartyMustBeNamed() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.payer = address(0);
        expectRefused(d, reservation(), abi.encodeWithSelector(GatewayEscrow.PayerMissing.selector));
        d = depositTerms();
        d.releaser = address(0);
        expectRefused(d, reservation(), abi.encodeWithSelector(GatewayEscrow.ReleaserMissing.selector));
        d = depositTerms();
        d.reserver = address(0);
        expectRefused(d, reservation(), abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, address(0)));
        GatewayEscrow.Reservation memory r = reservation();
        r.settler = address(0);
        expectRefused(depositTerms(), r, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, r.settler));
        r.settler = address(escrow);
        expectRefused(depositTerms(), r, abi.encodeWithSelector(GatewayEscrow.SettlerInvalid.selector, r.settler));
    }

    function test_TokenMustHaveCode() public {
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.TokenHasNoCode.selector, stranger);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, stranger);
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, reservation(), stranger);
        vm.expectRevert(refusal);
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
        expectOwnRefused(d, stranger, CAP, refusal);
    }

    // Windows, at both edges

    function test_ReserveDeadlineIsTheLastSecondOfADeposit() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserveDeadline = START - 1;
        expectRefused(
            d, reservation(), abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, d.reserveDeadline)
        );
        d.reserveDeadline = START;
        depositWitnessed(d, reservation(), address(token));
    }

    function test_ReserveDeadlineIsNotAfterFulfillmentDeadline() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserveDeadline = d.fulfillmentDeadline + 1;
        expectRefused(d, reservation(), windowsOutOfOrder(d));
        d.reserveDeadline = d.fulfillmentDeadline;
        depositWitnessed(d, reservation(), address(token));
    }

    function test_RefundIsAfterFulfillmentDeadline() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.refundAfter = d.fulfillmentDeadline;
        expectRefused(d, reservation(), windowsOutOfOrder(d));
        d.refundAfter = d.fulfillmentDeadline + 1;
        depositWitnessed(d, reservation(), address(token));
    }

    function test_FulfillByIsInTheFuture() public {
        GatewayEscrow.Reservation memory r = reservation();
        r.fulfillBy = START;
        expectRefused(
            depositTerms(), r, abi.encodeWithSelector(GatewayEscrow.FulfillByPassed.selector, r.fulfillBy)
        );
        r.fulfillBy = START + 1;
        depositWitnessed(depositTerms(), r, address(token));
    }

    function test_FulfillByIsWithinFulfillmentDeadline() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        r.fulfillBy = d.fulfillmentDeadline + 1;
        expectRefused(
            d,
            r,
            abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, r.fulfillBy, d.fulfillmentDeadline)
        );
        r.fulfillBy = d.fulfillmentDeadline;
        depositWitnessed(d, r, address(token));
    }

    // Permit2 without witness

    function test_PermittedDepositIsReserved() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(d.paymentId, r.quoteHash, payer, d, address(token), QUOTED);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(d.paymentId, r.quoteHash, settler, QUOTED, r.fulfillBy);
        depositPermitted(d, r, address(token));
        assertState(GatewayEscrow.State.Reserved);
        assertPaid(address(token), 0, QUOTED);
    }

    function test_WitnessedSignatureIsNoPlainPermitAndTheOtherWayRound() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        vm.expectRevert(INVALID_SIGNER);
        escrow.depositWithPermit(d, p, reservation(), ADMITTED_UNTIL, signature);

        p.signature = signPermit(payerKey, p);
        vm.expectRevert(INVALID_SIGNER);
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, signature);
    }

    // By the payer's own transaction

    function test_OwnDepositTakesTheCap() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(d.paymentId, bytes32(0), payer, d, address(token), CAP);
        depositByPayer(d, address(token));
        assertState(GatewayEscrow.State.Deposited);
        assertPaid(address(token), 0, CAP);
    }

    function test_OwnDepositWithoutPermit2OnTheChain() public {
        escrow = new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS);
        vm.prank(payer);
        token.approve(address(escrow), CAP);
        depositByPayer(depositTerms(), address(token));
        assertState(GatewayEscrow.State.Deposited);

        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        vm.expectRevert(GatewayEscrow.Permit2Missing.selector);
        escrow.depositWithWitness(d, p, reservation(), ADMITTED_UNTIL, "");
        vm.expectRevert(GatewayEscrow.Permit2Missing.selector);
        escrow.depositWithPermit(d, p, reservation(), ADMITTED_UNTIL, "");
    }

    function test_OnlyThePayerDepositsByTransaction() public {
        bytes memory signature = signOpening(reserverKey, depositTerms(), address(token), CAP);
        vm.prank(attacker);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotPayer.selector, attacker, payer));
        escrow.depositOwn(depositTerms(), address(token), CAP, signature);
    }

    function test_OwnDepositOfNothing() public {
        expectOwnRefused(
            depositTerms(), address(token), 0, abi.encodeWithSelector(GatewayEscrow.AmountZero.selector)
        );
    }

    function test_OwnDepositWithoutAllowance() public {
        vm.prank(payer);
        token.approve(address(escrow), CAP - 1);
        expectOwnRefused(
            depositTerms(),
            address(token),
            CAP,
            abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, 0)
        );
    }

    function test_OwnDepositWindowEdges() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        vm.warp(d.reserveDeadline + 1);
        expectOwnRefused(
            d,
            address(token),
            CAP,
            abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, d.reserveDeadline)
        );
        vm.warp(d.reserveDeadline);
        depositByPayer(d, address(token));
    }

    // Tokens

    function test_TokensThatAnswerFalseNothingOrTooMuchAreTakenByWhatTheyMove() public {
        for (uint8 a = uint8(TrickToken.Answer.False); a <= uint8(TrickToken.Answer.Bomb); a++) {
            trick.setAnswer(TrickToken.Answer(a));
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            d.paymentId = keccak256(abi.encode("answer", a));
            depositByPayer(d, address(trick));
            assertEq(uint8(stateOf(d.paymentId)), uint8(GatewayEscrow.State.Deposited));
            assertEq(trick.balanceOf(address(escrow)), CAP * a);
        }
    }

    function test_SilentTokenThroughPermit2() public {
        trick.setAnswer(TrickToken.Answer.Nothing);
        depositWitnessed(depositTerms(), reservation(), address(trick));
        assertPaid(address(trick), 0, QUOTED);
    }

    function test_FeeOnTransferIsRefused() public {
        trick.setFee(1);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, QUOTED, QUOTED - 1);
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(trick));
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, r, address(trick));
        vm.expectRevert(refusal);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, signature);

        p.signature = signPermit(payerKey, p);
        vm.expectRevert(refusal);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, signature);

        refusal = abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, CAP - 1);
        expectOwnRefused(d, address(trick), CAP, refusal);
        assertState(GatewayEscrow.State.None);
    }

    function test_DepositThatBringsMoreThanItSaysIsRefused() public {
        trick.setHook(address(trick), abi.encodeCall(TrickToken.mint, (address(escrow), 5)));
        expectOwnRefused(
            depositTerms(),
            address(trick),
            CAP,
            abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, CAP + 5)
        );
    }

    function test_EscrowNeedsAReserver() public {
        vm.expectRevert(GatewayEscrow.ReserverMissing.selector);
        new GatewayEscrow(PERMIT2, address(0), guardian, PAYOUT_GAS);
    }

    function test_DomainAndSettingsAreReadable() public view {
        (, string memory name, string memory version, uint256 chainId, address at,,) = escrow.eip712Domain();
        assertEq(name, "GatewayEscrow");
        assertEq(version, "1");
        assertEq(chainId, block.chainid);
        assertEq(at, address(escrow));
        assertEq(escrow.permit2(), PERMIT2);
        assertEq(escrow.reserver(), reserver);
    }

    function windowsOutOfOrder(GatewayEscrow.GatewayDeposit memory d) private pure returns (bytes memory) {
        return abi.encodeWithSelector(
            GatewayEscrow.WindowsOutOfOrder.selector, d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter
        );
    }

    /// Refused with and without witness, all signatures being right.
    function expectRefused(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        bytes memory refusal
    ) private {
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        bytes memory signature = signAdmission(reserverKey, d, r, address(token));
        p.signature = signWitness(payerKey, p, d);
        vm.expectRevert(refusal);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, signature);
        p.signature = signPermit(payerKey, p);
        vm.expectRevert(refusal);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, signature);
    }

    /// The payer's transaction is refused, the reserver's signature being right.
    function expectOwnRefused(
        GatewayEscrow.GatewayDeposit memory d,
        address asset,
        uint256 amount,
        bytes memory refusal
    ) private {
        bytes memory signature = signOpening(reserverKey, d, asset, amount);
        vm.prank(payer);
        vm.expectRevert(refusal);
        escrow.depositOwn(d, asset, amount, signature);
    }
}
