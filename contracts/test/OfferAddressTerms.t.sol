// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {DevStablecoin} from "../src/DevStablecoin.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {OfferAddresses} from "../src/OfferAddresses.sol";
import {OfferAddressing} from "./support/OfferAddressing.sol";

/// @notice With whose words a purchase comes into the escrow, and that nobody has another way to it: other offers, authorizations,
/// admissions, escrows, chains and factories, the same words again, and calls of the address itself.
contract OfferAddressTermsTest is OfferAddressing {
    bytes32 private constant QUOTE = keccak256("quote");

    // Other offers

    /// Of each word and of each byte of the texts; also where the one text ends and the other begins is part of it.
    function test_EachBitOfTheOfferIsOfAnotherAddress() public view {
        OfferAddresses.Offer memory o = offer();
        address at = addressBy(o);
        for (uint256 field = 0; field < 8; field++) {
            for (uint256 bit = 0; bit < widthOf(field); bit++) {
                isElsewhere(changed(o, field, bit), at);
            }
        }
        for (uint256 i = 0; i < o.termsBefore.length; i++) {
            OfferAddresses.Offer memory other = offer();
            other.termsBefore[i] ^= bytes1(uint8(1 << i % 8));
            isElsewhere(other, at);
            other = offer();
            (other.termsBefore, other.termsAfter) = split(i);
            isElsewhere(other, at);
        }
        for (uint256 i = 0; i < o.termsAfter.length; i++) {
            OfferAddresses.Offer memory other = offer();
            other.termsAfter[i] ^= bytes1(uint8(1 << i % 8));
            isElsewhere(other, at);
        }
    }

    function isElsewhere(OfferAddresses.Offer memory other, address at) private view {
        assertNotEq(offers.addressOf(other), at);
        assertEq(offers.addressOf(other), addressBy(other));
    }

    /// How many bits each of the eight words has.
    function widthOf(uint256 field) private pure returns (uint256) {
        return [uint256(160), 160, 256, 160, 160, 160, 32, 32][field];
    }

    /// With another bit of one of the eight words.
    function changed(OfferAddresses.Offer memory o, uint256 field, uint256 bit)
        private
        pure
        returns (OfferAddresses.Offer memory)
    {
        bytes memory words = encoded(o);
        uint256 place = 32 + 32 * field + 31 - bit / 8;
        words[place] ^= bytes1(uint8(1 << bit % 8));
        return abi.decode(words, (OfferAddresses.Offer));
    }

    /// Both texts behind one another, parted elsewhere.
    function split(uint256 at) private pure returns (bytes memory head, bytes memory tail) {
        bytes memory whole = bytes.concat(TERMS_BEFORE, TERMS_AFTER);
        (head, tail) = (new bytes(at), new bytes(whole.length - at));
        for (uint256 i = 0; i < whole.length; i++) {
            if (i < at) head[i] = whole[i];
            else tail[i - at] = whole[i];
        }
    }

    /// What the buyer signed for one offer serves no other, though the reserver admits that: the token refuses it.
    function testFuzz_ASignatureIsForOneOffer(uint256 field, uint256 bit, uint256 place) public {
        Sale memory s = sale();
        field = bound(field, 2, 9);
        if (field < 8) s.offer = changed(s.offer, field, bound(bit, 0, widthOf(field) - 1));
        if (field == 8) s.offer.termsBefore[place % TERMS_BEFORE.length] ^= bytes1(uint8(1 << bit % 8));
        if (field == 9) s.offer.termsAfter[place % TERMS_AFTER.length] ^= bytes1(uint8(1 << bit % 8));
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        resign(s);
        // Nothing else was missing, unless it cannot be paid, has another reserver or no time to deliver.
        if (field > 3 && field != 6) makeSale(s);
    }

    /// Neither in another token that the buyer has, nor in another escrow of the same reserver.
    function test_ASignatureIsForOneTokenAndOneEscrow() public {
        Sale memory s = sale();
        DevStablecoin other = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
        other.mint(payer, CAP);
        s.offer.token = address(other);
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        resign(s);
        makeSale(s);

        s = sale();
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        s.offer.escrow = address(escrow);
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        resign(s);
        makeSale(s);
        assertEq(stable.balanceOf(address(escrow)), CAP);
    }

    function test_AnOfferWithoutAMerchantHasNoAddress() public {
        Sale memory s = sale();
        address at = addressBy(s.offer);
        stable.mint(at, CAP);
        s.offer.merchant = address(0);
        resign(s);
        bytes memory refusal = abi.encodeWithSelector(OfferAddresses.MerchantMissing.selector);
        expectOfferCallRefused(abi.encodeCall(offers.addressOf, (s.offer)), refusal);
        expectSaleRefused(s, refusal);
        expectNotCollected(s.offer, address(stable), refusal);
    }

    /// As it is on a chain where there is no such escrow.
    function test_WhereThereIsNoEscrow() public {
        Sale memory s = sale();
        s.offer.escrow = makeAddr("an escrow of another chain");
        resign(s);
        expectSaleRefused(s, abi.encodeWithSelector(OfferAddresses.EscrowMissing.selector, s.offer.escrow));
        bringToTheToken(s);
        assertEq(collect(s.offer, address(stable)), CAP);
        assertEq(stable.balanceOf(merchant), CAP);
    }

    /// Words whose types do not hold them are refused; padding behind the texts, and where they lie, is no part of the offer.
    function test_TheSameOfferInAnotherForm() public {
        Sale memory s = sale();
        bytes memory call = abi.encodeCall(offers.addressOf, (s.offer));
        bytes memory other = bytes.concat(call);
        other[call.length - 1] = 0xff;
        assertEq(answered(other), answered(call));
        // The second text first, and a word between them.
        bytes memory words = encoded(s.offer);
        bytes memory moved = new bytes(288);
        for (uint256 i = 0; i < 288; i++) moved[i] = words[i];
        uint256 second = 320 + 32 + (TERMS_AFTER.length + 31) / 32 * 32 + 32;
        moved = abi.encodePacked(moved, second, uint256(320), textOf(TERMS_AFTER), uint256(7), textOf(TERMS_BEFORE));
        assertEq(answered(bytes.concat(offers.addressOf.selector, moved)), answered(call));
        for (uint256 field = 0; field < 8; field++) {
            for (uint256 bit = widthOf(field); bit < 256; bit++) {
                bytes memory dirty = bytes.concat(call);
                dirty[4 + 32 + 32 * field + 31 - bit / 8] ^= bytes1(uint8(1 << bit % 8));
                (bool done, bytes memory why) = address(offers).staticcall(dirty);
                assertFalse(done);
                assertEq(why, "");
            }
        }
    }

    function answered(bytes memory call) private view returns (bytes32) {
        (bool done, bytes memory answer) = address(offers).staticcall(call);
        assertTrue(done);
        return abi.decode(answer, (bytes32));
    }

    function textOf(bytes memory text) private pure returns (bytes memory) {
        return abi.encodePacked(text.length, text, new bytes((32 - text.length % 32) % 32));
    }

    // Other authorizations

    /// Whatever single field of what was signed is another one: payer, times and nonce, amount and receiver by the offer.
    function testFuzz_NothingOfTheAuthorizationCanBeChanged(uint256 field, uint256 value) public {
        Sale memory s = sale();
        field = bound(field, 0, 3);
        if (field == 0) s.purchase.payer = address(uint160(bound(value, 1_000, type(uint160).max)));
        if (field == 1) s.purchase.validAfter = bound(value, 1, START - 1);
        if (field == 2) s.purchase.validBefore = bound(value, START + 1, type(uint40).max);
        if (field == 3) s.purchase.nonce = bytes32(value);
        vm.assume(keccak256(abi.encode(s.purchase)) != keccak256(abi.encode(sale().purchase)));
        vm.assume(s.purchase.payer.code.length == 0);
        if (field == 0) stable.mint(s.purchase.payer, CAP);
        s.award.paymentId = idOf(s.purchase.payer, s.purchase.nonce);
        s.award.fulfillBy = START + 1;
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
    }

    /// What else the payer might have signed for the token serves nobody here, in whatever form.
    function test_OnlyThisAuthorizationOfThePayers() public {
        Sale memory s = sale();
        Move memory m = moveOf(s);
        bytes[4] memory others;
        others[0] = sign(attackerKey, saleDigest(s));
        others[1] = sign(payerKey, moveDigest(address(stable), RECEIVE_TYPEHASH, m));
        others[2] = sign(payerKey, tokenDigest(address(stable), depositHash(depositOf(s))));
        m.to = address(offers);
        others[3] = sign(payerKey, moveDigest(address(stable), TRANSFER_TYPEHASH, m));
        bytes memory right = s.purchase.signature;
        for (uint256 i = 0; i < others.length; i++) {
            s.purchase.signature = others[i];
            expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
            s.purchase.signature = short(others[i]);
            expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        }
        s.purchase.signature = "";
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        s.purchase.signature = bytes.concat(right, hex"00");
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
        s.purchase.signature = right;
        makeSale(s);
    }

    function testFuzz_NoBitOfTheSignatureCanBeChanged(uint256 bit, bool brief) public {
        Sale memory s = sale();
        if (brief) s.purchase.signature = short(s.purchase.signature);
        uint256 place = bound(bit, 0, s.purchase.signature.length * 8 - 1);
        s.purchase.signature[place / 8] ^= bytes1(uint8(1 << place % 8));
        expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
    }

    // Its times

    function test_ItIsDepositedWhileTheAuthorizationHolds() public {
        Sale memory s = sale();
        s.purchase.validAfter = START;
        resign(s);
        expectSaleRefused(s, DevStablecoin.AuthorizationNotYetValid.selector);
        uint256 snapshot = vm.snapshotState();
        vm.warp(START + 1);
        makeSale(s);
        vm.revertToState(snapshot);
        vm.warp(VALID_BEFORE - 1);
        makeSale(s);
        vm.revertToState(snapshot);
        vm.warp(VALID_BEFORE);
        expectSaleRefused(s, DevStablecoin.AuthorizationExpired.selector);
    }

    /// One that the token would take for ever is none from which windows follow; the last that is one is.
    function test_AnEndThatNoEscrowCanHoldIsRefused() public {
        uint256[4] memory ends = [uint256(type(uint40).max) + 1, type(uint48).max, type(uint64).max, type(uint256).max];
        Sale memory s = sale();
        for (uint256 i = 0; i < ends.length; i++) {
            s.purchase.validBefore = ends[i];
            resign(s);
            bytes memory refusal = abi.encodeWithSelector(OfferAddresses.ValidBeforeInvalid.selector, ends[i]);
            expectSaleRefused(s, callOf(s, hex"00"), refusal);
            vm.expectRevert(refusal);
            offers.depositOf(s.offer, payer, ends[i], NONCE);
        }
        s.purchase.validBefore = type(uint40).max;
        resign(s);
        makeSale(s);
        assertPaid(address(stable), 0, CAP);
    }

    function test_AnAuthorizationThatNeverHolds() public {
        Sale memory s = sale();
        s.purchase.validBefore = 0;
        s.purchase.signature = sign(payerKey, saleDigest(s));
        expectSaleRefused(s, callOf(s, hex"00"), abi.encodePacked(DevStablecoin.AuthorizationExpired.selector));
        vm.expectRevert(abi.encodeWithSelector(OfferAddresses.ValidBeforeInvalid.selector, 0));
        offers.depositOf(s.offer, payer, 0, NONCE);
    }

    // Other words of the reserver's

    /// It signs the deposit that follows from offer and authorization, with this award and until then. Any field another one is
    /// another deposit, and the buyer keeps its money.
    function testFuzz_NothingOfTheAdmissionCanBeChanged(uint256 field, uint256 value) public {
        Sale memory s = sale();
        Larger memory right = Larger(false, depositOf(s), s.award, s.offer.token, s.offer.amount, s.admittedUntil);
        Larger memory l = altered(right, field, value);
        expectSaleRefused(s, callOf(s, admissionOf(l)), notAdmitted());
        makeSale(s);
    }

    /// And what the caller brings must be what it signed.
    function test_NoOtherAwardThanTheAdmitted() public {
        bytes memory admission = admissionOf(sale());
        for (uint256 i = 0; i < 5; i++) {
            Sale memory s = sale();
            if (i == 0) s.award.settler = attacker;
            if (i == 1) s.award.sourceAmount += 1;
            if (i == 2) s.award.quoteHash = keccak256("another quote");
            if (i == 3) s.award.fulfillBy += 1;
            if (i == 4) s.admittedUntil += 1;
            expectSaleRefused(s, callOf(s, admission), notAdmitted());
        }
        Sale memory foreign = sale();
        foreign.award.paymentId = keccak256("pay_2");
        expectSaleRefused(
            foreign,
            abi.encodeWithSelector(
                GatewayEscrow.PaymentIdMismatch.selector, idOf(payer, NONCE), keccak256("pay_2")
            )
        );
    }

    function test_NobodyElsesWordAndNoneOfAnotherKind() public {
        Sale memory s = sale();
        GatewayEscrow.GatewayDeposit memory d = depositOf(s);
        uint256[4] memory keys = [attackerKey, payerKey, releaserKey, uint256(1)];
        for (uint256 i = 0; i < keys.length; i++) {
            bytes memory word_ = signLargerAdmission(keys[i], d, s.award, address(stable), CAP, ADMITTED_UNTIL);
            expectSaleRefused(s, callOf(s, word_), notAdmitted());
        }
        expectSaleRefused(s, callOf(s, signAdmission(reserverKey, d, s.award, address(stable))), notAdmitted());
        expectSaleRefused(s, callOf(s, signOpening(reserverKey, d, address(stable), CAP)), notAdmitted());
        expectSaleRefused(s, callOf(s, signReservation(reserverKey, s.award)), notAdmitted());
        expectSaleRefused(s, callOf(s, ""), notAdmitted());
        makeSale(s);
    }

    function test_AnAdmissionEnds() public {
        Sale memory s = sale();
        s.admittedUntil = START + 10;
        vm.warp(START + 11);
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 10));
        vm.warp(START + 10);
        makeSale(s);
    }

    /// Where an offer's address is the same, neither the buyer's nor the reserver's word is.
    function test_OnThisChainAlone() public {
        Sale memory s = sale();
        bytes memory call = callOf(s);
        vm.chainId(block.chainid + 1);
        assertEq(offers.addressOf(s.offer), addressBy(s.offer));
        expectSaleRefused(s, call, abi.encodePacked(DevStablecoin.SignatureInvalid.selector));
        bytes memory here = admissionOf(s);
        resign(s);
        vm.chainId(block.chainid - 1);
        expectSaleRefused(s, callOf(s, here), abi.encodePacked(DevStablecoin.SignatureInvalid.selector));
        s = sale();
        expectSaleRefused(s, callOf(s, here), notAdmitted());
        makeSale(s);
    }

    // Once

    function test_TheSameCallAgain() public {
        Sale memory s = sale();
        bytes memory call = callOf(s);
        bytes32 id = makeSale(s);
        bytes memory used = abi.encodePacked(DevStablecoin.AuthorizationUsedOrCanceled.selector);
        expectSaleRefused(s, call, used);
        // Also with another admission, with strays there, and when it is over.
        stable.mint(addressBy(s.offer), CAP);
        s.award.quoteHash = keccak256("another quote");
        expectSaleRefused(s, used);
        escrow.cancel(termsOf(id), signNonDelivery(releaserKey, id, QUOTE));
        expectSaleRefused(s, used);
        expectSaleRefused(s, call, used);
        assertPaid(address(stable), 0, 0);
    }

    /// A nonce that a buyer uses in two tokens is one payment; the second is refused, and its money stays with the buyer.
    function test_OneNonceInTwoTokensIsOnePayment() public {
        bytes32 id = makeSale(sale());
        DevStablecoin other = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
        other.mint(payer, CAP);
        Sale memory s = saleOf(offerIn(address(other)));
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, id));
        assertEq(other.balanceOf(payer), CAP);
    }

    /// What a buyer gave up is not made good for by what lies there, nor by what another brings.
    function test_AGivenUpAuthorizationIsNotDepositedOfStrays() public {
        Sale memory s = sale();
        stable.mint(addressBy(s.offer), 2 * CAP);
        bytes32 givenUp = tokenDigest(address(stable), keccak256(abi.encode(CANCEL_TYPEHASH, payer, NONCE)));
        stable.cancelAuthorization(payer, NONCE, sign(payerKey, givenUp));
        expectSaleRefused(s, DevStablecoin.AuthorizationUsedOrCanceled.selector);
        assertEq(collect(s.offer, address(stable)), 2 * CAP);
        expectSaleRefused(s, DevStablecoin.AuthorizationUsedOrCanceled.selector);
    }

    /// And one that was refused for lack of money can be brought again while it is admitted, and not after.
    function test_ABuyerWithoutTheMoney() public {
        Sale memory s = sale();
        stable.mint(addressBy(s.offer), CAP);
        vm.prank(payer);
        stable.transfer(stranger, WEALTH - CAP + 1);
        s.admittedUntil = START + 20;
        expectSaleRefused(
            s, abi.encodeWithSignature("ERC20InsufficientBalance(address,uint256,uint256)", payer, CAP - 1, CAP)
        );
        stable.mint(payer, 1);
        uint256 snapshot = vm.snapshotState();
        makeSale(s);
        vm.revertToState(snapshot);
        vm.warp(s.admittedUntil + 1);
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, s.admittedUntil));
    }

    // The address itself

    /// Nobody but its factory says what it does, also no other factory, and the implementation behind it belongs to nobody.
    function test_OnlyTheFactoryCallsAnAddress() public {
        Sale memory s = madeAddress();
        DepositAddresses.Terms memory t =
            DepositAddresses.Terms(s.offer.escrow, s.offer.token, s.offer.amount, depositOf(s));
        bytes[2] memory calls = [
            abi.encodeCall(DepositAddress.deposit, (t, CAP, s.award, s.admittedUntil, admissionOf(s))),
            abi.encodeCall(DepositAddress.pay, (address(stable), attacker, CAP))
        ];
        address at = addressBy(s.offer);
        address[2] memory targets = [at, offers.implementation()];
        address[8] memory callers = [
            attacker,
            payer,
            reserver,
            merchant,
            address(escrow),
            at,
            address(new OfferAddresses()),
            address(new DepositAddresses())
        ];
        for (uint256 i = 0; i < 32; i++) {
            address by = callers[i % 8];
            vm.prank(by);
            (bool done, bytes memory why) = targets[i / 16].call(calls[i / 8 % 2]);
            assertFalse(done);
            assertEq(why, abi.encodeWithSelector(DepositAddress.CallerNotFactory.selector, by));
        }
        assertEq(stable.balanceOf(at), CAP);
    }

    /// There is nothing else to call, not even for the factory, and nothing here takes coins.
    function testFuzz_NothingElseCanBeCalled(bytes4 selector, bytes calldata arguments, bool implementation, bool byFactory)
        public
    {
        Sale memory s = madeAddress();
        vm.assume(selector != DepositAddress.deposit.selector && selector != DepositAddress.pay.selector);
        address target = implementation ? offers.implementation() : addressBy(s.offer);
        vm.deal(byFactory ? address(offers) : attacker, 1);
        vm.startPrank(byFactory ? address(offers) : attacker);
        (bool done,) = target.call(bytes.concat(selector, arguments));
        assertFalse(done);
        (done,) = target.call{value: 1}("");
        assertFalse(done);
        (done,) = address(offers).call{value: 1}(callOf(s));
        assertFalse(done);
        vm.stopPrank();
        bytes4[5] memory own = [
            offers.implementation.selector,
            offers.addressOf.selector,
            offers.depositOf.selector,
            offers.deposit.selector,
            offers.collect.selector
        ];
        for (uint256 i = 0; i < own.length; i++) {
            if (selector == own[i]) return;
        }
        vm.prank(attacker);
        (done,) = address(offers).call(bytes.concat(selector, arguments));
        assertFalse(done);
        assertEq(stable.balanceOf(addressBy(s.offer)), CAP);
    }

    /// The address has its code, and something is there.
    function madeAddress() private returns (Sale memory s) {
        s = sale();
        token.mint(addressBy(s.offer), 1);
        collect(s.offer, address(token));
        stable.mint(addressBy(s.offer), CAP);
        assertEq(addressBy(s.offer).code, proxyCode(offers));
    }

    function notAdmitted() private view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }
}
