// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {ContractSigner} from "./support/ContractSigner.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice How a mandate ends: by its payer, by its merchant, by anyone with the payer's signature; and what Permit2 and the token end of
/// it or only halt.
contract MandatesEndsTest is Mandating {
    function test_APayerEndsItsMandate() public {
        Mandates.Mandate memory m = mandate();
        makeDeposit(drawing(0));
        vm.expectEmit(address(mandates));
        emit Mandates.Cancelled(addressBy(m), payer);
        vm.prank(payer);
        mandates.cancel(m, "");
        isCancelled(m, ASKED);
        // Again it is the same.
        vm.prank(payer);
        mandates.cancel(m, "");
        // What is in the escrow stays there for its payment.
        escrow.release(termsOf(idOf(0)), signDelivery(releaserKey, idOf(0), QUOTE, settler));
        assertPaid(address(token), PRICE, 0);
    }

    function isCancelled(Mandates.Mandate memory m, uint160 drawn) private {
        (, uint160 amount, bool cancelled) = mandates.used(addressBy(m));
        assertEq(amount, drawn);
        assertTrue(cancelled);
        uint256 snapshot = vm.snapshotState();
        assertEq(mandates.leftOf(m), 0);
        for (uint256 i = 0; i < PERIODS; i += 11) {
            vm.warp(startOf(i) + 1);
            expectDepositRefused(drawing(m, 1, 1), cancelledAt(m));
        }
        vm.revertToState(snapshot);
    }

    function test_AnyoneEndsItWithThePayersSignature() public {
        Mandates.Mandate memory m = mandate();
        Mandates.Mandate memory other = mandate();
        other.salt = 0;
        bytes memory signature = sign(payerKey, cancellationDigest(m));
        address[2] memory callers = [stranger, attacker];
        for (uint256 i = 0; i < 2; i++) {
            vm.startPrank(callers[i]);
            vm.expectRevert(notByPayer(m));
            mandates.cancel(m, "");
            vm.expectRevert(notByPayer(m));
            mandates.cancel(m, sign(attackerKey, cancellationDigest(m)));
            vm.expectRevert(notByPayer(m));
            mandates.cancel(m, sign(payerKey, cancellationDigest(other)));
            vm.expectRevert(notByPayer(other));
            mandates.cancel(other, signature);
            uint256 snapshot = vm.snapshotState();
            mandates.cancel(m, signature);
            vm.stopPrank();
            isCancelled(m, 0);
            vm.revertToState(snapshot);
        }
        makeDeposit(drawing(0));
    }

    /// Whose key others may have, so that they could ask in its place.
    function test_TheMerchantEndsIt() public {
        Mandates.Mandate memory m = mandate();
        vm.expectEmit(address(mandates));
        emit Mandates.Cancelled(addressBy(m), payer);
        vm.prank(merchant);
        mandates.cancel(m, "");
        isCancelled(m, 0);
    }

    /// A key's signature counts whatever code its account has (EIP-7702), and so does what that code takes.
    function test_APayerWithAKeyAndCode() public {
        Mandates.Mandate memory m = mandate();
        bytes memory code = address(new ContractSigner(attacker)).code;
        uint256[2] memory keys = [payerKey, attackerKey];
        for (uint256 i = 0; i < 2; i++) {
            uint256 snapshot = vm.snapshotState();
            bytes memory signature = sign(keys[i], cancellationDigest(m));
            vm.etch(payer, code);
            vm.prank(stranger);
            mandates.cancel(m, signature);
            isCancelled(m, 0);
            vm.revertToState(snapshot);
        }
    }

    /// At Permit2, once the allowance is there: the signature that gave it gives no other.
    function test_ALockdownEndsIt() public {
        Drawing memory f = drawing(0);
        makeDeposit(f);
        lockDown();
        expectDepositRefused(drawing(1), insufficient(0));
        IPermit2Allowance.PermitSingle memory p = permitBy(f.mandate);
        vm.expectRevert(abi.encodeWithSignature("InvalidNonce()"));
        IPermit2Allowance(PERMIT2).permit(payer, p, f.permit);
        // The payer alone has it go on.
        allowAtPermit2(ASKED, END - 1);
        makeDeposit(drawing(1));
        expectDepositRefused(drawing(2), aboveThePeriod(ASKED, 200e6));
        expectDepositRefused(drawing(mandate(), 2, 1), insufficient(0));
    }

    /// Where the signature was never brought it still gives its allowance, after a lockdown and beside an own allowance; its nonce
    /// given up, it gives none.
    function test_ALockdownDoesNotEndASignatureThatWasNeverBrought() public {
        uint256 snapshot = vm.snapshotState();
        lockDown();
        makeDeposit(drawing(0));
        vm.revertToState(snapshot);
        allowAtPermit2(12_000e6, END - 1);
        makeDeposit(drawing(0));
        lockDown();
        makeDeposit(drawing(1));
        vm.revertToState(snapshot);
        vm.prank(payer);
        (bool done,) = PERMIT2.call(
            abi.encodeWithSignature(
                "invalidateNonces(address,address,uint48)", address(token), addressBy(mandate()), uint48(1)
            )
        );
        assertTrue(done);
        // Without an allowance of any time there is none that has not expired.
        expectDepositRefused(drawing(0), abi.encodeWithSignature("AllowanceExpired(uint256)", 0));
    }

    struct Pair {
        address token;
        address spender;
    }

    function lockDown() private {
        Pair[] memory pairs = new Pair[](1);
        pairs[0] = Pair(address(token), addressBy(mandate()));
        vm.prank(payer);
        (bool done,) = PERMIT2.call(abi.encodeWithSignature("lockdown((address,address)[])", pairs));
        assertTrue(done);
    }

    /// At the token; and a payer that has too little has nothing drawn until it has more.
    function test_WithoutTheTokensAllowanceOrTheMoney() public {
        makeDeposit(drawing(0));
        vm.prank(payer);
        token.approve(PERMIT2, ASKED - 1);
        expectDepositRefused(drawing(1), failedTransfer());
        vm.prank(payer);
        token.approve(PERMIT2, ASKED);
        uint256 held = token.balanceOf(payer);
        vm.prank(payer);
        token.transfer(stranger, held - ASKED + 1);
        token.mint(addressBy(mandate()), ASKED);
        expectDepositRefused(drawing(1), failedTransfer());
        token.mint(payer, 1);
        makeDeposit(drawing(1));
        assertEq(token.balanceOf(payer), 0);
    }
}
