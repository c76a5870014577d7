// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Mandates} from "../src/Mandates.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice Does whatever is possible with three mandates in one token in any order: two of one payer's and one of another's, with periods
/// of other lengths. Keeps by itself what each was drawn in which period, what of it was given to whom, and what strangers sent.
contract MandateActor is Mandating {
    uint256 public constant MANDATES = 3;

    /// Of each mandate: what was drawn in a period, and in all; what came back to its payer; what strangers sent, and what of that was
    /// given back.
    mapping(uint256 mandate => mapping(uint256 period => uint256)) private _drawnIn;
    mapping(uint256 mandate => uint256) public drawn;
    mapping(uint256 mandate => uint256) public returned;
    mapping(uint256 mandate => uint256) public sent;
    mapping(uint256 mandate => uint256) public givenBack;
    mapping(uint256 mandate => bool) public ended;
    /// What settlers got.
    uint256 public earned;
    uint256 public open;

    bytes[MANDATES] private _mandates;
    bytes[MANDATES] private _permits;
    address[MANDATES] public placeOf;
    /// Which mandate each payment is of.
    mapping(uint256 payment => uint256 mandate) private _of;
    uint256 private _payments;

    /// More than a period's; at another time or once it was ended; something else that should not have been; not drawn, though nothing
    /// was against it.
    bool public drawnTooMuch;
    bool public drawnOutside;
    bool public drawnWrongly;
    bool public lacked;

    function setUp() public override {
        super.setUp();
        token.mint(attacker, WEALTH);
        vm.prank(attacker);
        token.approve(PERMIT2, type(uint256).max);
        for (uint256 i = 0; i < MANDATES; i++) {
            Mandates.Mandate memory m = mandateOf(i == 2 ? attacker : payer, address(token));
            (m.salt, m.termsBefore, m.termsAfter) = (bytes32(i), "before", "after");
            (m.periodSeconds, m.periods, m.amount) = (uint32(40 * (i + 1)), 6, uint160(100 + i));
            m.least = LEAST_RATE * m.amount;
            _mandates[i] = abi.encode(m);
            placeOf[i] = addressBy(m);
            _permits[i] = sign(i == 2 ? attackerKey : payerKey, permitDigest(m));
        }
    }

    function mandateAt(uint256 i) private view returns (Mandates.Mandate memory) {
        return abi.decode(_mandates[i], (Mandates.Mandate));
    }

    function parties() external view returns (DevToken, address, address, address, address) {
        return (token, address(escrow), payer, attacker, settler);
    }

    /// A charge, mostly of less than half a period's; the payer's signature comes along, or an older charge is asked for again.
    function charge(uint256 i, uint256 amount, bool again) external {
        i = i % MANDATES;
        Mandates.Mandate memory m = mandateAt(i);
        amount = amount % 4 == 0 ? bound(amount, 0, m.amount + 1) : bound(amount, 1, 40);
        uint256 id = again && _payments != 0 ? amount % _payments : _payments;
        Drawing memory f = unsigned(m, id, uint160(amount));
        f.charge.reserveDeadline = f.charge.fulfillmentDeadline = f.award.fulfillBy = uint48(block.timestamp) + 20;
        f.charge.refundAfter = uint48(block.timestamp) + 30;
        f.charge.signature = sign(merchantKey, chargeDigestBy(mandates, placeOf[i], f.charge));
        f.permit = _permits[i];
        bool inForce = block.timestamp >= START && block.timestamp < START + 240 * (i + 1);
        uint256 period = (block.timestamp - START) / m.periodSeconds;
        bool may = inForce && !ended[i] && id == _payments && amount != 0 && _drawnIn[i][period] + amount <= m.amount;
        (bool done,) = address(mandates).call(callOf(f));
        if (may && !done) lacked = true;
        if (!done) return;
        if (!inForce || ended[i]) drawnOutside = true;
        if (!may) drawnWrongly = true;
        _drawnIn[i][period] += amount;
        if (_drawnIn[i][period] > m.amount) drawnTooMuch = true;
        drawn[i] += amount;
        open += amount;
        _of[_payments++] = i;
        GatewayEscrow.GatewayDeposit memory d = depositBy(m, f.charge);
        noteTerms(asReserved(asDeposited(d, m.token, amount), f.award));
    }

    /// A payment is delivered for part of what was drawn, or is not, or nobody says anything in its time.
    function end(uint256 payment, uint256 way) external {
        if (_payments == 0) return;
        bytes32 id = idOf(payment % _payments);
        GatewayEscrow.Escrow memory e = termsOf(id);
        bytes memory call;
        if (way % 3 == 0) call = abi.encodeCall(escrow.release, (e, signDelivery(releaserKey, id, QUOTE, settler)));
        if (way % 3 == 1) call = abi.encodeCall(escrow.cancel, (e, signNonDelivery(releaserKey, id, QUOTE)));
        if (way % 3 == 2) call = abi.encodeCall(escrow.refund, (e));
        (bool done,) = address(escrow).call(call);
        if (!done) return;
        uint256 paid = way % 3 == 0 ? e.sourceAmount : 0;
        earned += paid;
        open -= e.deposited;
        returned[_of[payment % _payments]] += e.deposited - paid;
    }

    /// A mandate's end, which is rare, with the payer's signature.
    function cancel(uint256 i, uint256 rare) external {
        i = i % MANDATES;
        if (rare % 16 != 0) return;
        Mandates.Mandate memory m = mandateAt(i);
        mandates.cancel(m, sign(i == 2 ? attackerKey : payerKey, cancellationDigest(m)));
        ended[i] = true;
    }

    function send(uint256 i, uint256 amount) external {
        i = i % MANDATES;
        amount = bound(amount, 1, 300);
        token.mint(placeOf[i], amount);
        sent[i] += amount;
    }

    function giveBack(uint256 i) external {
        i = i % MANDATES;
        try mandates.giveBack(mandateAt(i), address(token)) returns (uint256 amount) {
            givenBack[i] += amount;
        } catch {}
    }

    function pass(uint256 time) external {
        vm.warp(block.timestamp + time % 20);
    }
}

/// @notice No more than its amount is drawn by a mandate in a period, in the periods alone and not once it is ended, and what is asked for
/// within that is drawn; its address has what strangers sent and was not given back, and nothing else; and what each payer gave is what the
/// escrow has for it, what settlers got and what came back, to the unit.
contract MandatesConservationTest is Test {
    MandateActor private actor;

    function setUp() public {
        actor = new MandateActor();
        actor.setUp();
        bytes4[] memory actions = new bytes4[](6);
        actions[0] = MandateActor.charge.selector;
        actions[1] = MandateActor.end.selector;
        actions[2] = MandateActor.cancel.selector;
        actions[3] = MandateActor.send.selector;
        actions[4] = MandateActor.giveBack.selector;
        actions[5] = MandateActor.pass.selector;
        targetSelector(FuzzSelector(address(actor), actions));
        targetContract(address(actor));
    }

    function invariant_NoMoreThanAPeriodsAndNothingIsLost() public view {
        assertFalse(actor.drawnTooMuch(), "more than a period's");
        assertFalse(actor.drawnOutside(), "not in force");
        assertFalse(actor.drawnWrongly(), "drawn");
        assertFalse(actor.lacked(), "not drawn");
        (DevToken token, address escrow, address payer, address another, address settler) = actor.parties();
        uint256[2] memory gave;
        for (uint256 i = 0; i < 3; i++) {
            assertEq(token.balanceOf(actor.placeOf(i)), actor.sent(i) - actor.givenBack(i), "strays");
            gave[i / 2] += 1_000_000e6 + actor.returned(i) + actor.givenBack(i) - actor.drawn(i);
        }
        assertEq(token.balanceOf(payer), gave[0] - 1_000_000e6, "the payer's");
        assertEq(token.balanceOf(another), gave[1], "the other payer's");
        assertEq(token.balanceOf(escrow), actor.open(), "the escrow's");
        assertEq(token.balanceOf(settler), actor.earned(), "the settler's");
    }
}
