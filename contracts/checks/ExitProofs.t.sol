// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Exits} from "./support/Exits.sol";
import {DenyingToken, vm} from "./support/Proofs.sol";

/// @notice Exits exclude each other, and what goes out is what came in: for all amounts up to 2^128, windows, times and orders of
/// the calls.
/// @custom:halmos --loop 4
contract ExitProofs is Exits {
    /// Whatever ended a payment, from then on every call of it fails, with whatever terms.
    function check_AnEndIsForEver(
        Begun memory p,
        uint48[2] memory times,
        uint8[2] memory ways,
        bytes32 quote,
        address settler,
        uint256 asked
    ) public {
        GatewayEscrow.Escrow memory e = begun(p, ID, signer, address(token));
        vm.assume(times[0] >= p.start && times[1] >= times[0] && ways[0] < 3);
        vm.warp(times[0]);
        vm.assume(tried(callOf(ways[0], e, e, 0)));
        vm.warp(times[1]);
        (e.quoteHash, e.settler, e.sourceAmount) = (quote, settler, asked);
        assert(!tried(callOf(ways[1], e, e, asked)));
    }

    /// Whoever is denied by the token, and however: the settler has or can claim exactly its price, the payer exactly the rest,
    /// and when the token denies nobody any more both get it, wherever a stranger or the owner brings it.
    function check_PayerAndSettlerGetExactlyTheDeposit(
        Begun memory p,
        uint8 settlerDenied,
        uint8 payerDenied,
        uint8 way
    ) public {
        vm.assume(way < 2);
        GatewayEscrow.Escrow memory e = begun(p, ID, signer, address(token));
        token.deny(SETTLER, settlerDenied);
        token.deny(PAYER, payerDenied);
        assert(triedWithGas(callOf(way, e, e, 0)));
        uint256 price = way == 0 ? p.quoted : 0;
        uint256 toSettler = escrow.claimable(SETTLER, address(token));
        uint256 toPayer = escrow.claimable(PAYER, address(token));
        assert(token.balanceOf(SETTLER) + toSettler == price);
        assert(token.balanceOf(PAYER) + toPayer == WEALTH - price);
        assert(token.balanceOf(address(escrow)) == toSettler + toPayer && escrow.owedIn(address(token)) == toSettler + toPayer);

        token.deny(SETTLER, 0);
        token.deny(PAYER, 0);
        assert(tried(abi.encodeCall(escrow.claimFor, (SETTLER, address(token)))) == (toSettler != 0));
        vm.prank(PAYER);
        assert(tried(abi.encodeCall(escrow.claim, (address(token), PAYER))) == (toPayer != 0));
        assert(token.balanceOf(SETTLER) == price && token.balanceOf(PAYER) == WEALTH - price);
        assert(token.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(token)) == 0);
    }

    /// The inductive step: beside a payment others are open, of any sum, in the same token or in another. One end of the
    /// payment, in any way, takes from the escrow what it no longer owes, to the unit, and touches neither the others' records nor
    /// the other token. So over any number of payments and ends nothing goes out that did not come in.
    function check_AnEndTakesItsOwnAndNothingOfOthers(
        Begun memory p,
        uint128 others,
        bool sameToken,
        uint8 way,
        uint48 time
    ) public {
        (GatewayEscrow.Escrow memory e, DenyingToken second) = besideOthers(p, others, sameToken);
        vm.assume(time >= p.start && way < 3);
        vm.warp(time);
        tried(callOf(way, e, e, 0));
        assert(stateOf(OTHER_ID) == GatewayEscrow.State.Deposited);
        holds(token, open(ID, p.amount) + (sameToken ? others : 0));
        if (!sameToken) holds(second, others);
    }

    /// The same inductive step of a claim: it takes its own and nothing of the others.
    function check_AClaimTakesItsOwnAndNothingOfOthers(Begun memory p, uint128 others, bool sameToken) public {
        token.deny(SETTLER, 1);
        (GatewayEscrow.Escrow memory e, DenyingToken second) = besideOthers(p, others, sameToken);
        assert(triedWithGas(callOf(0, e, e, 0)));
        assert(escrow.claimable(SETTLER, address(token)) == p.quoted);
        token.deny(SETTLER, 0);
        assert(tried(abi.encodeCall(escrow.claimFor, (SETTLER, address(token)))));
        assert(token.balanceOf(SETTLER) == p.quoted && escrow.claimable(SETTLER, address(token)) == 0);
        assert(!tried(abi.encodeCall(escrow.claimFor, (SETTLER, address(token)))));
        holds(token, sameToken ? others : 0);
        if (!sameToken) holds(second, others);
    }

    function besideOthers(Begun memory p, uint128 others, bool sameToken)
        private
        returns (GatewayEscrow.Escrow memory e, DenyingToken second)
    {
        second = sameToken ? token : otherToken;
        vm.assume(others != 0 && uint256(p.amount) + others <= WEALTH);
        e = begun(p, ID, signer, address(token));
        deposited(termsOf(OTHER_ID, signer, p.start, p.refundAfter), address(second), others);
    }
}

/// @notice What takes minutes.
/// @custom:halmos --loop 5
contract ExitProofsNightly is Exits {
    /// Release, cancellation, refund and reassignment, with the terms as they stand or stood, in every order of two calls.
    function check_TwoCallsEndAPaymentAtMostOnce(
        Begun memory p,
        uint128 next,
        uint48[2] memory times,
        uint8[2] memory ways
    ) public {
        uint48[] memory at = new uint48[](2);
        uint8[] memory how = new uint8[](2);
        (at[0], at[1], how[0], how[1]) = (times[0], times[1], ways[0], ways[1]);
        endsAtMostOnce(p, next, at, how);
    }
}
