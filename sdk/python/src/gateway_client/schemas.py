"""Types of requests and answers. Made of protocol/openapi.json by generate.py: do not edit."""
from __future__ import annotations

# ruff: noqa

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


PaymentStatus: TypeAlias = Literal["pending", "finalizing", "completed", "failed"]
"""
`pending`: accepted, nothing has reached the recipient. `finalizing`: the delivery is on chain and gathers confirmations; not final. `completed`: delivered, final. `failed`: did not complete, escrowed funds are returned; final.
"""


class PaymentTransaction(TypedDict):
    """
    A transaction on a chain.
    """

    transaction_hash: str
    """
    Hex hashes carry the 0x prefix, on Tron too.
    """
    chain_id: str
    """
    CAIP-2 id.
    """
    block_number: NotRequired[int]
    """
    Absent until mined; provisional until `settled`.
    """
    settled: NotRequired[bool]
    """
    Beside a `block_number`: whether the block has the depth that its chain requires, so that the transaction stays there.
    """
    confirmations: NotRequired[int]
    """
    While not settled, in the status read: the blocks (slots on Solana) from the transaction's own to the newest that this gateway has seen, both counted. Absent means unknown, never zero.
    """


class FulfillmentConfirmation(TypedDict):
    """
    The receipt of a completed payment.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    request_id: str
    """
    The payer's idempotency key.
    """
    source_chain_id: str
    """
    CAIP-2 id.
    """
    destination_chain_id: str
    """
    CAIP-2 id.
    """
    source_tx_hash: str
    """
    The deposit into the escrow; on Tron the payer's own transaction, or the gateway's from a deposit address.
    """
    destination_tx_hash: str
    """
    The delivery.
    """
    fulfillment_timestamp: NotRequired[str]
    """
    Time of the delivery's block.
    """
    source_block_number: NotRequired[int]
    """
    Block of the deposit.
    """
    destination_block_number: NotRequired[int]
    """
    Block of the delivery.
    """


class PaymentBlockchainContext(TypedDict):
    """
    Where on a chain a failure happened.
    """

    chain_id: NotRequired[str]
    """
    CAIP-2 id.
    """
    transaction_hash: NotRequired[str]
    """
    The transaction that failed.
    """
    block_number: NotRequired[int]
    """
    Its block.
    """
    contract_address: NotRequired[str]
    """
    The contract that refused.
    """
    revert_reason: NotRequired[str]
    """
    The decoded reason.
    """
    gas_used: NotRequired[str]
    """
    Gas, energy or compute units used, decimal.
    """
    estimated_gas_needed: NotRequired[str]
    """
    What the transaction would have needed, decimal.
    """


class CommittedDeposit(TypedDict):
    """
    `GatewayEscrow.GatewayDeposit`. Times are UNIX seconds.
    """

    payment_id: str
    """
    keccak256 of the payment's id.
    """
    terms_hash: str
    """
    Hash of source, destinations and amounts.
    """
    quote_hash: str
    """
    Zero: no quote is agreed to.
    """
    payer: str
    """
    The refund account.
    """
    reserver: str
    """
    Who admits the deposit and names the settler.
    """
    releaser: str
    """
    Who attests the delivery.
    """
    reserve_deadline: int
    """
    Last second in which the deposit can be made. After it anyone can have the money given back.
    """
    fulfillment_deadline: int
    """
    Last second of a delivery.
    """
    refund_after: int
    """
    First second of a refund from the escrow.
    """


class PaymentClaim(TypedDict):
    """
    Money of a payment that waits in its escrow for its owner.
    """

    owner: str
    """
    Account that is owed: the settler's payout account, or the payer.
    """
    asset: str
    """
    What is owed, CAIP-19: the payment's source asset.
    """
    amount: str
    """
    How much, smallest unit, decimal.
    """
    chain_id: str
    """
    Chain of the escrow.
    """
    escrow_contract: str
    """
    The escrow that holds it.
    """
    call: str
    """
    The call of the escrow that brings it to its owner, by anyone: `claimFor(owner, token)`. The owner itself takes it to any account by `claim(token, to)`. On Solana the instruction `return_remainder`, which brings the payer what a release left.
    """


class DeclineSummary(TypedDict):
    """
    How many settlers declined for one reason, each counted once under its most recent one.
    """

    reason: str
    """
    Reason code, such as `INSUFFICIENT_LIQUIDITY`. Settlers may have their own.
    """
    count: int
    """
    Number of settlers.
    """
    retry_classification: NotRequired[
        Literal[
            "RETRY_AFTER_DELAY",
            "RETRY_WITH_NEW_REQUEST_ID",
            "NOT_RETRYABLE_FIX_REQUEST",
            "NOT_RETRYABLE",
            "RECONCILE_THEN_DECIDE",
        ]
    ]
    """
    Absent for a reason that the gateway does not know.
    """
    docs_url: NotRequired[str]
    """
    Page that describes the code.
    """


class Transactions(TypedDict):
    """
    Transactions by stage.
    """

    approval: NotRequired[PaymentTransaction]
    """
    On Tron: the payer's own transaction that gives the escrow its allowance.
    """
    transfer: NotRequired[PaymentTransaction]
    """
    On Solana: what a stock client of x402 pays to the address of its merchant's offer.
    """
    deposit: NotRequired[PaymentTransaction]
    """
    Commits the payer's funds; on Tron the payer's own transaction, or from a deposit address the gateway's, which reserves, too.
    """
    reservation: NotRequired[PaymentTransaction]
    """
    On Tron: reserves the deposit for the settler, where the deposit does not.
    """
    reassignment: NotRequired[PaymentTransaction]
    """
    Reserves the escrow for another settler, in the place of one that did not deliver.
    """
    fulfillment: NotRequired[PaymentTransaction]
    """
    Pays the recipient.
    """
    release: NotRequired[PaymentTransaction]
    """
    Pays the settler out of the escrow.
    """
    refund: NotRequired[PaymentTransaction]
    """
    Returns the escrow to the payer.
    """


class TimelineEntry(TypedDict):
    """
    One thing that happened; also the data of one server-sent event.
    """

    id: str
    """
    What `Last-Event-ID` takes.
    """
    version: int
    """
    Number of the decision it belongs to, from 1.
    """
    event: str
    """
    Type of the event, such as `EscrowSecured`.
    """
    at: str
    """
    When it was recorded.
    """
    status: PaymentStatus
    cause: Literal[
        "payment_request",
        "address_request",
        "address_funded",
        "not_funded",
        "money_at_address",
        "quote_award",
        "all_settlers_answered",
        "no_settler_asked",
        "quote_deadline",
        "quotes_collected",
        "best_quote",
        "selector_choice",
        "selector_silent",
        "no_quotes",
        "award_accepted",
        "award_refused",
        "award_unanswered",
        "award_withdrawn",
        "payer_deposit",
        "fee_too_low",
        "cannot_land",
        "attempt_failed",
        "not_deposited",
        "deposit_mined",
        "deposit_settled",
        "delivery_mined",
        "delivery_settled",
        "delivery_attested",
        "attestation_missing",
        "not_delivered",
        "not_reserved",
        "not_reassigned",
        "reassignment_settled",
        "not_released",
        "release_settled",
        "refund_window",
        "non_delivery_attested",
        "refund_settled",
    ]
    """
    What made it happen. `payment_request`: the payer's request. `address_request`: somebody asked for a deposit address. `address_funded`: the money is at the deposit address. `not_funded`: too little came to the deposit address in time. `money_at_address`: a settled block past the deposit's window holds money at the deposit address. `quote_award`: the payer's award of a collected quote. `all_settlers_answered`: every settler that was asked had answered. `no_settler_asked`: no settler serves what was asked for. `quote_deadline`: the time for quotes was over. `quotes_collected`: the quotes were there. `best_quote`: the rule by which quotes win. `selector_choice`: what the payer's quote selector signed. `selector_silent`: the payer's quote selector gave no valid choice in time. `no_quotes`: nobody offered a usable quote. `award_accepted`: the winner stands by its quote. `award_refused`: the winner does not stand by its quote. `award_unanswered`: the winner did not answer in time. `award_withdrawn`: the award is over. `payer_deposit`: the payer's own transaction is on chain. `fee_too_low`: no block took the transaction at its price. `cannot_land`: a settled block shows that the transaction cannot land any more, or failed. `attempt_failed`: the attempt before came to nothing. `not_deposited`: the deposit was not made, and cannot be any more. `deposit_mined`: a block of the source chain holds the deposit. `deposit_settled`: a settled block of the source chain holds the deposit. `delivery_mined`: a block of the destination chain holds the delivery. `delivery_settled`: the delivery has the confirmations that its chain requires. `delivery_attested`: the fulfillment verifier, or so many of a set as have to, attested the delivery. `attestation_missing`: the fulfillment verifier, or so many of a set as have to, has not attested the delivery. `not_delivered`: a settled block past the deadline holds no delivery. `not_reserved`: no settler could be named for the deposit in time. `not_reassigned`: nobody else was found to deliver, or the escrow could not be reassigned in time. `reassignment_settled`: a settled block of the source chain holds the reassignment. `not_released`: the settler had not released the escrow. `release_settled`: a settled block of the source chain holds the release. `refund_window`: the refund window is open. `non_delivery_attested`: the fulfillment verifier, or so many of a set as have to, attested that nothing was delivered. `refund_settled`: a settled block of the source chain holds the refund.
    """
    summary: str
    """
    For humans; may be reworded.
    """
    transactions: NotRequired[Transactions]
    """
    Transactions by stage.
    """
    data: NotRequired[dict[str, Any]]
    """
    What else there is to know, by the type of the event. An `EscrowReleased` or `EscrowRefunded` whose money the token would not hand over has `claims`, each a `PaymentClaim`.
    """


class OwnPaymentOverdue(TypedDict):
    """
    A step that is past its time.
    """

    step: str
    """
    `undeposited`, `undelivered`, `unreassigned`, `unattested`, `unreleased` or `unrefunded`.
    """
    since: str
    """
    When it should have happened at the latest.
    """


class OwnPaymentSource(TypedDict):
    """
    What was paid, and by whom.
    """

    asset_identifier: str
    """
    The asset, CAIP-19.
    """
    account: str
    """
    The payer.
    """
    permitted_amount: str
    """
    The most that the payer's signature permits, smallest unit, decimal.
    """
    paid_amount: NotRequired[str]
    """
    What was taken into escrow, smallest unit, decimal. Absent until it is there at the required depth. What is over the settler's price comes back with the release: a deposit may leave room for another settler, and on Tron it is the most that is permitted.
    """
    refunded: bool
    """
    Whether the payer has it back.
    """


class OwnPaymentDestination(TypedDict):
    """
    What is delivered, and to whom.
    """

    asset_identifier: str
    """
    The asset, CAIP-19.
    """
    account: str
    """
    The recipient.
    """
    amount: str
    """
    What the settler has to deliver, smallest unit, decimal.
    """
    delivered: bool
    """
    Whether it is delivered at the required depth.
    """


class OwnPaymentRate(TypedDict):
    """
    An exact rate: smallest units delivered for smallest units paid, in lowest terms. Assets with other decimals have to be scaled by them. It holds the settler's spread and all that the payer paid for; the gateway takes nothing.
    """

    numerator: str
    """
    Smallest units delivered, decimal.
    """
    denominator: str
    """
    Smallest units paid, decimal.
    """


class OwnPaymentTransaction(TypedDict):
    """
    A transaction.
    """

    chain_id: str
    """
    CAIP-2 id.
    """
    transaction_hash: str
    """
    Its hash.
    """
    block_number: NotRequired[int]
    """
    Absent until mined.
    """


class SessionChallenge(TypedDict):
    """
    What is to be signed.
    """

    message: str
    """
    The text to sign, exactly as it is (CAIP-122; EIP-4361 on EVM chains).
    """
    signature_scheme: Literal["eip191", "ed25519", "tip191", "did"]
    """
    How: `eip191` is `personal_sign`, or ERC-1271 by a contract; `ed25519` is over the text's bytes; `tip191` is `signMessageV2`; `did` is by a key that the DID authorises for `authentication`, as its kind signs texts.
    """
    expires_at: str
    """
    Until when it can be brought back.
    """


class Session(TypedDict):
    """
    A session.
    """

    token: str
    """
    The bearer token: it goes into the header `Authorization`, and nowhere else. Whoever has it is the owner until it expires.
    """
    token_type: str
    """
    Always `Bearer` (RFC 6750).
    """
    expires_at: str
    """
    Until when it counts.
    """
    owner: str
    """
    Who was proven: the DID, or the account behind its namespace.
    """
    chain_id: NotRequired[str]
    """
    The one chain on which the account is a contract that proved itself. Absent where the owner counts on all.
    """


class WebhookDisabled(TypedDict):
    """
    Why nothing is delivered to a webhook any more.
    """

    at: str
    """
    Since when.
    """
    reason: str
    """
    Why, for people.
    """


class WebhookKey(TypedDict):
    """
    A key that messages are verified with.
    """

    public_key: str
    """
    `whpk_` and the Base64 of an Ed25519 public key: for signatures `v1a`.
    """
    did: str
    """
    The same key as a `did:key`.
    """


class WebhookSummary(TypedDict):
    """
    What a webhook is.
    """

    id: str
    """
    Its id.
    """
    url: str
    """
    Where it is called.
    """
    owner: str
    """
    Whose payments it hears of: the DID, or the account behind its namespace.
    """
    payment_id: NotRequired[str]
    """
    The one payment that it hears of. Absent where it hears of all.
    """
    events: NotRequired[list[str]]
    """
    What it hears of them. Absent for everything.
    """
    registered_at: str
    """
    When it was registered. It hears of what happens from then on.
    """
    disabled: NotRequired[WebhookDisabled]
    """
    Why nothing is delivered to it. Absent while it is. What happens meanwhile waits; `redeliver` enables it again.
    """


class WebhookError(TypedDict):
    """
    What an endpoint answered to the last attempt that failed.
    """

    at: str
    """
    When.
    """
    error: str
    """
    What, for people.
    """


class WebhookDeadLetter(TypedDict):
    """
    A message that was given up.
    """

    message_id: str
    """
    Its `webhook-id`.
    """
    payment_id: str
    """
    The payment that it is about.
    """
    type: str
    """
    What it says.
    """
    occurred_at: str
    """
    When that happened.
    """
    given_up_at: str
    """
    When it was given up.
    """
    attempts: int
    """
    How often it was attempted.
    """
    error: str
    """
    What the endpoint answered last, for people.
    """


class DeletedWebhook(TypedDict):
    """
    A webhook that was deleted.
    """

    id: str
    """
    Its id.
    """


class WebhookRedelivery(TypedDict):
    """
    The messages that are delivered again.
    """

    message_ids: list[str]
    """
    Each by its `webhook-id`, which is the one that it had.
    """


class WebhookKeys(TypedDict):
    """
    The keys that messages are signed with, the current one first. Several while a key is rotated: then each message has a signature of each.
    """

    keys: list[WebhookKey]
    """
    The keys.
    """


class OwnedAsset(TypedDict):
    """
    An asset and the account that holds or receives it.
    """

    asset_identifier: str
    """
    CAIP-19 identifier, `{chain_id}/{asset_namespace}:{asset_reference}`; `/v1/defaults` lists those that are served.
    """
    account: str
    """
    Wallet address that owns the asset. EVM: 0x and 40 hex digits, with a valid EIP-55 checksum when in mixed case. Solana: Base58, as a destination never a token account. Tron: Base58 that begins with T. Never the zero address.
    """


class CollectedQuote(TypedDict):
    """
    A quote that may be awarded.
    """

    quote_id: str
    """
    What the award names.
    """
    fulfillment_quote: dict[str, Any]
    """
    The settler-signed quote, an opaque JSON-LD document: the preimage of the `quote_hash` that the escrow commits to on chain. Hash-equivalent to the emitted quote, not necessarily the same bytes. `/docs/quote-hash` says how to recompute the hash. Absent beside a `quote_id` when the stored quote cannot be read.
    """


class QuoteRequestRead(TypedDict):
    """
    The batch as it stands.
    """

    quote_request_id: str
    """
    Id of the batch.
    """
    status: Literal["collecting", "ready", "awarded", "expired"]
    """
    `collecting`, `ready` with `quotes`, `awarded` once one of them was, or `expired` when the quotes have lapsed.
    """
    source: OwnedAsset
    destination: list[OwnedAsset]
    fulfillment_amount: str
    """
    As it was asked for.
    """
    max_source_amount: NotRequired[str]
    """
    As it was asked for.
    """
    fulfillment_deadline: str
    """
    The original batch's, on a replay too.
    """
    quote_deadline: str
    """
    The original batch's, on a replay too.
    """
    quotes: NotRequired[list[CollectedQuote]]
    """
    There once collection is complete; empty when no settler offered a usable quote. In the order that `quotes_ordered_by` says.
    """
    quotes_ordered_by: NotRequired[Literal["selector", "price"]]
    """
    `selector`: the quote that the request's `quote_selector` chose comes first, the others behind it by price. `price`: the cheapest comes first; no selector was named, or it chose none in time. There with `quotes`.
    """
    awarded_quote_id: NotRequired[str]
    """
    The quote that was awarded. Only in the status read, once it is `awarded`.
    """
    payment_id: NotRequired[str]
    """
    The payment that it was awarded to. Only in the status read, once it is `awarded`.
    """
    requested_count: NotRequired[int]
    """
    Settlers asked. Absent means unknown, never zero.
    """
    decline_summary: NotRequired[list[DeclineSummary]]
    """
    Why settlers declined; provisional while `collecting`. Absent means unknown.
    """


class UnsignedMessage(TypedDict):
    """
    A SignedMessage without its signature.
    """

    message: str
    """
    What the signature is over, in hex.
    """
    message_prehash: str
    """
    On EVM the EIP-712 typed data as JSON, ready for `eth_signTypedData_v4`. On Solana the ordered bytes in hex, whose SHA-256 is `message`. On Tron the TIP-712 typed data as JSON, or under `TRON` the `raw_data` of a transaction in hex, whose SHA-256 is `message`; the messages are in the order in which their transactions are sent, after the auction.
    """
    payload: dict[str, Any]
    """
    What else the submission has to repeat. On EVM chains, and under `TRON_PERMIT2_ESCROW`, the windows and, under `EVM_EIP3009`, `deposit`, whose hash is the nonce; of an allowance what it says: `spender`, `amount`, `deadline` and so on. On Solana its `allowance_delegate` is the address that the payer approves to draw on its tokens. Under `TRON` it says what the transaction does: `function`, `contract`, `amount` and so on; everything is in the transaction itself.
    """


class VerifierMember(TypedDict):
    """
    One of the verifiers of a set.
    """

    account: str
    """
    Address or key that it signs with.
    """
    endpoint: str
    """
    Its origin.
    """


class Wrap(TypedDict):
    """
    The payer's own transaction that has to be on chain before the payment is submitted, where the source is the wrapped form of the chain's coin and the payer holds too little of it: it wraps what is missing. Absent where nothing is missing.
    """

    asset_identifier: str
    """
    What comes of it: the source's asset.
    """
    coin: str
    """
    What is wrapped: the chain's own coin.
    """
    amount: str
    """
    How much, smallest unit, one for one. Fees, and on Solana the rent of a new token account, come on top.
    """
    calls: list[dict[str, Any]]
    """
    The calls as wallets take them, in order. On EVM chains one, `to`, `data` and `value` of `eth_sendTransaction`; on Solana `program_id`, `accounts` and `data`, in hex, of the instructions of one transaction, which `approval` may follow in the same; on Tron one, the body of `/wallet/triggersmartcontract`, which answers with the transaction to sign and broadcast.
    """


class Approval(TypedDict):
    """
    The payer's own transaction that has to be on chain before the payment is submitted, as its allowance is too small; absent where it suffices, and under `TRON`, where it is one of the messages.
    """

    asset_identifier: str
    """
    What is allowed to be drawn.
    """
    spender: str
    """
    Who is allowed to draw it: Permit2 on EVM chains and on Tron, the program's address for the signing key on Solana.
    """
    amount: str
    """
    How much, smallest unit. A payer may allow more, once for all its payments.
    """
    call: dict[str, Any]
    """
    The call as wallets take it. On EVM chains `to`, `data` and `value` of `eth_sendTransaction`; on Solana `program_id`, `accounts` and `data`, in hex, of one instruction; on Tron the body of `/wallet/triggersmartcontract`, which answers with the transaction to sign and broadcast.
    """


class PreparedBatchPayment(TypedDict):
    """
    One payment of a batch.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """


class Mandate(TypedDict):
    """
    What a payer allows its merchant to ask for.
    """

    merchant: str
    """
    Who signs for each payment: an account with a key on the source's chain.
    """
    amount: str
    """
    The most that is drawn in a period, smallest unit of the source asset, with what settlers ask.
    """
    least: NotRequired[str]
    """
    What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the destination asset. Absent for no bound.
    """
    begins: int
    """
    First second of the first period, UNIX.
    """
    period_seconds: int
    """
    How long a period is, in seconds.
    """
    periods: int
    """
    How many there are.
    """
    lock_seconds: int
    """
    The most seconds from the deposit of a payment to its refund.
    """
    salt: str
    """
    Drawn at random by the payer, hex with 0x.
    """


class MandateCancellation(TypedDict):
    """
    How a payer ends a mandate.
    """

    call: dict[str, Any]
    """
    The payer's, or the merchant's, own call, as `eth_sendTransaction` takes it.
    """
    message: UnsignedMessage
    """
    EIP-712 typed data: with the payer's signature over it anyone can call `cancel` in its place.
    """


class ErrorResponse(TypedDict):
    """
    Every error of the API.
    """

    code: str
    """
    Stable identity of the error: branch on it, not on `message`.
    """
    message: str
    """
    For humans; may be reworded. Faults of a body begin with the member's name.
    """
    request_id: NotRequired[str]
    """
    Correlation id to quote to support, the value of the header `X-Request-Id`.
    """
    payment_id: NotRequired[str]
    """
    Absent when the error is not about a specific payment.
    """
    docs_url: NotRequired[str]
    """
    Page that describes the code.
    """
    domain: NotRequired[
        Literal[
            "PAYMENT_GATEWAY",
            "SETTLER_GATEWAY",
            "SETTLER_AGENT",
            "WALLET_ORCHESTRATION",
            "VERIFICATION_SERVICE",
            "BLOCKCHAIN",
            "EXTERNAL_SERVICE",
        ]
    ]
    """
    Service domain in which the error arose.
    """
    retry_classification: NotRequired[
        Literal[
            "RETRY_AFTER_DELAY",
            "RETRY_WITH_NEW_REQUEST_ID",
            "NOT_RETRYABLE_FIX_REQUEST",
            "NOT_RETRYABLE",
            "RECONCILE_THEN_DECIDE",
        ]
    ]
    """
    What to do about submitting a new request.
    """
    request_id_reusable: NotRequired[bool]
    """
    True: no payment exists under the id, so it is free. False: a payment exists and the id is spent. Absent where neither is known; it is read as false.
    """


class Verification(TypedDict):
    """
    A submission that would be accepted, or is a replay.
    """

    valid: Literal[True]
    """
    Every refusal is an error.
    """
    payment_id: str
    """
    Tracking id of the payment.
    """
    status: NotRequired[PaymentStatus]
    """
    Only where the payment exists: the submission would be a replay, and this is its status.
    """


class Settler(TypedDict):
    """
    A settler's record: in how many auctions it was asked, offered and declined, how many awards it won, and how those ended. Counted from the events of all payments and quote-requests of this gateway's journal.
    """

    settler: str
    """
    The settler's DID.
    """
    asked: int
    """
    Auctions, and collections of quotes, in which it was asked.
    """
    offered: int
    """
    Of these, those in which it made an eligible quote.
    """
    declined: int
    """
    Of these, those in which it declined.
    """
    won: int
    """
    Awards.
    """
    acknowledged: int
    """
    Awards that it accepted, and for which a deposit was then signed or found.
    """
    refused: int
    """
    Awards that it refused.
    """
    unanswered: int
    """
    Awards that it did not answer in time.
    """
    delivered: int
    """
    Payments that it delivered.
    """
    late: int
    """
    Of these, those in whose delivery the last quarter was used of the time from the escrow to the promise.
    """
    missed: int
    """
    Payments that were in escrow for it and that it did not deliver in its time.
    """
    median_delivery_seconds: NotRequired[int]
    """
    The median of its newest 101 deliveries: seconds from the block that secured the escrow to the block that holds the delivery. Absent without a delivery.
    """
    last_won_at: NotRequired[str]
    """
    When it won last. Absent where it never did.
    """
    passed_over_until: NotRequired[str]
    """
    Until then it is asked only where nobody else is asked, or nobody who is asked offers, for the awards that it missed. Absent where it is asked.
    """


class DeadlineLimits(TypedDict):
    """
    The windows of a new payment; others are refused with `INVALID_DEADLINE`.
    """

    quote_ms_min: int
    """
    Least milliseconds from now to `quote_deadline`.
    """
    quote_seconds_max: int
    """
    Most seconds from now to `quote_deadline`.
    """
    settlement_ms_min: int
    """
    Least milliseconds from `quote_deadline` to `fulfillment_deadline`.
    """
    settlement_seconds_max: int
    """
    Most seconds from `quote_deadline` to `fulfillment_deadline`, and to the `reserve_deadline` that is signed.
    """
    refund_seconds_max: int
    """
    Most seconds from `fulfillment_deadline` to the `refund_after` that is signed.
    """


class ServedAsset(TypedDict):
    """
    An asset.
    """

    asset_identifier: str
    """
    CAIP-19 identifier.
    """
    symbol: str
    """
    Ticker symbol, for display.
    """
    decimals: int
    """
    Decimal places.
    """
    wraps: NotRequired[str]
    """
    The chain's own coin, where the asset is its wrapped form: whoever holds the coin pays with this asset, and what is missing of it is wrapped as `/v1/payments/prepare` shows.
    """


class ContextIndex(TypedDict):
    """
    Where this service has the contexts that documents name.
    """

    contexts: dict[str, str]
    """
    Path of each context, by the URL under which documents name it.
    """


class ChainHealth(TypedDict):
    """
    Whether new payments may go through a chain.
    """

    chain_id: str
    """
    CAIP-2 id of the chain.
    """
    ready: bool
    """
    Whether they may.
    """
    cause: NotRequired[str]
    """
    Why they may not: `node_silent`, `node_stalled`, `other_chain`, `contract_missing` or `contract_unreadable`, and others in times to come.
    """
    message: NotRequired[str]
    """
    The same for humans; may be reworded.
    """


class X402Asset(TypedDict):
    """
    An asset that is served.
    """

    asset: str
    """
    Its bare reference, as in a requirement.
    """
    assetIdentifier: str
    """
    Its CAIP-19 id.
    """
    symbol: str
    """
    For display.
    """
    decimals: int
    """
    For display.
    """
    wraps: NotRequired[str]
    """
    The chain's own coin, where the asset is its wrapped form: whoever holds the coin can pay what is asked in this asset (ADR 116).
    """


class X402Offer(TypedDict):
    """
    A merchant's offer, in the two forms in which servers take it.
    """

    requirement: dict[str, Any]
    """
    An entry of `accepts` as it stands in a 402, and as `verify` and `settle` are told it.
    """
    route: dict[str, Any]
    """
    The same as an entry of `accepts` in the configuration of a route: of `paymentMiddleware` in `@x402/express` and its like.
    """


class SignedMessage(TypedDict):
    """
    One message that was signed.
    """

    message: str
    """
    Signed data in hex: on EVM and Solana the message hash with 0x prefix; on Tron the transaction's id, with or without it.
    """
    message_prehash: NotRequired[str]
    """
    Original data before hashing. On EVM the EIP-712 typed data as a JSON string, its numbers as JSON integers of any length or in strings, or the 66 bytes that begin with 0x1901 in hex. On Solana the ordered bytes in hex with 0x prefix. On Tron the transaction's `raw_data` in hex, whose SHA-256 is `message`: a token approval and the deposit, in this order, or the deposit alone where the allowance stands already.
    """
    signature: str
    """
    Signature in hex with 0x prefix, on every chain.
    """
    payload: NotRequired[dict[str, Any]]
    """
    Free-form context of the chain, preserved: it reaches the settlers that are asked, the winner and the verifier as it was written. All payloads of a request have at most 8 KiB together. `reserve_deadline`, `refund_after` (UNIX seconds) and `permitted_amount` are the payer's to choose; on EVM also `permit_deadline`, on Solana `delegate_signer`: the Ed25519 key, Base58, that signed because the payer approved it. On Tron they are chosen with `/v1/payments/prepare`, where also `fee_limit_sun` of the deposit and `expiration_ms` (UNIX milliseconds) of the transactions can be, and are part of the transactions: a payload that contradicts its transaction is refused.
    """


WhitelistItem: TypeAlias = str


BlacklistItem: TypeAlias = str


class SettlerRequirements(TypedDict):
    """
    Which settlers may win. A settler in both lists is excluded.
    """

    whitelist: NotRequired[list[WhitelistItem]]
    """
    DIDs of the only settlers that may win.
    """
    blacklist: NotRequired[list[BlacklistItem]]
    """
    DIDs of settlers that must not win.
    """


VerifiableCredential = TypedDict(
    "VerifiableCredential",
    {
        "@context": list[str],
        "id": str,
        "type": list[str],
        "issuer": str | dict[str, Any],
        "issuanceDate": str,
        "expirationDate": NotRequired[str],
        "credentialSubject": dict[str, Any],
        "credentialStatus": NotRequired[dict[str, Any]],
        "proof": dict[str, Any] | list[dict[str, Any]],
    },
)


DataIntegrityProof: TypeAlias = dict[str, Any] | list[dict[str, Any]]
"""
Proof of the holder over the whole body but `sender_auth.verifiable_credential`: an object, or a list of up to 4 that are all of one DID and each have to hold. `proofPurpose` is `authentication`, `verificationMethod` a DID URL; the DID is the originator. Its value stands in `jws` or `proofValue`, by the suite that `type` names; `previousProof` names proofs of the list that it covers, too.
"""


DepositAddressRequest = TypedDict(
    "DepositAddressRequest",
    {
        "amount": NotRequired[str],
        "pay_by": NotRequired[str],
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


class MandateRequest(TypedDict):
    """
    What a payer allows its merchant to ask for.
    """

    merchant: str
    """
    Who signs for each payment: an account with a key on the source's chain.
    """
    amount: str
    """
    The most that is drawn in a period, smallest unit of the source asset, with what settlers ask. A decimal number above zero that fits the chain's width.
    """
    least: NotRequired[str]
    """
    What is delivered at least where all of `amount` is drawn for it, and so in proportion, smallest unit of the destination asset. Left out, the merchant alone says how much is delivered for what it draws. A decimal number above zero that fits the chain's width.
    """
    begins: NotRequired[int]
    """
    First second of the first period, UNIX; by default now.
    """
    period_seconds: int
    """
    How long a period is, in seconds.
    """
    periods: int
    """
    How many there are.
    """
    lock_seconds: NotRequired[int]
    """
    The most time from the deposit of a payment to its refund; by default a day and the refund delay of its chains.
    """
    salt: str
    """
    Drawn at random by the payer, when all else is settled.
    """


class SessionChallengeRequest(TypedDict):
    """
    Who is going to sign: exactly one of the two.
    """

    account: NotRequired[str]
    """
    An account with a chain that this gateway serves (CAIP-10). A contract is asked on this chain; for a key any chain of its family will do.
    """
    did: NotRequired[str]
    """
    A DID that payments are asked for in the name of.
    """


class SessionRequest(TypedDict):
    """
    A challenge, signed.
    """

    message: str
    """
    The `message` of the challenge, not a byte changed.
    """
    signature: str
    """
    Over the message as it is. Of an account: hex with 0x, or on Solana Base58. Of a DID: hex with 0x, or base58btc as multibase.
    """
    verification_method: NotRequired[str]
    """
    Of a DID: the DID URL of the key that signed. Not given for an account.
    """


class WebhookRequest(TypedDict):
    """
    An endpoint, and what it is told.
    """

    url: str
    """
    Where it is called by POST: https at public addresses, without user, password and fragment.
    """
    payment_id: NotRequired[str]
    """
    The one payment that it hears of. Left out, it hears of all payments of the session's owner.
    """
    events: NotRequired[
        list[
            Literal[
                "payment.pending",
                "payment.finalizing",
                "payment.completed",
                "payment.failed",
            ]
        ]
    ]
    """
    What it hears of them. Left out, it hears of everything.
    """


WebhookRedeliveryRequest = TypedDict(
    "WebhookRedeliveryRequest",
    {
        "payment_id": NotRequired[str],
        "message_ids": NotRequired[list[str]],
        "from": NotRequired[str],
        "to": NotRequired[str],
        "dead": NotRequired[Literal[True]],
    },
)


Authorization = TypedDict(
    "Authorization",
    {
        "from": str,
        "to": str,
        "value": str,
        "validAfter": str,
        "validBefore": str,
        "nonce": str,
    },
)


class Payload1(TypedDict):
    """
    What a stock client signed on an EVM chain, by `exact`.
    """

    signature: str
    """
    Of the token's `TransferWithAuthorization`, hex with 0x.
    """
    authorization: Authorization
    """
    The token's transfer to `payTo` (ERC-3009).
    """


class Payload2(TypedDict):
    """
    What a stock client signed on Solana, by `exact`.
    """

    transaction: str
    """
    The transfer to `payTo`, signed by the buyer, whose fee `extra.feePayer` pays; Base64.
    """


class Info(TypedDict):
    """
    What the payer says.
    """

    required: bool
    """
    Whether the merchant requires an identifier.
    """
    id: NotRequired[str]
    """
    Belongs for ever to the payload it was first settled with. Has to be there where `required` is true.
    """


class PaymentIdentifier(TypedDict):
    """
    The extension `payment-identifier`.
    """

    info: Info
    """
    What the payer says.
    """
    schema: NotRequired[dict[str, Any]]
    """
    As the merchant stated it; not read.
    """


Extensions = TypedDict(
    "Extensions",
    {
        "payment-identifier": NotRequired[PaymentIdentifier],
    },
)


class Destination1(TypedDict):
    """
    Where the merchant is paid.
    """

    network: str
    """
    CAIP-2 id of the chain the merchant is paid on.
    """
    asset: str
    """
    What it is paid in: the asset's bare reference on `network`, or its CAIP-19 id.
    """
    address: str
    """
    The merchant's account.
    """


class Gw1(TypedDict):
    """
    What this scheme needs.
    """

    destination: Destination1
    """
    Where the merchant is paid.
    """
    fulfillmentAmount: str
    """
    What the merchant receives, smallest unit.
    """
    escrow: NotRequired[str]
    """
    Escrow contract on the source chain. Empty or absent: the default, as with every member below.
    """
    fulfillmentProxy: NotRequired[str]
    """
    Proxy on the destination's chain.
    """
    reserver: NotRequired[str]
    """
    Account that signs reservations.
    """
    releaser: NotRequired[str]
    """
    Account of the fulfillment verifier, or the id of the set of them.
    """
    fulfillmentVerifierEndpoint: NotRequired[str]
    """
    Origin of the fulfillment verifier, or of any member of the set.
    """
    quoteDeadlineSeconds: NotRequired[int]
    """
    The request's `quote_deadline` may be so far away.
    """
    fulfillmentDeadlineSeconds: NotRequired[int]
    """
    The request's `fulfillment_deadline` may be so far away.
    """
    svmSignatureClusterId: NotRequired[str]
    """
    Cluster id of the signing domain, for Solana sources; refused for other networks.
    """
    svmSignatureDomainVersion: NotRequired[int]
    """
    Version of the signing domain, for Solana sources; refused for other networks.
    """
    merchant: NotRequired[str]
    """
    `exact`: the merchant's account on `network`, for what comes to `payTo` without a deposit; on Solana for all that is not delivered.
    """
    deliverySeconds: NotRequired[int]
    """
    `exact`: from the last second of the deposit to the end of the delivery.
    """
    refundSeconds: NotRequired[int]
    """
    `exact`: from there to when anyone may send the money back.
    """


class Extra1(TypedDict):
    """
    Members of the scheme.
    """

    name: NotRequired[str]
    """
    `exact` on EVM chains: the token's name, as clients sign it.
    """
    version: NotRequired[str]
    """
    `exact` on EVM chains: the token's version, as clients sign it.
    """
    feePayer: NotRequired[str]
    """
    `exact` on Solana: the gateway's account that pays the fee of what clients sign.
    """
    gw: Gw1
    """
    What this scheme needs.
    """


class X402PaymentRequirements(TypedDict):
    """
    The requirement that the payer chose from a 402.
    """

    scheme: str
    """
    `gw-escrow`, or `exact` as `POST /x402/v1/offers` makes it.
    """
    network: str
    """
    CAIP-2 id of the source chain.
    """
    asset: str
    """
    What is paid with: the asset's bare reference on `network`, or its CAIP-19 id.
    """
    payTo: str
    """
    The merchant's account, as in `extra.gw.destination.address`; or the escrow. `exact`: the offer's address.
    """
    amount: str
    """
    The most that is taken from the payer, smallest unit: the request's `max_source_amount`.
    """
    maxTimeoutSeconds: int
    """
    Longest time settle may take. The gateway's own bound is the `maxTimeoutSeconds` of `/x402/v1/supported`.
    """
    extra: Extra1
    """
    Members of the scheme.
    """


class X402OfferRequest(TypedDict):
    """
    A merchant's question for an offer. Members have the names and forms that they have in a requirement.
    """

    network: str
    """
    CAIP-2 id of the chain on which buyers pay.
    """
    asset: str
    """
    What they pay with: a token that takes signed transfers (ERC-3009), or one on Solana.
    """
    destination: Destination1
    """
    Where the merchant is paid.
    """
    fulfillmentAmount: str
    """
    The price: what the merchant receives, smallest unit.
    """
    amount: NotRequired[str]
    """
    What buyers pay, smallest unit. Where both assets have one symbol, the price and 1 % unless it is given. What the settler leaves of it goes back to the buyer, on Solana to `merchant`.
    """
    merchant: NotRequired[str]
    """
    The merchant's account on `network`, where goes what comes to the address without a deposit, on Solana all that is not delivered. The destination's address unless it is given, where that is on a chain of the same family.
    """
    maxTimeoutSeconds: NotRequired[int]
    """
    The time for auction and deposit: how long a client's signature holds on an EVM chain; at most 540 on Solana.
    """
    deliverySeconds: NotRequired[int]
    """
    How long the delivery may take after that.
    """
    refundSeconds: NotRequired[int]
    """
    From the end of that to when anyone may send the money back. The least that the chains ask for unless it is given.
    """


class PaymentTransactions(TypedDict):
    """
    The transactions that are known, each as it becomes known.
    """

    deposit: NotRequired[PaymentTransaction]
    """
    Commits the payer's funds on the source chain. On Tron it is the payer's own transaction, from when it is sent; from a deposit address it is the gateway's, which reserves, too.
    """
    reservation: NotRequired[PaymentTransaction]
    """
    On Tron: reserves the deposit for the settler. On other chains, and from a deposit address, the deposit does.
    """
    reassignment: NotRequired[PaymentTransaction]
    """
    Reserves the escrow for another settler, in the place of one that did not deliver by the time that it promised; the last one where there are more. Absent where no settler failed to.
    """
    fulfillment: NotRequired[PaymentTransaction]
    """
    Pays the recipient on the destination chain.
    """


class PaymentFailure(TypedDict):
    """
    Why a payment failed; the same however the payment is read.
    """

    code: str
    """
    Stable identity of the reason: branch on it, not on `message`.
    """
    message: str
    """
    For humans; may be reworded.
    """
    domain: NotRequired[
        Literal[
            "PAYMENT_GATEWAY",
            "SETTLER_GATEWAY",
            "SETTLER_AGENT",
            "WALLET_ORCHESTRATION",
            "VERIFICATION_SERVICE",
            "BLOCKCHAIN",
            "EXTERNAL_SERVICE",
        ]
    ]
    """
    Service domain in which the error arose.
    """
    docs_url: NotRequired[str]
    """
    Page that describes the code.
    """
    retry_classification: NotRequired[
        Literal[
            "RETRY_AFTER_DELAY",
            "RETRY_WITH_NEW_REQUEST_ID",
            "NOT_RETRYABLE_FIX_REQUEST",
            "NOT_RETRYABLE",
            "RECONCILE_THEN_DECIDE",
        ]
    ]
    """
    What to do next. Absent means unclassified.
    """
    request_id_reusable: NotRequired[bool]
    """
    Whether the same `request_id` may be sent again. Absent is read as false.
    """
    blockchain_context: NotRequired[PaymentBlockchainContext]
    """
    Only where a transaction of the payment reached a chain and failed there, or did not last.
    """


class DepositAddressTerms(TypedDict):
    """
    What a deposit address commits to: `DepositAddresses.Terms`. On Solana the program's `message::Deposit` says the same.
    """

    escrow: str
    """
    The escrow.
    """
    token: str
    """
    The token.
    """
    amount: str
    """
    The least that is deposited.
    """
    deposit: CommittedDeposit
    """
    What a payer who signs agrees to.
    """


class PaymentTimeline(TypedDict):
    """
    Everything that happened to a payment.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    status: PaymentStatus
    at_rest: bool
    """
    Nothing more will happen: the money is with the settler or back with the payer. A failed payment whose payer deposits by a transaction of its own (Tron) is not there before that transaction can't land any more.
    """
    entries: list[TimelineEntry]
    """
    In the order of events.
    """


class OwnPaymentTransactions(TypedDict):
    """
    The transactions that are known.
    """

    deposit: NotRequired[OwnPaymentTransaction]
    """
    Takes the payer's funds into escrow.
    """
    reservation: NotRequired[OwnPaymentTransaction]
    """
    On Tron: reserves the deposit for the settler.
    """
    reassignment: NotRequired[OwnPaymentTransaction]
    """
    Reserves the escrow for another settler, in the place of one that did not deliver in time.
    """
    fulfillment: NotRequired[OwnPaymentTransaction]
    """
    Pays the recipient.
    """
    release: NotRequired[OwnPaymentTransaction]
    """
    Pays the settler out of the escrow.
    """
    refund: NotRequired[OwnPaymentTransaction]
    """
    Gives the payer the escrow back.
    """


class RegisteredWebhook(TypedDict):
    """
    A webhook that was registered.
    """

    id: str
    """
    Its id.
    """
    url: str
    """
    Where it is called.
    """
    owner: str
    """
    Whose payments it hears of: the DID, or the account behind its namespace.
    """
    payment_id: NotRequired[str]
    """
    The one payment that it hears of. Absent where it hears of all.
    """
    events: NotRequired[list[str]]
    """
    What it hears of them. Absent for everything.
    """
    registered_at: str
    """
    When it was registered. It hears of what happens from then on.
    """
    disabled: NotRequired[WebhookDisabled]
    """
    Why nothing is delivered to it. Absent while it is. What happens meanwhile waits; `redeliver` enables it again.
    """
    secret: str
    """
    `whsec_` and Base64: for signatures `v1`. Whoever has it can make them for this webhook, so keep it secret. It is shown to the owner again whenever he asks for the webhook.
    """
    keys: list[WebhookKey]
    """
    The keys for signatures `v1a`.
    """


class Webhooks(TypedDict):
    """
    The caller's webhooks.
    """

    webhooks: list[WebhookSummary]
    """
    The webhooks, by id.
    """
    keys: list[WebhookKey]
    """
    The keys for signatures `v1a`.
    """


class WebhookHealth(TypedDict):
    """
    How the endpoint of a webhook does.
    """

    delivered: int
    """
    Messages that it took.
    """
    waiting: int
    """
    Messages that wait for it.
    """
    more_waiting: bool
    """
    Whether more wait than `waiting` says.
    """
    last_success_at: NotRequired[str]
    """
    When it took one last. Absent while it has not.
    """
    last_error: NotRequired[WebhookError]
    """
    The last attempt that failed. Absent while none has.
    """
    failing_since: NotRequired[str]
    """
    Since when it takes nothing. Absent while it does. After three days the webhook is disabled.
    """
    dead_letters: list[WebhookDeadLetter]
    """
    The messages that were given up and not asked for again, the newest last.
    """
    more_dead_letters: int
    """
    How many older ones there are besides.
    """


class QuoteRequestResponse(TypedDict):
    """
    The batch, with the corridor that the award is built from.
    """

    quote_request_id: str
    """
    Id of the batch.
    """
    status: Literal["collecting", "ready"]
    """
    `ready`: collection is complete and `quotes` is there. `collecting`: read the batch later. That it was awarded or has expired is for that read to say.
    """
    source: OwnedAsset
    destination: list[OwnedAsset]
    fulfillment_amount: str
    """
    As it was asked for.
    """
    max_source_amount: NotRequired[str]
    """
    As it was asked for.
    """
    fulfillment_deadline: str
    """
    The original batch's, on a replay too.
    """
    quote_deadline: str
    """
    The original batch's, on a replay too.
    """
    quotes: NotRequired[list[CollectedQuote]]
    """
    There once collection is complete; empty when no settler offered a usable quote. In the order that `quotes_ordered_by` says.
    """
    quotes_ordered_by: NotRequired[Literal["selector", "price"]]
    """
    `selector`: the quote that the request's `quote_selector` chose comes first, the others behind it by price. `price`: the cheapest comes first; no selector was named, or it chose none in time. There with `quotes`.
    """
    requested_count: NotRequired[int]
    """
    Settlers asked. Absent means unknown, never zero.
    """
    decline_summary: NotRequired[list[DeclineSummary]]
    """
    Why settlers declined; provisional while `collecting`. Absent means unknown.
    """
    idempotent_replay: bool
    """
    `true`: the batch that was there before is returned. `false`: this request created it.
    """


class FulfillmentVerifier(TypedDict):
    """
    A fulfillment verifier, or a set of them. An empty object, or two empty texts, mean the default one.
    """

    account: NotRequired[str]
    """
    Address or key of the verifier, or the id of the set: the releaser that the payer signs for.
    """
    endpoint: NotRequired[str]
    """
    Its origin, `http(s)://host[:port]` with no path; the gateway appends the paths. The first member's of a set.
    """
    threshold: NotRequired[int]
    """
    How many of the members have to attest; said by the gateway, of no meaning in a request.
    """
    members: NotRequired[list[VerifierMember]]
    """
    All who may attest, in the order in which the set's id is hashed; the verifier itself where it is the only one. Said by the gateway, of no meaning in a request.
    """


class PreparedPaymentBatch(TypedDict):
    """
    What to sign for a batch. With a `signature` in the message it is the `sender_auth` of the submission of the same payments.
    """

    message_scheme: Literal[
        "EVM_PERMIT2",
        "EVM_PERMIT2_ESCROW",
        "EVM_PERMIT2_BATCH",
        "EVM_PERMIT2_MANDATE",
        "EVM_EIP3009",
        "SOLANA",
        "TRON_PERMIT2_ESCROW",
        "TRON",
    ]
    """
    The scheme the message is for.
    """
    signed_messages: list[UnsignedMessage]
    """
    The message: EIP-712 typed data of Permit2's batch transfer, with the root of the payments as witness.
    """
    reserve_deadline: int
    """
    The last second in which payments of the batch are deposited, UNIX. The submission repeats it as `reserve_deadline`.
    """
    payments: list[PreparedBatchPayment]
    """
    The payments, in the order of the request.
    """
    wraps: NotRequired[list[Wrap]]
    """
    What the payer has to send to the chain first: for each token of which it holds too little, and the coin, what wraps it.
    """
    approvals: NotRequired[list[Approval]]
    """
    The same for each token of which Permit2 may draw too little.
    """


class PreparedMandate(TypedDict):
    """
    What a payer signs for a mandate. With its signature as `permit` beside `mandate` this is the `payload` of the message that the merchant signs for each payment.
    """

    message_scheme: Literal[
        "EVM_PERMIT2",
        "EVM_PERMIT2_ESCROW",
        "EVM_PERMIT2_BATCH",
        "EVM_PERMIT2_MANDATE",
        "EVM_EIP3009",
        "SOLANA",
        "TRON_PERMIT2_ESCROW",
        "TRON",
    ]
    """
    The scheme of the payments.
    """
    mandate: Mandate
    """
    The mandate, with what was left out filled in.
    """
    address: str
    """
    The address that commits to all of it, to which the allowance is given.
    """
    contract: str
    """
    The contract that keeps mandates on the source's chain.
    """
    permit: UnsignedMessage
    """
    What the payer signs: EIP-712 typed data of an allowance at Permit2, of all periods together.
    """
    allowance: dict[str, Any]
    """
    The call by which a payer that is a contract gives that allowance instead, as `eth_sendTransaction` takes it: it brings no `permit`.
    """
    fulfillment_verifier: FulfillmentVerifier
    approval: NotRequired[Approval]
    cancel: MandateCancellation
    """
    How it is ended for ever.
    """


class Settlers(TypedDict):
    """
    A page of settlers, in the order of their DIDs.
    """

    settlers: list[Settler]
    """
    The settlers that were ever asked for a quote.
    """
    next_cursor: NotRequired[str]
    """
    Where the next page begins, for `cursor`. Absent where nothing is left.
    """


class ChainDefaults(TypedDict):
    """
    What a request on this chain gets that names nothing else.
    """

    family: Literal["evm", "solana", "tron"]
    quote_selector: str
    """
    Selector used when a request names none; empty means the gateway itself.
    """
    fulfillment_verifier: FulfillmentVerifier
    """
    Verifier used when a request names none.
    """
    escrow_contract_address: str
    """
    Escrow used when a request names none.
    """
    fulfillment_proxy: str
    """
    Proxy used on this chain when a request names none.
    """
    escrow_contract_addresses: list[str]
    """
    Escrows that a request whose source is on this chain may name: the default one first.
    """
    fulfillment_proxy_addresses: list[str]
    """
    Proxies that a request with a destination on this chain may name: the default one first.
    """
    fulfillment_verifiers: list[FulfillmentVerifier]
    """
    Verifiers that a request whose source is on this chain may name: the default one first.
    """
    settler_policies: list[str]
    """
    Policies that a request may require of settlers (`settler_auth_required`), on every chain the same.
    """
    reserver: str
    """
    Account that signs reservations; part of what the payer signs.
    """
    releaser: str
    """
    Account that attests deliveries; part of what the payer signs.
    """
    permit2: NotRequired[str]
    """
    Permit2, on EVM chains, and on Tron where payers may sign for it.
    """
    signature_cluster_id: NotRequired[str]
    """
    Genesis hash of the cluster, Base58, on Solana; part of what the payer signs.
    """
    signature_domain_version: NotRequired[int]
    """
    Version of the domain of what the payer signs, on Solana.
    """
    message_schemes: list[
        Literal[
            "EVM_PERMIT2",
            "EVM_PERMIT2_ESCROW",
            "EVM_PERMIT2_BATCH",
            "EVM_PERMIT2_MANDATE",
            "EVM_EIP3009",
            "SOLANA",
            "TRON_PERMIT2_ESCROW",
            "TRON",
        ]
    ]
    """
    Schemes a payer on this chain may sign with. `EVM_PERMIT2` is there only by the operator's word: it has no witness, so the gateway's reserver alone decides on verifier, windows and quote, and could take the whole cap.
    """
    refund_delay_seconds: int
    """
    Least seconds from `fulfillment_deadline` to the refund window.
    """
    deadlines: DeadlineLimits
    required_depth: Literal["finalized"] | int
    """
    When a block counts as settled: `finalized`, or so many blocks on top of it.
    """
    assets: list[ServedAsset]
    """
    The assets served on the chain.
    """


class Health(TypedDict):
    """
    How the process is.
    """

    status: str
    """
    `ok`, `ready`, or `starting` while what the gateway depends on is not there yet.
    """
    alarms: NotRequired[list[str]]
    """
    What an operator has to look into although the gateway is ready; absent when there is nothing.
    """
    chains: NotRequired[list[ChainHealth]]
    """
    The chains served, in order of their ids; only of the readiness probe. One that is not ready does not make the gateway so: what goes through it is refused with `CHAIN_UNAVAILABLE`, and all else goes on.
    """


class Destination(TypedDict):
    """
    A chain that can be paid on.
    """

    network: str
    """
    CAIP-2 id.
    """
    fulfillmentProxy: str
    """
    The requirement's `extra.gw.fulfillmentProxy`.
    """
    refundDelaySeconds: int
    """
    As above, for this chain; the longer of both counts.
    """
    assets: list[X402Asset]
    """
    What is served there.
    """


class Gw(TypedDict):
    """
    What a requirement is built from.
    """

    escrow: str
    """
    The requirement's `extra.gw.escrow`.
    """
    reserver: str
    """
    The requirement's `extra.gw.reserver`.
    """
    releaser: str
    """
    The requirement's `extra.gw.releaser`: the verifier's account, or the id of the set.
    """
    fulfillmentVerifierEndpoint: str
    """
    The requirement's `extra.gw.fulfillmentVerifierEndpoint`: of a set the first member's, and any other's would do.
    """
    permit2: NotRequired[str]
    """
    Permit2, on EVM chains.
    """
    svmSignatureClusterId: NotRequired[str]
    """
    The requirement's `extra.gw.svmSignatureClusterId`, on Solana.
    """
    svmSignatureDomainVersion: NotRequired[int]
    """
    The requirement's `extra.gw.svmSignatureDomainVersion`, on Solana.
    """
    messageSchemes: NotRequired[list[str]]
    """
    How its payers sign.
    """
    refundDelaySeconds: NotRequired[int]
    """
    Least time from `fulfillment_deadline` to the refund window, in seconds.
    """
    maxTimeoutSeconds: int
    """
    The longest `maxTimeoutSeconds` that a settle is held for. One that asks for more is answered before, and says so.
    """
    gateway: NotRequired[str]
    """
    Address of this service, for `/v1/payments/prepare` and `/v1/defaults`.
    """
    assets: list[X402Asset]
    """
    What is served there.
    """
    destinations: list[Destination]
    """
    Where merchants can be paid.
    """


class Extra(TypedDict):
    """
    Members of the scheme.
    """

    feePayer: NotRequired[str]
    """
    The requirement's `extra.feePayer`, of `exact` on Solana: who pays the fee of what buyers sign. Stock servers copy it from here.
    """
    gw: Gw
    """
    What a requirement is built from.
    """


class Kind(TypedDict):
    """
    A source chain.
    """

    x402Version: Literal[2]
    """
    Version of x402.
    """
    scheme: Literal["gw-escrow", "exact"]
    """
    The scheme.
    """
    network: str
    """
    CAIP-2 id of the source chain.
    """
    extra: Extra
    """
    Members of the scheme.
    """


class X402Supported(TypedDict):
    """
    What the facilitator takes: each source chain by `gw-escrow`, and EVM chains and Solana by `exact` besides.
    """

    kinds: list[Kind]
    """
    One for each chain that can be paid from and each scheme.
    """
    extensions: list[str]
    """
    Extensions that are understood.
    """
    signers: dict[str, list[str]]
    """
    By chain, the accounts that sign for the gateway: its reserver, and its fulfillment verifier or the members of its set.
    """


class X402Extension(TypedDict):
    """
    The payment, and what to do about an answer that is no success.
    """

    paymentId: NotRequired[str]
    """
    The payment's id.
    """
    state: NotRequired[
        Literal["pending", "finalizing", "completed", "failed", "rejected", "unknown"]
    ]
    """
    The payment's status; `rejected` where there is no payment, `unknown` where that cannot be said.
    """
    statusUrl: NotRequired[str]
    """
    Where the payment is read: JSON for programs, a page for browsers.
    """
    idempotentReplay: NotRequired[bool]
    """
    Whether the payment was there before this call. A merchant sells once for each `paymentId`.
    """
    heldSeconds: NotRequired[int]
    """
    For how many seconds the call was held, where that is less than `maxTimeoutSeconds` of the requirement (of the scheme `exact` with `deliverySeconds` added) and the payment is not over: the gateway has a bound of its own, and places for so many.
    """
    code: NotRequired[str]
    """
    The error's code.
    """
    retryClassification: NotRequired[
        Literal[
            "RETRY_AFTER_DELAY",
            "RETRY_WITH_NEW_REQUEST_ID",
            "NOT_RETRYABLE_FIX_REQUEST",
            "NOT_RETRYABLE",
            "RECONCILE_THEN_DECIDE",
        ]
    ]
    """
    What to do next.
    """
    docsUrl: NotRequired[str]
    """
    Page that describes the code.
    """
    error: NotRequired[PaymentFailure]
    """
    Only when `failed`.
    """
    transactions: NotRequired[PaymentTransactions]
    fulfillmentConfirmation: NotRequired[FulfillmentConfirmation]
    """
    The same as at the top, where stock clients drop it.
    """


class Extensions1(TypedDict):
    """
    What the gateway says besides.
    """

    gw: X402Extension


class X402SettleResponse(TypedDict):
    """
    What came of the payment.
    """

    success: bool
    """
    Whether the merchant was paid.
    """
    errorReason: NotRequired[str]
    """
    Why not, or `settlement_pending`: not yet. The error's code in lower case, or x402's own word for it.
    """
    errorMessage: NotRequired[str]
    """
    For humans. Names the member that is at fault.
    """
    transaction: str
    """
    The delivery's hash, once the merchant is paid; empty before. Of the scheme `exact` the deposit's, on Solana that of the buyer's transfer, as soon as there is one and unless the payment failed. `extensions.gw.transactions` has delivery and deposit.
    """
    network: str
    """
    CAIP-2 id of the destination's chain; of the scheme `exact` the source's. Empty where it could not be read.
    """
    payer: NotRequired[str]
    """
    The source account; of the scheme `exact` on Solana the buyer. Absent where it could not be read.
    """
    extensions: Extensions1
    """
    What the gateway says besides.
    """
    fulfillmentConfirmation: NotRequired[FulfillmentConfirmation]
    """
    The receipt, once the payment is completed.
    """


class VerifiableCredentialAuth(TypedDict):
    """
    Deprecated: credentials travel in the holder-signed envelope. The signature is over the RFC 8785 form of `{"carrier", "request", "verifiable_credential", "verification_method_id"}`: `carrier` is the member's path, `originator_auth` or `sender_auth.verifiable_credential`, and `request` the body without `originator_auth`, `sender_auth`, `@context`, `verifiableCredential` and `proof`.
    """

    verifiable_credential: VerifiableCredential
    verification_method_id: str
    """
    Reference to a verification method of a DID document.
    """
    signature: str
    """
    Hex with 0x, or base58btc multibase. Ed25519 over the text, ECDSA over its SHA-256, an account of `did:pkh:eip155` as `personal_sign` does, one of `did:pkh:tron` as `signMessageV2` of TronWeb does.
    """


QuoteRequest = TypedDict(
    "QuoteRequest",
    {
        "version": str,
        "request_id": str,
        "source": OwnedAsset,
        "destination": list[OwnedAsset],
        "fulfillment_amount": str,
        "max_source_amount": NotRequired[str],
        "quote_deadline": str,
        "fulfillment_deadline": str,
        "settler_auth_required": NotRequired[dict[str, bool]],
        "quote_selector": NotRequired[str],
        "fulfillment_verifier": NotRequired[FulfillmentVerifier],
        "escrow_contract_address": NotRequired[str],
        "fulfillment_proxy": NotRequired[str],
        "fulfillment_proxies": NotRequired[dict[str, str]],
        "settler_requirements": NotRequired[SettlerRequirements],
        "originator_auth": NotRequired[VerifiableCredentialAuth],
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


PrepareRequest = TypedDict(
    "PrepareRequest",
    {
        "version": str,
        "request_id": str,
        "source": OwnedAsset,
        "destination": list[OwnedAsset],
        "fulfillment_amount": str,
        "max_source_amount": NotRequired[str],
        "quote_deadline": str,
        "fulfillment_deadline": str,
        "settler_auth_required": NotRequired[dict[str, bool]],
        "quote_selector": NotRequired[str],
        "fulfillment_verifier": NotRequired[FulfillmentVerifier],
        "escrow_contract_address": NotRequired[str],
        "fulfillment_proxy": NotRequired[str],
        "fulfillment_proxies": NotRequired[dict[str, str]],
        "settler_requirements": NotRequired[SettlerRequirements],
        "originator_auth": NotRequired[VerifiableCredentialAuth],
        "message_scheme": NotRequired[
            Literal[
                "EVM_PERMIT2",
                "EVM_PERMIT2_ESCROW",
                "EVM_PERMIT2_BATCH",
                "EVM_PERMIT2_MANDATE",
                "EVM_EIP3009",
                "SOLANA",
                "TRON_PERMIT2_ESCROW",
                "TRON",
            ]
        ],
        "payload": NotRequired[dict[str, Any]],
        "originator": NotRequired[str],
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


PrepareAwardRequest = TypedDict(
    "PrepareAwardRequest",
    {
        "version": str,
        "request_id": str,
        "quote_request_id": str,
        "quote_id": str,
        "message_scheme": NotRequired[
            Literal[
                "EVM_PERMIT2",
                "EVM_PERMIT2_ESCROW",
                "EVM_PERMIT2_BATCH",
                "EVM_PERMIT2_MANDATE",
                "EVM_EIP3009",
                "SOLANA",
                "TRON_PERMIT2_ESCROW",
                "TRON",
            ]
        ],
        "payload": NotRequired[dict[str, Any]],
        "originator": NotRequired[str],
        "originator_auth": NotRequired[VerifiableCredentialAuth],
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


class PaymentOfBatch(TypedDict):
    """
    A payment of a batch: a PaymentRequest without `sender_auth`. What is left out has to stand in the batch.
    """

    version: NotRequired[str]
    """
    MAJOR.MINOR of the contract the body was written for; major is fixed at 1.
    """
    request_id: str
    """
    Idempotency key of the payment; it is signed, and no other payment of the batch has it.
    """
    source: NotRequired[OwnedAsset]
    """
    Funding asset and account.
    """
    destination: NotRequired[list[OwnedAsset]]
    """
    Where the amount may arrive; the settler chooses among them. A repeated item says nothing more.
    """
    fulfillment_amount: NotRequired[str]
    """
    Exact amount to be received at the destination, in the smallest unit. A decimal number above zero that fits the chain's width.
    """
    max_source_amount: NotRequired[str]
    """
    The most that may be spent from the source, in the smallest unit; no quote above it counts. A decimal number above zero that fits the chain's width.
    """
    quote_deadline: NotRequired[str]
    """
    End of quote collection: in the future, and before `fulfillment_deadline`. For a payment the two lie in different seconds, as chains count in whole ones.
    """
    fulfillment_deadline: NotRequired[str]
    """
    Final completion deadline, in the future. Past it the payment fails and is refunded.
    """
    settler_auth_required: NotRequired[dict[str, bool]]
    """
    Policy name to whether settlers must hold that policy. One that is required has to be among the `settler_policies` of `/v1/defaults`.
    """
    quote_selector: NotRequired[str]
    """
    Address or public key of a trusted selector service. Empty means the default selector.
    """
    fulfillment_verifier: NotRequired[FulfillmentVerifier]
    """
    Who verifies the delivery. Empty means the default verifier.
    """
    escrow_contract_address: NotRequired[str]
    """
    Escrow contract on the source's chain. Empty means the default.
    """
    fulfillment_proxy: NotRequired[str]
    """
    Contract that emits proof of fulfillment on the destination chain, for all destinations. Empty means the default.
    """
    fulfillment_proxies: NotRequired[dict[str, str]]
    """
    The same for each destination chain, by its CAIP-2 id, in the place of `fulfillment_proxy`: destinations of several families have no contract's address in common. A chain that is left out, or is empty, has the default.
    """
    settler_requirements: NotRequired[SettlerRequirements]


class PrepareMandateRequest(TypedDict):
    """
    From which account what may be drawn, to whom it is delivered, and what binds the merchant.
    """

    version: str
    """
    MAJOR.MINOR of the contract the body was written for; major is fixed at 1.
    """
    source: OwnedAsset
    """
    Funding asset and account.
    """
    destination: list[OwnedAsset]
    """
    Where the amount may arrive; the settler chooses among them. A repeated item says nothing more.
    """
    fulfillment_verifier: NotRequired[FulfillmentVerifier]
    """
    Who verifies the delivery. Empty means the default verifier.
    """
    escrow_contract_address: NotRequired[str]
    """
    Escrow contract on the source's chain. Empty means the default.
    """
    mandate: MandateRequest


class DepositAddress(TypedDict):
    """
    Where the money of a payment is to be sent that nobody signed for.
    """

    address: str
    """
    Where to send it. It commits to `terms`: `factory.addressOf(terms)`. On Solana the owner of the token account that is paid, as a wallet is, and derived from the terms by the program's seeds.
    """
    chain_id: str
    """
    CAIP-2 id of the chain.
    """
    asset_identifier: str
    """
    What to send, CAIP-19. Anything else that comes there goes back.
    """
    amount: str
    """
    How much at least, smallest unit, in one transfer or in several. All of it goes into escrow, and what the settler does not get back to `refund_account`.
    """
    pay_by: str
    """
    Up to when it is waited for. What comes later goes back.
    """
    received: NotRequired[str]
    """
    What was there when the auction began, or when the payment had failed, smallest unit.
    """
    refund_account: str
    """
    The only account that money can go back to: the payment's source account. It has to be one of the payer's own, where it can receive the token; an exchange's hot wallet is not.
    """
    uri: str
    """
    The transfer as a link for wallets and as the text of a QR code (EIP-681). On Tron `tron:` and the address alone, and what a QR code should hold there is `address`. On Solana a Solana Pay link without the amount, which counts in whole tokens there: who knows the token's decimals adds `&amount=`.
    """
    factory: str
    """
    The contract that makes the address and alone moves what is there: `deposit`, `giveBack`. On Solana the escrow's program.
    """
    terms: DepositAddressTerms
    """
    What the address commits to.
    """


class PaymentStatusRead(TypedDict):
    """
    A payment as it stands. `quote_id` and `fulfillment_quote` are there once a quote is awarded.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    status: PaymentStatus
    transactions: NotRequired[PaymentTransactions]
    updated_at: str
    """
    Last status update.
    """
    quote_id: NotRequired[str]
    """
    The awarded quote.
    """
    fulfillment_quote: NotRequired[dict[str, Any]]
    """
    The settler-signed quote, an opaque JSON-LD document: the preimage of the `quote_hash` that the escrow commits to on chain. Hash-equivalent to the emitted quote, not necessarily the same bytes. `/docs/quote-hash` says how to recompute the hash. Absent beside a `quote_id` when the stored quote cannot be read.
    """
    fulfillment_confirmation: NotRequired[FulfillmentConfirmation]
    error: NotRequired[PaymentFailure]
    """
    Only when `failed`.
    """
    deposit_address: NotRequired[DepositAddress]
    """
    Where the money is to be sent, of a payment that nobody signed for.
    """
    claims: NotRequired[list[PaymentClaim]]
    """
    What the token would not hand over when the escrow was released or refunded. It waits in the escrow. As of that moment: whether it was claimed since, `claimable(owner, token)` of the escrow tells. Absent when all was paid out.
    """
    requested_count: NotRequired[int]
    """
    Settlers the auction was broadcast to; the last auction, where another followed a settler that did not deliver. Absent means unknown, never zero.
    """
    decline_summary: NotRequired[list[DeclineSummary]]
    """
    Why the payment drew few or no quotes. Empty means none declined. Absent means unknown.
    """


class OwnPayment(TypedDict):
    """
    A payment of the caller's.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    request_id: str
    """
    The payer's idempotency key.
    """
    originator: str
    """
    Who asked: a DID, or the source account behind its namespace.
    """
    submitted_at: str
    """
    When it was submitted.
    """
    finished_at: NotRequired[str]
    """
    When it was completed, by the time of the block that holds the delivery, or failed.
    """
    status: PaymentStatus
    stage: Literal[
        "auction",
        "award",
        "deposit",
        "delivery",
        "reassignment",
        "finality",
        "release",
        "refund",
        "ended",
    ]
    """
    What the payment waits for, or `ended`.
    """
    overdue: NotRequired[OwnPaymentOverdue]
    """
    Which step is past its time, and since when. Absent where none is.
    """
    failure_code: NotRequired[str]
    """
    Why it failed: the code of the failure.
    """
    source: OwnPaymentSource
    destination: NotRequired[OwnPaymentDestination]
    """
    Absent until a quote is awarded.
    """
    rate: NotRequired[OwnPaymentRate]
    """
    Delivered for paid, of a completed payment.
    """
    settler: NotRequired[str]
    """
    The settler that was awarded.
    """
    verifier: str
    """
    The account that attests the delivery.
    """
    transactions: OwnPaymentTransactions


class Webhook(TypedDict):
    """
    A webhook, and how its endpoint does.
    """

    id: str
    """
    Its id.
    """
    url: str
    """
    Where it is called.
    """
    owner: str
    """
    Whose payments it hears of: the DID, or the account behind its namespace.
    """
    payment_id: NotRequired[str]
    """
    The one payment that it hears of. Absent where it hears of all.
    """
    events: NotRequired[list[str]]
    """
    What it hears of them. Absent for everything.
    """
    registered_at: str
    """
    When it was registered. It hears of what happens from then on.
    """
    disabled: NotRequired[WebhookDisabled]
    """
    Why nothing is delivered to it. Absent while it is. What happens meanwhile waits; `redeliver` enables it again.
    """
    secret: str
    """
    `whsec_` and Base64: for signatures `v1`. Whoever has it can make them for this webhook, so keep it secret. It is shown to the owner again whenever he asks for the webhook.
    """
    keys: list[WebhookKey]
    """
    The keys for signatures `v1a`.
    """
    deliveries: WebhookHealth
    """
    How its endpoint does.
    """


class PreparedPayment(TypedDict):
    """
    What to sign. With a `signature` in each message it is the `sender_auth` of the submission.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    message_scheme: Literal[
        "EVM_PERMIT2",
        "EVM_PERMIT2_ESCROW",
        "EVM_PERMIT2_BATCH",
        "EVM_PERMIT2_MANDATE",
        "EVM_EIP3009",
        "SOLANA",
        "TRON_PERMIT2_ESCROW",
        "TRON",
    ]
    """
    The scheme the messages are for.
    """
    signed_messages: list[UnsignedMessage]
    """
    Each is signed. On EVM chains an allowance for Permit2, where one is needed and the token takes it signed, comes first.
    """
    fulfillment_verifier: FulfillmentVerifier
    wrap: NotRequired[Wrap]
    approval: NotRequired[Approval]


class Defaults(TypedDict):
    """
    Every chain that is served.
    """

    chains: dict[str, ChainDefaults]
    """
    By CAIP-2 id.
    """


class X402VerifyResponse(TypedDict):
    """
    Whether the payment would be settled.
    """

    isValid: bool
    """
    Whether settle would take it, or has taken it.
    """
    invalidReason: NotRequired[str]
    """
    Why not: the error's code in lower case, or x402's own word for it.
    """
    invalidMessage: NotRequired[str]
    """
    For humans. Names the member that is at fault.
    """
    payer: NotRequired[str]
    """
    The source account; of the scheme `exact` on Solana the buyer. Absent where it could not be read.
    """
    extensions: Extensions1
    """
    What the gateway says besides.
    """


class SenderAuth(TypedDict):
    """
    Proof of control of the funding account, and its permission to spend.
    """

    message_scheme: Literal[
        "EVM_PERMIT2",
        "EVM_PERMIT2_ESCROW",
        "EVM_PERMIT2_BATCH",
        "EVM_PERMIT2_MANDATE",
        "EVM_EIP3009",
        "SOLANA",
        "TRON_PERMIT2_ESCROW",
        "TRON",
    ]
    """
    What was signed: gasless token approvals on EVM without and with escrow support, Solana or Tron signatures. `/v1/defaults` lists the schemes of each chain.
    """
    signed_messages: list[SignedMessage]
    """
    The first that authorizes the payment counts; on Tron the first deposit that does, and the approval in front of it. The others are kept with the request.
    """
    verifiable_credential: NotRequired[VerifiableCredentialAuth]
    """
    Deprecated legacy carrier of credentials.
    """


AwardRequest = TypedDict(
    "AwardRequest",
    {
        "version": str,
        "request_id": str,
        "source": NotRequired[OwnedAsset],
        "destination": NotRequired[list[OwnedAsset]],
        "fulfillment_amount": NotRequired[str],
        "max_source_amount": NotRequired[str],
        "quote_deadline": NotRequired[str],
        "fulfillment_deadline": NotRequired[str],
        "settler_auth_required": NotRequired[dict[str, bool]],
        "quote_selector": NotRequired[str],
        "fulfillment_verifier": NotRequired[FulfillmentVerifier],
        "escrow_contract_address": NotRequired[str],
        "fulfillment_proxy": NotRequired[str],
        "fulfillment_proxies": NotRequired[dict[str, str]],
        "settler_requirements": NotRequired[SettlerRequirements],
        "originator_auth": NotRequired[VerifiableCredentialAuth],
        "quote_request_id": NotRequired[str],
        "quote_id": str,
        "sender_auth": SenderAuth,
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


class PreparePaymentBatchRequest(TypedDict):
    """
    Payments for one signature. What stands beside `payments` counts for each of them that does not state it itself.
    """

    version: NotRequired[str]
    """
    MAJOR.MINOR of the contract the body was written for; major is fixed at 1.
    """
    source: NotRequired[OwnedAsset]
    """
    Funding asset and account.
    """
    destination: NotRequired[list[OwnedAsset]]
    """
    Where the amount may arrive; the settler chooses among them. A repeated item says nothing more.
    """
    fulfillment_amount: NotRequired[str]
    """
    Exact amount to be received at the destination, in the smallest unit. A decimal number above zero that fits the chain's width.
    """
    max_source_amount: NotRequired[str]
    """
    The most that may be spent from the source, in the smallest unit; no quote above it counts. A decimal number above zero that fits the chain's width.
    """
    quote_deadline: NotRequired[str]
    """
    End of quote collection: in the future, and before `fulfillment_deadline`. For a payment the two lie in different seconds, as chains count in whole ones.
    """
    fulfillment_deadline: NotRequired[str]
    """
    Final completion deadline, in the future. Past it the payment fails and is refunded.
    """
    settler_auth_required: NotRequired[dict[str, bool]]
    """
    Policy name to whether settlers must hold that policy. One that is required has to be among the `settler_policies` of `/v1/defaults`.
    """
    quote_selector: NotRequired[str]
    """
    Address or public key of a trusted selector service. Empty means the default selector.
    """
    fulfillment_verifier: NotRequired[FulfillmentVerifier]
    """
    Who verifies the delivery. Empty means the default verifier.
    """
    escrow_contract_address: NotRequired[str]
    """
    Escrow contract on the source's chain. Empty means the default.
    """
    fulfillment_proxy: NotRequired[str]
    """
    Contract that emits proof of fulfillment on the destination chain, for all destinations. Empty means the default.
    """
    fulfillment_proxies: NotRequired[dict[str, str]]
    """
    The same for each destination chain, by its CAIP-2 id, in the place of `fulfillment_proxy`: destinations of several families have no contract's address in common. A chain that is left out, or is empty, has the default.
    """
    settler_requirements: NotRequired[SettlerRequirements]
    reserve_deadline: NotRequired[int]
    """
    Last second in which payments of the batch are deposited, UNIX; by default the earliest of their fulfillment deadlines. Past it what was drawn and is not in escrow goes back.
    """
    payments: list[PaymentOfBatch]
    """
    The payments. All have the same account and chain as their source.
    """


class PaymentBatchRequest(TypedDict):
    """
    Payments for one signature. What stands beside `payments` counts for each of them that does not state it itself.
    """

    version: NotRequired[str]
    """
    MAJOR.MINOR of the contract the body was written for; major is fixed at 1.
    """
    source: NotRequired[OwnedAsset]
    """
    Funding asset and account.
    """
    destination: NotRequired[list[OwnedAsset]]
    """
    Where the amount may arrive; the settler chooses among them. A repeated item says nothing more.
    """
    fulfillment_amount: NotRequired[str]
    """
    Exact amount to be received at the destination, in the smallest unit. A decimal number above zero that fits the chain's width.
    """
    max_source_amount: NotRequired[str]
    """
    The most that may be spent from the source, in the smallest unit; no quote above it counts. A decimal number above zero that fits the chain's width.
    """
    quote_deadline: NotRequired[str]
    """
    End of quote collection: in the future, and before `fulfillment_deadline`. For a payment the two lie in different seconds, as chains count in whole ones.
    """
    fulfillment_deadline: NotRequired[str]
    """
    Final completion deadline, in the future. Past it the payment fails and is refunded.
    """
    settler_auth_required: NotRequired[dict[str, bool]]
    """
    Policy name to whether settlers must hold that policy. One that is required has to be among the `settler_policies` of `/v1/defaults`.
    """
    quote_selector: NotRequired[str]
    """
    Address or public key of a trusted selector service. Empty means the default selector.
    """
    fulfillment_verifier: NotRequired[FulfillmentVerifier]
    """
    Who verifies the delivery. Empty means the default verifier.
    """
    escrow_contract_address: NotRequired[str]
    """
    Escrow contract on the source's chain. Empty means the default.
    """
    fulfillment_proxy: NotRequired[str]
    """
    Contract that emits proof of fulfillment on the destination chain, for all destinations. Empty means the default.
    """
    fulfillment_proxies: NotRequired[dict[str, str]]
    """
    The same for each destination chain, by its CAIP-2 id, in the place of `fulfillment_proxy`: destinations of several families have no contract's address in common. A chain that is left out, or is empty, has the default.
    """
    settler_requirements: NotRequired[SettlerRequirements]
    reserve_deadline: NotRequired[int]
    """
    Last second in which payments of the batch are deposited, UNIX; by default the earliest of their fulfillment deadlines. Past it what was drawn and is not in escrow goes back.
    """
    payments: list[PaymentOfBatch]
    """
    The payments. All have the same account and chain as their source.
    """
    sender_auth: SenderAuth


class PaymentResponse(TypedDict):
    """
    A payment as a submission is answered. `quote_id`, `fulfillment_quote` and `fulfillment_confirmation` are there once it is `completed`.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    status: PaymentStatus
    idempotent_replay: bool
    """
    `true`: the payment that was there before is returned. `false`: this request created it.
    """
    transactions: NotRequired[PaymentTransactions]
    quote_id: NotRequired[str]
    """
    The awarded quote.
    """
    fulfillment_quote: NotRequired[dict[str, Any]]
    """
    The settler-signed quote, an opaque JSON-LD document: the preimage of the `quote_hash` that the escrow commits to on chain. Hash-equivalent to the emitted quote, not necessarily the same bytes. `/docs/quote-hash` says how to recompute the hash. Absent beside a `quote_id` when the stored quote cannot be read.
    """
    fulfillment_confirmation: NotRequired[FulfillmentConfirmation]
    error: NotRequired[PaymentFailure]
    """
    Only when `failed`.
    """
    deposit_address: NotRequired[DepositAddress]
    """
    Where the money is to be sent, of a payment that nobody signed for.
    """


class OwnPayments(TypedDict):
    """
    A page of the caller's payments, newest first.
    """

    payments: list[OwnPayment]
    """
    The payments. There may be fewer than `limit`, and none at all, although there is a `next_cursor`: what is looked at for one page is bounded.
    """
    next_cursor: NotRequired[str]
    """
    Where the next page begins, for `cursor`. Absent where nothing is left.
    """


class BatchPayment(TypedDict):
    """
    One payment of a batch: either `payment` or `error` is there.
    """

    payment_id: str
    """
    Tracking id of the payment.
    """
    payment: NotRequired[PaymentResponse]
    """
    The payment, which was accepted now or before.
    """
    error: NotRequired[ErrorResponse]
    """
    Why it was refused. The others are accepted all the same.
    """


PaymentRequest = TypedDict(
    "PaymentRequest",
    {
        "version": str,
        "request_id": str,
        "source": OwnedAsset,
        "destination": list[OwnedAsset],
        "fulfillment_amount": str,
        "max_source_amount": NotRequired[str],
        "quote_deadline": str,
        "fulfillment_deadline": str,
        "settler_auth_required": NotRequired[dict[str, bool]],
        "quote_selector": NotRequired[str],
        "fulfillment_verifier": NotRequired[FulfillmentVerifier],
        "escrow_contract_address": NotRequired[str],
        "fulfillment_proxy": NotRequired[str],
        "fulfillment_proxies": NotRequired[dict[str, str]],
        "settler_requirements": NotRequired[SettlerRequirements],
        "originator_auth": NotRequired[VerifiableCredentialAuth],
        "sender_auth": SenderAuth,
        "@context": NotRequired[list[str]],
        "verifiableCredential": NotRequired[list[VerifiableCredential]],
        "proof": NotRequired[DataIntegrityProof],
    },
)


class Payload(TypedDict):
    """
    What the payer signed, by `gw-escrow`.
    """

    paymentRequest: PaymentRequest
    """
    As `POST /v1/payments` takes it, an identity's `proof` included.
    """


class PaymentPayload(TypedDict):
    """
    The payer's part.
    """

    x402Version: Literal[2]
    """
    Version of x402.
    """
    resource: NotRequired[dict[str, Any]]
    """
    What is paid for; not read.
    """
    accepted: dict[str, Any]
    """
    The requirement as the payer accepted it: equal to `paymentRequirements`, and `extra` may hold more.
    """
    payload: Payload | Payload1 | Payload2
    extensions: NotRequired[Extensions]
    """
    Extensions of x402; others than this one are not read.
    """


class X402Message(TypedDict):
    """
    A payment, and what the merchant asked for.
    """

    x402Version: Literal[2]
    """
    Version of x402.
    """
    paymentPayload: PaymentPayload
    """
    The payer's part.
    """
    paymentRequirements: X402PaymentRequirements


class PaymentBatchResponse(TypedDict):
    """
    What became of each payment of a batch, in the order of the request.
    """

    payments: list[BatchPayment]
