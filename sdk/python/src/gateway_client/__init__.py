"""Client of the cross-chain payment gateway.

`Gateway` and `AsyncGateway` are the gateway's operations, and `pay` on top of them. Wallets are in `gateway_client.evm`,
`gateway_client.solana` and `gateway_client.tron`, each an extra of the package. `refund` and `claim` need no gateway.
"""

from .amounts import decimals, units
from .async_client import AsyncGateway
from .batches import BatchPayment, PaymentBatch, batch_request
from .client import Gateway
from .errors import (
    AddressMismatch,
    BatchMismatch,
    ClientError,
    Declined,
    FaultyRequest,
    GatewayError,
    LimitExceeded,
    MandateMismatch,
    NeedsNewRequestId,
    NeedsReconciling,
    NoAnswer,
    NodeError,
    NotDue,
    NotSigned,
    PinMismatch,
    RetryLater,
    StaleAddress,
    StillPending,
)
from .mandate_terms import MandateOrder, MandateTerms
from .mandates import SignedMandate, async_cancel_mandate, cancel_mandate
from .order import Order, new_caller_secret, new_request_id, owned, payment_id
from .paying import Choice, Payment, submission
from .refunds import async_claim, async_refund, claim, refund
from .retry import RetryClassification
from .trust import Limits, Pins, Terms, believed, terms
from .verifiers import releaser_of, verifier_set_id
from .wallet import Refund, Sent, Wallet

__all__ = [
    "AddressMismatch",
    "AsyncGateway",
    "BatchMismatch",
    "BatchPayment",
    "Choice",
    "ClientError",
    "Declined",
    "FaultyRequest",
    "Gateway",
    "GatewayError",
    "LimitExceeded",
    "Limits",
    "MandateMismatch",
    "MandateOrder",
    "MandateTerms",
    "NeedsNewRequestId",
    "NeedsReconciling",
    "NoAnswer",
    "NodeError",
    "NotDue",
    "NotSigned",
    "Order",
    "Payment",
    "PaymentBatch",
    "PinMismatch",
    "Pins",
    "Refund",
    "RetryClassification",
    "RetryLater",
    "Sent",
    "SignedMandate",
    "StaleAddress",
    "StillPending",
    "Terms",
    "Wallet",
    "async_cancel_mandate",
    "async_claim",
    "async_refund",
    "batch_request",
    "believed",
    "cancel_mandate",
    "claim",
    "decimals",
    "new_caller_secret",
    "new_request_id",
    "owned",
    "payment_id",
    "refund",
    "releaser_of",
    "submission",
    "terms",
    "units",
    "verifier_set_id",
]
