// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IPermit2} from "../../src/IPermit2.sol";
import {IPermit2Batch} from "../../src/IPermit2Batch.sol";
import {OddEscrow} from "./OddEscrow.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice What a payer may name as the escrow of a payment of its batch: as `OddEscrow`, with what it calls its Permit2.
contract BatchEscrow is OddEscrow {
    address public permit2;

    constructor(address permit2_) {
        permit2 = permit2_;
    }

    function setPermit2(address permit2_) external {
        permit2 = permit2_;
    }
}

/// @notice What such an escrow may call its Permit2: it asks for no signature, brings of its own money so much more or less than it is
/// asked for, and calls somebody before that or after.
contract OwnPermit2 is IPermit2Batch {
    int256 public excess;
    address public target;
    bytes public data;
    bool public late;
    bool public succeeded;

    function setExcess(int256 excess_) external {
        excess = excess_;
    }

    function setCall(address target_, bytes calldata data_, bool late_) external {
        (target, data, late) = (target_, data_, late_);
    }

    function permitWitnessTransferFrom(
        PermitBatchTransferFrom calldata permit,
        IPermit2.SignatureTransferDetails[] calldata details,
        address,
        bytes32,
        string calldata,
        bytes calldata
    ) external {
        if (!late) _call();
        for (uint256 i = 0; i < details.length; i++) {
            uint256 amount = uint256(int256(details[i].requestedAmount) + excess);
            TrickToken(permit.permitted[i].token).transfer(details[i].to, amount);
        }
        if (late) _call();
    }

    function _call() private {
        if (target != address(0)) (succeeded,) = target.call(data);
    }
}
