// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IPermit2} from "./IPermit2.sol";

/// @title The part of Permit2 that draws several tokens for one signature
interface IPermit2Batch {
    /// @notice What the owner signs, besides the spender (the caller) and the witness.
    struct PermitBatchTransferFrom {
        IPermit2.TokenPermissions[] permitted;
        uint256 nonce;
        uint256 deadline;
    }

    /// @notice Moves of each permitted token what `transferDetails` asks for, with a signature that binds `witness` too.
    function permitWitnessTransferFrom(
        PermitBatchTransferFrom calldata permit,
        IPermit2.SignatureTransferDetails[] calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external;
}
