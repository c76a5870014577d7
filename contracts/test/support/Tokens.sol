// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {AuthorizingToken} from "./AuthorizingToken.sol";

/// @notice A token whose issuer stops all transfers at will.
contract PausableToken is AuthorizingToken {
    bool public paused;

    function setPaused(bool stopped) external {
        paused = stopped;
    }

    function _move(address from, address to, uint256 amount) internal override {
        require(!paused, "paused");
        super._move(from, to, amount);
    }
}

/// @notice A token whose holders' balances all grow or shrink at once: what it keeps of each is shares.
contract RebasingToken is AuthorizingToken {
    uint256 private constant UNIT = 1e12;

    /// What one share is worth, in `UNIT`.
    uint256 public index = UNIT;

    function balanceOf(address owner) public view override returns (uint256) {
        return super.balanceOf(owner) * index / UNIT;
    }

    /// @param millionths what a unit is worth afterwards, in millionths
    function rebase(uint256 millionths) external {
        index = index * millionths / 1e6;
    }

    function mint(address to, uint256 amount) public override {
        super.mint(to, amount * UNIT / index);
    }

    /// Whole shares move, so after a rebase mostly something less arrives.
    function _move(address from, address to, uint256 amount) internal override {
        super._move(from, to, amount * UNIT / index);
    }
}
