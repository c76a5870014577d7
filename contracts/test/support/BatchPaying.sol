// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../../src/DepositAddresses.sol";
import {DevToken} from "../../src/DevToken.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {IPermit2} from "../../src/IPermit2.sol";
import {PaymentBatches} from "../../src/PaymentBatches.sol";
import {LargerDeposits} from "./LargerDeposits.sol";

/// @notice Payments of which many are signed for at once. Leaves, tree, address and what a wallet signs are put together here from
/// their description, apart from the contract's own.
abstract contract BatchPaying is LargerDeposits {
    bytes32 internal constant WITNESS_TYPEHASH = keccak256("PaymentBatch(address escrow,bytes32 payments)");
    bytes32 internal constant PERMIT_BATCH_TYPEHASH = keccak256(
        "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,PaymentBatch witness)PaymentBatch(address escrow,bytes32 payments)TokenPermissions(address token,uint256 amount)"
    );
    /// Of Permit2, as the payer chose it.
    uint256 internal constant NONCE = uint256(keccak256("a batch's nonce"));
    /// The last second for all payments of `depositTerms()`.
    uint48 internal constant DEADLINE = START + 60;

    PaymentBatches internal batches;
    /// Another token that the payer has.
    DevToken internal euro;

    /// A batch as its payer signed it, with its payments in the order of the tree's leaves.
    struct Signed {
        PaymentBatches.Batch batch;
        bytes signature;
        DepositAddresses.Terms[] payments;
    }

    /// A deposit of one payment, but for the reserver's signature.
    struct FromBatch {
        PaymentBatches.Batch batch;
        bytes signature;
        DepositAddresses.Terms terms;
        bytes32[] proof;
        GatewayEscrow.Reservation award;
        uint48 admittedUntil;
    }

    function setUp() public virtual override {
        super.setUp();
        batches = new PaymentBatches();
        euro = new DevToken("Development EUR", "dEUR", 6);
        enrich(address(euro));
    }

    // Payments and their tree

    function idOf(uint256 i) internal pure returns (bytes32) {
        return keccak256(abi.encode("payment", i));
    }

    function payment(uint256 i, address asset, uint256 amount) internal view returns (DepositAddresses.Terms memory t) {
        t = DepositAddresses.Terms(address(escrow), asset, amount, depositTerms());
        t.deposit.paymentId = idOf(i);
    }

    /// So many payments in one token, the first of `CAP` and each of one unit more than the one before.
    function paymentsIn(address asset, uint256 count) internal view returns (DepositAddresses.Terms[] memory all) {
        all = new DepositAddresses.Terms[](count);
        for (uint256 i = 0; i < count; i++) all[i] = payment(i, asset, CAP + i);
    }

    function wordsOf(DepositAddresses.Terms memory t) internal pure returns (bytes32[12] memory) {
        GatewayEscrow.GatewayDeposit memory d = t.deposit;
        return [
            word(t.escrow),
            word(t.token),
            bytes32(t.amount),
            d.paymentId,
            d.termsHash,
            d.quoteHash,
            word(d.payer),
            word(d.reserver),
            word(d.releaser),
            bytes32(uint256(d.reserveDeadline)),
            bytes32(uint256(d.fulfillmentDeadline)),
            bytes32(uint256(d.refundAfter))
        ];
    }

    function leafOf(DepositAddresses.Terms memory t) internal pure returns (bytes32) {
        return keccak256(abi.encodePacked(keccak256(abi.encodePacked(wordsOf(t)))));
    }

    function leavesOf(DepositAddresses.Terms[] memory payments) internal pure returns (bytes32[] memory leaves) {
        leaves = new bytes32[](payments.length);
        for (uint256 i = 0; i < leaves.length; i++) leaves[i] = leafOf(payments[i]);
    }

    function parentOf(bytes32 a, bytes32 b) internal pure returns (bytes32) {
        return a < b ? keccak256(abi.encodePacked(a, b)) : keccak256(abi.encodePacked(b, a));
    }

    /// The next level of the tree; who has no neighbour is on it itself.
    function levelAbove(bytes32[] memory level) internal pure returns (bytes32[] memory above) {
        above = new bytes32[]((level.length + 1) / 2);
        for (uint256 i = 0; i < above.length; i++) {
            above[i] = 2 * i + 1 < level.length ? parentOf(level[2 * i], level[2 * i + 1]) : level[2 * i];
        }
    }

    function rootOf(bytes32[] memory level) internal pure returns (bytes32) {
        while (level.length > 1) level = levelAbove(level);
        return level[0];
    }

    function proofOf(bytes32[] memory level, uint256 i) internal pure returns (bytes32[] memory proof) {
        bytes32[] memory found = new bytes32[](16);
        uint256 length;
        while (level.length > 1) {
            uint256 neighbour = i % 2 == 0 ? i + 1 : i - 1;
            if (neighbour < level.length) found[length++] = level[neighbour];
            level = levelAbove(level);
            i /= 2;
        }
        proof = new bytes32[](length);
        for (uint256 k = 0; k < length; k++) proof[k] = found[k];
    }

    /// Of each token what the payments in it ask for together, in ascending order of the tokens.
    function permittedFor(DepositAddresses.Terms[] memory payments)
        internal
        pure
        returns (IPermit2.TokenPermissions[] memory permitted)
    {
        IPermit2.TokenPermissions[] memory all = new IPermit2.TokenPermissions[](payments.length);
        uint256 count;
        address last;
        while (true) {
            address next = address(type(uint160).max);
            uint256 sum;
            for (uint256 i = 0; i < payments.length; i++) {
                address asset = payments[i].token;
                if (asset <= last || asset > next) continue;
                sum = asset == next ? sum + payments[i].amount : payments[i].amount;
                next = asset;
            }
            if (sum == 0) break;
            all[count++] = IPermit2.TokenPermissions(next, sum);
            last = next;
        }
        permitted = new IPermit2.TokenPermissions[](count);
        for (uint256 i = 0; i < count; i++) permitted[i] = all[i];
    }

    // The batch's address

    /// The ABI's form of one batch: where it begins, six words with where the list begins, and that behind its length.
    function encoded(PaymentBatches.Batch memory b) internal pure returns (bytes memory) {
        bytes memory list = abi.encodePacked(b.permitted.length);
        for (uint256 i = 0; i < b.permitted.length; i++) {
            list = abi.encodePacked(list, word(b.permitted[i].token), b.permitted[i].amount);
        }
        return abi.encodePacked(
            uint256(32), word(b.payer), uint256(192), word(b.escrow), b.nonce, b.deadline, b.payments, list
        );
    }

    /// The minimal proxy of ERC-1167 to the first contract that this one made.
    function proxyCode(PaymentBatches by) internal pure returns (bytes memory) {
        address implementation = address(uint160(uint256(keccak256(abi.encodePacked(hex"d694", by, hex"01")))));
        return abi.encodePacked(hex"363d3d373d3d3d363d73", implementation, hex"5af43d82803e903d91602b57fd5bf3");
    }

    /// CREATE2's address for the batch.
    function addressBy(PaymentBatches by, PaymentBatches.Batch memory b) internal pure returns (address) {
        bytes32 code = keccak256(bytes.concat(hex"3d602d80600a3d3981f3", proxyCode(by)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", by, keccak256(encoded(b)), code)))));
    }

    function addressBy(PaymentBatches.Batch memory b) internal view returns (address) {
        return addressBy(batches, b);
    }

    // What the payer signs

    function batchHash(address spender, PaymentBatches.Batch memory b) internal pure returns (bytes32) {
        bytes memory permissions;
        for (uint256 i = 0; i < b.permitted.length; i++) {
            bytes32 one =
                keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, b.permitted[i].token, b.permitted[i].amount));
            permissions = bytes.concat(permissions, one);
        }
        bytes32 witness = keccak256(abi.encode(WITNESS_TYPEHASH, b.escrow, b.payments));
        return keccak256(
            abi.encode(PERMIT_BATCH_TYPEHASH, keccak256(permissions), spender, b.nonce, b.deadline, witness)
        );
    }

    function batchDigest(PaymentBatches.Batch memory b) internal view returns (bytes32) {
        return permit2Digest(batchHash(address(batches), b));
    }

    /// Of that payer, whose key it is.
    function signedBy(DepositAddresses.Terms[] memory payments, address by, uint256 key, uint256 nonce)
        internal
        view
        returns (Signed memory s)
    {
        s.payments = payments;
        for (uint256 i = 0; i < payments.length; i++) payments[i].deposit.payer = by;
        bytes32 root = rootOf(leavesOf(payments));
        s.batch = PaymentBatches.Batch(by, permittedFor(payments), payments[0].escrow, nonce, DEADLINE, root);
        s.signature = sign(key, batchDigest(s.batch));
    }

    function signed(DepositAddresses.Terms[] memory payments) internal view returns (Signed memory) {
        return signedBy(payments, payer, payerKey, NONCE);
    }

    /// Of so many payments in the one token.
    function batchOf(uint256 count) internal view returns (Signed memory) {
        return signed(paymentsIn(address(token), count));
    }

    /// Signed anew as the batch is now, by the payer's key, with the root of the payments as they are now and in the first one's escrow.
    function resign(Signed memory s) internal view {
        s.batch.escrow = s.payments[0].escrow;
        s.batch.payments = rootOf(leavesOf(s.payments));
        s.signature = sign(payerKey, batchDigest(s.batch));
    }

    // Deposits

    /// With the award of `reservation()`.
    function fromBatch(Signed memory s, uint256 i) internal view returns (FromBatch memory f) {
        f.batch = s.batch;
        f.signature = s.signature;
        f.terms = abi.decode(abi.encode(s.payments[i]), (DepositAddresses.Terms));
        f.proof = proofOf(leavesOf(s.payments), i);
        f.award = reservation();
        f.award.paymentId = f.terms.deposit.paymentId;
        f.admittedUntil = ADMITTED_UNTIL;
    }

    /// What the reserver signs for it.
    function admissionOf(FromBatch memory f) internal view returns (bytes memory) {
        return admissionOf(Larger(false, f.terms.deposit, f.award, f.terms.token, f.terms.amount, f.admittedUntil));
    }

    function callOf(FromBatch memory f, bytes memory reserverSignature) internal view returns (bytes memory) {
        return abi.encodeCall(
            batches.deposit, (f.batch, f.signature, f.terms, f.proof, f.award, f.admittedUntil, reserverSignature)
        );
    }

    /// As the other, with the reserver's signature right.
    function callOf(FromBatch memory f) internal view returns (bytes memory) {
        return callOf(f, admissionOf(f));
    }

    /// A stranger brings it into the escrow.
    function makeDeposit(FromBatch memory f) internal returns (bytes32) {
        bytes memory call = callOf(f);
        vm.prank(stranger);
        (bool made, bytes memory why) = address(batches).call(call);
        if (!made) {
            assembly ("memory-safe") {
                revert(add(why, 0x20), mload(why))
            }
        }
        noteTerms(asReserved(asDeposited(f.terms.deposit, f.terms.token, f.terms.amount), f.award));
        return f.terms.deposit.paymentId;
    }

    function makeDeposit(Signed memory s, uint256 i) internal returns (bytes32) {
        return makeDeposit(fromBatch(s, i));
    }

    /// A stranger has it given back.
    function giveBack(PaymentBatches.Batch memory b, address asset) internal returns (uint256) {
        vm.prank(stranger);
        return batches.giveBack(b, asset);
    }

    function afterTheDeadline() internal {
        vm.warp(DEADLINE + 1);
    }

    // What is refused

    /// Refused with these very bytes, whoever calls, and nothing is moved or made by it.
    function expectDepositRefused(FromBatch memory f, bytes memory call, bytes memory refusal) internal {
        bytes32 was = standingOf(f);
        expectBatchCallRefused(call, refusal);
        assertEq(standingOf(f), was, "something changed");
    }

    /// As the other, with the reserver's signature right.
    function expectDepositRefused(FromBatch memory f, bytes memory refusal) internal {
        expectDepositRefused(f, callOf(f), refusal);
    }

    function expectNotGivenBack(PaymentBatches.Batch memory b, address asset, bytes memory refusal) internal {
        expectBatchCallRefused(abi.encodeCall(batches.giveBack, (b, asset)), refusal);
    }

    function expectBatchCallRefused(bytes memory call, bytes memory refusal) internal {
        address[5] memory callers = [stranger, payer, reserver, attacker, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            vm.prank(callers[i]);
            (bool made, bytes memory why) = address(batches).call(call);
            assertFalse(made, "made");
            assertEq(why, refusal);
        }
    }

    /// The money of all who could have got some, in both of the tokens and that of the payment, the record, the nonce, and whether
    /// the address has its code. Of what is no batch there is no address.
    function standingOf(FromBatch memory f) private view returns (bytes32) {
        address at = addressBy(f.batch);
        address[5] memory who = [f.batch.payer, at, address(escrow), settler, address(batches)];
        address[3] memory what = [address(token), address(euro), f.terms.token];
        bytes memory money;
        for (uint256 i = 0; i < 15; i++) {
            if (what[i % 3].code.length == 0) continue;
            (, bytes memory held) = what[i % 3].staticcall(abi.encodeCall(euro.balanceOf, (who[i / 3])));
            money = bytes.concat(money, held);
        }
        GatewayEscrow.Record memory record = escrow.recordOf(f.terms.deposit.paymentId);
        return keccak256(abi.encode(money, record, isUsed(f.batch.payer, f.batch.nonce), at.code.length));
    }

    /// Whether Permit2 has seen the nonce.
    function isUsed(address owner, uint256 nonce) internal view returns (bool) {
        (, bytes memory bitmap) =
            PERMIT2.staticcall(abi.encodeWithSignature("nonceBitmap(address,uint256)", owner, nonce >> 8));
        return abi.decode(bitmap, (uint256)) >> (nonce & 0xff) & 1 == 1;
    }

    function drawnNotExact(address asset, uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.ReceivedNotExact.selector, asset, expected, received);
    }

    function escrowReceived(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, expected, received);
    }

    function notInBatch(FromBatch memory f) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.PaymentNotInBatch.selector, f.terms.deposit.paymentId);
    }

    function notItsEscrow(address named) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.EscrowNotOfBatch.selector, named);
    }

    function nothingThere(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.NothingThere.selector, asset);
    }

    function notMoved(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.NotMoved.selector, asset);
    }

    function notYet() internal pure returns (bytes memory) {
        return abi.encodeWithSelector(PaymentBatches.NotYet.selector, DEADLINE);
    }

    function usedNonce() internal pure returns (bytes memory) {
        return abi.encodeWithSignature("InvalidNonce()");
    }

    function invalidSigner() internal pure returns (bytes memory) {
        return abi.encodeWithSignature("InvalidSigner()");
    }

    function notAdmitted() internal view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }
}
