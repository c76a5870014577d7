// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "./DepositAddress.sol";
import {IPermit2Allowance} from "./IPermit2Allowance.sol";

/// @title What an address of `Mandates` can do
/// @notice What a `DepositAddress` can, and draw on the allowance that the payer gave it.
contract MandateAddress is DepositAddress {
    /// @notice Has Permit2 move `amount` of `token` here, under the allowance that `payer` gave this address.
    /// @param permit2 the escrow's Permit2
    /// @param payer of the mandate
    /// @param token of the mandate
    /// @param amount in the token's smallest unit
    function draw(IPermit2Allowance permit2, address payer, address token, uint160 amount) external onlyFactory {
        permit2.transferFrom(payer, address(this), amount, token);
    }
}
