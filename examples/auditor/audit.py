#!/usr/bin/env python3
"""Replays one payment, checks its hash chain and that it lies in one epoch only, then every signed checkpoint of its
shard: an audit by a plain NATS client. Standard library, nats-py and nkeys, nothing of the gateway's.

    audit.py pay_… [did:key of the gateway's checkpoint key]

NATS_URL, NATS_SEED_FILE and NATS_CA_FILE say where the journal is and who asks; without them it is the demo's. See README.md.
Exit code 0: everything agrees. The recipes are in journal/src/envelope/mod.rs, events/src/epoch.rs and
journal/src/checkpoint.rs.
"""
import asyncio, json, os, ssl, sys
from hashlib import sha256, sha512

import nats

HASHED = ["Gw-Type", "Gw-Schema", "Gw-Version", "Gw-Correlation", "Gw-Causation", "Gw-Prev", "Nats-Msg-Id"]
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def require(holds, what):
    if not holds:
        sys.exit(f"FAULT: {what}")


def message_hash(subject, headers, body):
    lines = [subject] + [f"{name}:{headers[name]}" for name in HASHED] + [""]
    return sha256("\n".join(lines).encode() + b"\n" + body).digest()


# Ed25519 (RFC 8032), verification only: points of the twisted Edwards curve in affine coordinates.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def recover_x(y, odd):
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    require((x * x - square) % P == 0, "no point of the curve")
    return x if x % 2 == odd else P - x


def add(a, b):
    cross = D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + cross, -1, P) % P
    return x, (a[1] * b[1] + a[0] * b[0]) * pow(1 - cross, -1, P) % P


def multiply(scalar, point):
    product = (0, 1)
    while scalar:
        if scalar & 1:
            product = add(product, point)
        point, scalar = add(point, point), scalar >> 1
    return product


def decode(data):
    number = int.from_bytes(data, "little")
    y = number & (2**255 - 1)
    return recover_x(y, number >> 255), y


BASE_Y = 4 * pow(5, -1, P) % P
BASE = recover_x(BASE_Y, 0), BASE_Y


def verifies(key, message, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    challenge = int.from_bytes(sha512(r + key + message).digest(), "little") % ORDER
    return s < ORDER and multiply(s, BASE) == add(decode(r), multiply(challenge, decode(key)))


def key_of(did):
    require(did.startswith("did:key:z"), f"{did} is not a did:key")
    number = 0
    for letter in did[len("did:key:z"):]:
        number = number * 58 + ALPHABET.index(letter)
    key = number.to_bytes(34, "big")
    require(key[:2] == b"\xed\x01", f"{did} is no Ed25519 key")
    return key[2:]


async def read(client, stream, subject=None):
    """All messages of a stream, or of one subject in it, in order: batched Direct Gets."""
    start = 1
    while True:
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        ask = {"seq": start, "batch": 256, **({"next_by_subj": subject} if subject else {})}
        await client.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(ask).encode(), reply=inbox)
        count = 0
        while True:
            message = await answers.next_msg(timeout=10)
            if message.headers.get("Status"):
                break
            start, count = int(message.headers["Nats-Sequence"]) + 1, count + 1
            yield start - 1, message.headers["Nats-Subject"], message.headers, message.data
        await answers.unsubscribe()
        if count == 0:
            return


async def check_checkpoint(client, shard, key):
    checkpoints, previous = {}, "0x" + "00" * 32
    async for sequence, _, _, body in read(client, "CHK", f"gw.chk.{shard}"):
        signed = json.loads(body)
        names = ["shard", "sequence", "rolling_hash", "commit_id", "time", "previous", "signer"]
        text = "".join(["gw:signed-checkpoint:v1\n"] + [f"{name}:{signed[name]}\n" for name in names]).encode()
        require(signed["signer"] == key, f"checkpoint #{sequence} is signed by {signed['signer']}")
        require(verifies(key_of(key), text, bytes.fromhex(signed["signature"][2:])), f"signature of #{sequence}")
        require(signed["previous"] == previous, f"checkpoint #{sequence} does not follow the one before it")
        previous, checkpoints[signed["sequence"]] = "0x" + sha256(text).hexdigest(), signed["rolling_hash"]
    rolling, expected = bytes(32), 1
    async for sequence, subject, headers, body in read(client, f"EVT_{shard}"):
        require(sequence == expected, f"message {expected} of EVT_{shard} is missing")
        hashed = message_hash(subject, headers, body)
        rolling = sha256(b"gw:checkpoint:v1" + rolling + sequence.to_bytes(8, "big") + hashed).digest()
        signed = checkpoints.pop(sequence, None)
        require(signed in (None, "0x" + rolling.hex()), f"EVT_{shard} up to {sequence} is not what was signed")
        expected += 1
    require(not checkpoints, f"EVT_{shard} ends before what was signed: {sorted(checkpoints)}")
    print(f"EVT_{shard}: {expected - 1} messages, its checkpoints agree")


def shard_of(payment, first, shards):
    return first + int.from_bytes(sha256(payment.encode()).digest()[:8], "big") % shards


async def epochs(client):
    """First shard, number of shards and whether all are sealed of each epoch, oldest first, as the streams say."""
    found, first = [], 0
    while True:
        says = []
        while not says or len(says) < says[0][0]:
            asked = await client.request(f"$JS.API.STREAM.INFO.EVT_{first + len(says):02}", b"{}", timeout=10)
            config = json.loads(asked.data).get("config")
            if config is None:
                break
            of = [int(config.get("metadata", {}).get(f"gw.{key}", 0)) for key in ("shards", "epoch", "first")]
            says.append((*of, config.get("sealed", False)))
        if not says or (found and len(says) < says[0][0]):
            return found  # an epoch that is not whole holds nothing
        require({of[:3] for of in says} == {(len(says), len(found), first)}, f"the epoch from EVT_{first:02} on")
        found.append((first, len(says), all(of[3] for of in says)))
        first += len(says)


async def main(payment, key=None):
    client = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        nkeys_seed=os.environ.get("NATS_SEED_FILE", ".dev/nats/auditor.seed"),
        tls=ssl.create_default_context(cafile=ca) if (ca := os.environ.get("NATS_CA_FILE")) else None,
        inbox_prefix=b"_INBOX_auditor",
    )
    lies_in = None
    # The newest first: where a stream begins, its marks in the older ones are there already.
    for first, shards, sealed in reversed(await epochs(client)):
        shard = f"{shard_of(payment, first, shards):02}"
        stream, version, previous, types = f"EVT_{shard}", 0, "0x" + "00" * 32, []
        async for sequence, subject, headers, body in read(client, stream, f"gw.evt.{shard}.{payment}"):
            version += 1
            require(headers["Gw-Version"] == str(version), f"{stream} #{sequence} is not version {version}")
            require(headers["Gw-Prev"] == previous, f"{stream} #{sequence} does not know the message before it")
            previous = "0x" + message_hash(subject, headers, body).hex()
            types.append(headers["Gw-Type"])
            print(f"{headers['Nats-Time-Stamp']}  {stream} #{sequence}  {headers['Gw-Type']}\n    {previous}")
        # A mark stands in the place of a stream that begins in a later epoch, so that it can begin there only.
        marked = types == ["StreamMoved"]
        require(marked or not any("StreamMoved" in text for text in types), f"{stream} holds more than a mark")
        if types and not marked:
            require(not lies_in, f"{payment} lies in {stream} and in EVT_{lies_in}")
            lies_in = shard
        require(not lies_in or types or sealed, f"{payment} could begin in {stream} too: there is no mark of it")
    require(lies_in, f"there is no {payment}")
    if key:
        await check_checkpoint(client, lies_in, key)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
