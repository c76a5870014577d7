// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {TronDepositAddresses} from "../src/TronDepositAddresses.sol";
import {DepositAddressTermsTest} from "./DepositAddressTerms.t.sol";
import {DepositAddressesTest} from "./DepositAddresses.t.sol";
import {DepositAddressesHostileTest} from "./DepositAddressesHostile.t.sol";
import {DepositAddressing} from "./support/DepositAddressing.sol";
import {CallsOnce, Mute} from "./support/OddTokens.sol";

/// @notice Tron's factory for where CREATE2 is Ethereum's. Nothing but that one byte is another.
contract TronDepositAddressesHere is TronDepositAddresses {
    function _create2Prefix() internal pure override returns (bytes1) {
        return 0xff;
    }
}

/// @notice All that is tried with the addresses of EVM chains, with those of Tron's factory.
contract TronDepositAddressesTest is DepositAddressesTest {
    function newFactory() internal override returns (DepositAddresses) {
        return new TronDepositAddressesHere();
    }

    function implementationOf(DepositAddresses by) internal pure override returns (address) {
        return placeOf(0xff, address(by), 0, type(DepositAddress).creationCode);
    }
}

contract TronDepositAddressTermsTest is DepositAddressTermsTest {
    function newFactory() internal override returns (DepositAddresses) {
        return new TronDepositAddressesHere();
    }

    function implementationOf(DepositAddresses by) internal pure override returns (address) {
        return placeOf(0xff, address(by), 0, type(DepositAddress).creationCode);
    }

    /// What is said of a test's run is not inherited with it.
    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_DustChangesNothing(uint256 dust, uint256 coins, bool made) public override {
        super.testFuzz_DustChangesNothing(dust, coins, made);
    }

    function isOfFactory(bytes4 selector) internal view override returns (bool) {
        TronDepositAddresses ofTron = TronDepositAddresses(address(factory));
        return super.isOfFactory(selector) || selector == ofTron.givenBackIn.selector || selector == ofTron.heldAsOf.selector;
    }
}

contract TronDepositAddressesHostileTest is DepositAddressesHostileTest {
    function newFactory() internal override returns (DepositAddresses) {
        return new TronDepositAddressesHere();
    }

    function implementationOf(DepositAddresses by) internal pure override returns (address) {
        return placeOf(0xff, address(by), 0, type(DepositAddress).creationCode);
    }
}

/// @notice The rule by which Tron makes addresses: the factory computes by it, and is nowhere else.
contract TronAddressRuleTest is DepositAddressing {
    function test_ThereIsNoSuchFactoryWhereAddressesAreMadeByAnotherRule() public {
        address at = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
        bytes memory creation = type(DepositAddress).creationCode;
        vm.expectRevert(
            abi.encodeWithSelector(
                TronDepositAddresses.OtherAddressRule.selector,
                placeOf(0xff, at, 0, creation),
                placeOf(0x41, at, 0, creation)
            )
        );
        new TronDepositAddresses();
        assertEq(at.code.length, 0);
    }

    /// TU5wwPN8CW4UBciwZJggr59ms2AKAJs5F1, worked out with ethers and TronWeb, and with a Keccak-256 written for it.
    function test_TheAddressThatTheTermsHaveOnTron() public {
        address at = 0xf4C70000000000000000000000000000000000f4;
        address implementation = 0x1391E3E0000000000000000000000000000001E1;
        vm.etch(at, withImplementation(vm.getDeployedCode("TronDepositAddresses.sol:TronDepositAddresses"), implementation));
        assertEq(DepositAddresses(at).implementation(), implementation);
        DepositAddresses.Terms memory t = DepositAddresses.Terms({
            escrow: 0xE5e5E5E5e5e5E5E5E5E5e5E5e5e5e5E5e5e5e5e5,
            // TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t, Tether's dollar.
            token: 0xa614f803B6FD780986A42c78Ec9c7f77e6DeD13C,
            amount: 25_000_000,
            deposit: GatewayEscrow.GatewayDeposit({
                paymentId: hex"0101010101010101010101010101010101010101010101010101010101010101",
                termsHash: hex"0202020202020202020202020202020202020202020202020202020202020202",
                quoteHash: 0,
                payer: 0x9191919191919191919191919191919191919191,
                reserver: 0x9292929292929292929292929292929292929292,
                releaser: 0x9393939393939393939393939393939393939393,
                reserveDeadline: 1_800_000_000,
                fulfillmentDeadline: 1_800_000_600,
                refundAfter: 1_800_003_600
            })
        });
        assertEq(DepositAddresses(at).addressOf(t), 0xC6B89a035bc2639D2CE62c8e602C374f5cf04e55);
    }

    /// The code with the word that the constructor would write. Until then these words are zero.
    function withImplementation(bytes memory code, address implementation) private pure returns (bytes memory) {
        for (uint256 i = 0; i + 33 <= code.length; i++) {
            if (code[i] != 0x7f) continue;
            assembly ("memory-safe") {
                let operand := add(add(code, 0x21), i)
                if iszero(mload(operand)) { mstore(operand, implementation) }
            }
        }
        return code;
    }
}

/// @notice What leads from each return of the terms' token to the one before it.
contract TronReturnsTest is DepositAddressing {
    TronDepositAddresses private ofTron;

    function newFactory() internal override returns (DepositAddresses) {
        return ofTron = new TronDepositAddressesHere();
    }

    function implementationOf(DepositAddresses by) internal pure override returns (address) {
        return placeOf(0xff, address(by), 0, type(DepositAddress).creationCode);
    }

    /// The terms' token is given back in that block.
    function giveBackIn(uint256 blockNumber, DepositAddresses.Terms memory t, uint256 amount, uint256 previous) private {
        vm.roll(blockNumber);
        address at = pay(t, amount);
        vm.expectEmit(address(factory));
        emit DepositAddresses.GivenBack(at, payer, t.token, amount);
        vm.expectEmit(address(factory));
        emit TronDepositAddresses.GivenBackAfter(at, previous);
        giveBack(t, t.token);
        assertEq(ofTron.givenBackIn(at), blockNumber);
    }

    function assertHeld(DepositAddresses.Terms memory t, address asset, uint256 expected, uint256 last) private view {
        (uint256 held, uint256 lastGivenBackIn, uint256 blockNumber, uint256 time) = ofTron.heldAsOf(addressBy(t), asset);
        assertEq(held, expected);
        assertEq(lastGivenBackIn, last);
        assertEq(blockNumber, block.number);
        assertEq(time, block.timestamp);
    }

    /// The first of an address leads nowhere; of several in a block each but the first leads to that block.
    function test_EachReturnLeadsToTheOneBefore() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBackIn(100, t, 1, 0);
        giveBackIn(100, t, 2, 100);
        giveBackIn(250, t, 3, 100);
        giveBackIn(251, t, 4, 250);
        DepositAddresses.Terms memory other = addressTerms(address(token));
        other.amount += 1;
        giveBackIn(300, other, 5, 0);
        giveBackIn(301, t, 6, 251);
    }

    function test_ReturnsAfterTheDepositToo() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        depositFrom(t, LARGER);
        assertEq(ofTron.givenBackIn(addressBy(t)), 0);
        giveBackIn(100, t, 1, 0);
        giveBackIn(101, t, 1, 100);
    }

    /// They are no return of the payment's money.
    function test_OtherTokensAndCoinsLeaveNoTrace() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        vm.warp(t.deposit.reserveDeadline + 1);
        giveBackIn(100, t, 1, 0);
        vm.roll(200);
        address at = pay(t, address(trick), 1);
        vm.deal(at, 1 ether);
        vm.recordLogs();
        giveBack(t, address(trick));
        giveBack(t, address(0));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; i++) {
            assertNotEq(logs[i].topics[0], TronDepositAddresses.GivenBackAfter.selector);
        }
        assertEq(ofTron.givenBackIn(at), 100);
        giveBackIn(201, t, 1, 100);
    }

    function test_TheCoinThatTheTermsAreIn() public {
        DepositAddresses.Terms memory t = addressTerms(address(0));
        vm.warp(t.deposit.reserveDeadline + 1);
        vm.deal(addressBy(t), LARGER);
        vm.expectEmit(address(factory));
        emit TronDepositAddresses.GivenBackAfter(addressBy(t), 0);
        giveBack(t, address(0));
        assertEq(ofTron.givenBackIn(addressBy(t)), block.number);
    }

    function test_WhatIsRefusedLeavesNoTrace() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        expectNotGivenBack(t, address(token), notYet(t));
        assertEq(ofTron.givenBackIn(addressBy(t)), 0);
    }

    /// From within the transfer all is given back, and as much is paid again: the inner return is first, and the outer one leads to it.
    function test_AReturnWithinAReturn() public {
        CallsOnce asset = new CallsOnce();
        asset.mint(payer, WEALTH);
        DepositAddresses.Terms memory t = addressTerms(address(asset));
        address at = pay(t, LARGER);
        vm.warp(t.deposit.reserveDeadline + 1);
        asset.setHook(address(this), abi.encodeCall(this.giveBackAndPayAgain, (t)));
        vm.expectEmit(address(factory));
        emit TronDepositAddresses.GivenBackAfter(at, 0);
        vm.expectEmit(address(factory));
        emit TronDepositAddresses.GivenBackAfter(at, block.number);
        giveBack(t, address(asset));
        assertTrue(asset.hookSucceeded());
        assertPaid(address(asset), 0, 0);
        assertEq(ofTron.givenBackIn(at), block.number);
    }

    function giveBackAndPayAgain(DepositAddresses.Terms calldata t) external {
        factory.giveBack(t, t.token);
        pay(t, LARGER);
    }

    /// What is there, as of the block that says it; before and after the address has its code.
    function test_WhatIsHeldAsOfABlock() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        vm.roll(90);
        assertHeld(t, address(token), 0, 0);
        pay(t, LARGER);
        pay(t, address(trick), 7);
        vm.deal(addressBy(t), 3);
        vm.roll(91);
        vm.warp(t.deposit.reserveDeadline + 1);
        assertHeld(t, address(token), LARGER, 0);
        assertHeld(t, address(trick), 7, 0);
        assertHeld(t, address(0), 3, 0);
        giveBack(t, address(token));
        vm.roll(95);
        assertHeld(t, address(token), 0, 91);
        assertHeld(t, address(trick), 7, 91);
        assertHeld(t, stranger, 0, 91);
        (address at, address mute) = (addressBy(t), address(new Mute(0)));
        vm.expectRevert();
        ofTron.heldAsOf(at, mute);
    }
}
