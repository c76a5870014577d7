// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {OfferAddresses} from "../src/OfferAddresses.sol";
import {Authority} from "./support/Authority.sol";
import {Hash} from "./support/Hash.sol";
import {svm, vm} from "./support/Proofs.sol";

/// @notice (g) What a buyer authorizes to an offer's address goes into the escrow with the buyer's signature and the reserver's, as
/// that buyer's payment, and what lies there goes to the merchant, whoever calls, whenever, with any amounts lying there, awards and
/// signatures. The offer is one, known in full, and so are the buyer and the nonce, since Halmos computes neither an address nor a
/// payment's id of what it does not know; that other offers are other addresses, and what id and terms follow from whom, is in
/// `OfferAddressTerms.t.sol` and `OfferAddresses.t.sol` (every bit, and fuzz).
/// @custom:halmos --solver-timeout-branching 2000
contract OfferProofs is Authority {
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    address private constant MERCHANT = address(0x3e5c4);
    bytes32 private constant NONCE = bytes32(uint256(7));
    uint256 private constant AMOUNT = 1_000;

    OfferAddresses private offers;
    OfferAddresses.Offer private offer;
    address private at;
    /// Another that somebody sent there.
    DevToken private other;

    function setUp() public override {
        super.setUp();
        offers = new OfferAddresses();
        other = new DevToken("Other", "dOTH", 6);
        offer = OfferAddresses.Offer(
            address(escrow), address(stable), AMOUNT, RESERVER, RELEASER, MERCHANT, 900, 600, "before", "after"
        );
        at = offers.addressOf(offer);
        vm.etch(address(uint160(block.chainid)), address(new Hash()).code);
        vm.etch(address(offers), withAnotherHash(address(offers).code));
    }

    /// Both calls of the precompile are for the address that is the chain's id: instead of its address, which the compiler takes
    /// from the stack (DUP6 GAS STATICCALL), the code pushes that (CHAINID).
    function withAnotherHash(bytes memory code) private pure returns (bytes memory) {
        uint256 found;
        assembly ("memory-safe") {
            let end := add(add(code, 0x1d), mload(code))
            for { let i := add(code, 0x20) } lt(i, end) { i := add(i, 1) } {
                if eq(shr(232, mload(i)), 0x855afa) {
                    mstore8(i, 0x46)
                    found := add(found, 1)
                }
            }
        }
        assert(found == 2);
        return code;
    }

    /// So much lies at the address, of another token, and of coins.
    function lay(uint128 strays, uint128 strange, uint128 coins) private {
        vm.assume(strays <= type(uint128).max - AMOUNT);
        stable.mint(at, strays);
        other.mint(at, strange);
        vm.deal(at, coins);
    }

    /// All of a token or of the coins, to the merchant alone, at any time; nothing else moves with it.
    function check_WhatLiesAtAnAddressIsTheMerchants(
        Attempt memory a,
        uint8 what,
        uint128 strays,
        uint128 strange,
        uint128 coins
    ) public {
        lay(strays, strange, coins);
        vm.assume(what < 3);
        address asset = what == 0 ? address(stable) : what == 1 ? address(other) : address(0);
        uint256 there = what == 0 ? strays : what == 1 ? strange : coins;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = address(offers).call(abi.encodeCall(offers.collect, (offer, asset)));
        assert(done == (there != 0));
        assert(stable.balanceOf(at) == (what == 0 ? 0 : strays) && stable.balanceOf(MERCHANT) == (what == 0 ? strays : 0));
        assert(other.balanceOf(at) == (what == 1 ? 0 : strange) && other.balanceOf(MERCHANT) == (what == 1 ? strange : 0));
        assert(at.balance == (what == 2 ? 0 : coins) && MERCHANT.balance == (what == 2 ? coins : 0));
        assert(stable.balanceOf(PAYER) == WEALTH && stable.balanceOf(address(escrow)) == 0);
    }

    /// What is deposited is just the offer's amount, of the payer's own, which signed it to this address; for the payment and with
    /// the windows that follow; and the reserver has signed that with the award. What lies there stays there.
    function check_ADepositTakesTheBuyersWordAndTheReservers(
        Attempt memory a,
        GatewayEscrow.Reservation memory r,
        bool made,
        uint128 strays,
        uint256 validAfter,
        uint256 validBefore,
        uint48 admittedUntil
    ) public {
        lay(strays, 1, 0);
        if (made) offers.collect(offer, address(other));
        bytes memory byReserver = signature("reserver");
        OfferAddresses.Purchase memory p =
            OfferAddresses.Purchase(PAYER, validAfter, validBefore, NONCE, signature("buyer"));
        vm.warp(a.time);
        vm.roll(block.number + 1);
        vm.prank(a.caller);
        (bool done,) =
            address(offers).call(abi.encodeCall(offers.deposit, (offer, p, r, admittedUntil, byReserver)));
        if (!done) return;
        GatewayEscrow.GatewayDeposit memory d = offers.depositOf(offer, PAYER, validBefore, NONCE);
        assert(d.payer == PAYER && d.reserver == RESERVER && d.releaser == RELEASER && d.quoteHash == 0);
        assert(d.reserveDeadline == validBefore - 1 && d.refundAfter == validBefore - 1 + 1_500);
        assert(a.time > validAfter && a.time <= d.reserveDeadline && a.time <= admittedUntil);
        assert(signerOf(stable.DOMAIN_SEPARATOR(), authorized(p), p.signature) == PAYER);
        assert(signerOf(admission(d, r, AMOUNT, admittedUntil), byReserver) == RESERVER);
        assert(r.paymentId == d.paymentId && r.sourceAmount != 0 && r.sourceAmount <= AMOUNT);
        assert(stable.balanceOf(at) == strays && stable.balanceOf(address(escrow)) == AMOUNT);
        assert(stable.balanceOf(PAYER) == WEALTH - AMOUNT && stable.balanceOf(MERCHANT) == 0);
        assert(stable.allowance(at, address(escrow)) == 0 && stable.authorizationState(PAYER, NONCE));
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), AMOUNT, 0, address(0), 0, 0), r), 1, block.number);
    }

    function authorized(OfferAddresses.Purchase memory p) private view returns (bytes32) {
        return keccak256(abi.encode(TRANSFER_TYPEHASH, p.payer, at, AMOUNT, p.validAfter, p.validBefore, p.nonce));
    }

    /// Whatever anyone but the factory says to an address or to the code behind it is refused.
    function check_OnlyTheFactoryCommandsAnAddressOfAnOffer(Attempt memory a, bool implementation) public {
        lay(1, 1, 0);
        offers.collect(offer, address(other));
        vm.assume(a.caller != address(offers));
        bytes memory call = svm.createCalldata("DepositAddress");
        address target = implementation ? offers.implementation() : at;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = target.call(call);
        assert(!done);
        assert(stable.balanceOf(at) == 1);
    }
}
