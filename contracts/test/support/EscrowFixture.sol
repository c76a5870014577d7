// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Test} from "forge-std/Test.sol";

import {DevToken} from "../../src/DevToken.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice Permit2 as published, an escrow, the parties with their keys, and every signature. The EIP-712 hashes
/// are written out here from the type strings, apart from the contract's own.
abstract contract EscrowFixture is Test {
    address internal constant PERMIT2 = 0x000000000022D473030F116dDEE9F6B43aC78BA3;
    bytes32 internal constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 internal constant DEPOSIT_TYPEHASH = keccak256(
        "GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 internal constant RESERVATION_TYPEHASH = keccak256(
        "Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 internal constant ADMISSION_TYPEHASH = keccak256(
        "Admission(GatewayDeposit deposit,Reservation reservation,address token,uint48 admittedUntil)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 internal constant OPENING_TYPEHASH = keccak256(
        "Opening(GatewayDeposit deposit,address token,uint256 amount)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 internal constant REASSIGNMENT_TYPEHASH = keccak256(
        "Reassignment(bytes32 previousQuoteHash,Reservation reservation)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 internal constant TOKEN_PERMISSIONS_TYPEHASH = keccak256("TokenPermissions(address token,uint256 amount)");
    bytes32 internal constant PERMIT_TYPEHASH = keccak256(
        "PermitTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline)TokenPermissions(address token,uint256 amount)"
    );
    bytes32 internal constant PERMIT_WITNESS_TYPEHASH = keccak256(
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,GatewayDeposit witness)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)TokenPermissions(address token,uint256 amount)"
    );

    uint48 internal constant START = 1_800_000_000;
    /// Beyond all windows, so that it refuses nothing but in the tests that are about it.
    uint48 internal constant ADMITTED_UNTIL = START + 365 days;
    uint256 internal constant PAYOUT_GAS = 300_000;
    /// What the payer has of each token.
    uint256 internal constant WEALTH = 1_000_000e6;
    uint256 internal constant CAP = 1_000e6;
    uint256 internal constant QUOTED = 940e6;
    /// What the settler asks that comes after the first.
    uint256 internal constant NEXT_QUOTED = 910e6;

    GatewayEscrow internal escrow;
    /// The terms of each payment as they stand: those that the escrow committed to.
    mapping(bytes32 paymentId => GatewayEscrow.Escrow) private _terms;
    DevToken internal token;
    TrickToken internal trick;

    address internal payer;
    uint256 internal payerKey;
    address internal reserver;
    uint256 internal reserverKey;
    address internal releaser;
    uint256 internal releaserKey;
    address internal attacker;
    uint256 internal attackerKey;
    address internal settler = makeAddr("settler");
    address internal nextSettler = makeAddr("next settler");
    address internal stranger = makeAddr("stranger");
    address internal guardian = makeAddr("guardian");

    function setUp() public virtual {
        vm.warp(START);
        string memory json = vm.readFile(".tools/permit2/Permit2.json");
        vm.etch(PERMIT2, vm.parseJsonBytes(json, ".deployedBytecode"));

        (payer, payerKey) = makeAddrAndKey("payer");
        (reserver, reserverKey) = makeAddrAndKey("reserver");
        (releaser, releaserKey) = makeAddrAndKey("releaser");
        (attacker, attackerKey) = makeAddrAndKey("attacker");

        escrow = new GatewayEscrow(PERMIT2, reserver, guardian, PAYOUT_GAS);
        token = new DevToken("Development USD", "dUSD", 6);
        trick = new TrickToken();
        enrich(address(token));
        enrich(address(trick));
    }

    /// The payer has `WEALTH` of the token, and lets the escrow and Permit2 take it.
    function enrich(address asset) internal {
        DevToken(asset).mint(payer, WEALTH);
        allow(asset);
    }

    /// The payer lets the escrow and Permit2 take the token.
    function allow(address asset) internal {
        vm.startPrank(payer);
        DevToken(asset).approve(PERMIT2, type(uint256).max);
        DevToken(asset).approve(address(escrow), type(uint256).max);
        vm.stopPrank();
    }

    // What the parties agree to

    function depositTerms() internal view returns (GatewayEscrow.GatewayDeposit memory) {
        return GatewayEscrow.GatewayDeposit({
            paymentId: keccak256("pay_1"),
            termsHash: keccak256("terms"),
            quoteHash: bytes32(0),
            payer: payer,
            reserver: reserver,
            releaser: releaser,
            reserveDeadline: START + 60,
            fulfillmentDeadline: START + 600,
            refundAfter: START + 1_200
        });
    }

    function reservation() internal view returns (GatewayEscrow.Reservation memory) {
        return GatewayEscrow.Reservation({
            paymentId: keccak256("pay_1"),
            quoteHash: keccak256("quote"),
            settler: settler,
            sourceAmount: QUOTED,
            fulfillBy: START + 300
        });
    }

    /// The award that takes the place of `reservation()`, when that is over.
    function nextReservation() internal view returns (GatewayEscrow.Reservation memory) {
        return GatewayEscrow.Reservation({
            paymentId: keccak256("pay_1"),
            quoteHash: keccak256("next quote"),
            settler: nextSettler,
            sourceAmount: NEXT_QUOTED,
            fulfillBy: START + 500
        });
    }

    function nonceOf(GatewayEscrow.GatewayDeposit memory d) internal pure returns (uint256) {
        return uint256(keccak256(bytes.concat(d.paymentId, d.termsHash)));
    }

    /// The permit without its signature.
    function unsignedPermit(GatewayEscrow.GatewayDeposit memory d, address asset)
        internal
        pure
        virtual
        returns (GatewayEscrow.Permit memory)
    {
        return GatewayEscrow.Permit(asset, CAP, nonceOf(d), START + 60, "");
    }

    // Hashes and signatures

    function depositHash(GatewayEscrow.GatewayDeposit memory d) internal pure returns (bytes32) {
        return keccak256(
            abi.encode(
                DEPOSIT_TYPEHASH,
                d.paymentId,
                d.termsHash,
                d.quoteHash,
                d.payer,
                d.reserver,
                d.releaser,
                d.reserveDeadline,
                d.fulfillmentDeadline,
                d.refundAfter
            )
        );
    }

    function reservationHash(GatewayEscrow.Reservation memory r) internal pure returns (bytes32) {
        return keccak256(
            abi.encode(RESERVATION_TYPEHASH, r.paymentId, r.quoteHash, r.settler, r.sourceAmount, r.fulfillBy)
        );
    }

    function escrowDigest(GatewayEscrow at, bytes32 structHash) internal view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("GatewayEscrow"), keccak256("1"), block.chainid, address(at))
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }

    function permit2Digest(bytes32 structHash) internal view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)"),
                keccak256("Permit2"),
                block.chainid,
                PERMIT2
            )
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }

    function sign(uint256 key, bytes32 digest) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function signWitness(uint256 key, GatewayEscrow.Permit memory p, GatewayEscrow.GatewayDeposit memory d)
        internal
        view
        returns (bytes memory)
    {
        bytes32 permissions = keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, p.token, p.amount));
        bytes32 structHash = keccak256(
            abi.encode(PERMIT_WITNESS_TYPEHASH, permissions, address(escrow), p.nonce, p.deadline, depositHash(d))
        );
        return sign(key, permit2Digest(structHash));
    }

    function signPermit(uint256 key, GatewayEscrow.Permit memory p) internal view returns (bytes memory) {
        bytes32 permissions = keccak256(abi.encode(TOKEN_PERMISSIONS_TYPEHASH, p.token, p.amount));
        bytes32 structHash =
            keccak256(abi.encode(PERMIT_TYPEHASH, permissions, address(escrow), p.nonce, p.deadline));
        return sign(key, permit2Digest(structHash));
    }

    function signReservation(uint256 key, GatewayEscrow.Reservation memory r) internal view returns (bytes memory) {
        return sign(key, escrowDigest(escrow, reservationHash(r)));
    }

    function signReassignment(uint256 key, bytes32 previous, GatewayEscrow.Reservation memory r)
        internal
        view
        returns (bytes memory)
    {
        bytes32 structHash = keccak256(abi.encode(REASSIGNMENT_TYPEHASH, previous, reservationHash(r)));
        return sign(key, escrowDigest(escrow, structHash));
    }

    function admissionHash(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint48 admittedUntil
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(ADMISSION_TYPEHASH, depositHash(d), reservationHash(r), asset, admittedUntil));
    }

    function openingHash(GatewayEscrow.GatewayDeposit memory d, address asset, uint256 amount)
        internal
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(OPENING_TYPEHASH, depositHash(d), asset, amount));
    }

    function signAdmission(
        uint256 key,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset
    ) internal view returns (bytes memory) {
        return signAdmission(key, d, r, asset, ADMITTED_UNTIL);
    }

    function signAdmission(
        uint256 key,
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset,
        uint48 admittedUntil
    ) internal view returns (bytes memory) {
        return sign(key, escrowDigest(escrow, admissionHash(d, r, asset, admittedUntil)));
    }

    function signOpening(uint256 key, GatewayEscrow.GatewayDeposit memory d, address asset, uint256 amount)
        internal
        view
        returns (bytes memory)
    {
        return sign(key, escrowDigest(escrow, openingHash(d, asset, amount)));
    }

    function deliveryDigest(bytes32 paymentId, bytes32 quoteHash, address to) internal view returns (bytes32) {
        bytes32 typehash = keccak256("Delivery(bytes32 paymentId,bytes32 quoteHash,address settler)");
        return escrowDigest(escrow, keccak256(abi.encode(typehash, paymentId, quoteHash, to)));
    }

    function nonDeliveryDigest(bytes32 paymentId, bytes32 quoteHash) internal view returns (bytes32) {
        bytes32 typehash = keccak256("NonDelivery(bytes32 paymentId,bytes32 quoteHash)");
        return escrowDigest(escrow, keccak256(abi.encode(typehash, paymentId, quoteHash)));
    }

    function signDelivery(uint256 key, bytes32 paymentId, bytes32 quoteHash, address to)
        internal
        view
        returns (bytes memory)
    {
        return sign(key, deliveryDigest(paymentId, quoteHash, to));
    }

    function signNonDelivery(uint256 key, bytes32 paymentId, bytes32 quoteHash) internal view returns (bytes memory) {
        return sign(key, nonDeliveryDigest(paymentId, quoteHash));
    }

    /// The releaser's attestation of the delivery that `reservation()` awards.
    function delivery() internal view returns (bytes memory) {
        return signDelivery(releaserKey, keccak256("pay_1"), keccak256("quote"), settler);
    }

    /// The releaser's word that nothing was delivered under the award.
    function nonDelivery() internal view returns (bytes memory) {
        return signNonDelivery(releaserKey, keccak256("pay_1"), keccak256("quote"));
    }

    // Deposits with all signatures right

    function depositWitnessed(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset
    ) internal {
        sendWitnessed(d, r, asset);
        noteTerms(asReserved(asDeposited(d, asset, r.sourceAmount), r));
    }

    /// As `depositWitnessed`, with nothing asked afterwards.
    function sendWitnessed(GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r, address asset)
        internal
    {
        GatewayEscrow.Permit memory p = unsignedPermit(d, asset);
        p.signature = signWitness(payerKey, p, d);
        bytes memory signature = signAdmission(reserverKey, d, r, asset);
        vm.prank(stranger);
        escrow.depositWithWitness(d, p, r, ADMITTED_UNTIL, signature);
    }

    function depositPermitted(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        address asset
    ) internal {
        sendPermitted(d, r, asset);
        noteTerms(asReserved(asDeposited(d, asset, r.sourceAmount), r));
    }

    /// As `depositPermitted`, with nothing asked afterwards.
    function sendPermitted(GatewayEscrow.GatewayDeposit memory d, GatewayEscrow.Reservation memory r, address asset)
        internal
    {
        GatewayEscrow.Permit memory p = unsignedPermit(d, asset);
        p.signature = signPermit(payerKey, p);
        bytes memory signature = signAdmission(reserverKey, d, r, asset);
        vm.prank(stranger);
        escrow.depositWithPermit(d, p, r, ADMITTED_UNTIL, signature);
    }

    function depositByPayer(GatewayEscrow.GatewayDeposit memory d, address asset) internal {
        sendByPayer(d, asset);
        noteTerms(asDeposited(d, asset, CAP));
    }

    /// As `depositByPayer`, with nothing asked afterwards.
    function sendByPayer(GatewayEscrow.GatewayDeposit memory d, address asset) internal {
        bytes memory signature = signOpening(reserverKey, d, asset, CAP);
        vm.prank(payer);
        escrow.depositOwn(d, asset, CAP, signature);
    }

    /// Reserves, with the terms as they stand.
    function reserve(GatewayEscrow.Reservation memory r, bytes memory signature) internal {
        GatewayEscrow.Escrow memory e = termsOf(r.paymentId);
        escrow.reserve(e, r, signature);
        noteTerms(asReserved(e, r));
    }

    /// Reassigns, with the terms as they stand.
    function reassign(GatewayEscrow.Reservation memory r, bytes memory signature, bytes memory notDelivered)
        internal
    {
        GatewayEscrow.Escrow memory e = termsOf(r.paymentId);
        escrow.reassign(e, r, signature, notDelivered);
        noteTerms(asReserved(e, r));
    }

    /// Reassigns with both signatures right.
    function reassign(GatewayEscrow.Reservation memory r) internal {
        bytes32 previous = termsOf(r.paymentId).quoteHash;
        reassign(
            r, signReassignment(reserverKey, previous, r), signNonDelivery(releaserKey, r.paymentId, previous)
        );
    }

    /// A reserved payment of `CAP`, of which the settler is to get `QUOTED`.
    function reservedByPayer(address asset) internal {
        depositByPayer(depositTerms(), asset);
        GatewayEscrow.Reservation memory r = reservation();
        reserve(r, signReservation(reserverKey, r));
    }

    // What the escrow has on record, and the terms that it is of

    function asDeposited(GatewayEscrow.GatewayDeposit memory d, address asset, uint256 amount)
        internal
        pure
        returns (GatewayEscrow.Escrow memory)
    {
        return GatewayEscrow.Escrow({
            deposit: d,
            token: asset,
            deposited: amount,
            quoteHash: d.quoteHash,
            settler: address(0),
            sourceAmount: 0,
            fulfillBy: 0
        });
    }

    function asReserved(GatewayEscrow.Escrow memory e, GatewayEscrow.Reservation memory r)
        internal
        pure
        returns (GatewayEscrow.Escrow memory)
    {
        return GatewayEscrow.Escrow({
            deposit: e.deposit,
            token: e.token,
            deposited: e.deposited,
            quoteHash: r.quoteHash,
            settler: r.settler,
            sourceAmount: r.sourceAmount,
            fulfillBy: r.fulfillBy
        });
    }

    /// The commitment, word for word.
    function commitment(GatewayEscrow.Escrow memory e) internal pure returns (bytes32) {
        bytes memory deposit = bytes.concat(
            e.deposit.paymentId,
            e.deposit.termsHash,
            e.deposit.quoteHash,
            word(e.deposit.payer),
            word(e.deposit.reserver),
            word(e.deposit.releaser),
            bytes32(uint256(e.deposit.reserveDeadline)),
            bytes32(uint256(e.deposit.fulfillmentDeadline)),
            bytes32(uint256(e.deposit.refundAfter))
        );
        return keccak256(
            bytes.concat(
                deposit,
                word(e.token),
                bytes32(e.deposited),
                e.quoteHash,
                word(e.settler),
                bytes32(e.sourceAmount),
                bytes32(uint256(e.fulfillBy))
            )
        );
    }

    function word(address account) internal pure returns (bytes32) {
        return bytes32(uint256(uint160(account)));
    }

    /// Keeps the terms if they are what the escrow committed to, so that a call that was to be refused changes nothing here.
    function noteTerms(GatewayEscrow.Escrow memory e) internal {
        if (escrow.recordOf(e.deposit.paymentId).commitment == commitment(e)) _terms[e.deposit.paymentId] = e;
    }

    /// The terms of a payment as they stand, or those that it would have.
    function termsOf(bytes32 paymentId) internal view returns (GatewayEscrow.Escrow memory e) {
        e = _terms[paymentId];
        e.deposit.paymentId = paymentId;
    }

    function stateOf(bytes32 paymentId) internal view returns (GatewayEscrow.State) {
        return escrow.recordOf(paymentId).state;
    }

    function assertState(GatewayEscrow.State expected) internal view {
        assertEq(uint8(stateOf(keccak256("pay_1"))), uint8(expected), "state");
    }

    function assertPaid(address asset, uint256 toSettler, uint256 inEscrow) internal view {
        DevToken t = DevToken(asset);
        assertEq(t.balanceOf(settler), toSettler, "settler's balance");
        assertEq(t.balanceOf(address(escrow)), inEscrow, "escrow's balance");
        assertEq(t.balanceOf(payer), WEALTH - toSettler - inEscrow, "payer's balance");
    }
}
