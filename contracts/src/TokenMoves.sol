// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title ERC-20 calls judged by what they move
/// @notice Tokens disagree about return values: some return nothing, and Tron's USDT returns false from a
/// `transfer` that moved the money. So what a call returns is ignored here, and callers compare balances before
/// and after. The returned bytes are not even copied: a token cannot burn the caller's gas with a huge answer.
library TokenMoves {
    /// @notice The balance of `account` in the token's smallest unit. Reverts when the token does not answer.
    function balanceOf(address token, address account) internal view returns (uint256) {
        return IERC20(token).balanceOf(account);
    }

    /// @notice Asks `token` to move `amount` from `from` to `to` under an allowance given to this contract.
    /// Success shows in the balances only.
    function tryTransferFrom(address token, address from, address to, uint256 amount) internal {
        _call(token, abi.encodeCall(IERC20.transferFrom, (from, to, amount)), gasleft());
    }

    /// @notice Asks `token` to move `amount` of this contract's own balance to `to`, spending at most `gasLimit`.
    /// Success shows in the balances only.
    function tryTransfer(address token, address to, uint256 amount, uint256 gasLimit) internal {
        _call(token, abi.encodeCall(IERC20.transfer, (to, amount)), gasLimit);
    }

    function _call(address token, bytes memory data, uint256 gasLimit) private {
        assembly ("memory-safe") {
            pop(call(gasLimit, token, 0, add(data, 0x20), mload(data), 0, 0))
        }
    }
}
