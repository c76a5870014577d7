// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {AccountOfOneWord} from "./support/AccountOfOneWord.sol";
import {Authorizations} from "./support/Authorizations.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";
import {LapsedReservations} from "./support/LapsedReservations.sol";

/// @notice Deposits by an ERC-3009 authorization: what comes in and where it goes, and whose words each takes.
contract EscrowAuthorizationTest is LapsedReservations, Authorizations {
    function setUp() public override(EscrowFixture, Authorizations) {
        Authorizations.setUp();
    }

    // What comes in

    function test_AllOfItComesInAndIsReservedForThePrice() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(PAYMENT, AGREED, payer, d, address(stable), CAP);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(PAYMENT, AGREED, settler, QUOTED, r.fulfillBy);
        vm.expectEmit(address(stable));
        emit DevStablecoin.AuthorizationUsed(payer, depositHash(d));
        deposit(CAP);

        assertPaid(address(stable), 0, CAP);
        assertEq(escrow.owedIn(address(stable)), CAP);
        assertEq(stable.allowance(payer, address(escrow)) + stable.allowance(payer, PERMIT2), 0);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(d, address(stable), CAP), r))
        });
        assertEq(abi.encode(escrow.recordOf(PAYMENT)), abi.encode(expected));
    }

    function test_WithAShortSignature() public {
        uint256 snapshot = vm.snapshotState();
        // Of either parity.
        bool[2] memory seen;
        for (uint256 i = 0; i < 8; i++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            d.termsHash = keccak256(abi.encode(i));
            Authorized memory a = authorized(d, reservation(), address(stable), CAP);
            seen[uint8(a.authorization.signature[64]) - 27] = true;
            a.authorization.signature = short(a.authorization.signature);
            expectMade(a);
            vm.revertToState(snapshot);
        }
        assertTrue(seen[0] && seen[1]);
    }

    function test_OfAContractWhoseSignatureHasAnyForm() public {
        for (uint256 length = 0; length < 200; length++) {
            // Those lengths are keys' signatures, which go in parts.
            if (length == 64 || length == 65) continue;
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            d.payer = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
            d.paymentId = keccak256(abi.encode("length", length));
            GatewayEscrow.Authorization memory a = unsignedAuthorization(d, address(stable), CAP);
            a.signature = new bytes(length);
            for (uint256 i = 0; i < length; i++) a.signature[i] = bytes1(uint8(i + 1));
            address account = address(new AccountOfOneWord(authorizationDigest(d, a), a.signature));
            assertEq(account, d.payer);
            stable.mint(account, CAP);
            GatewayEscrow.Reservation memory r = reservation();
            r.paymentId = d.paymentId;
            Authorized memory whole = Authorized(d, a, r, ADMITTED_UNTIL);
            if (length > 0) {
                a.signature[length - 1] ^= 0x01;
                expectRefused(whole, DevStablecoin.SignatureInvalid.selector);
                a.signature[length - 1] ^= 0x01;
            }
            (bool made,) = address(escrow).call(callOf(whole));
            assertTrue(made);
            assertEq(stable.balanceOf(account), 0);
        }
    }

    /// Where the token asks the account about the parts put together.
    function test_OfAContractThatTakesItsOwnersSignature() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.payer = address(new ContractSigner(payer));
        stable.mint(d.payer, CAP);
        Authorized memory a = authorized(d, reservation(), address(stable), CAP);
        uint256 snapshot = vm.snapshotState();
        expectMade(a);
        vm.revertToState(snapshot);
        a.authorization.signature = short(a.authorization.signature);
        expectMade(a);
        assertEq(stable.balanceOf(d.payer), 0);
    }

    function test_WhereThereIsNoPermit2() public {
        escrow = new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS);
        deposit(CAP);
        assertPaid(address(stable), 0, CAP);
    }

    function test_ByWhomever() public {
        bytes memory call = callOf(good());
        address[4] memory callers = [payer, settler, attacker, reserver];
        for (uint256 i = 0; i < callers.length; i++) {
            uint256 snapshot = vm.snapshotState();
            vm.prank(callers[i]);
            (bool made,) = address(escrow).call(call);
            assertTrue(made);
            assertPaid(address(stable), 0, CAP);
            vm.revertToState(snapshot);
        }
    }

    // Where it goes

    function test_TheRestGoesBackWithTheRelease() public {
        deposit(CAP);
        bytes memory attestation = delivery();
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(PAYMENT, AGREED, settler, QUOTED, CAP - QUOTED);
        escrow.release(termsOf(PAYMENT), attestation);
        assertPaid(address(stable), QUOTED, 0);
        assertNothingOwed();
    }

    function test_AllOfItGoesBackWithACancellation() public {
        deposit(CAP);
        escrow.cancel(termsOf(PAYMENT), nonDelivery());
        assertPaid(address(stable), 0, 0);
        assertNothingOwed();
    }

    function test_AllOfItGoesBackInTime() public {
        deposit(CAP);
        vm.warp(depositTerms().refundAfter - 1);
        vm.expectRevert(
            abi.encodeWithSelector(GatewayEscrow.RefundWindowNotOpen.selector, depositTerms().refundAfter)
        );
        escrow.refund(termsOf(PAYMENT));
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(PAYMENT));
        assertPaid(address(stable), 0, 0);
        assertNothingOwed();
    }

    /// The payer signs when it has seen the quote, the price or more.
    function test_OfAQuoteThatThePayerAccepted() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.quoteHash = AGREED;
        for (uint256 i = 0; i < 2; i++) {
            uint256 snapshot = vm.snapshotState();
            uint256 amount = i == 0 ? QUOTED : CAP;
            GatewayEscrow.Reservation memory other = reservation();
            other.quoteHash = NEXT;
            Authorized memory a = authorized(d, other, address(stable), amount);
            expectRefused(a, abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, AGREED, NEXT));
            depositAuthorized(d, reservation(), address(stable), amount);
            assertPaid(address(stable), 0, amount);
            lapse();
            vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.QuoteHashMismatch.selector, AGREED, NEXT));
            reassign(nextReservation());
            escrow.release(termsOf(PAYMENT), delivery());
            assertPaid(address(stable), QUOTED, 0);
            vm.revertToState(snapshot);
        }
    }

    function test_ToADearerSettlerUpToWhatWasAuthorized() public {
        deposit(CAP);
        lapse();
        GatewayEscrow.Reservation memory next = nextReservation();
        next.sourceAmount = CAP + 1;
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP));
        reassign(next);
        next.sourceAmount = CAP - 1;
        reassign(next);
        escrow.release(termsOf(PAYMENT), signDelivery(releaserKey, PAYMENT, NEXT, nextSettler));
        assertEq(stable.balanceOf(nextSettler), CAP - 1);
        assertEq(stable.balanceOf(payer), WEALTH - (CAP - 1));
        assertNothingOwed();
    }

    /// It comes in just where it lies between price and what the payer has, and however it ends all of it leaves.
    function testFuzz_WhatComesOutIsWhatWentIn(uint256 amount, uint256 price, bool delivered) public {
        amount = bound(amount, 0, WEALTH * 3 / 2);
        price = bound(price, 0, amount + 10);
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = price;
        Authorized memory a = authorized(depositTerms(), r, address(stable), amount);
        (bool made,) = address(escrow).call(callOf(a));
        assertEq(made, price != 0 && price <= amount && amount <= WEALTH);
        assertPaid(address(stable), 0, made ? amount : 0);
        assertEq(escrow.owedIn(address(stable)), made ? amount : 0);
        if (!made) return;
        noteTerms(asReserved(asDeposited(a.terms, address(stable), amount), r));
        if (delivered) escrow.release(termsOf(PAYMENT), delivery());
        else escrow.cancel(termsOf(PAYMENT), nonDelivery());
        assertPaid(address(stable), delivered ? price : 0, 0);
        assertNothingOwed();
    }

    // The payer's word

    /// The payer signed `depositTerms()`. Whatever single field of them is another one, and whatever it is: though all the rest is made to
    /// agree with it and the reserver signs that, the payer's signature is of something else.
    function testFuzz_NoFieldOfTheTermsCanBeChanged(uint256 field, uint256 value) public {
        field = bound(field, 0, 7);
        address other = address(uint160(bound(value, 1_000, type(uint160).max)));
        Authorized memory a = good();
        GatewayEscrow.GatewayDeposit memory d = a.terms;
        if (field == 0) d.paymentId = a.award.paymentId = bytes32(value);
        if (field == 1) d.termsHash = bytes32(value);
        if (field == 2) d.quoteHash = a.award.quoteHash = bytes32(bound(value, 1, type(uint256).max));
        if (field == 3) d.payer = other;
        if (field == 4) d.releaser = other;
        if (field == 5) d.reserveDeadline = uint48(bound(value, START, d.fulfillmentDeadline));
        if (field == 6) d.fulfillmentDeadline = uint48(bound(value, a.award.fulfillBy, d.refundAfter - 1));
        if (field == 7) d.refundAfter = uint48(bound(value, d.fulfillmentDeadline + 1, type(uint48).max));
        vm.assume(depositHash(d) != depositHash(depositTerms()));
        vm.assume(other.code.length == 0);
        stable.mint(d.payer, CAP);
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
    }

    /// Who is the reserver now, the payer did not agree to.
    function test_AnotherReserverCannotTakeThePayersWord() public {
        bytes memory before = callOf(good());
        vm.prank(guardian);
        escrow.proposeReserver(attacker);
        vm.warp(START + escrow.RESERVER_DELAY());
        vm.prank(guardian);
        escrow.installReserver();
        vm.warp(START);
        expectCallRefused(before, abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, reserver));
        Authorized memory a = good();
        a.terms.reserver = attacker;
        bytes memory admission = signLargerAdmission(
            attackerKey, a.terms, a.award, address(stable), CAP, ADMITTED_UNTIL
        );
        expectCallRefused(callOf(a, admission), abi.encodePacked(DevStablecoin.SignatureInvalid.selector));
    }

    /// Neither amount, nor token, nor time: all of what was signed, or nothing.
    function testFuzz_NoFieldOfTheAuthorizationCanBeChanged(uint256 field, uint256 value) public {
        field = bound(field, 0, 2);
        Authorized memory a = good();
        if (field == 0) a.authorization.amount = bound(value, QUOTED, WEALTH);
        if (field == 1) a.authorization.validBefore = bound(value, START + 1, type(uint256).max);
        if (field == 2) {
            DevStablecoin other = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
            other.mint(payer, CAP);
            a.authorization.token = address(other);
        }
        vm.assume(keccak256(abi.encode(a)) != keccak256(abi.encode(good())));
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
    }

    /// What else the payer might have signed for the token serves nobody here.
    function test_OnlyThisAuthorizationOfThePayers() public {
        Authorized memory a = good();
        bytes32 structHash = depositHash(a.terms);
        Move memory m = moveOf(a.terms, a.authorization);
        bytes[6] memory others;
        others[0] = sign(attackerKey, moveDigest(address(stable), RECEIVE_TYPEHASH, m));
        others[1] = sign(payerKey, moveDigest(address(stable), TRANSFER_TYPEHASH, m));
        others[2] = sign(payerKey, tokenDigest(address(stable), structHash));
        m.validAfter = 1;
        others[3] = sign(payerKey, moveDigest(address(stable), RECEIVE_TYPEHASH, m));
        (m.validAfter, m.nonce) = (0, bytes32(nonceOf(a.terms)));
        others[4] = sign(payerKey, moveDigest(address(stable), RECEIVE_TYPEHASH, m));
        (m.nonce, m.to) = (structHash, stranger);
        others[5] = sign(payerKey, moveDigest(address(stable), RECEIVE_TYPEHASH, m));
        for (uint256 i = 0; i < others.length; i++) {
            a.authorization.signature = others[i];
            expectRefused(a, DevStablecoin.SignatureInvalid.selector);
            a.authorization.signature = short(others[i]);
            expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        }
        a.authorization.signature = malleated(good().authorization.signature);
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        a.authorization.signature = "";
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        a.authorization.signature = bytes.concat(good().authorization.signature, hex"00");
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
    }

    /// And what was signed here is no word for the ways by Permit2.
    function test_AnAuthorizationIsNoPermit() public {
        stable.mint(payer, CAP);
        vm.prank(payer);
        stable.approve(PERMIT2, CAP);
        Authorized memory a = authorized(depositTerms(), reservation(), address(stable), QUOTED);
        GatewayEscrow.Permit memory p = unsignedPermit(a.terms, address(stable));
        p.amount = QUOTED;
        p.signature = a.authorization.signature;
        bytes memory admission = admissionOf(a);
        bytes memory refusal = abi.encodeWithSignature("InvalidSigner()");
        expectCallRefused(
            abi.encodeCall(escrow.depositWithWitness, (a.terms, p, a.award, ADMITTED_UNTIL, admission)), refusal
        );
        expectCallRefused(
            abi.encodeCall(escrow.depositWithPermit, (a.terms, p, a.award, ADMITTED_UNTIL, admission)), refusal
        );
        expectMade(a);
    }

    // Other places

    function test_AtThisEscrowAlone() public {
        Authorized memory a = good();
        bytes memory call = callOf(a);
        GatewayEscrow home = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        expectCallRefused(call, reserverInvalid());
        // Though its reserver admits it there.
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        escrow = home;
        expectMade(a);
    }

    function test_OnThisChainAlone() public {
        Authorized memory a = good();
        uint256 chain = block.chainid;
        bytes memory call = callOf(a);
        vm.chainId(chain + 1);
        expectCallRefused(call, reserverInvalid());
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        vm.chainId(chain);
        expectMade(a);
    }

    // Once

    function test_OneDepositForAPaymentForEver() public {
        Authorized memory a = good();
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, PAYMENT);
        deposit(CAP);
        expectRefused(a, used);
        a.terms.termsHash = keccak256("other terms");
        a.authorization = authorizationBy(payerKey, a.terms, address(stable), CAP);
        expectRefused(a, used);
        escrow.cancel(termsOf(PAYMENT), nonDelivery());
        expectRefused(good(), used);
        expectRefused(a, used);
    }

    function test_NoDepositBesideOneOfAnotherWay() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        expectRefused(good(), abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, PAYMENT));
    }

    function test_NoOtherPaymentIsMadeWithIt() public {
        deposit(CAP);
        Authorized memory a = good();
        a.terms.paymentId = a.award.paymentId = keccak256("pay_2");
        expectRefused(a, DevStablecoin.SignatureInvalid.selector);
        assertPaid(address(stable), 0, CAP);
    }

    // Beside the escrow

    function test_NobodyHasTheTokenTakeItBesideTheEscrow() public {
        Authorized memory a = good();
        GatewayEscrow.Authorization memory signed = a.authorization;
        bytes32 nonce = depositHash(a.terms);
        (uint8 v, bytes32 r, bytes32 s) = halves(signed.signature);
        vm.startPrank(attacker);
        vm.expectRevert(DevStablecoin.CallerNotPayee.selector);
        stable.receiveWithAuthorization(payer, address(escrow), CAP, 0, signed.validBefore, nonce, v, r, s);
        vm.expectRevert(DevStablecoin.CallerNotPayee.selector);
        stable.receiveWithAuthorization(payer, address(escrow), CAP, 0, signed.validBefore, nonce, signed.signature);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.receiveWithAuthorization(payer, attacker, CAP, 0, signed.validBefore, nonce, v, r, s);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.transferWithAuthorization(payer, address(escrow), CAP, 0, signed.validBefore, nonce, v, r, s);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.transferWithAuthorization(payer, attacker, CAP, 0, signed.validBefore, nonce, signed.signature);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.cancelAuthorization(payer, nonce, v, r, s);
        vm.stopPrank();
        expectMade(a);
        assertPaid(address(stable), 0, CAP);
    }

    /// Who sends it before the gateway makes the very same deposit.
    function test_AStrangerThatIsFasterMakesTheSameDeposit() public {
        Authorized memory a = good();
        bytes memory call = callOf(a);
        vm.prank(attacker);
        (bool made,) = address(escrow).call(call);
        assertTrue(made);
        assertEq(
            escrow.recordOf(PAYMENT).commitment,
            commitment(asReserved(asDeposited(a.terms, address(stable), CAP), a.award))
        );
        expectCallRefused(call, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, PAYMENT));
        assertPaid(address(stable), 0, CAP);
    }

    /// The payer may think better of it until it is deposited: nothing comes in then.
    function test_AGivenUpOrUsedNonceIsRefused() public {
        Authorized memory a = good();
        bytes32 nonce = depositHash(a.terms);
        uint256 snapshot = vm.snapshotState();
        bytes32 givenUp = tokenDigest(address(stable), keccak256(abi.encode(CANCEL_TYPEHASH, payer, nonce)));
        stable.cancelAuthorization(payer, nonce, sign(payerKey, givenUp));
        expectRefused(a, DevStablecoin.AuthorizationUsedOrCanceled.selector);
        vm.revertToState(snapshot);
        Move memory m = Move(payer, payer, 0, 0, START + 1, nonce);
        bytes memory signature = sign(payerKey, moveDigest(address(stable), TRANSFER_TYPEHASH, m));
        stable.transferWithAuthorization(payer, payer, 0, 0, START + 1, nonce, signature);
        expectRefused(a, DevStablecoin.AuthorizationUsedOrCanceled.selector);
    }

    /// And one that was refused for lack of money is no debt: it can be sent again while it is admitted, and not after.
    function test_APayerWithoutTheMoney() public {
        vm.prank(payer);
        stable.transfer(stranger, WEALTH - CAP + 1);
        Authorized memory a = good();
        a.admittedUntil = START + 20;
        bytes memory lacking =
            abi.encodeWithSignature("ERC20InsufficientBalance(address,uint256,uint256)", payer, CAP - 1, CAP);
        expectRefused(a, lacking);
        stable.mint(payer, 1);
        uint256 snapshot = vm.snapshotState();
        expectMade(a);
        vm.revertToState(snapshot);
        vm.warp(a.admittedUntil + 1);
        expectRefused(a, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, a.admittedUntil));
    }

    // Helpers

    function deposit(uint256 amount) private {
        depositAuthorized(depositTerms(), reservation(), address(stable), amount);
    }

    function assertNothingOwed() private view {
        assertEq(escrow.owedIn(address(stable)), 0);
        assertEq(escrow.claimable(payer, address(stable)) + escrow.claimable(settler, address(stable)), 0);
    }
}
