// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice A token with the habits of Tether's on Tron: `transfer` moves the money and answers false, `transferFrom`
/// answers true, an allowance is changed from or to zero only, an allowance without limit stays, and an owner that is
/// denied can send nothing.
contract TronUsd {
    uint8 public constant decimals = 6;

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => bool) public isBlackListed;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function setBlackListed(address owner, bool isDenied) external {
        isBlackListed[owner] = isDenied;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        require(amount == 0 || allowance[msg.sender][spender] == 0, "allowance");
        allowance[msg.sender][spender] = amount;
        return true;
    }

    /// Declared to answer, and never does: the answer is false.
    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        if (allowed != type(uint256).max) allowance[from][msg.sender] = allowed - amount;
        _move(from, to, amount);
        return true;
    }

    function _move(address from, address to, uint256 amount) private {
        require(!isBlackListed[from], "blacklisted");
        balanceOf[from] -= amount;
        balanceOf[to] += amount;
    }
}
