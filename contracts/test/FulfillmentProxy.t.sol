// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";
import {Test} from "forge-std/Test.sol";

import {DevToken} from "../src/DevToken.sol";
import {FulfillmentProxy} from "../src/FulfillmentProxy.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice A recipient that does something while it receives coins.
contract Recipient {
    enum Habit {
        Keeps,
        Refuses,
        PassesOn,
        Reenters
    }

    Habit private immutable _habit;
    bytes public reentranceResult;

    constructor(Habit habit) {
        _habit = habit;
    }

    receive() external payable {
        if (_habit == Habit.Refuses) revert("no");
        if (_habit == Habit.PassesOn) payable(address(0xdead)).transfer(1);
        if (_habit == Habit.Reenters) {
            (, reentranceResult) = msg.sender.call(
                abi.encodeCall(FulfillmentProxy.fulfill, (0, 0, address(0), address(this), 0, type(uint48).max))
            );
        }
    }
}

/// @notice Delivery: exact, in time, once.
contract FulfillmentProxyTest is Test {
    uint48 private constant FULFILL_BY = 1_800_000_300;
    uint256 private constant AMOUNT = 930e6;
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");

    FulfillmentProxy private proxy;
    DevToken private token;
    TrickToken private trick;
    address private settler = makeAddr("settler");
    address private recipient = makeAddr("recipient");
    address private attacker = makeAddr("attacker");

    function setUp() public {
        vm.warp(FULFILL_BY - 300);
        vm.roll(4711);
        proxy = new FulfillmentProxy();
        token = new DevToken("Development USD", "dUSD", 6);
        trick = new TrickToken();
        address[2] memory holders = [settler, attacker];
        for (uint256 i = 0; i < 2; i++) {
            token.mint(holders[i], 10 * AMOUNT);
            trick.mint(holders[i], 10 * AMOUNT);
            vm.deal(holders[i], 10 ether);
            vm.startPrank(holders[i]);
            token.approve(address(proxy), type(uint256).max);
            trick.approve(address(proxy), type(uint256).max);
            vm.stopPrank();
        }
    }

    function test_TokensAreDelivered() public {
        bytes32 key = proxy.fulfillmentKey(ID, QUOTE, settler, address(token), recipient, AMOUNT, FULFILL_BY);
        assertEq(key, keccak256(abi.encode(ID, QUOTE, settler, address(token), recipient, AMOUNT, FULFILL_BY)));
        assertEq(proxy.fulfilledAt(key), 0);
        vm.expectEmit(address(proxy));
        emit FulfillmentProxy.Fulfilled(ID, QUOTE, settler, address(token), recipient, AMOUNT, FULFILL_BY);
        fulfill(address(token), AMOUNT, 0);
        assertEq(token.balanceOf(recipient), AMOUNT);
        assertEq(token.balanceOf(settler), 9 * AMOUNT);
        assertEq(proxy.fulfilledAt(key), 4711);
    }

    function test_CoinsAreDelivered() public {
        vm.expectEmit(address(proxy));
        emit FulfillmentProxy.Fulfilled(ID, QUOTE, settler, address(0), recipient, 1 ether, FULFILL_BY);
        fulfill(address(0), 1 ether, 1 ether);
        assertEq(recipient.balance, 1 ether);
        assertEq(address(proxy).balance, 0);
    }

    function test_CoinsToTheSettlerItself() public {
        recipient = settler;
        fulfill(address(0), 1 ether, 1 ether);
        assertEq(settler.balance, 10 ether);
    }

    function test_TokensThatAnswerFalseNothingOrTooMuch() public {
        for (uint8 a = uint8(TrickToken.Answer.False); a <= uint8(TrickToken.Answer.Bomb); a++) {
            trick.setAnswer(TrickToken.Answer(a));
            fulfill(address(trick), AMOUNT + a, 0);
        }
        assertEq(trick.balanceOf(recipient), 3 * AMOUNT + 6);
    }

    function test_OnceOnly() public {
        fulfill(address(token), AMOUNT, 0);
        bytes32 key = proxy.fulfillmentKey(ID, QUOTE, settler, address(token), recipient, AMOUNT, FULFILL_BY);
        expectRefused(address(token), AMOUNT, 0, abi.encodeWithSelector(FulfillmentProxy.AlreadyFulfilled.selector, key));
    }

    function test_AStrangerBurnsNobodysPayment() public {
        vm.prank(attacker);
        proxy.fulfill(ID, QUOTE, address(token), recipient, 1, FULFILL_BY);
        vm.prank(attacker);
        proxy.fulfill(ID, QUOTE, address(token), recipient, AMOUNT, FULFILL_BY);
        fulfill(address(token), AMOUNT, 0);
        assertEq(token.balanceOf(recipient), 2 * AMOUNT + 1);
    }

    function test_FulfillByIsTheLastSecond() public {
        vm.warp(FULFILL_BY + 1);
        expectRefused(
            address(token), AMOUNT, 0, abi.encodeWithSelector(FulfillmentProxy.FulfillByPassed.selector, FULFILL_BY)
        );
        vm.warp(FULFILL_BY);
        fulfill(address(token), AMOUNT, 0);
    }

    function test_AmountIsNotZero() public {
        expectRefused(address(token), 0, 0, abi.encodeWithSelector(FulfillmentProxy.AmountZero.selector));
        expectRefused(address(0), 0, 0, abi.encodeWithSelector(FulfillmentProxy.AmountZero.selector));
    }

    function test_RecipientIsNeitherZeroNorTheProxy() public {
        recipient = address(0);
        expectRefused(
            address(token), AMOUNT, 0, abi.encodeWithSelector(FulfillmentProxy.RecipientInvalid.selector, address(0))
        );
        recipient = address(proxy);
        expectRefused(
            address(0), 1, 1, abi.encodeWithSelector(FulfillmentProxy.RecipientInvalid.selector, address(proxy))
        );
    }

    function test_CoinsSentMustBeTheAmount() public {
        expectRefused(
            address(0), 2, 1, abi.encodeWithSelector(FulfillmentProxy.ValueMismatch.selector, uint256(2), uint256(1))
        );
        expectRefused(
            address(0), 1, 2, abi.encodeWithSelector(FulfillmentProxy.ValueMismatch.selector, uint256(1), uint256(2))
        );
        expectRefused(
            address(token),
            AMOUNT,
            1,
            abi.encodeWithSelector(FulfillmentProxy.ValueMismatch.selector, uint256(0), uint256(1))
        );
    }

    function test_TokenMustHaveCode() public {
        expectRefused(
            attacker, AMOUNT, 0, abi.encodeWithSelector(FulfillmentProxy.TokenHasNoCode.selector, attacker)
        );
    }

    function test_FeeOnTransferIsRefused() public {
        trick.setFee(1);
        expectRefused(address(trick), AMOUNT, 0, notExact(AMOUNT, AMOUNT - 1));
    }

    function test_ATransferThatMovesNothingIsRefused() public {
        trick.setDenial(recipient, TrickToken.Denial.MovesNothing);
        expectRefused(address(trick), AMOUNT, 0, notExact(AMOUNT, 0));
        trick.setDenial(recipient, TrickToken.Denial.Reverts);
        expectRefused(address(trick), AMOUNT, 0, notExact(AMOUNT, 0));
        expectRefused(address(token), 11 * AMOUNT, 0, notExact(11 * AMOUNT, 0));
    }

    function test_ATransferToOneselfMovesNothing() public {
        recipient = settler;
        expectRefused(address(token), AMOUNT, 0, notExact(AMOUNT, 0));
    }

    function test_ADeliveryThatBringsMoreIsRefused() public {
        trick.setHook(address(trick), abi.encodeCall(TrickToken.mint, (recipient, 1)));
        expectRefused(address(trick), AMOUNT, 0, notExact(AMOUNT, AMOUNT + 1));
    }

    function test_ARecipientThatRefusesOrPassesCoinsOn() public {
        recipient = address(new Recipient(Recipient.Habit.Refuses));
        expectRefused(address(0), 10, 10, notExact(10, 0));
        recipient = address(new Recipient(Recipient.Habit.PassesOn));
        expectRefused(address(0), 10, 10, notExact(10, 9));
        recipient = address(new Recipient(Recipient.Habit.Keeps));
        fulfill(address(0), 10, 10);
    }

    function test_NoReentranceThroughTheRecipient() public {
        Recipient r = new Recipient(Recipient.Habit.Reenters);
        recipient = address(r);
        fulfill(address(0), 10, 10);
        assertEq(bytes4(r.reentranceResult()), FulfillmentProxy.Reentered.selector);
    }

    function test_NoReentranceThroughTheToken() public {
        trick.setHook(
            address(proxy),
            abi.encodeCall(proxy.fulfill, (ID, QUOTE, address(trick), recipient, AMOUNT, FULFILL_BY))
        );
        fulfill(address(trick), AMOUNT, 0);
        assertEq(bytes4(trick.hookResult()), FulfillmentProxy.Reentered.selector);
        assertEq(trick.balanceOf(recipient), AMOUNT);
    }

    function testFuzz_EveryTermIsInTheKey(uint8 term, uint256 other) public view {
        uint256[7] memory t = [
            uint256(ID),
            uint256(QUOTE),
            uint256(uint160(settler)),
            uint256(uint160(address(token))),
            uint256(uint160(recipient)),
            AMOUNT,
            uint256(FULFILL_BY)
        ];
        bytes32 key = keyOf(t);
        uint256 i = term % 7;
        other = i == 6 ? uint48(other) : (i >= 2 && i <= 4 ? uint160(other) : other);
        vm.assume(other != t[i]);
        t[i] = other;
        assertNotEq(keyOf(t), key);
    }

    function test_DevTokenIsPlain() public {
        assertEq(token.decimals(), 6);
        assertEq(token.name(), "Development USD");
        assertEq(token.symbol(), "dUSD");
        vm.prank(attacker);
        token.mint(recipient, 5);
        assertEq(token.balanceOf(recipient), 5);
        assertEq(token.totalSupply(), 20 * AMOUNT + 5);
    }

    function keyOf(uint256[7] memory t) private view returns (bytes32) {
        return proxy.fulfillmentKey(
            bytes32(t[0]),
            bytes32(t[1]),
            address(uint160(t[2])),
            address(uint160(t[3])),
            address(uint160(t[4])),
            t[5],
            uint48(t[6])
        );
    }

    function fulfill(address asset, uint256 amount, uint256 value) private {
        vm.prank(settler);
        proxy.fulfill{value: value}(ID, QUOTE, asset, recipient, amount, FULFILL_BY);
    }

    function expectRefused(address asset, uint256 amount, uint256 value, bytes memory refusal) private {
        vm.expectRevert(refusal);
        fulfill(asset, amount, value);
    }

    function notExact(uint256 expected, uint256 delivered) private pure returns (bytes memory) {
        return abi.encodeWithSelector(FulfillmentProxy.DeliveredNotExact.selector, expected, delivered);
    }
}
