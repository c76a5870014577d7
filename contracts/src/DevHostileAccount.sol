// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title A development account that costs whoever pays for its deposit
/// @notice For tests of what a gateway pays for strangers' code (ERC-1271). Never give it value.
contract DevHostileAccount {
    /// @notice Takes its owner's signature, as an honest account does.
    uint256 public constant HONEST = 0;
    /// @notice Uses up all gas there is.
    uint256 public constant BURNS = 1;
    /// @notice Is honest while gas costs nothing, as in a trial that names no price, and burns otherwise.
    uint256 public constant BURNS_FOR_A_PRICE = 2;

    /// @notice What it does now. In the first slot, so that a test can turn it between a trial and a block.
    uint256 public mood;
    /// @notice Whose signature counts.
    address public immutable owner;
    /// @notice Gas that it takes at least, whatever it does.
    uint256 public immutable work;

    /// @param owner_ whose signature counts
    /// @param token what it pays with
    /// @param spender who may take it, Permit2
    /// @param mood_ what it does
    /// @param work_ gas that it takes at least
    constructor(address owner_, IERC20 token, address spender, uint256 mood_, uint256 work_) {
        owner = owner_;
        mood = mood_;
        work = work_;
        token.approve(spender, type(uint256).max);
    }

    /// @notice ERC-1271.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        uint256 now_ = mood;
        if (now_ == BURNS || (now_ == BURNS_FOR_A_PRICE && tx.gasprice > 0)) _spend(gasleft());
        _spend(work);
        (address signer,,) = ECDSA.tryRecover(hash, signature);
        return signer == owner ? this.isValidSignature.selector : bytes4(0xffffffff);
    }

    function _spend(uint256 amount) private view {
        uint256 left = gasleft();
        uint256 until = left > amount ? left - amount : 0;
        while (gasleft() > until) {}
    }
}
