// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

import {TrickToken} from "./TrickToken.sol";

/// @notice A `TrickToken` that takes keys' authorizations (ERC-3009): those of one kind from anyone, those of the other from the
/// recipient alone.
contract AuthorizingToken is TrickToken, EIP712 {
    bytes32 private constant RECEIVE_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    mapping(address authorizer => mapping(bytes32 nonce => bool)) public authorizationState;

    constructor() EIP712("Development USDC", "1") {}

    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external virtual {
        require(msg.sender == to, "payee");
        require(block.timestamp > validAfter && block.timestamp < validBefore, "time");
        bytes32 structHash =
            keccak256(abi.encode(RECEIVE_TYPEHASH, from, to, value, validAfter, validBefore, nonce));
        _carryOut(structHash, from, to, value, nonce, v, r, s);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external virtual {
        require(block.timestamp > validAfter && block.timestamp < validBefore, "time");
        bytes32 structHash =
            keccak256(abi.encode(TRANSFER_TYPEHASH, from, to, value, validAfter, validBefore, nonce));
        _carryOut(structHash, from, to, value, nonce, v, r, s);
    }

    function _carryOut(
        bytes32 structHash,
        address from,
        address to,
        uint256 value,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) private {
        require(!authorizationState[from][nonce], "used");
        authorizationState[from][nonce] = true;
        require(ECDSA.recover(_hashTypedDataV4(structHash), v, r, s) == from, "signature");
        _move(from, to, value);
        _answer();
    }
}

/// @notice A token that knows no authorizations and takes every call.
contract TakesEveryCall is TrickToken {
    fallback() external {}
}

/// @notice A token that fails with as many bytes as it is told, whatever it is asked to move.
contract FailsWithBytes is AuthorizingToken {
    uint256 private immutable _size;

    constructor(uint256 size) {
        _size = size;
    }

    function _move(address, address, uint256) internal view override {
        uint256 size = _size;
        assembly {
            revert(0x80, size)
        }
    }
}
