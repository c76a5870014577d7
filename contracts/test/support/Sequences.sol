// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {AuthorizingToken} from "./AuthorizingToken.sol";
import {DepositAddressing} from "./DepositAddressing.sol";
import {EscrowFixture} from "./EscrowFixture.sol";
import {OfferAddressing} from "./OfferAddressing.sol";
import {VerifierSets} from "./VerifierSets.sol";

/// @notice What those have in common who act in random sequences. Their permits and authorizations last as long as the test, and
/// their tokens take each of them.
abstract contract Sequences is VerifierSets, OfferAddressing, DepositAddressing {
    function setUp() public virtual override(EscrowFixture, OfferAddressing, DepositAddressing) {
        super.setUp();
        trick = new AuthorizingToken();
        enrich(address(trick));
    }

    function unsignedPermit(GatewayEscrow.GatewayDeposit memory d, address asset)
        internal
        pure
        override
        returns (GatewayEscrow.Permit memory)
    {
        return GatewayEscrow.Permit(asset, CAP, nonceOf(d), type(uint256).max, "");
    }

    function unsignedAuthorization(GatewayEscrow.GatewayDeposit memory, address asset, uint256 amount)
        internal
        pure
        override
        returns (GatewayEscrow.Authorization memory)
    {
        return GatewayEscrow.Authorization(asset, amount, type(uint256).max, "");
    }
}
