"""The scenarios of sdk/scenarios.json on a running network: `pytest -m network`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway_client import (
    AsyncGateway,
    Choice,
    Gateway,
    GatewayError,
    MandateOrder,
    NotDue,
    Payment,
    Sent,
    cancel_mandate,
    refund,
)
from gateway_client.evm import EvmWallet
from gateway_client.keccak import keccak256
from network import SCENARIOS, Network, exchange

pytestmark = pytest.mark.network
#: The scheme by which a scenario's payer sends no transaction of its own.
BY_SIGNATURE = {"evm-by-signature": "EVM_EIP3009", "tron-by-signature": "TRON_PERMIT2_ESCROW"}


@pytest.fixture(scope="module")
def network() -> Network:
    return Network.found()


@pytest.mark.parametrize("scenario", SCENARIOS["scenarios"], ids=lambda scenario: scenario["name"])
def test_scenario(network: Network, scenario: dict[str, Any]) -> None:
    chains = [scenario["source"]["chain"], *(one["chain"] for one in scenario["destination"])]
    if not all(network.has(chain) for chain in chains):
        pytest.skip("the network has no such chain")
    expected = scenario["expected"]
    if "refused" in expected:
        with pytest.raises(GatewayError) as refused:
            pay(network, scenario)
        assert refused.value.code == expected["refused"]
        return
    if scenario.get("way") == "address":
        assert pay_by_address(network, scenario) == expected["status"]
        return
    if scenario.get("way") == "batch":
        assert pay_batch(network, scenario) == [expected["status"]] * 3
        return
    if scenario.get("way") == "mandate":
        assert pay_by_mandate(network, scenario) == expected["status"]
        return
    payment = pay(network, scenario)
    assert payment.status["status"] == expected["status"], payment.status
    assert (payment.error["code"] if payment.error else None) == expected.get("code")
    assert payment.idempotent_replay == expected.get("idempotent_replay", False)
    assert payment.payment_id == payment.status["payment_id"]
    confirmation = payment.status.get("fulfillment_confirmation")
    assert (confirmation["request_id"] if confirmation else None) == (payment.order.request_id if payment.is_completed else None)
    if scheme := BY_SIGNATURE.get(scenario["name"]):
        assert payment.sent == Sent()
        with Gateway(network.url) as gateway:
            submitted, *_ = gateway.timeline(payment.payment_id)["entries"]
        assert submitted["data"]["message_scheme"] == scheme


def pay(network: Network, scenario: dict[str, Any]) -> Payment:
    order = network.order(scenario)
    chain = scenario["source"]["chain"]
    wallet, pins = network.wallet(chain), network.pins(chain)
    with Gateway(network.url) as gateway:
        if scenario.get("way") == "quotes":
            gateway.allow(order, wallet, pins=pins)
            batch = gateway.quote(order)
            choice = Choice(batch, batch["quotes"][0]["quote_id"])
            payment = gateway.pay(order, wallet, pins=pins, choice=choice)
        else:
            payment = gateway.pay(order, wallet, pins=pins)
    network.request_ids[scenario["name"]] = order.request_id
    return payment


def pay_batch(network: Network, scenario: dict[str, Any]) -> list[str]:
    """How the payments end: three times the same, for one signature."""
    orders = [network.order(scenario) for _ in range(3)]
    chain = scenario["source"]["chain"]
    with Gateway(network.url) as gateway:
        batch = gateway.pay_batch(orders, network.wallet(chain), pins=network.pins(chain))
        assert batch.body
        assert batch.body["sender_auth"]["message_scheme"] == "EVM_PERMIT2_BATCH"
        assert [payment.error for payment in batch.payments] == [None] * 3
        return [gateway.wait(payment.payment_id)["status"] for payment in batch.payments]


def pay_by_address(network: Network, scenario: dict[str, Any]) -> str:
    """How the payment ends. What the settler did not get is back at the refund account, and nothing left at the address."""
    order, source = network.order(scenario), exchange(network, scenario["source"]["chain"])
    with Gateway(network.url) as gateway:
        addressed = gateway.open_address(order, pins=network.pins(scenario["source"]["chain"]))
        assert addressed.believed == {}
        address = addressed.address
        source.send(address.token, address.address, address.amount)
        status = gateway.wait(addressed.payment_id)
        # Until nothing more happens to the money.
        assert list(gateway.watch(addressed.payment_id))
    over = address.amount - int(status["fulfillment_quote"]["sourceAmount"])
    assert over > 0
    assert (source.held(address.token, order.account), source.held(address.token, address.address)) == (over, 0)
    return status["status"]


def pay_by_mandate(network: Network, scenario: dict[str, Any]) -> str:
    """How the payment ends that a merchant asks for. Once its payer has ended the mandate there is no other."""
    chain = scenario["source"]["chain"]
    order, wallet, pins = network.order(scenario), network.wallet(chain), network.pins(chain)
    # It signs, and needs no node.
    merchant = EvmWallet.from_key(keccak256(b"a merchant of the scenarios").hex(), "http://127.0.0.1:1")
    twice: Any = {"amount": 2 * int(scenario["cap"]), "least": 2 * int(scenario["amount"])}
    mandate = MandateOrder(order.source, order.destination, merchant.account, period_seconds=86_400, periods=3, **twice)
    with Gateway(network.url) as gateway:
        signed = gateway.sign_mandate(mandate, wallet, pins=pins)
        payment, again = (gateway.charge(order, signed.payload, merchant, pins=pins) for _ in range(2))
        assert payment.idempotent_replay is False
        assert (again.payment_id, again.idempotent_replay) == (payment.payment_id, True)
        cancel_mandate(wallet, signed.cancel)
        with pytest.raises(GatewayError) as refused:
            gateway.charge(network.order(scenario), signed.payload, merchant, pins=pins)
        assert refused.value.code == "NONCE_ALREADY_USED"
    return payment.status["status"]


@pytest.mark.parametrize("chain", ["eip155:31337", "solana", "tron"])
def test_payments_are_paid_and_followed_on_an_event_loop(network: Network, chain: str) -> None:
    if not network.has(chain):
        pytest.skip("the network has no such chain")
    [scenario] = [one for one in SCENARIOS["scenarios"] if one["name"] == "evm-to-evm"]
    scenario = {**scenario, "source": {"chain": chain, "symbol": "DEV"}}

    async def paid() -> tuple[Payment, list[str], list[str]]:
        async with AsyncGateway(network.url) as gateway:
            order = network.order(scenario)
            payment = await gateway.pay(order, network.wallet(chain), pins=network.pins(chain))
            events = [entry["event"] async for entry in gateway.watch(payment.payment_id)]
            timeline = await gateway.timeline(payment.payment_id)
            resolved = await gateway.resolve(order.request_id, account=order.account)
            assert resolved["payment_id"] == payment.payment_id
            return payment, events, [entry["event"] for entry in timeline["entries"]]

    payment, events, timeline = asyncio.run(paid())
    assert payment.is_completed
    assert events == timeline
    assert (events[0], events[-1]) == ("Submitted", "EscrowReleased")
    # The escrow itself says that there is nothing to come back.
    escrow = network.pins(chain).escrow
    assert escrow
    with pytest.raises(NotDue, match="released to the settler"):
        refund(network.wallet(chain), payment.payment_id, escrow=escrow)
