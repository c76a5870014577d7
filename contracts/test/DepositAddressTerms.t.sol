// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Vm} from "forge-std/Vm.sol";

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {DepositAddressing} from "./support/DepositAddressing.sol";
import {TrickToken} from "./support/TrickToken.sol";

/// @notice With whose word money leaves a deposit address, and that nobody has another way to it: other terms, other words, other
/// escrows and factories, calls of the address itself, and whatever strangers do first.
contract DepositAddressTermsTest is DepositAddressing {
    bytes32 private constant ID = keccak256("pay_1");

    /// The money of this payment is at its address.
    DepositAddresses.Terms private paid;
    address private at;

    function setUp() public override {
        super.setUp();
        paid = addressTerms(address(token));
        at = pay(paid, LARGER);
    }

    function assertUntouched() private view {
        assertEq(token.balanceOf(at), LARGER, "moved");
        assertState(GatewayEscrow.State.None);
    }

    // Other terms

    /// How many bits each of the twelve words has.
    function widths() private pure returns (uint16[12] memory) {
        return [uint16(160), 160, 256, 256, 256, 256, 160, 160, 160, 48, 48, 48];
    }

    function changed(uint256 field, uint256 bit) private view returns (DepositAddresses.Terms memory) {
        bytes32[12] memory words = wordsOf(paid);
        words[field] ^= bytes32(1 << bit % widths()[field]);
        return abi.decode(abi.encode(words), (DepositAddresses.Terms));
    }

    function test_EachBitOfTheTermsIsOfAnotherAddress() public view {
        for (uint256 field = 0; field < 12; field++) {
            for (uint256 bit = 0; bit < widths()[field]; bit++) {
                DepositAddresses.Terms memory other = changed(field, bit);
                assertNotEq(factory.addressOf(other), at);
                assertEq(factory.addressOf(other), addressBy(other));
            }
        }
    }

    /// With the word that the reserver gave for the payment and with any that it might give for the other: none moves this money,
    /// be it in time, too late, or when the code of the address is there.
    function testFuzz_TermsWithAnotherBitMoveNothingOfThese(uint256 field, uint256 bit, bool late, bool made) public {
        field = bound(field, 0, 11);
        DepositAddresses.Terms memory other = changed(field, bit);
        if (made) {
            pay(paid, address(trick), 1);
            giveBack(paid, address(trick));
        }
        bytes memory own = admissionOf(fromAddress(paid, LARGER));
        FromAddress memory f = fromAddress(other, other.amount > LARGER ? other.amount : LARGER);
        f.award.paymentId = other.deposit.paymentId;
        bytes memory foreign = admissionOf(f);
        vm.warp(late ? START + 61 : START + 60);
        attempt(callOf(f, own));
        attempt(callOf(f, foreign));
        f.award.paymentId = ID;
        attempt(callOf(f, own));
        f.amount = LARGER;
        attempt(callOf(f, own));
        attempt(abi.encodeCall(factory.giveBack, (other, address(token))));
        attempt(abi.encodeCall(factory.giveBack, (other, other.token)));
        assertUntouched();
    }

    function attempt(bytes memory call) private {
        vm.prank(attacker);
        (bool done,) = address(factory).call(call);
        assertFalse(done, "done");
    }

    /// Terms whose words have more than their types hold: none are, so these cannot be brought for the others.
    function testFuzz_WordsBeyondTheirTypesAreRefused(uint256 field, uint256 bit, uint256 call) public {
        uint8[9] memory narrow = [0, 1, 6, 7, 8, 9, 10, 11, 11];
        field = narrow[bound(field, 0, 8)];
        bit = bound(bit, widths()[field], 255);
        bytes[3] memory calls = [
            abi.encodeCall(factory.addressOf, (paid)),
            callOf(fromAddress(paid, LARGER)),
            abi.encodeCall(factory.giveBack, (paid, address(token)))
        ];
        bytes memory dirty = calls[call % 3];
        if (call % 3 == 2) vm.warp(START + 61);
        uint256 place = 4 + 32 * field + 31 - bit / 8;
        dirty[place] = bytes1(uint8(dirty[place]) ^ uint8(1 << bit % 8));
        expectRefused(dirty, "");
        assertUntouched();
    }

    // Other words

    /// The reserver's word is about this payment, this award, this amount and this time.
    function test_NothingOfTheAdmissionCanBeChanged() public {
        bytes memory signature = admissionOf(fromAddress(paid, LARGER));
        pay(paid, 1);
        FromAddress[6] memory other;
        for (uint256 i = 0; i < other.length; i++) {
            other[i] = fromAddress(paid, LARGER);
        }
        other[0].award.settler = attacker;
        other[1].award.sourceAmount += 1;
        other[2].award.quoteHash = keccak256("another quote");
        other[3].award.fulfillBy += 1;
        other[4].admittedUntil += 1;
        other[5].amount += 1;
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
        for (uint256 i = 0; i < other.length; i++) {
            expectRefused(callOf(other[i], signature), refusal);
        }
        FromAddress memory foreign = fromAddress(paid, LARGER);
        foreign.award.paymentId = keccak256("pay_2");
        expectRefused(
            callOf(foreign, signature),
            abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, ID, keccak256("pay_2"))
        );
        depositFrom(paid, LARGER);
    }

    function test_NobodyElsesWordCounts() public {
        FromAddress memory f = fromAddress(paid, LARGER);
        uint256[3] memory keys = [attackerKey, payerKey, releaserKey];
        for (uint256 i = 0; i < keys.length; i++) {
            bytes memory signature =
                signLargerAdmission(keys[i], paid.deposit, f.award, address(token), LARGER, ADMITTED_UNTIL);
            expectRefused(
                callOf(f, signature), abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver)
            );
        }
        assertUntouched();
    }

    /// An admission of the price alone is none of more, nor the other way round; an opening is none.
    function test_WordsOfOtherKindsAreNoAdmission() public {
        bytes memory refusal = abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
        FromAddress memory f = fromAddress(paid, LARGER);
        expectRefused(callOf(f, signAdmission(reserverKey, paid.deposit, f.award, address(token))), refusal);
        expectRefused(callOf(f, signOpening(reserverKey, paid.deposit, address(token), LARGER)), refusal);
        expectRefused(callOf(f, signReservation(reserverKey, f.award)), refusal);
        f.award.sourceAmount = LARGER;
        bytes memory larger =
            signLargerAdmission(reserverKey, paid.deposit, f.award, address(token), LARGER, ADMITTED_UNTIL);
        expectRefused(callOf(f, larger), refusal);
        assertUntouched();
    }

    function test_AnAdmissionEnds() public {
        FromAddress memory f = fromAddress(paid, LARGER);
        f.admittedUntil = START + 10;
        bytes memory call = callOf(f);
        vm.warp(START + 11);
        expectRefused(call, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 10));
        vm.warp(START + 10);
        depositFrom(f);
        assertState(GatewayEscrow.State.Reserved);
    }

    /// An escrow that the reserver serves, too: its admissions are not for this one, and it has no way to this address.
    function test_AnotherEscrow() public {
        GatewayEscrow first = escrow;
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        bytes memory signature = admissionOf(fromAddress(paid, LARGER));
        expectRefused(
            callOf(fromAddress(paid, LARGER), signature),
            abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver)
        );
        DepositAddresses.Terms memory other = addressTerms(address(token));
        expectNotDeposited(other, LARGER, notExact(LARGER, 0));
        // A deposit there does not end the time here.
        pay(other, LARGER);
        depositFrom(other, LARGER);
        expectNotGivenBack(paid, address(token), notYet(paid));
        escrow = first;
        assertUntouched();
    }

    // The same call again

    function test_TheSameCallAgain() public {
        bytes memory call = callOf(fromAddress(paid, LARGER));
        depositFrom(paid, LARGER);
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID);
        expectRefused(call, used);
        pay(paid, LARGER);
        expectRefused(call, used);
        escrow.cancel(termsOf(ID), nonDelivery());
        expectRefused(call, used);
        giveBack(paid, address(token));
        assertPaid(address(token), 0, 0);
    }

    // Strangers who are first

    /// It is the very same deposit, whoever sends it; the gateway's own is refused then.
    function test_AStrangerDepositsFirst() public {
        bytes memory call = callOf(fromAddress(paid, LARGER));
        vm.prank(attacker);
        (bool done,) = address(factory).call(call);
        assertTrue(done);
        noteTerms(asReserved(asDeposited(paid.deposit, address(token), LARGER), reservation()));
        assertPaid(address(token), 0, LARGER);
        expectRefused(call, abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, ID));
        escrow.release(termsOf(ID), delivery());
        assertPaid(address(token), QUOTED, 0);
    }

    /// He cannot give back what may be deposited, and making the code before makes the deposit but cheaper.
    function test_AStrangerGivesBackFirst() public {
        expectNotGivenBack(paid, address(token), notYet(paid));
        uint256 dear = gasOf(LARGER);
        TrickToken own = new TrickToken();
        own.mint(at, 1);
        vm.prank(attacker);
        factory.giveBack(paid, address(own));
        assertEq(own.balanceOf(payer), 1);
        assertEq(at.code, proxyCode(factory));
        assertLt(gasOf(LARGER), dear - 30_000);
        depositFrom(paid, LARGER);
        assertPaid(address(token), 0, LARGER);
    }

    /// Dust that comes between the signature and the block changes neither gas nor success. Gas is counted before refunds, as the
    /// limit is that a call needs; each call here is a transaction of its own.
    /// forge-config: default.isolate = true
    /// forge-config: default.fuzz.runs = 64
    function testFuzz_DustChangesNothing(uint256 dust, uint256 coins, bool made) public virtual {
        if (made) makeCode();
        dust = bound(dust, 1, CAP);
        uint256 before = limitOf(LARGER);
        token.mint(attacker, dust);
        vm.prank(attacker);
        token.transfer(at, dust);
        vm.deal(at, bound(coins, 0, 1 ether));
        assertEq(limitOf(LARGER), before);
        depositFrom(paid, LARGER);
        assertEq(token.balanceOf(at), dust);
        assertEq(token.allowance(at, address(escrow)), 0);
        assertEq(giveBack(paid, address(token)), dust);
        assertEq(token.balanceOf(payer), WEALTH - LARGER + dust);
    }

    /// Gas of the deposit without what is refunded at its end; it is undone.
    function limitOf(uint256 amount) private returns (uint256) {
        bytes memory call = callOf(fromAddress(paid, amount));
        uint256 snapshot = vm.snapshotState();
        vm.prank(stranger);
        (bool done,) = address(factory).call(call);
        Vm.Gas memory gas = vm.lastCallGas();
        assertTrue(done);
        vm.revertToState(snapshot);
        return gas.gasTotalUsed + uint64(gas.gasRefunded);
    }

    /// What the deposit uses when it goes through; it is undone.
    function gasOf(uint256 amount) private returns (uint256 used) {
        bytes memory call = callOf(fromAddress(paid, amount));
        uint256 snapshot = vm.snapshotState();
        vm.prank(stranger);
        used = gasleft();
        (bool done,) = address(factory).call(call);
        used -= gasleft();
        assertTrue(done);
        vm.revertToState(snapshot);
    }

    // The address itself

    /// Nobody but its factory says what it does, and the implementation behind it belongs to nobody.
    function test_OnlyTheFactoryCallsAnAddress() public {
        makeCode();
        bytes memory signature = admissionOf(fromAddress(paid, LARGER));
        bytes[2] memory calls = [
            abi.encodeCall(DepositAddress.deposit, (paid, LARGER, reservation(), ADMITTED_UNTIL, signature)),
            abi.encodeCall(DepositAddress.pay, (address(token), attacker, LARGER))
        ];
        address[2] memory targets = [at, factory.implementation()];
        address[6] memory callers = [attacker, payer, reserver, address(escrow), at, factory.implementation()];
        for (uint256 i = 0; i < 24; i++) {
            address by = callers[i % 6];
            vm.prank(by);
            (bool done, bytes memory why) = targets[i / 12].call(calls[i / 6 % 2]);
            assertFalse(done);
            assertEq(why, abi.encodeWithSelector(DepositAddress.CallerNotFactory.selector, by));
        }
        assertUntouched();
    }

    /// Another factory has addresses of its own.
    function test_AnotherFactoryDoesNotCommandAnAddress() public {
        makeCode();
        DepositAddresses another = newFactory();
        vm.prank(address(another));
        vm.expectRevert(abi.encodeWithSelector(DepositAddress.CallerNotFactory.selector, address(another)));
        DepositAddress(at).pay(address(token), attacker, LARGER);
        vm.warp(START + 61);
        vm.expectRevert(nothingThere(address(token)));
        another.giveBack(paid, address(token));
        assertUntouched();
    }

    /// There is nothing else to call, not even for the factory, and coins are not taken.
    function testFuzz_NothingElseCanBeCalled(bytes4 selector, bytes calldata arguments, bool implementation, bool byFactory)
        public
    {
        makeCode();
        vm.assume(selector != DepositAddress.deposit.selector && selector != DepositAddress.pay.selector);
        address target = implementation ? factory.implementation() : at;
        address by = byFactory ? address(factory) : attacker;
        vm.prank(by);
        (bool done,) = target.call(bytes.concat(selector, arguments));
        assertFalse(done);
        vm.prank(by);
        (done,) = target.call("");
        assertFalse(done);
        if (isOfFactory(selector)) return;
        vm.prank(attacker);
        (done,) = address(factory).call(bytes.concat(selector, arguments));
        assertFalse(done);
        assertUntouched();
    }

    function isOfFactory(bytes4 selector) internal view virtual returns (bool) {
        return selector == factory.implementation.selector || selector == factory.addressOf.selector
            || selector == factory.deposit.selector || selector == factory.giveBack.selector;
    }

    function test_NeitherFactoryNorAddressTakesCoins() public {
        makeCode();
        vm.deal(attacker, 1 ether);
        bytes memory deposit = callOf(fromAddress(paid, LARGER));
        address[3] memory targets = [address(factory), factory.implementation(), at];
        for (uint256 i = 0; i < 3; i++) {
            vm.prank(attacker);
            (bool done,) = targets[i].call{value: 1}(i == 0 ? deposit : bytes(""));
            assertFalse(done);
        }
        vm.deal(address(factory), 1);
        vm.prank(address(factory));
        (bool sent,) = at.call{value: 1}(abi.encodeCall(DepositAddress.pay, (address(token), attacker, 1)));
        assertFalse(sent);
        assertUntouched();
    }

    function makeCode() private {
        pay(paid, address(trick), 1);
        giveBack(paid, address(trick));
        assertEq(at.code, proxyCode(factory));
    }
}
