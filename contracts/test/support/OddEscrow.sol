// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice What somebody may name as the escrow of an address of his: it takes of a deposit what it is told, or fails, calls
/// somebody meanwhile, and answers about records as it is told.
contract OddEscrow {
    enum Reply {
        Says,
        Fails,
        BurnsGas
    }

    Reply public reply;
    bytes public record;
    uint256 public taken;
    bytes public failure;
    address public target;
    bytes public data;
    bool public succeeded;

    function setReply(Reply reply_, bytes calldata record_) external {
        (reply, record) = (reply_, record_);
    }

    function setTaken(uint256 amount) external {
        taken = amount;
    }

    function setFailure(bytes calldata failure_) external {
        failure = failure_;
    }

    function setCall(address target_, bytes calldata data_) external {
        (target, data) = (target_, data_);
    }

    function depositFor(
        GatewayEscrow.GatewayDeposit calldata,
        address token,
        uint256,
        GatewayEscrow.Reservation calldata,
        uint48,
        bytes calldata
    ) external {
        bytes memory why = failure;
        if (why.length != 0) {
            assembly {
                revert(add(why, 32), mload(why))
            }
        }
        if (target != address(0)) (succeeded,) = target.call(data);
        if (taken != 0) take(token, msg.sender, taken);
    }

    /// What it was allowed and did not take.
    function take(address token, address from, uint256 amount) public {
        TrickToken(token).transferFrom(from, address(this), amount);
    }

    function recordOf(bytes32) external view {
        if (reply == Reply.BurnsGas) {
            assembly {
                invalid()
            }
        }
        bytes memory said = record;
        bool fails = reply == Reply.Fails;
        assembly {
            if fails { revert(add(said, 32), mload(said)) }
            return(add(said, 32), mload(said))
        }
    }
}
