// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../../src/DevStablecoin.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {LargerDeposits} from "./LargerDeposits.sol";

/// @notice Deposits by an ERC-3009 authorization, in a token that takes them. The payer lets nobody take that token.
abstract contract Authorizations is LargerDeposits {
    bytes32 internal constant RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 internal constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 internal constant CANCEL_TYPEHASH = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    bytes32 internal constant TOKEN_PERMIT_TYPEHASH =
        keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)");
    /// In the domain of all tokens here that take signatures.
    string internal constant TOKEN_NAME = "Development USDC";

    DevStablecoin internal stable;

    /// What a token is to move, and when, by its owner's signature.
    struct Move {
        address from;
        address to;
        uint256 value;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
    }

    /// All of a deposit but the reserver's signature.
    struct Authorized {
        GatewayEscrow.GatewayDeposit terms;
        GatewayEscrow.Authorization authorization;
        GatewayEscrow.Reservation award;
        uint48 admittedUntil;
    }

    function setUp() public virtual override {
        super.setUp();
        stable = new DevStablecoin(TOKEN_NAME, "dUSDC", 6);
        stable.mint(payer, WEALTH);
    }

    /// The authorization of `amount` without its signature.
    function unsignedAuthorization(GatewayEscrow.GatewayDeposit memory d, address asset, uint256 amount)
        internal
        pure
        virtual
        returns (GatewayEscrow.Authorization memory)
    {
        return GatewayEscrow.Authorization(asset, amount, uint256(d.reserveDeadline) + 1, "");
    }

    function tokenDigest(address asset, bytes32 structHash) internal view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(TOKEN_NAME)), keccak256("1"), block.chainid, asset)
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }

    function moveDigest(address asset, bytes32 typehash, Move memory m) internal view returns (bytes32) {
        return tokenDigest(
            asset, keccak256(abi.encode(typehash, m.from, m.to, m.value, m.validAfter, m.validBefore, m.nonce))
        );
    }

    /// What the token is asked to do for a deposit at the escrow.
    function moveOf(GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Authorization memory a)
        internal
        view
        returns (Move memory)
    {
        return Move(d.payer, address(escrow), a.amount, 0, a.validBefore, depositHash(d));
    }

    /// What the payer signs for a deposit.
    function authorizationDigest(GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Authorization memory a)
        internal
        view
        returns (bytes32)
    {
        return moveDigest(a.token, RECEIVE_TYPEHASH, moveOf(d, a));
    }

    function authorizationBy(uint256 key, GatewayEscrow.GatewayDeposit memory d, address asset, uint256 amount)
        internal
        view
        returns (GatewayEscrow.Authorization memory a)
    {
        a = unsignedAuthorization(d, asset, amount);
        a.signature = sign(key, authorizationDigest(d, a));
    }

    /// A deposit of `amount` with the payer's signature.
    function authorized(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal view returns (Authorized memory) {
        return Authorized(d, authorizationBy(payerKey, d, asset, amount), r, ADMITTED_UNTIL);
    }

    /// What the reserver signs for that.
    function admissionOf(Authorized memory a) internal view returns (bytes memory) {
        return admissionOf(
            Larger(false, a.terms, a.award, a.authorization.token, a.authorization.amount, a.admittedUntil)
        );
    }

    function callOf(Authorized memory a, bytes memory reserverSignature) internal view returns (bytes memory) {
        return abi.encodeCall(
            escrow.depositWithAuthorization,
            (a.terms, a.authorization, a.award, a.admittedUntil, reserverSignature)
        );
    }

    /// As the other, with the reserver's signature right.
    function callOf(Authorized memory a) internal view returns (bytes memory) {
        return callOf(a, admissionOf(a));
    }

    function depositAuthorized(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal {
        sendAuthorized(d, r, asset, amount);
        noteTerms(asReserved(asDeposited(d, asset, amount), r));
    }

    /// As `depositAuthorized`, with nothing asked afterwards.
    function sendAuthorized(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal {
        Authorized memory a = authorized(d, r, asset, amount);
        bytes memory signature = admissionOf(a);
        vm.prank(stranger);
        escrow.depositWithAuthorization(a.terms, a.authorization, a.award, a.admittedUntil, signature);
    }

    function halves(bytes memory signature) internal pure returns (uint8 v, bytes32 r, bytes32 s) {
        (r, s) = abi.decode(signature, (bytes32, bytes32));
        v = uint8(signature[64]);
    }

    /// The signature in 64 bytes (ERC-2098).
    function short(bytes memory signature) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = halves(signature);
        return abi.encodePacked(r, v == 28 ? s | bytes32(uint256(1) << 255) : s);
    }

    // What is tried

    /// A deposit of the cap with all right.
    function good() internal view returns (Authorized memory) {
        return authorized(depositTerms(), reservation(), address(stable), CAP);
    }

    /// Made with the reserver's signature right.
    function expectMade(Authorized memory a) internal {
        bytes memory call = callOf(a);
        vm.prank(stranger);
        (bool made,) = address(escrow).call(call);
        assertTrue(made, "refused");
        assertState(GatewayEscrow.State.Reserved);
        assertEq(stable.balanceOf(address(escrow)), a.authorization.amount);
    }

    /// Refused with the reserver's signature right.
    function expectRefused(Authorized memory a, bytes4 refusal) internal {
        expectRefused(a, abi.encodePacked(refusal));
    }

    /// As the other, with what else the refusal says.
    function expectRefused(Authorized memory a, bytes memory refusal) internal {
        expectCallRefused(callOf(a), refusal);
    }

    /// And nothing is changed by it.
    function expectCallRefused(bytes memory call, bytes memory refusal) internal {
        bytes32 before = moneyAndRecord();
        vm.prank(stranger);
        (bool made, bytes memory why) = address(escrow).call(call);
        assertFalse(made, "made");
        assertEq(why, refusal);
        assertEq(moneyAndRecord(), before);
    }

    function moneyAndRecord() private view returns (bytes32) {
        return keccak256(
            abi.encode(
                escrow.recordOf(keccak256("pay_1")),
                stable.balanceOf(payer),
                stable.balanceOf(address(escrow)),
                escrow.owedIn(address(stable))
            )
        );
    }

    function reserverInvalid() internal view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }
}
