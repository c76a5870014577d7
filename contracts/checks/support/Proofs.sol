// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../../src/DevToken.sol";
import {GatewayEscrow} from "../../src/GatewayEscrow.sol";
import {IPermit2} from "../../src/IPermit2.sol";

/// @notice What Halmos knows of forge's cheat codes.
interface Vm {
    function assume(bool condition) external pure;
    function etch(address target, bytes calldata code) external;
    function load(address target, bytes32 slot) external view returns (bytes32);
    function prank(address caller) external;
    function roll(uint256 number) external;
    function warp(uint256 time) external;
    function deal(address account, uint256 balance) external;
}

/// @notice Halmos' own: values of which nothing is known.
interface Svm {
    function createUint256(string memory name) external pure returns (uint256);
    function createBool(string memory name) external pure returns (bool);
    function createBytes(uint256 size, string memory name) external pure returns (bytes memory);
    function createCalldata(string memory contractName) external pure returns (bytes memory);
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
Svm constant svm = Svm(address(uint160(uint256(keccak256("svm cheat code")))));

/// @notice A reserver and releaser that has signed everything: what holds with any signature holds with every.
contract SignsAll {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        return this.isValidSignature.selector;
    }
}

/// @notice Permit2 where the payer has signed everything. It moves what it is asked for, whatever is permitted: that the escrow asks for
/// no more is shown without its help.
contract MovesAnything {
    function permitTransferFrom(
        IPermit2.PermitTransferFrom calldata permit,
        IPermit2.SignatureTransferDetails calldata details,
        address owner,
        bytes calldata
    ) external {
        DevToken(permit.permitted.token).transferFrom(owner, details.to, details.requestedAmount);
    }

    function permitWitnessTransferFrom(
        IPermit2.PermitTransferFrom calldata permit,
        IPermit2.SignatureTransferDetails calldata details,
        address owner,
        bytes32,
        string calldata,
        bytes calldata
    ) external {
        DevToken(permit.permitted.token).transferFrom(owner, details.to, details.requestedAmount);
    }
}

/// @notice A token that denies receivers: by reverting, or by answering false and moving nothing.
contract DenyingToken is DevToken {
    mapping(address receiver => uint8 how) public denial;

    constructor() DevToken("Development USD", "dUSD", 6) {}

    function deny(address receiver, uint8 how) external {
        denial[receiver] = how;
    }

    function transfer(address to, uint256 amount) public override returns (bool) {
        if (denial[to] == 1) revert("denied");
        if (denial[to] == 2) return false;
        return super.transfer(to, amount);
    }
}

/// @notice What the proofs have in common: an escrow, a payer with money, and payments of any amount and windows. Halmos knows
/// nothing of gas: what a proof says of a call holds for every amount of gas with which the call is not refused as `GasTooLow`.
abstract contract Proofs {
    bytes32 internal constant ID = keccak256("pay_1");
    bytes32 internal constant OTHER_ID = keccak256("pay_2");
    bytes32 internal constant QUOTE = keccak256("quote");
    bytes32 internal constant NEXT_QUOTE = keccak256("next quote");
    address internal constant PAYER = address(0x9a7e);
    address internal constant SETTLER = address(0x5e77);
    address internal constant NEXT_SETTLER = address(0x5e78);
    address internal constant GUARDIAN = address(0x60a2d);
    uint256 internal constant WEALTH = type(uint128).max;

    GatewayEscrow internal escrow;
    address internal permit2;

    /// @param reserver who admits deposits
    function deploy(address reserver) internal {
        permit2 = address(new MovesAnything());
        escrow = new GatewayEscrow(permit2, reserver, GUARDIAN, 300_000);
    }

    /// The payer has all of the token, and lets the escrow and Permit2 take it.
    function enrich(DevToken token) internal {
        token.mint(PAYER, WEALTH);
        vm.prank(PAYER);
        token.approve(address(escrow), type(uint256).max);
        vm.prank(PAYER);
        token.approve(permit2, type(uint256).max);
    }

    /// A payment as a proof begins with it; all of it is unknown.
    struct Begun {
        uint128 amount;
        uint128 quoted;
        uint48 start;
        uint48 refundAfter;
    }

    /// The payment `id`, reserved for the first settler, with every word that there can be.
    function begun(Begun memory p, bytes32 id, address signer, address token)
        internal
        returns (GatewayEscrow.Escrow memory)
    {
        vm.assume(p.quoted != 0 && p.quoted <= p.amount);
        begin(p.start, p.refundAfter);
        return reserved(termsOf(id, signer, p.start, p.refundAfter), token, p.amount, p.quoted);
    }

    /// Windows that a deposit can have at `start`, a promise of half of the time that there is, and the clock there.
    function begin(uint48 start, uint48 refundAfter) internal {
        vm.assume(start < type(uint48).max - 1_000 && refundAfter > start + 100);
        vm.warp(start);
    }

    function termsOf(bytes32 id, address signer, uint48 start, uint48 refundAfter)
        internal
        pure
        returns (GatewayEscrow.GatewayDeposit memory)
    {
        return GatewayEscrow.GatewayDeposit({
            paymentId: id,
            termsHash: bytes32(0),
            quoteHash: bytes32(0),
            payer: PAYER,
            reserver: signer,
            releaser: signer,
            reserveDeadline: start,
            fulfillmentDeadline: start + 100,
            refundAfter: refundAfter
        });
    }

    /// A payment that the payer has deposited.
    function deposited(GatewayEscrow.GatewayDeposit memory d, address token, uint256 amount)
        internal
        returns (GatewayEscrow.Escrow memory)
    {
        vm.prank(PAYER);
        escrow.depositOwn(d, token, amount, "");
        return GatewayEscrow.Escrow(d, token, amount, d.quoteHash, address(0), 0, 0);
    }

    /// The same, reserved for the first settler.
    function reserved(GatewayEscrow.GatewayDeposit memory d, address token, uint256 amount, uint256 quoted)
        internal
        returns (GatewayEscrow.Escrow memory e)
    {
        e = deposited(d, token, amount);
        uint48 fulfillBy = d.reserveDeadline + 50;
        escrow.reserve(e, GatewayEscrow.Reservation(d.paymentId, QUOTE, SETTLER, quoted, fulfillBy), "");
        (e.quoteHash, e.settler, e.sourceAmount, e.fulfillBy) = (QUOTE, SETTLER, quoted, fulfillBy);
    }

    /// What the terms are after a reassignment.
    function asReassigned(GatewayEscrow.Escrow memory e, uint256 amount, uint48 fulfillBy)
        internal
        pure
        returns (GatewayEscrow.Escrow memory)
    {
        return GatewayEscrow.Escrow(e.deposit, e.token, e.deposited, NEXT_QUOTE, NEXT_SETTLER, amount, fulfillBy);
    }

    function reassignment(GatewayEscrow.Escrow memory e, uint256 amount, uint48 fulfillBy)
        internal
        view
        returns (bytes memory)
    {
        GatewayEscrow.Reservation memory r =
            GatewayEscrow.Reservation(e.deposit.paymentId, NEXT_QUOTE, NEXT_SETTLER, amount, fulfillBy);
        return abi.encodeCall(escrow.reassign, (e, r, "", ""));
    }

    function tried(bytes memory data) internal returns (bool done) {
        (done,) = address(escrow).call(data);
    }

    /// Whether the call went through; where it was for too little gas that it did not, the path is none that counts.
    function triedWithGas(bytes memory data) internal returns (bool) {
        (bool done, bytes memory why) = address(escrow).call(data);
        vm.assume(done || bytes4(why) != GatewayEscrow.GasTooLow.selector);
        return done;
    }

    function stateOf(bytes32 id) internal view returns (GatewayEscrow.State) {
        return escrow.recordOf(id).state;
    }

    /// What the escrow owes for a payment that stands so.
    function open(bytes32 id, uint256 amount) internal view returns (uint256) {
        GatewayEscrow.State state = stateOf(id);
        return state == GatewayEscrow.State.Deposited || state == GatewayEscrow.State.Reserved ? amount : 0;
    }

    function isOver(bytes32 id) internal view returns (bool) {
        return uint8(stateOf(id)) > uint8(GatewayEscrow.State.Reserved);
    }
}
