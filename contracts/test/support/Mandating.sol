// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../../src/DevToken.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../../src/IPermit2Allowance.sol";
import {Mandates} from "../../src/Mandates.sol";
import {LargerDeposits} from "./LargerDeposits.sol";

/// @notice Payments that a merchant asks for under a payer's mandate. Addresses, terms and what payer and merchant sign are put together
/// here from their description, apart from the contract's own.
abstract contract Mandating is LargerDeposits {
    bytes32 internal constant PERMIT_DETAILS_TYPEHASH =
        keccak256("PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)");
    bytes32 internal constant PERMIT_SINGLE_TYPEHASH = keccak256(
        "PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)"
    );
    bytes32 internal constant CHARGE_TYPEHASH = keccak256(
        "Charge(address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 internal constant CANCELLATION_TYPEHASH = keccak256("Cancellation(address mandate)");
    bytes32 internal constant QUOTE = keccak256("quote");

    /// The most in a period.
    uint160 internal constant MOST = uint160(CAP);
    /// What a charge asks for, and what its settler does.
    uint160 internal constant ASKED = 400e6;
    uint256 internal constant PRICE = 370e6;
    /// What is delivered for each unit that is asked for, and what it is at least.
    uint256 internal constant RATE = 25e18 / ASKED;
    uint256 internal constant LEAST_RATE = 60e18 / MOST;
    uint32 internal constant PERIOD = 30 days;
    uint32 internal constant PERIODS = 12;
    uint32 internal constant LOCK = 1_200;
    uint48 internal constant END = START + uint48(PERIOD) * PERIODS;
    bytes internal constant TERMS_BEFORE =
        '{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:10/slip44:60"}],"fulfillment_amount":"';

    Mandates internal mandates;
    /// Another token that the payer has.
    DevToken internal euro;
    address internal merchant;
    uint256 internal merchantKey;

    /// A deposit of one charge, but for the reserver's signature.
    struct Drawing {
        Mandates.Mandate mandate;
        bytes permit;
        Mandates.Charge charge;
        GatewayEscrow.Reservation award;
        uint48 admittedUntil;
    }

    function setUp() public virtual override {
        super.setUp();
        (merchant, merchantKey) = makeAddrAndKey("merchant");
        mandates = new Mandates();
        euro = new DevToken("Development EUR", "dEUR", 6);
        enrich(address(euro));
    }

    // Mandates and their addresses

    function mandateOf(address by, address asset) internal view returns (Mandates.Mandate memory m) {
        m.payer = by;
        m.merchant = merchant;
        m.token = asset;
        m.amount = MOST;
        m.least = LEAST_RATE * MOST;
        m.escrow = address(escrow);
        m.releaser = releaser;
        m.begins = START;
        m.periodSeconds = PERIOD;
        m.periods = PERIODS;
        m.lockSeconds = LOCK;
        m.salt = keccak256("a mandate's salt");
        m.termsBefore = TERMS_BEFORE;
        m.termsAfter = bytes.concat(
            '","source":{"account":"',
            textOf(by),
            '","asset_identifier":"eip155:31337/erc20:',
            textOf(asset),
            '"}}'
        );
    }

    /// Of the payer, in the one token.
    function mandate() internal view returns (Mandates.Mandate memory) {
        return mandateOf(payer, address(token));
    }

    /// In small letters.
    function textOf(address account) internal pure returns (bytes memory) {
        return bytes(vm.toString(abi.encodePacked(account)));
    }

    /// The ABI's form of one mandate: where it begins, fourteen words of which the last two say where its texts begin, and these behind
    /// their lengths, filled up to whole words.
    function encoded(Mandates.Mandate memory m) internal pure returns (bytes memory) {
        bytes memory before = encoded(m.termsBefore);
        bytes memory accounts =
            abi.encodePacked(word(m.payer), word(m.merchant), word(m.token), uint256(m.amount), m.least);
        bytes memory times = abi.encodePacked(
            word(m.escrow),
            word(m.releaser),
            uint256(m.begins),
            uint256(m.periodSeconds),
            uint256(m.periods),
            uint256(m.lockSeconds),
            m.salt
        );
        return abi.encodePacked(
            uint256(32), accounts, times, uint256(448), 448 + before.length, before, encoded(m.termsAfter)
        );
    }

    function encoded(bytes memory text) private pure returns (bytes memory) {
        return abi.encodePacked(text.length, text, new bytes((32 - text.length % 32) % 32));
    }

    /// The minimal proxy of ERC-1167 to the first contract that this one made.
    function proxyCode(Mandates by) internal pure returns (bytes memory) {
        address implementation = address(uint160(uint256(keccak256(abi.encodePacked(hex"d694", by, hex"01")))));
        return abi.encodePacked(hex"363d3d373d3d3d363d73", implementation, hex"5af43d82803e903d91602b57fd5bf3");
    }

    /// CREATE2's address for the mandate.
    function addressBy(Mandates by, Mandates.Mandate memory m) internal pure returns (address) {
        bytes32 code = keccak256(bytes.concat(hex"3d602d80600a3d3981f3", proxyCode(by)));
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"ff", by, keccak256(encoded(m)), code)))));
    }

    function addressBy(Mandates.Mandate memory m) internal view returns (address) {
        return addressBy(mandates, m);
    }

    /// First second of a period.
    function startOf(uint256 period) internal pure returns (uint256) {
        return START + period * PERIOD;
    }

    // What the payer signs

    /// All periods together, up to the last second of the last.
    function permitBy(Mandates.Mandate memory m) internal view returns (IPermit2Allowance.PermitSingle memory p) {
        uint256 last = uint256(m.begins) + uint256(m.periodSeconds) * m.periods - 1;
        p.details = IPermit2Allowance.PermitDetails(m.token, m.amount * m.periods, uint48(last), 0);
        (p.spender, p.sigDeadline) = (addressBy(m), last);
    }

    function permitDigest(IPermit2Allowance.PermitSingle memory p) internal view returns (bytes32) {
        bytes32 details = keccak256(abi.encode(PERMIT_DETAILS_TYPEHASH, p.details));
        return permit2Digest(keccak256(abi.encode(PERMIT_SINGLE_TYPEHASH, details, p.spender, p.sigDeadline)));
    }

    function permitDigest(Mandates.Mandate memory m) internal view returns (bytes32) {
        return permitDigest(permitBy(m));
    }

    function mandateDigest(Mandates by, bytes32 structHash) internal view returns (bytes32) {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("GatewayMandates"), keccak256("1"), block.chainid, address(by))
        );
        return keccak256(abi.encodePacked(hex"1901", domain, structHash));
    }

    function cancellationDigest(Mandates.Mandate memory m) internal view returns (bytes32) {
        return mandateDigest(mandates, keccak256(abi.encode(CANCELLATION_TYPEHASH, addressBy(m))));
    }

    // What the merchant signs

    function chargeDigestBy(Mandates by, address at, Mandates.Charge memory c) internal view returns (bytes32) {
        return mandateDigest(
            by,
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

    function digestOf(Drawing memory f) internal view returns (bytes32) {
        return chargeDigestBy(mandates, addressBy(f.mandate), f.charge);
    }

    function idOf(uint256 i) internal pure returns (bytes32) {
        return keccak256(abi.encode("payment", i));
    }

    /// Signed by payer and merchant as mandate and charge are now.
    function resign(Drawing memory f) internal view {
        f.permit = sign(payerKey, permitDigest(f.mandate));
        f.charge.signature = sign(merchantKey, digestOf(f));
    }

    /// A charge of `amount` with the windows that a deposit has now, and an award of `PRICE` or all of it; all is signed.
    function drawing(Mandates.Mandate memory m, uint256 i, uint160 amount) internal view returns (Drawing memory f) {
        f = unsigned(m, i, amount);
        resign(f);
    }

    function unsigned(Mandates.Mandate memory m, uint256 i, uint160 amount) internal view returns (Drawing memory f) {
        uint48 now_ = uint48(block.timestamp);
        f.mandate = m;
        f.charge = Mandates.Charge(idOf(i), RATE * amount, amount, reserver, now_ + 60, now_ + 600, now_ + LOCK, "");
        f.award = reservation();
        f.award.paymentId = idOf(i);
        f.award.fulfillBy = now_ + 300;
        f.award.sourceAmount = amount < PRICE ? amount : PRICE;
        f.admittedUntil = now_ + 60;
    }

    /// Of `ASKED`, under the payer's mandate in the one token.
    function drawing(uint256 i) internal view returns (Drawing memory) {
        return drawing(mandate(), i, ASKED);
    }

    /// What the escrow is asked to take.
    function depositBy(Mandates.Mandate memory m, Mandates.Charge memory c)
        internal
        pure
        returns (GatewayEscrow.GatewayDeposit memory)
    {
        bytes memory delivered = bytes(vm.toString(c.fulfillmentAmount));
        bytes memory most = bytes(vm.toString(uint256(c.amount)));
        bytes32 termsHash =
            sha256(bytes.concat(m.termsBefore, delivered, '","max_source_amount":"', most, m.termsAfter));
        return GatewayEscrow.GatewayDeposit({
            paymentId: c.paymentId,
            termsHash: termsHash,
            quoteHash: bytes32(0),
            payer: m.payer,
            reserver: c.reserver,
            releaser: m.releaser,
            reserveDeadline: c.reserveDeadline,
            fulfillmentDeadline: c.fulfillmentDeadline,
            refundAfter: c.refundAfter
        });
    }

    // Deposits

    /// What the reserver signs for it.
    function admissionOf(Drawing memory f) internal view returns (bytes memory) {
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        return admissionOf(Larger(false, d, f.award, f.mandate.token, f.charge.amount, f.admittedUntil));
    }

    function callOf(Drawing memory f, bytes memory reserverSignature) internal view returns (bytes memory) {
        return abi.encodeCall(
            mandates.deposit, (f.mandate, f.permit, f.charge, f.award, f.admittedUntil, reserverSignature)
        );
    }

    /// As the other, with the reserver's signature right.
    function callOf(Drawing memory f) internal view returns (bytes memory) {
        return callOf(f, admissionOf(f));
    }

    /// A stranger brings it into the escrow.
    function makeDeposit(Drawing memory f) internal returns (bytes32) {
        bytes memory call = callOf(f);
        vm.prank(stranger);
        (bool made, bytes memory why) = address(mandates).call(call);
        if (!made) {
            assembly ("memory-safe") {
                revert(add(why, 0x20), mload(why))
            }
        }
        GatewayEscrow.GatewayDeposit memory d = depositBy(f.mandate, f.charge);
        noteTerms(asReserved(asDeposited(d, f.mandate.token, f.charge.amount), f.award));
        return f.charge.paymentId;
    }

    /// A stranger has it given back.
    function giveBack(Mandates.Mandate memory m, address asset) internal returns (uint256) {
        vm.prank(stranger);
        return mandates.giveBack(m, asset);
    }

    /// What the payer does at Permit2 without a signature: the mandate in the one token has such an allowance.
    function allowAtPermit2(uint160 amount, uint48 expiration) internal {
        vm.prank(payer);
        (bool done,) = PERMIT2.call(
            abi.encodeWithSignature(
                "approve(address,address,uint160,uint48)", address(token), addressBy(mandate()), amount, expiration
            )
        );
        assertTrue(done);
    }

    // What is refused

    /// Refused with these very bytes, whoever calls, and nothing is moved or made by it.
    function expectDepositRefused(Drawing memory f, bytes memory call, bytes memory refusal) internal {
        bytes32 was = standingOf(f);
        expectCallRefused(call, refusal);
        assertEq(standingOf(f), was, "something changed");
    }

    /// As the other, with the reserver's signature right.
    function expectDepositRefused(Drawing memory f, bytes memory refusal) internal {
        expectDepositRefused(f, callOf(f), refusal);
    }

    /// As the other, by a stranger alone, for what is tried many times.
    function expectRefused(Drawing memory f, bytes memory call, bytes memory refusal) internal {
        vm.prank(stranger);
        (bool made, bytes memory why) = address(mandates).call(call);
        assertFalse(made, "made");
        assertEq(why, refusal);
        assertEq(uint8(stateOf(f.charge.paymentId)), uint8(GatewayEscrow.State.None));
    }

    function expectNotGivenBack(Mandates.Mandate memory m, address asset, bytes memory refusal) internal {
        expectCallRefused(abi.encodeCall(mandates.giveBack, (m, asset)), refusal);
    }

    function expectCallRefused(bytes memory call, bytes memory refusal) internal {
        address[5] memory callers = [stranger, payer, merchant, reserver, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            vm.prank(callers[i]);
            (bool made, bytes memory why) = address(mandates).call(call);
            assertFalse(made, "made");
            assertEq(why, refusal);
        }
    }

    /// The money of all who could have got some, in both of the tokens and that of the mandate, what is left of the allowance, what was
    /// drawn, the record, and whether the address has its code.
    function standingOf(Drawing memory f) private view returns (bytes32) {
        address at = addressBy(f.mandate);
        address[6] memory who = [f.mandate.payer, at, address(escrow), settler, address(mandates), merchant];
        address[3] memory what = [address(token), address(euro), f.mandate.token];
        bytes memory money;
        for (uint256 i = 0; i < 18; i++) {
            if (what[i % 3].code.length == 0) continue;
            (, bytes memory held) = what[i % 3].staticcall(abi.encodeCall(euro.balanceOf, (who[i / 3])));
            money = bytes.concat(money, held);
        }
        (uint32 period, uint160 amount, bool cancelled) = mandates.used(at);
        bytes memory use = abi.encode(period, amount, cancelled, allowanceOf(f.mandate));
        return keccak256(abi.encode(money, use, escrow.recordOf(f.charge.paymentId), at.code.length));
    }

    struct Allowance {
        uint160 amount;
        uint48 expiration;
        uint48 nonce;
    }

    /// What Permit2 has of the payer for the mandate's address.
    function allowanceOf(Mandates.Mandate memory m) internal view returns (Allowance memory a) {
        (a.amount, a.expiration, a.nonce) = IPermit2Allowance(PERMIT2).allowance(m.payer, m.token, addressBy(m));
    }

    /// What is counted for the mandate: in which period the last draw was, and what was drawn in it.
    function assertUsed(Mandates.Mandate memory m, uint32 period, uint160 amount) internal view {
        (uint32 period_, uint160 amount_, bool cancelled) = mandates.used(addressBy(m));
        assertEq(period_, period, "the period");
        assertEq(amount_, amount, "drawn in it");
        assertFalse(cancelled, "cancelled");
    }

    function aboveThePeriod(uint256 amount, uint256 left) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.AmountAbovePeriod.selector, amount, left);
    }

    function notInForce(uint256 begins, uint256 ends) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.NotInForce.selector, begins, ends);
    }

    /// Who signed the charge as it is now, by the signature that it has.
    function notTheMerchant(Drawing memory f) internal view returns (bytes memory) {
        (bytes32 r, bytes32 s) = abi.decode(f.charge.signature, (bytes32, bytes32));
        address signer = ecrecover(digestOf(f), uint8(f.charge.signature[64]), r, s);
        return abi.encodeWithSelector(Mandates.SignerNotMerchant.selector, signer, f.mandate.merchant);
    }

    function cancelledAt(Mandates.Mandate memory m) internal view returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.MandateCancelled.selector, addressBy(m));
    }

    function drawnNotExact(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.ReceivedNotExact.selector, expected, received);
    }

    function escrowReceived(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, expected, received);
    }

    function idUsed(uint256 i) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.PaymentIdUsed.selector, idOf(i));
    }

    function nothingThere(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.NothingThere.selector, asset);
    }

    function notMoved(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.NotMoved.selector, asset);
    }

    function notByPayer(Mandates.Mandate memory m) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(Mandates.NotByPayer.selector, m.payer);
    }

    function invalidSigner() internal pure returns (bytes memory) {
        return abi.encodeWithSignature("InvalidSigner()");
    }

    function failedTransfer() internal pure returns (bytes memory) {
        return abi.encodeWithSignature("Error(string)", "TRANSFER_FROM_FAILED");
    }

    function insufficient(uint256 left) internal pure returns (bytes memory) {
        return abi.encodeWithSignature("InsufficientAllowance(uint256)", left);
    }

    function notAdmitted() internal view returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReserverSignatureInvalid.selector, reserver);
    }
}
