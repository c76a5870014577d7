// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";

/// @title Gives Permit2 a payer's allowance by its signature (ERC-2612) and makes its deposit, in one transaction
/// @notice Leaves no contract behind: the transaction creates it, and what it creates is empty.
/// @dev The allowance is the payer's word and goes to no one but `spender`. A permit that is not taken is passed over: anyone may
/// have brought it before, and whether the allowance is there is for the deposit to say.
contract PermittedDeposit {
    /// @notice What the payer signed for the token.
    struct TokenPermit {
        address token;
        address owner;
        address spender;
        uint256 value;
        uint256 deadline;
        uint8 v;
        bytes32 r;
        bytes32 s;
    }

    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);

    /// @param p the payer's permit
    /// @param escrow the escrow contract
    /// @param deposit the call that deposits, signed by payer and reserver
    constructor(TokenPermit memory p, address escrow, bytes memory deposit) {
        bytes memory permit =
            abi.encodeCall(IERC20Permit.permit, (p.owner, p.spender, p.value, p.deadline, p.v, p.r, p.s));
        address token = p.token;
        // Nothing that the token returns is copied.
        assembly ("memory-safe") {
            pop(call(gas(), token, 0, add(permit, 32), mload(permit), 0, 0))
        }
        if (escrow.code.length == 0) revert EscrowMissing(escrow);
        (bool deposited, bytes memory returned) = escrow.call(deposit);
        assembly ("memory-safe") {
            if iszero(deposited) { revert(add(returned, 32), mload(returned)) }
            return(0, 0)
        }
    }
}
