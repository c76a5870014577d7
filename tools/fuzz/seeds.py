#!/usr/bin/env python3
"""Writes the inputs of `corpus/` that stand in the repository already: examples of the protocol documents, golden events, vectors of
standards, example configurations. What has to be signed or encoded is written by `target/debug/fuzz seeds`."""

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BYTES_MAX = 8192


def write(target, name, content):
    content = content.encode() if isinstance(content, str) else content
    if len(content) <= BYTES_MAX:
        folder = HERE / "corpus" / target
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def bodies():
    paths = json.loads((ROOT / "protocol/openapi.json").read_text())["paths"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
            for number, (name, example) in enumerate(content.get("examples", {}).items()):
                body = compact(example.get("value", example))
                label = re.sub(r"[^a-z0-9]+", "_", f"{path} {name}".lower()).strip("_") + str(number)
                write("json", label, body)
                write("requests", label, body)
                if "x402" in path:
                    write("x402_calls", label, body)
                elif "award" in path or "quote-requests" in path:
                    write("quote_requests", label, body)
                else:
                    write("payment_requests", label, body)


def messages():
    found = json.loads((ROOT / "protocol/asyncapi.json").read_text())["components"]["messages"]
    kinds = {
        "Registration": ("settler_messages", "r"), "Bid": ("settler_messages", "b"),
        "AwardAnswer": ("settler_messages", "a"), "Report": ("settler_messages", "p"),
        "RequestForQuotes": ("gateway_messages", "q"), "Award": ("gateway_messages", "n"),
        "AwardEnd": ("gateway_messages", "e"), "AuctionOver": ("gateway_messages", "o"),
        "AwardReceipt": ("gateway_messages", "t"), "SelectionRequest": ("gateway_messages", "s"),
        "SelectionAnswer": ("verifier_messages", "s"),
    }
    for name, (target, kind) in kinds.items():
        for number, example in enumerate(found[name].get("examples", [])):
            payload = example["payload"]
            write(target, f"{name.lower()}{number}", kind + compact(payload))
            write("json", f"{name.lower()}{number}", compact(payload))
            if name in ("Award", "AwardEnd"):
                write(target, f"under_a_subject_{name.lower()}{number}", compact(payload))
            if name == "Bid":
                for target_of_quotes in ("quotes", "quote_canonical", "documents", "canonical_form"):
                    write(target_of_quotes, f"bid{number}", payload["quote"])


def events():
    for version in ("1", "2"):
        for path in sorted((ROOT / f"events/tests/golden/v{version}").glob("*.json")):
            event = json.loads(path.read_text())
            event = event if isinstance(event, list) else [event]
            types = ",".join(one["type"] for one in event)
            schemas = ",".join(version for _ in event)
            write("event_codec", f"v{version}_{path.stem}", f"{types}\n{schemas}\n{compact(event)}")
            for one in event:
                data = one["data"]
                for prepared in [data, *[value for value in data.values() if isinstance(value, dict)]]:
                    if "raw" in prepared and "transaction_hash" in prepared:
                        write("prepared_transactions", f"v{version}_{path.stem}", compact(prepared))


def proofs():
    for path in sorted((ROOT / "proofs/tests/vectors").glob("*.json")):
        text = path.read_text()
        for target in ("documents", "canonical_form", "data_integrity", "envelopes"):
            write(target, path.stem, text)
    multikey = '{"id":"#a","type":"Multikey","controller":"did:web:bank.example","publicKeyMultibase":"z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"}'
    write("did_documents", "one_key", f'did:web:bank.example\n{{"id":"did:web:bank.example","verificationMethod":[{multikey}],'
          '"assertionMethod":["#a"],"authentication":["#b",{"id":"did:web:bank.example#b","type":"JsonWebKey2020","controller":'
          '"did:web:bank.example","publicKeyJwk":{"kty":"OKP","crv":"Ed25519","x":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"},'
          '"expires":"2030-01-01T00:00:00Z"}]}')
    write("did_documents", "base58", 'did:web:bank.example\n{"id":"did:web:bank.example","assertionMethod":[{"id":"#key-1","type":'
          '"Ed25519VerificationKey2018","controller":"did:web:bank.example","publicKeyBase58":"4zvwRjXUKGfvwnParsHAS3HuSVzV5cA4McphgmoCtajS"}]}')
    write("detached_signatures", "personal_sign", "0x2c7536e3605d9c16a7a3d7b1898e529396a65c23\n0xb91467e570a6466aa9e9876cbcd013baba02900b8979d43f"
          "e208a4a4f339f5fd6007e74cd82e037b800186422fc2da167c747ef045e5d18a5f5d4300f8e1a0291c\nSome data")
    write("detached_signatures", "jwk", '{"kty":"OKP","crv":"Ed25519","x":"O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik"}\n0x' + "ab" * 64 + "\ntext")
    write("detached_signatures", "p256", "zDnaerDaTF5BXEavCrfRZEk316dpbLsfPDZ3WJ5hRTPFU2169\nz" + "5" * 86 + "\ntext")


def texts():
    for number, text in enumerate([
        "eip155:1", "tron:0x2b6653dc", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp", "eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        "eip155:1/erc721:0xabc/1", "tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "CKg5d12Jhpej1JqtmxLJgaFqqeYjxgPqToJ4LBdvG9Ev",
        "0x0102" + "01" * 20 + "02" * 20 + "00" + "11" * 65,
    ]):
        write("caip", str(number), text)
    for number, text in enumerate(["TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
                                   "tron:1/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "tron:1/slip44:195"]):
        write("tron_addresses", str(number), text)
    write("tron_addresses", "bytes", bytes.fromhex("41a614f803b6fd780986a42c78ec9c7f77e6ded13c"))
    for number, text in enumerate([
        "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
        "did:web:example.com%3A8080:user", "did:pkh:eip155:1:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "did:pkh:tron:0x2b6653dc:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "did:pkh:solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp:CKg5d12Jhpej1JqtmxLJgaFqqeYjxgPqToJ4LBdvG9Ev",
        "did:web:bank.example#key-1", "z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp",
    ]):
        write("dids", str(number), text)
    golden = (ROOT / "events/tests/golden/v1").glob("*.json")
    ids = sorted({found for path in golden for found in re.findall(r"(?:pay|qr)_[a-z2-7]+", path.read_text())})[:6]
    for number, text in enumerate(ids + ["0x" + "ab" * 32, "did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp", "gw.bid.abc.def"]):
        write("ids", str(number), text)
    for number, text in enumerate(["1", "1000000", "115792089237316195423570985008687907853269984665640564039457584007913129639935",
                                   "2030-01-31T12:00:00Z", "2030-01-31t12:00:00.123456789+05:30", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59"]):
        write("amounts_and_times", str(number), text)


def files():
    def bare(path):
        lines = (ROOT / path).read_text().splitlines()
        return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#") and "file" not in line) + "\n"

    for kind, name in (("g", "gateway"), ("v", "verifier"), ("a", "auditor")):
        write("configurations", name, kind + bare(f"config/{name}.example.toml"))
    for name in ("ethereum", "solana", "tron"):
        text = bare(f"config/networks/{name}.toml")
        write("configurations", f"network_{name}", "n" + text)
        write("configurations", f"chains_{name}", "c[[chains]]\n" + text)
    store = {"crypto": {"cipher": "aes-128-ctr", "cipherparams": {"iv": "6087dab2f9fdbbfaddc31a909735c1e6"},
             "ciphertext": "5318b4d5bcd28de64ee5559e671353e16f075ecae9f99c7a79a38af5f869aa46", "kdf": "pbkdf2",
             "kdfparams": {"c": 16, "dklen": 32, "prf": "hmac-sha256", "salt": "ae3cd4e7013836a3df6bd7241b12db061dbe2c6785853cce422d148a624ce0bd"},
             "mac": "517ead924a9d0dc3124507e3393d175ce3ff7c1e96529c6c555ce9e51205e9b2"}, "id": "3198bc9c-6672-5ab3-d995-4942343ae5b6", "version": 3}
    write("keystores", "pbkdf2", compact(store))
    store["crypto"].update(kdf="scrypt", kdfparams={"dklen": 32, "n": 2, "p": 1, "r": 1, "salt": "ab0c7876052600dd703518d6fc3fe8984592145b591fc8fb5c6d43190334ba19"})
    write("keystores", "scrypt", compact(store))
    manifest = {"format": 1, "version": "0.1.0", "made_at": "2026-01-02T03:04:05Z", "generation": 1, "layout": None, "kept": {"EVT_00": 0}, "newest": {}}
    write("copies", "empty", compact(manifest) + "\n---\n")
    write("copies", "one", compact({**manifest, "kept": {"EVT_00": 1}}) + '\n---\n{"stream":"EVT_00","sequence":1,"time":"2026-01-02T03:04:05Z",'
          '"subject":"gw.evt.00.x","headers":{},"body":"[]"}\n')
    write("export_lines", "contents", '{"streams":["CHK","EVT_00"],"layout":{"epochs":[{"number":0,"first":0,"shards":1},{"number":1,"first":1,"shards":1}],"sealed":[0]}}\n')
    write("exports", "contents", '{"streams":["CHK","EVT_00"],"layout":{"epochs":[{"number":0,"first":0,"shards":1},{"number":1,"first":1,"shards":1}],"sealed":[0]}}\n')


def records():
    payment = sorted({found for path in (ROOT / "events/tests/golden/v1").glob("*.json") for found in re.findall(r"pay_[a-z2-7]+", path.read_text())})[0]
    write("records", "ledger", 'l{"schema":1,"reserved":{"purpose":"a","nonce":1,"reserved_at":"2030-01-01T00:00:00Z"},"open":[],"next_nonce":2,"closed":[]}')
    write("records", "budget", 'b{"schema":1,"open":[],"lost":[],"counted":[]}')
    write("records", "parked", f'p{payment}\n{{"kind":"parked","stream_id":"{payment}","parked":{{}}}}')
    write("records", "act", 'o00000000000000000000000000\n{}')


def nodes():
    header = {"number": "0x5", "hash": "0x" + "11" * 32, "parentHash": "0x" + "22" * 32, "timestamp": "0x6b49d200"}
    write("evm_nodes", "head", b"h" + compact(header).encode())
    write("evm_nodes", "settled", b"s" + b"\n".join([compact(header).encode()] * 4))
    log = {"address": "0x" + "01" * 20, "topics": ["0x" + "33" * 32], "data": "0x", "blockNumber": "0x5", "blockHash": "0x" + "11" * 32,
           "transactionHash": "0x" + "07" * 32, "logIndex": "0x0", "removed": False}
    receipt = {"transactionHash": "0x" + "07" * 32, "blockNumber": "0x5", "blockHash": "0x" + "11" * 32, "status": "0x1", "gasUsed": "0x5208",
               "effectiveGasPrice": "0x1", "from": "0x" + "01" * 20, "to": "0x" + "02" * 20, "logs": [log], "type": "0x2"}
    write("evm_nodes", "receipt", b"r" + compact(receipt).encode())
    write("evm_nodes", "fees", b"f" + compact({"baseFeePerGas": ["0x1", "0x2"], "gasUsedRatio": [0.5], "oldestBlock": "0x4", "reward": [["0x1"]]}).encode())
    write("evm_nodes", "escrow", b"e" + b"\n".join([compact(header).encode()] * 2 + [b'"0x' + b"00" * 192 + b'"', compact([log]).encode()]))
    clock = "AQAAAAAAAAABAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAAA0klrAAAAAA=="
    wrapped = lambda result: compact({"jsonrpc": "2.0", "id": 1, "result": result}).encode()
    sysvar = {"owner": "Sysvar1111111111111111111111111111111111111", "lamports": 1, "data": [clock, "base64"], "executable": False}
    account = {"owner": "11111111111111111111111111111111", "lamports": 5, "data": ["AQ==", "base64"], "executable": False}
    several = wrapped({"context": {"slot": 1}, "value": [account, account, sysvar]})
    for kind in "hsaleccu":
        write("solana_nodes", f"asked_{kind}", kind.encode() + b"\n".join([several, several, wrapped(5), several]))
    write("solana_nodes", "head", b"h" + wrapped(7))
    write("solana_nodes", "transaction", b"t" + wrapped({"slot": 5, "blockTime": 1, "meta": {"err": None, "fee": 5, "computeUnitsConsumed": 1,
          "preBalances": [1], "postBalances": [1], "innerInstructions": [{"index": 0, "instructions": [{"programIdIndex": 0, "accounts": [0], "data": "2", "stackHeight": 2}]}],
          "loadedAddresses": {"readonly": [], "writable": []}, "logMessages": []}, "transaction": {"signatures":
          ["2AXDGYSE4f2sz7tvMMzyHvUfcoJmxudvdhBcmiUSo6ijwfYmfZYsKRxboQMPh3R4kUhXRVdtSXFXMheka4Rc4P2"], "message": {"accountKeys":
          ["11111111111111111111111111111111"], "instructions": [{"programIdIndex": 0, "accounts": [0], "data": "3Bxs4h24hBtQy9rw"}], "recentBlockhash": "11111111111111111111111111111111"}}}))
    block = {"blockID": "0000000000000005" + "11" * 24, "block_header": {"raw_data": {"number": 5, "parentHash": "0000000000000004" + "22" * 24, "timestamp": 1800000000000}}}
    for kind in "hsbrpwcex":
        bodies = [block, block, {"balance": 5, "address": "41" + "01" * 20}, {"result": {"result": True}, "constant_result": ["00" * 192], "energy_used": 5}, block]
        write("tron_nodes", f"asked_{kind}", kind + "\n".join(compact(body) for body in bodies))
    write("tron_nodes", "prices", "p" + compact({"chainParameter": [{"key": "getEnergyFee", "value": 420}, {"key": "getTransactionFee", "value": 1000}]}))
    write("nats_servers", "messages", "INFO {}\r\nMSG gw.bid.a.b 1 5\r\nhello\r\nMSG a 2 reply.to 0\r\n\r\nPING\r\n+OK\r\n-ERR 'no'\r\n")


for part in (nodes, bodies, messages, events, proofs, texts, files, records):
    part()
