// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {AdversaryAddresses} from "./support/AdversaryAddresses.sol";
import {AdversaryOffers} from "./support/AdversaryOffers.sol";
import {PausableToken, RebasingToken} from "./support/Tokens.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice What honest parties, tokens, the guardian and an attacker do. The attacker has seen every call that was ever tried, those
/// that failed among them, and every signature, also such as the verifiers gave another escrow or another chain.
contract AdversaryActor is AdversaryOffers {
    /// Of what was tried, how many authorizations are kept.
    uint256 private constant KEPT = 64;
    uint256 private constant RECORDS_SLOT = 4;

    /// Authorizations of the payer that were tried, each with the escrow that it is for.
    Seen[] private authorizations;

    struct Seen {
        address escrow;
        GatewayEscrow.GatewayDeposit terms;
        GatewayEscrow.Authorization authorization;
    }

    function deposit(uint256 seed, uint256 amount, uint256 way, uint256 asset) external judged {
        Slot storage slot = renewed(seed);
        if (slot.last.state != GatewayEscrow.State.None) return;
        slot.asset = asset % TOKENS;
        slot.bySet = (seed >> 16) % 2 == 1;
        address t = tokens[slot.asset];
        GatewayEscrow.GatewayDeposit memory d = depositOf(slot);
        GatewayEscrow.Reservation memory r = awardOf(slot, amount, settler, "quote");
        if (way % 5 == 0) {
            GatewayEscrow.Escrow memory opened = asDeposited(d, t, CAP);
            admit(opened);
            send(payer, abi.encodeCall(escrow.depositOwn, (d, t, CAP, signOpening(reserverKey, d, t, CAP))));
            return;
        }
        uint256 drawn_ = bound(way, r.sourceAmount, CAP);
        GatewayEscrow.Escrow memory e = asReserved(asDeposited(d, t, drawn_), r);
        admit(e);
        Larger memory larger = Larger(way % 5 == 1, d, r, t, drawn_, d.reserveDeadline);
        if (way % 5 == 3) depositBy(authorizationBy(payerKey, d, t, drawn_), larger);
        else if (way % 5 == 4) depositForPayer(larger);
        else send(stranger, largerCall(larger, payerKey, admissionOf(larger)));
    }

    function depositBy(GatewayEscrow.Authorization memory a, Larger memory larger) private {
        Seen storage seen = authorizations.length < KEPT
            ? authorizations.push()
            : authorizations[uint256(depositHash(larger.terms)) % KEPT];
        (seen.escrow, seen.terms, seen.authorization) = (address(escrow), larger.terms, a);
        bytes memory call = callOf(Authorized(larger.terms, a, larger.award, larger.admittedUntil));
        if (send(stranger, call)) count["authorized"]++;
    }

    /// By the payer itself, of its own allowance; the attacker has the call from the tape.
    function depositForPayer(Larger memory l) private {
        bytes memory call = abi.encodeCall(
            escrow.depositFor, (l.terms, l.asset, l.amount, l.award, l.admittedUntil, admissionOf(l))
        );
        if (send(payer, call)) count["deposited for"]++;
    }

    function reserve(uint256 seed, uint256 amount) external judged {
        (, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory e = termsOf(slot.id);
        GatewayEscrow.Reservation memory r = awardOf(slot, amount, settler, "quote");
        GatewayEscrow.Escrow memory next = asReserved(e, r);
        say("award", known(next));
        send(stranger, abi.encodeCall(escrow.reserve, (e, r, signReservation(reserverKey, r))));
    }

    function reassign(uint256 seed, uint256 amount, uint256 signers) external judged {
        (, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory e = termsOf(slot.id);
        address to = slot.last.round % 2 == 1 ? nextSettler : settler;
        GatewayEscrow.Reservation memory r = awardOf(slot, amount, to, abi.encode("quote", slot.last.round));
        GatewayEscrow.Escrow memory next = asReserved(e, r);
        say("reassignment", keccak256(abi.encode(commitment(e), known(next))));
        bytes memory word = wordOf(slot, "non-delivery", nonDeliveryDigest(slot.id, e.quoteHash), signers);
        send(stranger, abi.encodeCall(escrow.reassign, (e, r, signReassignment(reserverKey, e.quoteHash, r), word)));
    }

    function release(uint256 seed, uint256 signers) external judged {
        (, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory e = termsOf(slot.id);
        bytes memory word = wordOf(slot, "delivery", deliveryDigest(slot.id, e.quoteHash, e.settler), signers);
        send(stranger, abi.encodeCall(escrow.release, (e, word)));
    }

    function cancel(uint256 seed, uint256 signers) external judged {
        (, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory e = termsOf(slot.id);
        bytes memory word = wordOf(slot, "non-delivery", nonDeliveryDigest(slot.id, e.quoteHash), signers);
        send(stranger, abi.encodeCall(escrow.cancel, (e, word)));
    }

    function refund(uint256 seed) external judged {
        (, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory e = termsOf(slot.id);
        bool open = slot.last.state == GatewayEscrow.State.Deposited || slot.last.state == GatewayEscrow.State.Reserved;
        bool done = send(stranger, abi.encodeCall(escrow.refund, (e)));
        // Whatever the token or the guardian do: from its time on it goes through.
        if (open && block.timestamp >= e.deposit.refundAfter && !done) broken = "a refund was refused";
    }

    /// The word of the releaser, or of those of the set's members whose bits are set; it counts when they are enough.
    function wordOf(Slot storage slot, string memory what, bytes32 digest, uint256 signers)
        private
        returns (bytes memory)
    {
        signers %= 8;
        bytes32 c = commitment(termsOf(slot.id));
        if (!slot.bySet) {
            // Sometimes it is the attacker's.
            if (signers != 0) say(what, c);
            return sign(signers == 0 ? attackerKey : releaserKey, digest);
        }
        if (enough(set, signers)) say(what, c);
        return attest(set, digest, signers);
    }

    function claim(uint256 seed, uint256 who, bool byOwner) external judged {
        at(seed);
        (address owner, address t) = owedFrom(who % 5, (seed >> 24) % TOKENS);
        bool done = byOwner
            ? send(owner, abi.encodeCall(escrow.claim, (t, owner)))
            : send(stranger, abi.encodeCall(escrow.claimFor, (owner, t)));
        if (done) count[byOwner ? "claimed" : "claimed for another"]++;
    }

    /// The first that is owed something, from this party and token on; if nobody is, these.
    function owedFrom(uint256 who, uint256 asset) private view returns (address owner, address t) {
        for (uint256 i = 0; i < 5 * TOKENS; i++) {
            (owner, t) = (parties()[(who + i / TOKENS) % 5], tokens[(asset + i) % TOKENS]);
            if (escrow.claimable(owner, t) != 0) return (owner, t);
        }
        return (parties()[who], tokens[asset]);
    }

    // Tokens

    function setFee(uint256 fee) external {
        TrickToken(tokens[TAKES_FEES]).setFee(fee % 3);
        if (fee % 3 != 0) count["fee"]++;
    }

    function pause(bool stopped) external {
        PausableToken(tokens[PAUSES]).setPaused(stopped);
        count[stopped ? "paused" : "resumed"]++;
    }

    function deny(uint256 who, uint256 how) external {
        TrickToken(tokens[DENIES]).setDenial(parties()[who % 5], TrickToken.Denial(how % 4));
    }

    function rebase(uint256 millionths) external judged {
        RebasingToken t = RebasingToken(tokens[REBASES]);
        // Not so often that nothing, or more than there is, is left of a unit.
        if (t.index() > 1e16) millionths = 700_000;
        if (t.index() < 1e8) millionths = 1_300_000;
        t.rebase(bound(millionths, 700_000, 1_300_000));
    }

    /// In the middle of each transfer somebody calls an escrow with what was seen before.
    function callBack(uint256 seed, uint256 which) external {
        TrickToken t = TrickToken(tokens[CALLS_BACK]);
        at(seed);
        if (tape.length == 0 || seed % 4 == 0) t.setHook(address(0), "");
        else t.setHook(targetOf(tape[which % tape.length]), tape[which % tape.length]);
    }

    // Time and guardian

    function wait(uint256 time) external {
        // Now and then so long that a proposed reserver can be installed.
        vm.warp(block.timestamp + (time % 16 == 0 ? escrow.RESERVER_DELAY() : bound(time, 1, 400)));
    }

    /// The guardian's calls, by the guardian mostly; by the reserver and strangers, too.
    function guard(uint256 seed, uint256 what, uint256 who) external judged {
        at(seed);
        address by = guardian;
        if (who % 4 == 1) by = reserver;
        if (who % 4 == 2) by = parties()[(who >> 8) % 5];
        guarding = by == guardian || (by == reserver && what % 8 == 3);
        if (what % 64 == 1) guardBy(by, "retired", abi.encodeCall(escrow.retire, ()));
        if (what % 4 == 2) guardBy(by, "proposed", abi.encodeCall(escrow.proposeReserver, (reserver)));
        if (what % 8 == 3) guardBy(by, "withdrawn", abi.encodeCall(escrow.cancelReserver, ()));
        if (what % 8 == 5 || what % 8 == 7) guardBy(by, "installed", abi.encodeCall(escrow.installReserver, ()));
    }

    function guardBy(address by, string memory what, bytes memory data) private {
        if (send(by, data)) count[what]++;
        else if (!guarding) count["guard refused"]++;
    }

    // The attacker

    /// Any bytes to either escrow.
    function attackWithBytes(uint256 seed, bytes calldata data) external judged {
        at(seed);
        vm.prank(attacker);
        (bool done,) = address(escrow).call{gas: CALL_GAS}(data);
        count[done ? "bytes taken" : "bytes refused"]++;
    }

    /// What was sent before, to the same escrow or the other or to the factory of addresses, as it was or with a byte changed.
    function attackWithReplay(uint256 seed, uint256 which, uint256 place, bytes1 other) external judged {
        if (tape.length == 0) return;
        at(seed);
        bytes memory data = tape[which % tape.length];
        address to = targetOf(data);
        if (seed % 3 == 0) data[place % data.length] = other;
        // What the payer claims it may send to whomever it likes.
        bool byPayer = seed % 5 == 0 && bytes4(data) != escrow.claim.selector;
        vm.prank(byPayer ? payer : attacker);
        (bool done,) = to.call{gas: CALL_GAS}(data);
        if (done) count["replayed"]++;
    }

    /// What the payer signed for the token, brought to the token beside the escrow: to the escrow or to the attacker, as it was or
    /// with another amount, by each function that moves money.
    function attackWithAuthorization(uint256 seed, uint256 which, uint256 amount) external judged {
        if (authorizations.length == 0) return;
        Seen storage seen = authorizations[which % authorizations.length];
        GatewayEscrow.Authorization memory a = seen.authorization;
        address to = seed % 2 == 0 ? seen.escrow : attacker;
        uint256 value = seed % 3 == 0 ? bound(amount, 0, CAP) : a.amount;
        string memory name = seed % 5 < 2 ? "transferWithAuthorization" : "receiveWithAuthorization";
        bytes memory args = abi.encode(payer, to, value, 0, a.validBefore, depositHash(seen.terms));
        string memory form = "(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
        (uint8 v, bytes32 r, bytes32 s) = halves(a.signature);
        bytes memory call = bytes.concat(bytes4(keccak256(abi.encodePacked(name, form))), args, abi.encode(v, r, s));
        vm.prank(attacker);
        (bool done,) = a.token.call{gas: CALL_GAS}(call);
        if (done) broken = "a token took an authorization from a stranger";
        else count["authorization refused"]++;
    }

    /// The verifiers' words that they gave for the other escrow, or on another chain, over the very terms of this payment.
    function attackWithWordsOfOthers(uint256 seed, uint256 where, bool delivered) external judged {
        (uint256 e, Slot storage slot) = at(seed);
        GatewayEscrow.Escrow memory terms = termsOf(slot.id);
        uint256 chain = block.chainid;
        if (where % 2 == 0) escrow = escrows[1 - e];
        else vm.chainId(chain + 1);
        bytes32 digest = delivered
            ? deliveryDigest(slot.id, terms.quoteHash, terms.settler)
            : nonDeliveryDigest(slot.id, terms.quoteHash);
        bytes memory word = slot.bySet ? attest(set, digest, 3) : sign(releaserKey, digest);
        vm.chainId(chain);
        escrow = escrows[e];
        vm.prank(attacker);
        (bool done,) = address(escrow).call(
            delivered ? abi.encodeCall(escrow.release, (terms, word)) : abi.encodeCall(escrow.cancel, (terms, word))
        );
        if (done) broken = "a word for elsewhere counted";
    }

    /// An escrow's own call of itself, by somebody else.
    function attackTheInside(uint256 seed, uint256 amount) external judged {
        at(seed);
        address t = tokens[(seed >> 24) % TOKENS];
        uint256 held = TrickToken(t).balanceOf(address(escrow));
        vm.prank(attacker);
        (bool done, bytes memory why) =
            address(escrow).call(abi.encodeCall(escrow.transferAtMost, (t, attacker, amount, amount, held, 0)));
        if (done) broken = "somebody else moved money";
        if (bytes4(why) == GatewayEscrow.CallerNotSelf.selector) count["inside refused"]++;
    }

    /// An escrow, a token, and the attacker.
    function parts() external view returns (address, address, address) {
        return (address(escrows[0]), tokens[PLAIN], attacker);
    }

    /// Writes a word of the first payment's record, as nothing but the escrow could.
    function write(uint256 word, uint256 value) external {
        // `_records` is in slot 2 behind the reserver with its flags and the next reserver.
        bytes32 at_ = keccak256(abi.encode(slots[0][0].id, RECORDS_SLOT));
        bytes32 slot = bytes32(uint256(at_) + word);
        assertNotEq(vm.load(address(escrows[0]), slot), 0);
        vm.store(address(escrows[0]), slot, bytes32(value));
    }

    /// Nothing happens, and is judged.
    function look() external judged {}

    function awardOf(Slot storage slot, uint256 amount, address to, bytes memory quote)
        private
        view
        returns (GatewayEscrow.Reservation memory r)
    {
        r = reservation();
        (r.paymentId, r.settler, r.quoteHash) = (slot.id, to, keccak256(quote));
        r.sourceAmount = bound(amount, 1, CAP);
        r.fulfillBy = uint48(block.timestamp) + 50;
    }
}

/// @notice Over random sequences of all of that, in eight tokens at two escrows at once: the judge finds nothing.
contract EscrowAdversaryTest is Test {
    AdversaryActor private actor;

    function setUp() public {
        actor = new AdversaryActor();
        actor.setUp();
        bytes4[] memory actions = new bytes4[](30);
        actions[0] = actions[1] = AdversaryActor.deposit.selector;
        actions[2] = actions[20] = AdversaryActor.reserve.selector;
        actions[3] = AdversaryActor.reassign.selector;
        actions[4] = AdversaryActor.release.selector;
        actions[5] = AdversaryActor.cancel.selector;
        actions[6] = AdversaryActor.refund.selector;
        actions[7] = AdversaryActor.claim.selector;
        actions[8] = AdversaryActor.setFee.selector;
        actions[9] = AdversaryActor.pause.selector;
        actions[10] = AdversaryActor.deny.selector;
        actions[11] = AdversaryActor.rebase.selector;
        actions[12] = AdversaryActor.callBack.selector;
        actions[13] = AdversaryActor.wait.selector;
        actions[14] = AdversaryActor.guard.selector;
        actions[15] = AdversaryActor.attackWithBytes.selector;
        actions[16] = AdversaryActor.attackWithReplay.selector;
        actions[17] = AdversaryActor.attackWithWordsOfOthers.selector;
        actions[18] = AdversaryActor.attackTheInside.selector;
        actions[19] = AdversaryActor.attackWithAuthorization.selector;
        actions[21] = AdversaryAddresses.payTo.selector;
        actions[22] = actions[25] = bytes4(keccak256("depositFrom(uint256,uint256,uint256)"));
        actions[23] = bytes4(keccak256("giveBack(uint256,uint256,uint256)"));
        actions[24] = AdversaryAddresses.attackTheAddress.selector;
        actions[26] = actions[27] = AdversaryOffers.purchase.selector;
        actions[28] = AdversaryOffers.attackWithPurchase.selector;
        actions[29] = AdversaryOffers.collectAny.selector;
        targetSelector(FuzzSelector(address(actor), actions));
        targetContract(address(actor));
    }

    /// forge-config: default.invariant.runs = 32
    /// forge-config: default.invariant.depth = 128
    /// forge-config: default.invariant.shrink-run-limit = 300
    function invariant_NothingIsLostStolenOrChangedByStrangers() public view {
        assertEq(actor.broken(), "");
    }

    /// One long sequence, always the same: everything happens in it that this is about.
    function test_EverythingHappens() public {
        for (uint256 i = 0; i < 2_000; i++) {
            uint256 x = uint256(keccak256(abi.encode("everything", 5, i)));
            uint256 y = uint256(keccak256(abi.encode(x)));
            act(x % 41, y, uint256(keccak256(abi.encode(y))));
        }
        assertEq(actor.broken(), "");
        string[29] memory all = [
            "deposited",
            "authorized",
            "reserved",
            "reassigned",
            "released",
            "cancelled",
            "refunded",
            "claimed",
            "claimed for another",
            "fee",
            "paused",
            "resumed",
            "proposed",
            "withdrawn",
            "installed",
            "retired",
            "guard refused",
            "replayed",
            "bytes refused",
            "inside refused",
            "authorization refused",
            "deposited for",
            "paid to an address",
            "from an address",
            "given back",
            "address refused",
            "purchased",
            "brought to the token",
            "collected"
        ];
        for (uint256 i = 0; i < all.length; i++) {
            assertGt(actor.count(all[i]), 0, all[i]);
        }
    }

    function act(uint256 what, uint256 x, uint256 y) private {
        if (what < 4) actor.deposit(x, y, y >> 8, y >> 16);
        // Only an own deposit needs it, and soon.
        if (what == 4 || what == 28 || what == 29) actor.reserve(x, y);
        if (what == 5) actor.reassign(x, y, y >> 8);
        if (what == 6) actor.release(x, y);
        if (what == 7) actor.cancel(x, y);
        if (what == 8) actor.refund(x);
        if (what == 9 || what == 21) actor.claim(x, y, y % 3 == 0);
        if (what == 10) actor.wait(x);
        if (what == 11 || what > 21 && what < 25) actor.attackWithReplay(x, y, y >> 8, bytes1(uint8(y)));
        if (what == 12) actor.attackWithWordsOfOthers(x, y, y % 3 == 0);
        if (what == 13) actor.callBack(x, y);
        if (what == 14) actor.rebase(x);
        if (what == 15 || what == 26) actor.deny(x, y);
        if (what == 16) actor.setFee(x);
        if (what == 17) actor.pause(x % 2 == 0);
        if (what == 18 || what == 25) actor.guard(x, y, y >> 8);
        if (what == 19) actor.attackWithBytes(x, bytesOf(x, y));
        if (what == 20) actor.attackTheInside(x, y);
        if (what == 27) actor.attackWithAuthorization(x, y, y >> 8);
        if (what == 30 || what == 34) actor.payTo(x, y, y >> 8);
        if (what == 31 || what == 35) actor.depositFrom(x, y, y >> 8);
        if (what == 32) actor.giveBack(x, y, y >> 8);
        if (what == 33) actor.attackTheAddress(x, y, y >> 8);
        if (what == 36 || what == 37) actor.purchase(x, y, y >> 8);
        if (what == 38 || what == 40) actor.attackWithPurchase(x, y, y >> 8);
        if (what == 39) actor.collectAny(x, y, y >> 8);
    }

    /// A call that the escrow knows, with anything behind it.
    function bytesOf(uint256 x, uint256 y) private pure returns (bytes memory) {
        bytes4[4] memory calls = [
            GatewayEscrow.claim.selector,
            GatewayEscrow.release.selector,
            GatewayEscrow.proposeReserver.selector,
            GatewayEscrow.retire.selector
        ];
        return bytes.concat(calls[(x >> 32) % 4], abi.encode(x, uint160(y)));
    }

    /// The judge is not blind: a unit that leaves an escrow or an address, and a record of another state or of other terms, are
    /// found, and so is a reserver that nobody proposed here.
    function test_TheJudgeFindsWhatWasStolen() public {
        (address at, address token, address thief) = actor.parts();
        for (uint256 i = 0; i < 6; i++) {
            uint256 snapshot = vm.snapshotState();
            actor.deposit(0, 1, 0, 0);
            actor.payTo(1, 1_000, 0);
            actor.purchase(256, 0, 0);
            actor.attackWithPurchase(0, 0, 0);
            assertEq(actor.broken(), "");
            if (i == 0) vm.prank(at);
            if (i == 4) vm.prank(actor.addressAt(0));
            if (i == 5) vm.prank(actor.offerAddressAt(0));
            if (i == 3) vm.prank(makeAddr("guardian"));
            // What the record says of the state, and of the terms.
            if (i == 0 || i > 3) TrickToken(token).transfer(thief, 1);
            else if (i == 1) actor.write(0, 3);
            else if (i == 2) actor.write(1, 3);
            else GatewayEscrow(at).proposeReserver(thief);
            actor.look();
            assertNotEq(actor.broken(), "");
            vm.revertToState(snapshot);
        }
    }
}
