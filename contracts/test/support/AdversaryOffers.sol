// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../../src/DepositAddress.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {OfferAddresses} from "../../src/OfferAddresses.sol";
import {AdversaryAddresses} from "./AdversaryAddresses.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice What is done with the addresses of offers, for both escrows and in every token. The merchant is the stranger, whose due is
/// what was brought to a token past the contract.
abstract contract AdversaryOffers is AdversaryAddresses {
    uint256 private constant SALES = 64;

    /// What the payer signed, be it deposited or not.
    Sale[] private sales;
    /// Every payment's id is that of a purchase, for which the payer draws this nonce.
    mapping(bytes32 id => bytes32) private nonces;

    function setUp() public virtual override {
        super.setUp();
        merchant = stranger;
    }

    function newId() internal override returns (bytes32 id) {
        bytes32 nonce = bytes32(++drawn);
        id = idOf(payer, nonce);
        nonces[id] = nonce;
    }

    function targetOf(bytes memory data) internal view override returns (address) {
        bytes4 selector = bytes4(data);
        bool ofOffers = selector == offers.deposit.selector || selector == offers.collect.selector;
        return ofOffers ? address(offers) : super.targetOf(data);
    }

    /// The payer buys what a few offers in each token have, which it signs; somebody brings it here, or it is kept for the attacker.
    function purchase(uint256 seed, uint256 amount, uint256 asset) external judged {
        Slot storage slot = renewed(seed);
        if (slot.last.state != GatewayEscrow.State.None) return;
        asset %= TOKENS;
        slot.bySet = (seed >> 16) % 2 == 1;
        Sale memory s;
        s.offer = offerIn(tokens[asset]);
        s.offer.amount = amount % 2 == 0 ? CAP : QUOTED;
        if (slot.bySet) s.offer.releaser = idOf(set);
        s.purchase = OfferAddresses.Purchase(payer, 0, block.timestamp + 61, nonces[slot.id], "");
        s.purchase.signature = sign(payerKey, saleDigest(s));
        s.award = reservation();
        s.award.paymentId = slot.id;
        s.award.sourceAmount = bound(amount, 1, s.offer.amount);
        s.award.fulfillBy = uint48(block.timestamp) + 50;
        s.admittedUntil = uint48(block.timestamp) + 60;
        admit(asReserved(asDeposited(depositOf(s), s.offer.token, s.offer.amount), s.award));
        note(s, asset);
        bytes memory call = callOf(s);
        if (seed % 4 != 0 && sendTo(seed % 3 == 0 ? attacker : stranger, address(offers), call)) count["purchased"]++;
    }

    function note(Sale memory s, uint256 asset) private {
        if (sales.length < SALES) sales.push(s);
        else sales[uint256(s.award.paymentId) % SALES] = s;
        address to = addressBy(s.offer);
        address[] storage known_ = sentTo[merchant][asset];
        for (uint256 i = 0; i < known_.length; i++) {
            if (known_[i] == to) return;
        }
        known_.push(to);
    }

    function offerAddressAt(uint256 i) external view returns (address) {
        return addressBy(sales[i].offer);
    }

    /// What was signed is brought to the token: then the merchant is paid. To somebody else, or of another amount, it is refused.
    function attackWithPurchase(uint256 seed, uint256 which, uint256 amount) external judged {
        if (sales.length == 0) return;
        Sale memory s = sales[which % sales.length];
        Move memory m = moveOf(s);
        bool asSigned = seed % 3 == 0;
        if (seed % 3 == 1) m.to = attacker;
        if (seed % 3 == 2) m.value = bound(amount, 0, m.value - 1);
        (uint8 v, bytes32 r, bytes32 bottom) = halves(s.purchase.signature);
        string memory form =
            "transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)";
        vm.prank(attacker);
        (bool done,) = s.offer.token.call{gas: CALL_GAS}(
            bytes.concat(bytes4(keccak256(bytes(form))), abi.encode(m), abi.encode(v, r, bottom))
        );
        if (!done) return;
        if (!asSigned) broken = "a token took a purchase for another";
        for (uint256 asset = 0; asset < TOKENS; asset++) {
            if (tokens[asset] != s.offer.token) continue;
            due[payer][asset] -= int256(m.value);
            due[merchant][asset] += int256(m.value);
        }
        count["brought to the token"]++;
    }

    /// To the merchant; and what only the factory says to an address, by others.
    function collectAny(uint256 seed, uint256 which, uint256 asset) external judged {
        if (sales.length == 0) return;
        OfferAddresses.Offer memory o = sales[which % sales.length].offer;
        address token_ = seed % 2 == 0 ? o.token : tokens[asset % TOKENS];
        address to = addressBy(o);
        uint256 there = TrickToken(token_).balanceOf(to);
        bool done = sendTo(attacker, address(offers), abi.encodeCall(offers.collect, (o, token_)));
        if (done && there == 0) broken = "something was collected where nothing was";
        if (!done && there != 0 && token_ == tokens[PLAIN]) broken = "nothing was collected";
        if (done) count["collected"]++;
        if (to.code.length == 0) return;
        vm.prank(seed % 3 == 0 ? merchant : attacker);
        (done,) = to.call{gas: CALL_GAS}(abi.encodeCall(DepositAddress.pay, (token_, attacker, there)));
        if (done) broken = "an offer's address did what a stranger said";
    }
}
