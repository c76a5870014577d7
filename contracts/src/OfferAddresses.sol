// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {Clones} from "@openzeppelin/contracts/proxy/Clones.sol";

import {DepositAddress} from "./DepositAddress.sol";
import {DepositAddresses} from "./DepositAddresses.sol";
import {GatewayEscrow} from "./GatewayEscrow.sol";
import {IERC3009} from "./IERC3009.sol";
import {TokenMoves} from "./TokenMoves.sol";

/// @title Addresses of merchants' offers, to which x402's `exact` scheme is paid
/// @notice A merchant who is paid on another chain asks for a transfer to an address here (`payTo`) that commits to its whole
/// offer: what is to be delivered where and for how much, the escrow, who admits and who attests, how long the money may be kept.
/// One address serves all buyers of an offer, and needs no code before the first of them pays. A buyer signs the token's
/// `TransferWithAuthorization` (ERC-3009) to it, as any x402 client does, and nothing else.
///
/// `deposit` has the token carry that out and brings the money into the escrow in the same call, so what a buyer pays does not lie
/// at the address. All of the deposit follows from the offer and from what the buyer signed:
/// - the payer is the buyer: what is not delivered goes back to it, from the escrow, as with every payment;
/// - the payment's id is made of the buyer's account and the authorization's nonce, its terms of the offer and the buyer's account;
/// - the last second for the deposit is the last in which the authorization holds; delivery and refund are counted from there.
///
/// What nobody can do here:
/// - use a buyer's signature for another offer: that is another address, and the token moves money to the one that was signed;
/// - deposit less than the buyer paid, for another payment, for other terms or with other windows than those that follow;
/// - deposit without the admission of the escrow's reserver, or twice: the token uses a nonce once, the escrow an id once;
/// - send what lies at an address anywhere but to the offer's merchant.
///
/// As with `exact` everywhere, the signature alone moves the money to `payTo`, whoever brings it to the token. Who does that
/// past this contract pays the merchant here: what lies at an address is the merchant's, and anyone can have it sent to him
/// (`collect`).
///
/// No owner, no upgrade, no fee, and nothing in storage. Amounts are in the token's smallest unit, times in UNIX seconds. For
/// chains where CREATE2 makes addresses as on Ethereum.
contract OfferAddresses {
    using TokenMoves for address;

    /// @notice What an address commits to: its salt is `keccak256(abi.encode(Offer))`.
    /// @param escrow where the money is kept
    /// @param token the ERC-20 that buyers pay in, which takes their signatures (ERC-3009)
    /// @param amount what each buyer pays
    /// @param reserver who admits deposits and names settlers
    /// @param releaser who attests deliveries: a verifier's account, or the id of a set of verifiers
    /// @param merchant where anything goes that comes without a deposit
    /// @param deliverySeconds from the end of an authorization to the last second of the delivery
    /// @param refundSeconds from there to the first second of the refund
    /// @param termsBefore the payment's terms (canonical JSON) up to the payer's account
    /// @param termsAfter the same from behind it
    struct Offer {
        address escrow;
        address token;
        uint256 amount;
        address reserver;
        address releaser;
        address merchant;
        uint32 deliverySeconds;
        uint32 refundSeconds;
        bytes termsBefore;
        bytes termsAfter;
    }

    /// @notice What a buyer signed: the token's `TransferWithAuthorization` of the offer's amount to its address.
    /// @param payer the buyer, the authorization's `from`
    /// @param validAfter last second in which it does not hold yet
    /// @param validBefore first second in which it does not hold any more
    /// @param nonce of the buyer's choice
    /// @param signature the buyer's: 65 bytes, 64 bytes (ERC-2098), or a contract's (ERC-1271) where the token asks contracts
    struct Purchase {
        address payer;
        uint256 validAfter;
        uint256 validBefore;
        bytes32 nonce;
        bytes signature;
    }

    /// @notice The address `at` has its code now.
    event Made(address indexed at);
    /// @notice `amount` of `token` (zero: the chain's own coin) left the address `from` for the offer's merchant `to`.
    event Collected(address indexed from, address indexed to, address token, uint256 amount);

    /// @notice The merchant is the zero address; there is no address for such an offer.
    error MerchantMissing();
    /// @notice There is no contract where the escrow should be.
    error EscrowMissing(address escrow);
    /// @notice The authorization never holds, or ends at a time that no escrow can hold.
    error ValidBeforeInvalid(uint256 validBefore);
    /// @notice The token moved another amount than was signed for.
    error ReceivedNotExact(uint256 expected, uint256 received);
    /// @notice The address has nothing of this token.
    error NothingThere(address token);
    /// @notice The token moved nothing, or the merchant took no coins; everything stays where it is.
    error NotMoved(address token);

    /// @notice The code that every address runs.
    address public immutable implementation;

    /// @dev What the preimage of a payment's id begins with: the name of the derivation, behind its length.
    bytes private constant ID_DOMAIN = hex"000000000000000d67773a7061796d656e743a7631";
    /// @dev The alphabet of RFC 4648 in lower case.
    bytes32 private constant BASE32 = "abcdefghijklmnopqrstuvwxyz234567";
    /// @dev The digits of hex in lower case.
    bytes32 private constant HEX = "0123456789abcdef";

    constructor() {
        implementation = address(new DepositAddress());
    }

    /// @notice Has the token carry out what a buyer signed, and brings it into the offer's escrow for the settler named, in one
    /// call. Open to everyone with the reserver's admission. What token and escrow refuse is refused with their errors.
    /// @dev A code that the token runs meanwhile, of the buyer's or of anybody, finds nothing here that it could take: other calls
    /// of this contract move what lies at an address to the merchant, which leaves the deposit short and undoes all.
    /// @param o the offer
    /// @param p what the buyer signed
    /// @param r the award
    /// @param admittedUntil last second in which the reserver admits the deposit
    /// @param reserverSignature of the escrow's reserver, as for `GatewayEscrow.depositFor`
    function deposit(
        Offer calldata o,
        Purchase calldata p,
        GatewayEscrow.Reservation calldata r,
        uint48 admittedUntil,
        bytes calldata reserverSignature
    ) external {
        if (o.escrow.code.length == 0) revert EscrowMissing(o.escrow);
        DepositAddress at = _made(o);
        _draw(o, p, address(at));
        DepositAddresses.Terms memory t =
            DepositAddresses.Terms(o.escrow, o.token, o.amount, depositOf(o, p.payer, p.validBefore, p.nonce));
        at.deposit(t, o.amount, r, admittedUntil, reserverSignature);
    }

    /// @notice Sends all that the offer's address has of `token` to the merchant. Open to everyone, at any time.
    /// @param o the offer
    /// @param token what is sent; zero for the chain's own coin
    /// @return amount what left the address, which the merchant got unless the token takes a fee
    function collect(Offer calldata o, address token) external returns (uint256 amount) {
        address at = addressOf(o);
        uint256 before = _heldBy(at, token);
        if (before == 0) revert NothingThere(token);

        _made(o).pay(token, o.merchant, before);

        uint256 afterwards = _heldBy(at, token);
        if (afterwards >= before) revert NotMoved(token);
        amount = before - afterwards;
        emit Collected(at, o.merchant, token, amount);
    }

    /// @notice What buyers of this offer pay to, whether the address has its code or not.
    function addressOf(Offer calldata o) public view returns (address) {
        if (o.merchant == address(0)) revert MerchantMissing();
        return Clones.predictDeterministicAddress(implementation, _saltOf(o));
    }

    /// @notice The deposit that a buyer's authorization makes under an offer.
    /// @param o the offer
    /// @param payer the buyer
    /// @param validBefore of the authorization
    /// @param nonce of the authorization
    function depositOf(Offer calldata o, address payer, uint256 validBefore, bytes32 nonce)
        public
        pure
        returns (GatewayEscrow.GatewayDeposit memory d)
    {
        // So far from the end of 48 bits that what is counted from it fits, too.
        if (validBefore == 0 || validBefore > type(uint40).max) revert ValidBeforeInvalid(validBefore);
        bytes memory account = _hex(bytes20(payer), 20);
        d.paymentId = _paymentId(account, nonce);
        d.termsHash = sha256(bytes.concat(o.termsBefore, account, o.termsAfter));
        d.payer = payer;
        d.reserver = o.reserver;
        d.releaser = o.releaser;
        d.reserveDeadline = uint48(validBefore - 1);
        d.fulfillmentDeadline = d.reserveDeadline + o.deliverySeconds;
        d.refundAfter = d.fulfillmentDeadline + o.refundSeconds;
    }

    /// @dev Has the token move exactly the offer's amount to the address.
    function _draw(Offer calldata o, Purchase calldata p, address at) private {
        uint256 before = o.token.balanceOf(at);
        IERC3009 token = IERC3009(o.token);
        bytes calldata signature = p.signature;
        if (signature.length == 65) {
            token.transferWithAuthorization(
                p.payer,
                at,
                o.amount,
                p.validAfter,
                p.validBefore,
                p.nonce,
                uint8(signature[64]),
                bytes32(signature[:32]),
                bytes32(signature[32:64])
            );
        } else if (signature.length == 64) {
            uint256 vs = uint256(bytes32(signature[32:64]));
            token.transferWithAuthorization(
                p.payer,
                at,
                o.amount,
                p.validAfter,
                p.validBefore,
                p.nonce,
                uint8((vs >> 255) + 27),
                bytes32(signature[:32]),
                bytes32(vs & (type(uint256).max >> 1))
            );
        } else {
            token.transferWithAuthorization(
                p.payer, at, o.amount, p.validAfter, p.validBefore, p.nonce, signature
            );
        }
        uint256 held = o.token.balanceOf(at);
        uint256 received = held > before ? held - before : 0;
        if (received != o.amount) revert ReceivedNotExact(o.amount, received);
    }

    /// @dev The address of the offer, whose code is made where it is not there.
    function _made(Offer calldata o) private returns (DepositAddress) {
        address at = addressOf(o);
        if (at.code.length == 0) {
            at = Clones.cloneDeterministic(implementation, _saltOf(o));
            emit Made(at);
        }
        return DepositAddress(at);
    }

    /// @dev What `at` has of `token`; nothing of one without code. Reverts when code there does not answer.
    function _heldBy(address at, address token) private view returns (uint256) {
        if (token == address(0)) return at.balance;
        return token.code.length == 0 ? 0 : token.balanceOf(at);
    }

    function _saltOf(Offer calldata o) private pure returns (bytes32) {
        return keccak256(abi.encode(o));
    }

    /// @dev The first `length` bytes of `word` as `0x` and lower-case digits.
    function _hex(bytes32 word, uint256 length) private pure returns (bytes memory text) {
        text = new bytes(2 + 2 * length);
        bytes32 digits = HEX;
        assembly ("memory-safe") {
            let at := add(text, 0x20)
            mstore8(at, 0x30)
            mstore8(add(at, 1), 0x78)
            at := add(at, 2)
            for { let i := 0 } lt(i, length) { i := add(i, 1) } {
                let value := byte(i, word)
                mstore8(at, byte(shr(4, value), digits))
                mstore8(add(at, 1), byte(and(value, 0x0f), digits))
                at := add(at, 2)
            }
        }
    }

    /// @dev keccak256 of the id's text: `pay_` and the base32 of the SHA-256 of `gw:payment:v1`, `eip155:0x<account>` and
    /// `0x<nonce>`, each behind its length in eight bytes.
    function _paymentId(bytes memory account, bytes32 nonce) private pure returns (bytes32) {
        uint256 digest = uint256(
            sha256(
                bytes.concat(
                    ID_DOMAIN,
                    bytes8(uint64(49)),
                    "eip155:",
                    account,
                    bytes8(uint64(66)),
                    _hex(nonce, 32)
                )
            )
        );
        bytes32 alphabet = BASE32;
        bytes memory text = "pay_0000000000000000000000000000000000000000000000000000";
        // 51 characters of five bits from the left, and the last bit with four zeros behind it.
        assembly ("memory-safe") {
            let at := add(text, 0x24)
            for { let shift := 251 } 1 { shift := sub(shift, 5) } {
                mstore8(at, byte(and(shr(shift, digest), 0x1f), alphabet))
                at := add(at, 1)
                if lt(shift, 5) { break }
            }
            mstore8(at, byte(and(shl(4, digest), 0x1f), alphabet))
        }
        return keccak256(text);
    }
}
