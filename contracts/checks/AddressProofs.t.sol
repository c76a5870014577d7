// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Authority} from "./support/Authority.sol";
import {svm, vm} from "./support/Proofs.sol";

/// @notice (f) What is at a deposit address goes into the escrow with the reserver's word, or to the payer when no deposit can be
/// made, whoever calls, whenever, with any amounts, awards and signatures. The terms are one address's, known in full, since
/// Halmos computes no address of what it does not know; that other terms are other addresses is in `DepositAddressTerms.t.sol`
/// (every bit, and fuzz).
/// @custom:halmos --solver-timeout-branching 2000
contract AddressProofs is Authority {
    uint256 private constant LEAST = 1_000;

    DepositAddresses private factory;
    DepositAddresses.Terms private terms;
    address private at;
    /// Another that the payer sent there.
    DevToken private other;

    /// So much was sent, and so much of another token and of coins.
    function pay(bool made, uint128 sent, uint128 sentOther, uint128 coins) private {
        factory = new DepositAddresses();
        other = new DevToken("Other", "dOTH", 6);
        GatewayEscrow.GatewayDeposit memory d = termsOf(ID, RESERVER, START + 100, START + 1_000);
        d.releaser = RELEASER;
        terms = DepositAddresses.Terms(address(escrow), address(stable), LEAST, d);
        at = factory.addressOf(terms);
        if (made) {
            other.mint(at, 1);
            factory.giveBack(terms, address(other));
        }
        vm.prank(PAYER);
        stable.transfer(at, sent);
        other.mint(at, sentOther);
        vm.deal(at, coins);
    }

    /// The terms' token is given back when the time of deposits is over or the payment has a record, in each of its states, and
    /// all of it to the payer; never else.
    function check_WhatIsGivenBackIsThePayersAndCannotBeDeposited(Attempt memory a, uint8 stage, uint128 sent) public {
        standing(Standing(0, 100, 90, START + 1_000), stageOf(stage));
        pay(false, sent, 0, 0);
        uint256 rich = stable.balanceOf(PAYER);
        bool done = givenBack(a, address(stable));
        assert(done == (sent != 0 && (a.time > terms.deposit.reserveDeadline || stage != uint8(Stage.None))));
        assert(stable.balanceOf(at) == (done ? 0 : sent) && stable.balanceOf(PAYER) == rich + (done ? sent : 0));
        assert(stable.balanceOf(address(escrow)) == 0);
    }

    /// Another token and coins at any time, to the payer alone, and nothing of the terms' token moves with them.
    function check_AnythingElseGoesBackAtAnyTime(Attempt memory a, bool coins, uint128 sent, uint128 wrong) public {
        pay(false, sent, coins ? 0 : wrong, coins ? wrong : 0);
        uint256 rich = stable.balanceOf(PAYER);
        bool done = givenBack(a, coins ? address(0) : address(other));
        assert(done == (wrong != 0));
        assert(coins ? at.balance == 0 && PAYER.balance == wrong : other.balanceOf(at) == 0);
        assert(coins || other.balanceOf(PAYER) == wrong);
        assert(stable.balanceOf(at) == sent && stable.balanceOf(PAYER) == rich);
    }

    function givenBack(Attempt memory a, address asset) private returns (bool done) {
        vm.warp(a.time);
        vm.prank(a.caller);
        (done,) = address(factory).call(abi.encodeCall(factory.giveBack, (terms, asset)));
    }

    /// What is deposited is at least what the terms say and at most what is there, goes into their escrow for their payment
    /// alone, and has the reserver's signature over it and the award.
    function check_ADepositFromAnAddressTakesTheReserversWord(
        Attempt memory a,
        GatewayEscrow.Reservation memory r,
        uint128 sent,
        uint128 amount,
        uint48 admittedUntil
    ) public {
        pay(false, sent, 0, 0);
        bytes memory byReserver = signature("reserver");
        uint256 rich = stable.balanceOf(PAYER);
        vm.warp(a.time);
        vm.roll(block.number + 1);
        vm.prank(a.caller);
        (bool done,) = address(factory).call(
            abi.encodeCall(factory.deposit, (terms, amount, r, admittedUntil, byReserver))
        );
        if (!done) return;
        GatewayEscrow.GatewayDeposit memory d = terms.deposit;
        assert(amount >= LEAST && amount <= sent && a.time <= admittedUntil && a.time <= d.reserveDeadline);
        assert(signerOf(admission(d, r, amount, admittedUntil), byReserver) == RESERVER);
        assert(r.paymentId == ID && r.sourceAmount != 0 && r.sourceAmount <= amount);
        assert(stable.balanceOf(at) == sent - amount && stable.balanceOf(address(escrow)) == amount);
        assert(stable.balanceOf(PAYER) == rich && stable.allowance(at, address(escrow)) == 0);
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), amount, 0, address(0), 0, 0), r), 1, block.number);
    }

    /// Whatever anyone but the factory says to an address or to the code behind it is refused.
    function check_OnlyTheFactoryCommandsAnAddress(Attempt memory a, bool implementation) public {
        pay(true, 1, 0, 0);
        vm.assume(a.caller != address(factory));
        bytes memory call = svm.createCalldata("DepositAddress");
        address target = implementation ? factory.implementation() : at;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = target.call(call);
        assert(!done);
    }
}
