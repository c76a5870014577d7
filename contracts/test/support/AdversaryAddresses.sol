// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../../src/DepositAddress.sol";
import {DepositAddresses} from "../../src/DepositAddresses.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {Adversary} from "./Adversary.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice What is done with deposit addresses, for both escrows and in every token; and the tape of all that was sent, for the
/// attacker.
abstract contract AdversaryAddresses is Adversary {
    uint256 private constant TAPE = 64;
    uint256 private constant ADDRESSES = 80;
    /// Gas of each call: a receiver that burns it all leaves the rest of a sequence its own.
    uint256 internal constant CALL_GAS = 2_000_000;

    bytes[] internal tape;
    DepositAddresses.Terms[] private made;

    function at(uint256 seed) internal returns (uint256 e, Slot storage slot) {
        e = seed % 2;
        escrow = escrows[e];
        slot = slots[e][(seed >> 8) % SLOTS];
    }

    /// Sends it to the escrow, and keeps it for the attacker.
    function send(address by, bytes memory data) internal returns (bool) {
        return sendTo(by, address(escrow), data);
    }

    function sendTo(address by, address to, bytes memory data) internal returns (bool done) {
        if (tape.length < TAPE) tape.push(data);
        else tape[uint256(keccak256(data)) % TAPE] = data;
        vm.prank(by);
        (done,) = to.call{gas: CALL_GAS}(data);
    }

    /// Whom a call on the tape is for.
    function targetOf(bytes memory data) internal view virtual returns (address) {
        bytes4 selector = bytes4(data);
        bool ofFactory = selector == factory.deposit.selector || selector == factory.giveBack.selector;
        return ofFactory ? address(factory) : address(escrow);
    }

    /// The slot is for another payment when that of before is over.
    function renewed(uint256 seed) internal returns (Slot storage slot) {
        (, slot) = at(seed);
        if (slot.last.state == GatewayEscrow.State.Released || slot.last.state == GatewayEscrow.State.Refunded) {
            slot.id = newId();
            delete slot.last;
        }
    }

    function depositOf(Slot storage slot) internal view returns (GatewayEscrow.GatewayDeposit memory d) {
        d = depositTerms();
        d.paymentId = slot.id;
        if (slot.bySet) d.releaser = idOf(set);
        d.reserveDeadline = uint48(block.timestamp) + 60;
        d.fulfillmentDeadline = uint48(block.timestamp) + 600;
        d.refundAfter = uint48(block.timestamp) + 1_200;
    }

    function known(GatewayEscrow.Escrow memory e) internal returns (bytes32 c) {
        c = commitment(e);
        termsBy[c] = e;
    }

    function admit(GatewayEscrow.Escrow memory e) internal {
        say("admission", known(e));
    }

    /// The payer pays to the address of a payment, or again, or another token, to one that is there.
    function payTo(uint256 seed, uint256 amount, uint256 asset) external judged {
        Slot storage slot = renewed(seed);
        asset %= TOKENS;
        bool another = made.length < ADDRESSES && slot.last.state == GatewayEscrow.State.None && seed % 3 != 0;
        if (another) {
            GatewayEscrow.GatewayDeposit memory d = depositOf(slot);
            d.termsHash = keccak256(abi.encode("address", made.length));
            made.push(DepositAddresses.Terms(address(escrow), tokens[asset], bound(amount, 1, CAP), d));
        }
        if (made.length == 0) return;
        address to = addressBy(made[another ? made.length - 1 : amount % made.length]);
        sentTo[payer][asset].push(to);
        vm.prank(payer);
        // The least that its terms say, or half of it, or twice.
        uint256 sent = bound(amount, 1, CAP) * (1 + seed % 5) / 2;
        (bool done,) = tokens[asset].call{gas: CALL_GAS}(abi.encodeCall(TrickToken.transfer, (to, sent)));
        if (done) count["paid to an address"]++;
        // Each address once, for the judge to count.
        for (uint256 i = 0; i + 1 < sentTo[payer][asset].length; i++) {
            if (sentTo[payer][asset][i] == to) {
                sentTo[payer][asset].pop();
                break;
            }
        }
    }

    function addressAt(uint256 i) external view returns (address) {
        return addressBy(made[i]);
    }

    function isOpen(DepositAddresses.Terms memory t) private view returns (bool) {
        return block.timestamp <= t.deposit.reserveDeadline
            && GatewayEscrow(t.escrow).recordOf(t.deposit.paymentId).state == GatewayEscrow.State.None;
    }

    /// The first from this one on of which a deposit can be made; if there is none, this.
    function openFrom(uint256 which) private view returns (uint256) {
        for (uint256 i = 0; i < made.length; i++) {
            if (isOpen(made[(which + i) % made.length])) return (which + i) % made.length;
        }
        return which;
    }

    /// With the reserver's word on what is there, or on some other amount; by a stranger or by the attacker.
    function depositFrom(uint256 seed, uint256 which, uint256 amount) external judged {
        if (made.length == 0) return;
        DepositAddresses.Terms memory t = made[openFrom(which % made.length)];
        escrow = GatewayEscrow(t.escrow);
        uint256 there = TrickToken(t.token).balanceOf(addressBy(t));
        uint256 deposited = seed % 4 == 0 || there == 0 ? bound(amount, 1, CAP) : there;
        GatewayEscrow.Reservation memory r = reservation();
        r.paymentId = t.deposit.paymentId;
        r.sourceAmount = bound(amount, 1, deposited);
        r.fulfillBy = uint48(block.timestamp) + 50;
        admit(asReserved(asDeposited(t.deposit, t.token, deposited), r));
        bytes memory call = callOf(FromAddress(t, deposited, r, t.deposit.reserveDeadline));
        if (sendTo(seed % 3 == 0 ? attacker : stranger, address(factory), call)) count["from an address"]++;
    }

    /// Of any token; what can still be deposited is refused, and what cannot is never in a token that does what it is told.
    function giveBack(uint256 seed, uint256 which, uint256 asset) external judged {
        if (made.length == 0) return;
        DepositAddresses.Terms memory t = made[which % made.length];
        asset %= TOKENS;
        address token_ = seed % 2 == 0 ? t.token : tokens[asset];
        bool open = isOpen(t);
        uint256 there = TrickToken(token_).balanceOf(addressBy(t));
        bool done = sendTo(stranger, address(factory), abi.encodeCall(factory.giveBack, (t, token_)));
        if (done && open && token_ == t.token) broken = "what may be deposited was given back";
        if (done && there == 0) broken = "something was given back where nothing was";
        if (!done && there != 0 && token_ == tokens[PLAIN] && (!open || token_ != t.token)) {
            broken = "nothing was given back";
        }
        if (done) count["given back"]++;
    }

    /// What only the factory says to an address, by others, to it or to the code behind it.
    function attackTheAddress(uint256 seed, uint256 which, uint256 amount) external judged {
        if (made.length == 0) return;
        DepositAddresses.Terms memory t = made[which % made.length];
        address target = seed % 3 == 0 ? factory.implementation() : addressBy(t);
        if (target.code.length == 0) return;
        uint256 there = TrickToken(t.token).balanceOf(target);
        bytes memory call = seed % 2 == 0
            ? abi.encodeCall(DepositAddress.pay, (t.token, attacker, seed % 5 == 0 ? amount : there))
            : abi.encodeCall(DepositAddress.deposit, (t, there, reservation(), ADMITTED_UNTIL, ""));
        vm.prank([attacker, payer, reserver, t.escrow][(seed >> 16) % 4]);
        (bool done,) = target.call{gas: CALL_GAS}(call);
        if (done) broken = "an address did what a stranger said";
        else count["address refused"]++;
    }
}
