// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {ERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/ERC20Permit.sol";
import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";

/// @title A development token that takes signatures as USDC does: worthless, anyone mints any amount
/// @notice ERC-20 with ERC-2612 and ERC-3009, each with keys' signatures and in one piece, for local networks and tests. Never
/// give it value.
contract DevStablecoin is ERC20Permit {
    bytes32 public constant TRANSFER_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant RECEIVE_WITH_AUTHORIZATION_TYPEHASH = keccak256(
        "ReceiveWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    bytes32 public constant CANCEL_AUTHORIZATION_TYPEHASH =
        keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");
    /// @notice The version in the domain of what is signed.
    string public constant version = "1";

    uint8 private immutable _decimals;
    mapping(address authorizer => mapping(bytes32 nonce => bool used)) private _used;

    /// @notice A nonce was used.
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    /// @notice A nonce was given up by its owner.
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    error CallerNotPayee();
    error AuthorizationNotYetValid();
    error AuthorizationExpired();
    error AuthorizationUsedOrCanceled();
    error SignatureInvalid();

    /// @param name_ the token's name, which is in the domain of what is signed
    /// @param symbol_ the token's symbol
    /// @param decimals_ how many decimal places one whole token has
    constructor(string memory name_, string memory symbol_, uint8 decimals_) ERC20(name_, symbol_) ERC20Permit(name_) {
        _decimals = decimals_;
    }

    /// @notice Creates `amount` (smallest unit) for `to`. Open to everyone: this is a development token.
    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    /// @notice Moves money by its owner's signature; anyone may call.
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
    ) external {
        bytes memory signature = abi.encodePacked(r, s, v);
        _move(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    /// @notice As above, with a signature in one piece.
    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external {
        _move(TRANSFER_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    /// @notice Moves money by its owner's signature; only `to` may call.
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
    ) external {
        if (msg.sender != to) revert CallerNotPayee();
        bytes memory signature = abi.encodePacked(r, s, v);
        _move(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    /// @notice As above, with a signature in one piece.
    function receiveWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) external {
        if (msg.sender != to) revert CallerNotPayee();
        _move(RECEIVE_WITH_AUTHORIZATION_TYPEHASH, from, to, value, validAfter, validBefore, nonce, signature);
    }

    /// @notice Gives a nonce up, by its owner's signature.
    function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external {
        _cancel(authorizer, nonce, abi.encodePacked(r, s, v));
    }

    /// @notice As above, with a signature in one piece.
    function cancelAuthorization(address authorizer, bytes32 nonce, bytes memory signature) external {
        _cancel(authorizer, nonce, signature);
    }

    /// @notice Gives the allowance by a signature in one piece.
    function permit(address owner, address spender, uint256 value, uint256 deadline, bytes memory signature) external {
        if (block.timestamp > deadline) revert ERC2612ExpiredSignature(deadline);
        bytes32 structHash = keccak256(
            abi.encode(
                keccak256("Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"),
                owner,
                spender,
                value,
                _useNonce(owner),
                deadline
            )
        );
        if (!SignatureChecker.isValidSignatureNow(owner, _hashTypedDataV4(structHash), signature)) {
            revert SignatureInvalid();
        }
        _approve(owner, spender, value);
    }

    /// @notice Whether a nonce was used or given up.
    function authorizationState(address authorizer, bytes32 nonce) external view returns (bool) {
        return _used[authorizer][nonce];
    }

    /// @notice How many decimal places one whole token has, as given at deployment.
    function decimals() public view override returns (uint8) {
        return _decimals;
    }

    function _move(
        bytes32 typehash,
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) private {
        if (block.timestamp <= validAfter) revert AuthorizationNotYetValid();
        if (block.timestamp >= validBefore) revert AuthorizationExpired();
        _use(
            from, nonce, keccak256(abi.encode(typehash, from, to, value, validAfter, validBefore, nonce)), signature
        );
        emit AuthorizationUsed(from, nonce);
        _transfer(from, to, value);
    }

    function _cancel(address authorizer, bytes32 nonce, bytes memory signature) private {
        _use(authorizer, nonce, keccak256(abi.encode(CANCEL_AUTHORIZATION_TYPEHASH, authorizer, nonce)), signature);
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function _use(address authorizer, bytes32 nonce, bytes32 structHash, bytes memory signature) private {
        if (_used[authorizer][nonce]) revert AuthorizationUsedOrCanceled();
        _used[authorizer][nonce] = true;
        if (!SignatureChecker.isValidSignatureNow(authorizer, _hashTypedDataV4(structHash), signature)) {
            revert SignatureInvalid();
        }
    }
}
