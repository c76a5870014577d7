// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";

import {IERC3009} from "./IERC3009.sol";
import {IPermit2} from "./IPermit2.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Escrow of a payer's money while a settler delivers on another chain
/// @notice Locks the money of one payment, pays it to the settler when the releaser attests the delivery, and
/// gives it back to the payer otherwise. No upgrade, no fee, no pause. Amounts are in the token's smallest
/// unit, times in UNIX seconds.
///
/// States: `None → Deposited → Reserved → Released | Refunded`, and `Deposited → Refunded`. A reserved payment stays reserved when
/// it goes to another settler (`reassign`).
///
/// Roles of a payment, all named in the deposit:
/// - the payer, whose money it is;
/// - the reserver (the gateway), this contract's at the time of the deposit, who signs what may come in
///   (`Admission`, `LargerAdmission`, `Opening`) and names settler, amount and time (in the `Admission`, or by `Reservation` and `Reassignment`);
/// - the releaser (the verifier of deliveries), who signs `Delivery` or `NonDelivery`.
/// Reserver and releaser may be contracts (ERC-1271). Their 65-byte signatures must have a low `s`. All that they sign are
/// EIP-712 messages.
///
/// The releaser may also be a set of verifiers, of whom as many as its threshold says sign the same message. The deposit then
/// names the set's id, a hash of threshold and members, as the releaser. Nothing of the set is deployed or stored: who calls
/// `release`, `cancel` or `reassign` brings it along with the signatures (a set attestation), and here it is compared with the id.
/// - Members are keys, never contracts, in strictly ascending order. What is checked here is the order of the signers: so no
///   key counts twice, whatever list of members an id was made of.
/// - A set cannot be changed; with another member or threshold it is another releaser.
/// - id: the last 20 bytes of keccak256("gw-verifier-set" ‖ 0x01 ‖ threshold ‖ n ‖ members), 1 ≤ threshold ≤ n ≤ 16;
///   threshold and n are one byte each, a member 20.
/// - set attestation: threshold ‖ n ‖ members ‖ threshold × (index ‖ r ‖ s ‖ v), where the index is one byte, the signer's
///   place among the members from 0, and nothing behind it.
/// The reserver is never a set.
///
/// Besides them the guardian, who can end deposits for ever (`retire`) and put another reserver in after a delay in which
/// the present one may object. It has no say about any payment that is there, and no way to the money.
///
/// Windows: admitted not later than `admittedUntil`; reserved not later than `reserveDeadline`; reassigned after the reservation's own `fulfillBy`
/// and before `fulfillmentDeadline`; released or cancelled before `refundAfter`; refunded from `refundAfter` on. So at any second either
/// the release or the refund is possible, never both.
///
/// What nobody can do here:
/// - use up a payment's id: every deposit bears the reserver's signature over payer, terms and token, so a signature
///   that others see before it is mined serves them for nothing but the very same deposit;
/// - bring in a deposit that was refused, once its admission has ended;
/// - take anyone's money without his signature, but the caller's own (`depositOwn`, `depositFor`), whatever allowances there are;
/// - send the money anywhere but to the reserved settler or back to the payer;
/// - take a reservation from a settler before its time is over, or without the releaser's word that it did not deliver;
/// - put another settler in where the payer named the quote;
/// - keep it: from `refundAfter` on anyone may trigger the refund;
/// - block the end of a payment by refusing the money: it is then kept as a claim of the one who refused;
/// - turn a payout that would go through into a claim, by whatever gas it sends along;
/// - take another's share of a token that shrinks.
///
/// Of a payment's terms (`Escrow`) only the hash is kept, and who calls brings them. They need not be trusted, whoever they
/// come from: the award, or the events `Deposited` and `Reserved` in the blocks that the payment's `Record` names.
///
/// What a settler must know before delivering: state `Reserved`, and in the terms that hash to the record's commitment its own
/// address, quote hash, amount, **token** (the reservation does not name it, the payer's signature does), releaser and `refundAfter`.
///
/// Tokens that take a fee on the way in are refused. A token that changes its rules while money is here has an exit all the
/// same: when less is there than is owed, everyone gets the same part of what he is owed (`Shortfall`) and nothing new comes
/// in; when it charges the sender, a claim moves as much as the charge leaves.
contract GatewayEscrow is EIP712 {
    using TokenMoves for address;

    /// @notice Life of a payment's escrow. `Released` and `Refunded` are final.
    enum State {
        None,
        Deposited,
        Reserved,
        Released,
        Refunded
    }

    /// @notice What the payer agrees to: by the Permit2 witness, by the nonce of an authorization, by its own transaction, or by
    /// paying to an address that commits to it (`DepositAddresses`).
    /// @param paymentId keccak256 of the payment's id; one deposit each for ever
    /// @param termsHash hash of the payment's terms (source, destinations, amounts)
    /// @param quoteHash the quote the payer accepted, or zero when the payer signs before the auction
    /// @param payer whose money is taken and who gets whatever is not paid to the settler
    /// @param reserver who admits the deposit and names the settler; must be this contract's
    /// @param releaser who attests the delivery: a verifier's account, or the id of a set of verifiers
    /// @param reserveDeadline last second in which a settler may be named first; one that follows (`reassign`) may be named later
    /// @param fulfillmentDeadline last second that a reservation may allow for the delivery
    /// @param refundAfter first second of the refund, and the end of release and cancellation
    struct GatewayDeposit {
        bytes32 paymentId;
        bytes32 termsHash;
        bytes32 quoteHash;
        address payer;
        address reserver;
        address releaser;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
    }

    /// @notice The payer's Permit2 signature and what it permits.
    /// @param token the ERC-20
    /// @param amount the most that may be taken (the payer's cap)
    /// @param nonce must be `uint256(keccak256(abi.encodePacked(paymentId, termsHash)))`
    /// @param deadline last second in which Permit2 takes the signature
    /// @param signature the payer's, 65 bytes, 64 bytes (ERC-2098) or a contract's (ERC-1271), as Permit2 takes it
    struct Permit {
        address token;
        uint256 amount;
        uint256 nonce;
        uint256 deadline;
        bytes signature;
    }

    /// @notice The payer's ERC-3009 signature (`ReceiveWithAuthorization`) and what it authorizes. Its `to` is this contract, its
    /// `validAfter` zero, and its `nonce` the EIP-712 struct hash of the `GatewayDeposit`.
    /// @param token the ERC-20, which takes such signatures
    /// @param amount what is taken, all of it: the payer's cap
    /// @param validBefore first second in which the token does not take the signature any more
    /// @param signature the payer's, 65 bytes, 64 bytes (ERC-2098), or a contract's (ERC-1271) where the token asks contracts
    struct Authorization {
        address token;
        uint256 amount;
        uint256 validBefore;
        bytes signature;
    }

    /// @notice The award: which settler gets how much when it delivers in time.
    /// @param paymentId the payment
    /// @param quoteHash the winning quote
    /// @param settler who is paid on release
    /// @param sourceAmount what the settler is paid
    /// @param fulfillBy last second of the delivery
    struct Reservation {
        bytes32 paymentId;
        bytes32 quoteHash;
        address settler;
        uint256 sourceAmount;
        uint48 fulfillBy;
    }

    /// @notice A payment's terms as they stand: what the caller brings and the contract keeps the hash of.
    /// @param deposit what the payer agreed to
    /// @param token the ERC-20 or TRC-20
    /// @param deposited what was taken of it
    /// @param quoteHash the quote reserved last; before any the one that the payer agreed to, or zero
    /// @param settler who is paid on release; zero before the reservation, as the two that follow
    /// @param sourceAmount what the settler is paid
    /// @param fulfillBy last second of the delivery
    struct Escrow {
        GatewayDeposit deposit;
        address token;
        uint256 deposited;
        bytes32 quoteHash;
        address settler;
        uint256 sourceAmount;
        uint48 fulfillBy;
    }

    /// @notice All that is kept of a payment, in two slots and for ever. The numbers of the blocks in which the state
    /// changed (as the contract sees them, `block.number`; 0 before it did) share the first slot, so they cost nothing; by
    /// them the transactions, and in those the terms, are found without searching logs.
    /// @param state where the payment stands
    /// @param round how many reservations it has had; more than 1 once it was reassigned
    /// @param depositedAt the block of the deposit
    /// @param reservedAt the block of the last reservation
    /// @param endedAt the block of release or refund
    /// @param commitment `keccak256(abi.encode(Escrow))` of the terms as they stand, or stood last
    struct Record {
        State state;
        uint8 round;
        uint40 depositedAt;
        uint40 reservedAt;
        uint40 endedAt;
        bytes32 commitment;
    }

    /// @notice `amount` of `token` is locked for the payment. With the last `Reserved` it tells all terms of the payment.
    event Deposited(
        bytes32 indexed paymentId,
        bytes32 indexed quoteHash,
        address indexed payer,
        GatewayDeposit deposit,
        address token,
        uint256 amount
    );
    /// @notice `settler` gets `sourceAmount` if it delivers not later than `fulfillBy`.
    event Reserved(
        bytes32 indexed paymentId,
        bytes32 indexed quoteHash,
        address indexed settler,
        uint256 sourceAmount,
        uint48 fulfillBy
    );
    /// @notice The payment is no longer for `previousQuoteHash`, which was not delivered in time, but for `quoteHash`. Its `Reserved`
    /// follows at once.
    event Reassigned(bytes32 indexed paymentId, bytes32 indexed previousQuoteHash, bytes32 indexed quoteHash);
    /// @notice The delivery was attested: `amount` to the settler, `remainder` back to the payer.
    event Released(
        bytes32 indexed paymentId,
        bytes32 indexed quoteHash,
        address indexed settler,
        uint256 amount,
        uint256 remainder
    );
    /// @notice The whole deposit went back to the payer, by cancellation or by time.
    event Refunded(bytes32 indexed paymentId, bytes32 indexed quoteHash, address indexed payer, uint256 amount);
    /// @notice A payout did not go through; `owner` can take `amount` with `claim`, and anyone bring it with `claimFor`.
    event Claimable(address indexed owner, address indexed token, uint256 amount);
    /// @notice `amount` of what `owner` was owed went to the address `to`.
    event Claimed(address indexed owner, address indexed token, address to, uint256 amount);
    /// @notice There was less of `token` than is owed, so `paid` settles a debt of `amount` to `owner`.
    event Shortfall(address indexed owner, address indexed token, uint256 amount, uint256 paid);
    /// @notice No deposit is taken any more. All that is here leaves as before.
    event Retired(address indexed guardian);
    /// @notice The guardian wants `next` as the reserver; it can be installed from `from` on.
    event ReserverProposed(address indexed next, uint48 from);
    /// @notice The proposal is off, by the guardian's or the present reserver's word.
    event ReserverProposalCancelled(address indexed next, address indexed by);
    /// @notice Deposits are admitted by `next` from now on. Those made before keep the reserver that they name.
    event ReserverChanged(address indexed previous, address indexed next);

    /// @notice There was a deposit for this payment already; there is never a second one.
    error PaymentIdUsed(bytes32 paymentId);
    /// @notice The reservation is for another payment than the deposit.
    error PaymentIdMismatch(bytes32 deposit, bytes32 reservation);
    /// @notice The payer agreed to another quote.
    error QuoteHashMismatch(bytes32 agreed, bytes32 reserved);
    /// @notice Only the payer itself may deposit without a permit.
    error CallerNotPayer(address caller, address payer);
    /// @notice The payer is the zero address.
    error PayerMissing();
    /// @notice The zero address cannot be the reserver.
    error ReserverMissing();
    /// @notice The contract cannot be deployed with so little or so much gas for a payout.
    error PayoutGasInvalid(uint256 payoutGas);
    /// @notice The guardian ended deposits here.
    error EscrowRetired();
    /// @notice Only the guardian may do this.
    error CallerNotGuardian(address caller);
    /// @notice Only the guardian or the present reserver may do this.
    error CallerNeitherGuardianNorReserver(address caller);
    /// @notice No reserver is proposed.
    error NoReserverProposed();
    /// @notice The proposed reserver can be installed from `from` on.
    error ReserverDelayNotOver(uint48 from);
    /// @notice Only this contract calls this.
    error CallerNotSelf(address caller);
    /// @notice The releaser is the zero address.
    error ReleaserMissing();
    /// @notice The settler is the zero address or this contract, where the money would be lost.
    error SettlerInvalid(address settler);
    /// @notice The deposit names another reserver than this contract's.
    error ReserverNotAdmitted(address reserver);
    /// @notice `reserveDeadline <= fulfillmentDeadline < refundAfter` does not hold.
    error WindowsOutOfOrder(uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter);
    /// @notice It is later than `reserveDeadline`.
    error ReserveWindowClosed(uint48 reserveDeadline);
    /// @notice It is later than the reserver admits the deposit.
    error AdmissionExpired(uint48 admittedUntil);
    /// @notice The settler reserved may still deliver, until the end of `fulfillBy`.
    error ReservationNotOver(uint48 fulfillBy);
    /// @notice The payment is reserved for this quote already.
    error QuoteNotAnother(bytes32 quoteHash);
    /// @notice `fulfillBy` is not in the future.
    error FulfillByPassed(uint48 fulfillBy);
    /// @notice `fulfillBy` is later than the payer's `fulfillmentDeadline`.
    error FulfillByTooLate(uint48 fulfillBy, uint48 fulfillmentDeadline);
    /// @notice Nothing to deposit, or nothing for the settler.
    error AmountZero();
    /// @notice More is asked for than was permitted or deposited.
    error AmountAboveCap(uint256 amount, uint256 cap);
    /// @notice The permit's nonce is not the one that binds the payment's terms.
    error NonceNotOfPayment(uint256 expected, uint256 given);
    /// @notice The reserver's signature is not valid for this admission, opening, reservation or reassignment.
    error ReserverSignatureInvalid(address reserver);
    /// @notice This is no word of the releaser's: neither its own signature of this message nor, if it is a set's id, that set
    /// with as many of its members' signatures as its threshold says.
    error ReleaserSignatureInvalid(address releaser);
    /// @notice The terms given are not those of the payment as it stands.
    error CommitmentMismatch(bytes32 committed, bytes32 given);
    /// @notice A call that moves money was made during another.
    error Reentered();
    /// @notice The payment's state does not allow this.
    error StateNotAllowed(State actual);
    /// @notice From `refundAfter` on only the refund is possible.
    error ReleaseWindowClosed(uint48 refundAfter);
    /// @notice The refund is possible from `refundAfter` on.
    error RefundWindowNotOpen(uint48 refundAfter);
    /// @notice The token is no contract, so a transfer of it would succeed without moving anything.
    error TokenHasNoCode(address token);
    /// @notice The deposit did not raise this contract's balance by exactly `expected`.
    error ReceivedNotExact(uint256 expected, uint256 received);
    /// @notice Less of the token is here than is owed already; a new deposit would pay for others.
    error TokenShort(address token, uint256 owed, uint256 held);
    /// @notice The token took more from this contract than it was asked to move.
    error PaidTooMuch(uint256 expected, uint256 paid);
    /// @notice Too little gas to give a payout its full allowance.
    error GasTooLow(uint256 needed);
    /// @notice There is no Permit2 on this chain (Tron); use `depositOwn`.
    error Permit2Missing();
    /// @notice `owner` is owed nothing in this token.
    error NothingToClaim(address owner, address token);
    /// @notice The token moved nothing, so the claim stays as it was.
    error ClaimNotPaid(uint256 expected, uint256 paid);
    /// @notice A claim cannot go to the zero address or to this contract.
    error ReceiverInvalid(address receiver);

    string private constant GATEWAY_DEPOSIT_TYPE =
        "GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)";
    string private constant RESERVATION_TYPE =
        "Reservation(bytes32 paymentId,bytes32 quoteHash,address settler,uint256 sourceAmount,uint48 fulfillBy)";
    /// @dev The tail of Permit2's `PermitWitnessTransferFrom(…,` stub; referenced types in alphabetical order.
    string private constant WITNESS_TYPE_STRING = string.concat(
        "GatewayDeposit witness)", GATEWAY_DEPOSIT_TYPE, "TokenPermissions(address token,uint256 amount)"
    );

    bytes32 private immutable GATEWAY_DEPOSIT_TYPEHASH = keccak256(bytes(GATEWAY_DEPOSIT_TYPE));
    bytes32 private immutable RESERVATION_TYPEHASH = keccak256(bytes(RESERVATION_TYPE));
    bytes32 private immutable ADMISSION_TYPEHASH = keccak256(
        bytes(
            string.concat(
                "Admission(GatewayDeposit deposit,Reservation reservation,address token,uint48 admittedUntil)",
                GATEWAY_DEPOSIT_TYPE,
                RESERVATION_TYPE
            )
        )
    );
    bytes32 private immutable LARGER_ADMISSION_TYPEHASH = keccak256(
        bytes(
            string.concat(
                "LargerAdmission(GatewayDeposit deposit,Reservation reservation,address token,uint256 amount,uint48 admittedUntil)",
                GATEWAY_DEPOSIT_TYPE,
                RESERVATION_TYPE
            )
        )
    );
    bytes32 private immutable OPENING_TYPEHASH = keccak256(
        bytes(string.concat("Opening(GatewayDeposit deposit,address token,uint256 amount)", GATEWAY_DEPOSIT_TYPE))
    );
    bytes32 private immutable REASSIGNMENT_TYPEHASH = keccak256(
        bytes(string.concat("Reassignment(bytes32 previousQuoteHash,Reservation reservation)", RESERVATION_TYPE))
    );
    bytes32 private constant DELIVERY_TYPEHASH =
        keccak256("Delivery(bytes32 paymentId,bytes32 quoteHash,address settler)");
    bytes32 private constant NON_DELIVERY_TYPEHASH = keccak256("NonDelivery(bytes32 paymentId,bytes32 quoteHash)");

    /// @notice How long a proposed reserver waits, in seconds: longer than any permit without a witness should live, since
    /// such a permit trusts whoever is the reserver when it is used.
    uint48 public constant RESERVER_DELAY = 2 days;

    uint256 private constant PAYOUT_GAS_LEAST = 100_000;
    uint256 private constant PAYOUT_GAS_MOST = 5_000_000;
    /// @dev What the preimage of a set's id begins with: the name of the form and its version.
    bytes16 private constant SET_PREFIX = "gw-verifier-set\x01";
    uint256 private constant MEMBERS_MAX = 16;
    /// @dev To close the books after a payout.
    uint256 private constant CLOSING_GAS = 80_000;

    /// @notice Permit2 on this chain, or zero where there is none.
    address public immutable permit2;
    /// @notice Who may retire this contract and propose another reserver; zero for nobody.
    address public immutable guardian;
    /// @notice Gas that one payout may use. It stops a receiver with a hook (ERC-777) from burning all gas and so
    /// holding up the other party's money; what does not fit becomes a claim, and a claim has no such limit. Chosen at the
    /// deployment, because chains count gas differently.
    uint256 public immutable payoutGas;
    /// @dev What must be left right before a payout, so that it always gets its full `payoutGas` (a call passes on at
    /// most 63/64, EIP-150) and the books can be closed after it. Without this a stranger could starve a healthy
    /// payout, in a token that fails early when gas is short, and turn it into a claim.
    uint256 private immutable _payoutGasNeeded;

    /// @notice The only reserver of new deposits: nothing comes in without its signature.
    address public reserver;
    /// @notice Whether deposits are over for ever.
    bool public retired;
    /// @notice From when on `nextReserver` can be installed, UNIX seconds; 0 while none is proposed.
    uint48 public nextReserverFrom;
    /// @dev Whether a call that moves money is under way. Beside the reserver, where a deposit reads anyway.
    bool private _entered;
    /// @notice The reserver that the guardian proposed, or zero.
    address public nextReserver;

    mapping(bytes32 paymentId => Record) private _records;
    mapping(address owner => mapping(address token => uint256 amount)) private _claimable;
    /// @dev All that is owed in a token: the deposits of open payments, and the claims.
    mapping(address token => uint256 amount) private _owed;

    /// @dev One lock for all payments and tokens: what a payout or a deposit measures is a balance, which no other may change.
    modifier nonReentrant() {
        bytes4 reentered = Reentered.selector;
        // One read for the question and the write.
        assembly ("memory-safe") {
            let word := sload(_entered.slot)
            let bit := shl(shl(3, _entered.offset), 1)
            if and(word, bit) {
                mstore(0, reentered)
                revert(0, 4)
            }
            sstore(_entered.slot, or(word, bit))
        }
        _;
        _entered = false;
    }

    /// @param permit2_ Permit2's address, or zero on a chain without it (deposits by permit are then refused)
    /// @param reserver_ the first reserver
    /// @param guardian_ who may retire the contract and propose another reserver, or zero for nobody
    /// @param payoutGas_ gas that one payout may use, 100,000 to 5,000,000; 300,000 suits chains that count as Ethereum does
    constructor(address permit2_, address reserver_, address guardian_, uint256 payoutGas_)
        EIP712("GatewayEscrow", "1") {
        if (reserver_ == address(0)) revert ReserverMissing();
        if (payoutGas_ < PAYOUT_GAS_LEAST || payoutGas_ > PAYOUT_GAS_MOST) revert PayoutGasInvalid(payoutGas_);
        permit2 = permit2_;
        reserver = reserver_;
        guardian = guardian_;
        payoutGas = payoutGas_;
        _payoutGasNeeded = payoutGas_ + payoutGas_ / 63 + CLOSING_GAS;
    }

    /// @notice Deposit and reservation in one call, with a permit whose witness is `d` (`EVM_PERMIT2_ESCROW`).
    /// Draws `r.sourceAmount`, not the permitted amount. Open to everyone.
    /// @dev The payer's signature covers every field of `d`, so the payer agreed to releaser and windows; the
    /// reserver's covers `d`, `r` and the token. A caller can only submit or not.
    /// @param d what the payer signed as the witness
    /// @param p the payer's permit
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of this contract's `reserver` over `Admission(d, r, p.token, admittedUntil)`
    function depositWithWitness(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        _depositWithWitness(d, p, r, r.sourceAmount, admittedUntil, reserverSignature);
    }

    /// @notice As `depositWithWitness`, of more than the award asks for, so that the payment can go to a dearer settler when this
    /// one does not deliver (`reassign`). What is over goes back to the payer on release. Open to everyone.
    /// @param amount what is drawn: not less than `r.sourceAmount`, and not more than the payer permits
    /// @param reserverSignature of this contract's `reserver` over `LargerAdmission(d, r, p.token, amount, admittedUntil)`; over
    /// `Admission`, as for `depositWithWitness`, where `amount` is what the award asks for
    function depositMoreWithWitness(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint256 amount,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        _depositWithWitness(d, p, r, amount, admittedUntil, reserverSignature);
    }

    /// @notice Deposit and reservation in one call, with a permit that has no witness (`EVM_PERMIT2`).
    /// Draws `r.sourceAmount`, not the permitted amount. Open to everyone.
    /// @dev The payer signed only token, amount, nonce and deadline, and the nonce binds payment id and terms. All
    /// else in `d` has the reserver's signature alone, the same `Admission` as with a witness.
    /// @param d the deposit as the reserver admits it
    /// @param p the payer's permit
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of this contract's `reserver` over `Admission(d, r, p.token, admittedUntil)`
    function depositWithPermit(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        _depositWithPermit(d, p, r, r.sourceAmount, admittedUntil, reserverSignature);
    }

    /// @notice To `depositWithPermit` what `depositMoreWithWitness` is to `depositWithWitness`.
    /// @param amount what is drawn: not less than `r.sourceAmount`, and not more than the payer permits
    /// @param reserverSignature as for `depositMoreWithWitness`
    function depositMoreWithPermit(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint256 amount,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        _depositWithPermit(d, p, r, amount, admittedUntil, reserverSignature);
    }

    /// @notice Deposit and reservation in one call, with an ERC-3009 authorization (`EVM_EIP3009`): no allowance, and no contract
    /// but the token. It takes the whole authorized amount, for the token knows no less; what is over goes back to the payer on
    /// release. Open to everyone.
    /// @dev The nonce that the payer signed is the hash of `d`, so its signature covers every field of it, as a witness does. Of the
    /// token it is asked that only the recipient may use the signature (`receiveWithAuthorization`): so nobody can have it
    /// carried out beside this contract.
    /// @param d what the payer agreed to, by its hash
    /// @param a the payer's authorization
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of this contract's `reserver` over `LargerAdmission(d, r, a.token, a.amount, admittedUntil)`; over
    /// `Admission(d, r, a.token, admittedUntil)` where the award asks for all of it
    function depositWithAuthorization(
        GatewayDeposit calldata d,
        Authorization calldata a,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        bytes32 nonce = _openReserved(d, a.token, a.amount, r, admittedUntil, reserverSignature);

        uint256 before = a.token.balanceOf(address(this));
        _receiveWithAuthorization(a, d.payer, nonce);
        _requireReceived(a.token, before, a.amount);
    }

    /// @notice Deposit and reservation in one call, of the caller's money for another's payment, after an `approve` for this
    /// contract. The payer signs nothing: whatever goes back goes to it, as if the money had been its own. Open to everyone; made
    /// for `DepositAddresses`, whose addresses hold what somebody sent for just these terms.
    /// @dev Only the caller's money is taken, so no allowance that others gave is of use here. The reserver's signature is the
    /// one that the other ways in ask for: who has seen it can pay in the payer's place, to nobody's loss but his own.
    /// @param d the deposit as the reserver admits it
    /// @param token the ERC-20
    /// @param amount what is taken: not less than `r.sourceAmount`; what is over goes back to the payer on release
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of this contract's `reserver` over `LargerAdmission(d, r, token, amount, admittedUntil)`; over
    /// `Admission(d, r, token, admittedUntil)` where the award asks for all of it
    function depositFor(
        GatewayDeposit calldata d,
        address token,
        uint256 amount,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external nonReentrant {
        _openReserved(d, token, amount, r, admittedUntil, reserverSignature);

        uint256 before = token.balanceOf(address(this));
        token.tryTransferFrom(msg.sender, address(this), amount);
        _requireReceived(token, before, amount);
    }

    /// @notice Deposit by the payer's own transaction, after an `approve` for this contract (Tron). The settler
    /// is named later by `reserve`; what it is not paid goes back to the payer on release.
    /// @dev Only the payer may call: an allowance alone is no consent to these terms. The reserver signs when the
    /// payer prepares the payment; the signature names the payer, so it serves no other caller.
    /// @param d the terms; `d.payer` is the caller
    /// @param token the ERC-20 or TRC-20
    /// @param amount what is taken, the payer's cap
    /// @param reserverSignature of this contract's `reserver` over `Opening(d, token, amount)`
    function depositOwn(GatewayDeposit calldata d, address token, uint256 amount, bytes calldata reserverSignature)
        external
        nonReentrant
    {
        if (msg.sender != d.payer) revert CallerNotPayer(msg.sender, d.payer);
        bytes32 opening = keccak256(abi.encode(OPENING_TYPEHASH, _hashDeposit(d), token, amount));
        _open(d, token, amount, d.quoteHash, opening, reserverSignature);
        Record storage record = _records[d.paymentId];
        record.commitment = keccak256(abi.encode(d, token, amount, d.quoteHash, uint256(0), uint256(0), uint256(0)));
        _write(record, State.Deposited, 0, uint40(block.number), 0);

        uint256 before = token.balanceOf(address(this));
        token.tryTransferFrom(msg.sender, address(this), amount);
        _requireReceived(token, before, amount);
    }

    /// @notice Names the settler of a deposit that has none yet. Open to everyone with the reserver's signature.
    /// @dev The signature need not name payer, terms or token: the reserver signed those for this id's only deposit.
    /// @param e the payment as deposited
    /// @param r the award; its quote must be the one the payer agreed to, if there was one
    /// @param reserverSignature of the deposit's reserver over `r` (EIP-712 `Reservation`); one installed later has no say
    function reserve(Escrow calldata e, Reservation calldata r, bytes calldata reserverSignature)
        external
        nonReentrant
    {
        GatewayDeposit calldata d = e.deposit;
        Record storage record = _records[d.paymentId];
        State state = record.state;
        if (state != State.Deposited) revert StateNotAllowed(state);
        _requireCommitted(record, e);
        if (r.paymentId != d.paymentId) revert PaymentIdMismatch(d.paymentId, r.paymentId);
        if (block.timestamp > d.reserveDeadline) revert ReserveWindowClosed(d.reserveDeadline);
        if (d.quoteHash != bytes32(0) && d.quoteHash != r.quoteHash) revert QuoteHashMismatch(d.quoteHash, r.quoteHash);
        if (r.sourceAmount > e.deposited) revert AmountAboveCap(r.sourceAmount, e.deposited);
        _requireReserver(d.reserver, _hashReservation(r), reserverSignature);
        record.commitment = _reserve(d, e.token, e.deposited, r);
        _write(record, State.Reserved, 1, record.depositedAt, uint40(block.number));
    }

    /// @notice Gives the reservation to another settler, once the time of the one reserved is over without a delivery. No money
    /// moves. Open to everyone with the signatures of both, the reserver and the releaser.
    /// @dev Only where the payer took any quote: one that the payer named is delivered or its money goes back. It is not bound by
    /// `reserveDeadline`, but ends before `fulfillmentDeadline`, hence before `refundAfter`, since the new `fulfillBy` is in the
    /// future and not later than that.
    ///
    /// The reserver's signature names the quote that is replaced, so neither one over an earlier award nor one that was used
    /// serves again. The releaser's word names that quote, too, and cannot cancel what takes its place; so the reserver must
    /// never name a quote of which there is such a word already. After 255 reservations a further one is refused (`Panic`).
    /// @param e the payment as it stands
    /// @param r the award that takes the place of the present one
    /// @param reserverSignature of the deposit's reserver over `Reassignment(e.quoteHash, r)` (EIP-712)
    /// @param nonDelivery the releaser's word, as for `cancel`, over `NonDelivery(paymentId, e.quoteHash)`
    function reassign(
        Escrow calldata e,
        Reservation calldata r,
        bytes calldata reserverSignature,
        bytes calldata nonDelivery
    ) external nonReentrant {
        GatewayDeposit calldata d = e.deposit;
        Record storage record = _records[d.paymentId];
        State state = record.state;
        if (state != State.Reserved) revert StateNotAllowed(state);
        _requireCommitted(record, e);
        if (r.paymentId != d.paymentId) revert PaymentIdMismatch(d.paymentId, r.paymentId);
        if (d.quoteHash != bytes32(0)) revert QuoteHashMismatch(d.quoteHash, r.quoteHash);
        if (block.timestamp <= e.fulfillBy) revert ReservationNotOver(e.fulfillBy);
        if (r.quoteHash == e.quoteHash) revert QuoteNotAnother(r.quoteHash);
        if (r.sourceAmount > e.deposited) revert AmountAboveCap(r.sourceAmount, e.deposited);
        uint8 round = record.round + 1;
        _requireReserver(
            d.reserver, keccak256(abi.encode(REASSIGNMENT_TYPEHASH, e.quoteHash, _hashReservation(r))), reserverSignature
        );
        _requireNonDelivery(e, nonDelivery);
        emit Reassigned(d.paymentId, e.quoteHash, r.quoteHash);
        record.commitment = _reserve(d, e.token, e.deposited, r);
        _write(record, State.Reserved, round, record.depositedAt, uint40(block.number));
    }

    /// @notice Pays the settler, and the remainder to the payer. Open to everyone with the releaser's
    /// attestation, before `refundAfter`: a settler needs nobody to be paid.
    /// @param e the payment as reserved
    /// @param attestation the releaser's signature over `Delivery(paymentId, quoteHash, settler)` (EIP-712), or a set attestation
    /// with its members' signatures over the same
    function release(Escrow calldata e, bytes calldata attestation) external nonReentrant {
        GatewayDeposit calldata d = e.deposit;
        Record storage record = _records[d.paymentId];
        State state = record.state;
        if (state != State.Reserved) revert StateNotAllowed(state);
        _requireCommitted(record, e);
        if (block.timestamp >= d.refundAfter) revert ReleaseWindowClosed(d.refundAfter);
        address settler = e.settler;
        _requireReleaser(
            d.releaser, keccak256(abi.encode(DELIVERY_TYPEHASH, d.paymentId, e.quoteHash, settler)), attestation
        );

        uint256 amount = e.sourceAmount;
        uint256 remainder;
        // A reservation is refused when it is for more than was deposited.
        unchecked {
            remainder = e.deposited - amount;
        }
        _end(record, State.Released);
        emit Released(d.paymentId, e.quoteHash, settler, amount, remainder);

        _payOut(e.token, settler, amount);
        if (remainder != 0) _payOut(e.token, d.payer, remainder);
    }

    /// @notice Gives the deposit back before its time. Open to everyone with the releaser's word that nothing
    /// was delivered, before `refundAfter`.
    /// @dev The message names the quote as it stands now (zero while none is reserved or agreed), so a word given
    /// before the award of an open deposit does not cancel the award, nor one about a settler the award of the next.
    /// @param e the payment as it stands
    /// @param nonDelivery the releaser's signature over `NonDelivery(paymentId, quoteHash)` (EIP-712), or a set attestation with
    /// its members' signatures over the same
    function cancel(Escrow calldata e, bytes calldata nonDelivery) external nonReentrant {
        GatewayDeposit calldata d = e.deposit;
        Record storage record = _requireOpen(e);
        if (block.timestamp >= d.refundAfter) revert ReleaseWindowClosed(d.refundAfter);
        _requireNonDelivery(e, nonDelivery);
        _refund(record, e);
    }

    /// @notice Gives the deposit back to the payer from `refundAfter` on. Open to everyone; it goes to the payer
    /// whoever asks.
    /// @param e the payment as it stands
    function refund(Escrow calldata e) external nonReentrant {
        Record storage record = _requireOpen(e);
        if (block.timestamp < e.deposit.refundAfter) revert RefundWindowNotOpen(e.deposit.refundAfter);
        _refund(record, e);
    }

    /// @notice Takes what the caller is owed in `token` from payouts that did not go through.
    /// @dev Only the owner names another receiver, so one whom the token denies can still get out. A token that moves
    /// nothing undoes all, and the claim stays; what a token moved is settled, and the rest stays owed.
    /// @param token the token owed
    /// @param to where it goes
    /// @return paid what left this contract, which the receiver got unless the token takes a fee
    function claim(address token, address to) external nonReentrant returns (uint256 paid) {
        if (to == address(0) || to == address(this)) revert ReceiverInvalid(to);
        return _claim(msg.sender, token, to);
    }

    /// @notice Brings `owner` what it is owed in `token`. Open to everyone; it goes to the owner whoever asks.
    /// @param owner who is owed
    /// @param token the token owed
    /// @return paid what left this contract, as for `claim`
    function claimFor(address owner, address token) external nonReentrant returns (uint256 paid) {
        return _claim(owner, token, owner);
    }

    /// @notice Ends deposits for ever. Open to the guardian. Nothing else changes: what is here is reserved, released,
    /// cancelled, refunded and claimed as before.
    function retire() external {
        if (msg.sender != guardian) revert CallerNotGuardian(msg.sender);
        if (retired) revert EscrowRetired();
        retired = true;
        emit Retired(msg.sender);
    }

    /// @notice Proposes another reserver for deposits to come, and begins its delay. Open to the guardian. A new proposal
    /// takes the place of an older one.
    /// @param next the reserver wanted
    function proposeReserver(address next) external {
        if (msg.sender != guardian) revert CallerNotGuardian(msg.sender);
        if (next == address(0)) revert ReserverMissing();
        nextReserver = next;
        nextReserverFrom = uint48(block.timestamp) + RESERVER_DELAY;
        emit ReserverProposed(next, nextReserverFrom);
    }

    /// @notice Takes the proposal back. Open to the guardian, and to the present reserver, so that a stolen guardian's key
    /// alone puts no reserver in.
    function cancelReserver() external {
        if (msg.sender != guardian && msg.sender != reserver) revert CallerNeitherGuardianNorReserver(msg.sender);
        if (nextReserverFrom == 0) revert NoReserverProposed();
        emit ReserverProposalCancelled(nextReserver, msg.sender);
        nextReserverFrom = 0;
        nextReserver = address(0);
    }

    /// @notice Makes the proposed reserver the reserver of deposits to come, once its delay is over. Open to the guardian.
    function installReserver() external {
        if (msg.sender != guardian) revert CallerNotGuardian(msg.sender);
        if (nextReserverFrom == 0) revert NoReserverProposed();
        if (block.timestamp < nextReserverFrom) revert ReserverDelayNotOver(nextReserverFrom);
        emit ReserverChanged(reserver, nextReserver);
        reserver = nextReserver;
        nextReserverFrom = 0;
        nextReserver = address(0);
    }

    /// @notice One transfer out, undone when the token takes more than it was asked to move, which would be others' money.
    /// Only this contract calls it: a call of its own is what can be undone alone.
    /// @param token the token
    /// @param to who is paid
    /// @param asked what the token is asked to move
    /// @param most what may leave
    /// @param held this contract's balance before
    /// @param gasLimit gas for the transfer, all of which it gets, or 0 for whatever there is
    /// @return paid what left this contract's balance
    function transferAtMost(address token, address to, uint256 asked, uint256 most, uint256 held, uint256 gasLimit)
        external
        returns (uint256 paid)
    {
        if (msg.sender != address(this)) revert CallerNotSelf(msg.sender);
        // The balance was read before, at whatever price the token asks for that: between here and the call there is
        // nothing that a chosen gas limit could make dear.
        if (gasLimit == 0) gasLimit = gasleft();
        else if (gasleft() < _payoutGasNeeded) revert GasTooLow(_payoutGasNeeded);
        token.tryTransfer(to, asked, gasLimit);
        uint256 afterwards = token.balanceOf(address(this));
        paid = held > afterwards ? held - afterwards : 0;
        if (paid > most) revert PaidTooMuch(most, paid);
    }

    /// @notice What `owner` can take with `claim` in `token`.
    function claimable(address owner, address token) external view returns (uint256) {
        return _claimable[owner][token];
    }

    /// @notice All that is owed in `token`: the deposits of open payments, and the claims.
    function owedIn(address token) external view returns (uint256) {
        return _owed[token];
    }

    /// @notice All that is kept of a payment; state `None` when there was no deposit.
    function recordOf(bytes32 paymentId) external view returns (Record memory) {
        return _records[paymentId];
    }

    /// @notice As `recordOf`, with the block that the answer is of. Where a node does not say which block it answers a
    /// call by (Tron), this is how a reader knows how old the record is.
    /// @return record all that is kept of the payment
    /// @return blockNumber the block's number
    /// @return time the block's time, UNIX seconds
    function recordAsOf(bytes32 paymentId)
        external
        view
        returns (Record memory record, uint256 blockNumber, uint256 time)
    {
        return (_records[paymentId], block.number, block.timestamp);
    }

    /// @notice What a payment's record holds when these are its terms.
    /// @dev All members are static, so what the caller sent is the ABI encoding already. Words with anything beyond their type
    /// hash to what no payment has: those of its record were encoded from checked values.
    function commitmentOf(Escrow calldata e) public pure returns (bytes32 commitment) {
        assembly ("memory-safe") {
            let encoded := mload(0x40)
            calldatacopy(encoded, e, 480)
            commitment := keccak256(encoded, 480)
        }
    }

    function _depositWithWitness(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint256 amount,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) private {
        _requirePermitted(d, p, amount);
        bytes32 witness = _openReserved(d, p.token, amount, r, admittedUntil, reserverSignature);

        uint256 before = p.token.balanceOf(address(this));
        IPermit2(permit2).permitWitnessTransferFrom(
            _permitOf(p), _transferOf(amount), d.payer, witness, WITNESS_TYPE_STRING, p.signature
        );
        _requireReceived(p.token, before, amount);
    }

    function _depositWithPermit(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint256 amount,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) private {
        _requirePermitted(d, p, amount);
        _openReserved(d, p.token, amount, r, admittedUntil, reserverSignature);

        uint256 before = p.token.balanceOf(address(this));
        IPermit2(permit2).permitTransferFrom(_permitOf(p), _transferOf(amount), d.payer, p.signature);
        _requireReceived(p.token, before, amount);
    }

    /// @dev The nonce is checked because it is all that binds the payment's terms for the payer when there is no witness.
    function _requirePermitted(GatewayDeposit calldata d, Permit calldata p, uint256 amount) private view {
        if (permit2.code.length == 0) revert Permit2Missing();
        uint256 nonce = uint256(keccak256(abi.encodePacked(d.paymentId, d.termsHash)));
        if (p.nonce != nonce) revert NonceNotOfPayment(nonce, p.nonce);
        if (amount > p.amount) revert AmountAboveCap(amount, p.amount);
    }

    /// @dev The token takes a key's signature in three parts since ERC-3009 was written, and in one piece, which may be a contract's,
    /// where it came later.
    function _receiveWithAuthorization(Authorization calldata a, address payer, bytes32 nonce) private {
        bytes calldata signature = a.signature;
        IERC3009 token = IERC3009(a.token);
        if (signature.length == 65) {
            (bytes32 r, bytes32 s, uint8 v) = (bytes32(signature[:32]), bytes32(signature[32:64]), uint8(signature[64]));
            token.receiveWithAuthorization(payer, address(this), a.amount, 0, a.validBefore, nonce, v, r, s);
        } else if (signature.length == 64) {
            uint256 vs = uint256(bytes32(signature[32:64]));
            (bytes32 r, bytes32 s) = (bytes32(signature[:32]), bytes32(vs & (type(uint256).max >> 1)));
            token.receiveWithAuthorization(
                payer, address(this), a.amount, 0, a.validBefore, nonce, uint8((vs >> 255) + 27), r, s
            );
        } else {
            token.receiveWithAuthorization(payer, address(this), a.amount, 0, a.validBefore, nonce, signature);
        }
    }

    /// @dev Checks and effects that all deposits with an award share. The admission binds all that the two
    /// parties bring: a signature over the award alone could be paired with somebody else's junk deposit. It ends, for a
    /// reverted deposit has published both signatures: without an end anyone could make it later, when the payer has
    /// mended its allowance for another payment.
    /// @return depositHash of `d`, the payer's witness
    function _openReserved(
        GatewayDeposit calldata d,
        address token,
        uint256 amount,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) private returns (bytes32 depositHash) {
        if (block.timestamp > admittedUntil) revert AdmissionExpired(admittedUntil);
        if (r.paymentId != d.paymentId) revert PaymentIdMismatch(d.paymentId, r.paymentId);
        if (d.quoteHash != bytes32(0) && d.quoteHash != r.quoteHash) revert QuoteHashMismatch(d.quoteHash, r.quoteHash);
        if (r.sourceAmount > amount) revert AmountAboveCap(r.sourceAmount, amount);
        depositHash = _hashDeposit(d);
        bytes32 admission = amount == r.sourceAmount
            ? keccak256(abi.encode(ADMISSION_TYPEHASH, depositHash, _hashReservation(r), token, admittedUntil))
            : keccak256(
                abi.encode(LARGER_ADMISSION_TYPEHASH, depositHash, _hashReservation(r), token, amount, admittedUntil)
            );
        _open(d, token, amount, r.quoteHash, admission, reserverSignature);
        Record storage record = _records[d.paymentId];
        record.commitment = _reserve(d, token, amount, r);
        _write(record, State.Reserved, 1, uint40(block.number), uint40(block.number));
    }

    /// @dev What leaves `None`, the only way to take an id, so the reserver's signature is required here. The caller writes
    /// the record, then moves the money or reverts all.
    function _open(
        GatewayDeposit calldata d,
        address token,
        uint256 amount,
        bytes32 quoteHash,
        bytes32 structHash,
        bytes calldata reserverSignature
    ) private {
        if (_records[d.paymentId].state != State.None) revert PaymentIdUsed(d.paymentId);
        if (d.payer == address(0)) revert PayerMissing();
        if (retired) revert EscrowRetired();
        if (d.reserver != reserver) revert ReserverNotAdmitted(d.reserver);
        if (d.releaser == address(0)) revert ReleaserMissing();
        if (block.timestamp > d.reserveDeadline) revert ReserveWindowClosed(d.reserveDeadline);
        if (d.reserveDeadline > d.fulfillmentDeadline || d.fulfillmentDeadline >= d.refundAfter) {
            revert WindowsOutOfOrder(d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter);
        }
        if (amount == 0) revert AmountZero();
        if (token.code.length == 0) revert TokenHasNoCode(token);
        _requireReserver(d.reserver, structHash, reserverSignature);

        emit Deposited(d.paymentId, quoteHash, d.payer, d, token, amount);
    }

    /// @dev Checks and announces an award; the reserver's signature is checked already.
    /// @return the commitment to the payment's terms with it
    function _reserve(GatewayDeposit calldata d, address token, uint256 deposited, Reservation calldata r)
        private
        returns (bytes32)
    {
        if (r.settler == address(0) || r.settler == address(this)) revert SettlerInvalid(r.settler);
        if (r.sourceAmount == 0) revert AmountZero();
        if (r.fulfillBy <= block.timestamp) revert FulfillByPassed(r.fulfillBy);
        if (r.fulfillBy > d.fulfillmentDeadline) revert FulfillByTooLate(r.fulfillBy, d.fulfillmentDeadline);
        emit Reserved(r.paymentId, r.quoteHash, r.settler, r.sourceAmount, r.fulfillBy);
        return keccak256(abi.encode(d, token, deposited, r.quoteHash, r.settler, r.sourceAmount, r.fulfillBy));
    }

    /// @dev The record's first slot of an open payment, in one write: the compiler makes one of each member, and where a chain
    /// has one price for every write (Tron), each costs as much as the first.
    function _write(Record storage record, State state, uint256 round, uint40 depositedAt, uint40 reservedAt) private {
        uint256 word = uint256(state) | round << 8 | uint256(depositedAt) << 16 | uint256(reservedAt) << 56;
        assembly ("memory-safe") {
            sstore(record.slot, word)
        }
    }

    /// @dev As `_write`, of a payment that ends: another state, and `endedAt`, which was zero until now.
    function _end(Record storage record, State end) private {
        uint256 endedAt = uint40(block.number);
        assembly ("memory-safe") {
            sstore(record.slot, or(and(sload(record.slot), not(0xff)), or(end, shl(96, endedAt))))
        }
    }

    /// @dev `Deposited | Reserved → Refunded`, all of it to the payer.
    function _refund(Record storage record, Escrow calldata e) private {
        address payer = e.deposit.payer;
        _end(record, State.Refunded);
        emit Refunded(e.deposit.paymentId, e.quoteHash, payer, e.deposited);
        _payOut(e.token, payer, e.deposited);
    }

    /// @dev Pays, and whatever the token did not move becomes a claim. What counts is what left this contract:
    /// that keeps the books equal to the money, whatever the token or the receiver do meanwhile (a receiver that
    /// sends the money back during the transfer is simply owed it still). A fee that the token takes on the way
    /// out is the receiver's.
    function _payOut(address token, address to, uint256 amount) private {
        (uint256 settled,,) = _pay(token, to, amount, 0, payoutGas);
        if (settled < amount) {
            uint256 unpaid = amount - settled;
            _claimable[to][token] += unpaid;
            emit Claimable(to, token, unpaid);
        }
    }

    /// @dev Pays a claim with whatever gas there is: a failure is undone, so that starving it leads nowhere. From a token that
    /// takes a charge besides, it asks for so much less as the charge was.
    function _claim(address owner, address token, address to) private returns (uint256 paid) {
        uint256 amount = _claimable[owner][token];
        if (amount == 0) revert NothingToClaim(owner, token);
        _claimable[owner][token] = 0;
        uint256 settled;
        uint256 charge;
        (settled, paid, charge) = _pay(token, to, amount, 0, 0);
        if (charge != 0) (settled, paid,) = _pay(token, to, amount, charge, 0);
        if (paid == 0) revert ClaimNotPaid(amount, 0);
        _claimable[owner][token] = amount - settled;
        emit Claimed(owner, token, to, settled);
    }

    /// @dev Pays a debt of `amount`, asking the token for as much less as it is known to `charge` besides. When less is here
    /// than all that is owed, the same part of each debt is paid, whoever comes first, and settles it.
    /// @return settled how much of the debt is paid by that
    /// @return paid what left this contract
    /// @return beyond what the token would have taken beyond what is owed; nothing was moved then
    function _pay(address token, address to, uint256 amount, uint256 charge, uint256 gasLimit)
        private
        returns (uint256 settled, uint256 paid, uint256 beyond)
    {
        uint256 owed = _owed[token];
        uint256 held = token.balanceOf(address(this));
        bool short = held < owed;
        uint256 most = short ? Math.mulDiv(amount, held, owed) : amount;
        if (most <= charge) return (0, 0, 0);
        (paid, beyond) = _transfer(token, to, most - charge, most, held, gasLimit);
        settled = paid;
        if (short && paid != 0) {
            settled = paid == most ? amount : Math.min(amount, Math.mulDiv(paid, owed, held, Math.Rounding.Ceil));
            emit Shortfall(to, token, settled, paid);
        }
        if (settled != 0) _owed[token] = owed - settled;
    }

    /// @dev `transferAtMost`. Whatever else than a charge makes it fail, shortage of gas before all, undoes everything.
    function _transfer(address token, address to, uint256 asked, uint256 most, uint256 held, uint256 gasLimit)
        private
        returns (uint256 paid, uint256 beyond)
    {
        try this.transferAtMost(token, to, asked, most, held, gasLimit) returns (uint256 moved) {
            return (moved, 0);
        } catch (bytes memory why) {
            if (bytes4(why) != PaidTooMuch.selector || why.length != 68) {
                assembly ("memory-safe") {
                    revert(add(why, 0x20), mload(why))
                }
            }
            assembly ("memory-safe") {
                beyond := sub(mload(add(why, 0x44)), mload(add(why, 0x24)))
            }
        }
    }

    /// @dev The books follow the money. What is here belongs to others first: were it too little for them, a new deposit
    /// would make up for what they lost.
    function _requireReceived(address token, uint256 before, uint256 amount) private {
        uint256 owed = _owed[token];
        if (before < owed) revert TokenShort(token, owed, before);
        uint256 afterwards = token.balanceOf(address(this));
        uint256 received = afterwards > before ? afterwards - before : 0;
        if (received != amount) revert ReceivedNotExact(amount, received);
        _owed[token] = owed + amount;
    }

    /// @dev The terms are those of a payment that has not ended.
    function _requireOpen(Escrow calldata e) private view returns (Record storage record) {
        record = _records[e.deposit.paymentId];
        State state = record.state;
        if (state != State.Deposited && state != State.Reserved) revert StateNotAllowed(state);
        _requireCommitted(record, e);
    }

    function _requireCommitted(Record storage record, Escrow calldata e) private view {
        bytes32 committed = record.commitment;
        bytes32 given = commitmentOf(e);
        if (committed != given) revert CommitmentMismatch(committed, given);
    }

    function _requireReserver(address by, bytes32 structHash, bytes calldata signature) private view {
        if (!_signed(by, structHash, signature, false)) {
            revert ReserverSignatureInvalid(by);
        }
    }

    function _requireReleaser(address releaser, bytes32 structHash, bytes calldata attestation) private view {
        if (!_signed(releaser, structHash, attestation, true)) {
            revert ReleaserSignatureInvalid(releaser);
        }
    }

    /// @dev The releaser says that nothing was delivered under the quote as it stands.
    function _requireNonDelivery(Escrow calldata e, bytes calldata nonDelivery) private view {
        _requireReleaser(
            e.deposit.releaser,
            keccak256(abi.encode(NON_DELIVERY_TYPEHASH, e.deposit.paymentId, e.quoteHash)),
            nonDelivery
        );
    }

    /// @dev The key of the account is tried first, and what code the account has is asked only then: that there is none need
    /// not be looked up, which costs as much as all else here. An address with code has no key, unless it delegates to
    /// that code (EIP-7702), and then its key can change the code anyway.
    ///
    /// A set attestation is never 65 bytes long, since its length is even. What is none of the set whose id is `by`, whatever
    /// it looks like, may still be a signature that code at `by` takes.
    /// @param orSet whether `by` may be the id of a set of verifiers
    function _signed(address by, bytes32 structHash, bytes calldata signature, bool orSet) private view returns (bool) {
        bytes32 digest = _hashTypedDataV4(structHash);
        if (signature.length == 65) {
            if (_signerOf(signature, digest) == by) return true;
        } else if (orSet && _signedBySet(by, digest, signature)) {
            return true;
        }
        return SignatureChecker.isValidERC1271SignatureNow(by, digest, signature);
    }

    /// @dev Whether `attestation` holds the set whose id is `id` and as many of its members' signatures of `digest` as its
    /// threshold says. The length is exact, so whatever is read below is within it.
    function _signedBySet(address id, bytes32 digest, bytes calldata attestation) private pure returns (bool) {
        if (attestation.length < 2) return false;
        uint256 threshold = uint8(attestation[0]);
        uint256 members = uint8(attestation[1]);
        if (threshold == 0 || threshold > members || members > MEMBERS_MAX) return false;
        // None of these exceeds 2 + 16 * (20 + 66).
        unchecked {
            uint256 at = 2 + 20 * members;
            if (attestation.length != at + 66 * threshold || _idOfSet(attestation[:at]) != id) return false;
            address last;
            for (; at < attestation.length; at += 66) {
                uint256 index = uint8(attestation[at]);
                if (index >= members) return false;
                address signer = _signerOf(attestation[at + 1:at + 66], digest);
                // Zero, which stands for no signer, is not greater than the first `last` either.
                if (signer <= last || signer != _memberAt(attestation, index)) return false;
                last = signer;
            }
        }
        return true;
    }

    /// @param set threshold, n and members, as a set attestation begins
    function _idOfSet(bytes calldata set) private pure returns (address) {
        bytes16 prefix = SET_PREFIX;
        bytes32 hash;
        assembly ("memory-safe") {
            let preimage := mload(0x40)
            mstore(preimage, prefix)
            calldatacopy(add(preimage, 16), set.offset, set.length)
            hash := keccak256(preimage, add(set.length, 16))
        }
        return address(uint160(uint256(hash)));
    }

    /// @dev The caller has made sure that there are more members than `index`.
    function _memberAt(bytes calldata attestation, uint256 index) private pure returns (address member) {
        assembly ("memory-safe") {
            member := shr(96, calldataload(add(attestation.offset, add(2, mul(index, 20)))))
        }
    }

    /// @dev Whose signature of `digest` it is (r, s and v, with a low `s`), or zero. The caller has made sure that it is of 65 bytes.
    function _signerOf(bytes calldata signature, bytes32 digest) private pure returns (address signer) {
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := calldataload(signature.offset)
            s := calldataload(add(signature.offset, 0x20))
            v := byte(0, calldataload(add(signature.offset, 0x40)))
        }
        (signer,,) = ECDSA.tryRecover(digest, v, r, s);
    }

    function _permitOf(Permit calldata p) private pure returns (IPermit2.PermitTransferFrom memory) {
        return IPermit2.PermitTransferFrom(IPermit2.TokenPermissions(p.token, p.amount), p.nonce, p.deadline);
    }

    function _transferOf(uint256 amount) private view returns (IPermit2.SignatureTransferDetails memory) {
        return IPermit2.SignatureTransferDetails(address(this), amount);
    }

    /// @dev All members are static, so the ABI encoding of the struct is EIP-712's `encodeData`.
    function _hashDeposit(GatewayDeposit calldata d) private view returns (bytes32) {
        return keccak256(abi.encode(GATEWAY_DEPOSIT_TYPEHASH, d));
    }

    /// @dev As `_hashDeposit`.
    function _hashReservation(Reservation calldata r) private view returns (bytes32) {
        return keccak256(abi.encode(RESERVATION_TYPEHASH, r));
    }
}
