// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {ReentrancyGuard} from "@openzeppelin/contracts/utils/ReentrancyGuard.sol";

import {IPermit2} from "./IPermit2.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Escrow of a payer's money while a settler delivers on another chain
/// @notice Locks the money of one payment, pays it to the settler when the releaser attests the delivery, and
/// gives it back to the payer otherwise. No owner, no upgrade, no fee. Amounts are in the token's smallest
/// unit, times in UNIX seconds.
///
/// States: `None → Deposited → Reserved → Released | Refunded`, and `Deposited → Refunded`.
///
/// Roles of a payment, all named in the deposit:
/// - the payer, whose money it is;
/// - the reserver (the gateway), the same for all payments of this contract, who signs what may come in
///   (`Admission`, `Opening`) and names settler, amount and time (in the `Admission`, or by `Reservation`);
/// - the releaser (the verifier of deliveries), who signs `Delivery` or `NonDelivery`.
/// Reserver and releaser may be contracts (ERC-1271). Their 65-byte signatures must have a low `s`. The reserver's
/// are EIP-712 messages.
///
/// Windows: admitted not later than `admittedUntil`; reserved not later than `reserveDeadline`; released or cancelled before `refundAfter`; refunded
/// from `refundAfter` on. So at any second either the release or the refund is possible, never both.
///
/// What nobody can do here:
/// - use up a payment's id: every deposit bears the reserver's signature over payer, terms and token, so a signature
///   that others see before it is mined serves them for nothing but the very same deposit;
/// - bring in a deposit that was refused, once its admission has ended;
/// - send the money anywhere but to the reserved settler or back to the payer;
/// - keep it: from `refundAfter` on anyone may trigger the refund;
/// - block the end of a payment by refusing the money: it is then kept as a claim of the one who refused.
///
/// What a settler must read before delivering (`escrowOf`): state `Reserved`, its own address, quote hash, amount,
/// **token** (the reservation does not name it, the payer's permit does), releaser and `refundAfter`.
///
/// Tokens that change balances by themselves (rebasing) are not fit for an escrow; those that take a fee on the
/// way in are refused.
contract GatewayEscrow is EIP712, ReentrancyGuard {
    using TokenMoves for address;

    /// @notice Life of a payment's escrow. `Released` and `Refunded` are final.
    enum State {
        None,
        Deposited,
        Reserved,
        Released,
        Refunded
    }

    /// @notice What the payer agrees to: the Permit2 witness, or the payer's own transaction.
    /// @param paymentId keccak256 of the payment's id; one deposit each for ever
    /// @param termsHash hash of the payment's terms (source, destinations, amounts)
    /// @param quoteHash the quote the payer accepted, or zero when the payer signs before the auction
    /// @param payer whose money is taken and who gets whatever is not paid to the settler
    /// @param reserver who admits the deposit and names the settler; must be this contract's
    /// @param releaser who attests the delivery
    /// @param reserveDeadline last second in which a settler may be named
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

    /// @notice All that the contract knows of a payment. Kept after the end, for auditors. The numbers of the blocks in
    /// which the state changed (as the contract sees them, `block.number`; 0 before it did) share slots that are
    /// written then anyway, so they cost nothing; by them the transactions are found without searching logs.
    struct Escrow {
        State state;
        address payer;
        uint40 reservedAt;
        uint40 endedAt;
        address reserver;
        address releaser;
        address token;
        address settler;
        uint256 deposited;
        uint256 sourceAmount;
        bytes32 termsHash;
        bytes32 quoteHash;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 fulfillBy;
        uint48 refundAfter;
        uint40 depositedAt;
    }

    /// @notice `amount` of `token` is locked for the payment.
    event Deposited(
        bytes32 indexed paymentId,
        bytes32 indexed quoteHash,
        address indexed payer,
        bytes32 termsHash,
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
    /// @notice A payout did not go through; `owner` can take `amount` with `claim`.
    event Claimable(address indexed owner, address indexed token, uint256 amount);
    /// @notice `owner` took what it was owed, to the address `to`.
    event Claimed(address indexed owner, address indexed token, address to, uint256 amount);

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
    /// @notice The contract cannot be deployed with the zero address as its reserver.
    error ReserverMissing();
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
    /// @notice The reserver's signature is not valid for this admission, opening or reservation.
    error ReserverSignatureInvalid(address reserver);
    /// @notice The releaser's signature is not valid for this attestation.
    error ReleaserSignatureInvalid(address releaser);
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
    /// @notice The token took more from this contract than it was asked to move.
    error PaidTooMuch(uint256 expected, uint256 paid);
    /// @notice Too little gas to give a payout its full allowance.
    error GasTooLow(uint256 needed);
    /// @notice There is no Permit2 on this chain (Tron); use `depositOwn`.
    error Permit2Missing();
    /// @notice The caller is owed nothing in this token.
    error NothingToClaim(address owner, address token);
    /// @notice The claim did not move exactly what is owed; it stays as it was.
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
    bytes32 private immutable OPENING_TYPEHASH = keccak256(
        bytes(string.concat("Opening(GatewayDeposit deposit,address token,uint256 amount)", GATEWAY_DEPOSIT_TYPE))
    );
    bytes32 private constant DELIVERY_TYPEHASH =
        keccak256("Delivery(bytes32 paymentId,bytes32 quoteHash,address settler)");
    bytes32 private constant NON_DELIVERY_TYPEHASH = keccak256("NonDelivery(bytes32 paymentId,bytes32 quoteHash)");

    /// @dev Gas that one payout may use. It stops a receiver with a hook (ERC-777) from burning all gas and so
    /// holding up the other party's money; what does not fit becomes a claim, and a claim has no such limit.
    uint256 private constant PAYOUT_GAS = 300_000;
    /// @dev What must be left before a payout, so that it always gets its full `PAYOUT_GAS` (a call passes on at
    /// most 63/64, EIP-150) and the books can be closed after it. Without this a stranger could starve a healthy
    /// payout, in a token that fails early when gas is short, and turn it into a claim.
    uint256 private constant PAYOUT_GAS_NEEDED = PAYOUT_GAS + PAYOUT_GAS / 63 + 80_000;

    /// @notice Permit2 on this chain, or zero where there is none.
    address public immutable permit2;
    /// @notice The only reserver: nothing comes in without its signature.
    address public immutable reserver;

    mapping(bytes32 paymentId => Escrow) private _escrows;
    mapping(address owner => mapping(address token => uint256 amount)) private _claimable;

    /// @param permit2_ Permit2's address, or zero on a chain without it (deposits by signature are then refused)
    /// @param reserver_ the reserver of every payment
    constructor(address permit2_, address reserver_) EIP712("GatewayEscrow", "1") {
        if (reserver_ == address(0)) revert ReserverMissing();
        permit2 = permit2_;
        reserver = reserver_;
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
        bytes32 witness = _openReserved(d, p, r, admittedUntil, reserverSignature);

        uint256 before = p.token.balanceOf(address(this));
        IPermit2(permit2).permitWitnessTransferFrom(
            _permitOf(p), _transferOf(r), d.payer, witness, WITNESS_TYPE_STRING, p.signature
        );
        _requireReceived(p.token, before, r.sourceAmount);
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
        _openReserved(d, p, r, admittedUntil, reserverSignature);

        uint256 before = p.token.balanceOf(address(this));
        IPermit2(permit2).permitTransferFrom(_permitOf(p), _transferOf(r), d.payer, p.signature);
        _requireReceived(p.token, before, r.sourceAmount);
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

        uint256 before = token.balanceOf(address(this));
        token.tryTransferFrom(msg.sender, address(this), amount);
        _requireReceived(token, before, amount);
    }

    /// @notice Names the settler of a deposit that has none yet. Open to everyone with the reserver's signature.
    /// @dev The signature need not name payer, terms or token: the reserver signed those for this id's only deposit.
    /// @param r the award; its quote must be the one the payer agreed to, if there was one
    /// @param reserverSignature of this contract's `reserver` over `r` (EIP-712 `Reservation`)
    function reserve(Reservation calldata r, bytes calldata reserverSignature) external nonReentrant {
        Escrow storage e = _escrows[r.paymentId];
        if (e.state != State.Deposited) revert StateNotAllowed(e.state);
        if (block.timestamp > e.reserveDeadline) revert ReserveWindowClosed(e.reserveDeadline);
        if (e.quoteHash != bytes32(0) && e.quoteHash != r.quoteHash) {
            revert QuoteHashMismatch(e.quoteHash, r.quoteHash);
        }
        if (r.sourceAmount > e.deposited) revert AmountAboveCap(r.sourceAmount, e.deposited);
        _requireReserver(_hashReservation(r), reserverSignature);
        e.quoteHash = r.quoteHash;
        _reserve(e, r);
    }

    /// @notice Pays the settler, and the remainder to the payer. Open to everyone with the releaser's
    /// attestation, before `refundAfter`: a settler needs nobody to be paid.
    /// @param paymentId the payment
    /// @param attestation the releaser's signature over `Delivery(paymentId, quoteHash, settler)` (EIP-712)
    function release(bytes32 paymentId, bytes calldata attestation) external nonReentrant {
        Escrow storage e = _escrows[paymentId];
        if (e.state != State.Reserved) revert StateNotAllowed(e.state);
        if (block.timestamp >= e.refundAfter) revert ReleaseWindowClosed(e.refundAfter);
        _requireReleaser(
            e.releaser, keccak256(abi.encode(DELIVERY_TYPEHASH, paymentId, e.quoteHash, e.settler)), attestation
        );

        uint256 amount = e.sourceAmount;
        uint256 remainder = e.deposited - amount;
        e.state = State.Released;
        e.endedAt = uint40(block.number);
        emit Released(paymentId, e.quoteHash, e.settler, amount, remainder);

        _payOut(e.token, e.settler, amount);
        if (remainder != 0) _payOut(e.token, e.payer, remainder);
    }

    /// @notice Gives the deposit back before its time. Open to everyone with the releaser's word that nothing
    /// was delivered, before `refundAfter`.
    /// @dev The message names the quote as it stands now (zero while none is reserved or agreed), so a word given
    /// before the award of an open deposit does not cancel the award.
    /// @param paymentId the payment
    /// @param nonDelivery the releaser's signature over `NonDelivery(paymentId, quoteHash)` (EIP-712)
    function cancel(bytes32 paymentId, bytes calldata nonDelivery) external nonReentrant {
        Escrow storage e = _requireOpen(paymentId);
        if (block.timestamp >= e.refundAfter) revert ReleaseWindowClosed(e.refundAfter);
        _requireReleaser(
            e.releaser, keccak256(abi.encode(NON_DELIVERY_TYPEHASH, paymentId, e.quoteHash)), nonDelivery
        );
        _refund(paymentId, e);
    }

    /// @notice Gives the deposit back to the payer from `refundAfter` on. Open to everyone; it goes to the payer
    /// whoever asks.
    /// @param paymentId the payment
    function refund(bytes32 paymentId) external nonReentrant {
        Escrow storage e = _requireOpen(paymentId);
        if (block.timestamp < e.refundAfter) revert RefundWindowNotOpen(e.refundAfter);
        _refund(paymentId, e);
    }

    /// @notice Takes all that the caller is owed in `token` from payouts that did not go through.
    /// @dev Only the owner can start it and only the owner names the receiver, so one whom the token denies can
    /// still get out. When the token does not move exactly what is owed, all is undone and the claim stays.
    /// @param token the token owed
    /// @param to where it goes
    /// @return amount what was paid
    function claim(address token, address to) external nonReentrant returns (uint256 amount) {
        if (to == address(0) || to == address(this)) revert ReceiverInvalid(to);
        amount = _claimable[msg.sender][token];
        if (amount == 0) revert NothingToClaim(msg.sender, token);
        _claimable[msg.sender][token] = 0;
        emit Claimed(msg.sender, token, to, amount);

        uint256 paid = _transfer(token, to, amount, gasleft());
        if (paid != amount) revert ClaimNotPaid(amount, paid);
    }

    /// @notice What `owner` can take with `claim` in `token`.
    function claimable(address owner, address token) external view returns (uint256) {
        return _claimable[owner][token];
    }

    /// @notice All that is known of a payment; state `None` when there was no deposit.
    function escrowOf(bytes32 paymentId) external view returns (Escrow memory) {
        return _escrows[paymentId];
    }

    /// @notice As `escrowOf`, with the block that the answer is of. Where a node does not say which block it answers a
    /// call by (Tron), this is how a reader knows how old the record is.
    /// @return escrow all that is known of the payment
    /// @return blockNumber the block's number
    /// @return time the block's time, UNIX seconds
    function escrowAsOf(bytes32 paymentId)
        external
        view
        returns (Escrow memory escrow, uint256 blockNumber, uint256 time)
    {
        return (_escrows[paymentId], block.number, block.timestamp);
    }

    /// @dev Checks and effects that both deposits by signature share. The nonce is checked here because it is all
    /// that binds the payment's terms for the payer when there is no witness. The admission binds all that the two
    /// parties bring: a signature over the award alone could be paired with somebody else's junk deposit. It ends, for a
    /// reverted deposit has published both signatures: without an end anyone could make it later, when the payer has
    /// mended its allowance for another payment.
    /// @return depositHash of `d`, the payer's witness
    function _openReserved(
        GatewayDeposit calldata d,
        Permit calldata p,
        Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) private returns (bytes32 depositHash) {
        if (permit2.code.length == 0) revert Permit2Missing();
        if (block.timestamp > admittedUntil) revert AdmissionExpired(admittedUntil);
        if (r.paymentId != d.paymentId) revert PaymentIdMismatch(d.paymentId, r.paymentId);
        if (d.quoteHash != bytes32(0) && d.quoteHash != r.quoteHash) revert QuoteHashMismatch(d.quoteHash, r.quoteHash);
        uint256 nonce = uint256(keccak256(abi.encodePacked(d.paymentId, d.termsHash)));
        if (p.nonce != nonce) revert NonceNotOfPayment(nonce, p.nonce);
        if (r.sourceAmount > p.amount) revert AmountAboveCap(r.sourceAmount, p.amount);
        depositHash = _hashDeposit(d);
        bytes32 admission =
            keccak256(abi.encode(ADMISSION_TYPEHASH, depositHash, _hashReservation(r), p.token, admittedUntil));
        _reserve(_open(d, p.token, r.sourceAmount, r.quoteHash, admission, reserverSignature), r);
    }

    /// @dev `None → Deposited`, the only way to take an id, so the reserver's signature is required here. Writes the
    /// books; the caller then moves the money or reverts all.
    function _open(
        GatewayDeposit calldata d,
        address token,
        uint256 amount,
        bytes32 quoteHash,
        bytes32 structHash,
        bytes calldata reserverSignature
    ) private returns (Escrow storage e) {
        e = _escrows[d.paymentId];
        if (e.state != State.None) revert PaymentIdUsed(d.paymentId);
        if (d.payer == address(0)) revert PayerMissing();
        if (d.reserver != reserver) revert ReserverNotAdmitted(d.reserver);
        if (d.releaser == address(0)) revert ReleaserMissing();
        if (block.timestamp > d.reserveDeadline) revert ReserveWindowClosed(d.reserveDeadline);
        if (d.reserveDeadline > d.fulfillmentDeadline || d.fulfillmentDeadline >= d.refundAfter) {
            revert WindowsOutOfOrder(d.reserveDeadline, d.fulfillmentDeadline, d.refundAfter);
        }
        if (amount == 0) revert AmountZero();
        if (token.code.length == 0) revert TokenHasNoCode(token);
        _requireReserver(structHash, reserverSignature);

        e.state = State.Deposited;
        e.payer = d.payer;
        e.reserver = d.reserver;
        e.releaser = d.releaser;
        e.token = token;
        e.deposited = amount;
        e.termsHash = d.termsHash;
        e.quoteHash = quoteHash;
        e.reserveDeadline = d.reserveDeadline;
        e.fulfillmentDeadline = d.fulfillmentDeadline;
        e.refundAfter = d.refundAfter;
        e.depositedAt = uint40(block.number);
        emit Deposited(d.paymentId, quoteHash, d.payer, d.termsHash, token, amount);
    }

    /// @dev `Deposited → Reserved`; the reserver's signature is checked already.
    function _reserve(Escrow storage e, Reservation calldata r) private {
        if (r.settler == address(0) || r.settler == address(this)) revert SettlerInvalid(r.settler);
        if (r.sourceAmount == 0) revert AmountZero();
        if (r.fulfillBy <= block.timestamp) revert FulfillByPassed(r.fulfillBy);
        if (r.fulfillBy > e.fulfillmentDeadline) revert FulfillByTooLate(r.fulfillBy, e.fulfillmentDeadline);

        e.state = State.Reserved;
        e.reservedAt = uint40(block.number);
        e.settler = r.settler;
        e.sourceAmount = r.sourceAmount;
        e.fulfillBy = r.fulfillBy;
        emit Reserved(r.paymentId, r.quoteHash, r.settler, r.sourceAmount, r.fulfillBy);
    }

    /// @dev `Deposited | Reserved → Refunded`, all of it to the payer.
    function _refund(bytes32 paymentId, Escrow storage e) private {
        uint256 amount = e.deposited;
        e.state = State.Refunded;
        e.endedAt = uint40(block.number);
        emit Refunded(paymentId, e.quoteHash, e.payer, amount);
        _payOut(e.token, e.payer, amount);
    }

    /// @dev Pays, and whatever the token did not move becomes a claim. What counts is what left this contract:
    /// that keeps the books equal to the money, whatever the token or the receiver do meanwhile (a receiver that
    /// sends the money back during the transfer is simply owed it still). A fee that the token takes on the way
    /// out is the receiver's.
    function _payOut(address token, address to, uint256 amount) private {
        if (gasleft() < PAYOUT_GAS_NEEDED) revert GasTooLow(PAYOUT_GAS_NEEDED);
        uint256 paid = _transfer(token, to, amount, PAYOUT_GAS);
        if (paid > amount) revert PaidTooMuch(amount, paid);
        if (paid < amount) {
            uint256 owed = amount - paid;
            _claimable[to][token] += owed;
            emit Claimable(to, token, owed);
        }
    }

    /// @dev What left this contract's balance.
    function _transfer(address token, address to, uint256 amount, uint256 gasLimit) private returns (uint256 paid) {
        uint256 before = token.balanceOf(address(this));
        token.tryTransfer(to, amount, gasLimit);
        uint256 afterwards = token.balanceOf(address(this));
        return before > afterwards ? before - afterwards : 0;
    }

    function _requireReceived(address token, uint256 before, uint256 amount) private view {
        uint256 afterwards = token.balanceOf(address(this));
        uint256 received = afterwards > before ? afterwards - before : 0;
        if (received != amount) revert ReceivedNotExact(amount, received);
    }

    function _requireOpen(bytes32 paymentId) private view returns (Escrow storage e) {
        e = _escrows[paymentId];
        if (e.state != State.Deposited && e.state != State.Reserved) revert StateNotAllowed(e.state);
    }

    function _requireReserver(bytes32 structHash, bytes calldata signature) private view {
        if (!SignatureChecker.isValidSignatureNow(reserver, _hashTypedDataV4(structHash), signature)) {
            revert ReserverSignatureInvalid(reserver);
        }
    }

    function _requireReleaser(address releaser, bytes32 structHash, bytes calldata signature) private view {
        if (!SignatureChecker.isValidSignatureNow(releaser, _hashTypedDataV4(structHash), signature)) {
            revert ReleaserSignatureInvalid(releaser);
        }
    }

    function _permitOf(Permit calldata p) private pure returns (IPermit2.PermitTransferFrom memory) {
        return IPermit2.PermitTransferFrom(IPermit2.TokenPermissions(p.token, p.amount), p.nonce, p.deadline);
    }

    function _transferOf(Reservation calldata r) private view returns (IPermit2.SignatureTransferDetails memory) {
        return IPermit2.SignatureTransferDetails(address(this), r.sourceAmount);
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
