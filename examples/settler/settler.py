#!/usr/bin/env python3
"""A settler for ERC-20 tokens on EVM chains: quotes, delivers and is paid, by the protocol of protocol/asyncapi.json.

    settler.py settler.toml        run it; the file is that of `gw settler`, see config/settler.example.toml
    settler.py settler.toml id     show its DID and token

It keeps nothing: what must not happen twice is guarded by once-only keys on chain, and awards wait in a durable consumer.
"""
import asyncio, json, random, signal, ssl, sys, time, tomllib, urllib.request
from base64 import b32encode
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from itertools import combinations, islice
from pathlib import Path

import nats
import nkeys
from eth_abi import encode
from eth_abi.exceptions import EncodingError
from eth_utils import keccak
from web3.exceptions import ContractLogicError

from evm import Chain, address, token_of
from quotes import Signer, rfc3339

RESERVED, ENDS = 2, {3: "released", 4: "refunded"}  # GatewayEscrow.State
REASSIGNMENTS_MAX = 16  # of one payment
CHOICES_MAX = 64  # of members' signatures that are tried on the escrow, where one of them is untrue
ESCROW = ("((bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48),"
          "address,uint256,bytes32,address,uint256,uint48)")  # GatewayEscrow.Escrow


def terms_hash(terms):  # over RFC 8785, which for these texts is sorted keys and no white space
    return "0x" + sha256(json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def parsed(data):
    """The JSON object in a message; an empty one where there is none."""
    with suppress(ValueError):
        if isinstance(message := json.loads(data), dict):
            return message
    return {}


def reassignment_auctions(payment):
    """The auctions for the payment's escrow, once its winner has not delivered: hashes of parts, each after its length."""
    for number in range(1, REASSIGNMENTS_MAX + 1):
        parts = b"gw:reassignment:v1", payment.encode(), str(number).encode()
        digest = sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()
        yield "qrq_" + b32encode(digest).decode().rstrip("=").lower()


def reserved_until(asked, fulfill_by):
    """Until when the escrow can come to hold the reservation: by the deposit, or, once money is in it, within the own promise."""
    return fulfill_by if "escrowed" in asked else int(asked["escrow"]["reserve_deadline"])


def escrow_terms(award, quote, quote_hash, deposited=None):
    """What the escrow may commit to: the award's terms, whether or not the payer had agreed to the quote when it signed."""
    plan, source, price = award["escrow"], award["terms"]["source"], int(quote["sourceAmount"])
    deposited = deposited or int(award.get("escrowed", {}).get("amount", price))
    won, windows = bytes.fromhex(quote_hash[2:]), ("reserve_deadline", "fulfillment_deadline", "refund_after")
    for agreed in won, bytes(32):
        deposit = (keccak(text=award["payment_id"]), bytes.fromhex(quote["termsHash"][2:]), agreed, address(source["account"]),
                   address(plan["reserver"]), address(plan["releaser"]), *(int(plan[window]) for window in windows))
        yield (deposit, token_of(source["asset_identifier"]), deposited, won, address(quote["payoutAccount"]), price,
               unix(quote["fulfillBy"]))


def commitment(terms):
    return keccak(encode([ESCROW], [terms]))


def is_usable(award, quote, quote_hash):
    """Whether an award is of this quote, which the settler signed. All else is compared with that, here or in the escrow."""
    with suppress(AttributeError, EncodingError, KeyError, TypeError, ValueError):  # what cannot be read cannot be used
        payment, auction = award["payment_id"], quote["auctionId"]
        [commitment(terms) for terms in escrow_terms(award, quote, quote_hash)]
        if "escrowed" in award and (auction not in reassignment_auctions(payment)
                                    or int(quote["sourceAmount"]) > int(award["escrowed"]["amount"])):
            return False
        return (auction == payment or payment.startswith("pay_") and auction.startswith("qrq_")) \
            and award["quote_hash"] == quote_hash and terms_hash(award["terms"]) == quote["termsHash"]
    return False


def answer_subject(award):
    return award.subject.replace("auction.award.", "auction.answer.", 1)


def unix(text):
    return int(datetime.fromisoformat(text).timestamp())


def post(url, body, signer):
    request = urllib.request.Request(url, body, {"content-type": "application/json", **signer.headers("POST", url, body)})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read(1 << 16))


def signature_of(answer):
    """The signature in what a verifier answered, or `None` where there is none of the length that the escrow takes."""
    with suppress(AttributeError, KeyError, TypeError, ValueError):
        signature = bytes.fromhex(answer["signature"].removeprefix("0x")) if answer["status"] == "attested" else b""
        return signature if len(signature) == 65 else None


class Settler:
    def __init__(self, config):
        self.config, self.signer = config, Signer(config["seed"])
        self.token, self.delivers = self.signer.token, config.get("deliver", True)
        self.chains = {chain["chain_id"]: Chain(chain, config["evm_private_key"])
                       for chain in config["chains"] if chain["chain_id"].startswith("eip155:")}
        pairs = {(pair["source_asset"], pair["destination_asset"]): pair for pair in config["corridors"]}
        self.corridors = {ends: pair for ends, pair in pairs.items() if all(self.is_token(asset) for asset in ends)}
        for source, destination in pairs.keys() - self.corridors.keys():
            print("left out, as it does not end in ERC-20 tokens:", source, "to", destination, file=sys.stderr, flush=True)
        self.verifiers = {(known["chain_id"], known["account"].lower()): known for known in config["verifiers"]}
        limits = config.get("limits", {})
        self.firm = config.get("quoting", {}).get("firm_seconds", 30)
        self.quote_max, self.settlement_max = (limits.get(f"{what}_seconds_max", usual)
                                               for what, usual in (("quote", 900), ("settlement", 86_400)))
        self.refund_max = limits.get("refund_seconds_max", 604_800)
        self.promises, self.working, self.reserved, self.over, self.tasks = {}, set(), set(), {}, set()
        if config.get("inventory"):
            raise SystemExit("this example has no `inventory`")
        for name in ("market", "chain_fees", "tiers", "skew_bps", "profit_min"):
            if any(pair.get(name) for pair in self.corridors.values()):
                raise SystemExit(f"this example prices by `rate`, `spread_bps` and `gas_cost`, and knows no `{name}`")
        if not self.corridors:
            raise SystemExit("this example trades ERC-20 tokens on EVM chains, and no corridor is one of these")

    def is_token(self, asset):
        chain, _, reference = asset.partition("/")
        return chain in self.chains and reference.startswith("erc20:")

    async def quote(self, rfq):
        """A signed quote for the first destination that is traded, or the reason why there is none."""
        terms, escrow, deadline = rfq["terms"], rfq["escrow"], unix(rfq["quote_deadline"])
        if terms_hash(terms) != rfq["terms_hash"]:
            return {"decline": "TERMS_HASH_MISMATCH"}
        if "escrowed" in rfq and rfq["auction_id"] not in reassignment_auctions(rfq.get("payment_id", "")):
            return {"decline": "INVALID_REASSIGNMENT"}
        for destination, proxy in zip(terms["destination"], rfq["fulfillment_proxies"]):
            asset, amount = destination["asset_identifier"], int(terms["fulfillment_amount"])
            if corridor := self.corridors.get((terms["source"]["asset_identifier"], asset)):
                break
        else:
            return {"decline": "UNSUPPORTED_CORRIDOR"}
        source, target = (self.chains[corridor[end].split("/")[0]] for end in ("source_asset", "destination_asset"))
        contracts = source.config["escrow_contract"].lower(), target.config["fulfillment_proxy"].lower()
        fulfill_by = min(int(escrow["fulfillment_deadline"]), unix(rfq["fulfillment_deadline"]))
        paid_by = fulfill_by + source.config["refund_delay_seconds"]
        rate = corridor.get("rate", {"source": 1, "destination": 1})  # smallest units of the source for so many delivered
        price = -(-amount * rate["source"] * (10_000 + corridor.get("spread_bps", 0)) // (rate["destination"] * 10_000))
        price += int(corridor.get("gas_cost", 0))
        caps = terms.get("max_source_amount", price), rfq.get("escrowed", {}).get("amount", price)
        reserved_by = reserved_until(rfq, fulfill_by)
        now, ends = time.time(), (deadline, fulfill_by, reserved_by, int(escrow["refund_after"]))
        most = now + self.quote_max, now + self.settlement_max, now + self.settlement_max, fulfill_by + self.refund_max
        reason = ("UNTRUSTED_CONTRACT" if (escrow["contract"], proxy) != contracts
                  else "UNTRUSTED_VERIFIER" if (escrow["chain_id"], escrow["releaser"]) not in self.verifiers
                  else "POLICY_NOT_HELD" if rfq.get("required_policies")
                  else "DEADLINE_TOO_LONG" if any(end > limit for end, limit in zip(ends, most))
                  else "DEADLINE_TOO_SHORT" if time.time() >= deadline or reserved_by < deadline
                  or fulfill_by < deadline + 5 or int(escrow["refund_after"]) < paid_by
                  else "PRICE_ABOVE_CAP" if price > min(map(int, caps))
                  else "INSUFFICIENT_LIQUIDITY" if not await self.covers(target, asset, amount, rfq["auction_id"]) else None)
        if reason:
            return {"decline": reason}
        valid_until = min(deadline + self.firm, reserved_by)
        if "payment_id" in rfq:  # signed by its payer; for whoever asks nothing is held
            self.promises[rfq["auction_id"]] = asset, amount, min(now + self.firm, valid_until)
        return {"quote": self.signer.sign({
            "auctionId": rfq["auction_id"], "termsHash": rfq["terms_hash"], "sourceChain": escrow["chain_id"],
            "sourceAmount": str(price), "payoutAccount": source.account, "escrowContract": escrow["contract"],
            "destination": destination, "fulfillmentAmount": str(amount), "deliveryAccount": target.account,
            "fulfillmentProxy": proxy, "fulfillBy": rfc3339(fulfill_by), "validUntil": rfc3339(valid_until)})}

    async def covers(self, chain, asset, amount, auction):
        self.promises = {held: promise for held, promise in self.promises.items() if promise[2] > time.time()}
        promised = sum(held for name, (of, held, _) in self.promises.items() if of == asset and name != auction)
        return amount + promised <= await chain.contract("DevToken", token_of(asset)).balanceOf(chain.address).call()

    async def answer(self, request):
        rfq = json.loads(request.data)
        bid = {"version": "1.0", **await self.quote(rfq)}
        await self.jetstream.publish(f"auction.bid.{self.token}.{rfq['auction_id']}", json.dumps(bid).encode())
        print("bid", rfq["auction_id"], bid.get("decline", "quote"), flush=True)

    async def step(self, told, award, quote, quote_hash):
        """Does what the chains say is next. Returns how the award, which came as `told`, has ended, or `None` while it has not."""
        payment, fulfill_by = keccak(text=award["payment_id"]), unix(quote["fulfillBy"])
        asset, recipient = quote["destination"]["asset_identifier"], quote["destination"]["account"]
        source, target = self.chains[quote["sourceChain"]], self.chains[asset.split("/")[0]]
        escrow, settled = source.contract("GatewayEscrow", quote["escrowContract"]), await source.settled()
        held = await escrow.recordOf(payment).call(block_identifier=settled["number"])
        is_over = settled["timestamp"] > reserved_until(award, fulfill_by)
        if held.state < RESERVED:
            return "lapsed" if is_over else None
        # The contract keeps a hash. It counts for the terms that this settler expects and for no others, whoever tells them.
        def committed(deposited=None):
            expected = escrow_terms(award, quote, quote_hash, deposited)
            return next((terms for terms in expected if commitment(terms) == held.commitment), None)
        terms = committed()
        if not terms and "escrowed" in award:
            if held.state == RESERVED and not is_over:
                return None  # another's, until it is reassigned
        elif not terms:
            deposited = await source.deposited(quote["escrowContract"], payment, held.depositedAt)
            terms = committed(deposited) if deposited >= int(quote["sourceAmount"]) else None
        verifier = self.verifiers.get((quote["sourceChain"], award["escrow"]["releaser"].lower()))
        paid_by = fulfill_by + source.config["refund_delay_seconds"]
        if not terms or terms[4] != source.address or not verifier or int(award["escrow"]["refund_after"]) < paid_by:
            return "the escrow holds something else"
        if held.state != RESERVED:
            return ENDS[held.state]
        if quote_hash not in self.reserved:  # owed from here on, until it can no longer be delivered
            self.reserved.add(quote_hash)
            self.promises[quote["auctionId"]] = asset, int(quote["fulfillmentAmount"]), fulfill_by + 60
        proxy, final = target.contract("FulfillmentProxy", quote["fulfillmentProxy"]), await target.settled()
        delivery = [token_of(asset), address(recipient), int(quote["fulfillmentAmount"]), fulfill_by]
        key = await proxy.fulfillmentKey(payment, quote_hash, target.address, *delivery).call()
        if await proxy.fulfilledAt(key).call(block_identifier=final["number"]):
            if (await escrow.recordOf(payment).call()).state != RESERVED:
                return None  # paid, in a block that is not settled yet
            # An award has all that this asks with; as it came, no number in the payer's payloads loses a digit.
            if "members" in verifier:
                release = await self.word_of_set(verifier, told, lambda word: escrow.release(terms, word))
            else:
                answer = await self.ask(verifier, told)
                release = escrow.release(terms, answer["signature"]) if answer["status"] == "attested" else None
            if release:
                await source.send(f"release {payment.hex()}", release)
        elif final["timestamp"] > fulfill_by:
            return "not delivered in time"
        elif self.delivers and not await proxy.fulfilledAt(key).call() and time.time() + 2 <= fulfill_by:
            token, spender = target.contract("DevToken", delivery[0]), address(quote["fulfillmentProxy"])
            if await token.allowance(target.address, spender).call() < delivery[2]:
                await target.send(f"approve {spender} {delivery[0]}", token.approve(spender, 2**256 - 1))
                return None
            sent = await target.send(f"fulfill {key.hex()}", proxy.fulfill(payment, quote_hash, *delivery))
            report = {"version": "1.0", "payment_id": award["payment_id"], "transaction_hash": sent}
            await self.nats.publish(f"auction.report.{self.token}.{award['payment_id']}", json.dumps(report).encode())

    async def ask(self, verifier, body):
        return await asyncio.to_thread(post, verifier["endpoint"] + "/v1/attestations/delivery", body, self.signer)

    async def word_of_set(self, verifier, told, release):
        """The release by as many members of a set as have to sign, or `None` while they are too few. The escrow is brought the set
        itself with their signatures; a member that signs something else is left out, and the escrow says which it is."""
        accounts = {bytes.fromhex(member["account"][2:]): member for member in verifier["members"]}
        members, threshold = [accounts[account] for account in sorted(accounts)], verifier["threshold"]
        asked = json.dumps({"threshold": threshold, "members": members}).encode()
        body = told.rstrip()[:-1] + b',"verifier_set":' + asked + b"}"
        answers = await asyncio.gather(*(self.ask(member, body) for member in members), return_exceptions=True)
        signatures = [signature_of(answer) for answer in answers]
        signed = [bytes([index]) + signature for index, signature in enumerate(signatures) if signature]
        # In another order each time, so that one who signs something else is not in all that are tried.
        shuffled = random.sample(signed, len(signed))
        for chosen in islice(combinations(shuffled, threshold), CHOICES_MAX):
            found = release(bytes([threshold, len(members)]) + b"".join((*sorted(accounts), *sorted(chosen))))
            with suppress(ContractLogicError):
                await found.call()
                return found
        return None

    async def agree(self, subject, award, quote, quote_hash):
        """Says whether it stands by its quote. What stands is the gateway's answer; the first word is final."""
        asset, amount, auction = quote["destination"]["asset_identifier"], int(quote["fulfillmentAmount"]), quote["auctionId"]
        until, target = reserved_until(award, unix(quote["fulfillBy"])), self.chains[asset.split("/")[0]]
        reason = ("QUOTE_EXPIRED" if time.time() > min(unix(quote["validUntil"]), until)
                  else "DEADLINE_TOO_LONG" if until > time.time() + self.settlement_max
                  else None if await self.covers(target, asset, amount, auction) else "INSUFFICIENT_LIQUIDITY")
        word = {"word": "refuse", "reason": reason} if reason else {"word": "accept"}
        if not reason:
            self.promises[auction] = asset, amount, until
        answer = {"version": "1.0", "payment_id": award["payment_id"], "quote_hash": quote_hash, **word}
        standing = json.loads((await self.nats.request(subject, json.dumps(answer).encode(), timeout=3)).data)["standing"]
        if standing == "accepted":
            self.promises[auction] = asset, amount, until
            return None
        return f"over, {standing}"

    async def refuse(self, message, award):
        """Says of an award that it cannot be used, where it says itself what was awarded; it does not come again."""
        print(message.subject, "is not an award of this settler's", flush=True)
        payment, quote_hash = award.get("payment_id"), award.get("quote_hash")
        if isinstance(payment, str) and isinstance(quote_hash, str):
            answer = {"version": "1.0", "payment_id": payment, "quote_hash": quote_hash, "word": "refuse",
                      "reason": "AWARD_INVALID"}
            with suppress(nats.errors.Error):  # a gateway that does not hear it gives up by itself
                await self.nats.request(answer_subject(message), json.dumps(answer).encode(), timeout=3)
        await message.term()

    async def settle(self, message):
        award = parsed(message.data)
        payment, (quote, quote_hash) = award.get("payment_id"), self.signer.own(award.get("quote"))
        if "ended" in award and isinstance(payment, str):  # in the award's place: there is no deposit
            self.over.update((won, f"over, {award['ended']}") for won in self.working if won == award.get("quote_hash"))
            self.promises.pop(str(award.get("auction_id", payment)), None)
            return await message.ack()
        if not is_usable(award, quote, quote_hash):
            return await self.refuse(message, award)
        if quote_hash not in self.working:  # a payment may be awarded again, by another quote
            self.working.add(quote_hash)
            outcome, agreed = None, False
            while not outcome:
                try:
                    await message.in_progress()
                    # The chain first: an award that is given again may be in escrow already.
                    outcome = await self.step(message.data, award, quote, quote_hash)
                    if not outcome and quote_hash not in self.reserved:
                        outcome = self.over.get(quote_hash)
                        if not outcome and not agreed:
                            outcome = await self.agree(answer_subject(message), award, quote, quote_hash)
                            agreed = not outcome
                except Exception as fault:  # whatever a node or a verifier does, they are asked again
                    print("award", payment, "is held up:", repr(fault), flush=True)
                await asyncio.sleep(0.5)
            print("award", payment, "has ended:", outcome, flush=True)
            self.promises.pop(quote["auctionId"], None)
            self.over.pop(quote_hash, None)
            self.reserved.discard(quote_hash)
            self.working.remove(quote_hash)
            await message.ack()

    def begin(self, work):
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def register(self):
        accounts = [{"chain_id": chain_id, "payout_account": chain.account, "delivery_account": chain.account}
                    for chain_id, chain in self.chains.items()]
        corridors = [{"source_asset": source, "destination_asset": target} for source, target in self.corridors]
        entry = {"version": "1.0", "settler": self.signer.did, "accounts": accounts, "corridors": corridors,
                 "follows_reassignments": True}
        while True:
            with suppress(nats.errors.Error):
                await self.jetstream.publish(f"$KV.settlers.{self.token}", json.dumps(entry).encode())
            await asyncio.sleep(10)

    async def awards(self):
        consumer = await self.jetstream.pull_subscribe_bind(f"settler_{self.token}", "AWARDS")
        while True:
            try:
                for message in await consumer.fetch(8, timeout=5):
                    self.begin(self.settle(message))
            except (nats.errors.Error, asyncio.TimeoutError):
                await asyncio.sleep(0.5)  # nothing there, or the gateway has not made the consumer yet

    async def run(self):
        at, stop = self.config["nats"], asyncio.Event()
        await asyncio.gather(*(chain.check_id() for chain in self.chains.values()))
        # NATS asks for a signature by the key of the DID, in its own form; with ca_file nothing but TLS will do.
        seed = nkeys.encode_seed(bytes.fromhex(self.config["seed"]), nkeys.PREFIX_BYTE_USER).decode()
        tls = ssl.create_default_context(cafile=at["ca_file"]) if "ca_file" in at else None
        self.nats = await nats.connect(at["url"].split(","), nkeys_seed_str=seed, tls=tls, max_reconnect_attempts=-1,
                                       inbox_prefix=f"_INBOX_{self.token}".encode())
        self.jetstream = self.nats.jetstream()

        async def asked(request):
            self.begin(self.answer(request))

        async def lost(over):
            self.promises.pop(json.loads(over.data)["auction_id"], None)
        await self.nats.subscribe(f"auction.rfq.{self.token}.*", cb=asked)
        await self.nats.subscribe(f"auction.over.{self.token}.*", cb=lost)
        await self.nats.flush()
        print("at work as", self.signer.did, "" if self.delivers else "and delivers nothing", flush=True)
        self.begin(self.register())
        self.begin(self.awards())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        # Without a body: the registration is taken back.
        await self.jetstream.publish(f"$KV.settlers.{self.token}", b"")


if __name__ == "__main__":
    settler = Settler(tomllib.loads(Path(sys.argv[1]).read_text()))
    print(settler.signer.did, settler.token) if sys.argv[2:] == ["id"] else asyncio.run(settler.run())
