// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddresses} from "../src/DepositAddresses.sol";
import {FulfillmentProxy} from "../src/FulfillmentProxy.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {PermittedDeposit} from "../src/PermittedDeposit.sol";
import {Authorizations} from "../test/support/Authorizations.sol";
import {DepositAddressing} from "../test/support/DepositAddressing.sol";
import {TrickToken} from "../test/support/TrickToken.sol";
import {Creator} from "./support/Creator.sol";

/// @notice What each call costs as a transaction of its own, on a token and an escrow that were used before. `run.sh` runs it
/// with `--isolate`, so that the intrinsic cost and cold accesses count, and compares with the committed numbers in `gas/`.
contract EscrowGasTest is Authorizations, DepositAddressing {
    bytes32 private constant EARLIER = keccak256("pay_0");
    bytes32 private constant ID = keccak256("pay_1");

    FulfillmentProxy private proxy;
    Creator private creator;

    /// Another payment is open and the settler was paid before: what a gateway in use sees.
    function setUp() public override(Authorizations, DepositAddressing) {
        super.setUp();
        proxy = new FulfillmentProxy();
        creator = new Creator();
        token.mint(settler, 1_000e6);
        vm.prank(settler);
        token.approve(address(proxy), type(uint256).max);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = EARLIER;
        depositWitnessed(d, r, address(token));
        d.paymentId = r.paymentId = keccak256("pay_00");
        depositAuthorized(d, r, address(stable), CAP);
    }

    function test_Gas_DepositWithWitness() public {
        sendWitnessed(depositTerms(), reservation(), address(token));
        vm.snapshotGasLastCall("escrow", "depositWithWitness");
    }

    function test_Gas_DepositWithPermit() public {
        sendPermitted(depositTerms(), reservation(), address(token));
        vm.snapshotGasLastCall("escrow", "depositWithPermit");
    }

    function test_Gas_DepositMoreWithWitness() public {
        sendLarger(true, depositTerms(), reservation(), address(token), LARGER);
        vm.snapshotGasLastCall("escrow", "depositMoreWithWitness");
    }

    function test_Gas_DepositMoreWithPermit() public {
        sendLarger(false, depositTerms(), reservation(), address(token), LARGER);
        vm.snapshotGasLastCall("escrow", "depositMoreWithPermit");
    }

    function test_Gas_DepositWithAuthorization() public {
        sendAuthorized(depositTerms(), reservation(), address(stable), CAP);
        vm.snapshotGasLastCall("escrow", "depositWithAuthorization");
    }

    /// The payer's first permit for Permit2, and the deposit of the price.
    function test_Gas_PermittedDeposit() public {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Permit memory p = unsignedPermit(d, address(stable));
        p.signature = signWitness(payerKey, p, d);
        bytes memory admission = signAdmission(reserverKey, d, reservation(), address(stable));
        bytes memory call =
            abi.encodeCall(escrow.depositWithWitness, (d, p, reservation(), ADMITTED_UNTIL, admission));
        PermittedDeposit.TokenPermit memory t =
            PermittedDeposit.TokenPermit(address(stable), payer, PERMIT2, type(uint256).max, START + 60, 0, 0, 0);
        bytes32 structHash =
            keccak256(abi.encode(TOKEN_PERMIT_TYPEHASH, t.owner, t.spender, t.value, uint256(0), t.deadline));
        (t.v, t.r, t.s) = vm.sign(payerKey, tokenDigest(address(stable), structHash));
        bytes memory creation = abi.encodePacked(type(PermittedDeposit).creationCode, abi.encode(t, escrow, call));
        creator.create(creation);
        vm.snapshotGasLastCall("escrow", "permittedDeposit");
        assertEq(uint8(stateOf(ID)), uint8(GatewayEscrow.State.Reserved));
    }

    /// The caller's own money, as the payer of another payment.
    function test_Gas_DepositFor() public {
        bytes memory admission = admissionOf(depositTerms(), reservation(), address(token), LARGER);
        vm.prank(payer);
        escrow.depositFor(depositTerms(), address(token), LARGER, reservation(), ADMITTED_UNTIL, admission);
        vm.snapshotGasLastCall("escrow", "depositFor");
        assertEq(uint8(stateOf(ID)), uint8(GatewayEscrow.State.Reserved));
    }

    /// What was sent to an address, whose code is made with the deposit; then what came to it later goes back.
    function test_Gas_DepositFromAnAddressAndGiveBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, LARGER);
        sendFrom(t);
        vm.snapshotGasLastCall("addresses", "deposit");
        pay(t, 1);
        factory.giveBack(t, address(token));
        vm.snapshotGasLastCall("addresses", "giveBack, the address used before");
    }

    /// The address has its code since another token was given back from it.
    function test_Gas_DepositFromAnAddressThatIsThere() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        pay(t, address(trick), 1);
        factory.giveBack(t, address(trick));
        pay(t, LARGER);
        sendFrom(t);
        vm.snapshotGasLastCall("addresses", "deposit, the address used before");
    }

    /// What was never deposited, and coins.
    function test_Gas_GiveBack() public {
        DepositAddresses.Terms memory t = addressTerms(address(token));
        address at = pay(t, LARGER);
        vm.deal(at, 1 ether);
        vm.warp(t.deposit.reserveDeadline + 1);
        uint256 snapshot = vm.snapshotState();
        factory.giveBack(t, address(token));
        vm.snapshotGasLastCall("addresses", "giveBack");
        vm.revertToState(snapshot);
        factory.giveBack(t, address(0));
        vm.snapshotGasLastCall("addresses", "giveBack of coins");
    }

    function test_Gas_MakingTheFactory() public {
        creator.create(type(DepositAddresses).creationCode);
        vm.snapshotGasLastCall("addresses", "deployment of the factory");
    }

    function sendFrom(DepositAddresses.Terms memory t) private {
        bytes memory admission = admissionOf(fromAddress(t, LARGER));
        vm.prank(stranger);
        factory.deposit(t, LARGER, reservation(), ADMITTED_UNTIL, admission);
    }

    function test_Gas_DepositOwnAndReserve() public {
        sendByPayer(depositTerms(), address(token));
        vm.snapshotGasLastCall("escrow", "depositOwn");
        GatewayEscrow.Reservation memory r = reservation();
        escrow.reserve(asDeposited(depositTerms(), address(token), CAP), r, signReservation(reserverKey, r));
        vm.snapshotGasLastCall("escrow", "reserve");
    }

    function test_Gas_Reassign() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        GatewayEscrow.Reservation memory r = nextReservation();
        vm.warp(reservation().fulfillBy + 1);
        escrow.reassign(termsOf(ID), r, signReassignment(reserverKey, keccak256("quote"), r), nonDelivery());
        vm.snapshotGasLastCall("escrow", "reassign");
    }

    function test_Gas_Release() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        escrow.release(termsOf(ID), delivery());
        vm.snapshotGasLastCall("escrow", "release");
    }

    function test_Gas_ReleaseWithRemainder() public {
        depositLarger(true, depositTerms(), reservation(), address(token), LARGER);
        escrow.release(termsOf(ID), delivery());
        vm.snapshotGasLastCall("escrow", "releaseWithRemainder");
    }

    function test_Gas_Refund() public {
        depositWitnessed(depositTerms(), reservation(), address(token));
        vm.warp(depositTerms().refundAfter);
        escrow.refund(termsOf(ID));
        vm.snapshotGasLastCall("escrow", "refund");
    }

    function test_Gas_ClaimFor() public {
        reservedByPayer(address(trick));
        trick.setDenial(settler, TrickToken.Denial.Reverts);
        escrow.release(termsOf(ID), delivery());
        vm.snapshotGasLastCall("escrow", "releaseWithAClaim");
        trick.setDenial(settler, TrickToken.Denial.None);
        escrow.claimFor(settler, address(trick));
        vm.snapshotGasLastCall("escrow", "claimFor");
    }

    function test_Gas_Fulfill() public {
        token.mint(stranger, 1);
        vm.prank(settler);
        proxy.fulfill(ID, keccak256("quote"), address(token), stranger, 1e6, START + 300);
        vm.snapshotGasLastCall("proxy", "fulfill");
    }
}
