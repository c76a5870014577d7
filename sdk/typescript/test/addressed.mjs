// What an honest gateway gives for a payment by deposit address, on each family of chains. viem, tronweb and @solana/web3.js compute the
// addresses, from the contracts' artefacts and the letter of the rules: the SDK has no part in it.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { PublicKey } from '@solana/web3.js';
import { TronWeb } from 'tronweb';
import { concat, encodeAbiParameters, getContractAddress, keccak256, stringToHex } from 'viem';
import { addressSpend, orderOf, paymentId, quoteRequestId, termsHash, termsOf, VerificationError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import * as solana from 'gateway-client/solana';
import * as tron from 'gateway-client/tron';
import { prepared as fixtures, repository } from './support.mjs';

export const artifact = (name) => repository(`contracts/artifacts/${name}.json`);
export const ZERO_HASH = `0x${'0'.repeat(64)}`;
/** `DepositAddresses.Terms`, as viem encodes it. */
export const TERMS = artifact('DepositAddresses').abi.find(({ name }) => name === 'addressOf').inputs;

export const toTron = (account) => TronWeb.address.fromHex(`41${account.slice(2)}`);
const fromTron = (account) => `0x${TronWeb.address.toHex(account).slice(2)}`;
/** Where CREATE2 of Tron puts what `from` makes. */
const tronCreate2 = (from, salt, code) => toTron(`0x${keccak256(concat(['0x41', fromTron(from), salt, keccak256(code)])).slice(-40)}`);

/**
 * The address of a proxy, by the letter of EIP-1014 and ERC-1167. `account` is one in the terms' words, `create` is CREATE2, `runs` what
 * proxies run.
 */
const proxies =
  ({ factory, account, create, runs }) =>
  ({ terms: { deposit, ...terms } }, from = factory, implementation = runs(from)) => {
    const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
    const word = (value) => (/^(?:T|0x.{40}$)/.test(value) ? account(value) : value);
    const words = (members) => Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), word(value)]));
    const salt = keccak256(encodeAbiParameters(TERMS, [{ ...words(terms), deposit: words(deposit) }]));
    const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', implementation, '0x5af43d82803e903d91602b57fd5bf3']);
    return create(from, salt, code);
  };

const EVM_RULES = {
  factory: evm.DEPOSIT_ADDRESSES,
  account: (text) => text,
  runs: () => evm.ADDRESS_IMPLEMENTATION,
  create: (from, salt, bytecode) => getContractAddress({ opcode: 'CREATE2', from, salt, bytecode }).toLowerCase(),
};
export const EVM = {
  ...evm,
  ...EVM_RULES,
  name: 'EVM',
  fixture: 'evm',
  namespace: 'eip155',
  abi: artifact('DepositAddresses').abi,
  text: (account) => account.toLowerCase(),
  computed: proxies(EVM_RULES),
  link: ({ terms, chain_id, amount }, address) =>
    `ethereum:${terms.token}@${chain_id.split(':')[1]}/transfer?address=${address}&uint256=${amount}`,
};

const TRON_RULES = {
  factory: toTron(`0x${'d'.repeat(40)}`),
  account: fromTron,
  runs: (factory) => fromTron(tronCreate2(factory, ZERO_HASH, artifact('DepositAddress').bytecode)),
  create: tronCreate2,
};
export const TRON = {
  ...tron,
  ...TRON_RULES,
  name: 'Tron',
  fixture: 'tron',
  namespace: 'tron',
  abi: artifact('TronDepositAddresses').abi,
  text: toTron,
  computed: proxies(TRON_RULES),
  link: (_, address) => `tron:${address}`,
};

const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest();
const keyBytes = (text) => new PublicKey(text).toBuffer();
const digits = (text) => Buffer.from(text.replace('0x', ''), 'hex');
function u64(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

/** The 257 bytes of a deposit, as contracts/solana/README.md lists them, of the terms that a gateway shows. */
export function depositOnSolana({ token, amount, deposit }) {
  const { payment_id, terms_hash, quote_hash, payer, reserver, releaser, reserve_deadline, fulfillment_deadline, refund_after } = deposit;
  const bytes = Buffer.concat([
    Buffer.of(0),
    ...[payment_id, terms_hash, quote_hash].map(digits),
    ...[payer, token].map(keyBytes),
    u64(amount),
    ...[reserver, releaser].map(keyBytes),
    ...[reserve_deadline, fulfillment_deadline, refund_after].map(u64),
  ]);
  assert.equal(bytes.length, 257);
  return bytes;
}

/** On Solana the escrow's program makes the addresses. */
export const SOLANA = {
  ...solana,
  name: 'Solana',
  fixture: 'solana',
  namespace: 'solana',
  factory: fixtures().solana.defaults.source.escrow_contract_address,
  computed({ terms }, program = terms.escrow) {
    const hash = sha256(Buffer.from('gw-address'), Buffer.of(1), depositOnSolana(terms));
    return PublicKey.findProgramAddressSync([Buffer.from('address'), hash], new PublicKey(program))[0].toBase58();
  },
  link: ({ terms }, address) => `solana:${address}?spl-token=${terms.token}`,
};

const OTHERS = new Map([
  [EVM, `0x${'aa'.padStart(40, '0')}`],
  [TRON, toTron(`0x${'aa'.padStart(40, '0')}`)],
  [SOLANA, new PublicKey(Buffer.alloc(32, 0xaa)).toBase58()],
]);
/** An account that has no part in a payment. */
export const other = (family) => OTHERS.get(family);

/** A test of each family, or of each of `families`. */
export const each = (name, run, families = [EVM, TRON, SOLANA]) =>
  families.forEach((family) => test(`${family.name}: ${name}`, (t) => run(family, t)));

/** Request, batch, defaults, and what a gateway answers; `edit` changes the answer, whose address and link follow unless it says not. */
export function fixture(family, edit = () => {}) {
  const { request, defaults, now } = fixtures()[family.fixture];
  const { source, destination, fulfillment_amount, max_source_amount, quote_deadline, fulfillment_deadline } = request;
  const id = quoteRequestId(`${family.namespace}:${source.account}`, request.request_id);
  const terms = { source, destination, fulfillment_amount, max_source_amount };
  const batch = { quote_request_id: id, status: 'collecting', ...terms, quote_deadline, fulfillment_deadline };
  const fulfilled = Date.parse(fulfillment_deadline) / 1000;
  const [chain_id, asset] = source.asset_identifier.split('/');
  const payment = paymentId(`${family.namespace}:${source.account}`, id);
  const given = {
    chain_id,
    asset_identifier: source.asset_identifier,
    amount: max_source_amount,
    pay_by: new Date((fulfilled - 120) * 1000).toISOString(),
    refund_account: source.account,
    factory: family.factory,
    terms: {
      escrow: defaults.source.escrow_contract_address,
      token: asset.split(':')[1],
      amount: max_source_amount,
      deposit: {
        payment_id: keccak256(stringToHex(payment)),
        terms_hash: termsHash(termsOf(request)),
        quote_hash: ZERO_HASH,
        payer: source.account,
        reserver: defaults.source.reserver,
        releaser: defaults.source.releaser,
        reserve_deadline: fulfilled - 60,
        fulfillment_deadline: fulfilled,
        refund_after: fulfilled + defaults.refundDelaySeconds,
      },
    },
  };
  edit(given, { request, batch, defaults });
  given.address ??= family.computed(given);
  given.uri ??= family.link(given, given.address);
  return { request, batch, defaults, now, payment, given };
}

export const spendFor = ({ request, batch, defaults, now }, options) => addressSpend(request, batch, defaults, options, now);
export const paymentOf = ({ payment, given }, status = 'pending') => ({ payment_id: payment, status, deposit_address: given });
/** What is made of the answer that `edit` changed. */
export const checked = (family, edit, options) => {
  const made = fixture(family, edit);
  return family.checkAddress(spendFor(made, options), paymentOf(made), { nowMs: made.now });
};
export const refused = (call, field) =>
  assert.throws(call, (error) => error instanceof VerificationError && error.field === field, `${field}`);

/** The order of the fixture, without its deadlines. */
export const order = (family, more = {}) => {
  const { quoteDeadline: _, fulfillmentDeadline: __, ...rest } = orderOf(fixtures()[family.fixture].request);
  return { ...rest, ...more };
};
