"""A stock buyer in Python: pays for the page at an address with a signature, and prints the page and the receipt as JSON.

It needs no coins, and it knows nothing of gateways. Its packages: pip install 'x402[evm,svm,requests]'
"""

import json
import os
import sys
from typing import NoReturn

from eth_account import Account
from requests import RequestException
from x402 import x402ClientSync
from x402.http import decode_payment_response_header
from x402.http.clients.requests import PaymentError, x402_requests
from x402.mechanisms.evm.exact import register_exact_evm_client
from x402.mechanisms.evm.signers import EthAccountSigner
from x402.mechanisms.svm.exact import register_exact_svm_client
from x402.mechanisms.svm.signers import KeypairSigner

# How long the shop may take, in seconds: it answers when it is paid.
PATIENCE = 120


def fail(code: int, reason: str) -> NoReturn:
    print(f"buyer: {reason}", file=sys.stderr)
    sys.exit(code)


def setting(name: str, meaning: str) -> str:
    return os.environ.get(name) or fail(2, f"{name} is not set: {meaning}")


def main() -> None:
    if len(sys.argv) != 2:
        fail(2, "say what to buy: python3 buyer.py http://127.0.0.1:4022/article")
    network = setting("PAY_NETWORK", "the chain to pay on, such as eip155:8453")
    allowed = {
        "network": network,
        "asset": setting("PAY_ASSET", "the address of the token to pay with"),
        "max_amount_per_payment": setting("PAY_AT_MOST", "the most to pay, in the token's smallest unit"),
    }
    key = setting("BUYER_KEY", "the private key that pays: hex with 0x, or Base58 for Solana")
    client = x402ClientSync()
    if network.startswith("solana:"):
        node = os.environ.get("PAY_RPC_URL")
        register_exact_svm_client(client, KeypairSigner.from_base58(key), networks=network, rpc_url=node)
    else:
        register_exact_evm_client(client, EthAccountSigner(Account.from_key(key)), networks=network)
    client.set_spend_controls({"allowed_assets": [allowed]})
    with x402_requests(client) as session:
        try:
            response = session.get(sys.argv[1], timeout=PATIENCE)
        except (PaymentError, RequestException) as error:
            fail(1, str(error))
    header = response.headers.get("PAYMENT-RESPONSE")
    receipt = decode_payment_response_header(header).model_dump(by_alias=True, exclude_none=True) if header else None
    print(json.dumps({"status": response.status_code, "receipt": receipt, "page": response.json()}, indent=2))
    if not response.ok:
        sys.exit(1)


main()
