#!/usr/bin/env python3
"""A payer on an EVM chain with the gateway's SDK and eth-account: it asks what to sign, gives Permit2 the allowance where the token
takes no signature in its place, rebuilds what is to be signed itself, signs, submits, and waits for the outcome. See README.md.

    pay.py GATEWAY RPC KEY_FILE ORDER_FILE
"""
import json, os, sys
from pathlib import Path

# The SDK of this checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "sdk/python/src"))

from gateway_client import ClientError, Gateway, LimitExceeded, Limits, NotSigned, Order, PinMismatch, Pins, believed
from gateway_client.evm import EvmWallet
from gateway_client.trust import PERMIT2
from gateway_client.verifiers import check_verifier

# What bounds a payer, and the environment variable that says it.
VARIABLES = {"escrow": "ESCROW", "reserver": "RESERVER", "releaser": "RELEASER", "lock_seconds": "LOCK_SECONDS_MAX",
             "permit2": "Permit2", "fee_wei": "FEE_WEI_MAX"}
PINS = Pins(os.environ.get("ESCROW") or None, os.environ.get("RESERVER") or None, os.environ.get("RELEASER") or None,
            permit2=os.environ.get("PERMIT2", PERMIT2).lower())
LIMITS = Limits(lock_seconds=int(os.environ.get("LOCK_SECONDS_MAX", 7200)), fee_wei=int(os.environ.get("FEE_WEI_MAX", 10**16)))


def read(file):
    """The order in the file; its id, where the file has none, and its times are made anew. `wrap` is for this program alone."""
    body = json.loads(Path(file).read_text())
    wrap = body.pop("wrap", os.environ.get("WRAP") == "1")
    if not body.get("max_source_amount"):
        raise ValueError(f"{file} lacks max_source_amount: a payer says what it pays at most")
    order = Order.of(body)
    if not body.get("request_id"):
        print(f"request_id is {order.request_id}: put it into the order to try the same payment again", file=sys.stderr)
    return order, wrap is True


def told(defaults):
    """Who may attest, where they are several. Where the releaser does not stand for them, `pay` says so, after what is pinned."""
    verifier = defaults.get("fulfillment_verifier") or {}
    try:
        check_verifier("eip155", defaults["releaser"], verifier)
    except NotSigned:
        return
    named = [f"{member['account']} at {member.get('endpoint')}" for member in verifier.get("members", [])]
    if len(named) > 1:
        print(f"{verifier['threshold']} of {len(named)} verifiers have to attest: {', '.join(named)}", file=sys.stderr)


def pay(gateway, node, key_file, order_file):
    wallet, (order, wrap) = EvmWallet.from_key(Path(key_file).read_text(), node), read(order_file)
    defaults = gateway.defaults(order.chain_id)
    trusted = believed(defaults, PINS)
    if trusted:
        said = " ".join(f"{VARIABLES[name]}={account}" for name, account in trusted.items())
        print(f"nothing but the gateway's word is behind {said}: see README.md", file=sys.stderr)
    told(defaults)
    return gateway.pay(order, wallet, pins=PINS, limits=LIMITS, wrap=wrap)


def main(url, *arguments):
    try:
        with Gateway(url) as gateway:
            payment = pay(gateway, *arguments)
    except PinMismatch as fault:
        sys.exit(f"the gateway names another {VARIABLES[fault.name]}, {fault.found}")
    except LimitExceeded as fault:
        sys.exit(f"{fault}: {VARIABLES[fault.name]} is {fault.limit}")
    except (ClientError, OSError, ValueError) as fault:
        sys.exit(str(fault))
    said = {"payment_id": payment.payment_id, "request_id": payment.order.request_id, "wrapped": payment.sent.wrapped,
            "approvals": payment.sent.approvals, "status": payment.status["status"], "error": payment.error}
    print(json.dumps(said))
    return 0 if payment.is_completed else 1


if __name__ == "__main__":
    if len(sys.argv) != 5:
        print("usage: pay.py GATEWAY RPC KEY_FILE ORDER_FILE", file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
