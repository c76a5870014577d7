// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice Does with coins what it is told: takes them, refuses them, or calls somebody.
contract CoinTaker {
    bool public refuses;
    address public target;
    bytes public data;
    bool public succeeded;

    function setRefuses(bool refuses_) external {
        refuses = refuses_;
    }

    function setCall(address target_, bytes calldata data_) external {
        (target, data) = (target_, data_);
    }

    receive() external payable {
        require(!refuses, "no coins");
        if (target != address(0)) (succeeded,) = target.call(data);
    }
}
