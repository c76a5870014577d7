#!/usr/bin/env python3
"""A payer on an EVM chain with eth-account and nothing of the gateway's but its HTTP API: it gives Permit2 the allowance, asks
what to sign, rebuilds that itself, signs, submits, and waits for the outcome. See README.md.

    pay.py GATEWAY RPC KEY_FILE ORDER_FILE
"""
import base64, json, os, re, sys, time, urllib.error, urllib.request, uuid
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils import keccak

# Where Uniswap's Permit2 is on every chain but few. An allowance is given to nothing that a gateway alone names.
PERMIT2 = os.environ.get("PERMIT2", "0x000000000022d473030f116ddee9f6b43ac78ba3").lower()
# The most that one of the payer's own transactions may cost, in wei: its gas times its fee per gas.
FEE_WEI_MAX = int(os.environ.get("FEE_WEI_MAX", 10**16))
# The longest that money may be locked, in seconds from now.
LOCK_SECONDS_MAX = int(os.environ.get("LOCK_SECONDS_MAX", 7200))
QUOTE_SECONDS, FULFILLMENT_SECONDS, PAUSE_SECONDS, TIMEOUT_SECONDS, RECEIPT_SECONDS = 10, 180, 0.5, 60, 180
ALLOWANCE, APPROVE, BALANCE_OF, WRAP = (keccak(text=signature)[:4].hex() for signature in (
    "allowance(address,address)", "approve(address,uint256)", "balanceOf(address)", "deposit()"))


def fields(text):
    return [dict(zip(("type", "name"), field.split(" "))) for field in text.split(", ")]


TYPES = {
    "EIP712Domain": fields("string name, uint256 chainId, address verifyingContract"),
    "PermitWitnessTransferFrom": fields(
        "TokenPermissions permitted, address spender, uint256 nonce, uint256 deadline, GatewayDeposit witness"),
    "TokenPermissions": fields("address token, uint256 amount"),
    "GatewayDeposit": fields(
        "bytes32 paymentId, bytes32 termsHash, bytes32 quoteHash, address payer, address reserver, address releaser, "
        "uint48 reserveDeadline, uint48 fulfillmentDeadline, uint48 refundAfter"),
}


def insist(holds, rule):
    if not holds:
        sys.exit(rule)


class NoAnswer(Exception):
    """Nothing is known; the same is asked again."""


def call(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        try:
            error = json.loads(refused.read())
        except ValueError:
            error = {"code": refused.code, "message": refused.reason}
        if refused.code == 429 or refused.code >= 500:
            raise NoAnswer(f"{error.get('code')}: {error.get('message')}")
        sys.exit(f"{url} is refused, {error.get('code')}: {error.get('message')}")
    except (OSError, ValueError) as fault:
        raise NoAnswer(f"{url}: {fault}")


def persist(until, url, body=None):
    """Asks until there is an answer: a time-out or a 503 says nothing, and the same request can never start a second payment."""
    while True:
        try:
            return call(url, body)
        except NoAnswer as fault:
            insist(time.time() < until, f"there is no outcome, and nobody answers: {fault}")
            time.sleep(PAUSE_SECONDS)


def rpc(url, method, *params):
    answer = call(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    insist("result" in answer, f"{method}: {answer.get('error')}")
    return answer["result"]


def number_of(url, method, *params):
    return quantity(rpc(url, method, *params))


def quantity(text):
    insist(isinstance(text, str) and re.fullmatch("0x[0-9a-fA-F]+", text), f"the node says {text}, which is not a number")
    return int(text, 16)


def unix(text):
    return int(datetime.fromisoformat(text).timestamp())


def rfc3339(seconds):
    return datetime.fromtimestamp(int(seconds), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def payment_id(account, request_id):
    """`pay_` and base32 of what the payment is known by; each part is preceded by its length."""
    parts = [text.encode() for text in ("gw:payment:v1", f"eip155:{account}", request_id)]
    known = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
    return "pay_" + base64.b32encode(known).decode().rstrip("=").lower()


def normal(owned):
    """The form that the terms are hashed in: on EVM chains lower case."""
    members = {name: owned[name] for name in ("asset_identifier", "account")}
    is_evm = members["asset_identifier"].startswith("eip155:")
    return {name: text.lower() if is_evm else text for name, text in members.items()}


def read(file):
    """The order in the file; what belongs to one attempt, its id and its times, is made here where the file has none. `wrap` is
    for this program alone."""
    order = json.loads(Path(file).read_text())
    wrap = order.pop("wrap", os.environ.get("WRAP") == "1")
    insist(order.get("source") and order.get("destination") and order.get("fulfillment_amount"),
           f"{file} is not an order: see README.md")
    insist(order.get("max_source_amount"), f"{file} lacks max_source_amount: a payer says what it pays at most")
    order["source"] = normal(order["source"])
    order["destination"] = sorted(map(normal, order["destination"]), key=lambda of: (of["asset_identifier"], of["account"]))
    if not order.get("request_id"):
        order["request_id"] = f"order-{uuid.uuid4()}"
        print(f"request_id is {order['request_id']}: put it into the order to try the same payment again", file=sys.stderr)
    given = {name: order.get(name) for name in ("quote_deadline", "fulfillment_deadline")}
    return order, wrap is True, given


def set_times(order, given):
    """The times that the file has, and others from now on: wrapping and allowances take the blocks that they take."""
    now = time.time()
    order["quote_deadline"] = given["quote_deadline"] or rfc3339(now + QUOTE_SECONDS)
    order["fulfillment_deadline"] = given["fulfillment_deadline"] or rfc3339(now + FULFILLMENT_SECONDS)


def trust(defaults, lock_seconds):
    """Whom the signature lets have the money, and for how long: what the payer knows by itself has to be what the gateway says."""
    believed = []
    for name, member in (("ESCROW", "escrow_contract_address"), ("RESERVER", "reserver"), ("RELEASER", "releaser")):
        pin, account = os.environ.get(name), defaults[member]
        if not pin:
            believed.append(f"{name}={account}")
        insist(not pin or pin.lower() == account.lower(), f"the gateway names another {name}, {account}")
    if believed:
        print(f"nothing but the gateway's word is behind {' '.join(believed)}: see README.md", file=sys.stderr)
    insist(lock_seconds <= LOCK_SECONDS_MAX,
           f"the money could be locked for {lock_seconds} s, and LOCK_SECONDS_MAX is {LOCK_SECONDS_MAX}")


def word(value):
    return (int(value, 16) if isinstance(value, str) else value).to_bytes(32, "big").hex()


def approve(node, account, chain, token, cap):
    """Lets Permit2 take up to `cap`. A token like Tether refuses a new allowance while another one stands, so that is taken
    back first."""
    asked = {"to": token, "data": "0x" + ALLOWANCE + word(account.address) + word(PERMIT2)}
    allowance, sent = number_of(node, "eth_call", asked, "latest"), []
    for amount in [] if allowance >= cap else [0, cap] if allowance else [cap]:
        sent.append(send(node, account, chain, token, APPROVE + word(PERMIT2) + word(amount)))
    return sent


def wrap_coins(node, account, chain, token, cap):
    """Wraps coins, up to `cap` of the token that is their wrapped form, as WETH9 does it."""
    asked = {"to": token, "data": "0x" + BALANCE_OF + word(account.address)}
    missing = cap - number_of(node, "eth_call", asked, "latest")
    return [send(node, account, chain, token, WRAP, missing)] if missing > 0 else []


def send(node, account, chain, to, data, value=0):
    """Sends the payer's own transaction, and waits until it is in a block and has had its effect. The node says its nonce, its
    gas and its fees alone, and what these come to is bounded."""
    written = {"from": account.address, "to": to, "data": "0x" + data, "value": hex(value)}
    tip = number_of(node, "eth_maxPriorityFeePerGas")
    per_gas = 2 * quantity(rpc(node, "eth_getBlockByNumber", "latest", False)["baseFeePerGas"]) + tip
    gas = number_of(node, "eth_estimateGas", written) * 5 // 4
    fee = gas * per_gas
    insist(fee <= FEE_WEI_MAX, f"a transaction to {to} could cost {fee} wei by what the node says, and FEE_WEI_MAX is {FEE_WEI_MAX}")
    # eth-account takes no `from`, and an address in its mixed-case form only.
    signed = account.sign_transaction({
        "to": bytes.fromhex(to[2:]), "data": written["data"], "value": value, "chainId": chain, "type": 2,
        "nonce": number_of(node, "eth_getTransactionCount", account.address, "pending"),
        "gas": gas, "maxPriorityFeePerGas": tip, "maxFeePerGas": per_gas})
    rpc(node, "eth_sendRawTransaction", "0x" + signed.raw_transaction.hex().removeprefix("0x"))
    hash, until = "0x" + signed.hash.hex().removeprefix("0x"), time.time() + RECEIPT_SECONDS
    while not (receipt := rpc(node, "eth_getTransactionReceipt", hash)):
        insist(time.time() < until, f"the transaction {hash} is in no block")
        time.sleep(PAUSE_SECONDS)
    insist(quantity(receipt["status"]) == 1, f"the transaction {hash} reverted")
    return hash


def typed_data(order, defaults, refund_delay, prepared):
    """The typed data, from the order and the gateway's defaults. The windows are the gateway's to choose, within the payer's
    limits."""
    chain, token = order["source"]["asset_identifier"].split("/erc20:")
    given = json.loads(prepared["message_prehash"])["message"]
    deadline, reserve_deadline, refund_after = (
        int(text) for text in (given["deadline"], given["witness"]["reserveDeadline"], given["witness"]["refundAfter"]))
    fulfillment_deadline = unix(order["fulfillment_deadline"])
    insist(reserve_deadline <= fulfillment_deadline, "the deposit would be taken too late")
    insist(deadline <= fulfillment_deadline, "the signature would hold for too long")
    insist(refund_after - fulfillment_deadline <= refund_delay, "the refund would come too late")
    identity = keccak(text=payment_id(order["source"]["account"], order["request_id"]))
    terms = {name: order[name] for name in ("destination", "fulfillment_amount", "max_source_amount", "source")}
    # RFC 8785, which for these texts is sorted keys and no white space.
    terms_hash = sha256(json.dumps(terms, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()
    return {
        "domain": {"name": "Permit2", "chainId": int(chain.split(":")[1]), "verifyingContract": PERMIT2},
        "types": TYPES,
        "primaryType": "PermitWitnessTransferFrom",
        "message": {
            "permitted": {"token": token, "amount": int(order["max_source_amount"])},
            "spender": defaults["escrow_contract_address"],
            "nonce": int.from_bytes(keccak(identity + terms_hash), "big"),
            "deadline": deadline,
            "witness": {
                "paymentId": identity,
                "termsHash": terms_hash,
                "quoteHash": bytes(32),  # the quote is not known yet
                "payer": order["source"]["account"],
                "reserver": defaults["reserver"],
                "releaser": defaults["releaser"],
                "reserveDeadline": reserve_deadline,
                "fulfillmentDeadline": fulfillment_deadline,
                "refundAfter": refund_after,
            },
        },
    }


def main(gateway, node, key_file, order_file):
    account, (order, wrap, given) = Account.from_key(Path(key_file).read_text().strip()), read(order_file)
    set_times(order, given)
    chain, _, token = order["source"]["asset_identifier"].partition("/erc20:")
    insist(token, "source.asset_identifier is not an ERC-20, eip155:…/erc20:0x…")
    insist(order["source"]["account"] == account.address.lower(), "the key is not that of source.account")
    # The node has to be of the chain that the payment is on.
    number = number_of(node, "eth_chainId")
    insist(chain == f"eip155:{number}", f"the node at {node} is not of {chain}")

    def defaults_of(of):
        return call(f"{gateway}/v1/defaults?chain_id={of}")

    defaults = defaults_of(chain)
    insist(defaults["permit2"].lower() == PERMIT2, f"the gateway names another Permit2, {defaults['permit2']}")
    # The longest of the payment's chains counts.
    targets = [defaults_of(of["asset_identifier"].split("/")[0]) for of in order["destination"]]
    refund_delay = max(of["refund_delay_seconds"] for of in [defaults, *targets])
    trust(defaults, unix(order["fulfillment_deadline"]) + refund_delay - int(time.time()))
    cap = int(order["max_source_amount"])
    # Both have to say that the token is the coin's wrapped form: another token might keep what it is sent.
    wraps = any(of["asset_identifier"] == order["source"]["asset_identifier"] and of.get("wraps") for of in defaults["assets"])
    insist(wraps or not wrap, f"the gateway does not say that {token} wraps coins")
    wrapped = wrap_coins(node, account, number, token, cap) if wrap else []
    approvals = approve(node, account, number, token, cap)
    set_times(order, given)

    prepared = call(f"{gateway}/v1/payments/prepare", order)
    identity, [message] = prepared["payment_id"], prepared["signed_messages"]
    insist(identity == payment_id(order["source"]["account"], order["request_id"]), "the payment has another id")
    signable = encode_typed_data(full_message=typed_data(order, defaults, refund_delay, message))
    digest = keccak(b"\x19" + signable.version + signable.header + signable.body)
    insist(message["message"] == "0x" + digest.hex(), "the gateway asks for a signature over something else")
    signature = "0x" + account.sign_message(signable).signature.hex().removeprefix("0x")
    auth = {"message_scheme": prepared["message_scheme"], "signed_messages": [{**message, "signature": signature}]}

    # By then every window has passed.
    until = unix(order["fulfillment_deadline"]) + refund_delay + 60
    status = persist(until, f"{gateway}/v1/payments", {**order, "sender_auth": auth})
    while status["status"] not in ("completed", "failed"):
        insist(time.time() < until, f"{identity} is still {status['status']}")
        time.sleep(PAUSE_SECONDS)
        status = persist(until, f"{gateway}/v1/payments/{identity}/status")
    said = {"payment_id": identity, "request_id": order["request_id"], "wrapped": wrapped, "approvals": approvals,
            "status": status["status"], "error": status.get("error")}
    print(json.dumps(said))
    return 0 if status["status"] == "completed" else 1


if __name__ == "__main__":
    if len(sys.argv) != 5:
        print("usage: pay.py GATEWAY RPC KEY_FILE ORDER_FILE", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(main(*sys.argv[1:]))
    except NoAnswer as fault:
        sys.exit(str(fault))
