"""Refunds without the gateway, on a running network of gw-dev: of deposits that no gateway was told of. Those on EVM chains
are in test_anvil.py."""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from hashlib import sha256

import httpx
import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import ID as SYSTEM_PROGRAM
from solders.transaction import Transaction

from gateway_client import Gateway, NotDue, Order, Pins, Refund, Terms, Wallet, refund, terms
from gateway_client.keccak import on_chain
from gateway_client.order import rfc3339
from gateway_client.solana import SolanaWallet, program, rebuild
from gateway_client.solana.message import mint_of
from gateway_client.transport import run
from gateway_client.tron import Deposit, TronWallet, check
from gateway_client.trust import Limits
from network import SCENARIOS, Network

pytestmark = pytest.mark.network
#: The windows, the gateway's refund delay of half a minute, and slow machines.
PATIENCE_SECONDS = 150
WINDOW_SECONDS = 15
ED25519 = Pubkey.from_string("Ed25519SigVerify111111111111111111111111111")
INSTRUCTIONS = Pubkey.from_string("Sysvar1nstructions1111111111111111111111111")


def network_with(chain: str) -> Network:
    network = Network.found()
    if not network.has(chain):
        pytest.skip("the network has no such chain")
    return network


def known(network: Network, order: Order, pins: Pins) -> Terms:
    with Gateway(network.url) as gateway:
        return terms(order, {chain: gateway.defaults(chain) for chain in order.chains}, pins, Limits())


def test_a_deposit_on_tron_comes_back() -> None:
    network = network_with("tron")
    [scenario] = [one for one in SCENARIOS["scenarios"] if one["name"] == "tron-to-evm"]
    # By transactions of the payer's own, whatever allowance stands.
    own = {"quote_seconds": 2, "fulfillment_seconds": 20, "members": {"message_scheme": "TRON"}}
    order = network.order({**scenario, **own}).timed()
    wallet, pins = network.wallet("tron"), network.pins("tron")
    assert isinstance(wallet, TronWallet)
    with Gateway(network.url) as gateway:
        prepared = gateway.prepare(order)
    checked = check(known(network, order, pins), prepared)
    assert isinstance(checked, Deposit)
    with httpx.Client() as client:
        for transaction in checked.transactions:
            signature = run(wallet._signature(transaction.id), client)
            answer = run(wallet._ask("/wallet/broadcasthex", {"transaction": transaction.signed(signature).hex()}), client)
            assert answer["result"] is True, answer
            until = time.monotonic() + PATIENCE_SECONDS
            while not run(wallet._ask("/wallet/gettransactioninfobyid", {"value": transaction.id.hex()}), client):
                assert time.monotonic() < until
                time.sleep(0.2)
    back = overdue(wallet, order, pins)
    assert (back.amount, back.owner) == (order.max_source_amount, order.account)


def test_a_deposit_on_solana_comes_back() -> None:
    network = network_with("solana")
    [scenario] = [one for one in SCENARIOS["scenarios"] if one["name"] == "solana-to-evm"]
    wallet, pins = network.wallet("solana"), network.pins("solana")
    assert isinstance(wallet, SolanaWallet)
    order = network.order(scenario)
    with httpx.Client() as client:
        now = program.clock_time(run(wallet._data(program.CLOCK), client) or b"")
        order = replace(order, fulfillment_deadline=rfc3339(now + WINDOW_SECONDS), quote_deadline=rfc3339(now)).timed()
        own = known(network, order, pins)
        run(wallet.allow(own, False), client)
        deposit(wallet, own, client)
    back = overdue(wallet, order, pins)
    assert (back.amount, back.owner) == (order.max_source_amount, order.account)


def deposit(wallet: SolanaWallet, own: Terms, client: httpx.Client) -> None:
    """The program's `deposit_and_reserve`, as a gateway would send it, by the reserver of gw-dev. Everyone knows its key."""
    reserver = Keypair.from_seed(sha256(b"gw dev solana key of Reserver").digest())
    payer, program_id = wallet._signer.pubkey(), Pubkey.from_string(own.escrow)
    mint, payment = mint_of(own.order.source["asset_identifier"]), on_chain(own.order.payment_id)
    deadline = own.fulfillment_deadline
    signed = rebuild(own, deadline, deadline + 1)
    signature = bytes(wallet._signer.sign_message(signed.digest))
    verified = bytes.fromhex("01003000ffff1000ffff70002000ffff") + bytes(payer) + signature + signed.digest
    token_program = run(wallet._token_program(mint), client)
    escrow, vault = program.Escrow.addresses(program_id, payment)
    accounts = [
        AccountMeta(payer, True, True),
        AccountMeta(reserver.pubkey(), True, False),
        AccountMeta(Pubkey.find_program_address([b"config"], program_id)[0], False, False),
        AccountMeta(escrow, False, True),
        AccountMeta(vault, False, True),
        AccountMeta(program.token_account(payer, token_program, mint), False, True),
        *(AccountMeta(key, False, False) for key in (signed.delegate, mint, token_program, SYSTEM_PROGRAM, INSTRUCTIONS)),
    ]

    def u64(value: int) -> bytes:
        return value.to_bytes(8, "little")

    data = [bytes([1]), payment, own.order.terms_hash(), bytes(32), bytes(payer), u64(own.amount)]
    data += [bytes(Pubkey.from_string(own.releaser)), u64(deadline), u64(deadline), u64(deadline + 1), bytes(payer), b"\0"]
    data += [b"\7" * 32, bytes(reserver.pubkey()), u64(own.amount), u64(deadline)]
    instructions = [Instruction(ED25519, verified, []), Instruction(program_id, b"".join(data), accounts)]
    latest = run(wallet.node.call("getLatestBlockhash", {"commitment": "confirmed"}), client)["value"]["blockhash"]
    built = Message.new_with_blockhash(instructions, payer, Hash.from_string(latest))
    signatures = [wallet._signer.sign_message(bytes(built)), reserver.sign_message(bytes(built))]
    sent = base64.b64encode(bytes(Transaction.populate(built, signatures))).decode()
    run(wallet.node.call("sendTransaction", sent, {"encoding": "base64", "preflightCommitment": "confirmed"}), client)
    until = time.monotonic() + PATIENCE_SECONDS
    while run(wallet._data(escrow, program_id), client) is None:
        assert time.monotonic() < until
        time.sleep(0.2)


def overdue(wallet: Wallet, order: Order, pins: Pins) -> Refund:
    """The refund, asked for until it is due, refused before, and refused again."""
    assert pins.escrow
    until = time.monotonic() + PATIENCE_SECONDS
    refused = 0
    while True:
        try:
            back = refund(wallet, order.payment_id, escrow=pins.escrow)
        except NotDue as fault:
            assert fault.refund_after, fault
            assert time.monotonic() < until, fault
            refused += 1
            time.sleep(0.5)
        else:
            break
    assert refused
    with pytest.raises(NotDue, match="refunded"):
        refund(wallet, order.payment_id, escrow=pins.escrow)
    return back
