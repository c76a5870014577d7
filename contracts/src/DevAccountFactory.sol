// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

import {DevAccount} from "./DevAccount.sol";

/// @title Deploys development accounts at addresses known beforehand
/// @notice For local networks and tests. Never give it value.
contract DevAccountFactory {
    /// @notice Deploys the account of these parameters; reverts when it is there already.
    function deploy(address owner, IERC20 token, address spender) external returns (address) {
        return address(new DevAccount{salt: 0}(owner, token, spender));
    }

    /// @notice Where the account of these parameters is, or will be.
    function accountOf(address owner, IERC20 token, address spender) external view returns (address) {
        bytes memory code = abi.encodePacked(type(DevAccount).creationCode, abi.encode(owner, token, spender));
        bytes32 digest = keccak256(abi.encodePacked(bytes1(0xff), address(this), bytes32(0), keccak256(code)));
        return address(uint160(uint256(digest)));
    }
}
