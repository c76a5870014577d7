// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title A development account: a contract that pays with its owner's signature (ERC-1271)
/// @notice For local networks and tests. Never give it value.
contract DevAccount {
    /// @notice Whose signature counts.
    address public immutable owner;

    /// @param owner_ whose signature counts
    /// @param token what it pays with
    /// @param spender who may take it, Permit2
    constructor(address owner_, IERC20 token, address spender) {
        owner = owner_;
        token.approve(spender, type(uint256).max);
    }

    /// @notice ERC-1271.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        (address signer,,) = ECDSA.tryRecover(hash, signature);
        return signer == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }
}
