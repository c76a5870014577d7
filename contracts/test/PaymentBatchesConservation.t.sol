// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {BatchEscrow} from "./support/BatchEscrow.sol";
import {BatchPaying} from "./support/BatchPaying.sol";

/// @notice Does whatever is possible with a few batches in any order: three of one payer's and one of another's, in the same two tokens,
/// with the same deadline or an earlier one; one of them is for an escrow of its payer's own, which takes of any address what it
/// can. Keeps by itself what each batch was drawn, has deposited and had sent or given back.
contract BatchActor is BatchPaying {
    uint256 public constant BATCHES = 4;
    uint256 public constant PAYMENTS = 5;
    /// Which of them is for an escrow of its payer's own.
    uint256 private constant OWN = 2;
    bytes32 private constant QUOTE = keccak256("quote");

    bytes[BATCHES] private _signed;
    BatchEscrow public own;
    /// Of each batch and token: what came from its payer, what went into the gateway's escrow, into the payer's own, and to the payer,
    /// and what strangers sent.
    mapping(uint256 batch => mapping(address asset => uint256)) public drawn;
    mapping(uint256 batch => mapping(address asset => uint256)) public deposited;
    mapping(uint256 batch => mapping(address asset => uint256)) public taken;
    mapping(uint256 batch => mapping(address asset => uint256)) public givenBack;
    mapping(uint256 batch => mapping(address asset => uint256)) public sent;
    /// What came back of what was deposited.
    mapping(uint256 batch => mapping(address asset => uint256)) public cancelled;

    bool public drawnTwice;
    bool public givenBackTooEarly;
    bool public lacked;

    function setUp() public override {
        super.setUp();
        own = new BatchEscrow(PERMIT2);
        for (uint256 b = 0; b < BATCHES; b++) {
            DepositAddresses.Terms[] memory payments = new DepositAddresses.Terms[](PAYMENTS);
            for (uint256 i = 0; i < PAYMENTS; i++) {
                payments[i] = payment(10 * b + i, i % 2 == 0 ? address(token) : address(euro), CAP + b);
                if (b == 1) payments[i].deposit.reserveDeadline = DEADLINE - 30;
                if (b == OWN) payments[i].escrow = address(own);
            }
            (address by, uint256 key) = b == 3 ? (attacker, attackerKey) : (payer, payerKey);
            Signed memory s = signedBy(payments, by, key, b);
            if (b == 1) s.batch.deadline = DEADLINE - 30;
            // Who permits less than its payments ask for.
            if (b == 0) s.batch.permitted[0].amount -= CAP;
            s.signature = sign(key, batchDigest(s.batch));
            _signed[b] = abi.encode(s);
        }
        address[2] memory assets = [address(token), address(euro)];
        for (uint256 i = 0; i < 2; i++) {
            DevToken(assets[i]).mint(attacker, WEALTH);
            vm.prank(attacker);
            DevToken(assets[i]).approve(PERMIT2, type(uint256).max);
        }
    }

    function parties() external view returns (DevToken[2] memory, address, address, address) {
        return ([token, euro], address(escrow), payer, attacker);
    }

    function signedAt(uint256 b) private view returns (Signed memory) {
        return abi.decode(_signed[b], (Signed));
    }

    function batchAt(uint256 b) public view returns (PaymentBatches.Batch memory batch, address at) {
        batch = signedAt(b).batch;
        at = addressBy(batch);
    }

    function permitted(uint256 b, address asset) public view returns (uint256) {
        (PaymentBatches.Batch memory batch,) = batchAt(b);
        return batch.permitted[batch.permitted[0].token == asset ? 0 : 1].amount;
    }

    /// With the payer's own escrow taking all of it, or nothing yet.
    function deposit(uint256 b, uint256 i, bool takes) external {
        (b, i) = (b % BATCHES, i % PAYMENTS);
        FromBatch memory f = fromBatch(signedAt(b), i);
        address at = addressBy(f.batch);
        bool first = at.code.length == 0;
        own.setTaken(takes ? f.terms.amount : 0);
        uint256 there = DevToken(f.terms.token).balanceOf(at);
        bool open = block.timestamp <= f.batch.deadline && stateOf(f.terms.deposit.paymentId) == GatewayEscrow.State.None;
        f.award.fulfillBy = uint48(block.timestamp) + 1;
        (bool done,) = address(batches).call(callOf(f));
        // What is signed for, in time, admitted and paid for is deposited.
        if (!done && open && (first ? permitted(b, f.terms.token) : there) >= f.terms.amount) lacked = true;
        if (!done) return;
        if (first) noteDrawn(b, f.batch);
        if (b != OWN) deposited[b][f.terms.token] += f.terms.amount;
        else if (takes) taken[b][f.terms.token] += f.terms.amount;
        noteTerms(asReserved(asDeposited(f.terms.deposit, f.terms.token, f.terms.amount), f.award));
    }

    function noteDrawn(uint256 b, PaymentBatches.Batch memory batch) private {
        for (uint256 k = 0; k < 2; k++) {
            address asset = batch.permitted[k].token;
            if (drawn[b][asset] != 0) drawnTwice = true;
            drawn[b][asset] += batch.permitted[k].amount;
        }
    }

    /// What the payer's own escrow was allowed and did not take, or what it was not allowed.
    function takeLater(uint256 b, uint256 amount, bool other) external {
        b = b % BATCHES;
        (, address at) = batchAt(b);
        address asset = other ? address(euro) : address(token);
        amount = amount % 2 == 0 ? CAP + b : bound(amount, 1, 3 * CAP);
        try own.take(asset, at, amount) {
            taken[b][asset] += amount;
        } catch {}
    }

    function giveBack(uint256 b, bool other) external {
        b = b % BATCHES;
        (PaymentBatches.Batch memory batch,) = batchAt(b);
        address asset = other ? address(euro) : address(token);
        (bool done, bytes memory answer) = address(batches).call(abi.encodeCall(batches.giveBack, (batch, asset)));
        if (!done) return;
        if (block.timestamp <= batch.deadline) givenBackTooEarly = true;
        givenBack[b][asset] += abi.decode(answer, (uint256));
    }

    function send(uint256 b, uint256 amount, bool other) external {
        b = b % BATCHES;
        (, address at) = batchAt(b);
        DevToken asset = other ? euro : token;
        amount = bound(amount, 1, 2 * CAP);
        asset.mint(at, amount);
        sent[b][address(asset)] += amount;
    }

    /// What was deposited goes back to the payer.
    function cancel(uint256 b, uint256 i) external {
        (b, i) = (b % BATCHES, i % PAYMENTS);
        bytes32 id = idOf(10 * b + i);
        bytes memory word_ = signNonDelivery(releaserKey, id, QUOTE);
        (bool done,) = address(escrow).call(abi.encodeCall(escrow.cancel, (termsOf(id), word_)));
        if (done) cancelled[b][termsOf(id).token] += CAP + b;
    }

    function pass(uint256 time) external {
        vm.warp(block.timestamp + time % 15);
    }
}

/// @notice No batch's money pays another's: what each was drawn, and what was sent to it, is what it has deposited, had given back and
/// still has, to the unit; it is drawn once or not at all, of its own payer; nothing is given back before its deadline; and a payment for
/// which there is money is deposited.
contract PaymentBatchesConservationTest is Test {
    BatchActor private actor;

    function setUp() public {
        actor = new BatchActor();
        actor.setUp();
        bytes4[] memory actions = new bytes4[](6);
        actions[0] = BatchActor.deposit.selector;
        actions[1] = BatchActor.takeLater.selector;
        actions[2] = BatchActor.giveBack.selector;
        actions[3] = BatchActor.send.selector;
        actions[4] = BatchActor.cancel.selector;
        actions[5] = BatchActor.pass.selector;
        targetSelector(FuzzSelector(address(actor), actions));
        targetContract(address(actor));
    }

    function invariant_EachBatchHasItsOwnMoney() public view {
        assertFalse(actor.drawnTwice());
        assertFalse(actor.givenBackTooEarly());
        assertFalse(actor.lacked());
        (DevToken[2] memory assets, address escrow, address payer, address another) = actor.parties();
        for (uint256 i = 0; i < 2; i++) {
            DevToken asset = assets[i];
            uint256 inEscrow;
            uint256 ofThePayer = 1_000_000e6;
            for (uint256 b = 0; b < 4; b++) {
                (, address at) = actor.batchAt(b);
                uint256 drawn = actor.drawn(b, address(asset));
                assertTrue(drawn == 0 || drawn == actor.permitted(b, address(asset)), "drawn in part");
                uint256 gone = actor.deposited(b, address(asset)) + actor.taken(b, address(asset));
                uint256 back = actor.givenBack(b, address(asset));
                assertEq(drawn + actor.sent(b, address(asset)), gone + back + asset.balanceOf(at), "not conserved");
                back += actor.cancelled(b, address(asset));
                inEscrow += actor.deposited(b, address(asset)) - actor.cancelled(b, address(asset));
                if (b < 3) ofThePayer = ofThePayer + back - drawn;
                else assertEq(asset.balanceOf(another), 1_000_000e6 + back - drawn, "the other payer's");
            }
            assertEq(asset.balanceOf(escrow), inEscrow, "the escrow's");
            assertEq(asset.balanceOf(payer), ofThePayer, "the payer's");
        }
    }
}
