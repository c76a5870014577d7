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

    mapping(address => uint256) private _balances;
    mapping(address => mapping(address => uint256)) public allowance;
    mapping(address => Denial) public denial;

    Answer public answer;
    /// Taken from what arrives, in the smallest unit.
    uint256 public fee;
    /// Taken from the sender besides the amount.
    uint256 public surcharge;
    /// Taken from the sender besides the amount, in millionths of it.
    uint256 public surchargeRate;
    /// All that was taken so.
    uint256 public charged;
    /// Gas that a look at a balance costs.
    uint256 public lookGas;
    /// With less gas than this a transfer fails at once, keeping the rest.
    uint256 public gasNeeded;
    /// Called in the middle of every transfer while set.
    address public hookTarget;
    bytes public hookData;
    bytes public hookResult;
    bool public hookSucceeded;

    function balanceOf(address owner) public view virtual returns (uint256) {
        uint256 end = gasleft() > lookGas ? gasleft() - lookGas : 0;
        if (lookGas != 0) {
            require(end != 0, "gas");
            while (gasleft() > end) {}
        }
        return _balances[owner];
    }

    function mint(address to, uint256 amount) public virtual {
        _balances[to] += amount;
    }

    /// What a rebase downwards does to one holder.
    function shrink(address owner, uint256 amount) external {
        _balances[owner] -= amount;
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

    function setSurchargeRate(uint256 rate) external {
        surchargeRate = rate;
    }

    function setLookGas(uint256 g) external {
        lookGas = g;
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

    function approve(address spender, uint256 amount) external virtual returns (bool) {
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

    function _move(address from, address to, uint256 amount) internal virtual {
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
        uint256 extra = surcharge + amount * surchargeRate / 1e6;
        charged += extra;
        _balances[from] -= amount + extra;
        _balances[to] += amount - fee;
    }

    function _answer() internal view {
        Answer a = answer;
        if (a == Answer.Nothing) return;
        assembly {
            if eq(a, 3) { return(0, 250000) }
            mstore(0, iszero(a))
            return(0, 32)
        }
    }
}
