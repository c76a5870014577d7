// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";

/// @title A development token: worthless, anyone mints any amount
/// @notice A plain ERC-20 for local networks and tests. Never give it value.
contract DevToken is ERC20 {
    uint8 private immutable _decimals;

    /// @param name_ the token's name, e.g. "Development USD"
    /// @param symbol_ the token's symbol, e.g. "dUSD"
    /// @param decimals_ how many decimal places one whole token has
    constructor(string memory name_, string memory symbol_, uint8 decimals_) ERC20(name_, symbol_) {
        _decimals = decimals_;
    }

    /// @notice Creates `amount` (smallest unit) for `to`. Open to everyone: this is a development token.
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @notice How many decimal places one whole token has, as given at deployment.
    function decimals() public view override returns (uint8) {
        return _decimals;
    }
}
