// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @title The part of Permit2 that the escrow uses
/// @notice Signature transfers as in Uniswap's Permit2 (`ISignatureTransfer`): the payer approves Permit2 once
/// and then signs one EIP-712 message for each payment. Permit2 checks owner, spender, deadline and nonce.
interface IPermit2 {
    /// @notice Token and the most of it, in the token's smallest unit, that one signature may move.
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    /// @notice What the owner signs, besides the spender (the caller) and the witness.
    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// @notice Where the money goes and how much of the permitted amount is moved.
    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    /// @notice Moves `transferDetails.requestedAmount` from `owner` with a signature that binds no witness.
    function permitTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes calldata signature
    ) external;

    /// @notice Moves `transferDetails.requestedAmount` from `owner` with a signature that binds `witness` too.
    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}
