// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title ERC-20 calls judged by what they move
/// @notice Tokens disagree about return values: some return nothing, and Tron's USDT returns false from a
/// `transfer` that moved the money. So what a call returns is ignored here, and callers compare balances before
/// and after. The returned bytes are not even copied: a token cannot burn the caller's gas with a huge answer.
library TokenMoves {
    /// @notice The balance of `account` in the token's smallest unit. Reverts when the token does not answer, with what the
    /// token says.
    function balanceOf(address token, address account) internal view returns (uint256 held) {
        bytes4 selector = IERC20.balanceOf.selector;
        assembly ("memory-safe") {
            mstore(0, selector)
            mstore(4, shr(96, shl(96, account)))
            if iszero(staticcall(gas(), token, 0, 0x24, 0, 0x20)) {
                let why := mload(0x40)
                returndatacopy(why, 0, returndatasize())
                revert(why, returndatasize())
            }
            if lt(returndatasize(), 0x20) { revert(0, 0) }
            held := mload(0)
        }
    }

    /// @notice Asks `token` to move `amount` from `from` to `to` under an allowance given to this contract.
    /// Success shows in the balances only.
    function tryTransferFrom(address token, address from, address to, uint256 amount) internal {
        bytes4 selector = IERC20.transferFrom.selector;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 0x04), shr(96, shl(96, from)))
            mstore(add(data, 0x24), shr(96, shl(96, to)))
            mstore(add(data, 0x44), amount)
            pop(call(gas(), token, 0, data, 0x64, 0, 0))
        }
    }

    /// @notice Asks `token` to move `amount` of this contract's own balance to `to`, spending at most `gasLimit`.
    /// Success shows in the balances only.
    function tryTransfer(address token, address to, uint256 amount, uint256 gasLimit) internal {
        bytes4 selector = IERC20.transfer.selector;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 0x04), shr(96, shl(96, to)))
            mstore(add(data, 0x24), amount)
            pop(call(gasLimit, token, 0, data, 0x44, 0, 0))
        }
    }

    /// @notice Lets `spender` take `amount` of this contract's own balance. A token that fails because it wants an allowance
    /// ended before it takes another is asked for that. Success shows in what can be taken then only.
    function tryApprove(address token, address spender, uint256 amount) internal {
        bytes4 selector = IERC20.approve.selector;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            mstore(add(data, 0x04), shr(96, shl(96, spender)))
            mstore(add(data, 0x24), amount)
            if iszero(call(gas(), token, 0, data, 0x44, 0, 0)) {
                mstore(add(data, 0x24), 0)
                pop(call(gas(), token, 0, data, 0x44, 0, 0))
                mstore(add(data, 0x24), amount)
                pop(call(gas(), token, 0, data, 0x44, 0, 0))
            }
        }
    }
}
