// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IPermit2Allowance} from "../../src/IPermit2Allowance.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice What an escrow of somebody's own may call its Permit2: it has every allowance, or asks for a permit and takes any, brings of
/// its own money so much more or less than it is asked for, and calls somebody before that or after.
contract OwnAllowances is IPermit2Allowance {
    int256 public excess;
    address public target;
    bytes public data;
    bool public late;
    bool public succeeded;
    bool public asksForPermits;
    uint256 public permits;

    function setExcess(int256 excess_) external {
        excess = excess_;
    }

    function setCall(address target_, bytes calldata data_, bool late_) external {
        (target, data, late) = (target_, data_, late_);
    }

    function setAsksForPermits() external {
        asksForPermits = true;
    }

    function allowance(address, address, address) external view returns (uint160, uint48, uint48) {
        return asksForPermits ? (0, 0, 0) : (type(uint160).max, type(uint48).max, 1);
    }

    function permit(address, PermitSingle calldata, bytes calldata) external {
        permits++;
    }

    function transferFrom(address, address to, uint160 amount, address token) external {
        if (!late) _call();
        TrickToken(token).transfer(to, uint256(int256(uint256(amount)) + excess));
        if (late) _call();
    }

    function _call() private {
        if (target != address(0)) (succeeded,) = target.call(data);
    }
}
