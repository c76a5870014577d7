// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {AccountOfOneWord} from "./support/AccountOfOneWord.sol";
import {Authorizations} from "./support/Authorizations.sol";
import {ContractSigner} from "./support/ContractSigner.sol";

/// @notice The development token that takes signatures: the rules of ERC-3009 and ERC-2612, each with a signature in parts and in one
/// piece.
contract DevStablecoinTest is Authorizations {
    bytes32 private constant NONCE = keccak256("nonce");

    function test_WhatItSaysOfItself() public view {
        assertEq(stable.name(), TOKEN_NAME);
        assertEq(stable.symbol(), "dUSDC");
        assertEq(stable.version(), "1");
        assertEq(stable.decimals(), 6);
        assertEq(stable.RECEIVE_WITH_AUTHORIZATION_TYPEHASH(), RECEIVE_TYPEHASH);
        assertEq(stable.TRANSFER_WITH_AUTHORIZATION_TYPEHASH(), TRANSFER_TYPEHASH);
        assertEq(stable.CANCEL_AUTHORIZATION_TYPEHASH(), CANCEL_TYPEHASH);
        // As published: https://eips.ethereum.org/EIPS/eip-3009
        assertEq(RECEIVE_TYPEHASH, 0xd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8);
        assertEq(TRANSFER_TYPEHASH, 0x7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267);
        assertEq(CANCEL_TYPEHASH, 0x158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429);
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(TOKEN_NAME)), keccak256("1"), block.chainid, address(stable))
        );
        assertEq(stable.DOMAIN_SEPARATOR(), domain);
    }

    // Transfers by authorization

    function test_EachWayMovesTheMoneyOnce() public {
        for (uint256 way = 0; way < 4; way++) {
            uint256 snapshot = vm.snapshotState();
            Move memory m = move();
            bytes memory call = callOf(way, m, signed(way, m));
            assertFalse(stable.authorizationState(payer, NONCE));
            vm.expectEmit(address(stable));
            emit DevStablecoin.AuthorizationUsed(payer, NONCE);
            vm.expectEmit(address(stable));
            emit IERC20.Transfer(payer, settler, CAP);
            (bool done,) = sent(settler, call);
            assertTrue(done);
            assertEq(stable.balanceOf(settler), CAP);
            assertEq(stable.balanceOf(payer), WEALTH - CAP);
            assertTrue(stable.authorizationState(payer, NONCE));
            assertFalse(stable.authorizationState(settler, NONCE));
            refused(settler, call, DevStablecoin.AuthorizationUsedOrCanceled.selector);
            // By the other ways neither: a nonce is used for all.
            refused(
                settler, callOf(way ^ 2, m, signed(way ^ 2, m)), DevStablecoin.AuthorizationUsedOrCanceled.selector
            );
            vm.revertToState(snapshot);
        }
    }

    function test_OnlyTheRecipientReceives() public {
        Move memory m = move();
        for (uint256 way = 0; way < 4; way++) {
            bytes memory call = callOf(way, m, signed(way, m));
            uint256 snapshot = vm.snapshotState();
            if (receives(way)) {
                refused(payer, call, DevStablecoin.CallerNotPayee.selector);
                refused(attacker, call, DevStablecoin.CallerNotPayee.selector);
            } else {
                (bool done,) = sent(attacker, call);
                assertTrue(done);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_TheTimesAtBothEdges() public {
        Move memory m = move();
        for (uint256 way = 0; way < 4; way++) {
            bytes memory call = callOf(way, m, signed(way, m));
            uint256 snapshot = vm.snapshotState();
            vm.warp(m.validAfter);
            refused(settler, call, DevStablecoin.AuthorizationNotYetValid.selector);
            vm.warp(m.validBefore);
            refused(settler, call, DevStablecoin.AuthorizationExpired.selector);
            for (uint256 i = 0; i < 2; i++) {
                vm.warp(i == 0 ? m.validAfter + 1 : m.validBefore - 1);
                uint256 then = vm.snapshotState();
                (bool done,) = sent(settler, call);
                assertTrue(done);
                vm.revertToState(then);
            }
            vm.revertToState(snapshot);
        }
    }

    function test_NothingThatWasSignedCanBeChanged() public {
        stable.mint(attacker, WEALTH);
        for (uint256 way = 0; way < 4; way++) {
            bytes memory signature = signed(way, move());
            for (uint256 field = 0; field < 6; field++) {
                Move memory m = move();
                if (field == 0) m.from = attacker;
                if (field == 1) m.to = attacker;
                if (field == 2) m.value += 1;
                if (field == 3) m.validAfter -= 1;
                if (field == 4) m.validBefore += 1;
                if (field == 5) m.nonce = keccak256("other nonce");
                refused(m.to, callOf(way, m, signature), DevStablecoin.SignatureInvalid.selector);
            }
            // Neither is it good for the other function, the other token or on the other chain.
            refused(settler, callOf(way ^ 1, move(), signature), DevStablecoin.SignatureInvalid.selector);
            uint256 chain = block.chainid;
            vm.chainId(chain + 1);
            refused(settler, callOf(way, move(), signature), DevStablecoin.SignatureInvalid.selector);
            vm.chainId(chain);
            DevStablecoin home = stable;
            stable = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
            refused(settler, callOf(way, move(), signature), DevStablecoin.SignatureInvalid.selector);
            stable = home;
        }
    }

    function test_NoneButTheOwnersSignature() public {
        Move memory m = move();
        for (uint256 way = 0; way < 4; way++) {
            bytes memory signature = signed(way, m);
            bytes32 digest = moveDigest(address(stable), typehashOf(way), m);
            refused(settler, callOf(way, m, sign(attackerKey, digest)), DevStablecoin.SignatureInvalid.selector);
            (uint8 v, bytes32 r, bytes32 s) = halves(signature);
            // The same with the other, high s.
            bytes32 high = bytes32(0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141 - uint256(s));
            bytes memory other = abi.encodePacked(r, high, v == 27 ? uint8(28) : uint8(27));
            refused(settler, callOf(way, m, other), DevStablecoin.SignatureInvalid.selector);
            other = abi.encodePacked(r, s, v - 27);
            refused(settler, callOf(way, m, other), DevStablecoin.SignatureInvalid.selector);
            if (way >= 2) {
                refused(settler, callOf(way, m, short(signature)), DevStablecoin.SignatureInvalid.selector);
                refused(settler, callOf(way, m, ""), DevStablecoin.SignatureInvalid.selector);
            }
        }
    }

    /// Whoever has code is asked.
    function test_OfContracts() public {
        Move memory m = move();
        m.from = address(new ContractSigner(payer));
        stable.mint(m.from, 4 * CAP);
        for (uint256 way = 0; way < 4; way++) {
            m.nonce = keccak256(abi.encode(way));
            bytes32 digest = moveDigest(address(stable), typehashOf(way), m);
            refused(settler, callOf(way, m, sign(attackerKey, digest)), DevStablecoin.SignatureInvalid.selector);
            (bool done,) = sent(settler, callOf(way, m, sign(payerKey, digest)));
            assertTrue(done);
        }
        assertEq(stable.balanceOf(settler), 4 * CAP);
    }

    function test_WithoutTheMoneyTheNonceStays() public {
        Move memory m = move();
        m.value = WEALTH + 1;
        for (uint256 way = 0; way < 4; way++) {
            (bool done,) = sent(settler, callOf(way, m, signed(way, m)));
            assertFalse(done);
            assertFalse(stable.authorizationState(payer, NONCE));
        }
    }

    // Nonces that are given up

    function test_ANonceGivenUpIsUsedForEver() public {
        bytes memory signature = sign(payerKey, cancelDigest(payer));
        (uint8 v, bytes32 r, bytes32 s) = halves(signature);
        for (uint256 way = 0; way < 2; way++) {
            uint256 snapshot = vm.snapshotState();
            vm.expectEmit(address(stable));
            emit DevStablecoin.AuthorizationCanceled(payer, NONCE);
            vm.prank(stranger);
            if (way == 0) stable.cancelAuthorization(payer, NONCE, v, r, s);
            else stable.cancelAuthorization(payer, NONCE, signature);
            assertTrue(stable.authorizationState(payer, NONCE));
            Move memory m = move();
            for (uint256 i = 0; i < 4; i++) {
                refused(settler, callOf(i, m, signed(i, m)), DevStablecoin.AuthorizationUsedOrCanceled.selector);
            }
            vm.expectRevert(DevStablecoin.AuthorizationUsedOrCanceled.selector);
            stable.cancelAuthorization(payer, NONCE, v, r, s);
            vm.expectRevert(DevStablecoin.AuthorizationUsedOrCanceled.selector);
            stable.cancelAuthorization(payer, NONCE, signature);
            vm.revertToState(snapshot);
        }
    }

    function test_NobodyElseGivesANonceUp() public {
        bytes memory byAnother = sign(attackerKey, cancelDigest(payer));
        (uint8 v, bytes32 r, bytes32 s) = halves(byAnother);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.cancelAuthorization(payer, NONCE, v, r, s);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.cancelAuthorization(payer, NONCE, byAnother);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.cancelAuthorization(payer, keccak256("other nonce"), sign(payerKey, cancelDigest(payer)));
        // One's own of that name is another's not.
        stable.cancelAuthorization(attacker, NONCE, sign(attackerKey, cancelDigest(attacker)));
        (bool done,) = sent(settler, callOf(0, move(), signed(0, move())));
        assertTrue(done);
    }

    // Allowances by signature

    function test_AnAllowanceByEachKindOfSignature() public {
        bytes memory signature = sign(payerKey, permitDigest(payer, CAP, 0, START));
        (uint8 v, bytes32 r, bytes32 s) = halves(signature);
        uint256 snapshot = vm.snapshotState();
        for (uint256 way = 0; way < 2; way++) {
            vm.expectEmit(address(stable));
            emit IERC20.Approval(payer, PERMIT2, CAP);
            vm.prank(stranger);
            if (way == 0) stable.permit(payer, PERMIT2, CAP, START, v, r, s);
            else stable.permit(payer, PERMIT2, CAP, START, signature);
            assertEq(stable.allowance(payer, PERMIT2), CAP);
            assertEq(stable.nonces(payer), 1);
            // Once.
            vm.expectRevert();
            stable.permit(payer, PERMIT2, CAP, START, v, r, s);
            vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
            stable.permit(payer, PERMIT2, CAP, START, signature);
            vm.revertToState(snapshot);
        }
        vm.warp(START + 1);
        bytes memory expired = abi.encodeWithSelector(ERC20Permit.ERC2612ExpiredSignature.selector, START);
        vm.expectRevert(expired);
        stable.permit(payer, PERMIT2, CAP, START, v, r, s);
        vm.expectRevert(expired);
        stable.permit(payer, PERMIT2, CAP, START, signature);
    }

    function test_NobodyElseGivesAnAllowance() public {
        bytes memory right = sign(payerKey, permitDigest(payer, CAP, 0, START));
        bytes[3] memory wrong = [
            sign(attackerKey, permitDigest(payer, CAP, 0, START)),
            sign(payerKey, permitDigest(payer, CAP, 1, START)),
            sign(payerKey, permitDigest(payer, CAP + 1, 0, START))
        ];
        for (uint256 i = 0; i < wrong.length; i++) {
            (uint8 v, bytes32 r, bytes32 s) = halves(wrong[i]);
            vm.expectRevert();
            stable.permit(payer, PERMIT2, CAP, START, v, r, s);
            vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
            stable.permit(payer, PERMIT2, CAP, START, wrong[i]);
        }
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.permit(payer, attacker, CAP, START, right);
        assertEq(stable.nonces(payer), 0);
    }

    /// In one piece it may be a contract's, of whatever form.
    function test_AnAllowanceOfAContract() public {
        address account = vm.computeCreateAddress(address(this), vm.getNonce(address(this)));
        bytes32 digest = permitDigest(account, CAP, 0, START);
        assertEq(address(new AccountOfOneWord(digest, "yes")), account);
        vm.expectRevert(DevStablecoin.SignatureInvalid.selector);
        stable.permit(account, PERMIT2, CAP, START, "no");
        stable.permit(account, PERMIT2, CAP, START, "yes");
        assertEq(stable.allowance(account, PERMIT2), CAP);
    }

    // Helpers

    function move() private view returns (Move memory) {
        return Move(payer, settler, CAP, START - 10, START + 10, NONCE);
    }

    /// The ways: to transfer and to receive, in parts; the same in one piece.
    function receives(uint256 way) private pure returns (bool) {
        return way % 2 == 1;
    }

    function typehashOf(uint256 way) private pure returns (bytes32) {
        return receives(way) ? RECEIVE_TYPEHASH : TRANSFER_TYPEHASH;
    }

    function signed(uint256 way, Move memory m) private view returns (bytes memory) {
        return sign(payerKey, moveDigest(address(stable), typehashOf(way), m));
    }

    function callOf(uint256 way, Move memory m, bytes memory signature) private pure returns (bytes memory) {
        string memory name = receives(way) ? "receiveWithAuthorization" : "transferWithAuthorization";
        string memory form = "(address,address,uint256,uint256,uint256,bytes32,";
        if (way >= 2) {
            bytes4 whole = bytes4(keccak256(abi.encodePacked(name, form, "bytes)")));
            return abi.encodeWithSelector(
                whole, m.from, m.to, m.value, m.validAfter, m.validBefore, m.nonce, signature
            );
        }
        (uint8 v, bytes32 r, bytes32 s) = halves(signature);
        bytes4 parts = bytes4(keccak256(abi.encodePacked(name, form, "uint8,bytes32,bytes32)")));
        return bytes.concat(parts, abi.encode(m), abi.encode(v, r, s));
    }

    function sent(address by, bytes memory call) private returns (bool done, bytes memory why) {
        vm.prank(by);
        (done, why) = address(stable).call(call);
    }

    function refused(address by, bytes memory call, bytes4 refusal) private {
        (bool done, bytes memory why) = sent(by, call);
        assertFalse(done);
        assertEq(why, abi.encodePacked(refusal));
    }

    function cancelDigest(address whose) private view returns (bytes32) {
        return tokenDigest(address(stable), keccak256(abi.encode(CANCEL_TYPEHASH, whose, NONCE)));
    }

    function permitDigest(address owner, uint256 value, uint256 nonce, uint256 deadline)
        private
        view
        returns (bytes32)
    {
        return tokenDigest(
            address(stable), keccak256(abi.encode(TOKEN_PERMIT_TYPEHASH, owner, PERMIT2, value, nonce, deadline))
        );
    }
}
