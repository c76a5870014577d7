// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {TrickToken} from "./TrickToken.sol";

/// @notice A token whose issuer stops all transfers at will.
contract PausableToken is TrickToken {
    bool public paused;

    function setPaused(bool stopped) external {
        paused = stopped;
    }

    function _move(address from, address to, uint256 amount) internal override {
        require(!paused, "paused");
        super._move(from, to, amount);
    }
}

/// @notice A token whose holders' balances all grow or shrink at once.
contract RebasingToken {
    uint256 private constant UNIT = 1e12;

    /// What one share is worth, in `UNIT`.
    uint256 public index = UNIT;
    mapping(address => uint256) private _shares;
    mapping(address => mapping(address => uint256)) public allowance;

    function balanceOf(address owner) public view returns (uint256) {
        return _shares[owner] * index / UNIT;
    }

    /// @param millionths what a unit is worth afterwards, in millionths
    function rebase(uint256 millionths) external {
        index = index * millionths / 1e6;
    }

    function mint(address to, uint256 amount) external {
        _shares[to] += amount * UNIT / index;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
        return true;
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        allowance[from][msg.sender] -= amount;
        _move(from, to, amount);
        return true;
    }

    /// Whole shares move, so after a rebase mostly something less arrives.
    function _move(address from, address to, uint256 amount) private {
        uint256 shares = amount * UNIT / index;
        _shares[from] -= shares;
        _shares[to] += shares;
    }
}
