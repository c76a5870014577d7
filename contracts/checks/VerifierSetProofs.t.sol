// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Proofs, SignsAll, svm, vm} from "./support/Proofs.sol";

/// @notice Payments whose releaser is a set.
abstract contract VerifierSetWords is Proofs {
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant DELIVERY_TYPEHASH =
        keccak256("Delivery(bytes32 paymentId,bytes32 quoteHash,address settler)");
    uint48 private constant START = 1_000;

    address private signer;
    DevToken private token;

    function setUp() public {
        signer = address(new SignsAll());
        deploy(signer);
        token = new DevToken("Development USD", "dUSD", 6);
        enrich(token);
    }

    /// @param n how many members the set has
    /// @param indexes whose signatures they are said to be, as many as the threshold
    function takesItsMembers(uint8 n, uint8[] memory indexes) internal {
        bytes memory members = svm.createBytes(20 * uint256(n), "members");
        bytes memory given = svm.createBytes(20 * uint256(n), "given");
        bytes memory head = abi.encodePacked(uint8(indexes.length), n);
        GatewayEscrow.Escrow memory e = reservedFor(abi.encodePacked(head, members));
        bytes memory attestation = abi.encodePacked(head, given);
        bytes[] memory signatures = new bytes[](indexes.length);
        for (uint256 i = 0; i < indexes.length; i++) {
            signatures[i] = svm.createBytes(65, "signature");
            attestation = abi.encodePacked(attestation, known(indexes[i], n), signatures[i]);
        }
        if (!tried(abi.encodeCall(escrow.release, (e, attestation)))) return;
        assert(keccak256(given) == keccak256(members));
        areMembers(members, n, indexes, signatures);
    }

    /// A payment whose releaser is the set.
    function reservedFor(bytes memory set) private returns (GatewayEscrow.Escrow memory) {
        address id = address(uint160(uint256(keccak256(abi.encodePacked("gw-verifier-set", hex"01", set)))));
        vm.assume(id.code.length == 0 && id != address(0));
        begin(START, START + 200);
        GatewayEscrow.GatewayDeposit memory d = termsOf(ID, signer, START, START + 200);
        d.releaser = id;
        return reserved(d, address(token), 100, 90);
    }

    /// The signatures are of different members.
    function areMembers(bytes memory members, uint8 n, uint8[] memory indexes, bytes[] memory signatures) private view {
        address last;
        for (uint256 i = 0; i < indexes.length; i++) {
            uint8 index = known(indexes[i], n);
            assert(index < n);
            address member = address(bytes20(wordAt(members, 20 * uint256(index))));
            assert(member > last && signerOf(signatures[i]) == member);
            last = member;
        }
    }

    /// The index as a number that Halmos knows, one path each; whatever is no place among the members counts as `n`.
    function known(uint8 index, uint8 n) private pure returns (uint8 i) {
        while (i < n && i != index) i++;
    }

    function wordAt(bytes memory data, uint256 place) private pure returns (bytes32 word) {
        assembly ("memory-safe") {
            word := mload(add(add(data, 0x20), place))
        }
    }

    function signerOf(bytes memory signature) private view returns (address) {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("GatewayEscrow"), keccak256("1"), block.chainid, address(escrow))
        );
        bytes32 delivery = keccak256(abi.encode(DELIVERY_TYPEHASH, ID, QUOTE, SETTLER));
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", domain, delivery));
        return ecrecover(digest, uint8(signature[64]), wordAt(signature, 0), wordAt(signature, 32));
    }
}

/// @notice What a set of verifiers says takes its members: for sets of any members, and set attestations of any content whose
/// threshold and number are the set's (with others the length is not right), a release takes as many signatures by different
/// members as the threshold says. Sizes are those of the checks' names. That no two sets have one id is assumed of the hash.
/// @custom:halmos --loop 16
contract VerifierSetProofs is VerifierSetWords {
    function check_OneOfOne(uint8[1] memory at) public {
        uint8[] memory indexes = new uint8[](1);
        indexes[0] = at[0];
        takesItsMembers(1, indexes);
    }

    function check_TwoOfTwo(uint8[2] memory at) public {
        uint8[] memory indexes = new uint8[](2);
        (indexes[0], indexes[1]) = (at[0], at[1]);
        takesItsMembers(2, indexes);
    }

    function check_TwoOfThree(uint8[2] memory at) public {
        uint8[] memory indexes = new uint8[](2);
        (indexes[0], indexes[1]) = (at[0], at[1]);
        takesItsMembers(3, indexes);
    }
}

/// @notice What takes minutes.
/// @custom:halmos --loop 16
contract VerifierSetProofsNightly is VerifierSetWords {
    function check_ThreeOfFour(uint8[3] memory at) public {
        uint8[] memory indexes = new uint8[](3);
        (indexes[0], indexes[1], indexes[2]) = (at[0], at[1], at[2]);
        takesItsMembers(4, indexes);
    }
}
