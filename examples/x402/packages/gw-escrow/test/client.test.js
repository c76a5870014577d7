import assert from "node:assert/strict";
import { test } from "node:test";

import { encodeAbiParameters, keccak256, maxUint256, recoverTypedDataAddress, stringToHex } from "viem";
import { evmPayer, GwEscrowClient } from "../src/client.js";
import { paymentId, termsHash } from "../src/ids.js";
import { memoryStore } from "../src/store.js";
import {
  defaults,
  DESTINATION,
  ESCROW,
  gateway,
  MERCHANT,
  preparedFor,
  requirement,
  signer,
  SOURCE,
  TOKEN,
} from "./world.js";

const STRANGER = "0x000000000000000000000000000000000000dead";

/** A payer that keeps what it is asked to sign. */
function spy() {
  /** @type {any[]} */
  const signed = [];
  const account = {
    address: signer.address,
    signTypedData: async (/** @type {any} */ data) => {
      signed.push(data);
      return signer.signTypedData(data);
    },
  };
  return { signed, payer: evmPayer(/** @type {any} */ (account)) };
}

test("ids and terms are those of the gateway", () => {
  const source = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
  assert.equal(paymentId("eip155:0xabc", "order-1"), "pay_jje3blgdzrpxf3uvkmk2wmcgkwsrwgtqdmij6nzofqki7qfaaqma");
  const terms = {
    source: { account: source, asset_identifier: "eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48" },
    destination: [
      { account: source, asset_identifier: "eip155:137/slip44:966" },
      { account: source, asset_identifier: "eip155:10/slip44:60" },
    ],
    fulfillment_amount: "25",
    max_source_amount: "30",
  };
  assert.equal(termsHash(terms), "0x29430775f0ce4dc0331fb6ed0e0886a5ca6a1d54c52830898b29c4b4eb58e934");
});

test("it signs what the requirement says, into the escrow of its own gateway", async (context) => {
  const { signed, payer } = spy();
  // The destination takes longer to settle than the source.
  const base = await gateway(context, ({ searchParams }) => {
    return { body: { ...defaults(), refund_delay_seconds: searchParams.get("chain_id") === SOURCE ? 10 : 30 } };
  });
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  const { payload } = await client.createPaymentPayload(2, requirement());
  const request = /** @type {any} */ (payload.paymentRequest);
  assert.equal(request.fulfillment_amount, "1000000");
  assert.equal(request.max_source_amount, "1100000");
  assert.deepEqual(request.destination, [{ asset_identifier: `${DESTINATION}/erc20:${TOKEN}`, account: MERCHANT }]);

  assert.equal(signed.length, 1);
  const { domain, message } = signed[0];
  assert.deepEqual(domain, {
    name: "Permit2",
    chainId: 31337,
    verifyingContract: "0x000000000022d473030f116ddee9f6b43ac78ba3",
  });
  assert.equal(message.spender, ESCROW);
  assert.deepEqual(message.permitted, { token: TOKEN, amount: 1_100_000n });
  assert.equal(message.witness.refundAfter, message.witness.fulfillmentDeadline + 30);
  const [{ signature, message_prehash }] = request.sender_auth.signed_messages;
  const typedData = JSON.parse(message_prehash);
  assert.equal(typedData.message.nonce, String(message.nonce));
  assert.equal(await recoverTypedDataAddress({ ...typedData, signature }), signer.address);
});

/**
 * Has it sign before a gateway that takes signatures for tokens, and prepares this.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ status?: number, body: unknown }} prepared
 */
async function signedFor(context, prepared) {
  const { signed, payer } = spy();
  const taken = { ...defaults(), message_schemes: ["EVM_EIP3009", "EVM_PERMIT2_ESCROW"] };
  const base = await gateway(context, ({ pathname }) => (pathname.endsWith("/prepare") ? prepared : { body: taken }));
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  const made = client.createPaymentPayload(2, requirement());
  const request = /** @type {any} */ ((await made.catch(() => undefined))?.payload.paymentRequest);
  return { signed, request, made };
}

/** EIP-712's hash of a deposit, by the letter of the standard. */
const depositHash = (/** @type {any} */ deposit) => {
  const members = [
    ...["paymentId", "termsHash", "quoteHash"].map((name) => ["bytes32", name]),
    ...["payer", "reserver", "releaser"].map((name) => ["address", name]),
    ...["reserveDeadline", "fulfillmentDeadline", "refundAfter"].map((name) => ["uint48", name]),
  ];
  const type = `GatewayDeposit(${members.map((member) => member.join(" ")).join(",")})`;
  const words = [["bytes32"], ...members].map(([kind = ""]) => ({ type: kind }));
  return keccak256(
    encodeAbiParameters(words, [keccak256(stringToHex(type)), ...members.map(([, name = ""]) => deposit[name])]),
  );
};

test("for a token that moves by a signature it signs its transfer into the escrow, and nothing that was prepared", async (context) => {
  const { signed, request } = await signedFor(context, { body: preparedFor("transfer") });
  assert.equal(signed.length, 1);
  const [{ domain, primaryType, message }] = signed;
  assert.deepEqual([primaryType, domain], [
    "ReceiveWithAuthorization",
    { name: "Dollar", version: "2", chainId: 31337, verifyingContract: TOKEN },
  ]);
  assert.deepEqual([message.from, message.to, message.value, message.validAfter], [
    signer.address.toLowerCase(),
    ESCROW,
    1_100_000n,
    0n,
  ]);
  assert.equal(request.sender_auth.message_scheme, "EVM_EIP3009");
  const [{ message_prehash, signature, payload }, ...others] = request.sender_auth.signed_messages;
  assert.equal(others.length, 0);
  assert.equal(await recoverTypedDataAddress({ ...JSON.parse(message_prehash), signature }), signer.address);
  const { deposit, ...times } = payload;
  assert.equal(depositHash(deposit), message.nonce);
  const until = Date.parse(request.fulfillment_deadline) / 1000;
  assert.deepEqual(times, { reserve_deadline: until, refund_after: until + 30, valid_before: until + 1 });
  assert.equal(deposit.paymentId, keccak256(stringToHex(paymentId(`eip155:${message.from}`, request.request_id))));
});

test("for a token that gives allowances by a signature it signs Permit2's first, and then its transfer", async (context) => {
  const { signed, request } = await signedFor(context, { body: preparedFor("allowance") });
  assert.deepEqual(
    signed.map(({ primaryType }) => primaryType),
    ["Permit", "PermitWitnessTransferFrom"],
  );
  const [{ domain, message }] = signed;
  assert.deepEqual(domain, { name: "Dollar", version: "2", chainId: 31337, verifyingContract: TOKEN });
  assert.deepEqual(message, {
    owner: signer.address.toLowerCase(),
    spender: "0x000000000022d473030f116ddee9f6b43ac78ba3",
    value: maxUint256,
    nonce: 3n,
    deadline: BigInt(Date.parse(request.fulfillment_deadline) / 1000),
  });
  assert.equal(request.sender_auth.message_scheme, "EVM_PERMIT2_ESCROW");
  for (const { message_prehash, signature } of request.sender_auth.signed_messages) {
    assert.equal(await recoverTypedDataAddress({ ...JSON.parse(message_prehash), signature }), signer.address);
  }
});

test("what the gateway does not prepare is signed for Permit2, and what it does not name is not signed", async (context) => {
  for (const prepared of [
    { status: 400, body: { code: "INSUFFICIENT_FUNDS" } },
    { body: { message_scheme: "EVM_PERMIT2_ESCROW", signed_messages: [{ message_prehash: "{}" }] } },
    { body: { message_scheme: "EVM_EIP3009" } },
  ]) {
    const { signed } = await signedFor(context, prepared);
    assert.deepEqual(
      signed.map(({ primaryType }) => primaryType),
      ["PermitWitnessTransferFrom"],
    );
  }
  for (const message_prehash of ["{}", "no JSON", "null", '{"domain":{"name":"Dollar"}}', undefined]) {
    const body = { message_scheme: "EVM_EIP3009", signed_messages: [{ message_prehash }] };
    const { signed, made } = await signedFor(context, { body });
    await assert.rejects(made, { name: "GwEscrowError", code: "gateway" });
    assert.equal(signed.length, 0);
  }
});

/** @type {[string, string, (requirement: any) => void][]} */
const lies = [
  ["another escrow", "untrusted", ({ extra }) => (extra.gw.escrow = STRANGER)],
  ["another reserver", "untrusted", ({ extra }) => (extra.gw.reserver = STRANGER)],
  ["another releaser", "untrusted", ({ extra }) => (extra.gw.releaser = STRANGER)],
  ["another proxy", "untrusted", ({ extra }) => (extra.gw.fulfillmentProxy = STRANGER)],
  ["another verifier", "untrusted", ({ extra }) => (extra.gw.fulfillmentVerifierEndpoint = "http://127.0.0.1:1")],
  ["somebody else is paid than is shown", "requirement", ({ extra }) => (extra.gw.destination.address = STRANGER)],
  ["an asset of another chain", "requirement", (entry) => (entry.asset = `eip155:1/erc20:${TOKEN}`)],
  ["an amount that is none", "requirement", (entry) => (entry.amount = "1e6")],
  ["nothing arrives", "requirement", ({ extra }) => (extra.gw.fulfillmentAmount = "0")],
  ["more than is allowed", "cap", (entry) => (entry.amount = "1100001")],
  ["money locked for long", "lock", ({ extra }) => (extra.gw.fulfillmentDeadlineSeconds = 3600)],
  ["a delivery before the auction", "requirement", ({ extra }) => (extra.gw.fulfillmentDeadlineSeconds = 5)],
  ["a chain nobody pays on", "unsupported", (entry) => entry.network],
];
for (const [lie, code, tell] of lies) {
  test(`it signs nothing: ${lie}`, async (context) => {
    const { signed, payer } = spy();
    const payers = lie === "a chain nobody pays on" ? [] : [payer];
    const client = new GwEscrowClient({ gateway: await gateway(context), payers });
    const told = requirement();
    tell(told);
    const refused = client.createPaymentPayload(2, told, { maxAmountPerPayment: "1100000" });
    await assert.rejects(refused, { name: "GwEscrowError", code });
    assert.equal(signed.length, 0);
  });
}

test("it signs nothing for a gateway that names other contracts than the pinned ones", async (context) => {
  const { signed, payer } = spy();
  const lying = await gateway(context, () => ({ body: { ...defaults(), escrow_contract_address: STRANGER } }));
  const { escrow_contract_address: escrow, reserver, releaser } = defaults();
  const client = new GwEscrowClient({
    gateway: lying,
    payers: [payer],
    pins: { [SOURCE]: { escrow, reserver, releaser } },
  });
  const told = requirement();
  told.extra.gw.escrow = STRANGER;
  await assert.rejects(client.createPaymentPayload(2, told), { code: "untrusted" });
  assert.equal(signed.length, 0);
});

test("a payment whose outcome is unknown is sent again, and made anew only when it is surely lost", async (context) => {
  const { signed, payer } = spy();
  let answer = { status: 404, body: { code: "PAYMENT_NOT_FOUND" } };
  const base = await gateway(context, ({ pathname }) => (pathname.endsWith("/status") ? answer : { body: defaults() }));
  const open = memoryStore();
  const make = async () => {
    // As after a crash: another client on the same store.
    const client = new GwEscrowClient({ gateway: base, payers: [payer], open });
    return JSON.stringify((await client.createPaymentPayload(2, requirement())).payload);
  };
  const first = await make();
  assert.equal(await make(), first, "the gateway may still accept it");
  for (const status of ["pending", "finalizing", "completed"]) {
    answer = { status: 200, body: /** @type {any} */ ({ status }) };
    assert.equal(await make(), first, status);
  }
  answer = { status: 503, body: { code: "SERVICE_UNAVAILABLE" } };
  await assert.rejects(make(), { code: "gateway" });
  assert.equal(signed.length, 1);

  answer = { status: 200, body: /** @type {any} */ ({ status: "failed" }) };
  const second = await make();
  assert.notEqual(second, first);
  // The auction's deadline, which is not signed, is past for long; what was signed can be taken to its own end.
  answer = { status: 404, body: { code: "PAYMENT_NOT_FOUND" } };
  const now = Date.now();
  const clock = context.mock.method(Date, "now", () => now + 359_000);
  assert.equal(await make(), second);
  assert.equal(signed.length, 2);
  clock.mock.mockImplementation(() => now + 362_000);
  assert.notEqual(await make(), second);
  assert.equal(signed.length, 3);
});

test("what an older version signed counts to its signed end as well", async (context) => {
  const { signed, payer } = spy();
  const base = await gateway(context, ({ pathname }) =>
    pathname.endsWith("/status") ? { status: 404, body: { code: "PAYMENT_NOT_FOUND" } } : { body: defaults() },
  );
  /** @type {Map<string, any>} */
  const records = new Map();
  const open = {
    get: async (/** @type {string} */ key) => records.get(key),
    set: async (/** @type {string} */ key, /** @type {any} */ { fulfillmentDeadline, ...old }) =>
      void records.set(key, { ...old, quoteDeadline: fulfillmentDeadline - 295 }),
    delete: async (/** @type {string} */ key) => void records.delete(key),
  };
  const client = new GwEscrowClient({ gateway: base, payers: [payer], open });
  const make = async () => JSON.stringify((await client.createPaymentPayload(2, requirement())).payload);
  const first = await make();
  const now = Date.now();
  const clock = context.mock.method(Date, "now", () => now + 359_000);
  assert.equal(await make(), first);
  clock.mock.mockImplementation(() => now + 362_000);
  assert.notEqual(await make(), first);
  assert.equal(signed.length, 2);
});

test("a shop that says success is believed when the buyer's own gateway says so", async (context) => {
  const { signed, payer } = spy();
  /** @type {any} */
  let answer = { status: 404, body: { code: "PAYMENT_NOT_FOUND" } };
  const base = await gateway(context, ({ pathname }) => (pathname.endsWith("/status") ? answer : { body: defaults() }));
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  const resource = { url: "http://a/1" };
  const buy = async () => {
    const requirements = requirement();
    const paymentRequired = { x402Version: 2, resource, accepts: [requirements] };
    await client.schemeHooks.onBeforePaymentCreation({ paymentRequired, selectedRequirements: requirements });
    const { payload } = await client.createPaymentPayload(2, requirements);
    const paymentPayload = { x402Version: 2, resource, accepted: requirements, payload };
    const settleResponse = { success: true };
    await client.schemeHooks.onPaymentResponse({ paymentPayload, requirements, settleResponse });
    return JSON.stringify(payload);
  };
  const first = await buy();
  for (const [status, body] of [
    [404, { code: "PAYMENT_NOT_FOUND" }],
    [200, { status: "pending" }],
    [200, { status: "finalizing" }],
  ]) {
    answer = { status, body };
    assert.equal(await buy(), first, JSON.stringify(body));
  }
  // It was given what it bought, and the gateway was not asked at the right moment: the next one is paid anew.
  answer = { status: 200, body: { status: "completed" } };
  const second = await buy();
  assert.notEqual(second, first);
  assert.notEqual(await buy(), second);
  assert.equal(signed.length, 3);
});

test("two purchases of one thing at once are one payment, and of two things are two", async (context) => {
  const { signed, payer } = spy();
  const base = await gateway(context, ({ pathname }) =>
    pathname.endsWith("/status") ? { status: 404, body: { code: "PAYMENT_NOT_FOUND" } } : { body: defaults() },
  );
  const client = new GwEscrowClient({ gateway: base, payers: [payer] });
  const buy = async (/** @type {string} */ url) => {
    const selectedRequirements = requirement();
    const paymentRequired = { x402Version: 2, resource: { url }, accepts: [selectedRequirements] };
    await client.schemeHooks.onBeforePaymentCreation?.({ paymentRequired, selectedRequirements });
    return JSON.stringify((await client.createPaymentPayload(2, selectedRequirements)).payload);
  };
  const [one, two, other] = await Promise.all([buy("http://a/1"), buy("http://a/1"), buy("http://a/2")]);
  assert.equal(one, two);
  assert.notEqual(one, other);
  assert.equal(signed.length, 2);
});

test("settlers are asked once it is signed, however long that takes, and not after its end", async (context) => {
  const base = await gateway(context);
  let now = Date.now();
  context.mock.method(Date, "now", () => now);
  const begun = Math.floor(now / 1000);
  const { payer } = spy();
  const slow = (/** @type {number} */ seconds) => ({
    ...payer,
    authorize: async (/** @type {any} */ order) => {
      now += seconds * 1000;
      return payer.authorize(order);
    },
  });
  const { payload } = await new GwEscrowClient({ gateway: base, payers: [slow(40)] }).createPaymentPayload(
    2,
    requirement(),
  );
  const request = /** @type {any} */ (payload.paymentRequest);
  assert.equal(Date.parse(request.quote_deadline) / 1000, begun + 40 + 5);
  assert.equal(Date.parse(request.fulfillment_deadline) / 1000, begun + 300);
  const late = new GwEscrowClient({ gateway: base, payers: [slow(300)] });
  await assert.rejects(late.createPaymentPayload(2, requirement()), { code: "late" });
});
