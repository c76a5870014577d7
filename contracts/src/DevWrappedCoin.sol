// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";

/// @title The chain's own coin as a token, for development: what WETH9 is on Ethereum and WTRX on Tron
/// @notice One unit for each unit of the coin, both ways. For local networks and tests. Never give it value.
contract DevWrappedCoin is ERC20 {
    uint8 private immutable _decimals;

    /// @notice So much of the coin came in; WETH9's event.
    event Deposit(address indexed dst, uint256 wad);
    /// @notice So much of the coin went out; WETH9's event.
    event Withdrawal(address indexed src, uint256 wad);

    /// @param name_ the token's name, e.g. "Wrapped Ether"
    /// @param symbol_ the token's symbol, e.g. "WETH"
    /// @param decimals_ the decimal places of the coin
    constructor(string memory name_, string memory symbol_, uint8 decimals_) ERC20(name_, symbol_) {
        _decimals = decimals_;
    }

    /// @notice Coins that come without a call are wrapped, too, as WETH9 does it.
    receive() external payable {
        deposit();
    }

    /// @notice Wraps the coins that come with the call.
    function deposit() public payable {
        _mint(msg.sender, msg.value);
        emit Deposit(msg.sender, msg.value);
    }

    /// @notice Takes `wad` of the caller's tokens and gives it the coins.
    function withdraw(uint256 wad) external {
        _burn(msg.sender, wad);
        emit Withdrawal(msg.sender, wad);
        Address.sendValue(payable(msg.sender), wad);
    }

    /// @notice How many decimal places one whole coin has, as given at deployment.
    function decimals() public view override returns (uint8) {
        return _decimals;
    }
}
