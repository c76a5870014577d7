// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {LargerDeposits} from "./LargerDeposits.sol";
import {VerifierSets} from "./VerifierSets.sol";

/// @notice Payments whose settler did not deliver in time.
abstract contract LapsedReservations is VerifierSets, LargerDeposits {
    bytes32 internal constant NEXT = keccak256("next quote");

    /// How many ways there are.
    uint256 internal constant WAYS = 5;

    /// The payment reserved for the first settler, each way; what was deposited.
    function reservedBy(uint256 way) internal returns (uint256 deposited) {
        if (way == 0) depositWitnessed(depositTerms(), reservation(), address(token));
        if (way == 1) depositPermitted(depositTerms(), reservation(), address(token));
        if (way == 2) reservedByPayer(address(token));
        if (way > 2) depositLarger(way == 3, depositTerms(), reservation(), address(token), LARGER);
        return termsOf(PAYMENT).deposited;
    }

    /// The first second in which the reservation is over.
    function lapse() internal {
        vm.warp(reservation().fulfillBy + 1);
    }
}
