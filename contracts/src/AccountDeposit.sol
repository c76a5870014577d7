// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @title Deploys a payer's account and makes its deposit, in one transaction (ERC-6492)
/// @notice Leaves no contract behind: the transaction creates it, and what it creates is empty. Permit2 asks an account
/// for its signature only where there is code, so the account has to be there before the deposit.
/// @dev Factory and call are the payer's choice. They run with this contract as the sender, which has no rights and no
/// money anywhere, so they can do nothing that a stranger could not do.
contract AccountDeposit {
    /// @notice The factory did not deploy the account.
    error AccountNotDeployed(address account);
    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);

    /// @param account the payer
    /// @param factory what deploys the account
    /// @param factoryCall what it is called with
    /// @param escrow the escrow contract
    /// @param deposit the call that deposits, signed by payer and reserver
    constructor(
        address account,
        address factory,
        bytes memory factoryCall,
        address escrow,
        bytes memory deposit
    ) {
        // Anyone may have deployed it meanwhile. Doing it again would use up all gas: CREATE2 does at an address in use.
        if (account.code.length == 0) {
            // Nothing that the factory returns is copied; what counts is the account.
            assembly ("memory-safe") {
                pop(call(gas(), factory, 0, add(factoryCall, 32), mload(factoryCall), 0, 0))
            }
            if (account.code.length == 0) revert AccountNotDeployed(account);
        }
        if (escrow.code.length == 0) revert EscrowMissing(escrow);
        (bool deposited, bytes memory returned) = escrow.call(deposit);
        assembly ("memory-safe") {
            if iszero(deposited) { revert(add(returned, 32), mload(returned)) }
            return(0, 0)
        }
    }
}
