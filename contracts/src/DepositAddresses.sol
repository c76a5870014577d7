// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

import {DepositAddress} from "./DepositAddress.sol";
import {GatewayEscrow} from "./GatewayEscrow.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Addresses for payers who cannot sign
/// @notice An exchange, a cold wallet or another contract pays by a plain transfer to an address that commits to everything: to
/// the escrow, the token, the least amount, and all that a payer who signs would sign (`GatewayDeposit`). The address is a number
/// until somebody has its code made, here; whoever knows the terms computes it, and needs nobody's word for it.
///
/// From such an address money can go two ways only, and anyone may have it go each of them:
/// - into the terms' escrow, for the terms' payment, with the admission of the escrow's reserver (`deposit`);
/// - to the terms' payer, the refund account (`giveBack`): the terms' token once no deposit can be made any more, whatever else
///   came at any time.
///
/// What nobody can do here:
/// - send the money anywhere else, whatever terms, tokens and escrows he makes up: other terms are another address, and only this
///   contract commands the addresses;
/// - deposit for other terms, for less than they say, or twice: the escrow takes a payment's id once;
/// - give back what may still be deposited, and so end a payment that is being made, be it by another name of the same token;
/// - keep it: once `reserveDeadline` is over, or there is a deposit, anyone may have what is there given back;
/// - hold up a deposit by sending more, by making the address's code first, or by depositing first: that is the same deposit.
///
/// The terms hold no chain id. An admission does (it is signed in the escrow's domain), so a deposit is made on its own chain
/// only; but who sends on another one where this contract has the same address gets it back there, by `giveBack`.
///
/// Only for chains where CREATE2 makes addresses as on Ethereum. Where it hashes something else (Tron, for which there is
/// `TronDepositAddresses`; zkSync Era) the code would come to be elsewhere than this contract says, and what was sent to an address is
/// lost.
///
/// No owner, no upgrade, no fee, and nothing in storage; `TronDepositAddresses` records there in which block money went
/// back, and decides nothing by it. Amounts are in the token's smallest unit, times in UNIX seconds.
contract DepositAddresses {
    using TokenMoves for address;

    /// @notice What an address commits to: its salt is `keccak256(abi.encode(Terms))`, twelve words.
    /// @param escrow where a deposit goes
    /// @param token the ERC-20 that is deposited
    /// @param amount the least that is deposited
    /// @param deposit the payment; its `payer` gets whatever goes back, from here and from the escrow
    struct Terms {
        address escrow;
        address token;
        uint256 amount;
        GatewayEscrow.GatewayDeposit deposit;
    }

    /// @notice The address `at`, for the payment named, has its code now.
    event Made(address indexed at, bytes32 indexed paymentId);
    /// @notice `amount` of `token` (zero: the chain's own coin) left the address `from` for the payer `to`.
    event GivenBack(address indexed from, address indexed to, address token, uint256 amount);

    /// @notice The payer is the zero address; there is no address for such terms.
    error PayerMissing();
    /// @notice The terms ask for a deposit of `least` or more.
    error AmountBelowTerms(uint256 amount, uint256 least);
    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);
    /// @notice The terms' token may still be deposited: until the end of `reserveDeadline`, or until it was.
    error NotYet(uint48 reserveDeadline);
    /// @notice The address has nothing of this token.
    error NothingThere(address token);
    /// @notice The token moved nothing, or the payer took no coins; everything stays where it is.
    error NotMoved(address token);

    /// @notice The code that every address runs.
    address public immutable implementation;

    constructor() {
        implementation = _madeImplementation();
    }

    /// @notice Brings `amount` of what was sent to the terms' address into the escrow, and names the settler, in one call. Open
    /// to everyone with the reserver's admission. What is there beyond it stays, to be given back.
    /// @dev No balance decides anything here: what a stranger adds meanwhile changes neither success nor the gas that it needs;
    /// the refund alone is less where the address is not emptied. What the escrow refuses is refused with its error.
    /// @param t the terms of the address
    /// @param amount what is deposited: not less than `t.amount`, nor than `r.sourceAmount`
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of the escrow's reserver, as for `GatewayEscrow.depositFor`
    function deposit(
        Terms calldata t,
        uint256 amount,
        GatewayEscrow.Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external {
        if (amount < t.amount) revert AmountBelowTerms(amount, t.amount);
        if (t.escrow.code.length == 0) revert EscrowMissing(t.escrow);
        _made(t).deposit(t, amount, r, admittedUntil, reserverSignature);
    }

    /// @notice Sends all that the terms' address has of `token` to the terms' payer. Open to everyone. Another token than the
    /// terms', or coins, at any time; the terms' token once it cannot be deposited any more: after `reserveDeadline`, or when the
    /// escrow has a record of the payment.
    /// @dev The payer's token may be moved by a call for another: some tokens have two addresses, and some chains' coin is a
    /// token, too. So while it may be deposited no less of it is there afterwards.
    /// @param t the terms of the address
    /// @param token what is given back; zero for the chain's own coin
    /// @return amount what left the address, which the payer got unless the token takes a fee
    function giveBack(Terms calldata t, address token) public virtual returns (uint256 amount) {
        uint48 reserveDeadline = t.deposit.reserveDeadline;
        bool inTime = block.timestamp <= reserveDeadline;
        if (inTime && token == t.token && !_isRecorded(t.escrow, t.deposit.paymentId)) revert NotYet(reserveDeadline);
        address at = addressOf(t);
        uint256 before = _heldBy(at, token);
        if (before == 0) revert NothingThere(token);
        bool guarded = inTime && token != t.token;
        uint256 kept = guarded ? _heldBy(at, t.token) : 0;

        _made(t).pay(token, t.deposit.payer, before);

        uint256 afterwards = _heldBy(at, token);
        if (afterwards >= before) revert NotMoved(token);
        if (guarded && _heldBy(at, t.token) < kept) revert NotYet(reserveDeadline);
        amount = before - afterwards;
        emit GivenBack(at, t.deposit.payer, token, amount);
    }

    /// @notice Where who pays under these terms sends the money, whether the address has its code or not.
    function addressOf(Terms calldata t) public view virtual returns (address) {
        if (t.deposit.payer == address(0)) revert PayerMissing();
        return Clones.predictDeterministicAddress(implementation, _saltOf(t));
    }

    /// @dev Makes what every address runs.
    function _madeImplementation() internal virtual returns (address) {
        return address(new DepositAddress());
    }

    /// @dev The address of the terms, whose code is made where it is not there.
    function _made(Terms calldata t) private returns (DepositAddress) {
        address at = addressOf(t);
        if (at.code.length == 0) {
            at = Clones.cloneDeterministic(implementation, _saltOf(t));
            emit Made(at, t.deposit.paymentId);
        }
        return DepositAddress(at);
    }

    /// @dev Whether the escrow has a record of the payment. One that does not answer has none.
    function _isRecorded(address escrow, bytes32 paymentId) private view returns (bool recorded) {
        bytes memory question = abi.encodeCall(GatewayEscrow.recordOf, (paymentId));
        // The first of the record's six words is its state, of which zero is `None`.
        assembly ("memory-safe") {
            let answered := staticcall(gas(), escrow, add(question, 0x20), mload(question), 0, 0x20)
            recorded := and(and(answered, gt(returndatasize(), 0xbf)), iszero(iszero(mload(0))))
        }
    }

    /// @dev What `at` has of `token`; nothing of one without code. Reverts when code there does not answer.
    function _heldBy(address at, address token) internal view returns (uint256) {
        if (token == address(0)) return at.balance;
        return token.code.length == 0 ? 0 : token.balanceOf(at);
    }

    function _saltOf(Terms calldata t) internal pure returns (bytes32) {
        return keccak256(abi.encode(t));
    }
}
