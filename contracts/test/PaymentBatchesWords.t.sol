// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "../src/DepositAddress.sol";
import {DepositAddresses} from "../src/DepositAddresses.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2} from "../src/IPermit2.sol";
import {IPermit2Batch} from "../src/IPermit2Batch.sol";
import {PaymentBatches} from "../src/PaymentBatches.sol";
import {BatchPaying} from "./support/BatchPaying.sol";

/// @notice With whose words a payment of a batch comes into the escrow, and that nobody has another way to its money: the same words
/// again, payers that permit or have too little, other admissions, escrows, chains and contracts, and calls of the address itself.
contract PaymentBatchesWordsTest is BatchPaying {
    bytes32 private constant QUOTE = keccak256("quote");

    // Once

    function test_TheSameCallAgain() public {
        Signed memory s = batchOf(3);
        FromBatch memory f = fromBatch(s, 0);
        bytes memory call = callOf(f);
        makeDeposit(f);
        bytes memory used = abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(0));
        expectDepositRefused(f, call, used);
        // Also with another admission, and when the payment is over.
        f.award.quoteHash = keccak256("another quote");
        expectDepositRefused(f, used);
        escrow.cancel(termsOf(idOf(0)), signNonDelivery(releaserKey, idOf(0), QUOTE));
        expectDepositRefused(f, used);
        expectDepositRefused(f, call, used);
        assertEq(token.balanceOf(addressBy(s.batch)), 2 * CAP + 3);
        assertEq(token.balanceOf(payer), WEALTH - 2 * CAP - 3);
    }

    /// A nonce is one batch's, and its signature draws no second time, be the address without its code.
    function test_TheSameNonceAgain() public {
        Signed memory s = batchOf(2);
        makeDeposit(s, 0);
        DepositAddresses.Terms[] memory others = new DepositAddresses.Terms[](2);
        for (uint256 i = 0; i < 2; i++) others[i] = payment(10 + i, address(token), CAP);
        expectDepositRefused(fromBatch(signed(others), 0), usedNonce());
        vm.etch(addressBy(s.batch), "");
        vm.resetNonce(addressBy(s.batch));
        expectDepositRefused(fromBatch(s, 1), usedNonce());
    }

    /// A batch whose nonce the payer gave up is not drawn, be there money of strays; once it is drawn that changes nothing.
    function test_AGivenUpNonce() public {
        Signed memory s = batchOf(2);
        uint256 snapshot = vm.snapshotState();
        token.mint(addressBy(s.batch), 2 * CAP + 1);
        giveUp();
        expectDepositRefused(fromBatch(s, 0), usedNonce());
        vm.revertToState(snapshot);
        makeDeposit(s, 0);
        giveUp();
        vm.prank(payer);
        token.approve(PERMIT2, 0);
        makeDeposit(s, 1);
        assertEq(token.balanceOf(address(escrow)), 2 * CAP + 1);
    }

    function giveUp() private {
        vm.prank(payer);
        (bool done,) = PERMIT2.call(
            abi.encodeWithSignature("invalidateUnorderedNonces(uint256,uint256)", NONCE >> 8, 1 << (NONCE & 0xff))
        );
        assertTrue(done);
    }

    // More and less than is permitted

    /// Who permits less than its payments ask for has the later ones fail; what is left comes back.
    function test_LessIsPermittedThanThePaymentsAskFor() public {
        for (uint256 i = 0; i < 3; i++) {
            uint256 snapshot = vm.snapshotState();
            Signed memory s = batchOf(3);
            s.batch.permitted[0].amount = 3 * CAP + 2;
            resign(s);
            makeDeposit(s, i);
            makeDeposit(s, (i + 1) % 3);
            uint256 last = (i + 2) % 3;
            expectDepositRefused(fromBatch(s, last), escrowReceived(CAP + last, 0));
            afterTheDeadline();
            assertEq(giveBack(s.batch, address(token)), CAP + last - 1);
            assertEq(token.balanceOf(payer), WEALTH - 2 * CAP - 3 + last);
            vm.revertToState(snapshot);
        }
    }

    /// And where even one asks for more, nothing is drawn. Nor does a payment in a token that is not permitted draw the others.
    function test_TooLittleForAnyOfThem() public {
        Signed memory s = batchOf(2);
        s.batch.permitted[0].amount = CAP - 1;
        resign(s);
        expectDepositRefused(fromBatch(s, 0), escrowReceived(CAP, 0));
        s = batchOf(2);
        s.payments[1].token = address(euro);
        resign(s);
        expectDepositRefused(fromBatch(s, 1), escrowReceived(CAP + 1, 0));
        s.batch.permitted[0].amount = 0;
        resign(s);
        expectDepositRefused(fromBatch(s, 0), escrowReceived(CAP, 0));
    }

    function test_MoreIsPermittedThanThePaymentsAskFor() public {
        Signed memory s = batchOf(2);
        s.batch.permitted[0].amount = 5 * CAP;
        resign(s);
        makeDeposit(s, 0);
        makeDeposit(s, 1);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), 3 * CAP - 1);
        assertPaid(address(token), 0, 2 * CAP + 1);
    }

    /// A payer that has not all of it, or lets Permit2 not take it, has nothing drawn; the same call goes through when it has.
    function test_APayerWithoutTheMoneyOrTheAllowance() public {
        Signed memory s = batchOf(2);
        vm.prank(payer);
        token.transfer(stranger, WEALTH - 2 * CAP);
        bytes memory refusal = abi.encodeWithSignature("Error(string)", "TRANSFER_FROM_FAILED");
        token.mint(addressBy(s.batch), 2 * CAP);
        expectDepositRefused(fromBatch(s, 0), refusal);
        token.mint(payer, 1);
        vm.prank(payer);
        token.approve(PERMIT2, 2 * CAP);
        expectDepositRefused(fromBatch(s, 0), refusal);
        vm.prank(payer);
        token.approve(PERMIT2, 2 * CAP + 1);
        makeDeposit(s, 0);
        assertEq(token.balanceOf(payer), 0);
    }

    // Other words of the reserver's

    /// It signs the payment, all of its amount, with this award and until then. Any field another one is another deposit.
    function testFuzz_NothingOfTheAdmissionCanBeChanged(uint256 field, uint256 value, bool drawn) public {
        Signed memory s = batchOf(2);
        if (drawn) makeDeposit(s, 1);
        FromBatch memory f = fromBatch(s, 0);
        Larger memory right = Larger(false, f.terms.deposit, f.award, f.terms.token, f.terms.amount, f.admittedUntil);
        Larger memory l = altered(right, field, value);
        expectDepositRefused(f, callOf(f, admissionOf(l)), notAdmitted());
        makeDeposit(f);
    }

    /// Nor is half of it deposited, whoever signs that.
    function test_NoHalfAmounts() public {
        Signed memory s = batchOf(2);
        FromBatch memory f = fromBatch(s, 0);
        bytes memory half = signLargerAdmission(
            reserverKey, f.terms.deposit, f.award, address(token), CAP / 2, ADMITTED_UNTIL
        );
        expectDepositRefused(f, callOf(f, half), notAdmitted());
        f.terms.amount = CAP / 2;
        expectDepositRefused(f, callOf(f, half), notInBatch(f));
    }

    function test_AnAdmissionEnds() public {
        FromBatch memory f = fromBatch(batchOf(2), 0);
        f.admittedUntil = START + 10;
        vm.warp(START + 11);
        expectDepositRefused(f, abi.encodeWithSelector(GatewayEscrow.AdmissionExpired.selector, START + 10));
        vm.warp(START + 10);
        makeDeposit(f);
    }

    function test_NoOtherAwardThanTheAdmitted() public {
        Signed memory s = batchOf(2);
        bytes memory admission = admissionOf(fromBatch(s, 0));
        for (uint256 i = 0; i < 5; i++) {
            FromBatch memory f = fromBatch(s, 0);
            if (i == 0) f.award.settler = attacker;
            if (i == 1) f.award.sourceAmount += 1;
            if (i == 2) f.award.quoteHash = keccak256("another quote");
            if (i == 3) f.award.fulfillBy += 1;
            if (i == 4) f.admittedUntil += 1;
            expectDepositRefused(f, callOf(f, admission), notAdmitted());
        }
        FromBatch memory foreign = fromBatch(s, 0);
        foreign.award.paymentId = idOf(1);
        expectDepositRefused(
            foreign, abi.encodeWithSelector(GatewayEscrow.PaymentIdMismatch.selector, idOf(0), idOf(1))
        );
    }

    // Escrows, chains and contracts

    /// As it is on a chain where there is no such escrow; and one that has no Permit2 draws nothing.
    function test_WhereThereIsNoEscrowOrNoPermit2() public {
        Signed memory s = batchOf(2);
        address nowhere = makeAddr("an escrow of another chain");
        for (uint256 i = 0; i < 2; i++) s.payments[i].escrow = nowhere;
        resign(s);
        expectDepositRefused(fromBatch(s, 0), abi.encodeWithSelector(PaymentBatches.EscrowMissing.selector, nowhere));
        token.mint(addressBy(s.batch), CAP);
        escrow = new GatewayEscrow(address(0), reserver, guardian, PAYOUT_GAS);
        expectDepositRefused(fromBatch(batchOf(2), 0), "");
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), CAP);
    }

    /// The escrow is part of the batch and of each payment, and its admission names it.
    function test_AnotherEscrowOfTheSameReserver() public {
        Signed memory s = batchOf(2);
        FromBatch memory f = fromBatch(s, 0);
        bytes memory there = admissionOf(f);
        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        f.terms.escrow = address(escrow);
        expectDepositRefused(f, notItsEscrow(address(escrow)));
        f.batch.escrow = address(escrow);
        expectDepositRefused(f, notInBatch(f));
        // With the same root the escrow is signed for all the same.
        s = batchOf(2);
        f = fromBatch(s, 0);
        bytes memory right = f.signature;
        f.signature = sign(payerKey, permit2Digest(withoutEscrow(s)));
        expectDepositRefused(f, invalidSigner());
        f.signature = right;
        expectDepositRefused(f, callOf(f, there), notAdmitted());
        makeDeposit(f);
    }

    /// The same with a witness of the root alone.
    function withoutEscrow(Signed memory s) private view returns (bytes32) {
        IPermit2.TokenPermissions memory p = s.batch.permitted[0];
        bytes32 permissions = keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, p.token, p.amount));
        bytes32 witness = keccak256(abi.encode(keccak256("PaymentBatch(bytes32 payments)"), s.batch.payments));
        return keccak256(
            abi.encode(
                keccak256(
                    "PermitBatchWitnessTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline,PaymentBatch witness)PaymentBatch(bytes32 payments)TokenPermissions(address token,uint256 amount)"
                ),
                keccak256(abi.encode(permissions)),
                batches,
                s.batch.nonce,
                s.batch.deadline,
                witness
            )
        );
    }

    /// When the escrow takes no deposits any more, what is drawn is given back, and what is not stays with the payer.
    function test_AnEscrowThatRetired() public {
        Signed memory s = batchOf(2);
        uint256 snapshot = vm.snapshotState();
        retire();
        bytes memory retired = abi.encodePacked(GatewayEscrow.EscrowRetired.selector);
        expectDepositRefused(fromBatch(s, 0), retired);
        vm.revertToState(snapshot);
        makeDeposit(s, 0);
        retire();
        expectDepositRefused(fromBatch(s, 1), retired);
        afterTheDeadline();
        assertEq(giveBack(s.batch, address(token)), CAP + 1);
    }

    function retire() private {
        vm.prank(guardian);
        escrow.retire();
    }

    /// Where a batch's address is the same, neither the payer's word is nor the reserver's.
    function test_OnThisChainAlone() public {
        Signed memory s = batchOf(2);
        FromBatch memory f = fromBatch(s, 0);
        bytes memory here = admissionOf(f);
        vm.chainId(block.chainid + 1);
        assertEq(batches.addressOf(s.batch), addressBy(s.batch));
        expectDepositRefused(f, invalidSigner());
        expectDepositRefused(f, callOf(f, here), invalidSigner());
        resign(s);
        f = fromBatch(s, 0);
        expectDepositRefused(f, callOf(f, here), notAdmitted());
        makeDeposit(f);
    }

    /// Whose spender is another contract, be it of the same code; and other words of the payer's to Permit2.
    function test_OnlyThisWordOfThePayers() public {
        Signed memory s = batchOf(2);
        IPermit2.TokenPermissions memory p = s.batch.permitted[0];
        bytes32 permissions = keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, p.token, p.amount));
        bytes32[4] memory others = [
            batchHash(address(new PaymentBatches()), s.batch),
            batchHash(address(escrow), s.batch),
            keccak256(abi.encode(PERMIT_TYPEHASH, permissions, batches, NONCE, s.batch.deadline)),
            // Without a witness.
            keccak256(
                abi.encode(
                    keccak256(
                        "PermitBatchTransferFrom(TokenPermissions[] permitted,address spender,uint256 nonce,uint256 deadline)TokenPermissions(address token,uint256 amount)"
                    ),
                    keccak256(abi.encode(permissions)),
                    batches,
                    NONCE,
                    s.batch.deadline
                )
            )
        ];
        for (uint256 i = 0; i < 4; i++) {
            FromBatch memory f = fromBatch(s, 0);
            f.signature = sign(payerKey, permit2Digest(others[i]));
            expectDepositRefused(f, invalidSigner());
        }
        FromBatch memory foreign = fromBatch(s, 0);
        foreign.signature = sign(attackerKey, batchDigest(s.batch));
        expectDepositRefused(foreign, invalidSigner());
        foreign.signature = "";
        expectDepositRefused(foreign, abi.encodeWithSignature("InvalidSignatureLength()"));
        makeDeposit(s, 0);
    }

    /// Nobody but the contract is the spender that the payer signed for.
    function test_WhatIsSignedServesNobodyAtPermit2() public {
        Signed memory s = batchOf(2);
        IPermit2.SignatureTransferDetails[] memory transfers = new IPermit2.SignatureTransferDetails[](1);
        bytes32 witness = keccak256(abi.encode(WITNESS_TYPEHASH, s.batch.escrow, s.batch.payments));
        address[3] memory receivers = [attacker, addressBy(s.batch), address(batches)];
        string memory type_ = batches.WITNESS_TYPE();
        for (uint256 i = 0; i < 3; i++) {
            transfers[0] = IPermit2.SignatureTransferDetails(receivers[i], 2 * CAP + 1);
            vm.prank(attacker);
            vm.expectRevert(invalidSigner());
            IPermit2Batch(PERMIT2).permitWitnessTransferFrom(
                IPermit2Batch.PermitBatchTransferFrom(s.batch.permitted, NONCE, DEADLINE),
                transfers,
                payer,
                witness,
                type_,
                s.signature
            );
        }
    }

    // The address itself

    /// Nobody but the contract that made it says what it does, also no other of its code, and the code behind it belongs to nobody.
    function test_OnlyTheContractCallsAnAddress() public {
        Signed memory s = batchOf(2);
        makeDeposit(s, 0);
        FromBatch memory f = fromBatch(s, 1);
        bytes[2] memory calls = [
            abi.encodeCall(DepositAddress.deposit, (f.terms, CAP + 1, f.award, f.admittedUntil, admissionOf(f))),
            abi.encodeCall(DepositAddress.pay, (address(token), attacker, CAP + 1))
        ];
        address at = addressBy(s.batch);
        address[2] memory targets = [at, batches.implementation()];
        address[7] memory callers =
            [attacker, payer, reserver, address(escrow), at, address(new PaymentBatches()), PERMIT2];
        for (uint256 i = 0; i < 28; i++) {
            address by = callers[i % 7];
            vm.prank(by);
            (bool done, bytes memory why) = targets[i / 14].call(calls[i / 7 % 2]);
            assertFalse(done);
            assertEq(why, abi.encodeWithSelector(DepositAddress.CallerNotFactory.selector, by));
        }
        assertEq(token.balanceOf(at), CAP + 1);
    }

    /// There is nothing else to call, not even for the contract, and nothing here takes coins.
    function testFuzz_NothingElseCanBeCalled(bytes4 selector, bytes calldata arguments, bool implementation) public {
        Signed memory s = batchOf(2);
        makeDeposit(s, 0);
        if (selector != DepositAddress.deposit.selector && selector != DepositAddress.pay.selector) {
            vm.prank(address(batches));
            (bool answered,) = (implementation ? batches.implementation() : addressBy(s.batch)).call(
                bytes.concat(selector, arguments)
            );
            assertFalse(answered);
        }
        bytes memory call = callOf(fromBatch(s, 1));
        vm.deal(attacker, 1);
        vm.prank(attacker);
        (bool done,) = address(batches).call{value: 1}(call);
        assertFalse(done);
        bytes4[6] memory own = [
            batches.implementation.selector,
            batches.addressOf.selector,
            batches.leafOf.selector,
            batches.deposit.selector,
            batches.giveBack.selector,
            batches.WITNESS_TYPE.selector
        ];
        for (uint256 i = 0; i < own.length; i++) {
            if (selector == own[i]) return;
        }
        vm.prank(attacker);
        (done,) = address(batches).call(bytes.concat(selector, arguments));
        assertFalse(done);
        assertEq(token.balanceOf(addressBy(s.batch)), CAP + 1);
    }

    /// What an escrow calls its Permit2 is asked this one thing, which no address does.
    function test_AnAddressIsNoPermit2() public pure {
        assertNotEq(IPermit2Batch.permitWitnessTransferFrom.selector, DepositAddress.deposit.selector);
        assertNotEq(IPermit2Batch.permitWitnessTransferFrom.selector, DepositAddress.pay.selector);
    }
}
