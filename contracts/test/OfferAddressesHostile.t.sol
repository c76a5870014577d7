// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {OfferAddresses} from "../src/OfferAddresses.sol";
import {AuthorizingToken, FailsWithBytes, TakesEveryCall} from "./support/AuthorizingToken.sol";
import {CoinTaker} from "./support/CoinTaker.sol";
import {CallsOnce, HalfToken, Liar, Mute, OddApproval, TakesAnySignature, TwoNames} from "./support/OddTokens.sol";
import {OddEscrow} from "./support/OddEscrow.sol";
import {OfferAddressing} from "./support/OfferAddressing.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice Offers in tokens, of merchants and with escrows that misbehave: a buyer's money is deposited as it was signed or stays with
/// the buyer, and what lies at an address goes to its merchant or nowhere.
contract OfferAddressesHostileTest is OfferAddressing {
    AuthorizingToken private tricky;

    function setUp() public override {
        super.setUp();
        tricky = new AuthorizingToken();
        tricky.mint(payer, WEALTH);
    }

    /// A purchase in that token with all right.
    function saleIn(TrickToken asset) private returns (Sale memory) {
        if (address(asset) != address(tricky)) asset.mint(payer, WEALTH);
        return saleOf(offerIn(address(asset)));
    }

    function assertDeposited(Sale memory s) private view {
        assertPaid(s.offer.token, 0, CAP);
        assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.Reserved));
    }

    // Tokens: what they answer

    function test_WhateverATokenAnswersTheBalanceCounts() public {
        for (uint8 answer = 0; answer <= uint8(TrickToken.Answer.Bomb); answer++) {
            Sale memory s = saleIn(new AuthorizingToken());
            AuthorizingToken asset = AuthorizingToken(s.offer.token);
            asset.setAnswer(TrickToken.Answer(answer));
            s.purchase.nonce = bytes32(uint256(answer));
            resign(s);
            makeSale(s);
            assertDeposited(s);
            asset.mint(addressBy(s.offer), 7);
            assertEq(collect(s.offer, s.offer.token), 7);
            assertEq(asset.balanceOf(merchant), 7);
        }
    }

    /// Where no allowance can be given, nothing is deposited; one that is left is ended first.
    function test_EveryKindOfApprove() public {
        for (uint8 kind = 0; kind <= uint8(OddApproval.Kind.Fails); kind++) {
            uint256 snapshot = vm.snapshotState();
            Sale memory s = saleIn(new OddApproval(OddApproval.Kind(kind)));
            if (kind == uint8(OddApproval.Kind.Fails)) {
                expectSaleRefused(s, escrowReceived(CAP, 0));
            } else {
                makeSale(s);
                assertDeposited(s);
                s.purchase.nonce = keccak256("another nonce");
                resign(s);
                makeSale(s);
                assertPaid(s.offer.token, 0, 2 * CAP);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_WhatIsNoTokenOrKnowsNoAuthorizations() public {
        Sale memory s = saleOf(offerIn(stranger));
        expectSaleRefused(s, bytes(""));
        expectNotCollected(s.offer, stranger, nothingAt(stranger));
        // A call of what it does not know fails, and one that a fallback takes moves nothing.
        expectSaleRefused(saleOf(offerIn(address(token))), bytes(""));
        s = saleIn(new TakesEveryCall());
        expectSaleRefused(s, tokenMoved(CAP, 0));
        // Nor is it deposited of what lies there.
        TakesEveryCall(s.offer.token).mint(addressBy(s.offer), CAP);
        expectSaleRefused(s, tokenMoved(CAP, 0));
        assertEq(collect(s.offer, s.offer.token), CAP);
    }

    function test_ATokenThatTellsNoBalance() public {
        Sale memory s = saleOf(offerIn(address(new Mute(32))));
        expectSaleRefused(s, tokenMoved(CAP, 0));
        expectNotCollected(s.offer, s.offer.token, nothingAt(s.offer.token));
        // It says nothing at all, so its balances cannot be looked at here either.
        s = saleOf(offerIn(address(new Mute(0))));
        expectOfferCallRefused(callOf(s), "");
        expectNotCollected(s.offer, s.offer.token, "");
        // What else is there is the merchant's.
        token.mint(addressBy(s.offer), 1);
        assertEq(collect(s.offer, address(token)), 1);
    }

    /// What a token fails with is told, and a gas limit is all that it can use up.
    function test_ATokenThatFails() public {
        tricky.setDenial(addressBy(offerIn(address(tricky))), TrickToken.Denial.Reverts);
        expectSaleRefused(saleIn(tricky), abi.encodeWithSignature("Error(string)", "denied"));
        tricky.setDenial(addressBy(offerIn(address(tricky))), TrickToken.Denial.BurnsGas);
        bytes memory data = callOf(saleIn(tricky));
        (bool done,) = address(offers).call{gas: 1_000_000}(data);
        assertFalse(done);

        FailsWithBytes bomb = new FailsWithBytes(500_000);
        data = callOf(saleIn(bomb));
        for (uint256 limit = 200_000; limit < 4_000_000; limit += 400_000) {
            uint256 left = gasleft();
            address at = address(offers);
            assembly {
                done := call(limit, at, 0, add(data, 32), mload(data), 0, 0)
            }
            assertFalse(done);
            assertLt(left - gasleft(), limit + 20_000);
        }
        assertFalse(bomb.authorizationState(payer, NONCE));
    }

    // Tokens: what they move

    function test_ATokenThatMovesAnotherAmount() public {
        Sale memory s = saleIn(tricky);
        address at = addressBy(s.offer);
        // What lies there makes no difference.
        for (uint256 strays = 0; strays <= CAP; strays += CAP) {
            tricky.mint(at, strays);
            uint256 snapshot = vm.snapshotState();
            tricky.setFee(1);
            expectSaleRefused(s, tokenMoved(CAP, CAP - 1));
            tricky.setFee(CAP);
            expectSaleRefused(s, tokenMoved(CAP, 0));
            vm.revertToState(snapshot);
            tricky.setDenial(at, TrickToken.Denial.MovesNothing);
            expectSaleRefused(s, tokenMoved(CAP, 0));
            vm.revertToState(snapshot);
            tricky.setHook(address(tricky), abi.encodeCall(TrickToken.mint, (at, 1)));
            expectSaleRefused(s, tokenMoved(CAP, CAP + 1));
            vm.revertToState(snapshot);
        }
        // Even less is there afterwards than before.
        tricky.setFee(CAP);
        tricky.setHook(address(tricky), abi.encodeCall(TrickToken.shrink, (at, 1)));
        expectSaleRefused(s, tokenMoved(CAP, 0));
    }

    function test_ATokenThatMovesHalf() public {
        Sale memory s = saleIn(new HalfToken());
        expectSaleRefused(s, tokenMoved(CAP, CAP / 2));
        HalfToken half = HalfToken(s.offer.token);
        half.mint(addressBy(s.offer), 8);
        assertEq(collect(s.offer, address(half)), 4);
        assertEq(collect(s.offer, address(half)), 2);
        assertEq(half.balanceOf(merchant), 6);
    }

    /// A charge besides is between the token and who pays it. The address cannot pay one but of what lies there.
    function test_ATokenThatChargesItsSender() public {
        Sale memory s = saleIn(tricky);
        tricky.setSurcharge(5);
        expectSaleRefused(s, escrowReceived(CAP, 0));
        tricky.mint(addressBy(s.offer), 5);
        makeSale(s);
        assertEq(tricky.balanceOf(payer), WEALTH - CAP - 5);
        assertEq(tricky.balanceOf(address(escrow)), CAP);
        assertEq(tricky.balanceOf(addressBy(s.offer)), 0);
        // All that is there cannot be moved while that is so.
        tricky.mint(addressBy(s.offer), 100);
        expectNotCollected(s.offer, address(tricky), notSent(address(tricky)));
        tricky.setSurcharge(0);
        assertEq(collect(s.offer, address(tricky)), 100);
    }

    function test_AFeeIsTheMerchants() public {
        OfferAddresses.Offer memory o = offerIn(address(tricky));
        tricky.mint(addressBy(o), 100);
        tricky.setFee(3);
        vm.expectEmit(address(offers));
        emit OfferAddresses.Collected(addressBy(o), merchant, address(tricky), 100);
        assertEq(collect(o, address(tricky)), 100);
        assertEq(tricky.balanceOf(merchant), 97);
    }

    /// Of a token that lies about the address more is told than came, or less, or nothing came at all; the escrow is not told so.
    function test_ATokenThatLiesAboutTheAddress() public {
        int256[3] memory lies = [int256(1), -1, -int256(CAP)];
        for (uint256 i = 0; i < lies.length; i++) {
            Sale memory s = saleIn(new Liar());
            Liar(s.offer.token).setLie(addressBy(s.offer), lies[i], true);
            expectSaleRefused(s, tokenMoved(CAP, uint256(int256(CAP) + lies[i])));
        }
        Sale memory nothing = saleIn(new Liar());
        Liar(nothing.offer.token).setLie(addressBy(nothing.offer), int256(CAP), false);
        expectSaleRefused(nothing, escrowReceived(CAP, 0));
    }

    /// A token whose signatures are worth nothing has its own holders to lose, and no others.
    function test_ATokenThatTakesAnySignature() public {
        TakesAnySignature asset = new TakesAnySignature();
        Sale memory s = saleIn(asset);
        s.purchase.signature = new bytes(65);
        uint256 snapshot = vm.snapshotState();
        makeSale(s);
        assertDeposited(s);
        // Twice is no deposit, since the escrow takes an id once, and nothing moves.
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, s.award.paymentId));
        vm.revertToState(snapshot);
        for (uint256 i = 0; i < 2; i++) {
            s.purchase.validBefore = i == 0 ? 0 : uint256(type(uint40).max) + 1;
            expectSaleRefused(
                s,
                callOf(s, ""),
                abi.encodeWithSelector(OfferAddresses.ValidBeforeInvalid.selector, s.purchase.validBefore)
            );
        }
        // The deposit's time is the escrow's to see, too.
        s.purchase.validBefore = START;
        expectSaleRefused(s, abi.encodeWithSelector(GatewayEscrow.ReserveWindowClosed.selector, START - 1));
    }

    function test_ATokenWithTwoAddresses() public {
        TwoNames asset = new TwoNames();
        Sale memory s = saleIn(asset);
        makeSale(s);
        assertDeposited(s);
        asset.mint(addressBy(s.offer), 9);
        assertEq(collect(s.offer, address(asset.other())), 9);
        assertEq(asset.balanceOf(merchant), 9);
        assertDeposited(s);
    }

    function test_AMerchantThatTheTokenDeniesGetsItLater() public {
        Sale memory s = saleIn(tricky);
        address at = addressBy(s.offer);
        tricky.mint(at, 50);
        for (uint8 d = uint8(TrickToken.Denial.Reverts); d <= uint8(TrickToken.Denial.BurnsGas); d++) {
            tricky.setDenial(merchant, TrickToken.Denial(d));
            bytes memory call = abi.encodeCall(offers.collect, (s.offer, address(tricky)));
            (bool done, bytes memory why) = address(offers).call{gas: 5_000_000}(call);
            assertFalse(done);
            assertEq(why, notSent(address(tricky)));
        }
        // Buyers pay meanwhile.
        makeSale(s);
        assertDeposited(s);
        tricky.setDenial(merchant, TrickToken.Denial.None);
        assertEq(collect(s.offer, address(tricky)), 50);
    }

    // Tokens and merchants that call back

    /// What is called while the token moves the money here, or on into the escrow. Nothing of it makes the deposit another one:
    /// it goes through, or all is undone.
    function test_ATokenThatCallsBackDuringTheDeposit() public {
        CallsOnce asset = new CallsOnce();
        Sale memory s = saleIn(asset);
        Sale memory other = otherBuyer(asset);
        address at = addressBy(s.offer);
        trick.mint(at, 1);
        bytes[4] memory calls = [
            callOf(s),
            callOf(other),
            abi.encodeCall(offers.collect, (s.offer, address(trick))),
            abi.encodeCall(offers.collect, (s.offer, address(asset)))
        ];
        for (uint256 i = 0; i < 32; i++) {
            (uint256 call, bool late, bool onward, bool strays) = (i % 4, i / 4 % 2 == 1, i / 8 % 2 == 1, i > 15);
            uint256 snapshot = vm.snapshotState();
            if (late) asset.setAfter();
            if (onward) asset.setSkipped(1);
            if (strays) asset.mint(at, 3);
            asset.setHook(address(offers), calls[call]);
            // Who has what is there sent to the merchant in the middle of it takes the deposit along, or strays that were counted.
            // Once the deposit has left, only strays are there.
            bool short_ = call == 3 && (onward ? !late : strays || late);
            if (short_) {
                expectSaleRefused(s, onward ? escrowReceived(CAP, 0) : tokenMoved(CAP, late ? 0 : CAP - 3));
            } else {
                makeSale(s);
                // Another purchase goes in beside it, unless the escrow is busy.
                bool both = call == 1 && !onward;
                assertEq(asset.balanceOf(address(escrow)), both ? 2 * CAP : CAP);
                assertEq(asset.balanceOf(payer), WEALTH - CAP);
                assertEq(asset.balanceOf(attacker), both ? 0 : CAP);
                assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.Reserved));
                assertEq(asset.hookSucceeded(), both || call == 2 || call == 3 && strays, "called");
                assertEq(asset.balanceOf(at) + asset.balanceOf(merchant), strays ? 3 : 0);
            }
            vm.revertToState(snapshot);
        }
    }

    function otherBuyer(CallsOnce asset) private returns (Sale memory) {
        asset.mint(attacker, CAP);
        return saleBy(offerIn(address(asset)), attacker, attackerKey, NONCE);
    }

    function test_ATokenThatCallsBackWhileItIsCollected() public {
        CallsOnce asset = new CallsOnce();
        Sale memory s = saleIn(asset);
        address at = addressBy(s.offer);
        bytes[2] memory calls = [callOf(s), abi.encodeCall(offers.collect, (s.offer, address(asset)))];
        for (uint256 i = 0; i < 4; i++) {
            uint256 snapshot = vm.snapshotState();
            asset.mint(at, 30);
            if (i > 1) asset.setAfter();
            asset.setHook(address(offers), calls[i % 2]);
            if (i == 1) {
                // What was sent meanwhile cannot be sent again, so all of it is undone.
                expectNotCollected(s.offer, address(asset), notSent(address(asset)));
                assertEq(asset.balanceOf(at), 30);
            } else {
                assertEq(collect(s.offer, address(asset)), 30);
                assertEq(asset.hookSucceeded(), i % 2 == 0);
                assertEq(asset.balanceOf(merchant), 30);
                assertEq(asset.balanceOf(address(escrow)), i % 2 == 0 ? CAP : 0);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_AMerchantThatRefusesCoins() public {
        (Sale memory s, CoinTaker account) = coinMerchant();
        address at = addressBy(s.offer);
        vm.deal(at, 1 ether);
        account.setRefuses(true);
        expectNotCollected(s.offer, address(0), notSent(address(0)));
        assertEq(at.balance, 1 ether);
        // It holds up neither its buyers nor what else is its own.
        makeSale(s);
        assertPaid(address(stable), 0, CAP);
        stable.mint(at, 4);
        assertEq(collect(s.offer, address(stable)), 4);
        account.setRefuses(false);
        assertEq(collect(s.offer, address(0)), 1 ether);
        assertEq(address(account).balance, 1 ether);
    }

    function test_AMerchantThatCallsBackWhenItGetsCoins() public {
        (Sale memory s, CoinTaker account) = coinMerchant();
        address at = addressBy(s.offer);
        vm.deal(at, 1 ether);
        account.setCall(address(offers), abi.encodeCall(offers.collect, (s.offer, address(0))));
        assertEq(collect(s.offer, address(0)), 1 ether);
        assertFalse(account.succeeded());
        vm.deal(at, 1 ether);
        account.setCall(at, abi.encodeCall(DepositAddress.pay, (address(stable), address(account), CAP)));
        assertEq(collect(s.offer, address(0)), 1 ether);
        assertFalse(account.succeeded());
        vm.deal(at, 1 ether);
        account.setCall(address(offers), callOf(s));
        assertEq(collect(s.offer, address(0)), 1 ether);
        assertTrue(account.succeeded());
        assertPaid(address(stable), 0, CAP);
    }

    function coinMerchant() private returns (Sale memory s, CoinTaker account) {
        account = new CoinTaker();
        OfferAddresses.Offer memory o = offer();
        o.merchant = address(account);
        s = saleOf(o);
    }

    // Escrows

    function test_AnEscrowsRefusalIsPassedOn() public {
        (Sale memory s, OddEscrow odd) = oddSale();
        bytes[3] memory failures = [
            abi.encodeWithSignature("Error(string)", "because"),
            bytes(hex"01"),
            abi.encodePacked(keccak256("many"), new bytes(1_000))
        ];
        for (uint256 i = 0; i < failures.length; i++) {
            odd.setFailure(failures[i]);
            expectSaleRefused(s, failures[i]);
            assertFalse(tricky.authorizationState(payer, NONCE));
        }
        // One without this call, as escrows of former versions are.
        s.offer.escrow = address(token);
        resign(s);
        expectSaleRefused(s, bytes(""));
    }

    /// Who offers an escrow of his own has his buyers' money go there, and no other's; what it leaves is the merchant's.
    function test_AnEscrowTakesWhatItIsAllowedAndNoMore() public {
        (Sale memory s, OddEscrow odd) = oddSale();
        address at = addressBy(s.offer);
        address otherAt = addressBy(offerIn(address(tricky)));
        tricky.mint(at, 20);
        tricky.mint(otherAt, 20);
        odd.setTaken(CAP + 1);
        expectSaleRefused(s, abi.encodeWithSignature("Error(string)", "allowance"));
        odd.setTaken(CAP - 1);
        makeSale(s);
        assertEq(tricky.balanceOf(address(odd)), CAP - 1);
        vm.expectRevert("allowance");
        odd.take(address(tricky), otherAt, 1);
        vm.expectRevert("allowance");
        odd.take(address(tricky), at, 2);
        assertEq(collect(s.offer, address(tricky)), 21);
        assertEq(tricky.balanceOf(otherAt), 20);
    }

    /// In the middle of a deposit it may call for other offers what everyone may call.
    function test_AnEscrowThatCallsForOtherOffers() public {
        (Sale memory s, OddEscrow odd) = oddSale();
        Sale memory other = saleBy(offerIn(address(tricky)), attacker, attackerKey, NONCE);
        tricky.mint(attacker, CAP);
        odd.setTaken(CAP);
        odd.setCall(address(offers), callOf(other));
        makeSale(s);
        assertTrue(odd.succeeded());
        assertEq(tricky.balanceOf(address(escrow)), CAP);
        assertEq(tricky.balanceOf(address(odd)), CAP);
        // Also what is there, which it can take no more of then.
        s.purchase.nonce = keccak256("another nonce");
        resign(s);
        odd.setCall(address(offers), abi.encodeCall(offers.collect, (s.offer, address(tricky))));
        expectOfferCallRefused(callOf(s), abi.encodeWithSignature("Panic(uint256)", 0x11));
    }

    function oddSale() private returns (Sale memory s, OddEscrow odd) {
        odd = new OddEscrow();
        OfferAddresses.Offer memory o = offerIn(address(tricky));
        o.escrow = address(odd);
        s = saleOf(o);
    }

    // Gas

    /// However little gas a caller sends along: all of it is done or nothing.
    function testFuzz_AnyGasDoesAllOrNothing(uint256 limit, uint256 needed, bool collects, bool made) public {
        Sale memory s = saleIn(tricky);
        address at = addressBy(s.offer);
        if (made) {
            token.mint(at, 1);
            collect(s.offer, address(token));
        }
        tricky.mint(at, 40);
        tricky.setGasNeeded(bound(needed, 0, 400_000));
        bytes memory call = collects ? abi.encodeCall(offers.collect, (s.offer, address(tricky))) : callOf(s);
        (bool done,) = address(offers).call{gas: bound(limit, 1_000, 900_000)}(call);
        assertEq(tricky.balanceOf(merchant), done && collects ? 40 : 0);
        assertEq(tricky.balanceOf(at), done && collects ? 0 : 40);
        if (done && !collects) {
            assertDeposited(s);
        } else {
            assertPaid(address(tricky), 0, 0);
            assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.None));
            assertFalse(tricky.authorizationState(payer, NONCE));
        }
    }
}
