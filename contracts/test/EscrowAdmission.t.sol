// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";

/// @notice Nothing comes in without the reserver's word on all of it, so that nobody who watches pending
/// transactions uses up a payment's id. Both permit calls are tried for every attack.
contract EscrowAdmissionTest is EscrowFixture {
    DevToken private junk;

    /// The attacker has a token of his own and all allowances.
    function setUp() public override {
        super.setUp();
        junk = new DevToken("Junk", "JUNK", 6);
        junk.mint(attacker, CAP);
        token.mint(attacker, CAP);
        vm.startPrank(attacker);
        junk.approve(PERMIT2, CAP);
        junk.approve(address(escrow), CAP);
        token.approve(PERMIT2, CAP);
        token.approve(address(escrow), CAP);
        vm.stopPrank();
    }

    // A watcher and a payment that is not his

    function test_JunkWithAReserverOfItsOwnDoesNotUseUpAnId() public {
        GatewayEscrow.GatewayDeposit memory d = attackersDeposit();
        d.reserver = attacker;
        bytes memory signature = signAdmission(attackerKey, d, reservation(), address(junk));
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, attacker);
        expectPermitsRefused(d, reservation(), address(junk), attackerKey, signature, refusal);

        signature = signOpening(attackerKey, d, address(junk), CAP);
        vm.prank(attacker);
        vm.expectRevert(refusal);
        escrow.depositOwn(d, address(junk), CAP, signature);
        assertPayerStillPays();
    }

    function test_JunkThatNamesTheReserverInVainDoesNotUseUpAnId() public {
        GatewayEscrow.GatewayDeposit memory d = attackersDeposit();
        bytes memory signature = signAdmission(attackerKey, d, reservation(), address(junk));
        expectPermitsRefused(d, reservation(), address(junk), attackerKey, signature, signatureInvalid());
        expectPermitsRefused(d, reservation(), address(junk), attackerKey, "", signatureInvalid());
        assertPayerStillPays();
    }

    /// The victim's admission is seen in a pending transaction and paired with the attacker's own money.
    function test_ACopiedAdmissionDoesNotServeAnotherPayer() public {
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory copied = signAdmission(reserverKey, depositTerms(), r, address(token));
        expectPermitsRefused(attackersDeposit(), r, address(token), attackerKey, copied, signatureInvalid());
        expectPermitsRefused(attackersDeposit(), r, address(junk), attackerKey, copied, signatureInvalid());
        assertPayerStillPays();
    }

    /// The award for an own deposit is public before that deposit is mined, and says nothing of payer and token.
    function test_ACopiedReservationDoesNotServeAnotherPayer() public {
        GatewayEscrow.Reservation memory r = reservation();
        bytes memory copied = signReservation(reserverKey, r);
        expectPermitsRefused(attackersDeposit(), r, address(token), attackerKey, copied, signatureInvalid());
        expectPermitsRefused(depositTerms(), r, address(token), payerKey, copied, signatureInvalid());
        assertPayerStillPays();
    }

    function test_ACopiedOpeningDoesNotServeAnotherPayer() public {
        bytes memory copied = signOpening(reserverKey, depositTerms(), address(token), CAP);
        vm.startPrank(attacker);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.CallerNotPayer.selector, attacker, payer));
        escrow.depositOwn(depositTerms(), address(token), CAP, copied);
        vm.expectRevert(signatureInvalid());
        escrow.depositOwn(attackersDeposit(), address(token), CAP, copied);
        vm.stopPrank();
        assertPayerStillPays();
    }

    function test_AnOwnDepositWithoutTheReserversWordDoesNotUseUpAnId() public {
        GatewayEscrow.GatewayDeposit memory d = attackersDeposit();
        bytes[4] memory signatures = [
            bytes(""),
            signOpening(attackerKey, d, address(junk), CAP),
            signAdmission(reserverKey, depositTerms(), reservation(), address(token)),
            signReservation(reserverKey, reservation())
        ];
        for (uint256 i = 0; i < signatures.length; i++) {
            vm.prank(attacker);
            vm.expectRevert(signatureInvalid());
            escrow.depositOwn(d, address(junk), CAP, signatures[i]);
        }
        assertPayerStillPays();
    }

    // The end of an admission

    function test_AnAdmissionCountsUpToAndInItsLastSecond() public {
        (bytes memory witnessed, bytes memory permitted) = admittedUntil(START + 20, START + 20);
        uint256 snapshot = vm.snapshotState();
        vm.warp(START + 20);
        expectMade(witnessed);
        vm.revertToState(snapshot);
        vm.warp(START + 20);
        expectMade(permitted);
        vm.revertToState(snapshot);

        vm.warp(START + 21);
        bytes memory expired = abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 20);
        expectCallRefused(witnessed, expired);
        expectCallRefused(permitted, expired);
        assertPayerStillPays();
    }

    function test_AnotherEndThanTheAdmittedDoesNotCount() public {
        vm.warp(START + 21);
        uint48[3] memory ends = [START + 21, START + 60, type(uint48).max];
        for (uint256 i = 0; i < ends.length; i++) {
            (bytes memory witnessed, bytes memory permitted) = admittedUntil(START + 20, ends[i]);
            expectCallRefused(witnessed, signatureInvalid());
            expectCallRefused(permitted, signatureInvalid());
        }
        // Nor does an earlier one.
        (bytes memory earlier,) = admittedUntil(START + 30, START + 29);
        expectCallRefused(earlier, signatureInvalid());
    }

    /// The deposit reverts and so publishes both signatures; the payer then mends its allowance for another payment.
    function test_ARevertedDepositCannotBeMadeLater() public {
        (bytes memory witnessed, bytes memory permitted) = admittedUntil(START + 20, START + 20);
        vm.prank(payer);
        token.approve(PERMIT2, 0);
        expectCallRefused(witnessed, bytes("TRANSFER_FROM_FAILED"));
        expectCallRefused(permitted, bytes("TRANSFER_FROM_FAILED"));
        vm.prank(payer);
        token.approve(PERMIT2, type(uint256).max);

        // Until the admission ends anyone may make it, so a payment is not given up before.
        uint256 snapshot = vm.snapshotState();
        expectMade(witnessed);
        vm.revertToState(snapshot);

        vm.warp(START + 21);
        assertLe(block.timestamp, depositTerms().reserveDeadline);
        bytes memory expired = abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 20);
        expectCallRefused(witnessed, expired);
        expectCallRefused(permitted, expired);
        assertState(GatewayEscrow.State.None);
        assertPaid(address(token), 0, 0);
    }

    // What the reserver's word covers

    /// Everything else is made right for the changed field, the payer's signature too.
    function test_NoAdmittedFieldCanBeChanged() public {
        bytes memory admission = signAdmission(reserverKey, depositTerms(), reservation(), address(token));
        for (uint256 field = 0; field < 13; field++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            GatewayEscrow.Reservation memory r = reservation();
            if (field == 0) d.paymentId = r.paymentId = keccak256("pay_2");
            if (field == 1) d.termsHash = keccak256("other terms");
            if (field == 2) d.quoteHash = r.quoteHash;
            if (field == 3) d.payer = attacker;
            if (field == 4) d.releaser = attacker;
            if (field == 5) d.reserveDeadline += 1;
            if (field == 6) d.fulfillmentDeadline += 1;
            if (field == 7) d.refundAfter += 1;
            if (field == 8) r.quoteHash = keccak256("other quote");
            if (field == 9) r.settler = attacker;
            if (field == 10) r.sourceAmount += 1;
            if (field == 11) r.fulfillBy += 1;
            address asset = field == 12 ? address(trick) : address(token);
            uint256 key = field == 3 ? attackerKey : payerKey;
            expectPermitsRefused(d, r, asset, key, admission, signatureInvalid());
        }
    }

    /// The payer itself asks for another deposit than the one that was opened for it.
    function test_NoOpenedFieldCanBeChanged() public {
        bytes memory opening = signOpening(reserverKey, depositTerms(), address(token), CAP);
        for (uint256 field = 0; field < 9; field++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            if (field == 0) d.paymentId = keccak256("pay_2");
            if (field == 1) d.termsHash = keccak256("other terms");
            if (field == 2) d.quoteHash = keccak256("quote");
            if (field == 3) d.releaser = attacker;
            if (field == 4) d.reserveDeadline += 1;
            if (field == 5) d.fulfillmentDeadline += 1;
            if (field == 6) d.refundAfter += 1;
            address asset = field == 7 ? address(trick) : address(token);
            uint256 amount = field == 8 ? CAP - 1 : CAP;
            vm.prank(payer);
            vm.expectRevert(signatureInvalid());
            escrow.depositOwn(d, asset, amount, opening);
        }
    }

    function test_EvenTheReserverNamesNoOther() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = attacker;
        bytes memory signature = signAdmission(reserverKey, d, reservation(), address(token));
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, attacker);
        expectPermitsRefused(d, reservation(), address(token), payerKey, signature, refusal);

        signature = signOpening(reserverKey, d, address(token), CAP);
        vm.prank(payer);
        vm.expectRevert(refusal);
        escrow.depositOwn(d, address(token), CAP, signature);
    }

    function test_AnotherPartysWordDoesNotCount() public {
        expectNeitherCounts(attackerKey, escrow);
    }

    function test_AWordForAnotherEscrowDoesNotCount() public {
        expectNeitherCounts(reserverKey, new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS));
    }

    function test_AWordForAnotherChainDoesNotCount() public {
        bytes memory admission = signAdmission(reserverKey, depositTerms(), reservation(), address(token));
        bytes memory opening = signOpening(reserverKey, depositTerms(), address(token), CAP);
        vm.chainId(block.chainid + 1);
        expectNeitherCounts(admission, opening);
    }

    /// Each message opens its own door only.
    function test_AnAdmissionIsNoOpeningAndTheOtherWayRound() public {
        bytes memory admission = signAdmission(reserverKey, depositTerms(), reservation(), address(token));
        bytes memory opening = signOpening(reserverKey, depositTerms(), address(token), CAP);
        expectNeitherCounts(opening, admission);
    }

    function test_ReserverMayBeAContract() public {
        address account = address(new ContractSigner(reserver));
        escrow = new GatewayEscrow(PERMIT2, account, guardian, PAYOUT_GAS);
        vm.prank(payer);
        token.approve(address(escrow), CAP);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.reserver = account;
        uint256 snapshot = vm.snapshotState();
        depositWitnessed(d, reservation(), address(token));
        assertState(GatewayEscrow.State.Reserved);
        vm.revertToState(snapshot);
        depositPermitted(d, reservation(), address(token));
        assertState(GatewayEscrow.State.Reserved);
        vm.revertToState(snapshot);
        depositByPayer(d, address(token));
        assertState(GatewayEscrow.State.Deposited);
    }

    /// The calls that make the deposit of `depositTerms()`, admitted until `signed` and claiming to be until `claimed`.
    function admittedUntil(uint48 signed, uint48 claimed)
        private
        view
        returns (bytes memory witnessed, bytes memory permitted)
    {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        bytes memory admission = signAdmission(reserverKey, d, r, address(token), signed);
        p.signature = signWitness(payerKey, p, d);
        witnessed = abi.encodeCall(escrow.depositWithWitness, (d, p, r, claimed, admission));
        p.signature = signPermit(payerKey, p);
        permitted = abi.encodeCall(escrow.depositWithPermit, (d, p, r, claimed, admission));
    }

    function expectMade(bytes memory call) private {
        vm.prank(stranger);
        (bool made,) = address(escrow).call(call);
        assertTrue(made);
        assertState(GatewayEscrow.State.Reserved);
    }

    function expectCallRefused(bytes memory call, bytes memory refusal) private {
        vm.prank(stranger);
        vm.expectRevert(refusal);
        (bool refused,) = address(escrow).call(call);
        assertTrue(refused, "not refused as expected");
    }

    /// The payment of `depositTerms()`, with the attacker as its payer.
    function attackersDeposit() private view returns (GatewayEscrow.GatewayDeposit memory d) {
        d = depositTerms();
        d.payer = attacker;
    }

    function signatureInvalid() private view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }

    /// By every way in the payment of `depositTerms()` is as good as new.
    function assertPayerStillPays() private {
        assertState(GatewayEscrow.State.None);
        uint256 snapshot = vm.snapshotState();
        depositWitnessed(depositTerms(), reservation(), address(token));
        vm.revertToState(snapshot);
        depositPermitted(depositTerms(), reservation(), address(token));
        vm.revertToState(snapshot);
        reservedByPayer(address(token));
        assertState(GatewayEscrow.State.Reserved);
    }

    /// Refused with and without witness, the payer's own signature (by `key`) being right.
    function expectPermitsRefused(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 key,
        bytes memory reserverSignature,
        bytes memory refusal
    ) private {
        GatewayEscrow.Permit memory p = unsignedPermit(d, asset);
        p.signature = signWitness(key, p, d);
        vm.prank(attacker);
        vm.expectRevert(refusal);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, reserverSignature);
        p.signature = signPermit(key, p);
        vm.prank(attacker);
        vm.expectRevert(refusal);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, reserverSignature);
    }

    function expectNeitherCounts(uint256 key, GatewayEscrow signedFor) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        bytes32 admission = admissionHash(d, reservation(), address(token), ADMITTED_UNTIL);
        bytes32 opening = openingHash(d, address(token), CAP);
        expectNeitherCounts(
            sign(key, escrowDigest(signedFor, admission)), sign(key, escrowDigest(signedFor, opening))
        );
    }

    /// `depositTerms()` with a right payer's signature, refused by every way in.
    function expectNeitherCounts(bytes memory admission, bytes memory opening) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        expectPermitsRefused(d, reservation(), address(token), payerKey, admission, signatureInvalid());
        vm.prank(payer);
        vm.expectRevert(signatureInvalid());
        escrow.depositOwn(d, address(token), CAP, opening);
    }
}
