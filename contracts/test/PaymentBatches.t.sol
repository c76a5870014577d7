// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {AccountOfOneWord} from "./support/AccountOfOneWord.sol";
import {BatchPaying} from "./support/BatchPaying.sol";
import {ContractSigner} from "./support/ContractSigner.sol";

/// @notice What becomes of payments that were signed for at once: drawn with the first deposit and found there by the others, of one
/// to 256 payments, in one token and several, by keys and by contracts; who gets what at each end, and what is given back.
contract PaymentBatchesTest is BatchPaying {
    bytes32 private constant QUOTE = keccak256("quote");

    // The address and the leaves

    function test_TheAddressIsWhatAnyoneComputes() public {
        Signed memory s = batchOf(3);
        address at = addressBy(s.batch);
        assertEq(keccak256(abi.encode(s.batch)), keccak256(encoded(s.batch)));
        assertEq(batches.addressOf(s.batch), at);
        assertEq(at.code.length, 0);
        makeDeposit(s, 0);
        assertEq(batches.addressOf(s.batch), at, "it stays");
        assertEq(at.code, proxyCode(batches));
        PaymentBatches another = new PaymentBatches();
        assertEq(another.addressOf(s.batch), addressBy(another, s.batch));
        assertNotEq(another.addressOf(s.batch), at);
    }

    function testFuzz_TheAddressOfAnyBatch(PaymentBatches.Batch memory b) public view {
        vm.assume(b.payer != address(0) && b.permitted.length != 0);
        assertEq(batches.addressOf(b), addressBy(b));
    }

    function testFuzz_TheLeafOfAnyPayment(DepositAddresses.Terms memory t) public view {
        assertEq(batches.leafOf(t), leafOf(t));
    }

    /// A tree that is worked out by hand: two pairs, and one that has no neighbour.
    function test_TheTreeOfFive() public view {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 5);
        bytes32[] memory leaves = leavesOf(payments);
        bytes32 left = parentOf(parentOf(leaves[0], leaves[1]), parentOf(leaves[2], leaves[3]));
        assertEq(signed(payments).batch.payments, parentOf(left, leaves[4]));
        assertEq(proofOf(leaves, 4).length, 1);
        assertEq(proofOf(leaves, 0).length, 3);
    }

    // What the payer signs

    /// The text that a wallet shows is the whole type; the contract's part of it is all behind Permit2's.
    function test_TheTypeOfWhatIsSigned() public view {
        bytes memory whole = bytes.concat(
            "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,",
            bytes(batches.WITNESS_TYPE())
        );
        assertEq(keccak256(whole), PERMIT_BATCH_TYPEHASH);
    }

    // Into the escrow

    function test_TheFirstDepositDrawsAllAndTheNextFindsTheMoney() public {
        Signed memory s = batchOf(3);
        address at = addressBy(s.batch);
        FromBatch memory first = fromBatch(s, 1);
        vm.expectEmit(address(batches));
        emit PaymentBatches.Drawn(at, payer, s.batch.payments);
        expectEscrowed(first);
        makeDeposit(first);
        assertHeld(s, 2 * CAP + 2, CAP + 1);
        assertTrue(isUsed(payer, NONCE));
        isReserved(first);

        FromBatch memory next = fromBatch(s, 0);
        next.signature = "";
        expectEscrowed(next);
        vm.recordLogs();
        makeDeposit(next);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; i++) {
            assertNotEq(logs[i].emitter, address(batches), "nothing is drawn again");
        }
        assertHeld(s, CAP + 2, 2 * CAP + 1);
        isReserved(next);

        makeDeposit(s, 2);
        assertHeld(s, 0, 3 * CAP + 3);
        assertEq(token.allowance(at, address(escrow)) + token.allowance(payer, address(batches)), 0);
        assertEq(escrow.owedIn(address(token)), 3 * CAP + 3);
        expectNotGivenBack(s.batch, address(token), notYet());
        afterTheDeadline();
        expectNotGivenBack(s.batch, address(token), nothingThere(address(token)));
    }

    function expectEscrowed(FromBatch memory f) private {
        bytes32 id = f.terms.deposit.paymentId;
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(id, QUOTE, payer, f.terms.deposit, f.terms.token, f.terms.amount);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(id, QUOTE, settler, QUOTED, f.award.fulfillBy);
    }

    /// The payer has given all that is permitted in the one token, of which so much is at the batch's address and so much in the escrow.
    function assertHeld(Signed memory s, uint256 left, uint256 inEscrow) private view {
        assertEq(token.balanceOf(addressBy(s.batch)), left, "at the address");
        assertEq(token.balanceOf(address(escrow)), inEscrow, "in the escrow");
        assertEq(token.balanceOf(payer), WEALTH - left - inEscrow, "the payer's");
        assertEq(token.balanceOf(address(batches)), 0);
    }

    function isReserved(FromBatch memory f) private view {
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(f.terms.deposit, f.terms.token, f.terms.amount), f.award))
        });
        assertEq(abi.encode(escrow.recordOf(f.terms.deposit.paymentId)), abi.encode(expected));
    }

    function test_ByWhomever() public {
        Signed memory s = batchOf(2);
        address[5] memory callers = [payer, settler, attacker, reserver, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            uint256 snapshot = vm.snapshotState();
            for (uint256 k = 0; k < 2; k++) {
                FromBatch memory f = fromBatch(s, k);
                bytes memory call = callOf(f);
                vm.prank(callers[i]);
                (bool made,) = address(batches).call(call);
                assertTrue(made);
                isReserved(f);
            }
            assertHeld(s, 0, 2 * CAP + 1);
            vm.revertToState(snapshot);
        }
    }

    /// Where the price is all that was permitted for it, the smaller admission is the one.
    function test_AtThePrice() public {
        FromBatch memory f = fromBatch(batchOf(2), 0);
        f.award.sourceAmount = CAP;
        expectDepositRefused(
            f,
            callOf(f, signLargerAdmission(reserverKey, f.terms.deposit, f.award, address(token), CAP, ADMITTED_UNTIL)),
            notAdmitted()
        );
        makeDeposit(f);
        f = fromBatch(batchOf(2), 1);
        f.award.sourceAmount = CAP + 2;
        expectDepositRefused(f, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 2, CAP + 1));
    }

    /// The root is the leaf, and the proof is empty.
    function test_OfOnePayment() public {
        Signed memory s = batchOf(1);
        FromBatch memory f = fromBatch(s, 0);
        assertEq(f.proof.length, 0);
        assertEq(s.batch.payments, leafOf(s.payments[0]));
        makeDeposit(f);
        assertHeld(s, 0, CAP);
        isReserved(f);
    }

    /// Every one of them is deposited, in an order that has nothing to do with the tree's.
    function test_Of256Payments() public {
        Signed memory s = batchOf(256);
        bytes32[] memory leaves = leavesOf(s.payments);
        assertEq(s.batch.permitted[0].amount, 256 * CAP + 255 * 128);
        uint256 left = s.batch.permitted[0].amount;
        for (uint256 k = 0; k < 256; k++) {
            uint256 i = (k * 101 + 7) % 256;
            FromBatch memory f = fromOne(s, leaves, i);
            assertEq(f.proof.length, 8);
            makeDeposit(f);
            isReserved(f);
            left -= CAP + i;
            assertEq(token.balanceOf(addressBy(s.batch)), left);
        }
        assertHeld(s, 0, 256 * CAP + 255 * 128);
    }

    /// As `fromBatch`, which hashes all leaves anew.
    function fromOne(Signed memory s, bytes32[] memory leaves, uint256 i) private view returns (FromBatch memory f) {
        f.batch = s.batch;
        f.signature = s.signature;
        f.terms = s.payments[i];
        f.proof = proofOf(leaves, i);
        f.award = reservation();
        f.award.paymentId = f.terms.deposit.paymentId;
        f.admittedUntil = ADMITTED_UNTIL;
    }

    /// Of any number, and any of them the first.
    function testFuzz_OfAnyNumber(uint256 count, uint256 first) public {
        Signed memory s = batchOf(bound(count, 1, 12));
        count = s.payments.length;
        uint256 left = s.batch.permitted[0].amount;
        for (uint256 k = 0; k < count; k++) {
            uint256 i = (first % count + k) % count;
            FromBatch memory f = fromBatch(s, i);
            makeDeposit(f);
            isReserved(f);
            left -= CAP + i;
            assertHeld(s, left, s.batch.permitted[0].amount - left);
        }
    }

    /// Both are drawn with the first deposit, in whichever it is.
    function test_InTwoTokens() public {
        DepositAddresses.Terms[] memory payments = inTwoTokens();
        Signed memory s = signed(payments);
        address at = addressBy(s.batch);
        assertEq(s.batch.permitted.length, 2);
        for (uint256 first = 0; first < 3; first++) {
            uint256 snapshot = vm.snapshotState();
            makeDeposit(s, first);
            assertEq(token.balanceOf(payer), WEALTH - 2 * CAP);
            assertEq(euro.balanceOf(payer), WEALTH - CAP - 5);
            for (uint256 k = 1; k < 3; k++) makeDeposit(s, (first + k) % 3);
            assertEq(token.balanceOf(address(escrow)), 2 * CAP);
            assertEq(euro.balanceOf(address(escrow)), CAP + 5);
            assertEq(token.balanceOf(at) + euro.balanceOf(at), 0);
            vm.revertToState(snapshot);
        }
        // And what is left of each is given back by itself.
        makeDeposit(s, 1);
        afterTheDeadline();
        expectNotGivenBack(s.batch, address(euro), nothingThere(address(euro)));
        assertEq(giveBack(s.batch, address(token)), 2 * CAP);
        assertEq(token.balanceOf(payer), WEALTH);
    }

    function inTwoTokens() private view returns (DepositAddresses.Terms[] memory payments) {
        payments = new DepositAddresses.Terms[](3);
        payments[0] = payment(0, address(token), CAP);
        payments[1] = payment(1, address(euro), CAP + 5);
        payments[2] = payment(2, address(token), CAP);
    }

    // Payers that are contracts

    function test_OfAContractThatTakesItsOwnersSignature() public {
        address account = address(new ContractSigner(payer));
        Signed memory s = signedBy(paymentsIn(address(token), 2), account, payerKey, NONCE);
        fund(account, 2 * CAP + 1);
        FromBatch memory f = fromBatch(s, 0);
        f.signature = sign(attackerKey, batchDigest(s.batch));
        expectDepositRefused(f, abi.encodeWithSignature("InvalidContractSignature()"));
        makeDeposit(s, 0);
        makeDeposit(s, 1);
        assertEq(token.balanceOf(account), 0);
        escrow.cancel(termsOf(idOf(0)), signNonDelivery(releaserKey, idOf(0), QUOTE));
        assertEq(token.balanceOf(account), CAP);
    }

    /// In one piece, of every length.
    function test_OfAContractWhoseSignatureHasAnyForm() public {
        for (uint256 length = 0; length < 200; length++) {
            address account = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
            DepositAddresses.Terms[] memory payments = new DepositAddresses.Terms[](1);
            payments[0] = payment(length, address(token), CAP);
            Signed memory s = signedBy(payments, account, payerKey, NONCE);
            s.signature = new bytes(length);
            for (uint256 i = 0; i < length; i++) s.signature[i] = bytes1(uint8(i + 1));
            assertEq(address(new AccountOfOneWord(batchDigest(s.batch), s.signature)), account);
            fund(account, CAP);
            if (length > 0) {
                s.signature[length - 1] ^= 0x01;
                expectDepositRefused(fromBatch(s, 0), abi.encodeWithSignature("InvalidContractSignature()"));
                s.signature[length - 1] ^= 0x01;
            }
            makeDeposit(s, 0);
            assertEq(token.balanceOf(account), 0);
        }
    }

    /// The account has as much, which Permit2 may take.
    function fund(address account, uint256 amount) private {
        token.mint(account, amount);
        vm.prank(account);
        token.approve(PERMIT2, amount);
    }

    /// As short as keys' signatures can be (ERC-2098).
    function test_WithAShortSignature() public {
        Signed memory s = batchOf(2);
        FromBatch memory f = fromBatch(s, 0);
        (bytes32 r, bytes32 rest) = abi.decode(s.signature, (bytes32, bytes32));
        if (s.signature[64] == hex"1c") rest |= bytes32(uint256(1) << 255);
        f.signature = abi.encodePacked(r, rest);
        makeDeposit(f);
        assertHeld(s, CAP + 1, CAP);
    }

    // Out of the escrow

    /// Each payment has its own end.
    function test_EachPaymentEndsByItself() public {
        Signed memory s = batchOf(4);
        for (uint256 i = 0; i < 3; i++) makeDeposit(s, i);
        escrow.cancel(termsOf(idOf(1)), signNonDelivery(releaserKey, idOf(1), QUOTE));
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(idOf(0), QUOTE, settler, QUOTED, CAP - QUOTED);
        escrow.release(termsOf(idOf(0)), signDelivery(releaserKey, idOf(0), QUOTE, settler));
        afterTheDeadline();
        giveBack(s.batch, address(token));
        vm.warp(START + 1_200);
        escrow.refund(termsOf(idOf(2)));
        assertPaid(address(token), QUOTED, 0);
        assertEq(token.balanceOf(addressBy(s.batch)), 0);
        // What ended is not deposited again, be there money.
        token.mint(addressBy(s.batch), 10 * CAP);
        vm.warp(DEADLINE);
        for (uint256 i = 0; i < 3; i++) {
            expectDepositRefused(
                fromBatch(s, i), abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(i))
            );
        }
    }

    // What is given back

    function test_WhatIsLeftIsGivenBackAfterTheDeadline() public {
        Signed memory s = batchOf(3);
        address at = addressBy(s.batch);
        makeDeposit(s, 2);
        vm.warp(DEADLINE);
        expectNotGivenBack(s.batch, address(token), notYet());
        uint256 snapshot = vm.snapshotState();
        // In this second the others are still deposited.
        makeDeposit(s, 0);
        vm.revertToState(snapshot);

        afterTheDeadline();
        bytes memory closed = abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, DEADLINE);
        expectDepositRefused(fromBatch(s, 0), closed);
        vm.expectEmit(address(batches));
        emit PaymentBatches.GivenBack(at, payer, address(token), 2 * CAP + 1);
        assertEq(giveBack(s.batch, address(token)), 2 * CAP + 1);
        assertHeld(s, 0, CAP + 2);
        expectNotGivenBack(s.batch, address(token), nothingThere(address(token)));
        expectDepositRefused(fromBatch(s, 0), closed);
    }

    function test_GivenBackByWhomever() public {
        Signed memory s = batchOf(2);
        makeDeposit(s, 0);
        afterTheDeadline();
        address[5] memory callers = [payer, settler, attacker, reserver, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            uint256 snapshot = vm.snapshotState();
            vm.prank(callers[i]);
            assertEq(batches.giveBack(s.batch, address(token)), CAP + 1);
            assertHeld(s, 0, CAP);
            vm.revertToState(snapshot);
        }
    }

    function test_WhatIsNeverDrawnIsNotGivenBack() public {
        Signed memory s = batchOf(2);
        vm.warp(DEADLINE);
        expectNotGivenBack(s.batch, address(token), notYet());
        afterTheDeadline();
        expectNotGivenBack(s.batch, address(token), nothingThere(address(token)));
        expectNotGivenBack(s.batch, address(0), nothingThere(address(0)));
        expectNotGivenBack(s.batch, stranger, nothingThere(stranger));
        expectDepositRefused(fromBatch(s, 0), abi.encodeWithSignature("SignatureExpired(uint256)", DEADLINE));
        assertHeld(s, 0, 0);
        assertFalse(isUsed(payer, NONCE));
        assertEq(addressBy(s.batch).code.length, 0);
    }

    /// A token of the batch's and another, and coins, sent before the address has its code and after; all of it is the payer's, and none
    /// of it before the deadline.
    function test_StraysAreThePayersToo() public {
        for (uint256 i = 0; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            (bool drawn, bool before) = (i % 2 == 0, i < 2);
            Signed memory s = batchOf(2);
            address at = addressBy(s.batch);
            if (drawn && !before) makeDeposit(s, 0);
            token.mint(at, 3);
            euro.mint(at, 4);
            vm.deal(at, 5);
            if (drawn && before) makeDeposit(s, 0);
            vm.warp(DEADLINE);
            expectNotGivenBack(s.batch, address(euro), notYet());
            expectNotGivenBack(s.batch, address(0), notYet());
            afterTheDeadline();
            assertEq(giveBack(s.batch, address(euro)), 4);
            vm.expectEmit(address(batches));
            emit PaymentBatches.GivenBack(at, payer, address(0), 5);
            assertEq(giveBack(s.batch, address(0)), 5);
            assertEq(giveBack(s.batch, address(token)), drawn ? CAP + 4 : 3);
            assertEq(token.balanceOf(payer), WEALTH + 3 - (drawn ? CAP : 0));
            assertEq(euro.balanceOf(payer), WEALTH + 4);
            assertEq(payer.balance, 5);
            vm.revertToState(snapshot);
        }
    }

    /// Once there is the code a coin is refused, unless it is forced on it.
    function test_CoinsAreRefusedOnceTheCodeIsThere() public {
        Signed memory s = batchOf(2);
        makeDeposit(s, 0);
        vm.deal(stranger, 2);
        vm.startPrank(stranger);
        (bool taken,) = addressBy(s.batch).call{value: 1}("");
        assertFalse(taken);
        (taken,) = address(batches).call{value: 1}("");
        assertFalse(taken);
        vm.stopPrank();
    }

    /// What a stranger adds changes no deposit, before the draw and after.
    function testFuzz_StraysChangeNoDeposit(uint256 sent, uint256 later) public {
        Signed memory s = batchOf(2);
        address at = addressBy(s.batch);
        token.mint(at, bound(sent, 0, type(uint128).max));
        makeDeposit(s, 1);
        token.mint(at, bound(later, 0, type(uint128).max));
        makeDeposit(s, 0);
        uint256 strays = bound(sent, 0, type(uint128).max) + bound(later, 0, type(uint128).max);
        assertEq(token.balanceOf(at), strays);
        assertEq(token.balanceOf(address(escrow)), 2 * CAP + 1);
        assertEq(token.balanceOf(payer), WEALTH - 2 * CAP - 1);
        afterTheDeadline();
        if (strays == 0) return;
        assertEq(giveBack(s.batch, address(token)), strays);
        assertEq(token.balanceOf(payer), WEALTH - 2 * CAP - 1 + strays);
    }
}
