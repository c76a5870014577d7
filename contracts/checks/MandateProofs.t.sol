// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {IPermit2Allowance} from "../src/IPermit2Allowance.sol";
import {Mandates} from "../src/Mandates.sol";
import {Authority} from "./support/Authority.sol";
import {Hash} from "./support/Hash.sol";
import {svm, vm} from "./support/Proofs.sol";

/// @notice Permit2 where the payer has allowed the mandate's address everything, once its signature was brought; it keeps what that was
/// for, and moves what the address asks for.
contract MovesAllowances {
    address private immutable _spender;
    bytes32 public asked;
    uint256 public times;

    constructor(address spender) {
        _spender = spender;
    }

    function allowance(address, address, address at) external view returns (uint160, uint48, uint48) {
        return at == _spender && times != 0 ? (type(uint160).max, type(uint48).max, 1) : (0, 0, 0);
    }

    function permit(address owner, IPermit2Allowance.PermitSingle calldata p, bytes calldata) external {
        asked = keccak256(abi.encode(owner, p));
        times++;
    }

    function transferFrom(address from, address to, uint160 amount, address token) external {
        require(msg.sender == _spender && times != 0, "allowance");
        DevToken(token).transferFrom(from, to, amount);
    }
}

/// @notice One mandate, known in full, and what is asked for under it.
abstract contract KnownMandate is Authority {
    bytes32 internal constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 internal constant CHARGE_TYPEHASH = keccak256(
        "Charge(address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)"
    );
    bytes32 internal constant CANCELLATION_TYPEHASH = keccak256("Cancellation(address mandate)");
    address internal constant MERCHANT = address(0x3e5c4);
    uint160 internal constant MOST = 1 << 20;
    uint256 internal constant LEAST = 1 << 30;
    uint48 internal constant BEGINS = START;
    uint32 internal constant PERIOD = 1 << 12;
    uint32 internal constant PERIODS = 4;
    uint48 internal constant END = BEGINS + uint48(PERIOD) * PERIODS;
    /// Longer than all periods.
    uint32 internal constant LOCK = 1 << 15;

    Mandates internal mandates;
    Mandates.Mandate internal mandate;
    address internal at;
    bytes32 internal domain;
    /// Another that somebody sent there.
    DevToken internal other;

    /// What is unknown of a charge.
    struct Asked {
        uint128 fulfillmentAmount;
        uint160 amount;
        uint48 reserveDeadline;
        uint48 fulfillmentDeadline;
        uint48 refundAfter;
    }

    function setUp() public override {
        super.setUp();
        mandates = new Mandates();
        other = new DevToken("Other", "dOTH", 6);
        mandate = Mandates.Mandate(
            PAYER,
            MERCHANT,
            address(stable),
            MOST,
            LEAST,
            address(escrow),
            RELEASER,
            BEGINS,
            PERIOD,
            PERIODS,
            LOCK,
            bytes32(uint256(7)),
            "before",
            "after"
        );
        at = mandates.addressOf(mandate);
        vm.etch(permit2, address(new MovesAllowances(at)).code);
        vm.prank(PAYER);
        stable.approve(permit2, type(uint256).max);
        domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256("GatewayMandates"), keccak256("1"), block.chainid, address(mandates))
        );
        vm.etch(address(uint160(block.chainid)), address(new Hash()).code);
        vm.etch(address(mandates), withOtherTerms(address(mandates).code));
    }

    /// Where the code asks the precompile of SHA-256 it asks at the address that is the chain's id, which it pushes (CHAINID) instead of
    /// what the compiler takes from the stack (DUP6). And a number's text (`Strings.toString`), of which the length is found by its
    /// logarithm, is its word:
    ///
    ///     text := mload(0x40)  mstore(text, 32)  mstore(add(text, 32), number)  mstore(0x40, add(text, 64))
    function withOtherTerms(bytes memory code) internal pure returns (bytes memory) {
        bytes memory text = hex"5b6040516020815290816020015280604001604052" hex"9056";
        uint256 hashes;
        uint256 texts;
        for (uint256 i = 0; i + 64 < code.length; i++) {
            bytes32 word;
            assembly ("memory-safe") {
                word := mload(add(add(code, 0x20), i))
            }
            if (bytes12(word) == hex"602060405180830381855afa") {
                code[i + 9] = 0x46;
                hashes++;
            }
            // As far as where the logarithm is called, and behind that.
            bytes12 logarithm = bytes12(word << 72) & hex"ff0000ffffffffffffffffff";
            if (bytes6(word) == hex"5b6060600061" && logarithm == hex"610000565b60010190506000") {
                for (uint256 k = 0; k < text.length; k++) code[i + k] = text[k];
                texts++;
            }
        }
        assert(hashes == 1 && texts == 1);
        return code;
    }

    function charge(bytes32 id, Asked memory a, bytes memory signed) internal pure returns (Mandates.Charge memory) {
        return Mandates.Charge(
            id,
            a.fulfillmentAmount,
            a.amount,
            RESERVER,
            a.reserveDeadline,
            a.fulfillmentDeadline,
            a.refundAfter,
            signed
        );
    }

    function chargeHash(Mandates.Charge memory c) internal view returns (bytes32) {
        return keccak256(
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
        );
    }

    /// So much lies at the address, of another token, and of coins.
    function lay(uint128 strays, uint128 strange, uint128 coins) internal {
        vm.assume(strays < type(uint128).max / 2);
        stable.mint(at, strays);
        other.mint(at, strange);
        vm.deal(at, coins);
    }

    function tryToDraw(Mandates.Charge memory c, GatewayEscrow.Reservation memory r, uint48 admittedUntil, bytes memory signed)
        internal
        returns (bool done)
    {
        (done,) = address(mandates).call(
            abi.encodeCall(mandates.deposit, (mandate, bytes("permit"), c, r, admittedUntil, signed))
        );
    }

    function used() internal view returns (uint32 period, uint160 amount) {
        (period, amount,) = mandates.used(at);
    }

    function permitted() internal view returns (bytes32) {
        IPermit2Allowance.PermitDetails memory details =
            IPermit2Allowance.PermitDetails(address(stable), MOST * PERIODS, END - 1, 0);
        return keccak256(abi.encode(PAYER, IPermit2Allowance.PermitSingle(details, at, END - 1)));
    }
}

/// @notice (i) By a mandate no more is drawn in a period than it says, with the merchant's signature and the reserver's over just the
/// deposit that is made, while it is in force and not ended; and money leaves its address for the escrow or the payer alone, whoever
/// calls, whenever, with any charges, awards and signatures and any amounts lying there. The mandate is one, known in full, since Halmos
/// computes neither an address nor a known hash of what it does not know, and its numbers are powers of two, by which a solver divides;
/// another hash stands for SHA-256 and a word for each number's digits, and signatures have 65 bytes. That other mandates are other
/// addresses and other signatures, and which terms follow from what numbers, is in `Mandates*.t.sol` (every bit, and fuzz).
/// @custom:halmos --solver-timeout-branching 2000
contract MandateProofs is KnownMandate {
    /// Just what the merchant signed, for the payment that follows from it, while the mandate is in force, no more than it says and not for
    /// longer; with the reserver's signature over that and the award, in time. What lies there stays there.
    function check_ADepositTakesTheMerchantsWordAndTheReservers(
        Attempt memory a,
        Asked memory asked,
        GatewayEscrow.Reservation memory r,
        uint128 strays,
        uint48 admittedUntil
    ) public {
        lay(strays, 0, 0);
        bytes memory byReserver = signature("reserver");
        Mandates.Charge memory c = charge(ID, asked, signature("merchant"));
        vm.warp(a.time);
        vm.roll(block.number + 1);
        vm.prank(a.caller);
        bool done = tryToDraw(c, r, admittedUntil, byReserver);
        if (!done) return;
        GatewayEscrow.GatewayDeposit memory d = mandates.depositOf(mandate, c);
        assert(a.time >= BEGINS && a.time < END && a.time <= admittedUntil && a.time <= d.reserveDeadline);
        assert(c.amount != 0 && c.amount <= MOST && c.refundAfter <= uint256(a.time) + LOCK);
        assert(c.fulfillmentAmount * MOST >= LEAST * c.amount);
        assert(signerOf(domain, chargeHash(c), c.signature) == MERCHANT);
        assert(d.paymentId == ID && d.payer == PAYER && d.reserver == RESERVER && d.releaser == RELEASER);
        assert(d.quoteHash == 0 && d.reserveDeadline == asked.reserveDeadline && d.refundAfter == c.refundAfter);
        assert(signerOf(admission(d, r, c.amount, admittedUntil), byReserver) == RESERVER);
        assert(r.paymentId == ID && r.sourceAmount != 0 && r.sourceAmount <= c.amount);
        assert(stable.balanceOf(at) == strays && stable.balanceOf(address(escrow)) == c.amount);
        assert(stable.balanceOf(PAYER) == WEALTH - c.amount && stable.allowance(at, address(escrow)) == 0);
        assert(MovesAllowances(permit2).times() == 1 && MovesAllowances(permit2).asked() == permitted());
        (uint32 period, uint160 amount) = used();
        assert(period == (a.time - BEGINS) / PERIOD && amount == c.amount);
        isReserved(awarded(GatewayEscrow.Escrow(d, address(stable), c.amount, 0, address(0), 0, 0), r), 1, block.number);
    }

    /// Once it is ended, which takes its payer, its merchant or the payer's signature, nothing is drawn by it any more.
    function check_NothingIsDrawnOnceItIsEnded(Attempt memory a, Asked memory asked, uint48 later) public {
        bytes memory byPayer = signature("payer");
        sign(true);
        GatewayEscrow.Reservation memory r = GatewayEscrow.Reservation(ID, QUOTE, SETTLER, 1, END);
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool ended,) = address(mandates).call(abi.encodeCall(mandates.cancel, (mandate, byPayer)));
        (,, bool cancelled) = mandates.used(at);
        assert(cancelled == ended);
        if (!ended) return;
        bytes32 structHash = keccak256(abi.encode(CANCELLATION_TYPEHASH, at));
        assert(a.caller == PAYER || a.caller == MERCHANT || signerOf(domain, structHash, byPayer) == PAYER);
        vm.warp(later);
        assert(!tryToDraw(charge(ID, asked, signature("merchant")), r, type(uint48).max, ""));
        assert(mandates.leftOf(mandate) == 0 && stable.balanceOf(PAYER) == WEALTH);
    }

    /// All of a token or of the coins, to the payer alone, at any time; nothing else moves with it.
    function check_WhatLiesAtAMandatesAddressIsThePayers(
        Attempt memory a,
        uint8 what,
        uint128 strays,
        uint128 strange,
        uint128 coins
    ) public {
        lay(strays, strange, coins);
        vm.assume(what < 3);
        address asset = what == 0 ? address(stable) : what == 1 ? address(other) : address(0);
        uint256 there = what == 0 ? strays : what == 1 ? strange : coins;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = address(mandates).call(abi.encodeCall(mandates.giveBack, (mandate, asset)));
        assert(done == (there != 0));
        assert(stable.balanceOf(at) == (what == 0 ? 0 : strays));
        assert(stable.balanceOf(PAYER) == WEALTH + (what == 0 ? strays : 0));
        assert(other.balanceOf(at) == (what == 1 ? 0 : strange) && other.balanceOf(PAYER) == (what == 1 ? strange : 0));
        assert(at.balance == (what == 2 ? 0 : coins) && PAYER.balance == (what == 2 ? coins : 0));
        assert(MovesAllowances(permit2).times() == 0);
    }

    /// Whatever anyone but the contract says to an address or to the code behind it is refused.
    function check_OnlyTheContractCommandsAnAddressOfAMandate(Attempt memory a, bool implementation) public {
        lay(1, 1, 0);
        mandates.giveBack(mandate, address(other));
        vm.assume(a.caller != address(mandates));
        bytes memory call = svm.createCalldata("MandateAddress");
        address target = implementation ? mandates.implementation() : at;
        vm.warp(a.time);
        vm.prank(a.caller);
        (bool done,) = target.call(call);
        assert(!done);
        assert(stable.balanceOf(at) == 1 && stable.balanceOf(PAYER) == WEALTH);
    }
}

/// @notice The same of two charges, which takes minutes.
/// @custom:halmos --solver-timeout-branching 2000
contract MandateProofsNightly is KnownMandate {
    /// Two charges at any two moments, of any amounts: in one period both together are no more than it says, and in two each is its
    /// own's. One that is refused changes nothing, so the next is as if it were the first.
    function check_InAPeriodNoMoreThanItsAmount(uint160 first, uint160 next, uint48 time, uint48 later) public {
        vm.assume(later >= time);
        sign(true);
        vm.warp(time);
        if (!isDrawn(ID, first)) return;
        assert(first <= MOST);
        vm.warp(later);
        if (!isDrawn(OTHER_ID, next)) return;
        (uint256 period, uint256 amount) = used();
        assert(period == (later - BEGINS) / PERIOD);
        assert(amount == ((time - BEGINS) / PERIOD == period ? uint256(first) + next : next) && amount <= MOST);
        assert(stable.balanceOf(PAYER) == WEALTH - first - next && stable.balanceOf(at) == 0);
        assert(stable.balanceOf(address(escrow)) == uint256(first) + next);
    }

    /// Whether it is, with enough delivered for it and windows that are open all the time. Whose signature it is that is always the same
    /// bytes is unknown still, as the digest is.
    function isDrawn(bytes32 id, uint160 amount) private returns (bool) {
        bytes memory signed = abi.encodePacked(uint256(1), uint256(1), uint8(27));
        Asked memory asked = Asked(type(uint128).max, amount, END, END, END + 1);
        GatewayEscrow.Reservation memory r = GatewayEscrow.Reservation(id, QUOTE, SETTLER, 1, END);
        return tryToDraw(charge(id, asked, signed), r, END, "");
    }
}
