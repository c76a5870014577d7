// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Authorizations} from "./support/Authorizations.sol";
import {AuthorizingToken} from "./support/AuthorizingToken.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice A token that answers everything with as many zero bytes.
contract AnswersBytes {
    uint256 private immutable _size;

    constructor(uint256 size) {
        _size = size;
    }

    fallback() external {
        uint256 size = _size;
        assembly {
            return(0x80, size)
        }
    }
}

/// @notice Tokens and receivers that misbehave while money goes out, and the claims that follow.
contract EscrowHostileTest is Authorizations {
    bytes32 private constant ID = keccak256("pay_1");

    function setUp() public override {
        super.setUp();
        trick = new AuthorizingToken();
        enrich(address(trick));
    }

    // Tokens that tell no balance

    function test_ATokenThatTellsNoBalanceTakesNothingIn() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        for (uint256 size = 0; size < 64; size += 31) {
            address asset = address(new AnswersBytes(size));
            bytes memory signature = signOpening(reserverKey, d, asset, CAP);
            vm.prank(payer);
            // With 62 bytes the word counts, and nothing came in.
            vm.expectRevert(
                size < 32 ? bytes("") : abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, CAP, 0)
            );
            escrow.depositOwn(d, asset, CAP, signature);
            assertState(GatewayEscrow.State.None);
        }
    }

    // Denied receivers

    function test_DeniedSettlerGetsAClaimAndThePaymentEnds() public {
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.BurnsGas); d++) {
            uint256 snapshot = vm.snapshotState();
            reservedByPayer(address(trick));
            trick.setDenial(settler, TrickToken.Denial(d));
            bytes memory attestation = delivery();
            vm.expectEmit(address(escrow));
            emit GatewayEscrow.Claimable(settler, address(trick), QUOTED);
            escrow.release{gas: 1_000_000}(termsOf(ID), attestation);
            assertState(GatewayEscrow.State.Released);
            assertEq(escrow.claimable(settler, address(trick)), QUOTED);
            assertPaid(address(trick), 0, QUOTED);

            vm.prank(settler);
            assertEq(escrow.claim(address(trick), stranger), QUOTED);
            assertEq(trick.balanceOf(stranger), QUOTED);
            assertEq(trick.balanceOf(address(escrow)), 0);
            assertEq(escrow.claimable(settler, address(trick)), 0);
            vm.revertToState(snapshot);
        }
    }

    function test_DeniedPayerDoesNotHoldUpTheSettler() public {
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.BurnsGas); d++) {
            uint256 snapshot = vm.snapshotState();
            reservedByPayer(address(trick));
            trick.setDenial(payer, TrickToken.Denial(d));
            escrow.release{gas: 1_000_000}(termsOf(ID), delivery());
            assertPaid(address(trick), QUOTED, CAP - QUOTED);
            assertEq(escrow.claimable(payer, address(trick)), CAP - QUOTED);
            vm.revertToState(snapshot);
        }
    }

    function test_DeniedPayerOfARefundGetsAClaim() public {
        reservedByPayer(address(trick));
        trick.setDenial(payer, TrickToken.Denial.Reverts);
        vm.warp(depositTerms().refundAfter);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Claimable(payer, address(trick), CAP);
        escrow.refund(termsOf(ID));
        assertState(GatewayEscrow.State.Refunded);
        assertEq(escrow.claimable(payer, address(trick)), CAP);
    }

    function test_DeniedPayerOfACancellationGetsAClaim() public {
        reservedByPayer(address(trick));
        trick.setDenial(payer, TrickToken.Denial.MovesNothing);
        escrow.cancel(termsOf(ID), nonDelivery());
        assertEq(escrow.claimable(payer, address(trick)), CAP);
    }

    // Claims

    function test_ClaimIsTheOwnersAlone() public {
        reservedByPayer(address(trick));
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        vm.prank(attacker);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, attacker, address(trick)));
        escrow.claim(address(trick), attacker);
        vm.prank(settler);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, settler, address(token)));
        escrow.claim(address(token), settler);

        vm.startPrank(settler);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReceiverInvalid.selector, address(0)));
        escrow.claim(address(trick), address(0));
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ReceiverInvalid.selector, address(escrow)));
        escrow.claim(address(trick), address(escrow));

        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.ClaimNotPaid.selector, QUOTED, 0));
        escrow.claim(address(trick), settler);
        assertEq(escrow.claimable(settler, address(trick)), QUOTED, "a claim that fails stays");

        trick.setDenial(settler, TrickToken.Denial.None);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Claimed(settler, address(trick), settler, QUOTED);
        escrow.claim(address(trick), settler);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.NothingToClaim.selector, settler, address(trick)));
        escrow.claim(address(trick), settler);
        assertPaid(address(trick), QUOTED, 0);
    }

    function test_ClaimsAddUp() public {
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        reservedByPayer(address(trick));
        escrow.release(termsOf(ID), delivery());
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = keccak256("pay_2");
        depositByPayer(d, address(trick));
        reserve(r, signReservation(reserverKey, r));
        escrow.release(termsOf(d.paymentId), signDelivery(releaserKey, d.paymentId, r.quoteHash, settler));
        assertEq(escrow.claimable(settler, address(trick)), 2 * QUOTED);
        vm.prank(settler);
        escrow.claim(address(trick), stranger);
        assertEq(trick.balanceOf(stranger), 2 * QUOTED);
    }

    /// A caller who gives just so much gas that the payout fails would turn it into a claim: refused instead.
    function test_NoAmountOfGasTurnsAHealthyPayoutIntoAClaim() public {
        reservedByPayer(address(trick));
        trick.setGasNeeded(290_000);
        bytes memory attestation = delivery();
        uint256 snapshot = vm.snapshotState();
        uint256 refused;
        for (uint256 limit = 40_000; limit <= 900_000; limit += 7_919) {
            (bool done,) = address(escrow).call{gas: limit}(abi.encodeCall(escrow.release, (termsOf(ID), attestation)));
            if (done) assertPaid(address(trick), QUOTED, 0);
            else refused++;
            vm.revertToState(snapshot);
        }
        assertGt(refused, 0);
    }

    /// The token's look at a balance may cost anything: what is left after it counts, not before.
    function testFuzz_NoGasLimitTurnsAHealthyPayoutIntoAClaim(uint256 limit, uint256 lookGas, uint256 moveGas, bool back)
        public
    {
        limit = bound(limit, 60_000, 1_500_000);
        reservedByPayer(address(trick));
        trick.setLookGas(bound(lookGas, 0, 200_000));
        // Half of its gas goes to the transfer itself, which fails early when it gets less.
        trick.setGasNeeded(bound(moveGas, 0, 290_000));
        bytes memory call = back
            ? abi.encodeCall(escrow.cancel, (termsOf(ID), nonDelivery()))
            : abi.encodeCall(escrow.release, (termsOf(ID), delivery()));
        (bool done, bytes memory why) = address(escrow).call{gas: limit}(call);
        trick.setLookGas(0);
        assertEq(escrow.claimable(settler, address(trick)), 0, "the settler's payout");
        assertEq(escrow.claimable(payer, address(trick)), 0, "the payer's payout");
        if (done) {
            assertPaid(address(trick), back ? 0 : QUOTED, 0);
        } else {
            assertState(GatewayEscrow.State.Reserved);
            why;
        }
    }

    /// The very numbers that worked: the gas was counted before a balance that costs 100,000 to read.
    function test_ADearBalanceIsReadBeforeTheGasIsCounted() public {
        reservedByPayer(address(trick));
        trick.setLookGas(100_000);
        trick.setGasNeeded(290_000);
        bytes memory attestation = delivery();
        uint256 done;
        for (uint256 limit = 380_000; limit <= 1_400_000; limit += 4_001) {
            uint256 snapshot = vm.snapshotState();
            (bool paid,) = address(escrow).call{gas: limit}(abi.encodeCall(escrow.release, (termsOf(ID), attestation)));
            if (paid) done++;
            assertEq(escrow.claimable(settler, address(trick)) + escrow.claimable(payer, address(trick)), 0);
            vm.revertToState(snapshot);
        }
        assertGt(done, 0);
    }

    function test_TooLittleGasIsNamed() public {
        reservedByPayer(address(token));
        bytes memory attestation = delivery();
        (bool done, bytes memory why) =
            address(escrow).call{gas: 300_000}(abi.encodeCall(escrow.release, (termsOf(ID), attestation)));
        assertFalse(done);
        assertEq(bytes4(why), GatewayEscrow.GasTooLow.selector);
    }

    // Tokens

    function test_TokensThatAnswerFalseNothingOrTooMuchArePaidOnce() public {
        for (uint8 a = uint8(TrickToken.Answer.False); a <= uint8(TrickToken.Answer.Bomb); a++) {
            uint256 snapshot = vm.snapshotState();
            trick.setAnswer(TrickToken.Answer(a));
            reservedByPayer(address(trick));
            escrow.release{gas: 1_000_000}(termsOf(ID), delivery());
            assertPaid(address(trick), QUOTED, 0);
            assertEq(escrow.claimable(settler, address(trick)), 0);
            assertEq(escrow.claimable(payer, address(trick)), 0);
            vm.revertToState(snapshot);
        }
    }

    function test_AFeeThatBeginsLaterIsTheReceivers() public {
        reservedByPayer(address(trick));
        trick.setFee(1e6);
        escrow.release(termsOf(ID), delivery());
        assertEq(trick.balanceOf(settler), QUOTED - 1e6);
        assertEq(trick.balanceOf(address(escrow)), 0);
        assertEq(escrow.claimable(settler, address(trick)), 0);
    }

    /// The receiver sends the money back while it receives it: it is owed as before, no more and no less.
    function test_MoneySentBackDuringThePayoutStaysOwed() public {
        reservedByPayer(address(trick));
        trick.setHook(address(trick), abi.encodeCall(TrickToken.mint, (address(escrow), CAP)));
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        assertEq(escrow.claimable(payer, address(trick)), CAP);
        assertEq(trick.balanceOf(address(escrow)), CAP);
    }

    // Re-entrance

    function test_NothingCanBeReenteredWhileMoneyComesIn() public {
        bytes[] memory calls = everyCall();
        for (uint256 i = 0; i < calls.length; i++) {
            uint256 snapshot = vm.snapshotState();
            trick.setHook(address(escrow), calls[i]);
            uint256 ready = vm.snapshotState();
            for (uint256 way = 0; way < 7; way++) {
                if (way == 0) depositByPayer(depositTerms(), address(trick));
                if (way == 1) depositWitnessed(depositTerms(), reservation(), address(trick));
                if (way == 2) depositPermitted(depositTerms(), reservation(), address(trick));
                if (way == 3) depositAuthorized(depositTerms(), reservation(), address(trick), LARGER);
                if (way == 4 || way == 5) {
                    depositLarger(way == 4, depositTerms(), reservation(), address(trick), LARGER);
                }
                if (way == 6) depositForPayer();
                assertReentranceRefused();
                vm.revertToState(ready);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_NothingCanBeReenteredWhileMoneyGoesOut() public {
        bytes[] memory calls = everyCall();
        reservedByPayer(address(trick));
        for (uint256 i = 0; i < calls.length; i++) {
            uint256 snapshot = vm.snapshotState();
            trick.setHook(address(escrow), calls[i]);
            if (i % 3 == 0) escrow.release(termsOf(ID), delivery());
            if (i % 3 == 1) escrow.cancel(termsOf(ID), nonDelivery());
            if (i % 3 == 2) {
                vm.warp(depositTerms().refundAfter);
                escrow.refund(termsOf(ID));
            }
            assertReentranceRefused();
            assertEq(trick.balanceOf(address(escrow)), 0);
            vm.revertToState(snapshot);
        }
    }

    function test_AClaimCannotBeTakenTwiceByReentering() public {
        reservedByPayer(address(trick));
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        trick.mint(address(escrow), QUOTED);
        trick.setHook(address(escrow), abi.encodeCall(escrow.claim, (address(trick), stranger)));
        vm.prank(settler);
        escrow.claim(address(trick), stranger);
        assertReentranceRefused();
        assertEq(trick.balanceOf(stranger), QUOTED);
    }

    function assertReentranceRefused() private view {
        assertFalse(trick.hookSucceeded());
        assertEq(bytes4(trick.hookResult()), GatewayEscrow.Reentered.selector);
    }

    function everyCall() private view returns (bytes[] memory calls) {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(trick));
        calls = new bytes[](15);
        bytes memory admission = signAdmission(reserverKey, d, r, address(trick));
        bytes memory opening = signOpening(reserverKey, d, address(trick), CAP);
        calls[0] = abi.encodeCall(escrow.depositWithWitness, (d, p, r, ADMITTED_UNTIL, admission));
        calls[1] = abi.encodeCall(escrow.depositWithPermit, (d, p, r, ADMITTED_UNTIL, admission));
        calls[2] = abi.encodeCall(escrow.depositOwn, (d, address(trick), CAP, opening));
        calls[3] = abi.encodeCall(escrow.reserve, (termsOf(r.paymentId), r, signReservation(reserverKey, r)));
        calls[4] = abi.encodeCall(escrow.release, (termsOf(ID), delivery()));
        calls[5] = abi.encodeCall(escrow.cancel, (termsOf(ID), nonDelivery()));
        calls[6] = abi.encodeCall(escrow.refund, (termsOf(ID)));
        calls[7] = abi.encodeCall(escrow.claim, (address(trick), attacker));
        calls[8] = abi.encodeCall(escrow.claimFor, (payer, address(trick)));
        calls[9] = abi.encodeCall(escrow.claimFor, (settler, address(trick)));
        GatewayEscrow.Reservation memory next = nextReservation();
        bytes memory reassignment = signReassignment(reserverKey, r.quoteHash, next);
        calls[10] = abi.encodeCall(escrow.reassign, (termsOf(ID), next, reassignment, nonDelivery()));
        bytes memory larger = admissionOf(d, r, address(trick), LARGER);
        calls[11] = abi.encodeCall(escrow.depositMoreWithWitness, (d, p, r, LARGER, ADMITTED_UNTIL, larger));
        calls[12] = abi.encodeCall(escrow.depositMoreWithPermit, (d, p, r, LARGER, ADMITTED_UNTIL, larger));
        calls[13] = callOf(authorized(d, r, address(trick), LARGER));
        calls[14] = abi.encodeCall(escrow.depositFor, (d, address(trick), LARGER, r, ADMITTED_UNTIL, larger));
    }

    /// By the payer itself, which is a caller as everyone.
    function depositForPayer() private {
        bytes memory admission = admissionOf(depositTerms(), reservation(), address(trick), LARGER);
        vm.prank(payer);
        escrow.depositFor(depositTerms(), address(trick), LARGER, reservation(), ADMITTED_UNTIL, admission);
    }
}
