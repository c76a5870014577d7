"""One EVM chain with the settler's account on it. No other process may send from that account."""
import asyncio, json
from contextlib import suppress
from pathlib import Path

from web3 import AsyncHTTPProvider, AsyncWeb3, Web3

ARTIFACTS = Path(__file__).resolve().parents[2] / "contracts/artifacts"


def address(text):
    return Web3.to_checksum_address(text)


def token_of(asset):
    return address(asset.rpartition(":")[2])


class Chain:
    def __init__(self, config, key):
        self.config, self.eth = config, AsyncWeb3(AsyncHTTPProvider(config["rpc_url"])).eth
        self.signer = self.eth.account.from_key(key)
        self.address, self.account = self.signer.address, self.signer.address.lower()
        self.flights, self.sending = {}, asyncio.Lock()

    def contract(self, name, at, part="functions"):
        abi = json.loads((ARTIFACTS / f"{name}.json").read_text())["abi"]
        return getattr(self.eth.contract(address(at), abi=abi, decode_tuples=True), part)

    async def check_id(self):
        answered = await self.eth.chain_id
        if self.config["chain_id"] != f"eip155:{answered}":
            raise SystemExit(f"{self.config['rpc_url']} is chain {answered} and not {self.config['chain_id']}")

    async def settled(self):
        """The newest block that is deep enough to conclude from."""
        depth = self.config["required_depth"]
        return await self.eth.get_block(depth if depth == "finalized" else max(0, await self.eth.block_number - depth))

    async def deposited(self, escrow, payment, block):
        """What went into an escrow in that block: the price, or more, so that a dearer settler can take the place of one that fades."""
        logs = await self.contract("GatewayEscrow", escrow, "events").Deposited.get_logs(
            argument_filters={"paymentId": payment}, from_block=block, to_block=block)
        return logs[0].args.amount

    async def send(self, purpose, function):
        """Sends a transaction, or once more the same bytes while they may still land. One that would revert is refused."""
        async with self.sending:
            mined = await self.eth.get_transaction_count(self.address)
            if purpose not in self.flights or self.flights[purpose][0] < mined:
                nonce = await self.eth.get_transaction_count(self.address, "pending")
                call = await function.build_transaction({"from": self.address, "nonce": nonce})
                self.flights[purpose] = nonce, self.signer.sign_transaction({**call, "gas": call["gas"] * 5 // 4})
            with suppress(Exception):  # whether it was known already or is lost, the chain will show
                await self.eth.send_raw_transaction(self.flights[purpose][1].raw_transaction)
            return self.flights[purpose][1].hash.to_0x_hex()
