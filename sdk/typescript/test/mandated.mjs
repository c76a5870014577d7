// What an honest gateway gives for a mandate, and for a payment under it. viem computes address, typed data and calls from the contract's
// artefact: the SDK has no part in it, but for ids, which have tests of their own.
import assert from 'node:assert/strict';
import { concat, encodeAbiParameters, encodeFunctionData, getContractAddress, hashTypedData, keccak256, parseAbi, stringToHex } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { Gateway, paymentId, UsageError, VerificationError } from 'gateway-client';
import { evmWallet } from 'gateway-client/evm';
import { DEFAULTS, PAYER, payerOf, TOKEN } from './batched.mjs';
import { QUICK, repository, serve } from './support.mjs';

export const merchant = privateKeyToAccount(`0x${'8'.repeat(64)}`);
export const MERCHANT = merchant.address.toLowerCase();
export const { abi: ABI, bytecode: BYTECODE } = repository('contracts/artifacts/Mandates.json');
/** Where the contract is, and what the address of each mandate runs. */
export const { contract: CONTRACT, implementation: IMPLEMENTATION } = repository('contracts/vectors/mandates.json');
export const PERMIT2_ABI = parseAbi(['function approve(address token, address spender, uint160 amount, uint48 expiration)']);
const ERC20_ABI = parseAbi(['function approve(address spender, uint256 amount)']);
const SPENDER = DEFAULTS.source.permit2;
const NO_BYTES = '0x';

const fields = (text) =>
  text.split(',').map((field) => {
    const [type, name] = field.split(' ');
    return { name, type };
  });
const PERMIT2_DOMAIN = fields('string name,uint256 chainId,address verifyingContract');
const DOMAIN = fields('string name,string version,uint256 chainId,address verifyingContract');
const DETAILS = fields('address token,uint160 amount,uint48 expiration,uint48 nonce');
const SINGLE = fields('PermitDetails details,address spender,uint256 sigDeadline');
const CHARGE_FIELDS = fields(
  'address mandate,bytes32 paymentId,uint256 fulfillmentAmount,uint160 amount,address reserver,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter',
);

/** The terms of a payment around its two amounts. */
function aroundAmounts({ source, destination }) {
  const owned = ({ account, asset_identifier }) => ({ account, asset_identifier });
  const canonical = JSON.stringify({ destination: destination.map(owned), fulfillment_amount: '@', max_source_amount: '@', source: owned(source) });
  const [before, between, after] = canonical.split('@');
  if (between !== '","max_source_amount":"') throw new Error(between);
  return [before, after];
}

/** A mandate as the contract takes it. */
export function structOf({ source, destination, mandate }, { escrow = DEFAULTS.source.escrow_contract_address, releaser = DEFAULTS.source.releaser } = {}) {
  const [before, after] = aroundAmounts({ source, destination });
  return {
    payer: source.account,
    merchant: mandate.merchant,
    token: source.asset_identifier.split(':').at(-1),
    amount: BigInt(mandate.amount),
    least: BigInt(mandate.least ?? 0),
    escrow,
    releaser,
    begins: mandate.begins,
    periodSeconds: mandate.period_seconds,
    periods: mandate.periods,
    lockSeconds: mandate.lock_seconds,
    salt: mandate.salt,
    termsBefore: stringToHex(before),
    termsAfter: stringToHex(after),
  };
}

export const saltOf = (struct) => keccak256(encodeAbiParameters(ABI.find(({ name }) => name === 'addressOf').inputs, [struct]));

/** Where the contract makes the proxy of a mandate. */
export function addressOf(struct, { contract = CONTRACT, implementation = IMPLEMENTATION } = {}) {
  const bytecode = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', implementation, '0x5af43d82803e903d91602b57fd5bf3']);
  return getContractAddress({ opcode: 'CREATE2', from: contract, salt: saltOf(struct), bytecode }).toLowerCase();
}

const message = (data) => ({ message: hashTypedData(data), message_prehash: JSON.stringify(data), payload: {} });
const call = (to, data) => ({ to, data, value: '0x0' });
const ofContract = (types, primaryType, body, contract) => ({
  types: { EIP712Domain: DOMAIN, [primaryType]: types },
  primaryType,
  domain: { name: 'GatewayMandates', version: '1', chainId: 31337, verifyingContract: contract },
  message: body,
});

/** The answer to a request; `places` are others than the gateway's own, and `edit` changes the typed data before it is hashed. */
export function preparedFor(request, { places = {}, edit = () => {}, approves = false } = {}) {
  const struct = structOf(request, places);
  const at = addressOf(struct, places);
  const { contract = CONTRACT } = places;
  const amount = struct.amount * BigInt(struct.periods);
  const last = struct.begins + struct.periodSeconds * struct.periods - 1;
  const details = { token: struct.token, amount: amount.toString(), expiration: String(last), nonce: '0' };
  const data = {
    types: { EIP712Domain: PERMIT2_DOMAIN, PermitDetails: DETAILS, PermitSingle: SINGLE },
    primaryType: 'PermitSingle',
    domain: { name: 'Permit2', chainId: 31337, verifyingContract: SPENDER },
    message: { details, spender: at, sigDeadline: String(last) },
  };
  edit(data);
  const approval = {
    asset_identifier: request.source.asset_identifier,
    spender: SPENDER,
    amount: amount.toString(),
    call: call(struct.token, encodeFunctionData({ abi: ERC20_ABI, args: [SPENDER, amount] })),
  };
  return {
    message_scheme: 'EVM_PERMIT2_MANDATE',
    mandate: request.mandate,
    address: at,
    contract,
    permit: message(data),
    allowance: call(SPENDER, encodeFunctionData({ abi: PERMIT2_ABI, args: [struct.token, at, amount, last] })),
    fulfillment_verifier: DEFAULTS.source.fulfillment_verifier,
    ...(approves ? { approval } : {}),
    cancel: {
      call: call(contract, encodeFunctionData({ abi: ABI, functionName: 'cancel', args: [struct, NO_BYTES] })),
      message: message(ofContract(fields('address mandate'), 'Cancellation', { mandate: at }, contract)),
    },
  };
}

export const idOf = ({ request_id: requestId, source }) => paymentId(`eip155:${source.account}`, requestId);

/** The answer to what a merchant asks for; `places` and `edit` as above. */
export function chargeFor(request, { places = {}, edit = () => {} } = {}) {
  const { source, refundDelaySeconds } = DEFAULTS;
  const { mandate, permit } = request.payload;
  const seconds = Math.floor(Date.parse(request.fulfillment_deadline) / 1000);
  const windows = { reserve_deadline: seconds, refund_after: seconds + refundDelaySeconds };
  const body = {
    mandate: addressOf(structOf({ ...request, mandate }, places), places),
    paymentId: keccak256(stringToHex(idOf(request))),
    fulfillmentAmount: request.fulfillment_amount,
    amount: request.max_source_amount,
    reserver: source.reserver,
    reserveDeadline: String(windows.reserve_deadline),
    fulfillmentDeadline: String(seconds),
    refundAfter: String(windows.refund_after),
  };
  const data = ofContract(CHARGE_FIELDS, 'Charge', body, places.contract ?? CONTRACT);
  edit(data);
  return {
    payment_id: idOf(request),
    message_scheme: 'EVM_PERMIT2_MANDATE',
    signed_messages: [{ ...message(data), payload: { ...windows, mandate, ...(permit ? { permit } : {}) } }],
    fulfillment_verifier: source.fulfillment_verifier,
  };
}

/** The merchant's wallet, over a node that knows its chain and nothing else. */
export async function merchantOf(account = merchant) {
  const signed = [];
  const signer = { ...account, signTypedData: (data) => (signed.push(data), account.signTypedData(data)) };
  const node = {
    request: async ({ method }) => {
      if (method !== 'eth_chainId') throw new Error(method);
      return '0x7a69';
    },
  };
  return { wallet: await evmWallet({ account: signer, rpc: node }), signed };
}

export const OTHER = `0x${'aa'.padStart(40, '0')}`;
const STRANGER = { contract: `0x${'bb'.repeat(20)}`, implementation: `0x${'cc'.repeat(20)}` };
export const PREPARE = '/v1/payments/mandates/prepare';
export const CHARGE = '/v1/payments/prepare';
export const SUBMIT = '/v1/payments';
const ELSEWHERE = TOKEN.replace('31337', '31338');
const RECIPIENT = `0x${'11'.repeat(20)}`;
export const DAY = 86_400;
const destination = { asset: ELSEWHERE, account: RECIPIENT };

/** Two payments of 25.5 in each of three days. */
export const mandateOrder = (more = {}) => ({
  source: { asset: TOKEN },
  destination,
  merchant: merchant.address,
  amount: 51_000_000n,
  least: 50_000_000n,
  periodSeconds: DAY,
  periods: 3,
  ...more,
});
export const payment = (more = {}) => ({ source: { asset: TOKEN, account: PAYER }, destination, amount: 25_000_000n, maxSource: 25_500_000n, ...more });
export const refused = (error, field) => error instanceof VerificationError && error.field === field;
export const misused = (error, said) => error instanceof UsageError && said.test(error.message);

/** A gateway; `answers` by path take the place of its own. `bodies` has what came to a path. */
export async function gatewayOf(t, answers = {}) {
  const server = await serve(t, (call, response, count) => {
    const path = call.url.split('?')[0];
    const body = call.text && JSON.parse(call.text);
    const own = {
      '/v1/defaults': () => ({ body: DEFAULTS.source }),
      '/v1/payments/resolve': () => ({ status: 404, body: { code: 'PAYMENT_NOT_FOUND', message: 'there is none' } }),
      [PREPARE]: () => ({ body: preparedFor(body) }),
      [CHARGE]: () => ({ body: chargeFor(body) }),
      [SUBMIT]: () => ({ body: { payment_id: idOf(body), status: 'pending', idempotent_replay: false } }),
    };
    const status = /^\/v1\/payments\/(pay_\w+)\/status$/.exec(path);
    if (status) return { body: { payment_id: status[1], status: 'completed', updated_at: '' } };
    const answer = answers[path] ?? own[path] ?? assert.fail;
    return answer(body, response, call, count);
  });
  const texts = (path) => server.calls.filter(({ url }) => url.split('?')[0] === path).map(({ text }) => text);
  return { gateway: new Gateway(server.url, { ...QUICK, pauseMsMax: 2 }), calls: server.calls, texts, bodies: (path) => texts(path).map((text) => JSON.parse(text)) };
}

/** The payload of a mandate, signed before an honest gateway. */
export async function payloadOf(t, more = {}) {
  const { gateway } = await gatewayOf(t);
  return (await gateway.signMandate(mandateOrder(more), (await payerOf()).wallet)).payload;
}

/** Other mandates than the payer's, by what is asked for or by where it leads. */
const alike = (edit) => (request) => {
  const other = structuredClone(request);
  edit(other);
  return [other, {}];
};
export const OTHERS = {
  'another recipient': alike(({ destination: [to] }) => (to.account = OTHER)),
  'another asset': alike(({ destination: [to] }) => (to.asset_identifier = TOKEN)),
  'one more recipient': alike(({ destination: to }) => to.push({ ...to[0], account: OTHER })),
  'another amount': alike(({ mandate }) => (mandate.amount = '51000001')),
  'less delivered': alike(({ mandate }) => (mandate.least = '1')),
  'more periods': alike(({ mandate }) => (mandate.periods = 4)),
  'shorter periods': alike(({ mandate }) => (mandate.period_seconds = DAY / 2)),
  'another merchant': alike(({ mandate }) => (mandate.merchant = OTHER)),
  'an earlier beginning': alike(({ mandate }) => (mandate.begins -= 1)),
  'a longer lock': alike(({ mandate }) => (mandate.lock_seconds += 1)),
  'another salt': alike(({ mandate }) => (mandate.salt = `0x${'0'.repeat(64)}`)),
  'another escrow': (request) => [request, { escrow: OTHER }],
  'another verifier': (request) => [request, { releaser: OTHER }],
  'a contract of a stranger': (request) => [request, STRANGER],
  'code of a stranger': (request) => [request, { implementation: STRANGER.implementation }],
};
