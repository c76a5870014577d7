// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {EscrowFixture} from "./EscrowFixture.sol";

/// @notice Deposits by signature of more than the award asks for.
abstract contract LargerDeposits is EscrowFixture {
    bytes32 internal constant LARGER_ADMISSION_TYPEHASH = keccak256(
        "LargerAdmission(GatewayDeposit deposit,Reservation reservation,address token,uint256 amount,uint48 admittedUntil)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    /// What is deposited: more than the price, less than the cap.
    uint256 internal constant LARGER = 970e6;

    /// @param witnessed whether the payer signs a witness
    struct Larger {
        bool witnessed;
        GatewayEscrow.GatewayDeposit terms;
        GatewayEscrow.Reservation award;
        address asset;
        uint256 amount;
        uint48 admittedUntil;
    }

    /// Another than `right`, which differs in the field of this number alone.
    function altered(Larger memory right, uint256 field, uint256 value) internal pure returns (Larger memory l) {
        l = abi.decode(abi.encode(right), (Larger));
        field = bound(field, 0, 16);
        address other = address(uint160(value));
        if (field == 0) l.terms.paymentId = bytes32(value);
        if (field == 1) l.terms.termsHash = bytes32(value);
        if (field == 2) l.terms.quoteHash = bytes32(value);
        if (field == 3) l.terms.payer = other;
        if (field == 4) l.terms.reserver = other;
        if (field == 5) l.terms.releaser = other;
        if (field == 6) l.terms.reserveDeadline = uint48(value);
        if (field == 7) l.terms.fulfillmentDeadline = uint48(value);
        if (field == 8) l.terms.refundAfter = uint48(value);
        if (field == 9) l.award.paymentId = bytes32(value);
        if (field == 10) l.award.quoteHash = bytes32(value);
        if (field == 11) l.award.settler = other;
        if (field == 12) l.award.sourceAmount = value;
        if (field == 13) l.award.fulfillBy = uint48(value);
        if (field == 14) l.asset = other;
        if (field == 15) l.amount = value;
        if (field == 16) l.admittedUntil = uint48(value);
        vm.assume(keccak256(abi.encode(l)) != keccak256(abi.encode(right)));
    }

    function signLargerAdmission(
        uint256 key,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount,
        uint48 admittedUntil
    ) internal view returns (bytes memory) {
        bytes32 structHash = keccak256(
            abi.encode(LARGER_ADMISSION_TYPEHASH, depositHash(d), reservationHash(r), asset, amount, admittedUntil)
        );
        return sign(key, escrowDigest(escrow, structHash));
    }

    /// What the reserver signs for a deposit of `amount`.
    function admissionOf(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal view returns (bytes memory) {
        return admissionOf(Larger(false, d, r, asset, amount, ADMITTED_UNTIL));
    }

    /// As the other, with the last second in which it is admitted. It does not say how the payer signs.
    function admissionOf(Larger memory l) internal view returns (bytes memory) {
        if (l.amount == l.award.sourceAmount) {
            return signAdmission(reserverKey, l.terms, l.award, l.asset, l.admittedUntil);
        }
        return signLargerAdmission(reserverKey, l.terms, l.award, l.asset, l.amount, l.admittedUntil);
    }

    /// The call of a deposit with the payer's signature right, by `key`.
    function largerCall(Larger memory deposit, uint256 key, bytes memory reserverSignature)
        internal
        view
        returns (bytes memory)
    {
        GatewayEscrow.GatewayDeposit memory d = deposit.terms;
        GatewayEscrow.Permit memory p = unsignedPermit(d, deposit.asset);
        p.signature = deposit.witnessed ? signWitness(key, p, d) : signPermit(key, p);
        return bytes.concat(
            deposit.witnessed ? escrow.depositMoreWithWitness.selector : escrow.depositMoreWithPermit.selector,
            abi.encode(d, p, deposit.award, deposit.amount, deposit.admittedUntil, reserverSignature)
        );
    }

    /// As the other, of the payer and admitted far into the future.
    function largerCall(
        bool witnessed,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount,
        bytes memory reserverSignature
    ) internal view returns (bytes memory) {
        return largerCall(Larger(witnessed, d, r, asset, amount, ADMITTED_UNTIL), payerKey, reserverSignature);
    }

    function depositLarger(
        bool witnessed,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal {
        sendLarger(witnessed, d, r, asset, amount);
        noteTerms(asReserved(asDeposited(d, asset, amount), r));
    }

    /// As `depositLarger`, with nothing asked afterwards.
    function sendLarger(
        bool witnessed,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint256 amount
    ) internal {
        GatewayEscrow.Permit memory p = unsignedPermit(d, asset);
        p.signature = witnessed ? signWitness(payerKey, p, d) : signPermit(payerKey, p);
        bytes memory signature = admissionOf(d, r, asset, amount);
        vm.prank(stranger);
        if (witnessed) escrow.depositMoreWithWitness(d, p, r, amount, ADMITTED_UNTIL, signature);
        else escrow.depositMoreWithPermit(d, p, r, amount, ADMITTED_UNTIL, signature);
    }
}
