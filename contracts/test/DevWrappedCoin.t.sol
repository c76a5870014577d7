// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";

import {DevWrappedCoin} from "../src/DevWrappedCoin.sol";

/// @notice One token for each unit of the coin, both ways.
contract DevWrappedCoinTest is Test {
    DevWrappedCoin private coin = new DevWrappedCoin("Wrapped Ether", "WETH", 18);
    address private holder = makeAddr("holder");

    function test_WhatIsWrappedIsAToken_AndComesBack(uint128 amount, uint128 back) public {
        back = uint128(bound(back, 0, amount));
        vm.deal(holder, amount);
        vm.startPrank(holder);
        coin.deposit{value: amount}();
        assertEq(coin.balanceOf(holder), amount);
        assertEq(coin.totalSupply(), address(coin).balance);
        coin.withdraw(back);
        assertEq(holder.balance, back);
        assertEq(coin.balanceOf(holder), amount - back);
        assertEq(coin.totalSupply(), address(coin).balance);
    }

    function test_ItHasTheCoinsDecimals() public {
        assertEq(coin.decimals(), 18);
        assertEq(new DevWrappedCoin("Wrapped TRX", "WTRX", 6).decimals(), 6);
    }

    function test_CoinsThatAreSentAreWrapped() public {
        vm.deal(holder, 5);
        vm.prank(holder);
        (bool taken,) = address(coin).call{value: 5}("");
        assertTrue(taken);
        assertEq(coin.balanceOf(holder), 5);
    }

    function test_NobodyTakesMoreThanItHas() public {
        vm.deal(address(coin), 1);
        vm.prank(holder);
        vm.expectRevert();
        coin.withdraw(1);
    }

    function test_WhoRefusesCoinsKeepsItsTokens() public {
        vm.deal(address(this), 5);
        coin.deposit{value: 5}();
        vm.expectRevert();
        coin.withdraw(5);
        assertEq(coin.balanceOf(address(this)), 5);
    }
}
