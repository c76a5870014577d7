// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DepositAddress} from "./DepositAddress.sol";
import {DepositAddresses} from "./DepositAddresses.sol";

/// @title Addresses for payers who cannot sign, on Tron
/// @notice `DepositAddresses` where CREATE2 hashes the byte 0x41, with which an address of Tron begins, in place of Ethereum's 0xff.
/// The terms, the two ways that money can go, and who can do what are the same. What is here besides is a record of returns.
///
/// Nothing deploys a contract at the same place on every network of Tron, so this one has another address on each. What its addresses
/// run is made by CREATE2, too: whoever knows where this contract is knows them all, by computing. On every other chain what is sent to
/// one of them is lost, since this contract is there nowhere else.
///
/// The rule by which the chain makes addresses is tried out when this contract is deployed: where it is another one, there is no such
/// contract, and so nobody sends money to an address that nobody commands.
///
/// No node of Tron searches logs. So this contract keeps in which block the terms' token was given back last, and an event leads from
/// each return to the one before it: whoever looks later finds them all.
///
/// TRC-10 tokens that come to an address stay there; a TRC-20, or TRX from before the address has its code, goes back.
contract TronDepositAddresses is DepositAddresses {
    /// @notice The terms' token left the address `from`, as `GivenBack` tells in the same transaction; the return before was in block
    /// `previous`, or there was none (zero).
    event GivenBackAfter(address indexed from, uint256 previous);

    /// @notice This chain made the address `made` where Tron makes `expected`.
    error OtherAddressRule(address made, address expected);

    /// @dev The implementation's salt: there is one.
    bytes32 private constant IMPLEMENTATION_SALT = 0;

    /// @notice The block in which the terms' token was last given back from an address; zero where it never was.
    mapping(address at => uint256 blockNumber) public givenBackIn;

    /// @inheritdoc DepositAddresses
    function giveBack(Terms calldata t, address token) public override returns (uint256 amount) {
        amount = super.giveBack(t, token);
        if (token == t.token) {
            address at = addressOf(t);
            emit GivenBackAfter(at, givenBackIn[at]);
            givenBackIn[at] = block.number;
        }
    }

    /// @inheritdoc DepositAddresses
    function addressOf(Terms calldata t) public view override returns (address) {
        if (t.deposit.payer == address(0)) revert PayerMissing();
        return _placeOf(_saltOf(t), keccak256(_proxyCreation()));
    }

    /// @notice What `at` has of `token`, and when the terms' token was last given back from there, with the block by whose
    /// state that is so: a node of Tron does not say it. Nothing of a token without code.
    /// @param at an address of this contract's
    /// @param token the token, or zero for TRX
    /// @return held in the token's smallest unit
    /// @return lastGivenBackIn as `givenBackIn` has it
    /// @return blockNumber the block that answers
    /// @return time that block's, UNIX seconds
    function heldAsOf(address at, address token)
        external
        view
        returns (uint256 held, uint256 lastGivenBackIn, uint256 blockNumber, uint256 time)
    {
        return (_heldBy(at, token), givenBackIn[at], block.number, block.timestamp);
    }

    /// @dev Makes what every address runs, where it can be computed from this contract's own address.
    function _madeImplementation() internal override returns (address made) {
        made = address(new DepositAddress{salt: IMPLEMENTATION_SALT}());
        address expected = _placeOf(IMPLEMENTATION_SALT, keccak256(type(DepositAddress).creationCode));
        if (made != expected) revert OtherAddressRule(made, expected);
    }

    /// @dev The first byte of what CREATE2 hashes.
    function _create2Prefix() internal pure virtual returns (bytes1) {
        return 0x41;
    }

    /// @dev Where CREATE2 puts what this contract makes by creation code of that hash.
    function _placeOf(bytes32 salt, bytes32 creationHash) private view returns (address) {
        return address(uint160(uint256(keccak256(abi.encodePacked(_create2Prefix(), address(this), salt, creationHash)))));
    }

    /// @dev The code that makes a minimal proxy (ERC-1167), as `Clones` writes it.
    function _proxyCreation() private view returns (bytes memory) {
        return abi.encodePacked(
            hex"3d602d80600a3d3981f3363d3d373d3d3d363d73", implementation, hex"5af43d82803e903d91602b57fd5bf3"
        );
    }
}
