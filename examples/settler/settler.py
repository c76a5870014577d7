#!/usr/bin/env python3
"""A settler for ERC-20 tokens on EVM chains: quotes, delivers and is paid, by the protocol of protocol/asyncapi.json.

    settler.py settler.toml        run it; the file is that of `gw settler`, see config/settler.example.toml
    settler.py settler.toml id     show its DID and token

It keeps nothing: what must not happen twice is guarded by once-only keys on chain, and awards wait in a durable consumer.
"""
import asyncio, json, signal, ssl, sys, time, tomllib, urllib.request
from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path

import nats
import nkeys
from eth_utils import keccak

from evm import Chain, address, token_of
from quotes import Signer, rfc3339

RESERVED, ENDS = 2, {3: "released", 4: "refunded"}  # GatewayEscrow.State


def terms_hash(terms):  # over RFC 8785, which for these texts is sorted keys and no white space
    return "0x" + sha256(json.dumps(terms, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def unix(text):
    return int(datetime.fromisoformat(text).timestamp())


def post(url, body, signer):
    body = json.dumps(body).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json", **signer.headers("POST", url, body)})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read(1 << 16))


class Settler:
    def __init__(self, config):
        self.config, self.signer = config, Signer(config["seed"])
        self.token = self.signer.token
        self.chains = {chain["chain_id"]: Chain(chain, config["evm_private_key"]) for chain in config["chains"]}
        self.corridors = {(pair["source_asset"], pair["destination_asset"]): pair for pair in config["corridors"]}
        self.verifiers = {(known["chain_id"], known["account"].lower()): known["endpoint"] for known in config["verifiers"]}
        self.promises, self.working, self.tasks = {}, set(), set()
        if config.get("inventory") or not config.get("deliver", True) or any("rate" in pair for pair in config["corridors"]):
            raise SystemExit("this example has no `inventory`, no `rate` and no `deliver = false`")

    async def quote(self, rfq):
        """A signed quote for the first destination that is traded, or the reason why there is none."""
        terms, escrow, deadline = rfq["terms"], rfq["escrow"], unix(rfq["quote_deadline"])
        if terms_hash(terms) != rfq["terms_hash"]:
            return {"decline": "TERMS_HASH_MISMATCH"}
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
        price = -(-amount * (10_000 + corridor.get("spread_bps", 0)) // 10_000) + int(corridor.get("gas_cost", 0))
        promised = sum(held for auction, (of, held, until) in self.promises.items()
                       if of == asset and auction != rfq["auction_id"] and until > time.time())
        balance = target.contract("DevToken", token_of(asset)).balanceOf(target.address)
        reason = ("UNTRUSTED_CONTRACT" if (escrow["contract"], proxy) != contracts
                  else "UNTRUSTED_VERIFIER" if (escrow["chain_id"], escrow["releaser"]) not in self.verifiers
                  else "POLICY_NOT_HELD" if rfq.get("required_policies")
                  else "DEADLINE_TOO_SHORT" if time.time() >= deadline or int(escrow["reserve_deadline"]) < deadline
                  or fulfill_by < deadline + 5 or int(escrow["refund_after"]) < paid_by
                  else "PRICE_ABOVE_CAP" if price > int(terms.get("max_source_amount", price))
                  else "INSUFFICIENT_LIQUIDITY" if amount + promised > await balance.call() else None)
        if reason:
            return {"decline": reason}
        self.promises[rfq["auction_id"]] = asset, amount, int(escrow["reserve_deadline"])
        return {"quote": self.signer.sign({
            "auctionId": rfq["auction_id"], "termsHash": rfq["terms_hash"], "sourceChain": escrow["chain_id"],
            "sourceAmount": str(price), "payoutAccount": source.account, "escrowContract": escrow["contract"],
            "destination": destination, "fulfillmentAmount": str(amount), "deliveryAccount": target.account,
            "fulfillmentProxy": proxy, "fulfillBy": rfc3339(fulfill_by), "validUntil": rfc3339(escrow["reserve_deadline"])})}

    async def answer(self, request):
        rfq = json.loads(request.data)
        bid = {"version": "1.0", **await self.quote(rfq)}
        await self.jetstream.publish(f"auction.bid.{self.token}.{rfq['auction_id']}", json.dumps(bid).encode())
        print("bid", rfq["auction_id"], bid.get("decline", "quote"), flush=True)

    async def step(self, award, quote, quote_hash):
        """Does what the chains say is next. Returns how the award has ended, or `None` while it has not."""
        payment, fulfill_by = keccak(text=award["payment_id"]), unix(quote["fulfillBy"])
        asset, recipient = quote["destination"]["asset_identifier"], quote["destination"]["account"]
        source, target = self.chains[quote["sourceChain"]], self.chains[asset.split("/")[0]]
        escrow, settled = source.contract("GatewayEscrow", quote["escrowContract"]), await source.settled()
        held = await escrow.escrowOf(payment).call(block_identifier=settled["number"])
        if held.state < RESERVED:
            return "lapsed" if settled["timestamp"] > unix(quote["validUntil"]) else None
        verifier = self.verifiers.get((quote["sourceChain"], held.releaser.lower()))
        agreed = (quote_hash, quote["termsHash"], source.address, token_of(award["terms"]["source"]["asset_identifier"]),
                  int(quote["sourceAmount"]), fulfill_by)
        found = ("0x" + held.quoteHash.hex(), "0x" + held.termsHash.hex(), held.settler, held.token, held.sourceAmount,
                 held.fulfillBy)
        paid_by = fulfill_by + source.config["refund_delay_seconds"]
        if found != agreed or not verifier or held.deposited < held.sourceAmount or held.refundAfter < paid_by:
            return "the escrow holds something else"
        if held.state != RESERVED:
            return ENDS[held.state]
        proxy, final = target.contract("FulfillmentProxy", quote["fulfillmentProxy"]), await target.settled()
        delivery = [token_of(asset), address(recipient), int(quote["fulfillmentAmount"]), fulfill_by]
        key = await proxy.fulfillmentKey(payment, quote_hash, target.address, *delivery).call()
        if await proxy.fulfilledAt(key).call(block_identifier=final["number"]):
            if (await escrow.escrowOf(payment).call()).state != RESERVED:
                return None  # paid, in a block that is not settled yet
            request = {member: award[member] for member in ("version", "payment_id", "terms", "escrow", "quote")}
            answer = await asyncio.to_thread(post, verifier + "/v1/attestations/delivery", request, self.signer)
            if answer["status"] == "attested":
                await source.send(f"release {payment.hex()}", escrow.release(payment, answer["signature"]))
        elif final["timestamp"] > fulfill_by:
            return "not delivered in time"
        elif not await proxy.fulfilledAt(key).call() and time.time() + 2 <= fulfill_by:
            token, spender = target.contract("DevToken", delivery[0]), address(quote["fulfillmentProxy"])
            if await token.allowance(target.address, spender).call() < delivery[2]:
                await target.send(f"approve {spender} {delivery[0]}", token.approve(spender, 2**256 - 1))
                return None
            sent = await target.send(f"fulfill {key.hex()}", proxy.fulfill(payment, quote_hash, *delivery))
            report = {"version": "1.0", "payment_id": award["payment_id"], "transaction_hash": sent}
            await self.nats.publish(f"auction.report.{self.token}.{award['payment_id']}", json.dumps(report).encode())

    async def settle(self, message):
        award = json.loads(message.data)
        payment, (quote, quote_hash) = award["payment_id"], self.signer.own(award["quote"])
        # What it signed it agreed to. All else is compared with that, here or in the escrow.
        agreed = quote and (quote["auctionId"] == payment or quote["auctionId"].startswith("qrq_"))
        if not agreed or terms_hash(award["terms"]) != quote["termsHash"]:
            print("award", payment, "is not this settler's", flush=True)
            return await message.term()
        if payment not in self.working:
            self.working.add(payment)
            asset, amount, outcome = quote["destination"]["asset_identifier"], int(quote["fulfillmentAmount"]), None
            self.promises[quote["auctionId"]] = asset, amount, 1 << 63
            while not outcome:
                try:
                    await message.in_progress()
                    outcome = await self.step(award, quote, quote_hash)
                except Exception as fault:  # whatever a node or a verifier does, they are asked again
                    print("award", payment, "is held up:", repr(fault), flush=True)
                await asyncio.sleep(0.5)
            print("award", payment, "has ended:", outcome, flush=True)
            del self.promises[quote["auctionId"]]
            self.working.remove(payment)
            await message.ack()

    def begin(self, work):
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def register(self):
        accounts = [{"chain_id": chain_id, "payout_account": chain.account, "delivery_account": chain.account}
                    for chain_id, chain in self.chains.items()]
        corridors = [{"source_asset": source, "destination_asset": target} for source, target in self.corridors]
        entry = {"version": "1.0", "settler": self.signer.did, "accounts": accounts, "corridors": corridors}
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
        await self.nats.subscribe(f"auction.rfq.{self.token}.*", cb=asked)
        await self.nats.flush()
        print("at work as", self.signer.did, flush=True)
        self.begin(self.register())
        self.begin(self.awards())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await self.jetstream.publish(f"$KV.settlers.{self.token}", b"", headers={"KV-Operation": "DEL"})


if __name__ == "__main__":
    settler = Settler(tomllib.loads(Path(sys.argv[1]).read_text()))
    print(settler.signer.did, settler.token) if sys.argv[2:] == ["id"] else asyncio.run(settler.run())
