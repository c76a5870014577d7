"""Pays by the client of openapi-python-client, signs with eth-account, and follows the payment with httpx-sse.

    pay.py GATEWAY RPC KEY_FILE ORDER_FILE
"""
import json, sys, time, uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeVar

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak
from httpx import Timeout
from httpx_sse import connect_sse

from gateway_client import Client
from gateway_client.api.corridors import read_defaults
from gateway_client.api.payments import prepare_payment, read_payment_status, submit_payment
from gateway_client.models import (
    Defaults, ErrorResponse, PaymentRequest, PaymentResponse, PaymentStatus, PaymentStatusRead, PrepareRequest, PreparedPayment,
)

QUOTE_SECONDS, FULFILLMENT_SECONDS, POLL_SECONDS, TIMEOUT_SECONDS = 10, 180, 0.25, 60
T = TypeVar("T")


def given(kind: type[T], answer: Any) -> T:
    if not isinstance(answer, kind):
        sys.exit(f"not a {kind.__name__}: {answer}")
    return answer


def order(file: str) -> dict[str, Any]:
    """The order in the file, with an id and times of its own."""
    now = datetime.now(timezone.utc)
    times = {"quote_deadline": QUOTE_SECONDS, "fulfillment_deadline": FULFILLMENT_SECONDS}
    return {**json.loads(Path(file).read_text()), "request_id": f"client-{uuid.uuid4()}",
            **{name: (now + timedelta(seconds=seconds)).isoformat() for name, seconds in times.items()}}


def sign(key: Any, one: Any) -> str:
    """Signs typed data whose digest is `message`. On a network of one's own; examples/evm rebuilds what it signs."""
    signable = encode_typed_data(full_message=json.loads(one.message_prehash))
    if one.message != "0x" + keccak(b"\x19" + signable.version + signable.header + signable.body).hex():
        sys.exit("message is not the digest of message_prehash")
    return "0x" + bytes(key.sign_message(signable).signature).hex()


def follow(client: Client, payment_id: str) -> list[str]:
    """What happens to the payment, until nothing more will: whatever httpx-sse takes for an event is one."""
    names = []
    with connect_sse(client.get_httpx_client(), "GET", f"/v1/payments/{payment_id}/events") as source:
        for event in source.iter_sse():
            names.append(json.loads(event.data)["event"])
    return names


def main(gateway: str, _node: str, key_file: str, order_file: str) -> int:
    key = Account.from_key(Path(key_file).read_text().strip())
    client = Client(base_url=gateway, timeout=Timeout(TIMEOUT_SECONDS))
    for chain in given(Defaults, read_defaults.sync(client=client)).chains.additional_properties.values():
        # `finalized` or a number.
        depth: str | int = chain.required_depth
        if depth != "finalized" and not isinstance(depth, int):
            sys.exit(f"required_depth: {depth!r}")

    asked = order(order_file)
    prepared = given(PreparedPayment, prepare_payment.sync(client=client, body=PrepareRequest.from_dict(asked)))
    if prepared.approval:
        sys.exit("the allowance does not suffice")
    signed = [{**one.to_dict(), "signature": sign(key, one)} for one in prepared.signed_messages]
    request = PaymentRequest.from_dict(
        {**asked, "sender_auth": {"message_scheme": prepared.message_scheme, "signed_messages": signed}})
    # They are the same once they were read and are written.
    submitted = given(PaymentResponse, submit_payment.sync(client=client, body=request, prefer="wait=0"))
    events = follow(client, submitted.payment_id)
    status = given(PaymentStatusRead, read_payment_status.sync(submitted.payment_id, client=client))
    while status.status in (PaymentStatus.PENDING, PaymentStatus.FINALIZING):
        time.sleep(POLL_SECONDS)
        status = given(PaymentStatusRead, read_payment_status.sync(submitted.payment_id, client=client))
    print(json.dumps({"client": "openapi-python-client", "payment_id": submitted.payment_id, "status": status.status,
                      "events": events}))
    return 0 if status.status == PaymentStatus.COMPLETED and events[0] == "Submitted" else 1


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit("usage: pay.py GATEWAY RPC KEY_FILE ORDER_FILE")
    sys.exit(main(*sys.argv[1:]))
