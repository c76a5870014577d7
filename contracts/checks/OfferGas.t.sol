// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.24;

import {GatewayEscrow} from "../src/GatewayEscrow.sol";
import {OfferAddresses} from "../src/OfferAddresses.sol";
import {OfferAddressing} from "../test/support/OfferAddressing.sol";
import {Creator} from "./support/Creator.sol";

/// @notice What purchases at the addresses of offers cost, measured as in `EscrowGas.t.sol`.
contract OfferGasTest is OfferAddressing {
    Creator private creator;

    /// Another payment is open and the merchant was paid before: what a gateway in use sees.
    function setUp() public override {
        super.setUp();
        creator = new Creator();
        stable.mint(merchant, 1);
        GatewayEscrow.GatewayDeposit memory d = depositTerms();
        GatewayEscrow.Reservation memory r = reservation();
        d.paymentId = r.paymentId = keccak256("pay_0");
        depositAuthorized(d, r, address(stable), CAP);
    }

    /// The first buyer's, with which the address gets its code; then another purchase.
    function test_Gas_Deposit() public {
        send(sale());
        vm.snapshotGasLastCall("offers", "deposit");
        Sale memory s = saleBy(offer(), payer, payerKey, keccak256("another nonce"));
        send(s);
        vm.snapshotGasLastCall("offers", "deposit, the address used before");
        assertEq(uint8(stateOf(s.award.paymentId)), uint8(GatewayEscrow.State.Reserved));
    }

    /// What was brought to the token before the address had its code, then what comes later, and coins.
    function test_Gas_Collect() public {
        Sale memory s = sale();
        bringToTheToken(s);
        offers.collect(s.offer, address(stable));
        vm.snapshotGasLastCall("offers", "collect");
        s = saleBy(offer(), payer, payerKey, keccak256("another nonce"));
        bringToTheToken(s);
        offers.collect(s.offer, address(stable));
        vm.snapshotGasLastCall("offers", "collect, the address used before");
        vm.deal(addressBy(s.offer), 1 ether);
        offers.collect(s.offer, address(0));
        vm.snapshotGasLastCall("offers", "collect of coins, the address used before");
        assertEq(stable.balanceOf(merchant), 2 * CAP + 1);
    }

    function test_Gas_MakingTheFactory() public {
        creator.create(type(OfferAddresses).creationCode);
        vm.snapshotGasLastCall("offers", "deployment of the factory");
    }

    function send(Sale memory s) private {
        bytes memory admission = admissionOf(s);
        vm.prank(stranger);
        offers.deposit(s.offer, s.purchase, s.award, s.admittedUntil, admission);
    }
}
