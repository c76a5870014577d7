// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";

import {DepositAddresses} from "./DepositAddresses.sol";
import {GatewayEscrow} from "./GatewayEscrow.sol";
import {IPermit2Allowance} from "./IPermit2Allowance.sol";
import {MandateAddress} from "./MandateAddress.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Payments that a merchant asks for, up to an amount in each period
/// @notice A payer signs once, for Permit2: an allowance for the address of a mandate, which commits to all that may be done with it:
/// the token and the most of it in each period, for how many periods, to whom it is delivered and where, at least how much for
/// how much of the token, who asks for the payments,
/// the escrow, who attests deliveries, and for how long a payment may be held. From then on the merchant signs
/// for each payment what is to be delivered and the most that it may cost. Each is an auction and a deposit of its own: it is drawn
/// from the payer by the deposit that brings it into the escrow, and what it does not cost goes back to the payer.
///
/// A payer ends a mandate for ever at any time, without anybody's leave, by `cancel`. At Permit2 `lockdown` does it once the payer's
/// signature was taken there, `invalidateNonces` before; the other way round neither does. Taking the token's allowance from
/// Permit2, or holding too little of the token, only halts it: it goes on with the next allowance.
///
/// What nobody can do here:
/// - draw for anything but a deposit that succeeds in the same call, or for one that the merchant did not sign;
/// - draw more in a period than the mandate says, whatever comes back of what was drawn in it;
/// - have anything delivered to others than the mandate says, in another asset, on another chain;
/// - have a payment held for longer than the mandate says: by then anyone may have it refunded to the payer;
/// - have less delivered for what is drawn than the mandate says;
/// - draw after the last period, or after the mandate was cancelled;
/// - send what lies at an address anywhere but to its payer.
///
/// What is asked for is the merchant's word: whether it is owed, this contract cannot know. A merchant and a settler who are one can
/// keep all that is drawn but what the mandate's `least` has them deliver. The reserver is the escrow's at the time, whom the merchant
/// names; the payer trusts who is going to be that.
///
/// No owner, no upgrade, no fee. Amounts are in the token's smallest unit, times in UNIX seconds. For chains where CREATE2 makes
/// addresses as on Ethereum.
contract Mandates is EIP712 {
    using TokenMoves for address;

    /// @notice What an address commits to: its salt is `keccak256(abi.encode(Mandate))`.
    /// @param payer whose money it is
    /// @param merchant who signs for each payment
    /// @param token the ERC-20 that is drawn
    /// @param amount the most that is drawn in a period
    /// @param least what is delivered at least where all of `amount` is drawn for it, and so in proportion; zero for no bound
    /// @param escrow where payments are deposited
    /// @param releaser who attests deliveries: a verifier's account, or the id of a set of verifiers
    /// @param begins first second of the first period
    /// @param periodSeconds how long a period is
    /// @param periods how many there are
    /// @param lockSeconds most from a deposit to the first second of its refund
    /// @param salt tells mandates apart that are alike in all else. The payer draws it at random, when all else is settled: who knows it
    /// before could look for two mandates of one address with 2^80 tries
    /// @param termsBefore a payment's terms (canonical JSON) up to the amount to be delivered
    /// @param termsAfter the same from behind the most that it may cost
    struct Mandate {
        address payer;
        address merchant;
        address token;
        uint160 amount;
        uint256 least;
        address escrow;
        address releaser;
        uint48 begins;
        uint32 periodSeconds;
        uint32 periods;
        uint32 lockSeconds;
        bytes32 salt;
        bytes termsBefore;
        bytes termsAfter;
    }

    /// @notice What a merchant asks for.
    /// @param paymentId keccak256 of the payment's id; one deposit each for ever
    /// @param fulfillmentAmount what is to be delivered, in the smallest unit of the asset that the terms name
    /// @param amount what is drawn: the most that it may cost
    /// @param reserver who admits the deposit and names settlers; must be the escrow's
    /// @param reserveDeadline last second for the deposit
    /// @param fulfillmentDeadline last second that a reservation may allow for the delivery
    /// @param refundAfter first second of the refund
    /// @param signature the merchant's over `Charge` of the mandate's address, 65 bytes
    struct Charge {
        bytes32 paymentId;
        uint256 fulfillmentAmount;
        uint160 amount;
        address reserver;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
        bytes signature;
    }

    /// @notice What was drawn by a mandate.
    /// @param period the period of the last draw, from zero
    /// @param amount what was drawn in it
    /// @param cancelled whether the mandate was ended
    struct Use {
        uint32 period;
        uint160 amount;
        bool cancelled;
    }

    /// @notice `amount` was drawn for a payment, which makes `drawn` in this period.
    event Charged(address indexed at, bytes32 indexed paymentId, uint32 period, uint160 amount, uint160 drawn);
    /// @notice The mandate at the address `at` of this payer was ended. It may be told more than once.
    event Cancelled(address indexed at, address indexed payer);
    /// @notice `amount` of `token` (zero: the chain's own coin) left the address `from` for its payer `to`.
    event GivenBack(address indexed from, address indexed to, address token, uint256 amount);

    /// @notice Payer, merchant, amount, length or number of periods are zero, or all periods together are more than Permit2 counts.
    error MandateInvalid();
    /// @notice The mandate begins later, or is over.
    error NotInForce(uint256 begins, uint256 ends);
    /// @notice The mandate was ended.
    error MandateCancelled(address at);
    /// @notice Who signed is not the merchant.
    error SignerNotMerchant(address signer, address merchant);
    /// @notice Neither payer nor merchant calls, nor is it the payer's signature.
    error NotByPayer(address payer);
    /// @notice Less would be delivered for this amount than the mandate says.
    error DeliveryTooSmall(uint256 fulfillmentAmount, uint256 amount);
    /// @notice More than is left of this period.
    error AmountAbovePeriod(uint256 amount, uint256 left);
    /// @notice The payment could be held for longer than the payer allows.
    error LockTooLong(uint256 refundAfter, uint256 latest);
    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);
    /// @notice The token moved another amount than was asked for.
    error ReceivedNotExact(uint256 expected, uint256 received);
    /// @notice The address has nothing of this token.
    error NothingThere(address token);
    /// @notice The token moved nothing, or the payer took no coins; everything stays where it is.
    error NotMoved(address token);

    /// @notice The code that every address runs.
    address public immutable implementation;

    /// @notice What was drawn by the mandate at an address.
    mapping(address at => Use) public used;

    bytes32 private constant CHARGE_TYPEHASH = keccak256(
        "Charge(address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 private constant CANCELLATION_TYPEHASH = keccak256("Cancellation(address mandate)");
    /// @dev What stands in a payment's terms between what is delivered and the most that it may cost.
    bytes private constant TERMS_BETWEEN = "\",\"max_source_amount\":\"";

    constructor() EIP712("GatewayMandates", "1") {
        implementation = address(new MandateAddress());
    }

    /// @notice Draws what the merchant asks for and brings it into the escrow for the settler named, in one call. Open to everyone
    /// with the reserver's admission. What Permit2, token and escrow refuse is refused with their errors.
    /// @dev What is drawn in the period is written before any other code runs. A code that the token runs can have other payments of
    /// the merchant's deposited meanwhile, which leave this one's money where it is, and what lies at the address given back, which
    /// leaves this deposit short and undoes all.
    /// @param m the mandate
    /// @param permit the payer's signature for Permit2 (`permitOf`), or nothing; read where none was ever taken and too little is allowed
    /// @param c what the merchant asks for
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of the escrow's reserver, as for `GatewayEscrow.depositFor`
    function deposit(
        Mandate calldata m,
        bytes calldata permit,
        Charge calldata c,
        GatewayEscrow.Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external {
        address at = addressOf(m);
        _use(m, c, at);
        if (m.escrow.code.length == 0) revert EscrowMissing(m.escrow);
        if (at.code.length == 0) Clones.cloneDeterministic(implementation, _saltOf(m));
        _draw(m, permit, c.amount, at);
        MandateAddress(at).deposit(
            DepositAddresses.Terms(m.escrow, m.token, c.amount, depositOf(m, c)),
            c.amount,
            r,
            admittedUntil,
            reserverSignature
        );
    }

    /// @notice Ends a mandate for ever: nothing is drawn by it any more. What is in escrow stays there for its payment. The merchant can
    /// end it, too, whose key others may have.
    /// @param m the mandate
    /// @param signature the payer's over `Cancellation` of the mandate's address, a key's or a contract's (ERC-1271), for whoever
    /// calls in the payer's place; not read where payer or merchant calls
    function cancel(Mandate calldata m, bytes calldata signature) external {
        address at = addressOf(m);
        if (msg.sender != m.payer && msg.sender != m.merchant) {
            bytes32 digest = _hashTypedDataV4(keccak256(abi.encode(CANCELLATION_TYPEHASH, at)));
            // As the escrow takes signatures: a key's counts whatever code its account has (EIP-7702).
            (address signer, ECDSA.RecoverError failed,) = ECDSA.tryRecover(digest, signature);
            bool isByKey = failed == ECDSA.RecoverError.NoError && signer == m.payer;
            if (!isByKey && !SignatureChecker.isValidERC1271SignatureNow(m.payer, digest, signature)) {
                revert NotByPayer(m.payer);
            }
        }
        used[at].cancelled = true;
        emit Cancelled(at, m.payer);
    }

    /// @notice Sends all that the mandate's address has of `token` to the payer: nothing is there but what strangers sent. Open to
    /// everyone, at any time.
    /// @param m the mandate
    /// @param token what is sent; zero for the chain's own coin
    /// @return amount what left the address, which the payer got unless the token takes a fee
    function giveBack(Mandate calldata m, address token) external returns (uint256 amount) {
        address at = addressOf(m);
        uint256 before = _heldBy(at, token);
        if (before == 0) revert NothingThere(token);
        if (at.code.length == 0) Clones.cloneDeterministic(implementation, _saltOf(m));

        MandateAddress(at).pay(token, m.payer, before);

        uint256 afterwards = _heldBy(at, token);
        if (afterwards >= before) revert NotMoved(token);
        amount = before - afterwards;
        emit GivenBack(at, m.payer, token, amount);
    }

    /// @notice Whom the payer gives the allowance, whether the address has its code or not.
    function addressOf(Mandate calldata m) public view returns (address) {
        if (
            m.payer == address(0) || m.merchant == address(0) || m.amount == 0 || m.periodSeconds == 0 || m.periods == 0
                || uint256(m.amount) * m.periods >= type(uint160).max || _endOf(m) > type(uint48).max
        ) revert MandateInvalid();
        return Clones.predictDeterministicAddress(implementation, _saltOf(m));
    }

    /// @notice What may still be drawn in this period; zero where the mandate is not in force, or was ended.
    function leftOf(Mandate calldata m) external view returns (uint256) {
        Use memory u = used[addressOf(m)];
        if (u.cancelled || !_isInForce(m)) return 0;
        return u.period == _periodOf(m) ? m.amount - u.amount : m.amount;
    }

    /// @notice What the payer signs for Permit2: an allowance of all periods together, up to the end of the last, which is the
    /// signature's deadline as well.
    /// @return details of the allowance
    /// @return at the mandate's address, which is allowed
    function permitOf(Mandate calldata m)
        public
        view
        returns (IPermit2Allowance.PermitDetails memory details, address at)
    {
        at = addressOf(m);
        // Both fit, or there is no address.
        uint160 all = uint160(uint256(m.amount) * m.periods);
        uint48 last = uint48(_endOf(m) - 1);
        details = IPermit2Allowance.PermitDetails(m.token, all, last, 0);
    }

    /// @notice The digest that the merchant signs for a payment.
    /// @param at the mandate's address
    /// @param c what is asked for; its signature is not read
    function chargeDigest(address at, Charge calldata c) public view returns (bytes32) {
        return _hashTypedDataV4(
            keccak256(
                abi.encode(
                    CHARGE_TYPEHASH,
                    at,
                    c.paymentId,
                    c.fulfillmentAmount,
                    c.amount,
                    c.reserver,
                    c.reserveDeadline,
                    c.fulfillmentDeadline,
                    c.refundAfter
                )
            )
        );
    }

    /// @notice The deposit that a charge makes under a mandate.
    function depositOf(Mandate calldata m, Charge calldata c) public pure returns (GatewayEscrow.GatewayDeposit memory) {
        bytes32 termsHash = sha256(
            bytes.concat(
                m.termsBefore,
                bytes(Strings.toString(c.fulfillmentAmount)),
                TERMS_BETWEEN,
                bytes(Strings.toString(c.amount)),
                m.termsAfter
            )
        );
        return GatewayEscrow.GatewayDeposit(
            c.paymentId,
            termsHash,
            bytes32(0),
            m.payer,
            c.reserver,
            m.releaser,
            c.reserveDeadline,
            c.fulfillmentDeadline,
            c.refundAfter
        );
    }

    /// @dev Looks whether the charge may be drawn now, and writes that it is.
    function _use(Mandate calldata m, Charge calldata c, address at) private {
        if (!_isInForce(m)) revert NotInForce(m.begins, _endOf(m));
        uint256 latest = block.timestamp + m.lockSeconds;
        if (c.refundAfter > latest) revert LockTooLong(c.refundAfter, latest);
        // Where that is more than 256 bits hold, it is refused as well.
        if (c.fulfillmentAmount * m.amount < m.least * c.amount) revert DeliveryTooSmall(c.fulfillmentAmount, c.amount);
        address signer = ECDSA.recover(chargeDigest(at, c), c.signature);
        if (signer != m.merchant) revert SignerNotMerchant(signer, m.merchant);

        Use storage u = used[at];
        if (u.cancelled) revert MandateCancelled(at);
        uint32 period = _periodOf(m);
        uint160 drawn = u.period == period ? u.amount : 0;
        if (c.amount > m.amount - drawn) revert AmountAbovePeriod(c.amount, m.amount - drawn);
        drawn += c.amount;
        (u.period, u.amount) = (period, drawn);
        emit Charged(at, c.paymentId, period, c.amount, drawn);
    }

    /// @dev Has Permit2 move exactly `amount` to the address, with the payer's allowance, which its signature gives where none was taken
    /// before: Permit2 takes one of each number.
    function _draw(Mandate calldata m, bytes calldata permit, uint160 amount, address at) private {
        IPermit2Allowance permit2 = IPermit2Allowance(address(GatewayEscrow(m.escrow).permit2()));
        (uint160 allowed,, uint48 nonce) = permit2.allowance(m.payer, m.token, at);
        if (allowed < amount && nonce == 0 && permit.length != 0) {
            (IPermit2Allowance.PermitDetails memory details,) = permitOf(m);
            permit2.permit(m.payer, IPermit2Allowance.PermitSingle(details, at, details.expiration), permit);
        }
        uint256 before = m.token.balanceOf(at);
        MandateAddress(at).draw(permit2, m.payer, m.token, amount);
        uint256 held = m.token.balanceOf(at);
        uint256 received = held > before ? held - before : 0;
        if (received != amount) revert ReceivedNotExact(amount, received);
    }

    /// @dev What `at` has of `token`; nothing of one without code. Reverts when code there does not answer.
    function _heldBy(address at, address token) private view returns (uint256) {
        if (token == address(0)) return at.balance;
        return token.code.length == 0 ? 0 : token.balanceOf(at);
    }

    /// @dev Whether one of the periods runs.
    function _isInForce(Mandate calldata m) private view returns (bool) {
        return block.timestamp >= m.begins && block.timestamp < _endOf(m);
    }

    /// @dev The period that runs; less than the number of periods, where the mandate is in force.
    function _periodOf(Mandate calldata m) private view returns (uint32) {
        return uint32((block.timestamp - m.begins) / m.periodSeconds);
    }

    /// @dev First second behind the last period.
    function _endOf(Mandate calldata m) private pure returns (uint256) {
        return uint256(m.begins) + uint256(m.periodSeconds) * m.periods;
    }

    function _saltOf(Mandate calldata m) private pure returns (bytes32) {
        return keccak256(abi.encode(m));
    }
}
