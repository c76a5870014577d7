//! The table of error codes. A new code is an entry here; `/docs/errors`, the OpenAPI document's list of what a payment can
//! fail with and the answers themselves are made from it. If a route answers with it, the route's entry in the crate `api`, in
//! `openapi/operations.rs`, names it, too.
//!
//! An entry has, in this order: the code, its status, where it arises, what the caller should do next, whether the
//! `request_id` may be used again where nothing exists under it, whether the contract names it; its message, its explanation
//! and its remedy. An explanation tells of this call alone: whether an earlier one was accepted, the journal says for each
//! answer.

use http::StatusCode;

use events::failure::{Domain, RetryClassification};

use super::Code;

macro_rules! codes {
    ($($name:ident $status:expr, $domain:ident, $retry:ident, $reusable:expr, $named:expr, $message:expr,
        $explanation:expr, $remedy:expr;)*) => {
        impl Code {
            $(
                #[doc = $message]
                pub const $name: &'static Self = &Self {
                    code: stringify!($name),
                    status: $status,
                    message: $message,
                    domain: Domain::$domain,
                    retry_classification: RetryClassification::$retry,
                    request_id_reusable: $reusable,
                    named_by_contract: $named,
                    explanation: $explanation,
                    remedy: $remedy,
                };
            )*

            /// The whole table.
            pub const ALL: &'static [&'static Self] = &[$(Self::$name),*];
        }
    };
}

codes! {
    INVALID_REQUEST Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The request is not of the form the contract asks for.",
        "A member of the body, a parameter or a header does not keep the rule that the contract sets for it, or the \
         body is not JSON. The message names the member and the rule. This call accepted nothing.",
        "Correct what the message names and send the request again, under the same `request_id` where \
         `request_id_reusable` is true.";
    INVALID_REQUEST_ID Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "A request_id has 1 to 128 characters out of letters, digits, `_`, `-` and `.`.",
        "The `request_id` contains a character that is not allowed, is empty, or has more than 128 characters. This \
         call accepted nothing.",
        "Use 1 to 128 ASCII letters, digits, `_`, `-` and `.`; a UUID is fine.";
    INVALID_SOURCE_ASSET Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "The source asset is not a CAIP-19 identifier.",
        "`source.asset_identifier` is not of the form `{chain_id}/{asset_namespace}:{asset_reference}`, such as \
         `eip155:1/erc20:0x…`. This call accepted nothing.",
        "Write the asset as a CAIP-19 identifier; `/v1/defaults` lists those that are served, ready to be copied.";
    INVALID_DESTINATION_ACCOUNT Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), true,
        "A destination account is not valid on its chain.",
        "An account in `destination` does not parse for the chain of its asset, has white space around it, carries a \
         wrong EIP-55 checksum, or is the zero address, or it is a contract that payments go through: an escrow, a fulfillment \
         proxy, Permit2, a token contract or mint. It was refused before any funds moved.",
        "Check the account against the chain that its `asset_identifier` names. An EVM address in lower case needs no \
         checksum.";
    UNSUPPORTED_ASSET Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The asset is well formed, but this gateway does not serve it.",
        "The identifier is a proper one, but its chain or asset is not among those that this gateway serves. This call \
         accepted nothing.",
        "Choose an asset that `/v1/defaults` lists. A chain's own coin is paid with in its wrapped form: as a source, name the \
         asset that says `wraps` there.";
    MESSAGE_SCHEME_NOT_SERVED Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "This gateway takes no payment that is signed in this way on this chain.",
        "`EVM_PERMIT2`, a Permit2 transfer without a witness, binds neither the verifier nor the refund window nor the \
         quote, so it trusts the gateway's reserver with the whole cap. It is off unless the operator says otherwise. \
         `EVM_X402_EXACT` and `SOLANA_X402_EXACT`, which clients of x402 sign, are taken by `/x402/v1` alone. This call accepted \
         nothing.",
        "Sign in a way that `message_schemes` of `/v1/defaults` lists for the source's chain: `EVM_PERMIT2_ESCROW` on EVM, or \
         `EVM_EIP3009` where the token takes signed transfers; on Tron `TRON`, and `TRON_PERMIT2_ESCROW` where the chain has a Permit2.";
    INVALID_DEADLINE Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "A deadline is past, too near, too far away, or out of order.",
        "`quote_deadline` and `fulfillment_deadline` must both lie in the future, in this order, far enough apart for \
         the payment to be made, and no further away than `deadlines` of `/v1/defaults` says; the same holds for the \
         windows that are signed. This call accepted nothing.",
        "Set both deadlines anew, sign again where the signature covers them, and check the clock of the machine that \
         sets them.";
    UNTRUSTED_VERIFIER Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The fulfillment verifier is neither the default one nor a trusted one.",
        "The verifier decides whether a delivery counts and thereby releases the escrow, so only verifiers that the \
         operator has configured are accepted. This call accepted nothing.",
        "Leave `fulfillment_verifier` out, or take account and endpoint from the `fulfillment_verifiers` that \
         `/v1/defaults` lists for the source's chain.";
    UNTRUSTED_ESCROW Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The escrow contract is not one that this gateway deposits into for this verifier.",
        "`escrow_contract_address` names a contract that this gateway would not deposit into, or, where several verifiers \
         have to attest, another than the default one. This call accepted nothing.",
        "Leave `escrow_contract_address` out, or take one of the `escrow_contract_addresses` that `/v1/defaults` lists \
         for the source's chain, and sign for that contract; beside another than the first name a single verifier in \
         `fulfillment_verifier`.";
    UNTRUSTED_PROXY Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The fulfillment proxy is neither the default one nor trusted by this gateway on every destination chain.",
        "`fulfillment_proxy` must be known to this gateway on the chain of every destination, and each of \
         `fulfillment_proxies` on its chain, because the delivery is recognised by its event. This call accepted nothing.",
        "Leave both out; then each destination gets the default of its chain. Or take one of the \
         `fulfillment_proxy_addresses` that `/v1/defaults` lists for the destination's chain; for destinations on several \
         chains name one for each in `fulfillment_proxies`.";
    UNTRUSTED_SELECTOR Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The quote selector is not trusted by this gateway.",
        "`quote_selector` names a service that the operator has not configured. This call accepted nothing.",
        "Leave `quote_selector` out; the gateway then takes the cheapest valid quote. Or ask the operator which selectors \
         are trusted.";
    INVALID_PROOF Some(StatusCode::UNAUTHORIZED), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "A proof of who asks does not hold.",
        "The request claims an originator, by a Data Integrity `proof` or by a deprecated carrier, and the proof does \
         not hold: its form, its suite, its key, its time, its canonical form or its signature. The message names the \
         place and the reason. This call accepted nothing.",
        "Sign exactly the body that is sent, with a key that the DID authorises for `authentication`, and `proof` \
         beside the signed members. Or leave the proof out; the source account is then the originator.";
    INVALID_TOKEN Some(StatusCode::UNAUTHORIZED), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is no session: a token of POST /v1/sessions is asked for in the header Authorization.",
        "What is shown or done for the owner of payments alone asks for a session. The header `Authorization` is missing or \
         given twice, its token has expired, was changed, or was made by another service. A token in the URL is never read.",
        "Have `POST /v1/sessions/challenges` make a message, sign it, and send it to `POST /v1/sessions`. Send the token that it \
         answers with as `Authorization: Bearer …` for as long as `expires_at` says.";
    WEBHOOKS_NOT_SERVED Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "This gateway calls no webhooks.",
        "The operator has not turned webhooks on, or has configured no key to sign their messages with.",
        "Follow a payment by `/v1/payments/{id}/events` or `/v1/payments/{id}/status` instead.";
    WEBHOOK_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "The session's owner has no such webhook.",
        "No webhook has this id, it was deleted, or it is another owner's.",
        "`GET /v1/webhooks` lists the owner's webhooks.";
    TOO_MANY_WEBHOOKS Some(StatusCode::CONFLICT), PaymentGateway, NotRetryableFixRequest, None, false,
        "There are as many webhooks as there may be.",
        "The owner has as many webhooks as one may have, or has registered too many within a day, or all owners together have \
         as many as this gateway takes of owners without an accepted payment. The message says which.",
        "Delete one that is not needed any more with `DELETE /v1/webhooks/{id}`. One webhook hears of all payments of its owner.";
    INVALID_CREDENTIAL Some(StatusCode::UNAUTHORIZED), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "A credential that came with the request does not count.",
        "The request presents a credential that is not of the data model 1.1, is not signed by its issuer, is not in \
         its time, or is about somebody else than the holder. The message names it and the reason. This call accepted \
         nothing.",
        "Leave the credential out, or present one that holds. Whether an issuer is believed is another question, and \
         answered with 403.";
    INVALID_SENDER_AUTH Some(StatusCode::UNAUTHORIZED), WalletOrchestration, NotRetryableFixRequest, Some(true), false,
        "The signature or sender authorization could not be verified.",
        "What was signed is not exactly this request, or not signed by the source account. The gateway rebuilds the \
         signed message from the request and compares field by field; the message names the first difference. This call \
         accepted nothing.",
        "Build the message again from the request that is sent, with the contracts of `/v1/defaults`, and sign it \
         with the source account's key. `POST /v1/payments/prepare` returns exactly what to sign.";
    PAYMENT_DECLINED Some(StatusCode::FORBIDDEN), PaymentGateway, NotRetryable, Some(true), false,
        "The payment is declined.",
        "The operator of this gateway does not take the payment: the counterparty authorization declined the \
         originator, an account, an asset or the amount. Which one is not told. This call accepted nothing.",
        "Sending it again does not help. Ask the operator, quoting the `request_id` of the error, if you think it is a \
         mistake.";
    NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is nothing under this path.",
        "No operation has this path.",
        "Compare the path with the list under `/docs`.";
    PAYMENT_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is no payment with this id.",
        "No payment with this id was ever accepted here. An id is derived from the payer and the `request_id`, so a \
         typing error is the usual cause.",
        "Check the id. If a submission was never answered, send it again with the same `request_id`: it can be \
         accepted only once.";
    QUOTE_REQUEST_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is no quote-request with this id.",
        "The id in the path is that of no quote-request batch that this gateway opened.",
        "Use the `quote_request_id` of the response that opened the batch, or send that request again to learn it.";
    QUOTE_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The quote-request has no quote with this id.",
        "`quote_id` is none of the quotes that were collected for this quote-request. This call accepted nothing.",
        "Read the quote-request and award one of its `quotes`.";
    SETTLER_NOT_FOUND Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "There is no record of this settler.",
        "The path holds no DID, or that of a settler that this gateway never asked for a quote. A settler has a record from the \
         first auction on in which it is asked.",
        "Check the DID, in which each `%` is written as `%25` in a URL. `GET /v1/settlers` lists all settlers with a record.";
    CHAIN_NOT_SUPPORTED Some(StatusCode::NOT_FOUND), PaymentGateway, NotRetryableFixRequest, None, false,
        "This gateway does not serve the chain.",
        "The `chain_id` is not a CAIP-2 id, or one that this gateway has no corridor on.",
        "Read `/v1/defaults` without parameters: it lists every chain that is served.";
    METHOD_NOT_ALLOWED Some(StatusCode::METHOD_NOT_ALLOWED), PaymentGateway, NotRetryableFixRequest, None, false,
        "The path does not know this method.",
        "The path exists, with other methods; the `Allow` header lists them.",
        "Use a method of the `Allow` header.";
    IDEMPOTENCY_TERMS_MISMATCH Some(StatusCode::CONFLICT), PaymentGateway, RetryWithNewRequestId, Some(false), true,
        "The request_id was used for a payment with other economics. Use a new request_id.",
        "This `request_id` belongs to an earlier request of the same caller, and source, destination, \
         `fulfillment_amount` or `max_source_amount` differ from it. For a quote-request settler lists, required policies, \
         selector, verifier and contracts must be the same, too; the message names what differs. The earlier one stands as \
         it is and nothing new was created.",
        "To repeat the earlier request, send its terms unchanged. For other terms use a new `request_id`, after \
         making sure that both payments are wanted.";
    REQUEST_ID_TAKEN Some(StatusCode::CONFLICT), PaymentGateway, RetryWithNewRequestId, Some(false), true,
        "The request_id is in use by another account. Use a new request_id.",
        "This `request_id` is in use with another source account. Nothing was created.",
        "Use a new `request_id`.";
    AWARD_TERMS_MISMATCH Some(StatusCode::CONFLICT), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The award says something else than the quote-request whose quote it awards.",
        "An award may repeat what its quote-request asked for, and the quotes are for that: `source`, `destination`, amounts, \
         deadlines, settlers, policies, selector, verifier and contracts. The message names the member that differs. This call \
         accepted nothing.",
        "Repeat the members as the quote-request's response echoes them, or leave them out. For other terms open a new \
         quote-request.";
    QUOTE_REQUEST_COLLECTING Some(StatusCode::CONFLICT), PaymentGateway, RetryAfterDelay, Some(true), false,
        "The quote-request is still collecting quotes.",
        "A quote can be awarded once the collection is complete; until then the quote-request has the status \
         `collecting`. This call accepted nothing.",
        "Poll the quote-request until it is `ready`, then award one of its `quotes`.";
    QUOTE_REQUEST_ALREADY_AWARDED Some(StatusCode::CONFLICT), PaymentGateway, NotRetryable, Some(true), false,
        "A quote of this quote-request was awarded to another payment already.",
        "Of one quote-request one quote can be awarded, to one payment. That happened before, under another \
         `request_id` or for another quote. This award created nothing.",
        "Find the payment of the earlier award: repeating that award with its own `request_id` returns it. For a second \
         payment open a new quote-request.";
    JOURNAL_RESTORED Some(StatusCode::CONFLICT), PaymentGateway, ReconcileThenDecide, Some(false), false,
        "The payment may have been accepted before the gateway lost part of its journal.",
        "The gateway's journal was restored from a copy. Either the source chain holds an escrow for this payment already, of which \
         the gateway knows nothing, or the quote-request is from before and one of its quotes may have been awarded since. This call \
         accepted nothing.",
        "Look the payment id up in the escrow contract: its settler may deliver and be paid, otherwise the money comes back once \
         its refund window opens. Where there is no escrow, open a new quote-request or use a new `request_id`.";
    QUOTE_EXPIRED Some(StatusCode::CONFLICT), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The quote has lapsed.",
        "The settler's offer was valid until a time that is past, or its deadlines leave no time to pay. This call \
         accepted nothing.",
        "Award a quote that is still valid, or open a new quote-request.";
    REQUEST_TOO_LARGE Some(StatusCode::PAYLOAD_TOO_LARGE), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The request is too large to process.",
        "The body has more bytes than this gateway reads, or the `payload`s of its signed messages have more than 8 KiB \
         together. The message names which. This call accepted nothing.",
        "Leave out what the payment does not need: deprecated credentials are the usual reason of a long body. Of a long \
         `payload` send a hash or an address instead.";
    CONTRACT_PAYER_EXHAUSTED Some(StatusCode::TOO_MANY_REQUESTS), PaymentGateway, RetryAfterDelay, Some(true), false,
        "Deposits of contract accounts like this one came to nothing too often.",
        "The account that pays is a contract, whose code the deposit runs at the gateway's expense. Deposits of this \
         account, of others with the same code or factory, or of contract accounts as a whole have used gas without \
         leaving a deposit, as much as they may within a time. This call accepted nothing.",
        "Come again at the time that the message names, find out why the account's code refuses or burns gas in a deposit, or \
         pay from an account with a key.";
    RATE_LIMITED Some(StatusCode::TOO_MANY_REQUESTS), PaymentGateway, RetryAfterDelay, None, false,
        "The caller asks for more than one caller may. Send the same request again after as long as Retry-After says.",
        "Each address, and each account or DID that proved itself, has budgets of its own: for reads, for writes, for what \
         nobody signed, and for what was accepted. `RateLimit-Policy` and `RateLimit` name them and what is left. It also has a \
         share of what there is at the same time, such as open quote-requests; the message names which. This call \
         did nothing; whether an earlier call with the same `request_id` was accepted is not said by it.",
        "Wait as long as `Retry-After` says and send the same request again, with the same `request_id`. Whoever serves \
         many payers from one address asks the operator for more.";
    INTERNAL_ERROR Some(StatusCode::INTERNAL_SERVER_ERROR), PaymentGateway, ReconcileThenDecide, None, true,
        "An unexpected error. Send the same request again, or read the payment's status, to learn what happened.",
        "A defect or an unreadable record on the side of the gateway. Whether the request had an effect cannot be \
         said from this answer.",
        "Send the same request with the same `request_id` again, or read the payment's status: a `request_id` can \
         never start a second payment. Quote the response's `request_id` to support.";
    INVALID_X402_VERSION Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The message is not of x402 version 2.",
        "`x402Version` of the message or of its payload is missing or not 2. This call accepted nothing.",
        "Send both as 2, and the payload and the requirement in the form of that version.";
    INVALID_PAYMENT_IDENTIFIER Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "A payment identifier has 16 to 128 characters out of letters, digits, `_` and `-`.",
        "The extension `payment-identifier` of the payload is not of the form that x402 gives it. This call accepted \
         nothing.",
        "Send `{\"info\": {\"required\": …, \"id\": …}}` with an `id` of 16 to 128 letters, digits, `_` and `-`, or leave the \
         extension out where the merchant does not require it.";
    PAYMENT_IDENTIFIER_REQUIRED Some(StatusCode::BAD_REQUEST), PaymentGateway, NotRetryableFixRequest, Some(true), false,
        "The merchant requires a payment identifier, and the payload has none.",
        "The extension `payment-identifier` says that it is required, and bears no `id`. This call accepted nothing.",
        "Put an `id` of your own into it, a new one for each payment.";
    PAYMENT_IDENTIFIER_CONFLICT Some(StatusCode::CONFLICT), PaymentGateway, RetryWithNewRequestId, None, false,
        "The payment identifier belongs to another payload.",
        "An identifier belongs for ever to the payload that it was first settled with, at every gateway of this service. \
         This call created nothing.",
        "To learn what became of the earlier payment, send its payload unchanged. For another payment use another \
         identifier, and another `request_id`.";
    DUPLICATE_SETTLEMENT Some(StatusCode::OK), PaymentGateway, ReconcileThenDecide, None, false,
        "The merchant was told before that this payment is made.",
        "A client of x402's `exact` has one purchase for one signature, so `settle` says success of it once. The same payload was \
         settled before, here or for another page of the merchant's. No money moved by this call.",
        "Do not give again what was bought. If the answer that said success was lost, look at the payment's status: \
         `extensions.gw.paymentId` names it.";
    UNSUPPORTED_SCHEME Some(StatusCode::OK), PaymentGateway, NotRetryableFixRequest, None, false,
        "The x402 scheme is not one of this gateway's.",
        "The requirement asks for another scheme than `gw-escrow` and `exact`. This call accepted nothing.",
        "Merchants take scheme and network from `/x402/v1/supported`.";
    INVALID_NETWORK Some(StatusCode::OK), PaymentGateway, NotRetryableFixRequest, None, false,
        "A network of the requirement is not served.",
        "`network` or `extra.gw.destination.network` is not a CAIP-2 id, or that of a chain that this gateway does not \
         serve. This call accepted nothing.",
        "Merchants take the networks from `/x402/v1/supported`.";
    INVALID_PAYMENT_REQUIREMENTS Some(StatusCode::OK), PaymentGateway, NotRetryableFixRequest, None, false,
        "The requirement is not one that this gateway can serve.",
        "A member of the requirement has the wrong form, or names an asset, a contract or an account that is not the \
         gateway's own on that chain. The message names the member. This call accepted nothing.",
        "Merchants build their requirements from `/x402/v1/supported`, and read it again when the gateway has changed.";
    PAYMENT_REQUIREMENTS_MISMATCH Some(StatusCode::OK), PaymentGateway, NotRetryableFixRequest, None, false,
        "The payment is not what the requirement asks for.",
        "What the payer accepted, or the payment request in the payload, differs from the merchant's requirement. The \
         message names the member. This call accepted nothing.",
        "Build the payment request from the requirement as it stands in the 402, and sign that.";
    INSUFFICIENT_FUNDS Some(StatusCode::BAD_REQUEST), PaymentGateway, RetryAfterDelay, Some(true), false,
        "The payer does not hold the amount.",
        "At the newest block the source account holds less of the asset than may be drawn from it: \
         `max_source_amount`, what the payer signed where there is none, or the price of the awarded quote. What it has \
         signed away for payments that are not deposited yet counts as gone. This call accepted nothing, and no settler \
         was asked.",
        "Fund the account, or wait for its other payments, and send the same request again, as long as its deadlines last. \
         Where the asset is a wrapped coin, `/v1/payments/prepare` shows how to wrap the coins that the account holds.";
    INSUFFICIENT_ALLOWANCE Some(StatusCode::BAD_REQUEST), PaymentGateway, RetryAfterDelay, Some(true), false,
        "The payer does not let the escrow draw the amount.",
        "The source account holds enough, and has approved less than may be drawn from it to what draws it: Permit2 on \
         EVM chains, the program's address for the payer's key on Solana, the escrow on Tron. This call accepted \
         nothing, and no settler was asked.",
        "Send the `approval` that `/v1/payments/prepare` answers with, once its block is there the same request again. Where \
         the token takes signatures, prepare answers with no `approval` but with one more message, or with \
         `EVM_EIP3009`: sign those instead.";
    NONCE_ALREADY_USED Some(StatusCode::BAD_REQUEST), PaymentGateway, RetryWithNewRequestId, Some(false), false,
        "What the payer signed was used up or revoked on chain.",
        "Permit2, or a token that takes signed transfers, takes a signature once, and its nonce, which is made of the payment's \
         id and terms, for a token also of accounts and windows, is marked as used: by an earlier deposit, or because the account invalidated it. Nothing can be drawn by it. This call accepted \
         nothing.",
        "Look for an earlier payment under this `request_id`. For another payment use a new `request_id` and sign again.";
    SETTLEMENT_PENDING Some(StatusCode::OK), PaymentGateway, RetryAfterDelay, Some(false), false,
        "The payment is accepted and not delivered yet. The identical call later gives the outcome.",
        "The delivery did not have its confirmations within the requirement's `maxTimeoutSeconds`, or within the shorter \
         time that the call was held for, which `extensions.gw.heldSeconds` tells. The payment goes on.",
        "Send the identical call again, or read the payment at `statusUrl`. It can never pay twice.";
    OUTCOME_UNKNOWN Some(StatusCode::INTERNAL_SERVER_ERROR), PaymentGateway, ReconcileThenDecide, None, false,
        "It is not known whether the payment was accepted. Send the same request again: it can be accepted only once.",
        "The payment was handed to the journal, and whether it arrived could not be established in time. It may be \
         accepted.",
        "Send the same request with the same `request_id` again: it finds the payment if there is one, and otherwise \
         creates it. Never change the `request_id` here, that could pay twice.";
    SERVICE_PAUSED Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), true,
        "The gateway accepts nothing new at the moment. Nothing was accepted; the same request is safe to retry.",
        "An operator has paused the service. Reads work, and payments that were accepted before go on. It is certain \
         that nothing was accepted.",
        "Send the same request again later, with the same `request_id`; `Retry-After` says when to try at the earliest.";
    SERVICE_UNAVAILABLE Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), false,
        "A dependency is temporarily unavailable. Nothing was accepted; the same request is safe to retry.",
        "Something that the gateway needs, such as its journal or a chain's node, does not answer at the moment, or the \
         gateway has as much to do as it can take. It is certain that nothing was accepted.",
        "Wait as long as `Retry-After` says and send the same request again, with the same `request_id`.";
    CHAIN_UNAVAILABLE Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), false,
        "A chain of the payment is not available for now. Nothing was accepted; the same request is safe to retry.",
        "The source, every destination, or what the awarded quote delivers lies on a chain that the gateway cannot use for now: \
         its node does not answer or is of another chain, it has no new blocks, or its contracts are not what they should be. \
         The message names the chain. It is certain that nothing was accepted, and payments on other chains go on.",
        "Send the same request again after as long as `Retry-After` says, with later deadlines where it is time, or ask for a \
         payment over other chains. Operators find the cause at `/readyz`.";
    TOO_MANY_QUOTE_REQUESTS Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), false,
        "Too many quote-requests collect quotes. Nothing was accepted; the same request is safe to retry.",
        "The gateway bounds for how many quote-requests settlers are asked at a time, and the bound is reached. Nothing was \
         accepted, and no settler was asked.",
        "Send the same request again after as long as `Retry-After` says, with later deadlines where it is time. A payment that \
         is submitted at once is not affected.";
    TOO_MANY_DEPOSIT_ADDRESSES Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, Some(true), false,
        "Money is waited for at too many deposit addresses. Nothing was accepted; the same request is safe to retry.",
        "The gateway bounds at how many deposit addresses it waits for money at a time, and the bound is reached. No address was \
         given.",
        "Send the same request again after as long as `Retry-After` says. A payment that is signed for is not affected.";
    TOO_MANY_STREAMS Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, None, false,
        "Too many event streams are open. Poll the payment's status, or try again later.",
        "The gateway bounds how many event streams it serves at a time, and the bound is reached. The payment itself \
         is not affected.",
        "Poll `/v1/payments/{id}/status`, or open the stream again after as long as `Retry-After` says.";
    NOT_READY Some(StatusCode::SERVICE_UNAVAILABLE), PaymentGateway, RetryAfterDelay, None, false,
        "The gateway is not ready to serve.",
        "The process runs but cannot take payments yet or for now: it is starting, or has lost its connection to a \
         dependency. The message says which.",
        "Nothing for clients: load balancers send requests elsewhere meanwhile. Operators find the cause in the \
         message and in the log.";
    DEPOSIT_NOT_RECEIVED None, PaymentGateway, RetryWithNewRequestId, Some(false), false,
        "Not enough money came to the deposit address in time.",
        "The payment was to be paid by a transfer to its deposit address, and by `pay_by` less than its `amount` was there. What is \
         there goes back to the source account once the payment's deposit window is over, as does what comes later.",
        "Wait until the money is back, then open another quote-request and ask for another address. What the gateway leaves there, \
         because it is less than a hundredth of the amount or came later, anyone can have sent back (`giveBack`).";
    NO_QUOTES_RECEIVED None, SettlerGateway, RetryWithNewRequestId, Some(false), true,
        "No quotes arrived within the auction window.",
        "No settler offered a usable quote before `quote_deadline`, or there was none to ask: the message says which. No funds \
         were moved. `decline_summary` of the status read tells why settlers declined.",
        "Look at `decline_summary`, raise `max_source_amount` or give more time, and submit anew under a new \
         `request_id`.";
    NO_QUOTE_SELECTED None, ExternalService, RetryWithNewRequestId, Some(false), false,
        "The quote selector took none of the quotes.",
        "There were quotes, and the service that `quote_selector` names was shown them and took none. The message bears \
         its reason. No funds were moved.",
        "Change what the reason names, name another selector or none, and submit anew under a new `request_id`.";
    SELECTOR_UNAVAILABLE None, ExternalService, RetryWithNewRequestId, Some(false), false,
        "The quote selector gave no valid choice in time.",
        "The service that `quote_selector` names did not answer, or what it answered was not its signed choice of one of \
         the quotes that it was shown. The gateway does not choose in its place. No funds were moved.",
        "Submit anew under a new `request_id`, later or without `quote_selector`; then the gateway takes the cheapest \
         valid quote.";
    AWARD_REFUSED None, SettlerAgent, RetryWithNewRequestId, Some(false), false,
        "The settler that won does not stand by its quote any more.",
        "A quote is firm for seconds. When it was awarded, the settler's tokens were not there any more, the quote had \
         lapsed, the deposit's window was longer than the settler binds itself for, or the settler could not use the \
         award; the message bears its reason. No funds were moved.",
        "Submit anew under a new `request_id`; the tokens may be there again, or another settler may win.";
    AWARD_UNANSWERED None, SettlerAgent, RetryWithNewRequestId, Some(false), false,
        "The settler that won did not answer in time.",
        "The last settler that could be awarded has 30 seconds to say that it stands by its quote, and said nothing: it may \
         be down. One that another could follow has about a second, and the next was awarded. Nothing is deposited for a \
         settler that is not there. No funds were moved.",
        "Submit anew under a new `request_id`, with the settler in the `blacklist` if it happens again.";
    SETTLEMENT_FAILED None, Blockchain, RetryWithNewRequestId, Some(false), true,
        "The settlement could not be completed. Funds in escrow are returned.",
        "A settler was awarded the payment, and the delivery did not take place or could not be paid for. What was in \
         escrow is returned to the payer; the timeline shows the refund.",
        "Wait for the refund if one is due, then submit anew under a new `request_id`. `blockchain_context`, where \
         present, shows what happened on chain.";
    DELIVERED_NOT_ATTESTED None, VerificationService, ReconcileThenDecide, Some(false), false,
        "The delivery was made, but not attested in time. The funds in escrow are returned.",
        "The settler delivered and the delivery is final: `transactions.fulfillment` is the transaction, and the recipient has \
         the money. The fulfillment verifier did not attest it before the refund window opened, so the escrow cannot pay the \
         settler and goes back to the payer. Only payments of older gateways have failed so; a delivery that is final \
         completes its payment now.",
        "The recipient was paid: do not pay again. Whether the settler is owed something outside of this service is between \
         you and it; the settler and the verifier are in the timeline.";
    INSUFFICIENT_LIQUIDITY None, SettlerAgent, RetryAfterDelay, None, true,
        "The settler does not hold enough of the destination asset for now.",
        "The settler trades this corridor but holds less of the destination asset than the payment asks for.",
        "Try again later or with a smaller amount.";
    TEMPORARILY_UNAVAILABLE None, SettlerAgent, RetryAfterDelay, None, false,
        "The settler cannot tell for now what it holds.",
        "The settler could not establish what it holds, for example because its node did not answer.",
        "Try again later.";
    AMOUNT_TOO_SMALL None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The amount is too small for its chain.",
        "The destination chain takes no delivery of so little: an account on Solana has to begin with 890880 lamports.",
        "Ask for a larger amount, or for a token.";
    PRICE_ABOVE_CAP None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler's price is above max_source_amount.",
        "The settler's price for this delivery is more than the payer allows to be spent.",
        "Raise `max_source_amount`.";
    UNDELIVERABLE None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The recipient cannot be paid in this asset.",
        "The settler tried the delivery out, without sending it, and the chain refuses it: the recipient is a contract that \
         takes no such transfer, or the token refuses or charges it.",
        "Compare recipient and asset; name another recipient.";
    DEADLINE_TOO_LONG None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The deadlines lie further ahead than the settler binds itself.",
        "Each settler has a longest time for quotes, for the settlement and for the refund window, because tokens and \
         attention that are promised for long are lost to everyone else.",
        "Choose nearer deadlines: minutes for quotes, hours for the settlement.";
    DEADLINE_TOO_SHORT None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The deadlines leave the settler too little time to deliver, or to be paid afterwards.",
        "Between `quote_deadline` and `fulfillment_deadline`, or behind it, there is less time than the settler needs \
         to deliver safely.",
        "Set a later `fulfillment_deadline`.";
    POLICY_NOT_HELD None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not hold a policy that settler_auth_required asks for.",
        "The request requires a policy that the settler does not hold.",
        "Drop the policy from `settler_auth_required` if it is not essential, or wait for settlers that hold it.";
    UNSUPPORTED_CORRIDOR None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not trade the source asset for any of the destinations.",
        "The settler does not deliver any of the destination assets against the source asset.",
        "Offer more destinations, or another source asset.";
    UNTRUSTED_CONTRACT None, SettlerAgent, NotRetryableFixRequest, None, false,
        "The settler does not trust the escrow contract or the fulfillment proxy.",
        "The settler would have to trust an escrow contract or a fulfillment proxy that it does not know.",
        "Use the contracts of `/v1/defaults`.";
    UNSPECIFIED None, SettlerAgent, RetryAfterDelay, None, false,
        "The settler declined without saying why.",
        "The settler declined and gave no reason.",
        "Try again later.";
}
