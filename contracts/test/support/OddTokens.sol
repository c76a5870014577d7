// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {TrickToken} from "./TrickToken.sol";

/// @notice A token with an `approve` of its own kind.
contract OddApproval is TrickToken {
    enum Kind {
        FromOrToZero,
        AnswersFalse,
        AnswersNothing,
        Bomb,
        Fails
    }

    Kind private immutable _kind;

    constructor(Kind kind) {
        _kind = kind;
    }

    function approve(address spender, uint256 amount) external override returns (bool) {
        Kind kind = _kind;
        require(kind != Kind.Fails, "approve");
        require(kind != Kind.FromOrToZero || amount == 0 || allowance[msg.sender][spender] == 0, "not from zero");
        allowance[msg.sender][spender] = amount;
        assembly {
            if eq(kind, 2) { return(0, 0) }
            if eq(kind, 3) { return(0, 250000) }
        }
        return kind == Kind.FromOrToZero;
    }
}

/// @notice A token that moves but half of what it is asked to.
contract HalfToken is TrickToken {
    function _move(address from, address to, uint256 amount) internal override {
        super._move(from, to, (amount + 1) / 2);
    }
}

/// @notice A token that calls somebody once, before or after a transfer has moved the money.
contract CallsOnce is TrickToken {
    bool public after_;

    function setAfter() external {
        after_ = true;
    }

    function _move(address from, address to, uint256 amount) internal override {
        address target = hookTarget;
        hookTarget = address(0);
        bool late = after_;
        if (late) super._move(from, to, amount);
        if (target != address(0)) (hookSucceeded, hookResult) = target.call(hookData);
        if (!late) super._move(from, to, amount);
    }
}

/// @notice A token with a second address.
contract TwoNames is TrickToken {
    OtherName public immutable other = new OtherName();

    function moveFor(address from, address to, uint256 amount) external {
        require(msg.sender == address(other), "name");
        _move(from, to, amount);
    }
}

/// @notice The second address of a token.
contract OtherName {
    TwoNames private immutable _token = TwoNames(msg.sender);

    function balanceOf(address owner) external view returns (uint256) {
        return _token.balanceOf(owner);
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _token.moveFor(msg.sender, to, amount);
        return true;
    }
}

/// @notice Answers every call with as many zero bytes.
contract Mute {
    uint256 private immutable _size;

    constructor(uint256 size) {
        _size = size;
    }

    fallback() external {
        uint256 size = _size;
        assembly {
            return(0x80, size)
        }
    }
}
