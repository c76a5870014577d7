// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevStablecoin} from "../src/DevStablecoin.sol";
import {DevToken} from "../src/DevToken.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {MovesAnything, SignsAll, vm} from "./support/Proofs.sol";

/// @notice Properties that Halmos proves for all amounts, times and windows at once, not for examples. An ordinary token;
/// hostile ones are in `EscrowHostile.t.sol` and `EscrowExits.t.sol`.
contract EscrowProperties {
    bytes32 private constant ID = keccak256("pay_1");
    bytes32 private constant QUOTE = keccak256("quote");
    bytes32 private constant NEXT_QUOTE = keccak256("next quote");
    address private constant PAYER = address(0x9a7e);
    address private constant SETTLER = address(0x5e77);
    address private constant NEXT_SETTLER = address(0x5e78);
    address private constant GUARDIAN = address(0x60a2d);
    uint256 private constant WEALTH = type(uint128).max;

    GatewayEscrow private escrow;
    DevToken private token;
    address private signer;
    /// The payment's terms as they stand.
    GatewayEscrow.Escrow private terms;

    function setUp() public {
        signer = address(new SignsAll());
        MovesAnything permit2 = new MovesAnything();
        escrow = new GatewayEscrow(address(permit2), signer, GUARDIAN, 300_000);
        token = new DevToken("Development USD", "dUSD", 6);
        token.mint(PAYER, WEALTH);
        vm.prank(PAYER);
        token.approve(address(escrow), type(uint256).max);
        vm.prank(PAYER);
        token.approve(address(permit2), type(uint256).max);
    }

    /// A payment of any amount and windows, reserved for any part of it.
    function reserved(uint128 deposited, uint128 quoted, uint48 start, uint48 refundAfter) private {
        reserved(QUOTE, deposited, quoted, start, refundAfter);
    }

    /// As the other, of a payer who named the quote `agreed`, or none. The settler promises half of the time that there is.
    function reserved(bytes32 agreed, uint128 deposited, uint128 quoted, uint48 start, uint48 refundAfter) private {
        vm.assume(deposited != 0 && quoted != 0 && quoted <= deposited);
        vm.assume(start < type(uint48).max - 1_000 && refundAfter > start + 100);
        vm.warp(start);
        GatewayEscrow.GatewayDeposit memory d = GatewayEscrow.GatewayDeposit({
            paymentId: ID,
            termsHash: bytes32(0),
            quoteHash: agreed,
            payer: PAYER,
            reserver: signer,
            releaser: signer,
            reserveDeadline: start,
            fulfillmentDeadline: start + 100,
            refundAfter: refundAfter
        });
        vm.prank(PAYER);
        escrow.depositOwn(d, address(token), deposited, "");
        GatewayEscrow.Escrow memory e = GatewayEscrow.Escrow(d, address(token), deposited, agreed, address(0), 0, 0);
        escrow.reserve(e, GatewayEscrow.Reservation(ID, QUOTE, SETTLER, quoted, start + 50), "");
        (e.quoteHash, e.settler, e.sourceAmount, e.fulfillBy) = (QUOTE, SETTLER, quoted, start + 50);
        terms = e;
    }

    function tried(bytes memory data) private returns (bool done) {
        (done,) = address(escrow).call(data);
    }

    function release() private returns (bool) {
        return tried(abi.encodeCall(escrow.release, (terms, "")));
    }

    function cancel() private returns (bool) {
        return tried(abi.encodeCall(escrow.cancel, (terms, "")));
    }

    function refund() private returns (bool) {
        return tried(abi.encodeCall(escrow.refund, (terms)));
    }

    /// Reassigns to the next settler, and keeps the terms as they stand then.
    function reassign(uint256 amount, uint48 fulfillBy) private returns (bool done) {
        GatewayEscrow.Reservation memory r =
            GatewayEscrow.Reservation(ID, NEXT_QUOTE, NEXT_SETTLER, amount, fulfillBy);
        done = tried(abi.encodeCall(escrow.reassign, (terms, r, "", "")));
        if (!done) return false;
        (terms.quoteHash, terms.settler, terms.sourceAmount, terms.fulfillBy) =
            (NEXT_QUOTE, NEXT_SETTLER, amount, fulfillBy);
    }

    /// At any second either what the releaser signs counts or the refund does, never both.
    function check_WindowsNeverOverlap(uint128 amount, uint48 start, uint48 refundAfter, uint48 time) public {
        reserved(amount, amount, start, refundAfter);
        vm.assume(time >= start);
        vm.warp(time);
        if (refund()) assert(time >= refundAfter);
        else if (release()) assert(time < refundAfter);
    }

    /// Whatever ended a payment, nothing ends it again, at whatever time.
    function check_ReleaseAndRefundExcludeEachOther(
        uint128 amount,
        uint48 start,
        uint48 refundAfter,
        uint48 first,
        uint48 second,
        uint8 way
    ) public {
        reserved(amount, amount, start, refundAfter);
        vm.assume(first >= start && second >= first);
        vm.warp(first);
        vm.assume(way == 0 ? release() : way == 1 ? cancel() : refund());
        vm.warp(second);
        assert(!release());
        assert(!cancel());
        assert(!refund());
    }

    /// Whatever terms somebody brings: a refund is paid by the payment's own alone.
    function check_NoOtherTermsAreRefunded(
        uint128 amount,
        uint48 start,
        uint48 refundAfter,
        address payer,
        address token_,
        uint256 deposited,
        uint48 otherRefundAfter
    ) public {
        reserved(amount, amount, start, refundAfter);
        GatewayEscrow.Escrow memory e = terms;
        e.deposit.payer = payer;
        e.token = token_;
        e.deposited = deposited;
        e.deposit.refundAfter = otherRefundAfter;
        vm.warp(refundAfter);
        vm.assume(tried(abi.encodeCall(escrow.refund, (e))));
        assert(payer == PAYER && token_ == address(token) && deposited == amount && otherRefundAfter == refundAfter);
    }

    /// Two lists of terms that differ in anything have not the same commitment.
    function check_ACommitmentIsOfAllTerms(GatewayEscrow.Escrow memory a, GatewayEscrow.Escrow memory b) public view {
        vm.assume(escrow.commitmentOf(a) == escrow.commitmentOf(b));
        assert(a.deposit.paymentId == b.deposit.paymentId && a.deposit.termsHash == b.deposit.termsHash);
        assert(a.deposit.quoteHash == b.deposit.quoteHash && a.deposit.payer == b.deposit.payer);
        assert(a.deposit.reserver == b.deposit.reserver && a.deposit.releaser == b.deposit.releaser);
        assert(a.deposit.reserveDeadline == b.deposit.reserveDeadline);
        assert(a.deposit.fulfillmentDeadline == b.deposit.fulfillmentDeadline);
        assert(a.deposit.refundAfter == b.deposit.refundAfter && a.token == b.token && a.deposited == b.deposited);
        assert(a.quoteHash == b.quoteHash && a.settler == b.settler);
        assert(a.sourceAmount == b.sourceAmount && a.fulfillBy == b.fulfillBy);
    }

    /// A release pays quote and remainder, whatever they are, and leaves nothing behind.
    function check_ReleaseConserves(uint128 deposited, uint128 quoted, uint48 start, uint48 refundAfter) public {
        reserved(deposited, quoted, start, refundAfter);
        assert(token.balanceOf(address(escrow)) == deposited && escrow.owedIn(address(token)) == deposited);
        vm.assume(release());
        uint256 unpaid = escrow.claimable(SETTLER, address(token)) + escrow.claimable(PAYER, address(token));
        assert(unpaid == 0);
        assert(token.balanceOf(SETTLER) == quoted);
        assert(token.balanceOf(PAYER) == WEALTH - quoted);
        assert(token.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(token)) == 0);
    }

    /// Whatever the next settler is to get and whenever: it comes in only behind the time of the first and within the payer's
    /// window, and no money moves.
    function check_AReassignmentComesInTimeAndMovesNothing(
        uint128 deposited,
        uint48 start,
        uint48 refundAfter,
        uint48 time,
        uint256 amount,
        uint48 fulfillBy
    ) public {
        reserved(0, deposited, deposited, start, refundAfter);
        vm.assume(time >= start);
        vm.warp(time);
        vm.assume(reassign(amount, fulfillBy));
        assert(time > start + 50 && fulfillBy > time && fulfillBy <= start + 100 && fulfillBy < refundAfter);
        assert(amount != 0 && amount <= deposited);
        assert(token.balanceOf(address(escrow)) == deposited && escrow.owedIn(address(token)) == deposited);
        assert(token.balanceOf(PAYER) == WEALTH - deposited);
    }

    /// A quote that the payer named is replaced by none, at whatever time.
    function check_ANamedQuoteIsNotReplaced(
        uint128 deposited,
        uint48 start,
        uint48 refundAfter,
        uint48 time,
        uint256 amount,
        uint48 fulfillBy
    ) public {
        reserved(deposited, deposited, start, refundAfter);
        vm.assume(time >= start);
        vm.warp(time);
        assert(!reassign(amount, fulfillBy));
    }

    /// What the next settler delivers is paid as it was reserved, and the payer gets the rest.
    function check_AReassignedReleaseConserves(
        uint128 deposited,
        uint128 quoted,
        uint128 next,
        uint48 start,
        uint48 refundAfter
    ) public {
        reserved(0, deposited, quoted, start, refundAfter);
        vm.warp(start + 51);
        vm.assume(reassign(next, start + 100));
        vm.assume(release());
        assert(token.balanceOf(NEXT_SETTLER) == next && token.balanceOf(SETTLER) == 0);
        assert(token.balanceOf(PAYER) == WEALTH - next);
        assert(token.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(token)) == 0);
    }

    /// Whatever is asked for and permitted: a deposit by signature draws no less than the price and no more than the permit, and
    /// what the settler does not get goes back.
    function check_ALargerDepositIsBoundedAndConserves(
        uint256 amount,
        uint256 permitted,
        uint256 quoted,
        uint48 start,
        bool delivered
    ) public {
        vm.assume(start < type(uint48).max - 1_000);
        vm.warp(start);
        GatewayEscrow.GatewayDeposit memory d = GatewayEscrow.GatewayDeposit(
            ID, bytes32(0), bytes32(0), PAYER, signer, signer, start, start + 100, start + 200
        );
        GatewayEscrow.Permit memory p = GatewayEscrow.Permit(
            address(token), permitted, uint256(keccak256(bytes.concat(ID, bytes32(0)))), start, ""
        );
        GatewayEscrow.Reservation memory r = GatewayEscrow.Reservation(ID, QUOTE, SETTLER, quoted, start + 50);
        vm.assume(tried(abi.encodeCall(escrow.depositMoreWithPermit, (d, p, r, amount, start, ""))));
        assert(quoted != 0 && quoted <= amount && amount <= permitted);
        assert(token.balanceOf(address(escrow)) == amount && escrow.owedIn(address(token)) == amount);
        assert(token.balanceOf(PAYER) == WEALTH - amount);
        terms = GatewayEscrow.Escrow(d, address(token), amount, QUOTE, SETTLER, quoted, start + 50);
        vm.assume(delivered ? release() : cancel());
        assert(token.balanceOf(SETTLER) == (delivered ? quoted : 0));
        assert(token.balanceOf(PAYER) == WEALTH - token.balanceOf(SETTLER));
        assert(token.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(token)) == 0);
    }

    /// Whatever the payer authorizes: all of it comes in and no less than the price, and what the settler does not get goes back.
    /// The payer is an account that has signed everything, which the token asks.
    function check_AnAuthorizedDepositIsWholeAndConserves(uint256 amount, uint256 quoted, uint48 start, bool delivered)
        public
    {
        vm.assume(start != 0 && start < type(uint48).max - 1_000);
        vm.warp(start);
        DevStablecoin stable = new DevStablecoin("Development USDC", "dUSDC", 6);
        stable.mint(signer, WEALTH);
        GatewayEscrow.GatewayDeposit memory d = GatewayEscrow.GatewayDeposit(
            ID, bytes32(0), bytes32(0), signer, signer, signer, start, start + 100, start + 200
        );
        GatewayEscrow.Authorization memory a =
            GatewayEscrow.Authorization(address(stable), amount, uint256(start) + 1, "");
        GatewayEscrow.Reservation memory r = GatewayEscrow.Reservation(ID, QUOTE, SETTLER, quoted, start + 50);
        vm.assume(tried(abi.encodeCall(escrow.depositWithAuthorization, (d, a, r, start, ""))));
        assert(quoted != 0 && quoted <= amount);
        assert(stable.balanceOf(address(escrow)) == amount && escrow.owedIn(address(stable)) == amount);
        assert(stable.balanceOf(signer) == WEALTH - amount);
        terms = GatewayEscrow.Escrow(d, address(stable), amount, QUOTE, SETTLER, quoted, start + 50);
        vm.assume(delivered ? release() : cancel());
        assert(stable.balanceOf(SETTLER) == (delivered ? quoted : 0));
        assert(stable.balanceOf(signer) == WEALTH - stable.balanceOf(SETTLER));
        assert(stable.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(stable)) == 0);
    }

    /// From `refundAfter` on the payer gets all of it back, and a retired escrow changes nothing about that.
    function check_RefundConservesAlsoWhenRetired(
        uint128 deposited,
        uint128 quoted,
        uint48 start,
        uint48 refundAfter,
        bool retired
    ) public {
        reserved(deposited, quoted, start, refundAfter);
        if (retired) {
            vm.prank(GUARDIAN);
            escrow.retire();
        }
        vm.warp(refundAfter);
        vm.assume(refund());
        assert(token.balanceOf(PAYER) == WEALTH && token.balanceOf(SETTLER) == 0);
        assert(token.balanceOf(address(escrow)) == 0 && escrow.owedIn(address(token)) == 0);
    }

    /// Nobody but the guardian changes who may deposit, and not before the delay.
    function check_AReserverComesOnlyByTheGuardianAfterTheDelay(address caller, address next, uint48 wait) public {
        vm.warp(1_000);
        vm.prank(caller);
        bool proposed = tried(abi.encodeCall(escrow.proposeReserver, (next)));
        assert(!proposed || caller == GUARDIAN);
        vm.warp(1_000 + uint256(wait));
        vm.prank(caller);
        bool installed = tried(abi.encodeCall(escrow.installReserver, ()));
        assert(!installed || (proposed && wait >= escrow.RESERVER_DELAY()));
        assert(installed || escrow.reserver() == signer);
    }
}
