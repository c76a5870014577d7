// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {DevToken} from "../src/DevToken.sol";
import {FulfillmentProxy} from "../src/FulfillmentProxy.sol";
import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {Proofs, SignsAll, svm, vm} from "./support/Proofs.sol";

/// @notice A token of which nothing is known but that it tells a balance: whatever it tells, whether a transfer goes through, answers
/// false or reverts, and whatever it tells afterwards.
contract AnyToken {
    bool private _moved;
    uint256 private _least;

    /// The least that it tells before it is asked to move anything.
    function tellsAtLeast(uint256 least) external {
        _least = least;
    }

    function balanceOf(address) external view returns (uint256 held) {
        held = svm.createUint256("balance");
        vm.assume(_moved || held >= _least);
    }

    function transfer(address, uint256) external returns (bool) {
        if (svm.createBool("reverts")) revert("denied");
        _moved = true;
        return svm.createBool("answer");
    }

    function transferFrom(address, address, uint256) external pure returns (bool) {
        return true;
    }
}

/// @notice From `refundAfter` on a refund is always possible, whatever the token does or the guardian did. The token tells a
/// balance, and no less than is owed before the payout: of what shrinks the share is reckoned by a division that no solver
/// decides, and `EscrowExits.t.sol` and `EscrowAdversary.t.sol` show that it is paid (fuzz).
contract RefundProofs is Proofs {
    address private signer;
    AnyToken private token;

    function setUp() public {
        signer = address(new SignsAll());
        deploy(signer);
        token = new AnyToken();
    }

    /// A payment in that token; the token said what it had to while the payment came in.
    function taken(uint128 amount, uint48 start, uint48 refundAfter, bool isReserved)
        private
        returns (GatewayEscrow.Escrow memory)
    {
        vm.assume(amount != 0);
        begin(start, refundAfter);
        GatewayEscrow.GatewayDeposit memory d = termsOf(ID, signer, start, refundAfter);
        return isReserved ? reserved(d, address(token), amount, amount) : deposited(d, address(token), amount);
    }

    /// The refund goes through, in whatever second from `refundAfter` on; what the token did not move is the payer's claim.
    function check_ARefundIsAlwaysPossible(
        uint128 amount,
        uint48 start,
        uint48 refundAfter,
        uint48 time,
        bool isReserved,
        bool retired,
        address caller
    ) public {
        GatewayEscrow.Escrow memory e = taken(amount, start, refundAfter, isReserved);
        if (retired) {
            vm.prank(GUARDIAN);
            escrow.retire();
        }
        token.tellsAtLeast(amount);
        vm.assume(time >= refundAfter && caller != address(escrow));
        vm.warp(time);
        vm.prank(caller);
        assert(triedWithGas(abi.encodeCall(escrow.refund, (e))));
        assert(stateOf(ID) == GatewayEscrow.State.Refunded);
        assert(escrow.claimable(PAYER, address(token)) == escrow.owedIn(address(token)));
        assert(escrow.owedIn(address(token)) <= amount);
    }
}

/// @notice The delivery: once for each key, in time, exact. For all terms and times, in an ordinary token and in coins.
contract DeliveryProofs {
    address private constant SETTLER = address(0x5e77);
    uint256 private constant WEALTH = type(uint128).max;

    FulfillmentProxy private proxy;
    DevToken private token;

    /// What is delivered; all of it is unknown.
    struct Delivery {
        bytes32 paymentId;
        bytes32 quoteHash;
        address recipient;
        uint256 amount;
        uint48 fulfillBy;
    }

    function setUp() public {
        proxy = new FulfillmentProxy();
        token = new DevToken("Development USD", "dUSD", 6);
        token.mint(SETTLER, WEALTH);
        vm.prank(SETTLER);
        token.approve(address(proxy), type(uint256).max);
        vm.deal(SETTLER, WEALTH);
    }

    function fulfilled(Delivery memory d, bool coins, uint48 time) private returns (bool done) {
        vm.warp(time);
        vm.prank(SETTLER);
        (done,) = address(proxy).call{value: coins ? d.amount : 0}(
            abi.encodeCall(
                proxy.fulfill,
                (d.paymentId, d.quoteHash, coins ? address(0) : address(token), d.recipient, d.amount, d.fulfillBy)
            )
        );
    }

    function keyOf(Delivery memory d, bool coins) private view returns (bytes32) {
        address asset = coins ? address(0) : address(token);
        return proxy.fulfillmentKey(d.paymentId, d.quoteHash, SETTLER, asset, d.recipient, d.amount, d.fulfillBy);
    }

    /// What was delivered in tokens was delivered in time, to the unit, and is on record; the proxy keeps nothing.
    function check_ADeliveryIsExactAndInTime(Delivery memory d, uint48 time) public {
        uint256 before = token.balanceOf(d.recipient);
        vm.assume(fulfilled(d, false, time));
        assert(time <= d.fulfillBy && d.amount != 0 && d.recipient != address(0) && d.recipient != address(proxy));
        assert(token.balanceOf(d.recipient) == before + d.amount);
        assert(token.balanceOf(address(proxy)) == 0);
        assert(proxy.fulfilledAt(keyOf(d, false)) == block.number);
    }

    /// The same of coins, to a wallet.
    function check_ADeliveryOfCoinsIsExactAndInTime(Delivery memory d, uint48 time) public {
        vm.assume(d.amount <= WEALTH && d.recipient != SETTLER);
        uint256 before = d.recipient.balance;
        vm.assume(fulfilled(d, true, time));
        assert(time <= d.fulfillBy && d.amount != 0);
        assert(d.recipient.balance == before + d.amount && address(proxy).balance == 0);
    }

    /// Two deliveries that both go through have two keys, at whatever times; so none is made twice.
    function check_OneDeliveryPerKey(Delivery memory first, Delivery memory second, uint48 time, uint48 later) public {
        vm.assume(fulfilled(first, false, time));
        vm.assume(fulfilled(second, false, later));
        assert(keyOf(first, false) != keyOf(second, false));
    }

    /// Other terms have another key.
    function check_AKeyIsOfAllTerms(Delivery memory a, Delivery memory b, bool coins, bool otherCoins) public view {
        vm.assume(keyOf(a, coins) == keyOf(b, otherCoins));
        assert(a.paymentId == b.paymentId && a.quoteHash == b.quoteHash && a.recipient == b.recipient);
        assert(a.amount == b.amount && a.fulfillBy == b.fulfillBy && coins == otherCoins);
    }
}
