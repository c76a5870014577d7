// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Authority} from "./support/Authority.sol";
import {vm} from "./support/Proofs.sol";

/// @notice (e) Whoever calls with the payment's own terms, whatever he signs: the payment ends or is reserved in the allowed
/// transitions alone, and each takes the signature of the one whose it is. Payments are in each of the five states, of any
/// `termsHash`, amount, price and `refundAfter`, in an ordinary token; caller, time, award and the 65 bytes of a signature are any.
/// Whose signature it is `ecrecover` says, of which Halmos assumes nothing: so each proof is of the form "what went through was
/// signed by". Reserver and releaser are keys, without code. A call that reverts changes nothing, which is the machine's to hold.
///
/// Records are compared word by word. Halmos does not relate the hash of more than 128 known bytes to that of unknown bytes that
/// turn out equal, so two such hashes may differ where no machine's do; for the same reason `termsHash` is always unknown.
///
/// Not proven here, but by random sequences in `EscrowAdversary.t.sol` and `EscrowConservation.t.sol` alone (fuzz): the signatures
/// of the deposits by permit, that an id is used once, that the calls besides change no record, and that terms which are not
/// the payment's go through nowhere (of the last, `EscrowProperties` proves commitment and refund). Signatures of other lengths, and
/// payers that are contracts and authorize a deposit, are in the tests, sets of verifiers in `VerifierSetProofs`.
/// @custom:halmos --solver-timeout-branching 2000
contract AuthorityProofs is Authority {
    /// A release is of a reserved payment, before `refundAfter`, with the releaser's signature over the delivery.
    function check_AReleaseTakesTheReleasersWord(Standing memory s, Attempt memory a, uint8 stage) public {
        GatewayEscrow.Escrow memory e = standing(s, stageOf(stage));
        Words memory was = recordAt(ID);
        bytes memory signed = signature("releaser");
        if (!goesThrough(a, abi.encodeCall(escrow.release, (e, signed)))) return;
        assert(stage == uint8(Stage.Reserved) && a.time < s.refundAfter);
        assert(signerOf(delivery(e), signed) == RELEASER);
        endedAs(Stage.Released, was);
    }

    /// A cancellation is of an open payment, before `refundAfter`, with the releaser's signature over the non-delivery.
    function check_ACancellationTakesTheReleasersWord(Standing memory s, Attempt memory a, uint8 stage) public {
        GatewayEscrow.Escrow memory e = standing(s, stageOf(stage));
        Words memory was = recordAt(ID);
        bytes memory signed = signature("releaser");
        if (!goesThrough(a, abi.encodeCall(escrow.cancel, (e, signed)))) return;
        assert((stage == uint8(Stage.Deposited) || stage == uint8(Stage.Reserved)) && a.time < s.refundAfter);
        assert(signerOf(nonDelivery(e), signed) == RELEASER);
        endedAs(Stage.Refunded, was);
    }

    /// A refund is of an open payment, from `refundAfter` on, and takes nobody's word.
    function check_ARefundTakesItsTime(Standing memory s, Attempt memory a, uint8 stage) public {
        GatewayEscrow.Escrow memory e = standing(s, stageOf(stage));
        Words memory was = recordAt(ID);
        if (!goesThrough(a, abi.encodeCall(escrow.refund, (e)))) return;
        assert((stage == uint8(Stage.Deposited) || stage == uint8(Stage.Reserved)) && a.time >= s.refundAfter);
        endedAs(Stage.Refunded, was);
    }

    /// A reservation is of a payment that has none, with the reserver's signature over it, for at most what was deposited.
    function check_AReservationTakesTheReserversWord(
        Standing memory s,
        Attempt memory a,
        uint8 stage,
        GatewayEscrow.Reservation memory r
    ) public {
        GatewayEscrow.Escrow memory e = standing(s, stageOf(stage));
        uint256 depositedAt = block.number;
        bytes memory signed = signature("reserver");
        if (!goesThrough(a, abi.encodeCall(escrow.reserve, (e, r, signed)))) return;
        assert(stage == uint8(Stage.Deposited) && a.time <= e.deposit.reserveDeadline);
        assert(signerOf(reservationHash(r), signed) == RESERVER);
        assert(r.paymentId == ID && r.sourceAmount != 0 && r.sourceAmount <= e.deposited);
        isReserved(awarded(e, r), 1, depositedAt);
    }

    /// A reassignment takes both words: the reserver's over the quote that it replaces and the new award, the releaser's that
    /// nothing was delivered under the old one. It comes after the promise and costs no more than was deposited.
    function check_AReassignmentTakesBothWords(
        Standing memory s,
        Attempt memory a,
        uint8 stage,
        GatewayEscrow.Reservation memory r
    ) public {
        GatewayEscrow.Escrow memory e = standing(s, stageOf(stage));
        uint256 depositedAt = block.number;
        bytes memory byReserver = signature("reserver");
        bytes memory byReleaser = signature("releaser");
        if (!goesThrough(a, abi.encodeCall(escrow.reassign, (e, r, byReserver, byReleaser)))) return;
        assert(stage == uint8(Stage.Reserved) && a.time > e.fulfillBy);
        assert(signerOf(reassignmentHash(QUOTE, r), byReserver) == RESERVER);
        assert(signerOf(nonDelivery(e), byReleaser) == RELEASER);
        assert(r.paymentId == ID && r.quoteHash != QUOTE && r.sourceAmount != 0 && r.sourceAmount <= e.deposited);
        assert(r.fulfillBy > a.time && r.fulfillBy <= e.deposit.fulfillmentDeadline);
        isReserved(awarded(e, r), 2, depositedAt);
    }

    /// A deposit of the payer's own, of an id that has none, is called by the payer, with the reserver's signature over all of it.
    function check_AnOwnDepositTakesPayerAndReserver(
        Attempt memory a,
        GatewayEscrow.GatewayDeposit memory d,
        uint128 amount
    ) public {
        bytes memory signed = signature("reserver");
        d.paymentId = ID;
        token.mint(a.caller, amount);
        vm.prank(a.caller);
        token.approve(address(escrow), amount);
        if (!goesThrough(a, abi.encodeCall(escrow.depositOwn, (d, address(token), amount, signed)))) return;
        assert(a.caller == d.payer && d.reserver == RESERVER && amount != 0);
        assert(signerOf(opening(d, amount), signed) == RESERVER);
        uint256 head = uint256(Stage.Deposited) | block.number << 16;
        assert(isSame(recordAt(ID), Words(head, keccak256(abi.encode(opened(d, amount))))));
        assert(a.time <= d.reserveDeadline && d.reserveDeadline <= d.fulfillmentDeadline);
        assert(d.fulfillmentDeadline < d.refundAfter);
    }

    /// A deposit by an authorization, of an id that has none, takes both keys: the payer's over the amount, the escrow and all that
    /// it agreed to, the reserver's over all of it and the award. It brings exactly what the payer signed, in time.
    function check_AnAuthorizedDepositTakesPayerAndReserver(
        Attempt memory a,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        uint128 amount,
        uint256 validBefore,
        uint48 admittedUntil
    ) public {
        bytes memory byPayer = signature("payer");
        bytes memory byReserver = signature("reserver");
        d.paymentId = ID;
        // A key, as reserver and releaser are.
        vm.assume(d.payer.code.length == 0);
        stable.mint(d.payer, amount);
        uint256 had = stable.balanceOf(d.payer);
        GatewayEscrow.Authorization memory auth =
            GatewayEscrow.Authorization(address(stable), amount, validBefore, byPayer);
        if (!goesThrough(a, abi.encodeCall(escrow.depositWithAuthorization, (d, auth, r, admittedUntil, byReserver)))) {
            return;
        }
        assert(signerOf(stable.DOMAIN_SEPARATOR(), authorization(d, amount, validBefore), byPayer) == d.payer);
        assert(d.reserver == RESERVER && signerOf(admission(d, r, amount, admittedUntil), byReserver) == RESERVER);
        assert(a.time < validBefore && a.time <= admittedUntil && a.time <= d.reserveDeadline);
        assert(r.paymentId == ID && (d.quoteHash == 0 || d.quoteHash == r.quoteHash));
        assert(r.sourceAmount != 0 && r.sourceAmount <= amount);
        assert(stable.balanceOf(d.payer) == had - amount && stable.balanceOf(address(escrow)) == amount);
        assert(escrow.owedIn(address(stable)) == amount);
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), amount, 0, address(0), 0, 0), r), 1, block.number);
    }

    /// A deposit for another, of an id that has none, takes the reserver's word over all of it and the award, and the caller's
    /// money: of nobody else's, whoever the payer is and whatever the escrow is allowed to take of others.
    function check_ADepositForAnotherTakesTheReserversWordAndTheCallersMoney(
        Attempt memory a,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        uint128 amount,
        uint48 admittedUntil
    ) public {
        bytes memory byReserver = signature("reserver");
        d.paymentId = ID;
        stable.mint(a.caller, amount);
        vm.prank(a.caller);
        stable.approve(address(escrow), type(uint256).max);
        vm.prank(PAYER);
        stable.approve(address(escrow), type(uint256).max);
        uint256 had = stable.balanceOf(a.caller);
        uint256 rich = stable.balanceOf(PAYER);
        bytes memory call =
            abi.encodeCall(escrow.depositFor, (d, address(stable), amount, r, admittedUntil, byReserver));
        if (!goesThrough(a, call)) return;
        assert(d.reserver == RESERVER && signerOf(admission(d, r, amount, admittedUntil), byReserver) == RESERVER);
        assert(a.time <= admittedUntil && a.time <= d.reserveDeadline);
        assert(r.paymentId == ID && (d.quoteHash == 0 || d.quoteHash == r.quoteHash));
        assert(r.sourceAmount != 0 && r.sourceAmount <= amount && d.payer != address(0));
        assert(stable.balanceOf(a.caller) == had - amount && stable.balanceOf(address(escrow)) == amount);
        assert(a.caller == PAYER || stable.balanceOf(PAYER) == rich);
        assert(escrow.owedIn(address(stable)) == amount);
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), amount, 0, address(0), 0, 0), r), 1, block.number);
    }
}
