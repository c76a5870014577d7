// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../../src/DevStablecoin.sol";
import {DevToken} from "../../src/DevToken.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {Proofs, SignsAll, svm, vm} from "./Proofs.sol";

/// @notice Payments of which some call is tried by anybody, and what everybody has to have signed for it. Reserver and releaser are
/// keys, without code. For the payment to be there, their accounts take every signature while it is made.
abstract contract Authority is Proofs {
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant DELIVERY_TYPEHASH =
        keccak256("Delivery(bytes32 paymentId,bytes32 quoteHash,address settler)");
    bytes32 private constant NON_DELIVERY_TYPEHASH = keccak256("NonDelivery(bytes32 paymentId,bytes32 quoteHash)");
    bytes32 private constant RESERVATION_TYPEHASH = keccak256(
        "Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 private constant REASSIGNMENT_TYPEHASH = keccak256(
        "Reassignment(bytes32 previousQuoteHash,Reservation reservation)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 private constant DEPOSIT_TYPEHASH = keccak256(
        "GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 private constant OPENING_TYPEHASH = keccak256(
        "Opening(GatewayDeposit deposit,address token,uint256 amount)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 private constant ADMISSION_TYPEHASH = keccak256(
        "Admission(GatewayDeposit deposit,Reservation reservation,address token,uint48 admittedUntil)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 private constant LARGER_ADMISSION_TYPEHASH = keccak256(
        "LargerAdmission(GatewayDeposit deposit,Reservation reservation,address token,uint256 amount,uint48 admittedUntil)GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)"
    );
    bytes32 private constant RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    address internal constant RESERVER = address(0x4e5e4e);
    address internal constant RELEASER = address(0x4e1ea5);
    uint48 internal constant START = 1_000;
    /// Of the escrow's variables, as its compiler lays them out; `standing` compares.
    uint256 private constant RECORDS_SLOT = 4;

    DevToken internal token;
    /// The payer has all of it, and lets nobody take it.
    DevStablecoin internal stable;
    bytes private signsAll;
    bytes32 private domain;

    /// Stages of a payment: the states of the escrow that it has one by one.
    enum Stage {
        None,
        Deposited,
        Reserved,
        Released,
        Refunded
    }

    /// What is unknown of a payment.
    struct Standing {
        bytes32 termsHash;
        uint128 amount;
        uint128 quoted;
        uint48 refundAfter;
    }

    /// Who calls, when, and what it looks at besides the payment.
    struct Attempt {
        address caller;
        uint48 time;
        bytes32 other;
    }

    /// A record, word by word.
    struct Words {
        uint256 head;
        bytes32 commitment;
    }

    function setUp() public virtual {
        signsAll = address(new SignsAll()).code;
        deploy(RESERVER);
        token = new DevToken("Development USD", "dUSD", 6);
        enrich(token);
        stable = new DevStablecoin("Development USDC", "dUSDC", 6);
        stable.mint(PAYER, WEALTH);
        domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("GatewayEscrow"), keccak256("1"), block.chainid, address(escrow))
        );
    }

    /// The payment as it stands when somebody comes. Where there is none yet, the terms are what it would have.
    function standing(Standing memory s, Stage stage) internal returns (GatewayEscrow.Escrow memory e) {
        vm.assume(s.quoted != 0 && s.quoted <= s.amount);
        begin(START, s.refundAfter);
        GatewayEscrow.GatewayDeposit memory d = termsOf(ID, RESERVER, START, s.refundAfter);
        d.releaser = RELEASER;
        d.termsHash = s.termsHash;
        if (stage == Stage.None) return GatewayEscrow.Escrow(d, address(token), s.amount, 0, address(0), 0, 0);
        sign(true);
        if (stage == Stage.Deposited) e = deposited(d, address(token), s.amount);
        else e = reserved(d, address(token), s.amount, s.quoted);
        if (stage == Stage.Released) escrow.release(e, "");
        if (stage == Stage.Refunded) escrow.cancel(e, "");
        sign(false);
        assert(recordAt(ID).commitment == escrow.recordOf(ID).commitment);
        assert(uint8(recordAt(ID).head) == uint8(stage));
    }

    /// Whether reserver and releaser have signed everything, or are keys.
    function sign(bool everything) internal {
        vm.etch(RESERVER, everything ? signsAll : bytes(""));
        vm.etch(RELEASER, everything ? signsAll : bytes(""));
    }

    function recordAt(bytes32 id) internal view returns (Words memory) {
        uint256 slot = uint256(keccak256(abi.encode(id, RECORDS_SLOT)));
        return Words(uint256(vm.load(address(escrow), bytes32(slot))), vm.load(address(escrow), bytes32(slot + 1)));
    }

    /// Whether the call goes through, by whoever, whenever; the record of no other payment changes with it.
    function goesThrough(Attempt memory a, bytes memory data) internal returns (bool done) {
        vm.assume(a.time >= START && a.other != ID && a.caller != address(escrow));
        vm.warp(a.time);
        vm.roll(block.number + 1);
        Words memory was = recordAt(a.other);
        vm.prank(a.caller);
        done = tried(data);
        if (done) assert(isSame(was, recordAt(a.other)));
    }

    function isSame(Words memory a, Words memory b) internal pure returns (bool) {
        return (a.head ^ b.head) | uint256(a.commitment ^ b.commitment) == 0;
    }

    /// The payment ended so, and nothing else of its record changed.
    function endedAs(Stage end, Words memory was) internal view {
        uint256 head = (was.head & ~uint256(0xff)) | uint256(end) | block.number << 96;
        assert(isSame(recordAt(ID), Words(head, was.commitment)));
    }

    function isReserved(GatewayEscrow.Escrow memory e, uint256 round, uint256 depositedAt) internal view {
        uint256 head = uint256(Stage.Reserved) | round << 8 | depositedAt << 16 | block.number << 56;
        assert(isSame(recordAt(e.deposit.paymentId), Words(head, keccak256(abi.encode(e)))));
    }

    function signature(string memory name) internal pure returns (bytes memory) {
        return svm.createBytes(65, name);
    }

    /// Whose signature of the message it is.
    function signerOf(bytes32 structHash, bytes memory signed) internal view returns (address) {
        return signerOf(domain, structHash, signed);
    }

    /// As the other, of a message for whom the domain is.
    function signerOf(bytes32 domain_, bytes32 structHash, bytes memory signed) internal pure returns (address) {
        bytes32 r;
        bytes32 s;
        assembly ("memory-safe") {
            r := mload(add(signed, 0x20))
            s := mload(add(signed, 0x40))
        }
        return ecrecover(keccak256(abi.encodePacked(hex"1901", domain_, structHash)), uint8(signed[64]), r, s);
    }

    function delivery(GatewayEscrow.Escrow memory e) internal pure returns (bytes32) {
        return keccak256(abi.encode(DELIVERY_TYPEHASH, e.deposit.paymentId, e.quoteHash, e.settler));
    }

    function nonDelivery(GatewayEscrow.Escrow memory e) internal pure returns (bytes32) {
        return keccak256(abi.encode(NON_DELIVERY_TYPEHASH, e.deposit.paymentId, e.quoteHash));
    }

    function reservationHash(GatewayEscrow.Reservation memory r) internal pure returns (bytes32) {
        return keccak256(abi.encode(RESERVATION_TYPEHASH, r));
    }

    function reassignmentHash(bytes32 previous, GatewayEscrow.Reservation memory r) internal pure returns (bytes32) {
        return keccak256(abi.encode(REASSIGNMENT_TYPEHASH, previous, reservationHash(r)));
    }

    /// The reserver's word for a deposit of `amount` by the payer's signature, in the token that takes authorizations.
    function admission(
        GatewayEscrow.GatewayDeposit memory d,
        GatewayEscrow.Reservation memory r,
        uint256 amount,
        uint48 admittedUntil
    ) internal view returns (bytes32) {
        bytes32 deposit = keccak256(abi.encode(DEPOSIT_TYPEHASH, d));
        bytes32 award = reservationHash(r);
        if (amount == r.sourceAmount) {
            return keccak256(abi.encode(ADMISSION_TYPEHASH, deposit, award, address(stable), admittedUntil));
        }
        return keccak256(
            abi.encode(LARGER_ADMISSION_TYPEHASH, deposit, award, address(stable), amount, admittedUntil)
        );
    }

    /// The payer's word for it: the nonce is the hash of what it agreed to.
    function authorization(GatewayEscrow.GatewayDeposit memory d, uint256 amount, uint256 validBefore)
        internal
        view
        returns (bytes32)
    {
        bytes32 nonce = keccak256(abi.encode(DEPOSIT_TYPEHASH, d));
        return keccak256(
            abi.encode(RECEIVE_TYPEHASH, d.payer, address(escrow), amount, uint256(0), validBefore, nonce)
        );
    }

    function opening(GatewayEscrow.GatewayDeposit memory d, uint256 amount) internal view returns (bytes32) {
        return keccak256(abi.encode(OPENING_TYPEHASH, keccak256(abi.encode(DEPOSIT_TYPEHASH, d)), address(token), amount));
    }

    function stageOf(uint8 stage) internal pure returns (Stage) {
        vm.assume(stage < 5);
        if (stage == 0) return Stage.None;
        if (stage == 1) return Stage.Deposited;
        if (stage == 2) return Stage.Reserved;
        return stage == 3 ? Stage.Released : Stage.Refunded;
    }

    /// The terms once they have that award.
    function awarded(GatewayEscrow.Escrow memory e, GatewayEscrow.Reservation memory r)
        internal
        pure
        returns (GatewayEscrow.Escrow memory)
    {
        (e.quoteHash, e.settler, e.sourceAmount, e.fulfillBy) = (r.quoteHash, r.settler, r.sourceAmount, r.fulfillBy);
        return e;
    }

    /// The terms of a deposit that has no award.
    function opened(GatewayEscrow.GatewayDeposit memory d, uint256 amount)
        internal
        view
        returns (GatewayEscrow.Escrow memory)
    {
        return GatewayEscrow.Escrow(d, address(token), amount, d.quoteHash, address(0), 0, 0);
    }
}
