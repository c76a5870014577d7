// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {LargerDeposits} from "./LargerDeposits.sol";
import {VerifierSets} from "./VerifierSets.sol";

/// @notice What those have in common who act in random sequences. Their permits last as long as the test.
abstract contract Sequences is VerifierSets, LargerDeposits {
    function unsignedPermit(GatewayEscrow.GatewayDeposit memory d, address asset)
        internal
        pure
        override
        returns (GatewayEscrow.Permit memory)
    {
        return GatewayEscrow.Permit(asset, CAP, nonceOf(d), type(uint256).max, "");
    }
}
