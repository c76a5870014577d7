// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Mandates} from "../src/Mandates.sol";
import {Mandating} from "../test/support/Mandating.sol";
import {Creator} from "./support/Creator.sol";

/// @notice What payments cost that a merchant asks for under a mandate, measured as in `EscrowGas.t.sol`.
contract MandateGasTest is Mandating {
    Creator private creator;

    /// Another payment is open in the token: what a gateway in use sees.
    function setUp() public override {
        super.setUp();
        creator = new Creator();
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = keccak256("open");
        d.termsHash = keccak256("open");
        depositWitnessed(d, r, address(token));
    }

    /// The first, with the payer's signature, the next in the same period, and the first of a later one.
    function test_Gas_Deposit() public {
        send(drawing(0));
        vm.snapshotGasLastCall("mandates", "deposit, which brings the permit");
        send(drawing(1));
        vm.snapshotGasLastCall("mandates", "deposit in the same period");
        vm.warp(startOf(2));
        send(drawing(2));
        vm.snapshotGasLastCall("mandates", "deposit in a later period");
        assertEq(uint8(stateOf(idOf(2))), uint8(GatewayEscrow.State.Reserved));
        assertUsed(mandate(), 2, ASKED);
    }

    function test_Gas_Cancel() public {
        Mandates.Mandate memory m = mandate();
        bytes memory signature = sign(payerKey, cancellationDigest(m));
        send(drawing(0));
        uint256 snapshot = vm.snapshotState();
        vm.prank(payer);
        mandates.cancel(m, "");
        vm.snapshotGasLastCall("mandates", "cancel");
        vm.revertToState(snapshot);
        mandates.cancel(m, signature);
        vm.snapshotGasLastCall("mandates", "cancel by signature");
    }

    function test_Gas_GiveBack() public {
        Mandates.Mandate memory m = mandate();
        for (uint256 i = 0; i < 2; i++) {
            token.mint(addressBy(m), 1);
            mandates.giveBack(m, address(token));
            vm.snapshotGasLastCall("mandates", i == 0 ? "giveBack, which makes the code" : "giveBack");
        }
    }

    function test_Gas_MakingTheContract() public {
        creator.create(type(Mandates).creationCode);
        vm.snapshotGasLastCall("mandates", "deployment of the contract");
    }

    function send(Drawing memory f) private {
        bytes memory admission = admissionOf(f);
        vm.prank(stranger);
        mandates.deposit(f.mandate, f.permit, f.charge, f.award, f.admittedUntil, admission);
    }
}
