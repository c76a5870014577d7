// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @title The part of Permit2 that draws again and again on an allowance
/// @notice Allowance transfers as in Uniswap's Permit2 (`IAllowanceTransfer`): an owner gives a spender an allowance of a token by one
/// EIP-712 message, or by a call (`approve`), and ends it by a call (`lockdown`), or a message that is not taken yet by another
/// (`invalidateNonces`).
interface IPermit2Allowance {
    /// @notice How much of a token may be drawn, up to when.
    /// @param amount the most in all, in the token's smallest unit; the largest number is no limit
    /// @param expiration last second of the allowance
    /// @param nonce how many messages of this owner, token and spender were taken before
    struct PermitDetails {
        address token;
        uint160 amount;
        uint48 expiration;
        uint48 nonce;
    }

    /// @notice What the owner signs.
    struct PermitSingle {
        PermitDetails details;
        address spender;
        uint256 sigDeadline;
    }

    /// @notice What is left of an allowance, up to when, and the next message's nonce.
    function allowance(address owner, address token, address spender)
        external
        view
        returns (uint160 amount, uint48 expiration, uint48 nonce);

    /// @notice Sets the allowance that the owner signed.
    function permit(address owner, PermitSingle calldata permitSingle, bytes calldata signature) external;

    /// @notice Moves `amount` of `token` from `from` to `to` under the caller's allowance.
    function transferFrom(address from, address to, uint160 amount, address token) external;
}
