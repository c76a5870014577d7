// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {EscrowFixture} from "./support/EscrowFixture.sol";
import {Sequences} from "./support/Sequences.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Does whatever is possible with a few payments in any order, in a token that denies receivers at will. A set of
/// verifiers releases every other payment.
contract EscrowActor is Sequences {
    uint256 public constant PAYMENTS = 6;
    uint256 private constant ADDRESSES = 12;

    Verifiers private _set = verifiers(2, 3);
    /// Whether a set's payment was ended or reassigned by more or fewer of its members than its threshold says.
    bool public endedByOthers;
    /// Whether a reservation was taken from a settler that could still deliver.
    bool public reassignedTooEarly;
    /// Whether a word about a reservation that was replaced ended the payment.
    bool public endedByAnOldWord;

    /// Whether what could still be deposited from an address was given back.
    bool public givenBackTooEarly;

    /// What was paid to addresses, with the award of each; several may be for one payment.
    FromAddress[] private _paid;

    GatewayEscrow.State[PAYMENTS] public lastState;
    bool public leftAFinalState;

    function escrowAddress() external view returns (GatewayEscrow, TrickToken, address, address) {
        return (escrow, trick, payer, settler);
    }

    function idOf(uint256 i) public pure returns (bytes32) {
        return keccak256(abi.encode("payment", i));
    }

    function depositedOf(uint256 i) external view returns (uint256) {
        return termsOf(idOf(i)).deposited;
    }

    function deposit(uint256 i, uint256 amount, uint256 way) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        (GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r) = terms(i, amount);
        if (stateOf(d.paymentId) != GatewayEscrow.State.None) return;
        uint256 drawn = bound(way, r.sourceAmount, CAP);
        if (way % 6 == 0) depositByPayer(d, address(trick));
        if (way % 6 == 1) depositWitnessed(d, r, address(trick));
        if (way % 6 == 2) depositPermitted(d, r, address(trick));
        if (way % 6 == 3) depositAuthorized(d, r, address(trick), drawn);
        if (way % 6 > 3) depositLarger(way % 6 == 4, d, r, address(trick), drawn);
    }

    /// The payer pays to an address, or once more to one that is there.
    function payTo(uint256 i, uint256 amount, uint256 sent) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        if (_paid.length < ADDRESSES && stateOf(idOf(i)) == GatewayEscrow.State.None) {
            (GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r) = terms(i, amount);
            // Each an address of its own.
            d.termsHash = keccak256(abi.encode("terms", _paid.length));
            DepositAddresses.Terms memory t =
                DepositAddresses.Terms(address(escrow), address(trick), bound(sent >> 128, 1, CAP), d);
            _paid.push(FromAddress(t, 0, r, ADMITTED_UNTIL));
        }
        if (_paid.length == 0) return;
        pay(_paid[sent % 2 == 0 ? _paid.length - 1 : amount % _paid.length].terms, bound(uint128(sent), 1, CAP));
    }

    /// What is there, or some other amount, with the reserver's word.
    function depositFrom(uint256 which, uint256 amount) external noting {
        if (_paid.length == 0) return;
        FromAddress memory f = _paid[which % _paid.length];
        f.amount = amount % 4 == 0 ? bound(amount, 1, 2 * CAP) : trick.balanceOf(addressBy(f.terms));
        (bool done,) = address(factory).call(callOf(f));
        if (done) noteTerms(asReserved(asDeposited(f.terms.deposit, address(trick), f.amount), f.award));
    }

    function giveBack(uint256 which) external noting {
        if (_paid.length == 0) return;
        DepositAddresses.Terms memory t = _paid[which % _paid.length].terms;
        bool early = block.timestamp <= t.deposit.reserveDeadline
            && stateOf(t.deposit.paymentId) == GatewayEscrow.State.None;
        (bool done,) = address(factory).call(abi.encodeCall(factory.giveBack, (t, address(trick))));
        if (done && early) givenBackTooEarly = true;
    }

    /// What is at the addresses.
    function atAddresses() external view returns (uint256 sum) {
        for (uint256 i = 0; i < _paid.length; i++) {
            sum += trick.balanceOf(addressBy(_paid[i].terms));
        }
    }

    function reserve(uint256 i, uint256 amount) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        if (stateOf(idOf(i)) != GatewayEscrow.State.Deposited) return;
        (, GatewayEscrow.Reservation memory r) = terms(i, amount);
        bytes memory signature = signReservation(reserverKey, r);
        attempt(abi.encodeCall(escrow.reserve, (termsOf(r.paymentId), r, signature)));
        noteTerms(asReserved(termsOf(r.paymentId), r));
    }

    /// To the one and the other settler in turn.
    function reassign(uint256 i, uint256 amount, uint256 signers) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        GatewayEscrow.Escrow memory e = termsOf(idOf(i));
        (, GatewayEscrow.Reservation memory r) = terms(i, amount);
        uint256 round = escrow.recordOf(r.paymentId).round;
        r.settler = round % 2 == 1 ? nextSettler : settler;
        r.quoteHash = keccak256(abi.encode("quote", round));
        bytes memory signature = signReassignment(reserverKey, e.quoteHash, r);
        bytes memory word = attested(i, nonDeliveryDigest(r.paymentId, e.quoteHash), signers);
        if (!attempt(abi.encodeCall(escrow.reassign, (e, r, signature, word)))) return;
        noteTerms(asReserved(e, r));
        if (bySet(i) && !enough(_set, signers % 8)) endedByOthers = true;
        if (block.timestamp <= e.fulfillBy) reassignedTooEarly = true;
        bytes memory old = attested(i, deliveryDigest(r.paymentId, e.quoteHash, e.settler), signers);
        if (attempt(abi.encodeCall(escrow.release, (termsOf(r.paymentId), old)))) endedByAnOldWord = true;
        if (attempt(abi.encodeCall(escrow.cancel, (termsOf(r.paymentId), word)))) endedByAnOldWord = true;
    }

    function release(uint256 i, uint256 signers) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        bytes32 id = idOf(i);
        GatewayEscrow.Escrow memory e = termsOf(id);
        bytes memory attestation = attested(i, deliveryDigest(id, e.quoteHash, e.settler), signers);
        bool done = attempt(abi.encodeCall(escrow.release, (termsOf(id), attestation)));
        if (done && bySet(i) && !enough(_set, signers % 8)) endedByOthers = true;
    }

    function cancel(uint256 i, uint256 signers) external noting {
        i = bound(i, 0, PAYMENTS - 1);
        bytes32 id = idOf(i);
        bytes memory attestation = attested(i, nonDeliveryDigest(id, termsOf(id).quoteHash), signers);
        bool done = attempt(abi.encodeCall(escrow.cancel, (termsOf(id), attestation)));
        if (done && bySet(i) && !enough(_set, signers % 8)) endedByOthers = true;
    }

    function refund(uint256 i) external noting {
        attempt(abi.encodeCall(escrow.refund, (termsOf(idOf(bound(i, 0, PAYMENTS - 1))))));
    }

    function claim(uint256 who, uint256 to) external noting {
        address receiver = [payer, settler, nextSettler, stranger][to % 4];
        vm.prank(party(who));
        attempt(abi.encodeCall(escrow.claim, (address(trick), receiver)));
    }

    function claimFor(uint256 who) external noting {
        attempt(abi.encodeCall(escrow.claimFor, (party(who), address(trick))));
    }

    /// The token charges its sender for a while, or no more.
    function charge(uint256 rate) external {
        trick.setSurchargeRate(rate % 3 == 0 ? rate % 200_000 : 0);
    }

    function deny(uint256 who, uint256 how) external {
        trick.setDenial(party(who), TrickToken.Denial(how % 4));
    }

    function chooseAnswer(uint256 how) external {
        trick.setAnswer(TrickToken.Answer(how % 2 == 0 ? 0 : 2));
    }

    function wait(uint256 time) external {
        vm.warp(block.timestamp + bound(time, 0, 200));
    }

    modifier noting() {
        _;
        for (uint256 i = 0; i < PAYMENTS; i++) {
            GatewayEscrow.State state = stateOf(idOf(i));
            if (state == lastState[i]) continue;
            if (lastState[i] > GatewayEscrow.State.Reserved) leftAFinalState = true;
            lastState[i] = state;
        }
    }

    function attempt(bytes memory data) private returns (bool done) {
        (done,) = address(escrow).call(data);
    }

    function party(uint256 who) private view returns (address) {
        return [payer, settler, nextSettler][who % 3];
    }

    function bySet(uint256 i) private pure returns (bool) {
        return i % 2 == 1;
    }

    /// The releaser's word, or that of those members of the set whose bits are set.
    function attested(uint256 i, bytes32 digest, uint256 signers) private view returns (bytes memory) {
        return bySet(i) ? attest(_set, digest, signers % 8) : sign(releaserKey, digest);
    }

    function terms(uint256 i, uint256 amount)
        private
        view
        returns (GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r)
    {
        d = depositTerms();
        r = reservation();
        d.paymentId = r.paymentId = idOf(i);
        if (bySet(i)) d.releaser = idOf(_set);
        r.sourceAmount = bound(amount, 1, CAP);
        d.reserveDeadline = uint48(block.timestamp) + 60;
        d.fulfillmentDeadline = uint48(block.timestamp) + 300;
        d.refundAfter = uint48(block.timestamp) + 600;
        r.fulfillBy = uint48(block.timestamp) + 50;
    }
}

/// @notice Money in = money out + money held, whatever happens in whatever order.
contract EscrowConservationTest is EscrowFixture {
    EscrowActor private actor;

    function setUp() public override {
        actor = new EscrowActor();
        actor.setUp();
        bytes4[] memory actions = new bytes4[](15);
        actions[0] = EscrowActor.deposit.selector;
        actions[1] = EscrowActor.reserve.selector;
        actions[2] = EscrowActor.release.selector;
        actions[3] = EscrowActor.cancel.selector;
        actions[4] = EscrowActor.refund.selector;
        actions[5] = EscrowActor.claim.selector;
        actions[6] = EscrowActor.deny.selector;
        actions[7] = EscrowActor.chooseAnswer.selector;
        actions[8] = EscrowActor.wait.selector;
        actions[9] = EscrowActor.claimFor.selector;
        actions[10] = EscrowActor.charge.selector;
        actions[11] = EscrowActor.reassign.selector;
        actions[12] = EscrowActor.payTo.selector;
        actions[13] = bytes4(keccak256("depositFrom(uint256,uint256)"));
        actions[14] = bytes4(keccak256("giveBack(uint256)"));
        targetSelector(FuzzSelector(address(actor), actions));
        targetContract(address(actor));
    }

    /// The escrow holds exactly what is open plus what is claimable, and nothing was made or lost.
    function invariant_TheEscrowHoldsWhatItOwes() public view {
        (GatewayEscrow e, TrickToken t, address payer_, address settler_) = actor.escrowAddress();
        uint256 owed = e.claimable(payer_, address(t)) + e.claimable(settler_, address(t));
        owed += e.claimable(nextSettler, address(t));
        for (uint256 i = 0; i < actor.PAYMENTS(); i++) {
            GatewayEscrow.State state = e.recordOf(actor.idOf(i)).state;
            if (state == GatewayEscrow.State.Deposited || state == GatewayEscrow.State.Reserved) {
                owed += actor.depositedOf(i);
            }
        }
        assertEq(t.balanceOf(address(e)), owed);
        assertEq(e.owedIn(address(t)), owed);
        assertEq(
            t.balanceOf(address(e)) + t.balanceOf(payer_) + t.balanceOf(settler_) + t.balanceOf(nextSettler)
                + t.balanceOf(stranger) + actor.atAddresses() + t.charged(),
            1_000_000e6
        );
    }

    function invariant_WhatMayBeDepositedIsNotGivenBack() public view {
        assertFalse(actor.givenBackTooEarly());
    }

    function invariant_FinalStatesStay() public view {
        assertFalse(actor.leftAFinalState());
    }

    function invariant_ASetEndsPaymentsByItsThreshold() public view {
        assertFalse(actor.endedByOthers());
    }

    function invariant_AReservationIsTakenFromNobodyInTime() public view {
        assertFalse(actor.reassignedTooEarly());
    }

    function invariant_WordsAboutAReplacedReservationEndNothing() public view {
        assertFalse(actor.endedByAnOldWord());
    }

    /// One payment from any deposit to any end: who gets what is fixed by the amounts alone.
    function testFuzz_EveryEndPaysTheWholeDeposit(uint256 amount, bool delivered, bool settlerDenied, bool payerDenied)
        public
    {
        super.setUp();
        amount = bound(amount, 1, CAP);
        depositByPayer(depositTerms(), address(trick));
        GatewayEscrow.Reservation memory r = reservation();
        r.sourceAmount = amount;
        reserve(r, signReservation(reserverKey, r));
        if (settlerDenied) trick.setDenial(settler, TrickToken.Denial.Reverts);
        if (payerDenied) trick.setDenial(payer, TrickToken.Denial.MovesNothing);
        if (delivered) escrow.release(termsOf(r.paymentId), delivery());
        else escrow.cancel(termsOf(r.paymentId), nonDelivery());

        uint256 toSettler = delivered ? amount : 0;
        assertEq(trick.balanceOf(settler) + escrow.claimable(settler, address(trick)), toSettler);
        assertEq(
            trick.balanceOf(payer) + escrow.claimable(payer, address(trick)), 1_000_000e6 - toSettler, "payer's money"
        );
        assertEq(
            trick.balanceOf(address(escrow)),
            escrow.claimable(settler, address(trick)) + escrow.claimable(payer, address(trick))
        );
    }
}
