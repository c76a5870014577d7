// What callers hand in and get back. Members of the gateway's own documents keep the names that the API gives them
// (`snake_case`, amounts as decimal text); what the SDK adds is `camelCase`, with amounts as `bigint` in the smallest unit.

import type { components } from './api.js';
import type { GatewayError } from './errors.js';

type Schemas = components['schemas'];

/** A payment as a submission is answered. */
export type PaymentResponse = Schemas['PaymentResponse'];
/** A payment as it stands. */
export type PaymentStatusRead = Schemas['PaymentStatusRead'];
/** `pending`, `finalizing`, `completed`, `failed`. */
export type PaymentStatus = Schemas['PaymentStatus'];
/** Everything that happened to a payment. */
export type PaymentTimeline = Schemas['PaymentTimeline'];
/** One thing that happened; what {@link Gateway.watch} yields. */
export type TimelineEntry = Schemas['TimelineEntry'];
/** Why a payment failed. */
export type PaymentFailure = Schemas['PaymentFailure'];
/** Money that waits in an escrow because a token refused to hand it over. */
export type PaymentClaim = Schemas['PaymentClaim'];
/** A payment, signed. */
export type PaymentRequest = Schemas['PaymentRequest'];
/** A payment without `sender_auth`. */
export type PrepareRequest = Schemas['PrepareRequest'];
/** An award without `sender_auth`. */
export type PrepareAwardRequest = Schemas['PrepareAwardRequest'];
/** What to sign. */
export type PreparedPayment = Schemas['PreparedPayment'];
/** How who pays, or its merchant, signs: one of a chain's `message_schemes`. */
export type Scheme = PreparedPayment['message_scheme'];
/** Payments for one signature, signed. */
export type PaymentBatchRequest = Schemas['PaymentBatchRequest'];
/** The same without `sender_auth`. */
export type PreparePaymentBatchRequest = Schemas['PreparePaymentBatchRequest'];
/** What to sign for a batch of payments. */
export type PreparedPaymentBatch = Schemas['PreparedPaymentBatch'];
/** What became of each payment of a batch, in the order of the request. */
export type PaymentBatchResponse = Schemas['PaymentBatchResponse'];
/** What a payer allows its merchant to ask for. */
export type Mandate = Schemas['Mandate'];
/** What is to be signed for a mandate is asked for with this. */
export type PrepareMandateRequest = Schemas['PrepareMandateRequest'];
/** A call of a contract, as `eth_sendTransaction` takes it. */
export interface SentCall {
  to: string;
  data: string;
  value: string;
}
/** What a payer signs for a mandate, and what it can do with it besides. */
export type PreparedMandate = Omit<Schemas['PreparedMandate'], 'allowance' | 'cancel'> & {
  /** The call by which a payer that is a contract gives that allowance instead. */
  allowance: SentCall;
  /** How it is ended for ever: the payer's, or the merchant's, own call; or the payer's signature, with which anyone calls. */
  cancel: { call: SentCall; message: Schemas['UnsignedMessage'] };
};
/** What a merchant shows with each payment that it asks for. */
export interface MandatePayload {
  mandate: Mandate;
  /** The payer's signature for Permit2, hex with 0x; left out where it gave the allowance by a call. */
  permit?: string;
}
/** What quotes are asked for. */
export type QuoteRequest = Schemas['QuoteRequest'];
/** A batch of quotes as it stands. */
export type QuoteBatch = Schemas['QuoteRequestRead'];
/** A quote that may be awarded. */
export type CollectedQuote = Schemas['CollectedQuote'];
/** An award, signed. */
export type AwardRequest = Schemas['AwardRequest'];
/** What a deposit address is asked for with. */
export type DepositAddressRequest = Schemas['DepositAddressRequest'];
/**
 * Where the money of a payment is sent that nobody signs for, by the gateway's word; `checkAddress` of `gateway-client/evm` or `/tron`
 * judges it.
 */
export type DepositAddress = Schemas['DepositAddress'];
/** Proof of control of the funding account. */
export type SenderAuth = Schemas['SenderAuth'];
/** One message that was signed. */
export type SignedMessage = Schemas['SignedMessage'];
/** A submission that would be accepted, or is a replay. */
export type Verification = Schemas['Verification'];
/** Every chain that is served. */
export type Defaults = Schemas['Defaults'];
/** What a request on one chain gets that names nothing else. */
export type ChainDefaults = Schemas['ChainDefaults'];
/** An asset that is served. */
export type ServedAsset = Schemas['ServedAsset'];
/** An asset and the account that holds or receives it. */
export type OwnedAsset = Schemas['OwnedAsset'];
/** Every error of the API, as it is written. */
export type ErrorBody = Schemas['ErrorResponse'];
/** Who attests deliveries: one verifier, or a set of them. */
export type FulfillmentVerifier = Schemas['FulfillmentVerifier'];
/** Why settlers declined. */
export type DeclineSummary = Schemas['DeclineSummary'];

/** A family of chains; the CAIP-2 namespace is `eip155`, `solana` or `tron`. */
export type Family = 'evm' | 'solana' | 'tron';

/** An asset, by its CAIP-19 id, and whom it is sent to. */
export interface Destination {
  asset: string;
  account: string;
}

/** Verifiers of which so many as `threshold` says have to attest a delivery, in any order. */
export interface VerifierSet {
  threshold: number;
  members: readonly { account: string; endpoint?: string }[];
}

/** Verifiers as a gateway shows them; an older one leaves out threshold and members. */
export interface ShownVerifier extends Partial<VerifierSet> {
  account?: string;
  endpoint?: string;
}

/** What somebody wants paid. */
export interface Order {
  /**
   * Idempotency key, 1 to 128 of letters, digits, `_`, `-`, `.`. Under one key money can be taken once, however often it is
   * sent. One is made where there is none; keep it ({@link PayOptions.onStep} tells it before anything is signed).
   */
  requestId?: string;
  /** What is paid with. `account` is the wallet's where it is left out. */
  source: { asset: string; account?: string };
  /** Where the amount may arrive; the settler chooses among several. */
  destination: Destination | readonly Destination[];
  /** What arrives, exactly, in the destination's smallest unit. */
  amount: bigint;
  /** The most that is taken, in the source's smallest unit. */
  maxSource: bigint;
  /** End of quote collection; 10 seconds from when it is asked where it is left out. */
  quoteDeadline?: Date;
  /** By when it has to be there; 180 seconds from when it is asked (240 on Tron) where it is left out. */
  fulfillmentDeadline?: Date;
  /** Further members of a payment request, such as `settler_requirements`. */
  extra?: Partial<Omit<QuoteRequest, 'source' | 'destination' | 'fulfillment_amount' | 'max_source_amount'>>;
}

/**
 * What the payer knows by itself, from the operator's own pages or from the deployment that it has looked at: a gateway that
 * says something else is refused before anything is signed. Where an account is left out the gateway's word is believed.
 */
export interface Trust {
  /** Escrow contract, or program, on the source's chain. */
  escrow?: string;
  /** Who signs reservations. */
  reserver?: string;
  /** Who attests deliveries: a verifier's account, or the id of a set, which `releaserOf` computes of threshold and members. */
  releaser?: string;
  /**
   * The contract that makes deposit addresses, on Tron, where each network has it elsewhere. Without effect on EVM chains, where its
   * address follows from its code and is never taken from the gateway, and on Solana, where the program of the escrow makes them.
   */
  depositAddressFactory?: string;
  /**
   * Permit2, on an EVM chain that has it elsewhere than at Uniswap's address, and on a network of Tron that is not the main one, where
   * SUN.io's is known. Never taken from the gateway: where it is not known, nothing is signed for it, and a payer on Tron pays by
   * transactions. What begins with `0x` says nothing on Tron, nor what begins with `T` on an EVM chain.
   */
  permit2?: string;
  /** The longest that money which was not used may stay locked, in seconds from now; 7200 where it is left out. */
  lockSecondsMax?: number;
  /**
   * The most that one of the payer's own transactions may cost in the chain's coin, in its smallest unit: on EVM gas times
   * fee per gas (a hundredth of a coin where it is left out), on Tron `fee_limit` (500 TRX). Without effect on Solana,
   * where a transaction costs the fee of one signature.
   */
  feeMax?: bigint;
}

/** Where {@link Gateway.pay} is. */
export type PayStep =
  | { step: 'ordered'; requestId: string; paymentId: string; believed: string[]; verifiers?: VerifierSet }
  | { step: 'sending'; what: 'wrap' | 'approve'; amount: bigint }
  | { step: 'sent'; what: 'wrap' | 'approve'; transaction: string }
  | { step: 'signing'; request: PrepareRequest | PrepareAwardRequest; prepared: PreparedPayment }
  | { step: 'submitting'; body: PaymentRequest | AwardRequest }
  | { step: 'status'; status: PaymentStatusRead | PaymentResponse };

/** How {@link Gateway.pay} goes about it. */
export interface PayOptions {
  trust?: Trust;
  /** Wrap what is missing of a wrapped coin (WETH, wrapped SOL, WTRX) out of the wallet's own coins. Off where left out. */
  wrap?: boolean;
  /**
   * How much the wallet allows to be drawn where its allowance is too small and a transaction has to give it; the order's `maxSource`
   * where it is left out. On Tron it is the allowance for Permit2, and an error without the name of its scheme
   * ({@link PayOptions.messageScheme}): that for the escrow is signed with the deposit, and always of `maxSource`.
   */
  allowance?: bigint;
  /**
   * The scheme to sign by, one of the chain's `message_schemes`; the gateway's choice where it is left out. On Tron that is
   * `TRON_PERMIT2_ESCROW` where Permit2 has its allowance: one signature, and neither a transaction nor TRX. By its name it is taken
   * where Permit2 has none yet, too: the wallet gives it first, by a transaction that burns TRX, and lets more be drawn at once
   * (`allowance`) where later payments are to be spared it. Where it is left out, transactions (`TRON`) take its place when the gateway
   * names another Permit2 than {@link Trust.permit2}, or none, and when the wallet turns out to sign no typed data.
   */
  messageScheme?: Scheme;
  /** When to come back: `accepted`, or with its outcome (`final`, where it is left out). */
  until?: 'accepted' | 'final';
  /** Told of each step, before it where the name says so. What it throws ends the payment. */
  onStep?: (step: PayStep) => void | Promise<void>;
  /** Ends the waiting. What was accepted goes on; nothing is submitted after it. */
  signal?: AbortSignal;
}

/** How {@link Gateway.payQuote} goes about it. */
export interface PayQuoteOptions extends PayOptions {
  /** Idempotency key of the payment that the award makes. */
  requestId?: string;
  /** What the quotes were asked for, as {@link Gateway.quote} was given it: a batch for anything else is refused. */
  order?: Order | QuoteRequest;
  /** The most that is taken: needed where the quote-request set no `max_source_amount`; one that set more is refused. */
  maxSource?: bigint;
  /**
   * The hash of the quote document (`/docs/quote-hash`), 0x and 64 digits, where the caller knows it by itself. It is computed
   * from the document, and held against the quote's id, in any case.
   */
  quoteHash?: string;
}

/** Where {@link Gateway.payBatch} is. */
export type BatchStep =
  | { step: 'ordered'; payments: { requestId: string; paymentId: string; verifiers?: VerifierSet }[]; believed: string[] }
  | Extract<PayStep, { what: unknown }>
  | { step: 'signing'; request: PreparePaymentBatchRequest; prepared: PreparedPaymentBatch }
  | { step: 'submitting'; body: PaymentBatchRequest }
  | { step: 'accepted'; payments: BatchPaid[] };

/** How {@link Gateway.payBatch} goes about it. */
export interface PayBatchOptions extends Pick<PayOptions, 'trust' | 'wrap' | 'signal'> {
  /**
   * How much the wallet allows Permit2 to draw of each token where its allowance is too small; the sum of the orders' `maxSource` where it
   * is left out.
   */
  allowance?: bigint;
  /**
   * Up to when payments are deposited; the earliest of their fulfillment deadlines, and no later, where it is left out. From then on what
   * was drawn and not deposited goes back.
   */
  reserveDeadline?: Date;
  /** Told of each step, before it where the name says so. What it throws ends the paying. */
  onStep?: (step: BatchStep) => void | Promise<void>;
}

/** What came of one payment of a batch: `payment` where it was accepted, now or before, and otherwise `error`. */
export interface BatchPaid {
  requestId: string;
  paymentId: string;
  payment?: PaymentResponse | PaymentStatusRead;
  /** Why it was refused, with the status that its code has alone. The others are accepted all the same. */
  error?: GatewayError;
}

/** What came of {@link Gateway.payBatch}. */
export interface BatchResult {
  /** In the order in which they were asked for. */
  payments: BatchPaid[];
  /** What was submitted. Whoever keeps it can submit it again at any time. Left out where all payments were there before. */
  body?: PaymentBatchRequest;
  /** What it was signed for, as `batchOf` of `gateway-client/evm` takes it; left out as the body is. */
  batch?: BatchSpend;
  /** The payer's own transactions that were sent before it. */
  sent: PayResult['sent'];
}

/** What came of {@link Gateway.pay}. */
export interface PayResult {
  paymentId: string;
  requestId: string;
  /** What was submitted. Whoever keeps it can submit it again at any time. */
  body: PaymentRequest | AwardRequest;
  /** The payer's own transactions that were sent before it: coins that were wrapped, and allowances. */
  sent: { what: 'wrap' | 'approve'; transaction: string }[];
  /** How the submission was answered: `idempotent_replay` says whether the payment was there before. */
  accepted: PaymentResponse;
  /** The payment, as it was last seen. */
  status: PaymentStatusRead | PaymentResponse;
}

/** All that an authorization is rebuilt from. */
export interface Spend {
  paymentId: string;
  /** CAIP-2 id of the source's chain. */
  chainId: string;
  /** The economics, in normal form. */
  terms: Terms;
  /** What may be taken at most: `max_source_amount`, or the payer's own bound where the request has none. */
  cap: bigint;
  /** UNIX seconds. */
  quoteDeadline: number;
  /** UNIX seconds. */
  fulfillmentDeadline: number;
  /** Accounts that the deposit names, after they were held against {@link Trust}. */
  escrow: string;
  reserver: string;
  releaser: string;
  /** Who may attest, and how many have to, where the gateway shows it: `releaser` is this set's. */
  verifiers?: VerifierSet;
  permit2?: string;
  /** See {@link Trust.depositAddressFactory}: of a payment by deposit address on Tron, where the payer pinned it. */
  depositAddressFactory?: string;
  /** Solana: genesis hash of the cluster, and version of what is signed. */
  signatureClusterId?: string;
  signatureDomainVersion?: number;
  /** Most seconds from the fulfillment deadline to the refund. */
  refundDelaySeconds: number;
  /** What the quote that is taken costs, in the source's smallest unit; left out where the payer signs before the auction. */
  price?: bigint;
  /** Zeros where the payer signs before the auction; `undefined`: whatever hash the gateway names, not zero. */
  quoteHash: string | undefined;
  /** The source is the wrapped form of the chain's coin, by what the gateway says. */
  wraps: boolean;
  /** See {@link Trust.feeMax}. */
  feeMax?: bigint;
}

/** All that the authorization of a batch is rebuilt from. */
export interface BatchSpend {
  /** Of each payment, in the order of the request. */
  spends: readonly Spend[];
  /** Last second in which payments of the batch are deposited, UNIX. */
  reserveDeadline: number;
}

/** All that a mandate's address, and what its payer signs, are rebuilt from. */
export interface MandateSpend extends Pick<Spend, 'chainId' | 'escrow' | 'releaser' | 'verifiers' | 'permit2'> {
  /** Who pays with what, and to whom it is delivered. */
  terms: Pick<Terms, 'source' | 'destination'>;
  mandate: Mandate;
}

/** All that a merchant's authorization of one payment is rebuilt from. */
export interface ChargeSpend {
  /** Of the payment, which the mandate's payer pays. */
  spend: Spend;
  payload: MandatePayload;
}

/** What may be drawn out of an account. */
export type Drawn = Pick<Spend, 'chainId' | 'cap' | 'permit2' | 'feeMax'> & { terms: Pick<Terms, 'source'> };

/** The economics of a payment, every value in its normal form. */
export interface Terms {
  source: OwnedAsset;
  destination: OwnedAsset[];
  fulfillment_amount: string;
  max_source_amount?: string;
}

/** What {@link Wallet.fund} may do. */
export interface Funding {
  wrap: boolean;
  /** How much is allowed to be drawn where that is too little yet; 0 where what is signed needs no allowance of its own. */
  allowance: bigint;
  onStep: (step: Extract<PayStep, { what: unknown }>) => void | Promise<void>;
  signal?: AbortSignal;
}

/** Where a payment's money is, for calls of the escrow without the gateway. */
export interface EscrowedPayment {
  paymentId: string;
  /** CAIP-2 id of the escrow's chain. */
  chainId: string;
  /** The escrow contract, or program. */
  escrow: string;
}

/** Where a claim is, for calls of the escrow without the gateway. */
export interface EscrowedClaim {
  /** CAIP-2 id of the escrow's chain. */
  chainId: string;
  escrow: string;
  /** The token's address on its chain. */
  token: string;
  /** Who is owed; the wallet itself where it is left out. */
  owner?: string;
  /** Where it goes. Only the owner may send it elsewhere than to itself. */
  to?: string;
}

/**
 * Who pays. `gateway-client/evm`, `/solana` and `/tron` make one out of a browser's wallet or a key; the core knows this alone.
 */
export interface Wallet {
  readonly family: Family;
  /** The account that pays, as requests write it. */
  readonly account: string;
  /** The one scheme by which it can sign, where it cannot by every scheme of its family: the gateway is asked for that. */
  readonly messageScheme?: Scheme;
  /** Sees to it that wallet and node are of this chain; asks a browser's wallet to change to it. */
  connect(chainId: string): Promise<void>;
  /** Sends the payer's own transactions that are missing, and waits for them. */
  fund(spend: Spend, funding: Funding): Promise<{ what: 'wrap' | 'approve'; transaction: string }[]>;
  /**
   * Rebuilds what is to be signed, and compares. Asks nobody.
   *
   * @throws {VerificationError} where the gateway asks for a signature over something else.
   */
  verify(spend: Spend, prepared: PreparedPayment): void;
  /** {@link Wallet.verify}, then a signature over what was rebuilt. */
  sign(spend: Spend, prepared: PreparedPayment): Promise<SignedMessage[]>;
  /** As {@link Wallet.verify}, for a batch; left out where the wallet's chains have none. */
  verifyBatch?(batch: BatchSpend, prepared: PreparedPaymentBatch): void;
  /** As {@link Wallet.sign}: one signature for all payments of a batch. */
  signBatch?(batch: BatchSpend, prepared: PreparedPaymentBatch): Promise<SignedMessage[]>;
  /** As {@link Wallet.fund}, the allowance alone, for payments to come: whatever the account holds now; left out as the above. */
  allow?(drawn: Drawn, funding: Omit<Funding, 'wrap'>): Promise<{ what: 'approve'; transaction: string }[]>;
  /** As {@link Wallet.verify}, for a mandate of the wallet's account, with the calls that the gateway shows; left out as the above. */
  verifyMandate?(mandate: MandateSpend, prepared: PreparedMandate): void;
  /** {@link Wallet.verifyMandate}, then a signature for Permit2 over what was rebuilt. */
  signMandate?(mandate: MandateSpend, prepared: PreparedMandate): Promise<string>;
  /** As {@link Wallet.verify}, for a payment that the wallet's account asks for as the merchant of a mandate; left out as the above. */
  verifyCharge?(charge: ChargeSpend, prepared: PreparedPayment): void;
  /** As {@link Wallet.sign}, for such a payment. */
  signCharge?(charge: ChargeSpend, prepared: PreparedPayment): Promise<SignedMessage[]>;
  /** Ends a mandate of which the wallet's account is payer or merchant. Resolves to the transaction; left out as the above. */
  cancelMandate?(mandate: MandateSpend): Promise<string>;
  /** Has the escrow pay an overdue payment back to its payer. Resolves to the transaction. */
  refund(payment: EscrowedPayment): Promise<string>;
  /** Takes money that waits as a claim. Resolves to the transaction. There are no claims on Solana. */
  claim(claim: EscrowedClaim): Promise<string>;
}

/** How the client talks to the gateway. */
export interface GatewayOptions {
  /** In the place of the global `fetch`. */
  fetch?: typeof fetch;
  /** Longest wait for one answer, in milliseconds; 60,000 where it is left out. A submission is held for up to 30 seconds. */
  timeoutMs?: number;
  /** How often a call that is safe to repeat is sent again; 5 where it is left out. */
  retries?: number;
  /**
   * First pause between two tries in milliseconds, doubled each time, and with jitter; 500 where it is left out. `Retry-After` counts
   * where it is longer.
   */
  pauseMs?: number;
  /** The longest pause, and the longest `Retry-After` that is waited for, in milliseconds; 30,000 where it is left out. */
  pauseMsMax?: number;
  /** Headers that go with every request, such as `traceparent`. */
  headers?: Record<string, string>;
}

/** What any one call may say besides. */
export interface CallOptions {
  signal?: AbortSignal;
  /** Tries in the place of {@link GatewayOptions.retries}. */
  retries?: number;
  /** Longest time that the gateway holds the call for its outcome, in seconds (`Prefer: wait=N`); 0 answers at once. */
  waitSeconds?: number;
}
