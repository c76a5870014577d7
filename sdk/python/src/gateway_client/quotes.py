"""Quotes: the hash of the document that a settler signed, and whether it is an offer for the order.

A quote is a JSON-LD document; `quote_hash` is SHA-256 of its canonical N-Quads (URDNA2015) without `proof`, as the gateway's page
`/docs/quote-hash` describes. Quotes have one form only: members of one context, all of them texts, and one object,
`destination`. So the graph has two nodes without a name, and its canonical form is made here without a processor of JSON-LD.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from .amounts import amount_of
from .errors import NotSigned
from .order import Order, owned

#: The context that a quote names first. It only names fixed bytes, and nothing is fetched from it.
CONTEXT = "https://gateway.example/contexts/gateway/v1"
_VOCABULARY = "https://gateway.example/vocab#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_DATE_TIME = "^^<http://www.w3.org/2001/XMLSchema#dateTime>"
_TEXTS = frozenset(
    [
        "auctionId",
        "termsHash",
        "sourceChain",
        "sourceAmount",
        "payoutAccount",
        "escrowContract",
        "fulfillmentAmount",
        "deliveryAccount",
        "fulfillmentProxy",
    ]
)
_TIMES = frozenset({"fulfillBy", "validUntil"})
_DESTINATION = frozenset({"asset_identifier", "account"})
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})


@dataclass(frozen=True)
class Quote:
    """What is taken."""

    quote_id: str
    hash: bytes
    #: The price, smallest units of the source's asset.
    source_amount: int
    document: Mapping[str, Any]


def taken(order: Order, quote_id: str, document: object) -> Quote:
    """The quote, where it is an offer for the order.

    Raises `NotSigned` where it is for something else, or dearer than allowed.
    """
    if not isinstance(document, Mapping):
        raise NotSigned("the document is not a quote")
    quote_hash = hash_of(document)
    if quote_id != "quo_" + base64.b32encode(quote_hash).decode().rstrip("=").lower():
        raise NotSigned("the quote's id is not that of its document")
    stated = (document["termsHash"], document["sourceChain"], document["fulfillmentAmount"])
    if stated != ("0x" + order.terms_hash().hex(), order.chain_id, str(order.amount)):
        raise NotSigned("the quote is for something else")
    if owned(**document["destination"]) not in order.destination:
        raise NotSigned("the quote delivers elsewhere")
    try:
        price = amount_of(document["sourceAmount"], "sourceAmount")
    except ValueError as fault:
        raise NotSigned(str(fault)) from None
    if order.max_source_amount is not None and price > order.max_source_amount:
        raise NotSigned(f"the quote costs {price}, and {order.max_source_amount} is allowed")
    return Quote(quote_id, quote_hash, price, document)


def hash_of(document: Mapping[str, Any]) -> bytes:
    """`quote_hash`. Raises `NotSigned` where the document is not of the form that quotes have."""
    return sha256(nquads(document).encode()).digest()


def nquads(document: Mapping[str, Any]) -> str:
    """The canonical N-Quads of a quote without its proof."""
    members = {name: value for name, value in document.items() if name not in ("@context", "proof")}
    contexts = document.get("@context")
    if not isinstance(contexts, list) or not contexts or contexts[0] != CONTEXT:
        raise NotSigned("the quote has another context")
    destination, subject = members.pop("destination", None), members.pop("id", None)
    if members.pop("type", None) != "GatewayQuote" or not isinstance(destination, Mapping):
        raise NotSigned("the document is not a quote")
    if {"settler", *_TEXTS, *_TIMES} != members.keys() or destination.keys() != _DESTINATION:
        raise NotSigned("the quote has other members than quotes have")
    own = [f"<{_TYPE}> <{_VOCABULARY}GatewayQuote>"]
    for name, value in members.items():
        term = f"<{_iri(value)}>" if name == "settler" else _literal(value) + (_DATE_TIME if name in _TIMES else "")
        own.append(f"<{_VOCABULARY}{name}> {term}")
    inner = [f"<{_VOCABULARY}{name}> {_literal(value)}" for name, value in destination.items()]
    link = f"<{_VOCABULARY}destination>"

    def lines(quote: str, delivered: str, is_whole: tuple[bool, bool] = (True, True)) -> str:
        of_quote = [f"{quote} {said} .\n" for said in own] if is_whole[0] else []
        of_destination = [f"{delivered} {said} .\n" for said in inner] if is_whole[1] else []
        return "".join(sorted([*of_quote, *of_destination, f"{quote} {link} {delivered} .\n"]))

    if subject is not None:
        return lines(f"<{_iri(subject)}>", "_:c14n0")
    # Of two nodes without a name the one comes first whose statements have the smaller hash (URDNA2015, 4.6).
    as_quote = sha256(lines("_:a", "_:z", (True, False)).encode()).digest()
    as_destination = sha256(lines("_:z", "_:a", (False, True)).encode()).digest()
    return lines("_:c14n0", "_:c14n1") if as_quote < as_destination else lines("_:c14n1", "_:c14n0")


def _literal(value: object) -> str:
    if not isinstance(value, str) or re.search("[\x00-\x09\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff\ud800-\udfff]", value):
        raise NotSigned("the quote has a member that is not a text")
    return f'"{value.translate(_ESCAPES)}"'


def _iri(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!#-;=?-\[\]_a-z~]+", value):
        raise NotSigned("the quote names something that is not an IRI")
    return value
