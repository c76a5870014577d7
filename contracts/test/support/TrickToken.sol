// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

/// @notice A token that can be told to misbehave in each way that tokens are known to.
contract TrickToken {
    enum Answer {
        True,
        False,
        Nothing,
        Bomb
    }

    enum Denial {
        None,
        Reverts,
        MovesNothing,
        BurnsGas
    }

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => Denial) public denial;

    Answer public answer;
    /// Taken from what arrives, in the smallest unit.
    uint256 public fee;
    /// Taken from the sender besides the amount.
    uint256 public surcharge;
    /// With less gas than this a transfer fails at once, keeping the rest.
    uint256 public gasNeeded;
    /// Called in the middle of every transfer while set.
    address public hookTarget;
    bytes public hookData;
    bytes public hookResult;
    bool public hookSucceeded;

    function mint(address to, uint256 amount) external {
        balanceOf[to] += amount;
    }

    function setAnswer(Answer a) external {
        answer = a;
    }

    function setFee(uint256 f) external {
        fee = f;
    }

    function setSurcharge(uint256 s) external {
        surcharge = s;
    }

    function setGasNeeded(uint256 g) external {
        gasNeeded = g;
    }

    function setDenial(address receiver, Denial d) external {
        denial[receiver] = d;
    }

    function setHook(address target, bytes calldata data) external {
        hookTarget = target;
        hookData = data;
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        allowance[msg.sender][spender] = amount;
        return true;
    }

    function transfer(address to, uint256 amount) external {
        _move(msg.sender, to, amount);
        _answer();
    }

    function transferFrom(address from, address to, uint256 amount) external {
        require(allowance[from][msg.sender] >= amount, "allowance");
        allowance[from][msg.sender] -= amount;
        _move(from, to, amount);
        _answer();
    }

    function _move(address from, address to, uint256 amount) private {
        require(gasleft() >= gasNeeded, "gas");
        Denial d = denial[to];
        if (d == Denial.Reverts) revert("denied");
        if (d == Denial.MovesNothing) return;
        if (d == Denial.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (hookTarget != address(0)) (hookSucceeded, hookResult) = hookTarget.call(hookData);
        balanceOf[from] -= amount + surcharge;
        balanceOf[to] += amount - fee;
    }

    function _answer() private view {
        Answer a = answer;
        if (a == Answer.Nothing) return;
        assembly {
            if eq(a, 3) { return(0, 250000) }
            mstore(0, iszero(a))
            return(0, 32)
        }
    }
}
