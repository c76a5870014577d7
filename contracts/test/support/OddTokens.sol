// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {AuthorizingToken} from "./AuthorizingToken.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice A token with an `approve` of its own kind.
contract OddApproval is AuthorizingToken {
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
contract HalfToken is AuthorizingToken {
    function _move(address from, address to, uint256 amount) internal override {
        super._move(from, to, (amount + 1) / 2);
    }
}

/// @notice A token that calls somebody once, before or after a transfer has moved the money: the first, or the one that comes after
/// as many as it is told.
contract CallsOnce is AuthorizingToken {
    bool public after_;
    uint256 public skipped;

    function setAfter() external {
        after_ = true;
    }

    function setSkipped(uint256 transfers) external {
        skipped = transfers;
    }

    function _move(address from, address to, uint256 amount) internal override {
        address target = hookTarget;
        hookTarget = address(0);
        if (skipped != 0) {
            skipped--;
            super._move(from, to, amount);
            hookTarget = target;
            return;
        }
        bool late = after_;
        if (late) super._move(from, to, amount);
        if (target != address(0)) (hookSucceeded, hookResult) = target.call(hookData);
        if (!late) super._move(from, to, amount);
    }
}

/// @notice A token that tells of one holder so much more than it has, or less, once it was asked to move something to it; and moves
/// what it is asked to, or nothing.
contract Liar is AuthorizingToken {
    address private _about;
    int256 private _lie;
    bool private _moves;
    bool private _lies;

    function setLie(address about, int256 lie, bool moves) external {
        (_about, _lie, _moves) = (about, lie, moves);
    }

    function balanceOf(address owner) public view override returns (uint256) {
        uint256 held = super.balanceOf(owner);
        return _lies && owner == _about ? uint256(int256(held) + _lie) : held;
    }

    function _move(address from, address to, uint256 amount) internal override {
        if (to == _about) _lies = true;
        if (to != _about || _moves) super._move(from, to, amount);
    }
}

/// @notice A token that takes any signature of any authorization at any time, and as often as it is brought.
contract TakesAnySignature is TrickToken {
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external {
        _move(from, to, value);
    }
}

/// @notice A token with a second address.
contract TwoNames is AuthorizingToken {
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
