// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {AccountDeposit} from "../src/AccountDeposit.sol";
import {AccountProbe} from "../src/AccountProbe.sol";
import {DevAccount} from "../src/DevAccount.sol";
import {DevAccountFactory} from "../src/DevAccountFactory.sol";
import {DevHostileAccount} from "../src/DevHostileAccount.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";

/// @notice Accounts that are contracts, and those that are not there yet: their deposit (`AccountDeposit`) and the judging of their
/// signatures (`AccountProbe`).
contract DevAccountsTest is EscrowFixture {
    bytes4 private constant ACCEPTED = DevAccount.isValidSignature.selector;
    bytes4 private constant REFUSED = 0xffffffff;

    DevAccountFactory private factory;
    address private account;
    bytes private deployment;

    function setUp() public override {
        super.setUp();
        factory = new DevAccountFactory();
        account = factory.accountOf(payer, token, PERMIT2);
        deployment = abi.encodeCall(factory.deploy, (payer, token, PERMIT2));
        token.mint(account, CAP);
    }

    /// The account's deposit, which its owner signed, and the escrow's call for it.
    function depositOf() private view returns (bytes memory) {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.payer = account;
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(token));
        p.signature = signWitness(payerKey, p, d);
        bytes memory admission = signAdmission(reserverKey, d, r, address(token));
        return abi.encodeCall(escrow.depositWithWitness, (d, p, r, ADMITTED_UNTIL, admission));
    }

    function deposit(bytes memory call) private returns (AccountDeposit) {
        return new AccountDeposit(account, address(factory), deployment, address(escrow), call);
    }

    function test_AnAccountThatIsNotThereIsDeployedAndDeposits() public {
        assertEq(account.code.length, 0);
        AccountDeposit done = deposit(depositOf());
        assertGt(account.code.length, 0);
        assertEq(address(done).code.length, 0, "nothing is left behind");
        assertState(GatewayEscrow.State.Reserved);
        assertEq(token.balanceOf(address(escrow)), QUOTED);
        assertEq(token.balanceOf(account), CAP - QUOTED);
    }

    function test_AnAccountThatIsThereIsNotDeployedAgain() public {
        factory.deploy(payer, token, PERMIT2);
        deposit(depositOf());
        assertState(GatewayEscrow.State.Reserved);
    }

    function test_WithoutTheAccountThereIsNoDeposit() public {
        bytes memory call = depositOf();
        deployment = abi.encodeCall(factory.deploy, (attacker, token, PERMIT2));
        vm.expectRevert(abi.encodeWithSelector(AccountDeposit.AccountNotDeployed.selector, account));
        deposit(call);
    }

    function test_WithoutTheEscrowThereIsNoDeposit() public {
        bytes memory call = depositOf();
        vm.expectRevert(abi.encodeWithSelector(AccountDeposit.EscrowMissing.selector, stranger));
        new AccountDeposit(account, address(factory), deployment, stranger, call);
    }

    function test_WhatTheEscrowRefusesWithIsToldAndTheAccountIsNotThere() public {
        bytes memory call = depositOf();
        vm.warp(uint256(ADMITTED_UNTIL) + 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, ADMITTED_UNTIL));
        deposit(call);
        assertEq(account.code.length, 0);
    }

    function probe(address at, bytes32 digest, bytes memory signature, bytes memory call) private returns (bool) {
        bytes memory answer = address(new AccountProbe(at, digest, signature, address(factory), call)).code;
        assertEq(answer.length, 32);
        return abi.decode(answer, (bool));
    }

    function test_ASignatureIsJudgedWhetherTheAccountIsThereOrNot() public {
        bytes32 digest = keccak256("message");
        bytes memory right = sign(payerKey, digest);
        bytes memory wrong = sign(attackerKey, digest);
        uint256 before = vm.snapshotState();
        assertTrue(probe(account, digest, right, deployment));
        vm.revertToState(before);
        assertFalse(probe(account, digest, wrong, deployment));
        // It is there now, and the factory would revert.
        assertTrue(probe(account, digest, right, deployment));
        assertFalse(probe(account, digest, wrong, deployment));
    }

    function test_AnAccountThatCannotBeDeployedSignedNothing() public {
        bytes32 digest = keccak256("message");
        bytes memory right = sign(payerKey, digest);
        // The call fails; and it goes through, and leads to another account.
        assertFalse(probe(account, digest, right, "no such call"));
        assertFalse(probe(account, digest, right, abi.encodeCall(factory.deploy, (attacker, token, PERMIT2))));
    }

    function test_AnAccountTakesItsOwnersSignatureAlone() public {
        DevAccount a = DevAccount(factory.deploy(payer, token, PERMIT2));
        assertEq(address(a), account);
        assertEq(a.owner(), payer);
        assertEq(token.allowance(account, PERMIT2), type(uint256).max);
        bytes32 digest = keccak256("message");
        assertEq(a.isValidSignature(digest, sign(payerKey, digest)), ACCEPTED);
        assertEq(a.isValidSignature(digest, sign(attackerKey, digest)), REFUSED);
        assertEq(a.isValidSignature(digest, "short"), REFUSED);
    }

    function test_AHostileAccountIsHonestWhenItsMoodIs() public {
        DevHostileAccount a = new DevHostileAccount(payer, token, PERMIT2, 0, 50_000);
        bytes32 digest = keccak256("message");
        uint256 left = gasleft();
        assertEq(a.isValidSignature(digest, sign(payerKey, digest)), ACCEPTED);
        assertGt(left - gasleft(), 50_000, "the work that it is to do");
        assertEq(a.isValidSignature(digest, sign(attackerKey, digest)), REFUSED);
    }

    function burns(DevHostileAccount a) private view returns (bool) {
        bytes32 digest = keccak256("message");
        bytes memory call = abi.encodeCall(a.isValidSignature, (digest, sign(payerKey, digest)));
        (bool answered,) = address(a).staticcall{gas: 1_000_000}(call);
        return !answered;
    }

    function test_AHostileAccountBurnsAllGasOrForAPriceOnly() public {
        assertTrue(burns(new DevHostileAccount(payer, token, PERMIT2, 1, 0)));
        DevHostileAccount a = new DevHostileAccount(payer, token, PERMIT2, 2, 0);
        vm.txGasPrice(0);
        assertFalse(burns(a));
        vm.txGasPrice(1);
        assertTrue(burns(a));
    }
}
