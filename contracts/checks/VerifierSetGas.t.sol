// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {VerifierSets} from "../test/support/VerifierSets.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {VerifierSetFactory} from "./VerifierSet.sol";

/// @notice Makes one account of a set, so that a call of its own has the deployment's cost.
contract VerifierSetDeployer {
    function deploy(bytes calldata head) external returns (address) {
        return VerifierSetFactory.deploy(head);
    }
}

/// @notice What a release by a set of verifiers costs, measured as in `EscrowGas.t.sol`: by the set's id, and by a contract account
/// of the same members (ERC-1271), whose deployment comes on top. And a reassignment by a set's id.
contract VerifierSetGasTest is VerifierSets {
    VerifierSetDeployer private deployer;

    /// Another payment is open and the settler was paid before: what a gateway in use sees.
    function setUp() public override {
        super.setUp();
        deployer = new VerifierSetDeployer();
        token.mint(settler, 1_000e6);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = keccak256("pay_0");
        depositWitnessed(d, r, address(token));
    }

    function test_Gas_ReleaseByOneKey() public {
        release(releaser, sign(releaserKey, delivered()), "one key");
    }

    function test_Gas_ReleaseByOneOfOne() public {
        releaseByEach(verifiers(1, 1), "1 of 1");
    }

    function test_Gas_ReleaseByTwoOfThree() public {
        releaseByEach(verifiers(2, 3), "2 of 3");
    }

    function test_Gas_ReleaseByThreeOfFive() public {
        releaseByEach(verifiers(3, 5), "3 of 5");
    }

    /// The largest set with the lowest threshold, where the members' list weighs most.
    function test_Gas_ReleaseByOneOfSixteen() public {
        releaseByEach(verifiers(1, 16), "1 of 16");
    }

    function test_Gas_ReleaseByNineOfSixteen() public {
        releaseByEach(verifiers(9, 16), "9 of 16");
    }

    function test_Gas_ReassignByTwoOfThree() public {
        Verifiers memory set = verifiers(2, 3);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = idOf(set);
        depositWitnessed(d, reservation(), address(token));
        GatewayEscrow.Reservation memory r = nextReservation();
        vm.warp(reservation().fulfillBy + 1);
        bytes memory word = attest(set, nonDeliveryDigest(PAYMENT, AGREED), 3);
        escrow.reassign(termsOf(PAYMENT), r, signReassignment(reserverKey, AGREED, r), word);
        vm.snapshotGasLastCall("verifierSet", "reassignment, 2 of 3 by its id");
    }

    function releaseByEach(Verifiers memory set, string memory name) private {
        uint256 signers = (1 << set.threshold) - 1;
        uint256 snapshot = vm.snapshotState();
        release(idOf(set), attest(set, delivered(), signers), string.concat(name, ", by its id"));
        vm.revertToState(snapshot);
        address account = deployer.deploy(headOf(set));
        vm.snapshotGasLastCall("verifierSet", string.concat(name, ", deployment of a contract"));
        release(account, signaturesOf(set, delivered(), signers), string.concat(name, ", by a contract"));
    }

    function release(address by, bytes memory attestation, string memory name) private {
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        d.releaser = by;
        depositWitnessed(d, reservation(), address(token));
        escrow.release(termsOf(PAYMENT), attestation);
        vm.snapshotGasLastCall("verifierSet", name);
    }

    function delivered() private view returns (bytes32) {
        return deliveryDigest(PAYMENT, AGREED, settler);
    }
}
