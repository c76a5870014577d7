// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {Mandating} from "./support/Mandating.sol";

/// @notice `contracts/vectors/mandates.json`: worked examples for whoever computes, signs or reads mandates in another language, with
/// the contract where the deterministic deployer puts it. They are made here, apart from the contract, and tried on it as they stand in
/// the file. `UPDATE_VECTORS=true` writes the file anew.
contract MandatesVectorsTest is Mandating {
    string private constant PATH = "contracts/vectors/mandates.json";
    /// The accounts that every development chain has.
    string private constant MNEMONIC = "test test test test test test test test test test test junk";
    address private constant DEPLOYER = 0x4e59b44847b379578588920cA78FbF26c0B4956C;
    bytes private constant DEPLOYER_CODE =
        hex"7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf3";
    GatewayEscrow private constant HOME = GatewayEscrow(0x5FbDB2315678afecb367f032d93F642f64180aa3);
    uint48 private constant BEGINS = 1_893_456_000;
    uint256 private constant COUNT = 4;

    string private json;

    function setUp() public override {
        super.setUp();
        bytes memory creation = vm.parseJsonBytes(vm.readFile("contracts/artifacts/Mandates.json"), ".bytecode");
        vm.etch(DEPLOYER, DEPLOYER_CODE);
        (bool deployed,) = DEPLOYER.call(bytes.concat(bytes32(0), creation));
        assertTrue(deployed);
        mandates = Mandates(vm.computeCreate2Address(bytes32(0), keccak256(creation), DEPLOYER));
        creation = abi.encodePacked(
            type(GatewayEscrow).creationCode, abi.encode(PERMIT2, reserver, guardian, PAYOUT_GAS)
        );
        vm.etch(address(HOME), creation);
        (bool made, bytes memory code) = address(HOME).call("");
        assertTrue(made);
        vm.etch(address(HOME), code);
        escrow = HOME;
        string memory text = vectors();
        if (vm.envOr("UPDATE_VECTORS", false)) vm.writeFile(PATH, text);
        json = vm.readFile(PATH);
        assertEq(json, text, "UPDATE_VECTORS=true writes the vectors anew");
    }

    function test_TheContractSaysWhatTheVectorsSay() public view {
        assertEq(vm.parseJsonAddress(json, ".contract"), address(mandates));
        assertEq(vm.parseJsonAddress(json, ".implementation"), mandates.implementation());
        assertEq(vm.parseJsonUint(json, ".chain_id"), block.chainid);
        assertEq(vm.parseJsonAddress(json, ".permit2"), PERMIT2);
        uint256 seen;
        for (; vm.keyExistsJson(json, entry(".mandates", seen)); seen++) {
            string memory one = entry(".mandates", seen);
            Mandates.Mandate memory m = readMandate(one);
            assertEq(mandates.addressOf(m), addressAt(one, ".address"));
            assertEq(keccak256(abi.encode(m)), bytes32At(one, ".create2_salt"));
            (IPermit2Allowance.PermitDetails memory details, address at) = mandates.permitOf(m);
            assertEq(details.amount, numberAt(one, ".permit.amount"));
            assertEq(details.expiration, numberAt(one, ".permit.expiration"));
            assertEq(details.nonce, numberAt(one, ".permit.nonce"));
            assertEq(details.expiration, numberAt(one, ".permit.sig_deadline"));
            for (uint256 i = 0; i < 2; i++) {
                string memory asked = entry(string.concat(one, ".charges"), i);
                Mandates.Charge memory c = readCharge(asked);
                assertEq(mandates.chargeDigest(at, c), bytes32At(asked, ".digest"));
                bytes32 termsHash = mandates.depositOf(m, c).termsHash;
                assertEq(termsHash, bytes32At(asked, ".terms_hash"));
                assertEq(termsHash, sha256(bytes(vm.parseJsonString(json, string.concat(asked, ".terms")))));
            }
        }
        assertEq(seen, COUNT);
    }

    /// With the signatures of the file both charges come into the escrow, the second without the payer's; and each mandate ends.
    function test_WhatTheVectorsSignIsDrawn() public {
        for (uint256 n = 0; n < COUNT; n++) {
            string memory one = entry(".mandates", n);
            Drawing memory f;
            f.mandate = readMandate(one);
            f.permit = vm.parseJsonBytes(json, string.concat(one, ".permit.signature"));
            give(f.mandate);
            for (uint256 i = 0; i < 2; i++) {
                f.charge = readCharge(entry(string.concat(one, ".charges"), i));
                vm.warp(f.charge.reserveDeadline);
                f.admittedUntil = f.charge.reserveDeadline;
                f.award = GatewayEscrow.Reservation(
                    f.charge.paymentId, QUOTE, settler, f.charge.amount, f.charge.fulfillmentDeadline
                );
                makeDeposit(f);
                assertEq(uint8(stateOf(f.charge.paymentId)), uint8(GatewayEscrow.State.Reserved));
                f.permit = "";
            }
            mandates.cancel(f.mandate, vm.parseJsonBytes(json, string.concat(one, ".cancellation.signature")));
        }
    }

    /// The payer has all that it permits of the mandate's token, and lets Permit2 take it.
    function give(Mandates.Mandate memory m) private {
        vm.etch(m.token, address(token).code);
        DevToken(m.token).mint(m.payer, type(uint160).max);
        vm.prank(m.payer);
        DevToken(m.token).approve(PERMIT2, type(uint256).max);
    }

    // What is in the file

    function readMandate(string memory one) private view returns (Mandates.Mandate memory m) {
        m.payer = addressAt(one, ".payer");
        m.merchant = addressAt(one, ".merchant");
        m.token = addressAt(one, ".token");
        m.amount = uint160(numberAt(one, ".amount"));
        m.least = numberAt(one, ".least");
        m.escrow = addressAt(one, ".escrow");
        m.releaser = addressAt(one, ".releaser");
        m.begins = uint48(numberAt(one, ".begins"));
        m.periodSeconds = uint32(numberAt(one, ".period_seconds"));
        m.periods = uint32(numberAt(one, ".periods"));
        m.lockSeconds = uint32(numberAt(one, ".lock_seconds"));
        m.salt = bytes32At(one, ".salt");
        m.termsBefore = bytes(vm.parseJsonString(json, string.concat(one, ".terms_before")));
        m.termsAfter = bytes(vm.parseJsonString(json, string.concat(one, ".terms_after")));
    }

    function readCharge(string memory asked) private view returns (Mandates.Charge memory c) {
        c.paymentId = bytes32At(asked, ".payment_id");
        c.fulfillmentAmount = numberAt(asked, ".fulfillment_amount");
        c.amount = uint160(numberAt(asked, ".amount"));
        c.reserver = addressAt(asked, ".reserver");
        c.reserveDeadline = uint48(numberAt(asked, ".reserve_deadline"));
        c.fulfillmentDeadline = uint48(numberAt(asked, ".fulfillment_deadline"));
        c.refundAfter = uint48(numberAt(asked, ".refund_after"));
        c.signature = vm.parseJsonBytes(json, string.concat(asked, ".signature"));
    }

    function entry(string memory list, uint256 at) private pure returns (string memory) {
        return string.concat(list, "[", vm.toString(at), "]");
    }

    function addressAt(string memory one, string memory name) private view returns (address) {
        return vm.parseJsonAddress(json, string.concat(one, name));
    }

    function numberAt(string memory one, string memory name) private view returns (uint256) {
        return vm.parseJsonUint(json, string.concat(one, name));
    }

    function bytes32At(string memory one, string memory name) private view returns (bytes32) {
        return vm.parseJsonBytes32(json, string.concat(one, name));
    }

    // How they are made

    /// Monthly and in one token; weekly, in another with eighteen decimals, to one of two places, whose text is a whole number of words;
    /// all that Permit2 counts in one period of the greatest length; each second, to a place that is no EVM chain.
    function example(uint256 n) private view returns (Mandates.Mandate memory m) {
        m = mandateOf(vm.addr(payerKeyOf(n)), tokenOf(n));
        m.merchant = vm.addr(merchantKeyOf(n));
        (m.releaser, m.begins, m.salt) = (address(uint160(0xB0 + n)), BEGINS, keccak256(abi.encode("mandate", n)));
        if (n == 1) {
            (m.amount, m.periodSeconds, m.periods) = (123_456_789e18 + 1, 7 days, 52);
            m.termsBefore =
                '{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:42161/erc20:0xaf88d065e77c8cc2239327c5edb3a432268e5831"},{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:534352/erc20:0x06efdbff2a14a7c8e15944d1f4a48f9f95f663a4"}],"fulfillment_amount":"';
            (m.least, m.salt) = (0, bytes32(type(uint256).max));
            assertEq(m.termsBefore.length % 32, 0);
        }
        if (n == 2) {
            (m.amount, m.periodSeconds, m.periods) = (type(uint160).max - 1, type(uint32).max, 1);
            (m.lockSeconds, m.salt, m.least) = (type(uint32).max, 0, type(uint96).max);
        }
        if (n == 3) {
            (m.amount, m.periodSeconds, m.periods, m.lockSeconds) = (7, 1, type(uint32).max, 31);
            m.least = 20;
            m.termsBefore =
                '{"destination":[{"account":"9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM","asset_identifier":"solana:5eykt4UsFv8P8NJdTRepY1vzqKqZKvdp/slip44:501"}],"fulfillment_amount":"';
        }
    }

    /// The first in the first period, the second in the last; the longest period has both.
    function exampleCharge(Mandates.Mandate memory m, uint256 n, uint256 i)
        private
        view
        returns (Mandates.Charge memory c)
    {
        c.paymentId = keccak256(abi.encode("mandate", n, "payment", i));
        c.fulfillmentAmount = i == 0 ? 63e18 + n : n == 2 ? type(uint96).max : n == 1 ? 1 : m.least;
        c.amount = i == 0 && n == 2 ? 1 : i == 0 ? m.amount - 1 : m.amount;
        if (n == 2 && i == 1) c.amount -= 1;
        c.reserver = reserver;
        c.reserveDeadline = m.begins;
        if (i == 1) c.reserveDeadline += uint48(uint256(m.periodSeconds) * m.periods - 1);
        c.fulfillmentDeadline = c.reserveDeadline + m.lockSeconds / 2;
        c.refundAfter = c.reserveDeadline + m.lockSeconds;
    }

    function tokenOf(uint256 n) private pure returns (address) {
        return address(uint160(uint256(keccak256(abi.encode("token", n)))));
    }

    function payerKeyOf(uint256 n) private pure returns (uint256) {
        return vm.deriveKey(MNEMONIC, uint32(n % 3));
    }

    function merchantKeyOf(uint256 n) private pure returns (uint256) {
        return vm.deriveKey(MNEMONIC, uint32(5 + n % 2));
    }

    function vectors() private view returns (string memory text) {
        address implementation = vm.computeCreateAddress(address(mandates), 1);
        text = string.concat(
            '{\n  "contract": ', account(address(mandates)), ',\n  "implementation": ', account(implementation),
            ',\n  "chain_id": ', vm.toString(block.chainid), ',\n  "permit2": ', account(PERMIT2), ',\n  "mandates": [\n'
        );
        for (uint256 n = 0; n < COUNT; n++) {
            text = string.concat(text, n == 0 ? "" : ",\n", textOf(n));
        }
        return string.concat(text, "\n  ]\n}\n");
    }

    function textOf(uint256 n) private view returns (string memory text) {
        Mandates.Mandate memory m = example(n);
        text = string.concat("    {\n", membersOf(m));
        text = member(text, 6, "payer_private_key", quoted(vm.toString(bytes32(payerKeyOf(n)))));
        text = member(text, 6, "merchant_private_key", quoted(vm.toString(bytes32(merchantKeyOf(n)))));
        text = member(text, 6, "create2_salt", quoted(vm.toString(keccak256(encoded(m)))));
        text = member(text, 6, "address", account(addressBy(m)));
        text = string.concat(text, permitTextOf(m, n), '      "charges": [\n');
        text = string.concat(text, chargeText(m, n, 0), ",\n", chargeText(m, n, 1), "\n      ]\n    }");
    }

    function membersOf(Mandates.Mandate memory m) private pure returns (string memory text) {
        text = member(text, 6, "payer", account(m.payer));
        text = member(text, 6, "merchant", account(m.merchant));
        text = member(text, 6, "token", account(m.token));
        text = member(text, 6, "amount", quoted(vm.toString(uint256(m.amount))));
        text = member(text, 6, "least", quoted(vm.toString(m.least)));
        text = member(text, 6, "escrow", account(m.escrow));
        text = member(text, 6, "releaser", account(m.releaser));
        text = member(text, 6, "begins", vm.toString(m.begins));
        text = member(text, 6, "period_seconds", vm.toString(m.periodSeconds));
        text = member(text, 6, "periods", vm.toString(m.periods));
        text = member(text, 6, "lock_seconds", vm.toString(m.lockSeconds));
        text = member(text, 6, "salt", quoted(vm.toString(m.salt)));
        text = member(text, 6, "terms_before", escaped(m.termsBefore));
        text = member(text, 6, "terms_after", escaped(m.termsAfter));
    }

    function permitTextOf(Mandates.Mandate memory m, uint256 n) private view returns (string memory text) {
        string memory last = vm.toString(uint256(m.begins) + uint256(m.periodSeconds) * m.periods - 1);
        text = member('      "permit": {\n', 8, "amount", quoted(vm.toString(uint256(m.amount) * m.periods)));
        text = member(text, 8, "expiration", last);
        text = member(text, 8, "nonce", "0");
        text = member(text, 8, "sig_deadline", last);
        text = string.concat(text, signedText(payerKeyOf(n), permitDigest(m)), '\n      },\n      "cancellation": {\n');
        return string.concat(text, signedText(payerKeyOf(n), cancellationDigest(m)), "\n      },\n");
    }

    function chargeText(Mandates.Mandate memory m, uint256 n, uint256 i) private view returns (string memory text) {
        Mandates.Charge memory c = exampleCharge(m, n, i);
        text = member("        {\n", 10, "payment_id", quoted(vm.toString(c.paymentId)));
        text = member(text, 10, "fulfillment_amount", quoted(vm.toString(c.fulfillmentAmount)));
        text = member(text, 10, "amount", quoted(vm.toString(uint256(c.amount))));
        text = member(text, 10, "reserver", account(c.reserver));
        text = member(text, 10, "reserve_deadline", vm.toString(c.reserveDeadline));
        text = member(text, 10, "fulfillment_deadline", vm.toString(c.fulfillmentDeadline));
        text = member(text, 10, "refund_after", vm.toString(c.refundAfter));
        bytes memory terms = abi.encodePacked(
            m.termsBefore, vm.toString(c.fulfillmentAmount), '","max_source_amount":"', vm.toString(uint256(c.amount))
        );
        text = member(text, 10, "terms", escaped(bytes.concat(terms, m.termsAfter)));
        text = member(text, 10, "terms_hash", quoted(vm.toString(depositBy(m, c).termsHash)));
        bytes32 digest = chargeDigestBy(mandates, addressBy(m), c);
        return string.concat(text, "  ", signedText(merchantKeyOf(n), digest), "\n        }");
    }

    function signedText(uint256 key, bytes32 digest) private pure returns (string memory) {
        return string.concat(
            '        "digest": ', quoted(vm.toString(digest)), ', "signature": ', quoted(vm.toString(sign(key, digest)))
        );
    }

    function member(string memory text, uint256 depth, string memory name, string memory value)
        private
        pure
        returns (string memory)
    {
        string memory blanks = depth == 6 ? "      " : depth == 8 ? "        " : "          ";
        return string.concat(text, blanks, '"', name, '": ', value, ",\n");
    }

    function quoted(string memory inner) private pure returns (string memory) {
        return string.concat('"', inner, '"');
    }

    /// In small letters, without a checksum.
    function account(address who) private pure returns (string memory) {
        return quoted(string(textOf(who)));
    }

    /// As a string of JSON, of a text that has quotes but nothing else that is written in another way.
    function escaped(bytes memory text) private pure returns (string memory) {
        return quoted(vm.replace(string(text), '"', '\\"'));
    }
}
