// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "./DepositAddresses.sol";
import {GatewayEscrow} from "./GatewayEscrow.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title What an address of `DepositAddresses` can do
/// @notice Code behind the addresses, each of which is a minimal proxy (ERC-1167) to it. It does what its factory says and what
/// only the factory can say, which has looked at the terms that the address was made from. It keeps nothing in storage, and takes
/// no coins: what is sent before the proxy is there comes in and goes back by the factory's `giveBack`; after that a coin is
/// refused.
contract DepositAddress {
    using TokenMoves for address;

    /// @notice Only the factory calls this.
    error CallerNotFactory(address caller);

    address private immutable _factory;

    modifier onlyFactory() {
        if (msg.sender != _factory) revert CallerNotFactory(msg.sender);
        _;
    }

    /// @dev The caller is the factory.
    constructor() {
        _factory = msg.sender;
    }

    /// @notice Brings `amount` of what is here into the escrow, for the payment that this address is for. No balance is read:
    /// what a stranger adds changes nothing.
    /// @dev `GatewayEscrow` takes all that it is allowed, or everything is undone.
    /// @param t the terms of this address
    /// @param amount of the terms' token, in its smallest unit
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature the reserver's admission
    function deposit(
        DepositAddresses.Terms calldata t,
        uint256 amount,
        GatewayEscrow.Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external onlyFactory {
        t.token.tryApprove(t.escrow, amount);
        GatewayEscrow(t.escrow).depositFor(t.deposit, t.token, amount, r, admittedUntil, reserverSignature);
    }

    /// @notice Asks `token` to move `amount` from here to `to`, or sends coins. Success shows in the balance only.
    /// @param token the token, or the zero address for the chain's own coin
    /// @param to the payer of this address's terms, or the merchant of its offer
    /// @param amount in the smallest unit
    function pay(address token, address to, uint256 amount) external onlyFactory {
        if (token == address(0)) {
            assembly ("memory-safe") {
                pop(call(gas(), to, amount, 0, 0, 0, 0))
            }
        } else {
            token.tryTransfer(to, amount, gasleft());
        }
    }
}
