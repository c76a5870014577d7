// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {OfferAddresses} from "../src/OfferAddresses.sol";
import {AccountOfOneWord} from "./support/AccountOfOneWord.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {OfferAddressing} from "./support/OfferAddressing.sol";

/// @notice What becomes of money that buyers authorize to an offer's address: brought here and past this contract, by keys and by
/// contracts, by one buyer and by several; and what follows from an offer and an authorization.
contract OfferAddressesTest is OfferAddressing {
    bytes32 private constant QUOTE = keccak256("quote");

    // The address

    function test_TheAddressIsWhatAnyoneComputes() public {
        OfferAddresses.Offer memory o = offer();
        address at = addressBy(o);
        assertEq(keccak256(abi.encode(o)), keccak256(encoded(o)));
        assertEq(offers.addressOf(o), at);
        assertEq(at.code.length, 0);
        makeSale(saleOf(o));
        assertEq(offers.addressOf(o), at, "it stays");
        assertEq(at.code, proxyCode(offers));
        OfferAddresses another = new OfferAddresses();
        assertEq(another.addressOf(o), addressBy(another, o));
        assertNotEq(another.addressOf(o), at);
    }

    /// Texts of each length, also none.
    function testFuzz_TheAddressOfAnyOffer(OfferAddresses.Offer memory o) public view {
        vm.assume(o.merchant != address(0));
        assertEq(offers.addressOf(o), addressBy(o));
    }

    // What follows from an offer and an authorization

    /// The id is that of `PaymentId::derive` (`events/src/ids.rs`), whose test has the first of these.
    function test_KnownPaymentIds() public view {
        assertEq(
            paymentText("did:example:payer", "order-1"), "pay_5u3uedbzhw2omp4cgvym2jxmn6sy4wwjrcqibir5cbnvh4dma6vq"
        );
        assertKnown(
            0xABcdEFABcdEFabcdEfAbCdefabcdeFABcDEFabCD,
            0x0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef,
            "pay_biqrpc4u7p6lxr7x5ighedn3ffe6tsxeaj6jcbjdxg2r5ixjlbwa"
        );
        assertKnown(address(0x1), bytes32(uint256(0xf)), "pay_jpvmgy77bl4lcmod4ywd4od4lszf4pzzjxl4p2wkr5acy2e2kf3q");
    }

    function assertKnown(address buyer, bytes32 nonce, string memory text) private view {
        assertEq(paymentText(string.concat("eip155:", lowered(buyer)), vm.toString(nonce)), text);
        assertEq(offers.depositOf(offer(), buyer, VALID_BEFORE, nonce).paymentId, keccak256(bytes(text)));
    }

    function testFuzz_TheDepositFollowsFromOfferAndAuthorization(
        OfferAddresses.Offer memory o,
        address buyer,
        uint256 validBefore,
        bytes32 nonce
    ) public view {
        validBefore = bound(validBefore, 1, type(uint40).max);
        OfferAddresses.Purchase memory p = OfferAddresses.Purchase(buyer, 0, validBefore, nonce, "");
        assertEq(abi.encode(offers.depositOf(o, buyer, validBefore, nonce)), abi.encode(depositOf(o, p)));
    }

    function test_WindowsAreCountedFromTheLastSecondOfTheAuthorization() public view {
        OfferAddresses.Offer memory o = offer();
        GatewayEscrow.GatewayDeposit memory d = offers.depositOf(o, payer, VALID_BEFORE, NONCE);
        assertEq(d.reserveDeadline, START + 60);
        assertEq(d.fulfillmentDeadline, START + 60 + DELIVERY_SECONDS);
        assertEq(d.refundAfter, START + 60 + DELIVERY_SECONDS + REFUND_SECONDS);
        (o.deliverySeconds, o.refundSeconds) = (type(uint32).max, type(uint32).max);
        d = offers.depositOf(o, payer, type(uint40).max, NONCE);
        assertEq(d.reserveDeadline, (1 << 40) - 2);
        assertEq(d.fulfillmentDeadline, (1 << 40) + (1 << 32) - 3);
        assertEq(d.refundAfter, (1 << 40) + (1 << 33) - 4);
        d = offers.depositOf(o, payer, 1, NONCE);
        assertEq(d.reserveDeadline, 0);
    }

    // Into the escrow

    function test_WhatWasAuthorizedIsDepositedAndReserved() public {
        Sale memory s = sale();
        GatewayEscrow.Reservation memory r = s.award;
        GatewayEscrow.GatewayDeposit memory d = depositOf(s);
        address at = addressBy(s.offer);
        vm.expectEmit(address(offers));
        emit OfferAddresses.Made(at);
        vm.expectEmit(address(stable));
        emit DevStablecoin.AuthorizationUsed(payer, NONCE);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Deposited(r.paymentId, QUOTE, payer, d, address(stable), CAP);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Reserved(r.paymentId, QUOTE, settler, QUOTED, r.fulfillBy);
        bytes32 id = makeSale(s);

        assertPaid(address(stable), 0, CAP);
        assertEq(escrow.owedIn(address(stable)), CAP);
        assertEq(stable.balanceOf(at) + stable.allowance(at, address(escrow)), 0);
        assertEq(stable.allowance(payer, address(escrow)) + stable.allowance(payer, address(offers)), 0);
        GatewayEscrow.Record memory expected = GatewayEscrow.Record({
            state: GatewayEscrow.State.Reserved,
            round: 1,
            depositedAt: uint40(block.number),
            reservedAt: uint40(block.number),
            endedAt: 0,
            commitment: commitment(asReserved(asDeposited(d, address(stable), CAP), r))
        });
        assertEq(abi.encode(escrow.recordOf(id)), abi.encode(expected));
    }

    function test_ByWhomever() public {
        Sale memory s = sale();
        bytes memory call = callOf(s);
        address[5] memory callers = [payer, settler, attacker, reserver, merchant];
        for (uint256 i = 0; i < callers.length; i++) {
            uint256 snapshot = vm.snapshotState();
            vm.prank(callers[i]);
            (bool made,) = address(offers).call(call);
            assertTrue(made);
            assertEq(
                escrow.recordOf(s.award.paymentId).commitment,
                commitment(asReserved(asDeposited(depositOf(s), address(stable), CAP), s.award))
            );
            assertPaid(address(stable), 0, CAP);
            vm.revertToState(snapshot);
        }
    }

    /// Where the price is all that was paid, the smaller admission is the one.
    function test_OfferedAtThePrice() public {
        Sale memory s = sale();
        s.award.sourceAmount = CAP;
        bytes memory admission = signAdmission(reserverKey, depositOf(s), s.award, address(stable));
        offers.deposit(s.offer, s.purchase, s.award, ADMITTED_UNTIL, admission);
        assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.Reserved));
        assertPaid(address(stable), 0, CAP);
    }

    function test_ThePriceIsAtMostWhatIsOffered() public {
        Sale memory s = sale();
        s.award.sourceAmount = CAP + 1;
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP));
    }

    // What the escrow refuses

    /// Offers that no escrow takes have an address like any other, to which only the merchant's money comes.
    function test_WhatTheEscrowRefusesOfEveryBuyer() public {
        for (uint256 i = 0; i < 5; i++) {
            Sale memory s = sale();
            if (i == 0) s.offer.amount = s.award.sourceAmount = 0;
            if (i == 1) s.offer.releaser = address(0);
            if (i == 2) s.offer.refundSeconds = 0;
            if (i == 3) s.offer.reserver = attacker;
            if (i == 4) s.offer.token = address(token);
            resign(s);
            uint48 until = START + 60 + DELIVERY_SECONDS;
            bytes[5] memory refusals = [
                abi.encodeWithSelector(GatewayEscrow.AmountZero.selector),
                abi.encodeWithSelector(GatewayEscrow.ReleaserMissing.selector),
                abi.encodeWithSelector(GatewayEscrow.WindowsOutOfOrder.selector, START + 60, until, until),
                abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, attacker),
                bytes("")
            ];
            expectSaleRefused(s, refusals[i]);
            assertEq(offers.addressOf(s.offer), addressBy(s.offer));
        }
    }

    /// An offer names its reserver: when the escrow has another, what was signed is not deposited any more.
    function test_AReserverThatWasReplaced() public {
        Sale memory s = sale();
        s.purchase.validBefore = START + 10 days;
        resign(s);
        vm.startPrank(guardian);
        escrow.proposeReserver(attacker);
        vm.warp(START + escrow.RESERVER_DELAY());
        escrow.installReserver();
        vm.stopPrank();
        s.award.fulfillBy = uint48(block.timestamp) + 1;
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.ReserverNotAdmitted.selector, reserver));
    }

    function test_AnEscrowThatRetired() public {
        vm.prank(guardian);
        escrow.retire();
        expectSaleRefused(sale(), GatewayEscrow.EscrowRetired.selector);
    }

    // Out of the escrow

    function test_TheReleasePaysTheSettlerAndTheBuyerGetsTheRest() public {
        bytes32 id = makeSale(sale());
        bytes memory word = signDelivery(releaserKey, id, QUOTE, settler);
        vm.expectEmit(address(escrow));
        emit GatewayEscrow.Released(id, QUOTE, settler, QUOTED, CAP - QUOTED);
        escrow.release(termsOf(id), word);
        assertPaid(address(stable), QUOTED, 0);
        assertNothingIsTheMerchants();
    }

    function test_ACancellationReturnsAllOfItToTheBuyer() public {
        bytes32 id = makeSale(sale());
        escrow.cancel(termsOf(id), signNonDelivery(releaserKey, id, QUOTE));
        assertPaid(address(stable), 0, 0);
        assertNothingIsTheMerchants();
    }

    function test_InTimeAllOfItIsRefundedToTheBuyer() public {
        Sale memory s = sale();
        bytes32 id = makeSale(s);
        uint48 refundAfter = START + 60 + DELIVERY_SECONDS + REFUND_SECONDS;
        vm.warp(refundAfter - 1);
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.RefundWindowNotOpen.selector, refundAfter));
        escrow.refund(termsOf(id));
        vm.warp(refundAfter);
        escrow.refund(termsOf(id));
        assertPaid(address(stable), 0, 0);
        assertNothingIsTheMerchants();
    }

    function test_ADearerSettlerMayFollowUpToWhatWasPaid() public {
        Sale memory s = sale();
        bytes32 id = makeSale(s);
        vm.warp(s.award.fulfillBy + 1);
        GatewayEscrow.Reservation memory next = nextReservation();
        next.paymentId = id;
        next.sourceAmount = CAP + 1;
        vm.expectRevert(abi.encodeWithSelector(GatewayEscrow.AmountAboveCap.selector, CAP + 1, CAP));
        reassign(next);
        next.sourceAmount = CAP;
        next.fulfillBy = START + 60 + DELIVERY_SECONDS;
        reassign(next);
        escrow.release(termsOf(id), signDelivery(releaserKey, id, next.quoteHash, nextSettler));
        assertEq(stable.balanceOf(nextSettler), CAP);
        assertEq(stable.balanceOf(payer), WEALTH - CAP);
    }

    /// The promise may last as long as the offer's delivery, and no second longer.
    function test_TheDeliveryMayTakeAsLongAsIsOffered() public {
        Sale memory s = sale();
        uint48 last = START + 60 + DELIVERY_SECONDS;
        s.award.fulfillBy = last + 1;
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.FulfillByTooLate.selector, last + 1, last));
        s.award.fulfillBy = last;
        makeSale(s);
    }

    // Several purchases

    /// The address has its code by then, and each payment is its buyer's own.
    function test_AnotherBuyerOfTheSameOffer() public {
        stable.mint(attacker, CAP);
        bytes32 first = makeSale(sale());
        Sale memory s = saleBy(offer(), attacker, attackerKey, NONCE);
        vm.recordLogs();
        bytes32 second = makeSale(s);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        for (uint256 i = 0; i < logs.length; i++) {
            assertNotEq(logs[i].emitter, address(offers), "nothing is made again");
        }
        assertNotEq(first, second);
        assertEq(stable.balanceOf(address(escrow)), 2 * CAP);
        escrow.cancel(termsOf(second), signNonDelivery(releaserKey, second, QUOTE));
        escrow.release(termsOf(first), signDelivery(releaserKey, first, QUOTE, settler));
        assertEq(stable.balanceOf(attacker), CAP);
        assertPaid(address(stable), QUOTED, 0);
    }

    function test_TheSameBuyerAgain() public {
        bytes32 first = makeSale(sale());
        bytes32 second = makeSale(saleBy(offer(), payer, payerKey, keccak256("another nonce")));
        assertNotEq(first, second);
        assertPaid(address(stable), 0, 2 * CAP);
    }

    // Signatures

    function test_WithAShortSignature() public {
        // Of either parity.
        bool[2] memory seen;
        for (uint256 i = 0; i < 8; i++) {
            uint256 snapshot = vm.snapshotState();
            Sale memory s = sale();
            (s.purchase.nonce, s.purchase.validAfter) = (bytes32(i), START - 1 - i);
            resign(s);
            seen[uint8(s.purchase.signature[64]) - 27] = true;
            s.purchase.signature = short(s.purchase.signature);
            makeSale(s);
            assertPaid(address(stable), 0, CAP);
            vm.revertToState(snapshot);
        }
        assertTrue(seen[0] && seen[1]);
    }

    /// In one piece, of every length but those of keys' signatures; also none.
    function test_OfAContractWhoseSignatureHasAnyForm() public {
        for (uint256 length = 0; length < 200; length++) {
            if (length == 64 || length == 65) continue;
            Sale memory s = sale();
            s.purchase.payer = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
            s.purchase.validAfter = START - 1 - length;
            s.award.paymentId = idOf(s.purchase.payer, NONCE);
            s.purchase.signature = new bytes(length);
            for (uint256 i = 0; i < length; i++) s.purchase.signature[i] = bytes1(uint8(i + 1));
            address account = address(new AccountOfOneWord(saleDigest(s), s.purchase.signature));
            assertEq(account, s.purchase.payer);
            stable.mint(account, CAP);
            if (length > 0) {
                s.purchase.signature[length - 1] ^= 0x01;
                expectSaleRefused(s, DevStablecoin.SignatureInvalid.selector);
                s.purchase.signature[length - 1] ^= 0x01;
            }
            bytes32 id = makeSale(s);
            assertEq(stable.balanceOf(account), 0);
            escrow.cancel(termsOf(id), signNonDelivery(releaserKey, id, QUOTE));
            assertEq(stable.balanceOf(account), CAP);
        }
    }

    /// Where the token asks the account about the parts put together.
    function test_OfAContractThatTakesItsOwnersSignature() public {
        address account = address(new ContractSigner(payer));
        stable.mint(account, CAP);
        Sale memory s = saleBy(offer(), account, payerKey, NONCE);
        uint256 snapshot = vm.snapshotState();
        makeSale(s);
        assertEq(stable.balanceOf(account), 0);
        vm.revertToState(snapshot);
        s.purchase.signature = short(s.purchase.signature);
        makeSale(s);
        assertEq(stable.balanceOf(account), 0);
    }

    // Past this contract

    /// As with `exact` everywhere: the merchant is paid then, and the buyer has bought without the escrow.
    function test_WhoBringsTheSignatureToTheTokenPaysTheMerchant() public {
        Sale memory s = sale();
        bringToTheToken(s);
        address at = addressBy(s.offer);
        assertEq(stable.balanceOf(at), CAP);
        expectSaleRefused(s, DevStablecoin.AuthorizationUsedOrCanceled.selector);
        vm.expectEmit(address(offers));
        emit OfferAddresses.Made(at);
        vm.expectEmit(address(offers));
        emit OfferAddresses.Collected(at, merchant, address(stable), CAP);
        assertEq(collect(s.offer, address(stable)), CAP);
        assertEq(stable.balanceOf(merchant), CAP);
        assertEq(stable.balanceOf(payer), WEALTH - CAP);
        expectSaleRefused(s, DevStablecoin.AuthorizationUsedOrCanceled.selector);
        assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.None));
        expectNotCollected(s.offer, address(stable), nothingAt(address(stable)));
    }

    /// What lies there neither helps nor hinders who pays, before and after the address has its code.
    function testFuzz_StraysDoNotChangeADeposit(uint256 strays, uint256 coins, bool made) public {
        Sale memory s = sale();
        address at = addressBy(s.offer);
        if (made) {
            token.mint(at, 1);
            collect(s.offer, address(token));
        }
        strays = bound(strays, 0, 2 * CAP);
        stable.mint(at, strays);
        vm.deal(at, coins);
        bytes32 id = makeSale(s);
        assertPaid(address(stable), 0, CAP);
        assertEq(stable.balanceOf(at), strays);
        assertEq(stable.allowance(at, address(escrow)), 0);
        if (strays != 0) assertEq(collect(s.offer, address(stable)), strays);
        if (coins != 0) assertEq(collect(s.offer, address(0)), coins);
        assertEq(stable.balanceOf(merchant), strays);
        assertEq(merchant.balance, coins);
        escrow.release(termsOf(id), signDelivery(releaserKey, id, QUOTE, settler));
        assertPaid(address(stable), QUOTED, 0);
    }

    /// Any token, at any time, again and again.
    function test_WhateverComesIsTheMerchants() public {
        OfferAddresses.Offer memory o = offer();
        address at = addressBy(o);
        for (uint256 i = 0; i < 3; i++) {
            if (i == 1) makeSale(saleOf(o));
            if (i == 2) vm.warp(START + 10_000);
            vm.startPrank(payer);
            token.transfer(at, 3 + i);
            trick.transfer(at, 5 + i);
            stable.transfer(at, 7 + i);
            vm.stopPrank();
            assertEq(collect(o, address(token)), 3 + i);
            assertEq(collect(o, address(trick)), 5 + i);
            assertEq(collect(o, address(stable)), 7 + i);
            assertEq(token.balanceOf(at) + trick.balanceOf(at) + stable.balanceOf(at), 0);
        }
        assertEq(token.balanceOf(merchant), 12);
        assertEq(trick.balanceOf(merchant), 18);
        assertEq(stable.balanceOf(merchant), 24);
        assertEq(stable.balanceOf(address(escrow)), CAP);
    }

    /// Coins come in before the code is there; afterwards their sender keeps them, unless he does not ask (as who mines a block).
    function test_CoinsAreTheMerchantsToo() public {
        OfferAddresses.Offer memory o = offer();
        address at = addressBy(o);
        vm.deal(stranger, 3 ether);
        vm.prank(stranger);
        (bool sent,) = at.call{value: 1 ether}("");
        assertTrue(sent);
        vm.expectEmit(address(offers));
        emit OfferAddresses.Collected(at, merchant, address(0), 1 ether);
        assertEq(collect(o, address(0)), 1 ether);
        vm.prank(stranger);
        (sent,) = at.call{value: 1 ether}("");
        assertFalse(sent);
        vm.deal(at, 2 ether);
        assertEq(collect(o, address(0)), 2 ether);
        assertEq(merchant.balance, 3 ether);
        expectNotCollected(o, address(0), nothingAt(address(0)));
    }

    function test_NothingIsThere() public {
        OfferAddresses.Offer memory o = offer();
        expectNotCollected(o, address(trick), nothingAt(address(trick)));
        // Whoever has no code is no token.
        expectNotCollected(o, stranger, nothingAt(stranger));
        assertEq(addressBy(o).code.length, 0);
    }

    // All of it

    /// Whatever lies there, is paid and comes back, and however the payment ends: settler, buyer and merchant have all of it.
    function testFuzz_EverythingReachesItsOwner(uint256 amount, uint256 price, uint256 strays, bool past, bool delivered)
        public
    {
        OfferAddresses.Offer memory o = offer();
        o.amount = bound(amount, 0, WEALTH * 3 / 2);
        strays = bound(strays, 0, CAP);
        stable.mint(addressBy(o), strays);
        Sale memory s = saleOf(o);
        s.award.sourceAmount = price = bound(price, 0, o.amount + 10);
        bool affordable = o.amount <= WEALTH;
        if (past && affordable) bringToTheToken(s);
        bytes memory call = callOf(s);
        vm.prank(stranger);
        (bool made,) = address(offers).call(call);
        bytes32 id = s.award.paymentId;
        assertEq(made, price != 0 && price <= o.amount && affordable && !past);
        uint256 paidPast = past && affordable ? o.amount : 0;
        if (made) {
            noteTerms(asReserved(asDeposited(depositOf(s), o.token, o.amount), s.award));
            if (delivered) escrow.release(termsOf(id), signDelivery(releaserKey, id, QUOTE, settler));
            else escrow.cancel(termsOf(id), signNonDelivery(releaserKey, id, QUOTE));
        }
        if (strays + paidPast != 0) collect(o, o.token);
        uint256 sold = made && delivered ? price : 0;
        assertEq(stable.balanceOf(merchant), strays + paidPast);
        assertEq(stable.balanceOf(settler), sold);
        assertEq(stable.balanceOf(payer), WEALTH - sold - paidPast);
        assertEq(stable.balanceOf(addressBy(o)) + stable.balanceOf(address(escrow)), 0);
    }

    function assertNothingIsTheMerchants() private view {
        assertEq(stable.balanceOf(merchant) + stable.balanceOf(addressBy(offer())), 0);
        assertEq(escrow.owedIn(address(stable)), 0);
        assertEq(escrow.claimable(payer, address(stable)) + escrow.claimable(settler, address(stable)), 0);
    }
}
