// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../../src/DepositAddresses.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {LargerDeposits} from "./LargerDeposits.sol";
import {TrickToken} from "./TrickToken.sol";

/// @notice Payments to deposit addresses. Salt and address are put together here from their description, apart from the
/// contract's own.
abstract contract DepositAddressing is LargerDeposits {
    DepositAddresses internal factory;

    /// A deposit from an address, but for the reserver's signature.
    struct FromAddress {
        DepositAddresses.Terms terms;
        uint256 amount;
        GatewayEscrow.Reservation award;
        uint48 admittedUntil;
    }

    function setUp() public virtual override {
        super.setUp();
        factory = newFactory();
    }

    /// A factory whose addresses are tried.
    function newFactory() internal virtual returns (DepositAddresses) {
        return new DepositAddresses();
    }

    /// What the address of a payment in this token commits to: something more than the price is to be sent.
    function addressTerms(address asset) internal view returns (DepositAddresses.Terms memory) {
        return DepositAddresses.Terms(address(escrow), asset, LARGER, depositTerms());
    }

    function wordsOf(DepositAddresses.Terms memory t) internal pure returns (bytes32[12] memory) {
        GatewayEscrow.GatewayDeposit memory d = t.deposit;
        return [
            bytes32(uint256(uint160(t.escrow))),
            bytes32(uint256(uint160(t.token))),
            bytes32(t.amount),
            d.paymentId,
            d.termsHash,
            d.quoteHash,
            bytes32(uint256(uint160(d.payer))),
            bytes32(uint256(uint160(d.reserver))),
            bytes32(uint256(uint160(d.releaser))),
            bytes32(uint256(d.reserveDeadline)),
            bytes32(uint256(d.fulfillmentDeadline)),
            bytes32(uint256(d.refundAfter))
        ];
    }

    /// Where the implementation is: the first contract that the factory made.
    function implementationOf(DepositAddresses by) internal pure virtual returns (address) {
        return address(uint160(uint256(keccak256(abi.encodePacked(hex"d694", by, hex"01")))));
    }

    /// The minimal proxy of ERC-1167, which each address has for its code.
    function proxyCode(DepositAddresses by) internal pure returns (bytes memory) {
        return abi.encodePacked(
            hex"363d3d373d3d3d363d73", implementationOf(by), hex"5af43d82803e903d91602b57fd5bf3"
        );
    }

    /// CREATE2's address for the terms.
    function addressBy(DepositAddresses by, DepositAddresses.Terms memory t) internal pure returns (address) {
        bytes32 salt = keccak256(abi.encodePacked(wordsOf(t)));
        return placeOf(hex"ff", address(by), salt, bytes.concat(hex"3d602d80600a3d3981f3", proxyCode(by)));
    }

    /// Where CREATE2 puts what this creation code makes, on chains where it hashes that byte first.
    function placeOf(bytes1 prefix, address by, bytes32 salt, bytes memory creation) internal pure returns (address) {
        return address(uint160(uint256(keccak256(abi.encodePacked(prefix, by, salt, keccak256(creation))))));
    }

    function addressBy(DepositAddresses.Terms memory t) internal view returns (address) {
        return addressBy(factory, t);
    }

    /// The payer pays, which is all that it does.
    function pay(DepositAddresses.Terms memory t, uint256 amount) internal returns (address at) {
        return pay(t, t.token, amount);
    }

    /// As the other, in any token.
    function pay(DepositAddresses.Terms memory t, address asset, uint256 amount) internal returns (address at) {
        at = addressBy(t);
        vm.prank(payer);
        TrickToken(asset).transfer(at, amount);
    }

    /// A deposit of `amount`, with the award of `reservation()`.
    function fromAddress(DepositAddresses.Terms memory t, uint256 amount) internal view returns (FromAddress memory) {
        return FromAddress(t, amount, reservation(), ADMITTED_UNTIL);
    }

    /// What the reserver signs for that.
    function admissionOf(FromAddress memory f) internal view returns (bytes memory) {
        return admissionOf(Larger(false, f.terms.deposit, f.award, f.terms.token, f.amount, f.admittedUntil));
    }

    function callOf(FromAddress memory f, bytes memory reserverSignature) internal view returns (bytes memory) {
        return abi.encodeCall(factory.deposit, (f.terms, f.amount, f.award, f.admittedUntil, reserverSignature));
    }

    /// As the other, with the reserver's signature right.
    function callOf(FromAddress memory f) internal view returns (bytes memory) {
        return callOf(f, admissionOf(f));
    }

    /// A stranger brings what was paid into the escrow.
    function depositFrom(DepositAddresses.Terms memory t, uint256 amount) internal {
        depositFrom(fromAddress(t, amount));
    }

    function depositFrom(FromAddress memory f) internal {
        bytes memory signature = admissionOf(f);
        vm.prank(stranger);
        factory.deposit(f.terms, f.amount, f.award, f.admittedUntil, signature);
        noteTerms(asReserved(asDeposited(f.terms.deposit, f.terms.token, f.amount), f.award));
    }

    /// A stranger has it given back.
    function giveBack(DepositAddresses.Terms memory t, address asset) internal returns (uint256) {
        vm.prank(stranger);
        return factory.giveBack(t, asset);
    }

    /// Refused, whoever calls: and nothing is made by it.
    function expectRefused(bytes memory call, bytes memory refusal) internal {
        address[4] memory callers = [stranger, payer, reserver, address(escrow)];
        for (uint256 i = 0; i < callers.length; i++) {
            vm.prank(callers[i]);
            (bool made, bytes memory why) = address(factory).call(call);
            assertFalse(made, "made");
            assertEq(why, refusal);
        }
    }

    function expectNotDeposited(DepositAddresses.Terms memory t, uint256 amount, bytes memory refusal) internal {
        expectRefused(callOf(fromAddress(t, amount)), refusal);
    }

    function expectNotGivenBack(DepositAddresses.Terms memory t, address asset, bytes memory refusal) internal {
        expectRefused(abi.encodeCall(factory.giveBack, (t, asset)), refusal);
    }

    function notYet(DepositAddresses.Terms memory t) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(DepositAddresses.NotYet.selector, t.deposit.reserveDeadline);
    }

    function nothingThere(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(DepositAddresses.NothingThere.selector, asset);
    }

    function notMoved(address asset) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(DepositAddresses.NotMoved.selector, asset);
    }

    function notExact(uint256 expected, uint256 received) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(GatewayEscrow.ReceivedNotExact.selector, expected, received);
    }
}
