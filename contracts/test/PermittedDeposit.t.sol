// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PermittedDeposit} from "../src/PermittedDeposit.sol";
import {Authorizations} from "./support/Authorizations.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice A token whose `permit` is given as little trust as it deserves: it calls somebody, fails with many bytes, or burns all gas.
contract TrickPermit is TrickToken {
    address public target;
    bytes public data;
    bool public burns;
    uint256 public bomb;
    bool public called;
    bool public succeeded;

    function setCall(address target_, bytes calldata data_) external {
        (target, data) = (target_, data_);
    }

    function setBurns() external {
        burns = true;
    }

    function setBomb(uint256 size) external {
        bomb = size;
    }

    function permit(address owner, address spender, uint256 value, uint256, uint8, bytes32, bytes32) external {
        if (burns) {
            assembly {
                invalid()
            }
        }
        uint256 size = bomb;
        if (size != 0) {
            assembly {
                revert(0x80, size)
            }
        }
        allowance[owner][spender] = value;
        called = true;
        if (target != address(0)) (succeeded,) = target.call(data);
    }
}

/// @notice The payer's allowance for Permit2 by its signature (ERC-2612) and its deposit, in one transaction.
contract PermittedDepositTest is Authorizations {
    uint256 private constant ALL = type(uint256).max;

    function test_AllowanceAndDepositInOne() public {
        assertEq(stable.allowance(payer, PERMIT2), 0);
        PermittedDeposit done = deposit(permitted(), depositOf(address(stable)));
        assertEq(address(done).code.length, 0, "nothing is left behind");
        assertState(GatewayEscrow.State.Reserved);
        assertPaid(address(stable), 0, QUOTED);
        assertEq(stable.allowance(payer, PERMIT2), ALL);
        assertEq(stable.nonces(payer), 1);
    }

    /// Each way in, and also the next payment, whose permit is not needed any more.
    function test_ForEachWayByPermit2AndAgain() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        uint256 snapshot = vm.snapshotState();
        for (uint256 way = 0; way < 2; way++) {
            for (uint256 i = 1; i <= 2; i++) {
                d.paymentId = r.paymentId = keccak256(abi.encode("payment", i));
                bytes memory admission = admissionOf(d, r, address(stable), LARGER);
                deposit(permitted(), largerCall(way == 0, d, r, address(stable), LARGER, admission));
                assertPaid(address(stable), 0, i * LARGER);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_APermitThatSomebodyBroughtBefore() public {
        PermittedDeposit.TokenPermit memory p = permitted();
        vm.prank(attacker);
        stable.permit(p.owner, p.spender, p.value, p.deadline, p.v, p.r, p.s);
        deposit(p, depositOf(address(stable)));
        assertState(GatewayEscrow.State.Reserved);
        assertPaid(address(stable), 0, QUOTED);
    }

    function test_APermitThatIsNotTakenWhereTheAllowanceIsThere() public {
        vm.prank(payer);
        stable.approve(PERMIT2, QUOTED);
        PermittedDeposit.TokenPermit memory p = permitted();
        p.s = bytes32(uint256(p.s) ^ 1);
        deposit(p, depositOf(address(stable)));
        assertPaid(address(stable), 0, QUOTED);
        assertEq(stable.allowance(payer, PERMIT2), 0);
    }

    /// And a permit of a token that knows none, or that is none.
    function test_ATokenWithoutPermits() public {
        PermittedDeposit.TokenPermit memory p = permitted();
        p.token = address(token);
        uint256 snapshot = vm.snapshotState();
        deposit(p, depositOf(address(token)));
        assertPaid(address(token), 0, QUOTED);
        vm.revertToState(snapshot);
        p.token = stranger;
        deposit(p, depositOf(address(token)));
        assertPaid(address(token), 0, QUOTED);
    }

    /// Permit2's reason is told, and nothing is left: neither an allowance nor a used nonce.
    function test_WithoutAnAllowanceNothingHappens() public {
        bytes memory call = depositOf(address(stable));
        bytes memory why = abi.encodeWithSignature("Error(string)", "TRANSFER_FROM_FAILED");
        PermittedDeposit.TokenPermit[6] memory wrong;
        for (uint256 i = 0; i < wrong.length; i++) {
            wrong[i] = permitted();
        }
        wrong[0].v ^= 7;
        wrong[1].value -= 1;
        wrong[2].deadline += 1;
        wrong[3].owner = stranger;
        wrong[4].spender = address(escrow);
        wrong[5].deadline = START - 1;
        signPermit(wrong[5], payerKey);
        for (uint256 i = 0; i < wrong.length; i++) {
            vm.expectRevert(why);
            deposit(wrong[i], call);
        }
        assertNothingIsLeft();
        // An allowance that is too small is no more.
        PermittedDeposit.TokenPermit memory little = permitted();
        little.value = QUOTED - 1;
        signPermit(little, payerKey);
        vm.expectRevert(why);
        deposit(little, call);
        assertNothingIsLeft();
        deposit(permitted(), call);
        assertPaid(address(stable), 0, QUOTED);
    }

    function test_WhatTheEscrowRefusesWithIsToldAndTheAllowanceIsNotThere() public {
        bytes memory call = depositOf(address(stable));
        PermittedDeposit.TokenPermit memory p = permitted();
        vm.warp(uint256(ADMITTED_UNTIL) + 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, ADMITTED_UNTIL));
        deposit(p, call);
        assertNothingIsLeft();
    }

    function test_WithoutTheEscrowThereIsNothing() public {
        bytes memory call = depositOf(address(stable));
        PermittedDeposit.TokenPermit memory p = permitted();
        vm.expectRevert(abi.encodeWithSelector(PermittedDeposit.EscrowMissing.selector, stranger));
        new PermittedDeposit(p, stranger, call);
        assertNothingIsLeft();
    }

    // Tokens

    /// Whom the permit calls finds nothing open: what a stranger can do it can do, and no more.
    function test_APermitThatCallsSomebody() public {
        TrickPermit tricky = trickyToken();
        bytes memory call = depositOf(address(tricky));
        uint256 snapshot = vm.snapshotState();
        tricky.setCall(address(escrow), abi.encodeCall(escrow.claim, (address(tricky), attacker)));
        deposit(permitOf(tricky), call);
        assertTrue(tricky.called() && !tricky.succeeded());
        assertPaid(address(tricky), 0, QUOTED);
        vm.revertToState(snapshot);
        // It makes the very deposit: then the second is refused, and with it all is undone.
        tricky.setCall(address(escrow), call);
        PermittedDeposit.TokenPermit memory p = permitOf(tricky);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, keccak256("pay_1")));
        deposit(p, call);
        assertState(GatewayEscrow.State.None);
        assertPaid(address(tricky), 0, 0);
    }

    /// What a permit fails with is not copied.
    function test_APermitThatFailsWithABomb() public {
        TrickPermit tricky = trickyToken();
        vm.prank(payer);
        tricky.approve(PERMIT2, ALL);
        bytes memory call = depositOf(address(tricky));
        PermittedDeposit.TokenPermit memory p = permitOf(tricky);
        uint256 snapshot = vm.snapshotState();
        uint256[2] memory used;
        for (uint256 i = 0; i < 2; i++) {
            if (i == 1) tricky.setBomb(250_000);
            uint256 left = gasleft();
            deposit(p, call);
            used[i] = left - gasleft();
            assertPaid(address(tricky), 0, QUOTED);
            vm.revertToState(snapshot);
        }
        // To have 250,000 bytes costs 142,642, once.
        assertLt(used[1], used[0] + 160_000);
    }

    /// All the gas that the transaction was given, and that is all.
    function test_APermitThatBurnsAllGas() public {
        TrickPermit tricky = trickyToken();
        vm.prank(payer);
        tricky.approve(PERMIT2, ALL);
        tricky.setBurns();
        bytes memory call = depositOf(address(tricky));
        PermittedDeposit.TokenPermit memory p = permitOf(tricky);
        uint256 snapshot = vm.snapshotState();
        vm.expectRevert();
        this.depositWithGas{gas: 1_500_000}(p, call);
        assertState(GatewayEscrow.State.None);
        assertPaid(address(tricky), 0, 0);
        // With very much gas the 64th part is enough.
        vm.revertToState(snapshot);
        this.depositWithGas{gas: 60_000_000}(p, call);
        assertPaid(address(tricky), 0, QUOTED);
    }

    // Helpers

    function deposit(PermittedDeposit.TokenPermit memory p, bytes memory call) private returns (PermittedDeposit) {
        return new PermittedDeposit(p, address(escrow), call);
    }

    function depositWithGas(PermittedDeposit.TokenPermit memory p, bytes memory call) external {
        deposit(p, call);
    }

    /// The deposit through Permit2 with both signatures right.
    function depositOf(address asset) private view returns (bytes memory) {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, asset);
        p.signature = signWitness(payerKey, p, d);
        bytes memory admission = signAdmission(reserverKey, d, reservation(), asset);
        return abi.encodeCall(escrow.depositWithWitness, (d, p, reservation(), ADMITTED_UNTIL, admission));
    }

    /// The payer's first permit for Permit2.
    function permitted() private view returns (PermittedDeposit.TokenPermit memory p) {
        p = PermittedDeposit.TokenPermit(address(stable), payer, PERMIT2, ALL, START + 60, 0, 0, 0);
        signPermit(p, payerKey);
    }

    function signPermit(PermittedDeposit.TokenPermit memory p, uint256 key) private view {
        bytes32 structHash =
            keccak256(abi.encode(TOKEN_PERMIT_TYPEHASH, p.owner, p.spender, p.value, uint256(0), p.deadline));
        (p.v, p.r, p.s) = vm.sign(key, tokenDigest(p.token, structHash));
    }

    function trickyToken() private returns (TrickPermit tricky) {
        tricky = new TrickPermit();
        tricky.mint(payer, WEALTH);
    }

    function permitOf(TrickPermit tricky) private view returns (PermittedDeposit.TokenPermit memory) {
        return PermittedDeposit.TokenPermit(address(tricky), payer, PERMIT2, ALL, START + 60, 27, 0, 0);
    }

    function assertNothingIsLeft() private view {
        assertState(GatewayEscrow.State.None);
        assertEq(stable.allowance(payer, PERMIT2), 0);
        assertEq(stable.nonces(payer), 0);
        assertPaid(address(stable), 0, 0);
    }
}
