// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @title The part of ERC-3009 that is used here
/// @notice Transfers by a signed authorization, as Circle's tokens have them. The token checks signature, times and nonce, and uses
/// every nonce of a payer once.
interface IERC3009 {
    /// @notice Moves `value` from `from` to `to` with a key's signature, whoever calls.
    /// @param validAfter last second in which the authorization does not hold yet
    /// @param validBefore first second in which it does not hold any more
    /// @param nonce of the payer's choice
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice The same with a signature in one piece: a key's, or what the contract `from` takes for its own (ERC-1271).
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;

    /// @notice Moves `value` from `from` to the caller, which must be `to`, with a key's signature.
    /// @param validAfter last second in which the authorization does not hold yet
    /// @param validBefore first second in which it does not hold any more
    /// @param nonce of the payer's choice
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external;

    /// @notice The same with a signature in one piece: a key's, or what the contract `from` takes for its own (ERC-1271).
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes calldata signature
    ) external;
}
