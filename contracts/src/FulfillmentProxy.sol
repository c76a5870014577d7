// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {TokenMoves} from "./TokenMoves.sol";

/// @title Delivery on the destination chain, exact and once
/// @notice A settler delivers through this contract so that anyone can prove from one event who delivered what
/// to whom, for which payment and under which quote. The contract keeps no money and has no owner.
///
/// What an attacker might try, and what stops it:
/// - burn somebody's payment id with one wei: the once-only key is the hash of all terms including the settler
///   (`msg.sender`), so a stranger's delivery has a key of its own;
/// - deliver less with a token that takes a fee, or with one that only claims to have moved: the recipient's
///   balance must rise by exactly `amount`;
/// - spend an allowance that another settler gave this contract: tokens are taken from `msg.sender` only;
/// - count one transfer twice by re-entering: the guard, and the key is set before anything is called;
/// - deliver late and claim the promise was kept: refused after `fulfillBy`.
contract FulfillmentProxy {
    using TokenMoves for address;

    /// @notice A delivery of exactly `amount` (smallest unit) of `token` (zero: the chain's own coin) to
    /// `recipient` by `settler`, for the payment and the quote named, not later than `fulfillBy` (UNIX seconds).
    event Fulfilled(
        bytes32 indexed paymentId,
        bytes32 indexed quoteHash,
        address indexed settler,
        address token,
        address recipient,
        uint256 amount,
        uint48 fulfillBy
    );

    /// @notice The promised time is over; `fulfillBy` in UNIX seconds.
    error FulfillByPassed(uint48 fulfillBy);
    /// @notice A delivery during another.
    error Reentered();
    /// @notice The same delivery was made before.
    error AlreadyFulfilled(bytes32 key);
    /// @notice A delivery of nothing.
    error AmountZero();
    /// @notice The recipient is the zero address or this contract, where the money would be lost.
    error RecipientInvalid(address recipient);
    /// @notice `token` is no contract, so a transfer of it would succeed without moving anything.
    error TokenHasNoCode(address token);
    /// @notice The coins sent along are not `expected` (the amount for a delivery in coins, else 0).
    error ValueMismatch(uint256 expected, uint256 sent);
    /// @notice The recipient's balance did not rise by exactly `expected`.
    error DeliveredNotExact(uint256 expected, uint256 delivered);

    uint256 private constant IDLE = 1;
    uint256 private constant BUSY = 2;

    /// @dev `BUSY` while a delivery is under way; never zero, which would be dearer to leave.
    uint256 private _lock = IDLE;
    mapping(bytes32 key => uint256 blockNumber) private _fulfilledAt;

    /// @dev One lock for all deliveries: what each measures is a balance, which no other may change.
    modifier nonReentrant() {
        if (_lock != IDLE) revert Reentered();
        _lock = BUSY;
        _;
        _lock = IDLE;
    }

    /// @notice Delivers exactly `amount` of `token` to `recipient` and records it, once.
    /// @dev Tokens need an allowance of the caller for this contract. A recipient contract that passes coins on
    /// while it receives them ends with another balance and is refused: exactness is judged by the balance.
    /// @param paymentId keccak256 of the payment's id
    /// @param quoteHash hash of the quote under which the settler delivers
    /// @param token the ERC-20, or the zero address for the chain's own coin (then `msg.value == amount`)
    /// @param recipient who is paid
    /// @param amount in the smallest unit, more than zero
    /// @param fulfillBy last second (UNIX) in which the delivery counts
    function fulfill(
        bytes32 paymentId,
        bytes32 quoteHash,
        address token,
        address recipient,
        uint256 amount,
        uint48 fulfillBy
    ) external payable nonReentrant {
        if (block.timestamp > fulfillBy) revert FulfillByPassed(fulfillBy);
        if (amount == 0) revert AmountZero();
        if (recipient == address(0) || recipient == address(this)) revert RecipientInvalid(recipient);

        bytes32 key = fulfillmentKey(paymentId, quoteHash, msg.sender, token, recipient, amount, fulfillBy);
        if (_fulfilledAt[key] != 0) revert AlreadyFulfilled(key);
        _fulfilledAt[key] = block.number;
        emit Fulfilled(paymentId, quoteHash, msg.sender, token, recipient, amount, fulfillBy);

        if (token == address(0)) {
            _deliverCoins(recipient, amount);
        } else {
            _deliverTokens(token, recipient, amount);
        }
    }

    /// @notice The once-only key of a delivery: `keccak256(abi.encode(…))` of all its terms in this order.
    function fulfillmentKey(
        bytes32 paymentId,
        bytes32 quoteHash,
        address settler,
        address token,
        address recipient,
        uint256 amount,
        uint48 fulfillBy
    ) public pure returns (bytes32) {
        return keccak256(abi.encode(paymentId, quoteHash, settler, token, recipient, amount, fulfillBy));
    }

    /// @notice The block in which the delivery with this key was made; 0 when it was not made.
    function fulfilledAt(bytes32 key) external view returns (uint256 blockNumber) {
        return _fulfilledAt[key];
    }

    /// @notice As `fulfilledAt`, with the block that the answer is of: its number and its time in UNIX seconds. Where a
    /// node does not say which block it answers a call by (Tron), this is how a reader knows how old the answer is.
    function fulfilledAsOf(bytes32 key)
        external
        view
        returns (uint256 fulfilledIn, uint256 blockNumber, uint256 time)
    {
        return (_fulfilledAt[key], block.number, block.timestamp);
    }

    function _deliverCoins(address recipient, uint256 amount) private {
        if (msg.value != amount) revert ValueMismatch(amount, msg.value);
        uint256 before = recipient.balance;
        assembly ("memory-safe") {
            pop(call(gas(), recipient, amount, 0, 0, 0, 0))
        }
        _requireExact(before, recipient.balance, amount);
    }

    function _deliverTokens(address token, address recipient, uint256 amount) private {
        if (msg.value != 0) revert ValueMismatch(0, msg.value);
        if (token.code.length == 0) revert TokenHasNoCode(token);
        uint256 before = token.balanceOf(recipient);
        token.tryTransferFrom(msg.sender, recipient, amount);
        _requireExact(before, token.balanceOf(recipient), amount);
    }

    function _requireExact(uint256 before, uint256 afterwards, uint256 amount) private pure {
        uint256 delivered = afterwards > before ? afterwards - before : 0;
        if (delivered != amount) revert DeliveredNotExact(amount, delivered);
    }
}
