// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2} from "../src/IPermit2.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {BatchEscrow} from "./support/BatchEscrow.sol";
import {BatchPaying} from "./support/BatchPaying.sol";

/// @notice Which payments a batch is of, and that no other comes into an escrow by it: other batches, other payments, other places under
/// the root.
contract PaymentBatchesTermsTest is BatchPaying {
    // Other batches

    /// Of payer, escrow, nonce, deadline and root, of each token and amount; and one token more.
    function test_EachBitOfTheBatchIsOfAnotherAddress() public view {
        Signed memory s = twoTokens();
        address at = addressBy(s.batch);
        for (uint256 field = 0; field < 9; field++) {
            for (uint256 bit = 0; bit < widthOf(field); bit++) {
                isElsewhere(changed(s.batch, field, bit), at);
            }
        }
        PaymentBatches.Batch memory more = changed(s.batch, 0, 0);
        more.payer = payer;
        more.permitted = new IPermit2.TokenPermissions[](3);
        for (uint256 i = 0; i < 2; i++) more.permitted[i] = s.batch.permitted[i];
        isElsewhere(more, at);
        (more.permitted[0], more.permitted[1]) = (more.permitted[1], more.permitted[0]);
        isElsewhere(more, at);
    }

    function isElsewhere(PaymentBatches.Batch memory other, address at) private view {
        assertNotEq(batches.addressOf(other), at);
        assertEq(batches.addressOf(other), addressBy(other));
    }

    function twoTokens() private view returns (Signed memory) {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 2);
        payments[1].token = address(euro);
        return signed(payments);
    }

    /// How many bits each of the nine words has: payer, nonce, deadline, root, two tokens with their amounts, and the escrow.
    function widthOf(uint256 field) private pure returns (uint256) {
        return [uint256(160), 256, 256, 256, 160, 256, 160, 256, 160][field];
    }

    /// A copy with another bit of one of the nine words.
    function changed(PaymentBatches.Batch memory b, uint256 field, uint256 bit)
        private
        pure
        returns (PaymentBatches.Batch memory)
    {
        bytes memory words = encoded(b);
        // Behind where the batch begins; past where the list begins, and how long it is.
        uint256 index = field == 8 ? 3 : field == 0 ? 1 : field < 4 ? field + 3 : field + 4;
        words[32 * index + 31 - bit / 8] ^= bytes1(uint8(1 << bit % 8));
        return abi.decode(words, (PaymentBatches.Batch));
    }

    /// What the payer signed for one batch serves no other, though all payments are under its root: Permit2 refuses it.
    function testFuzz_ASignatureIsForOneBatch(uint256 field, uint256 bit) public {
        Signed memory s = twoTokens();
        field = bound(field, 0, 8);
        bit = bound(bit, 0, widthOf(field) - 1);
        // The deadline is a time of 48 bits that has not come yet; whoever pays then has no code.
        if (field == 2) bit = 6 + bit % 40;
        PaymentBatches.Batch memory other = changed(s.batch, field, bit);
        vm.assume(other.payer.code.length == 0 && other.deadline > block.timestamp);
        vm.assume(field != 4 && field != 6 || other.permitted[0].token < other.permitted[1].token);
        // A balance of what is no token is not answered.
        if (field == 4 || field == 6) vm.etch(other.permitted[(field - 4) / 2].token, address(token).code);
        if (field == 8) vm.assume(other.escrow.code.length == 0);
        if (field == 8) vm.etch(other.escrow, address(escrow).code);
        for (uint256 i = 0; i < 2; i++) {
            s.payments[i].escrow = other.escrow;
            s.payments[i].deposit.payer = other.payer;
            s.payments[i].deposit.reserveDeadline = uint48(other.deadline);
            s.payments[i].deposit.fulfillmentDeadline = uint48(other.deadline) + 540;
            s.payments[i].deposit.refundAfter = uint48(other.deadline) + 1_140;
        }
        if (field == 3) s.payments[1].deposit.termsHash = bytes32(bit);
        s.batch = other;
        s.batch.payments = rootOf(leavesOf(s.payments));
        (bool made, bytes memory why) = address(batches).call(callOf(fromBatch(s, 0)));
        assertFalse(made);
        assertTrue(keccak256(why) == keccak256(invalidSigner()) || keccak256(why) == keccak256(invalidSignature()));
        assertEq(addressBy(s.batch).code.length, 0);
        assertPaid(address(token), 0, 0);
    }

    function invalidSignature() private pure returns (bytes memory) {
        return abi.encodeWithSignature("InvalidSignature()");
    }

    function testFuzz_NoBitOfTheSignatureCanBeChanged(uint256 bit) public {
        FromBatch memory f = fromBatch(batchOf(2), 0);
        bit = bound(bit, 0, 519);
        f.signature[bit / 8] ^= bytes1(uint8(1 << bit % 8));
        (bool made, bytes memory why) = address(batches).call(callOf(f));
        assertFalse(made);
        assertTrue(keccak256(why) == keccak256(invalidSigner()) || keccak256(why) == keccak256(invalidSignature()));
        assertPaid(address(token), 0, 0);
        f.signature[bit / 8] ^= bytes1(uint8(1 << bit % 8));
        makeDeposit(f);
    }

    function test_ABatchOfNobodyOrOfNothingHasNoAddress() public {
        for (uint256 i = 0; i < 2; i++) {
            Signed memory s = batchOf(2);
            token.mint(addressBy(s.batch), CAP);
            if (i == 0) s = signedBy(s.payments, address(0), payerKey, NONCE);
            else s.batch.permitted = new IPermit2.TokenPermissions[](0);
            bytes memory refusal = abi.encodeWithSelector(PaymentBatches.BatchEmpty.selector);
            expectBatchCallRefused(abi.encodeCall(batches.addressOf, (s.batch)), refusal);
            expectDepositRefused(fromBatch(s, 0), refusal);
            uint256 snapshot = vm.snapshotState();
            afterTheDeadline();
            expectNotGivenBack(s.batch, address(token), refusal);
            vm.revertToState(snapshot);
        }
    }

    /// Twice the same, the greater first, or none at all; also where the payer signed just that.
    function test_TokensAscend() public {
        Signed memory s = twoTokens();
        (IPermit2.TokenPermissions memory low, IPermit2.TokenPermissions memory high) =
            (s.batch.permitted[0], s.batch.permitted[1]);
        expectNotAscending(s, high, low, low.token);
        expectNotAscending(s, low, low, low.token);
        expectNotAscending(s, high, high, high.token);
        expectNotAscending(s, IPermit2.TokenPermissions(address(0), 0), high, address(0));
        expectNotAscending(s, low, IPermit2.TokenPermissions(address(0), 0), address(0));
        s = twoTokens();
        makeDeposit(s, 0);
    }

    function expectNotAscending(
        Signed memory s,
        IPermit2.TokenPermissions memory first,
        IPermit2.TokenPermissions memory next,
        address refused
    ) private {
        (s.batch.permitted[0], s.batch.permitted[1]) = (first, next);
        resign(s);
        bytes memory refusal = abi.encodeWithSelector(PaymentBatches.TokensNotAscending.selector, refused);
        expectDepositRefused(fromBatch(s, 0), refusal);
    }

    /// Words whose types do not hold them are refused.
    function test_NoWordsBeyondTheirTypes() public view {
        Signed memory s = twoTokens();
        bytes memory call = abi.encodeCall(batches.addressOf, (s.batch));
        for (uint256 bit = 160; bit < 256; bit++) {
            isNotAnswered(call, 1, bit);
            isNotAnswered(call, 3, bit);
            isNotAnswered(call, 8, bit);
            isNotAnswered(call, 10, bit);
        }
        call = abi.encodeCall(batches.leafOf, (s.payments[0]));
        uint256[12] memory widths = [uint256(160), 160, 256, 256, 256, 256, 160, 160, 160, 48, 48, 48];
        for (uint256 index = 0; index < 12; index++) {
            for (uint256 bit = widths[index]; bit < 256; bit++) isNotAnswered(call, index, bit);
        }
    }

    function isNotAnswered(bytes memory call, uint256 index, uint256 bit) private view {
        uint256 place = 4 + 32 * index + 31 - bit / 8;
        call[place] ^= bytes1(uint8(1 << bit % 8));
        (bool done, bytes memory why) = address(batches).staticcall(call);
        assertFalse(done);
        assertEq(why, "");
        call[place] ^= bytes1(uint8(1 << bit % 8));
    }

    // Other payments

    /// Whatever single bit of a payment is another one, it is not the one signed for, though the reserver admits it: before the batch
    /// is drawn and after.
    function testFuzz_NoBitOfAPaymentCanBeChanged(uint256 field, uint256 bit, bool drawn) public {
        Signed memory s = batchOf(4);
        if (drawn) makeDeposit(s, 3);
        field = bound(field, 0, 11);
        bit = bound(bit, 0, [uint256(160), 160, 256, 256, 256, 256, 160, 160, 160, 48, 48, 48][field] - 1);
        bytes memory words = abi.encodePacked(wordsOf(s.payments[1]));
        words[32 * field + 31 - bit / 8] ^= bytes1(uint8(1 << bit % 8));
        FromBatch memory f = fromBatch(s, 1);
        f.terms = abi.decode(words, (DepositAddresses.Terms));
        f.award.paymentId = f.terms.deposit.paymentId;
        bytes memory refusal = notInBatch(f);
        if (field == 0) refusal = notItsEscrow(f.terms.escrow);
        if (field == 6) {
            refusal = abi.encodeWithSelector(PaymentBatches.PayerNotOfBatch.selector, f.terms.deposit.payer);
        }
        if (field == 9) {
            refusal =
                abi.encodeWithSelector(PaymentBatches.DeadlineNotOfBatch.selector, f.terms.deposit.reserveDeadline);
        }
        expectDepositRefused(f, refusal);
        makeDeposit(s, 1);
    }

    /// Also where the payer signed for them: no money of its own is deposited as another's, nor after the batch's end or so that
    /// what can still be deposited is given back.
    function test_PaymentsOfAnotherPayerOrWithAnotherDeadline() public {
        Signed memory s = batchOf(5);
        s.payments[1].deposit.payer = attacker;
        s.payments[2].deposit.reserveDeadline = DEADLINE - 1;
        s.payments[3].deposit.reserveDeadline = DEADLINE + 1;
        resign(s);
        token.mint(attacker, WEALTH);
        for (uint256 i = 0; i < 2; i++) {
            expectDepositRefused(
                fromBatch(s, 1), abi.encodeWithSelector(PaymentBatches.PayerNotOfBatch.selector, attacker)
            );
            for (uint256 k = 2; k < 4; k++) {
                bytes memory refusal = abi.encodeWithSelector(
                    PaymentBatches.DeadlineNotOfBatch.selector, s.payments[k].deposit.reserveDeadline
                );
                expectDepositRefused(fromBatch(s, k), refusal);
            }
            makeDeposit(s, i * 4);
        }
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), 3 * CAP + 6);
    }

    /// Nor in another escrow, be it one of the payer's own that takes everything: so what is drawn cannot be taken from the others.
    function test_PaymentsInAnotherEscrow() public {
        GatewayEscrow first = escrow;
        Signed memory s = batchOf(3);
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        address[2] memory named = [address(escrow), address(new BatchEscrow(PERMIT2))];
        for (uint256 i = 0; i < 2; i++) s.payments[1 + i].escrow = named[i];
        resign(s);
        for (uint256 i = 0; i < 4; i++) {
            expectDepositRefused(fromBatch(s, 1 + i % 2), notItsEscrow(named[i % 2]));
            if (i != 1) continue;
            escrow = first;
            makeDeposit(s, 0);
        }
        assertEq(token.balanceOf(addressBy(s.batch)), 2 * CAP + 3);
    }

    /// A deadline that no payment can have is none.
    function test_ADeadlineBeyondWhatPaymentsHold() public {
        Signed memory s = batchOf(2);
        s.batch.deadline = (1 << 48) + DEADLINE;
        resign(s);
        bytes memory refusal = abi.encodeWithSelector(PaymentBatches.DeadlineNotOfBatch.selector, DEADLINE);
        expectDepositRefused(fromBatch(s, 0), refusal);
    }

    // Other places under the root

    function test_OnlyWithItsOwnProof() public {
        Signed memory s = batchOf(6);
        bytes32[] memory leaves = leavesOf(s.payments);
        for (uint256 drawn = 0; drawn < 2; drawn++) {
            for (uint256 i = 0; i < 25; i++) {
                if (i / 5 == i % 5) continue;
                FromBatch memory f = fromBatch(s, i / 5);
                f.proof = proofOf(leaves, i % 5);
                expectDepositRefused(f, notInBatch(f));
            }
            if (drawn == 0) makeDeposit(s, 5);
        }
    }

    /// Neither shorter nor longer, and no bit of it another one.
    function testFuzz_NothingOfTheProofCanBeChanged(uint256 way, uint256 bit) public {
        Signed memory s = batchOf(8);
        FromBatch memory f = fromBatch(s, 2);
        bytes32[] memory right = f.proof;
        way = bound(way, 0, 3);
        bit = bound(bit, 0, 3 * 256 - 1);
        if (way == 0) f.proof[bit / 256] ^= bytes32(1 << bit % 256);
        if (way == 1) f.proof = resized(right, bit % 3);
        if (way == 2) f.proof = resized(right, 4 + bit % 8);
        if (way == 3) (f.proof[0], f.proof[1 + bit % 2]) = (right[1 + bit % 2], right[0]);
        if (way == 3) vm.assume(right[0] != right[1 + bit % 2]);
        expectDepositRefused(f, notInBatch(f));
        makeDeposit(s, 2);
    }

    function resized(bytes32[] memory proof, uint256 length) private pure returns (bytes32[] memory other) {
        other = new bytes32[](length);
        for (uint256 i = 0; i < length; i++) other[i] = i < proof.length ? proof[i] : bytes32(i);
    }

    /// A leaf is the hash of a hash, of 32 bytes, an inner node one of 64: so none is the other. Who signs a root of leaves that were
    /// hashed once signs for no payment.
    function test_LeavesAreHashedTwice() public {
        Signed memory s = batchOf(2);
        bytes32[] memory once = new bytes32[](2);
        for (uint256 i = 0; i < 2; i++) once[i] = keccak256(abi.encodePacked(wordsOf(s.payments[i])));
        s.batch.payments = rootOf(once);
        s.signature = sign(payerKey, batchDigest(s.batch));
        FromBatch memory f = fromBatch(s, 0);
        f.proof = proofOf(once, 0);
        expectDepositRefused(f, notInBatch(f));
        // Nor for one alone, nor by a root that is something else of a payment's.
        s.batch.payments = once[0];
        s.signature = sign(payerKey, batchDigest(s.batch));
        f = fromBatch(s, 0);
        f.proof = new bytes32[](0);
        expectDepositRefused(f, notInBatch(f));
        s.batch.payments = f.terms.deposit.paymentId;
        s.signature = sign(payerKey, batchDigest(s.batch));
        (f.batch, f.signature) = (s.batch, s.signature);
        expectDepositRefused(f, notInBatch(f));
    }

    /// One that stands under the root twice is one payment still.
    function test_ALeafTwiceIsOnePayment() public {
        DepositAddresses.Terms[] memory payments = paymentsIn(address(token), 3);
        payments[2] = payments[0];
        Signed memory s = signed(payments);
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(0));
        makeDeposit(s, 2);
        expectDepositRefused(fromBatch(s, 0), used);
        makeDeposit(s, 1);
        expectDepositRefused(fromBatch(s, 0), used);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), CAP);
    }
}
