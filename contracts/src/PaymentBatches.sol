// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";

import {DepositAddress} from "./DepositAddress.sol";
import {DepositAddresses} from "./DepositAddresses.sol";
import {GatewayEscrow} from "./GatewayEscrow.sol";
import {IPermit2} from "./IPermit2.sol";
import {IPermit2Batch} from "./IPermit2Batch.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Many payments for one signature
/// @notice A payer signs one batch transfer of Permit2 whose witness is the escrow and the Merkle root of its payments: of each the
/// escrow, token, amount, and all that a payer who signs for one payment would sign (`GatewayDeposit`). Each payment is deposited by itself, when
/// a settler has won its own auction: the first deposit of a batch draws all that was permitted to the batch's own address, the
/// others find it there. A batch of whose payments none is deposited is never drawn.
///
/// From a batch's address money can go two ways only, and anyone may have it go each of them:
/// - into the batch's escrow, for a payment under the root, with the admission of the escrow's reserver (`deposit`);
/// - to the payer, once no payment of the batch can be deposited any more (`giveBack`).
///
/// What nobody can do here:
/// - send the money anywhere else, whatever payments, tokens and escrows he makes up: who is not under the root gets nothing, and
///   only this contract commands the addresses;
/// - deposit a payment for another amount, another payer or with another deadline than the batch's, or twice: the escrow takes a
///   payment's id once;
/// - pay one batch's payments with another's money: each has an address of its own;
/// - draw for anything but a deposit that succeeds in the same call, or draw twice: Permit2 uses a nonce once;
/// - give back before `deadline` is over, and so end payments that are being made; nor can the payer have the money taken away once it
///   is drawn: there is one escrow, and it takes what its reserver admits;
/// - keep it: from then on anyone may have what is there given back.
///
/// A payer who signs for payments that are dearer together than what it permits has the later ones of them fail.
///
/// No owner, no upgrade, no fee, and nothing in storage. Amounts are in the token's smallest unit, times in UNIX seconds. For
/// chains where CREATE2 makes addresses as on Ethereum.
contract PaymentBatches {
    using TokenMoves for address;

    /// @notice What a payer signs, besides this contract as the spender: its address is of `keccak256(abi.encode(Batch))`.
    /// @param payer whose money it is
    /// @param permitted each token and how much of it is drawn, in ascending order of the tokens
    /// @param escrow where all of its payments are deposited
    /// @param nonce of Permit2, of the payer's choice
    /// @param deadline last second in which the batch is drawn, and the `reserveDeadline` of its payments; after it what is left is
    /// given back
    /// @param payments the Merkle root of its payments: pairs are sorted, a leaf is the hash of the hash of `abi.encode(Terms)`
    struct Batch {
        address payer;
        IPermit2.TokenPermissions[] permitted;
        address escrow;
        uint256 nonce;
        uint256 deadline;
        bytes32 payments;
    }

    /// @notice The batch at the address `at` was drawn from its payer.
    event Drawn(address indexed at, address indexed payer, bytes32 payments);
    /// @notice `amount` of `token` (zero: the chain's own coin) left the batch's address `from` for its payer `to`.
    event GivenBack(address indexed from, address indexed to, address token, uint256 amount);

    /// @notice The payer is the zero address, or nothing is permitted.
    error BatchEmpty();
    /// @notice A token stands twice, or before one that is less than it.
    error TokensNotAscending(address token);
    /// @notice The payment's payer is not the batch's.
    error PayerNotOfBatch(address payer);
    /// @notice The payment is for another escrow than the batch.
    error EscrowNotOfBatch(address escrow);
    /// @notice The payment could be deposited up to another second than the batch.
    error DeadlineNotOfBatch(uint48 reserveDeadline);
    /// @notice The payment is not under the root that the payer signed.
    error PaymentNotInBatch(bytes32 paymentId);
    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);
    /// @notice The token moved another amount than was permitted.
    error ReceivedNotExact(address token, uint256 expected, uint256 received);
    /// @notice Payments of the batch may still be deposited: until the end of `deadline`.
    error NotYet(uint256 deadline);
    /// @notice The address has nothing of this token.
    error NothingThere(address token);
    /// @notice The token moved nothing, or the payer took no coins; everything stays where it is.
    error NotMoved(address token);

    /// @notice The name of the witness and its type, as Permit2 takes it.
    string public constant WITNESS_TYPE =
        "PaymentBatch witness)PaymentBatch(address escrow,bytes32 payments)TokenPermissions(address token,uint256 amount)";
    bytes32 private constant BATCH_TYPEHASH = keccak256("PaymentBatch(address escrow,bytes32 payments)");

    /// @notice The code that every address runs.
    address public immutable implementation;

    constructor() {
        implementation = address(new DepositAddress());
    }

    /// @notice Brings the amount that `t` names into the escrow, and names the settler, in one call; draws the batch before, where
    /// it is not drawn. Open to everyone with the reserver's admission. What Permit2, token and escrow refuse is refused with their
    /// errors.
    /// @dev A code that a token runs meanwhile, of the payer's or of anybody, can have other payments of the batch deposited, or
    /// the batch given back after its deadline; what this deposit lacks then undoes all.
    /// @param b the batch
    /// @param signature the payer's, as Permit2 takes it; read where the batch is not drawn
    /// @param t the payment; of its amount all is deposited
    /// @param proof its place under the root
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of the escrow's reserver, as for `GatewayEscrow.depositFor`
    function deposit(
        Batch calldata b,
        bytes calldata signature,
        DepositAddresses.Terms calldata t,
        bytes32[] calldata proof,
        GatewayEscrow.Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external {
        if (t.deposit.payer != b.payer) revert PayerNotOfBatch(t.deposit.payer);
        if (t.escrow != b.escrow) revert EscrowNotOfBatch(t.escrow);
        if (t.deposit.reserveDeadline != b.deadline) revert DeadlineNotOfBatch(t.deposit.reserveDeadline);
        if (!MerkleProof.verifyCalldata(proof, b.payments, leafOf(t))) revert PaymentNotInBatch(t.deposit.paymentId);
        if (t.escrow.code.length == 0) revert EscrowMissing(t.escrow);
        address at = addressOf(b);
        if (at.code.length == 0) {
            _make(b);
            _draw(b, signature, at, address(GatewayEscrow(t.escrow).permit2()));
        }
        DepositAddress(at).deposit(t, t.amount, r, admittedUntil, reserverSignature);
    }

    /// @notice Sends all that the batch's address has of `token` to the payer. Open to everyone, after `deadline`.
    /// @param b the batch
    /// @param token what is given back; zero for the chain's own coin
    /// @return amount what left the address, which the payer got unless the token takes a fee
    function giveBack(Batch calldata b, address token) external returns (uint256 amount) {
        if (block.timestamp <= b.deadline) revert NotYet(b.deadline);
        address at = addressOf(b);
        uint256 before = _heldBy(at, token);
        if (before == 0) revert NothingThere(token);
        if (at.code.length == 0) _make(b);

        DepositAddress(at).pay(token, b.payer, before);

        uint256 afterwards = _heldBy(at, token);
        if (afterwards >= before) revert NotMoved(token);
        amount = before - afterwards;
        emit GivenBack(at, b.payer, token, amount);
    }

    /// @notice Where a batch's money is once it is drawn, whether the address has its code or not.
    function addressOf(Batch calldata b) public view returns (address) {
        if (b.payer == address(0) || b.permitted.length == 0) revert BatchEmpty();
        return Clones.predictDeterministicAddress(implementation, keccak256(abi.encode(b)));
    }

    /// @notice The leaf of a payment.
    function leafOf(DepositAddresses.Terms calldata t) public pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(t))));
    }

    /// @dev Makes the code of the batch's address. It is there before anything is drawn, so nothing is drawn twice.
    function _make(Batch calldata b) private {
        Clones.cloneDeterministic(implementation, keccak256(abi.encode(b)));
    }

    /// @dev Has the escrow's Permit2 move all that is permitted to the batch's address, and of each token exactly as much. What calls
    /// itself an escrow and has another Permit2 brings the money itself.
    function _draw(Batch calldata b, bytes calldata signature, address at, address permit2) private {
        uint256 count = b.permitted.length;
        IPermit2.SignatureTransferDetails[] memory transfers = new IPermit2.SignatureTransferDetails[](count);
        uint256[] memory before = new uint256[](count);
        address last;
        for (uint256 i = 0; i < count; ++i) {
            address token = b.permitted[i].token;
            if (token <= last) revert TokensNotAscending(token);
            last = token;
            transfers[i] = IPermit2.SignatureTransferDetails(at, b.permitted[i].amount);
            before[i] = token.balanceOf(at);
        }
        bytes32 witness = keccak256(abi.encode(BATCH_TYPEHASH, b.escrow, b.payments));
        IPermit2Batch(permit2).permitWitnessTransferFrom(
            IPermit2Batch.PermitBatchTransferFrom(b.permitted, b.nonce, b.deadline),
            transfers,
            b.payer,
            witness,
            WITNESS_TYPE,
            signature
        );
        for (uint256 i = 0; i < count; ++i) {
            IPermit2.TokenPermissions calldata p = b.permitted[i];
            uint256 held = p.token.balanceOf(at);
            uint256 received = held > before[i] ? held - before[i] : 0;
            if (received != p.amount) revert ReceivedNotExact(p.token, p.amount, received);
        }
        emit Drawn(at, b.payer, b.payments);
    }

    /// @dev What `at` has of `token`; nothing of one without code. Reverts when code there does not answer.
    function _heldBy(address at, address token) private view returns (uint256) {
        if (token == address(0)) return at.balance;
        return token.code.length == 0 ? 0 : token.balanceOf(at);
    }
}
