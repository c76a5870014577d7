// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {DenyingToken, Proofs, SignsAll, vm} from "./Proofs.sol";

/// @notice Sequences of calls with all signatures given, in a token that moves money or, for chosen receivers, does not.
abstract contract Exits is Proofs {
    address internal signer;
    DenyingToken internal token;
    DenyingToken internal otherToken;

    function setUp() public {
        signer = address(new SignsAll());
        deploy(signer);
        token = new DenyingToken();
        otherToken = new DenyingToken();
        enrich(token);
        enrich(otherToken);
    }

    /// One of the calls that may end a payment or give it to another settler, with the terms as they stand or as they stood.
    function callOf(
        uint8 way,
        GatewayEscrow.Escrow memory first,
        GatewayEscrow.Escrow memory next,
        uint256 nextAmount
    ) internal view returns (bytes memory) {
        if (way == 0) return abi.encodeCall(escrow.release, (first, ""));
        if (way == 1) return abi.encodeCall(escrow.cancel, (first, ""));
        if (way == 2) return abi.encodeCall(escrow.refund, (first));
        if (way == 3) return reassignment(first, nextAmount, next.fulfillBy);
        if (way == 4) return abi.encodeCall(escrow.release, (next, ""));
        if (way == 5) return abi.encodeCall(escrow.cancel, (next, ""));
        return abi.encodeCall(escrow.refund, (next));
    }

    /// Calls in any order: at most one of them ends the payment, and payer and settlers together get the deposit once.
    function endsAtMostOnce(
        Begun memory p,
        uint128 next,
        uint48[] memory times,
        uint8[] memory ways
    ) internal {
        GatewayEscrow.Escrow memory first = begun(p, ID, signer, address(token));
        GatewayEscrow.Escrow memory second = asReassigned(first, next, p.start + 100);
        uint256 ends;
        uint48 last = p.start;
        for (uint256 i = 0; i < ways.length; i++) {
            vm.assume(times[i] >= last && ways[i] < 7);
            last = times[i];
            vm.warp(last);
            bool done = tried(callOf(ways[i], first, second, next));
            if (done && ways[i] != 3) ends++;
            // Nothing follows an end, not even a reassignment.
            if (done && ways[i] == 3) assert(ends == 0);
        }
        assert(ends <= 1);
        assert((ends == 1) == isOver(ID));
        uint256 out = token.balanceOf(PAYER) + token.balanceOf(SETTLER) + token.balanceOf(NEXT_SETTLER);
        assert(out == (ends == 1 ? WEALTH : WEALTH - p.amount));
        assert(token.balanceOf(SETTLER) == 0 || token.balanceOf(NEXT_SETTLER) == 0);
    }

    /// What the escrow has is what it owes, and all there is has one of three owners.
    function holds(DenyingToken t, uint256 openDeposits) internal view {
        uint256 claims = escrow.claimable(SETTLER, address(t)) + escrow.claimable(PAYER, address(t));
        assert(t.balanceOf(address(escrow)) == openDeposits + claims);
        assert(escrow.owedIn(address(t)) == openDeposits + claims);
        assert(t.balanceOf(address(escrow)) + t.balanceOf(PAYER) + t.balanceOf(SETTLER) == WEALTH);
    }
}
