// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2} from "../src/IPermit2.sol";
import {IPermit2Batch} from "../src/IPermit2Batch.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {Authority} from "./support/Authority.sol";
import {svm, vm} from "./support/Proofs.sol";

/// @notice Permit2 where the payer has signed everything: it moves what it is asked for, whatever is permitted, and keeps what that was.
contract MovesBatches {
    bytes32 public asked;
    uint256 public times;

    function permitWitnessTransferFrom(
        IPermit2Batch.PermitBatchTransferFrom calldata permit,
        IPermit2.SignatureTransferDetails[] calldata details,
        address owner,
        bytes32 witness,
        string calldata witnessType,
        bytes calldata
    ) external {
        asked = keccak256(abi.encode(permit, details, owner, witness, witnessType));
        times++;
        for (uint256 i = 0; i < details.length; i++) {
            DevToken(permit.permitted[i].token).transferFrom(owner, details[i].to, details[i].requestedAmount);
        }
    }
}

/// @notice (h) Money leaves a batch's address for its escrow, with the reserver's signature over just a payment under its root, or for
/// the payer after the deadline, whoever calls, whenever, with any amounts lying there, awards and signatures; and it is drawn once, as
/// it was signed. The batch is one, of two payments, known in full, since Halmos computes neither an address nor a known hash of what it
/// does not know. That nothing else is under a root, that other batches are other addresses and other signatures, and larger trees, is in
/// `PaymentBatches*.t.sol` (every bit, and fuzz).
/// @custom:halmos --solver-timeout-branching 2000
contract BatchProofs is Authority {
    bytes32 private constant WITNESS_TYPEHASH = keccak256("PaymentBatch(address escrow,bytes32 payments)");
    uint48 private constant DEADLINE = START + 100;
    uint256 private constant ALL = 3_000;

    PaymentBatches private batches;
    address private at;
    /// Another that somebody sent there.
    DevToken private other;

    function setUp() public override {
        super.setUp();
        vm.etch(permit2, address(new MovesBatches()).code);
        vm.prank(PAYER);
        stable.approve(permit2, type(uint256).max);
        batches = new PaymentBatches();
        other = new DevToken("Other", "dOTH", 6);
        at = batches.addressOf(batch());
    }

    /// Of 1,000 and of 2,000.
    function payment(bool second) private view returns (DepositAddresses.Terms memory) {
        GatewayEscrow.GatewayDeposit memory d = termsOf(second ? OTHER_ID : ID, RESERVER, DEADLINE, START + 1_000);
        d.releaser = RELEASER;
        return DepositAddresses.Terms(address(escrow), address(stable), second ? 2_000 : 1_000, d);
    }

    function leafOf(bool second) private view returns (bytes32) {
        return keccak256(abi.encodePacked(keccak256(abi.encode(payment(second)))));
    }

    function batch() private view returns (PaymentBatches.Batch memory) {
        IPermit2.TokenPermissions[] memory permitted = new IPermit2.TokenPermissions[](1);
        permitted[0] = IPermit2.TokenPermissions(address(stable), ALL);
        (bytes32 a, bytes32 b) = (leafOf(false), leafOf(true));
        bytes32 root = a < b ? keccak256(abi.encodePacked(a, b)) : keccak256(abi.encodePacked(b, a));
        return PaymentBatches.Batch(PAYER, permitted, address(escrow), 7, DEADLINE, root);
    }

    /// The other payment is deposited already, so the batch is drawn.
    function draw() private {
        GatewayEscrow.Reservation memory r =
            GatewayEscrow.Reservation(OTHER_ID, QUOTE, SETTLER, 1_500, DEADLINE);
        vm.warp(START);
        sign(true);
        batches.deposit(batch(), "", payment(true), proofOf(leafOf(false)), r, DEADLINE, "");
        sign(false);
    }

    function proofOf(bytes32 neighbour) private pure returns (bytes32[] memory proof) {
        proof = new bytes32[](1);
        proof[0] = neighbour;
    }

    /// So much lies at the address besides, of another token, and of coins.
    function lay(uint128 strays, uint128 strange, uint128 coins) private {
        vm.assume(strays <= type(uint128).max - ALL);
        stable.mint(at, strays);
        other.mint(at, strange);
        vm.deal(at, coins);
    }

    /// All of a token or of the coins, after the deadline, to the payer alone; nothing else moves with it.
    function check_WhatIsLeftIsThePayersAfterTheDeadline(
        Attempt memory a,
        uint8 what,
        bool drawn,
        uint128 strays,
        uint128 strange,
        uint128 coins
    ) public {
        if (drawn) draw();
        lay(strays, strange, coins);
        vm.assume(what < 3);
        address asset = what == 0 ? address(stable) : what == 1 ? address(other) : address(0);
        uint256 left = drawn ? ALL - 2_000 + uint256(strays) : strays;
        uint256 there = what == 0 ? left : what == 1 ? strange : coins;
        uint256 rich = stable.balanceOf(PAYER);
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = address(batches).call(abi.encodeCall(batches.giveBack, (batch(), asset)));
        assert(done == (there != 0 && a.time > DEADLINE));
        assert(stable.balanceOf(at) == (done && what == 0 ? 0 : left));
        assert(stable.balanceOf(PAYER) == rich + (done && what == 0 ? left : 0));
        assert(other.balanceOf(at) == (done && what == 1 ? 0 : strange));
        assert(other.balanceOf(PAYER) == (done && what == 1 ? strange : 0));
        assert(at.balance == (done && what == 2 ? 0 : coins) && PAYER.balance == (done && what == 2 ? coins : 0));
        assert(stable.balanceOf(address(escrow)) == (drawn ? 2_000 : 0));
    }

    /// Just the payment's amount, with the reserver's signature over it and the award, in time; the batch is drawn as it was signed, with
    /// the first of its deposits and never again. What lies there stays there.
    function check_ADepositTakesTheReserversWordAndDrawsOnce(
        Attempt memory a,
        GatewayEscrow.Reservation memory r,
        bool drawn,
        uint128 strays,
        uint48 admittedUntil
    ) public {
        if (drawn) draw();
        lay(strays, 0, 0);
        bytes memory byReserver = signature("reserver");
        bytes memory call = abi.encodeCall(
            batches.deposit,
            (batch(), signature("payer"), payment(false), proofOf(leafOf(true)), r, admittedUntil, byReserver)
        );
        vm.warp(a.time);
        vm.roll(block.number + 1);
        vm.prank(a.caller);
        (bool done,) = address(batches).call(call);
        if (!done) return;
        GatewayEscrow.GatewayDeposit memory d = payment(false).deposit;
        assert(a.time <= DEADLINE && a.time <= admittedUntil);
        assert(signerOf(admission(d, r, 1_000, admittedUntil), byReserver) == RESERVER);
        assert(r.paymentId == ID && r.sourceAmount != 0 && r.sourceAmount <= 1_000);
        assert(stable.balanceOf(at) == (drawn ? 0 : 2_000) + uint256(strays));
        assert(stable.balanceOf(address(escrow)) == (drawn ? ALL : 1_000));
        assert(stable.balanceOf(PAYER) == WEALTH - ALL && stable.allowance(at, address(escrow)) == 0);
        assert(MovesBatches(permit2).times() == 1 && MovesBatches(permit2).asked() == signedFor());
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), 1_000, 0, address(0), 0, 0), r), 1, block.number);
    }

    function signedFor() private view returns (bytes32) {
        PaymentBatches.Batch memory b = batch();
        IPermit2.SignatureTransferDetails[] memory details = new IPermit2.SignatureTransferDetails[](1);
        details[0] = IPermit2.SignatureTransferDetails(at, ALL);
        return keccak256(
            abi.encode(
                IPermit2Batch.PermitBatchTransferFrom(b.permitted, b.nonce, b.deadline),
                details,
                PAYER,
                keccak256(abi.encode(WITNESS_TYPEHASH, b.escrow, b.payments)),
                "PaymentBatch witness)PaymentBatch(address escrow,bytes32 payments)TokenPermissions(address token,uint256 amount)"
            )
        );
    }

    /// Whatever anyone but the contract says to an address or to the code behind it is refused.
    function check_OnlyTheContractCommandsAnAddressOfABatch(Attempt memory a, bool implementation) public {
        draw();
        vm.assume(a.caller != address(batches));
        bytes memory call = svm.createCalldata("DepositAddress");
        address target = implementation ? batches.implementation() : at;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = target.call(call);
        assert(!done);
        assert(stable.balanceOf(at) == 1_000);
    }
}
