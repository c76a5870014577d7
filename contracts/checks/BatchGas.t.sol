// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {BatchPaying} from "../test/support/BatchPaying.sol";
import {Creator} from "./support/Creator.sol";

/// @notice What payments cost that are signed for at once, measured as in `EscrowGas.t.sol`. The batches are of 256, so that a proof has
/// eight hashes, but where it says otherwise.
contract BatchGasTest is BatchPaying {
    Creator private creator;

    /// Other payments are open in both tokens: what a gateway in use sees.
    function setUp() public override {
        super.setUp();
        creator = new Creator();
        address[2] memory assets = [address(token), address(euro)];
        for (uint256 i = 0; i < 2; i++) {
            GatewayEscrow.GatewayDeposit memory d = depositTerms();
            GatewayEscrow.Reservation memory r = reservation();
            d.paymentId = r.paymentId = keccak256(abi.encode("open", i));
            d.termsHash = keccak256(abi.encode("open", i));
            depositWitnessed(d, r, assets[i]);
        }
    }

    /// The first, with which all is drawn, the next, and what is left.
    function test_Gas_Deposit() public {
        Signed memory s = batchOf(256);
        send(fromBatch(s, 100));
        vm.snapshotGasLastCall("batches", "deposit, which draws");
        send(fromBatch(s, 101));
        vm.snapshotGasLastCall("batches", "deposit");
        assertEq(uint8(stateOf(idOf(101))), uint8(GatewayEscrow.State.Reserved));
        afterTheDeadline();
        batches.giveBack(s.batch, address(token));
        vm.snapshotGasLastCall("batches", "giveBack");
    }

    function test_Gas_DepositInTwoTokens() public {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 256);
        for (uint256 i = 1; i < 256; i += 2) payments[i].token = address(euro);
        Signed memory s = signed(payments);
        send(fromBatch(s, 100));
        vm.snapshotGasLastCall("batches", "deposit, which draws two tokens");
        send(fromBatch(s, 101));
        vm.snapshotGasLastCall("batches", "deposit of two tokens' batch");
    }

    function test_Gas_DepositOfFew() public {
        send(fromBatch(batchOf(1), 0));
        vm.snapshotGasLastCall("batches", "deposit of one payment, which draws");
        DepositAddresses.Terms[] memory payments = new DepositAddresses.Terms[](2);
        for (uint256 i = 0; i < 2; i++) payments[i] = payment(10 + i, address(token), CAP);
        Signed memory s = signedBy(payments, payer, payerKey, NONCE ^ 1);
        send(fromBatch(s, 0));
        send(fromBatch(s, 1));
        vm.snapshotGasLastCall("batches", "deposit of the last of two");
    }

    function test_Gas_MakingTheContract() public {
        creator.create(type(PaymentBatches).creationCode);
        vm.snapshotGasLastCall("batches", "deployment of the contract");
    }

    function send(FromBatch memory f) private {
        bytes memory admission = admissionOf(f);
        vm.prank(stranger);
        batches.deposit(f.batch, f.signature, f.terms, f.proof, f.award, f.admittedUntil, admission);
    }
}
