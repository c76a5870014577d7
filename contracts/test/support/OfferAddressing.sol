// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../../src/DevStablecoin.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {OfferAddresses} from "../../src/OfferAddresses.sol";
import {Authorizations} from "./Authorizations.sol";

/// @notice Purchases by x402's `exact` scheme at the addresses of offers. Salt, address, the payment's id and the hash of its terms
/// are put together here from their description, apart from the contract's own.
abstract contract OfferAddressing is Authorizations {
    uint32 internal constant DELIVERY_SECONDS = 540;
    uint32 internal constant REFUND_SECONDS = 600;
    /// So that the windows are those of `depositTerms()`.
    uint256 internal constant VALID_BEFORE = START + 61;
    /// As a client draws it.
    bytes32 internal constant NONCE = keccak256("a buyer's nonce");
    bytes internal constant TERMS_BEFORE =
        '{"destination":[{"account":"eip155:8453:0x00000000000000000000000000000000000000aa","asset":"USDC"}],"fulfillment_amount":"930000000","max_source_amount":"1000000000","source":{"account":"eip155:';
    bytes internal constant TERMS_AFTER = '","asset":"USDC","chain":"eip155:1"}}';

    OfferAddresses internal offers;
    address internal merchant = makeAddr("merchant");

    /// What a buyer signed and the award, all of a deposit but the reserver's signature.
    struct Sale {
        OfferAddresses.Offer offer;
        OfferAddresses.Purchase purchase;
        GatewayEscrow.Reservation award;
        uint48 admittedUntil;
    }

    function setUp() public virtual override {
        super.setUp();
        offers = new OfferAddresses();
    }

    // What is offered, and where it is paid

    function offerIn(address asset) internal view returns (OfferAddresses.Offer memory) {
        return OfferAddresses.Offer({
            escrow: address(escrow),
            token: asset,
            amount: CAP,
            reserver: reserver,
            releaser: releaser,
            merchant: merchant,
            deliverySeconds: DELIVERY_SECONDS,
            refundSeconds: REFUND_SECONDS,
            termsBefore: TERMS_BEFORE,
            termsAfter: TERMS_AFTER
        });
    }

    function offer() internal view returns (OfferAddresses.Offer memory) {
        return offerIn(address(stable));
    }

    /// The ABI's form of one offer: where it begins, eight words, where the two texts begin, and each behind its length.
    function encoded(OfferAddresses.Offer memory o) internal pure returns (bytes memory) {
        bytes memory text = padded(o.termsBefore);
        bytes memory fixed_ = abi.encodePacked(
            word(o.escrow),
            word(o.token),
            o.amount,
            word(o.reserver),
            word(o.releaser),
            word(o.merchant),
            uint256(o.deliverySeconds),
            uint256(o.refundSeconds)
        );
        return abi.encodePacked(uint256(32), fixed_, uint256(320), 320 + text.length, text, padded(o.termsAfter));
    }

    function padded(bytes memory text) private pure returns (bytes memory) {
        return abi.encodePacked(text.length, text, new bytes((32 - text.length % 32) % 32));
    }

    /// The minimal proxy of ERC-1167 to the first contract that the factory made.
    function proxyCode(OfferAddresses by) internal pure returns (bytes memory) {
        address implementation = address(uint160(uint256(keccak256(abi.encodePacked(hex"d694", by, hex"01")))));
        return abi.encodePacked(hex"363d3d373d3d3d363d73", implementation, hex"5af43d82803e903d91602b57fd5bf3");
    }

    /// CREATE2's address for the offer.
    function addressBy(OfferAddresses by, OfferAddresses.Offer memory o) internal pure returns (address) {
        bytes32 code = keccak256(bytes.concat(hex"3d602d80600a3d3981f3", proxyCode(by)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", by, keccak256(encoded(o)), code)))));
    }

    function addressBy(OfferAddresses.Offer memory o) internal view returns (address) {
        return addressBy(offers, o);
    }

    // What a purchase is in the escrow

    /// The id of a payment as the gateway derives it: of who asks, and under which name.
    function paymentText(string memory originator, string memory request) internal pure returns (string memory) {
        bytes32 digest =
            sha256(bytes.concat(counted("gw:payment:v1"), counted(originator), counted(request)));
        return string.concat("pay_", base32(digest));
    }

    function counted(string memory part) private pure returns (bytes memory) {
        return abi.encodePacked(uint64(bytes(part).length), part);
    }

    /// RFC 4648 in lower case and without padding, bit by bit.
    function base32(bytes32 digest) private pure returns (string memory) {
        bytes memory alphabet = "abcdefghijklmnopqrstuvwxyz234567";
        bytes memory text = new bytes(52);
        for (uint256 i = 0; i < 52; i++) {
            uint256 five;
            for (uint256 bit = 5 * i; bit < 5 * i + 5; bit++) {
                five *= 2;
                if (bit < 256 && uint8(digest[bit / 8]) & (0x80 >> bit % 8) != 0) five += 1;
            }
            text[i] = alphabet[five];
        }
        return string(text);
    }

    function lowered(address account) internal pure returns (string memory) {
        return vm.toLowercase(vm.toString(account));
    }

    function idOf(address buyer, bytes32 nonce) internal pure returns (bytes32) {
        string memory originator = string.concat("eip155:", lowered(buyer));
        return keccak256(bytes(paymentText(originator, vm.toString(nonce))));
    }

    /// The deposit that follows from offer and authorization.
    function depositOf(OfferAddresses.Offer memory o, OfferAddresses.Purchase memory p)
        internal
        pure
        returns (GatewayEscrow.GatewayDeposit memory)
    {
        return GatewayEscrow.GatewayDeposit({
            paymentId: idOf(p.payer, p.nonce),
            termsHash: sha256(abi.encodePacked(o.termsBefore, lowered(p.payer), o.termsAfter)),
            quoteHash: bytes32(0),
            payer: p.payer,
            reserver: o.reserver,
            releaser: o.releaser,
            reserveDeadline: uint48(p.validBefore - 1),
            fulfillmentDeadline: uint48(p.validBefore - 1 + o.deliverySeconds),
            refundAfter: uint48(p.validBefore - 1 + o.deliverySeconds + o.refundSeconds)
        });
    }

    function depositOf(Sale memory s) internal pure returns (GatewayEscrow.GatewayDeposit memory) {
        return depositOf(s.offer, s.purchase);
    }

    // Purchases

    /// What the token is asked to do for it.
    function moveOf(Sale memory s) internal view returns (Move memory) {
        OfferAddresses.Purchase memory p = s.purchase;
        return Move(p.payer, addressBy(s.offer), s.offer.amount, p.validAfter, p.validBefore, p.nonce);
    }

    function saleDigest(Sale memory s) internal view returns (bytes32) {
        return moveDigest(s.offer.token, TRANSFER_TYPEHASH, moveOf(s));
    }

    /// Of that buyer, whose key it is, with the award of `reservation()`.
    function saleBy(OfferAddresses.Offer memory o, address buyer, uint256 key, bytes32 nonce)
        internal
        view
        returns (Sale memory s)
    {
        s.offer = o;
        s.purchase = OfferAddresses.Purchase(buyer, 0, VALID_BEFORE, nonce, "");
        s.purchase.signature = sign(key, saleDigest(s));
        s.award = reservation();
        s.award.paymentId = idOf(buyer, nonce);
        s.admittedUntil = ADMITTED_UNTIL;
    }

    function saleOf(OfferAddresses.Offer memory o) internal view returns (Sale memory) {
        return saleBy(o, payer, payerKey, NONCE);
    }

    function sale() internal view returns (Sale memory) {
        return saleOf(offer());
    }

    /// Signed anew as it is now, by the payer's key, and awarded for the payment that it is now.
    function resign(Sale memory s) internal view {
        s.purchase.signature = sign(payerKey, saleDigest(s));
        s.award.paymentId = idOf(s.purchase.payer, s.purchase.nonce);
    }

    /// What the reserver signs for the deposit.
    function admissionOf(Sale memory s) internal view returns (bytes memory) {
        return admissionOf(Larger(false, depositOf(s), s.award, s.offer.token, s.offer.amount, s.admittedUntil));
    }

    function callOf(Sale memory s, bytes memory reserverSignature) internal view returns (bytes memory) {
        return abi.encodeCall(offers.deposit, (s.offer, s.purchase, s.award, s.admittedUntil, reserverSignature));
    }

    /// As the other, with the reserver's signature right.
    function callOf(Sale memory s) internal view returns (bytes memory) {
        return callOf(s, admissionOf(s));
    }

    /// A stranger brings it into the escrow.
    function makeSale(Sale memory s) internal returns (bytes32 id) {
        bytes memory signature = admissionOf(s);
        vm.prank(stranger);
        offers.deposit(s.offer, s.purchase, s.award, s.admittedUntil, signature);
        noteTerms(asReserved(asDeposited(depositOf(s), s.offer.token, s.offer.amount), s.award));
        return s.award.paymentId;
    }

    /// A stranger brings what the buyer signed to the token, past the contract.
    function bringToTheToken(Sale memory s) internal {
        (uint8 v, bytes32 r, bytes32 bottom) = halves(s.purchase.signature);
        Move memory m = moveOf(s);
        vm.prank(stranger);
        DevStablecoin(s.offer.token).transferWithAuthorization(
            m.from, m.to, m.value, m.validAfter, m.validBefore, m.nonce, v, r, bottom
        );
    }

    /// A stranger has it sent to the merchant.
    function collect(OfferAddresses.Offer memory o, address asset) internal returns (uint256) {
        vm.prank(stranger);
        return offers.collect(o, asset);
    }

    // What is refused

    /// Refused with these very bytes, whoever calls, and nothing is moved or made by it.
    function expectSaleRefused(Sale memory s, bytes memory call, bytes memory refusal) internal {
        bytes32 was = standingOf(s);
        expectOfferCallRefused(call, refusal);
        assertEq(standingOf(s), was, "something changed");
    }

    /// As the other, with the reserver's signature right.
    function expectSaleRefused(Sale memory s, bytes memory refusal) internal {
        expectSaleRefused(s, callOf(s), refusal);
    }

    function expectSaleRefused(Sale memory s, bytes4 refusal) internal {
        expectSaleRefused(s, abi.encodePacked(refusal));
    }

    function expectNotCollected(OfferAddresses.Offer memory o, address asset, bytes memory refusal) internal {
        expectOfferCallRefused(abi.encodeCall(offers.collect, (o, asset)), refusal);
    }

    function expectOfferCallRefused(bytes memory call, bytes memory refusal) internal {
        address[5] memory callers = [stranger, payer, reserver, merchant, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            vm.prank(callers[i]);
            (bool made, bytes memory why) = address(offers).call(call);
            assertFalse(made, "made");
            assertEq(why, refusal);
        }
    }

    /// The money of all who could have got some, the record, and whether the address has its code.
    function standingOf(Sale memory s) private view returns (bytes32) {
        address[5] memory who = [s.purchase.payer, addressBy(s.offer), address(escrow), merchant, settler];
        bytes memory money;
        for (uint256 i = 0; i < who.length; i++) {
            if (s.offer.token.code.length != 0) {
                money = abi.encode(money, DevStablecoin(s.offer.token).balanceOf(who[i]));
            }
        }
        return keccak256(abi.encode(money, escrow.recordOf(s.award.paymentId), addressBy(s.offer).code.length));
    }

    function tokenMoved(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(OfferAddresses.ReceivedNotExact.selector, expected, received);
    }

    function escrowReceived(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, expected, received);
    }

    function nothingAt(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(OfferAddresses.NothingThere.selector, asset);
    }

    function notSent(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(OfferAddresses.NotMoved.selector, asset);
    }
}
