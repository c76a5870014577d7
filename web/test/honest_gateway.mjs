// What an honest gateway gives for a payment by deposit address, on EVM chains, on Solana and on Tron, from the contracts' artefacts and
// the letter of the rules: the SDK that is in the page has no part in it.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { base58, createBase58check } from '@scure/base';
import { concat, encodeAbiParameters, getContractAddress, keccak256, stringToHex } from 'viem';

import { termsHash } from '../../sdk/typescript/test/permits.mjs';

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
/** What a gateway gave once. */
export const recorded = read('../../sdk/typescript/test/fixtures/prepared.json');
const { evm, solana, tron } = recorded;
export const artifact = (name) => read(`../../contracts/artifacts/${name}.json`);
const { abi, bytecode } = artifact('DepositAddresses');
const TERMS = abi.find(({ name }) => name === 'addressOf').inputs;
/** The twenty bytes of an account, as hexadecimal. */
export const twenty = (digit) => `0x${digit.repeat(40)}`;
const ZERO_HASH = `0x${'0'.repeat(64)}`;

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const base58check = createBase58check(sha256);
export const toTron = (account) => base58check.encode(Buffer.from(`41${account.slice(2)}`, 'hex'));
const fromTron = (account) => `0x${Buffer.from(base58check.decode(account)).toString('hex').slice(2)}`;
const tronCreate2 = (from, salt, code) => toTron(`0x${keccak256(concat(['0x41', fromTron(from), salt, keccak256(code)])).slice(-40)}`);

/**
 * The address of a proxy, by the letter of EIP-1014 and ERC-1167: `account` is one in the terms' words, `create` is CREATE2, `runs` what
 * the proxies of a factory run.
 */
const proxies =
  ({ factory: own, account, runs, create }) =>
  ({ deposit, ...terms }, factory = own) => {
    const word = (value) => (/^(?:T|0x.{40}$)/.test(value) ? account(value) : value);
    const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
    const words = (members) => Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), word(value)]));
    const salt = keccak256(encodeAbiParameters(TERMS, [{ ...words(terms), deposit: words(deposit) }]));
    const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', runs(factory), '0x5af43d82803e903d91602b57fd5bf3']);
    return create(factory, salt, code);
  };

/** The chain of a fixture: what its gateway serves, who gets what comes back, and what makes its addresses. */
function chainOf({ request, defaults }, more) {
  const [chain, asset] = request.source.asset_identifier.split('/');
  return { request, served: defaults.source, chain, token: asset.split(':')[1], ...more };
}
/** Where the deterministic deployer puts the contract of the artefact, and what that makes first. */
const MAKER = getContractAddress({ opcode: 'CREATE2', from: '0x4e59b44847b379578588920ca78fbf26c0b4956c', salt: ZERO_HASH, bytecode });
export const EVM = chainOf(evm, {
  scheme: 'EVM_DEPOSIT_ADDRESS',
  originator: (account) => `eip155:${account}`,
  refund: twenty('2'),
  other: twenty('5'),
  factory: MAKER.toLowerCase(),
  computed: proxies({
    factory: MAKER,
    account: (text) => text,
    runs: () => getContractAddress({ from: MAKER, nonce: 1n }),
    create: (from, salt, code) => getContractAddress({ opcode: 'CREATE2', from, salt, bytecode: code }).toLowerCase(),
  }),
  link: (address, { token, chain, request }) =>
    `ethereum:${token}@${chain.split(':')[1]}/transfer?address=${address}&uint256=${request.max_source_amount}`,
});
/** On Tron each network has the contract elsewhere, and the page has it from the gateway. The fixture is moved to a network with a name. */
export const TRON = chainOf(JSON.parse(JSON.stringify(tron).replaceAll('tron:31339', 'tron:728126428')), {
  scheme: 'TRON_DEPOSIT_ADDRESS',
  originator: (account) => `tron:${account}`,
  refund: toTron(twenty('2')),
  other: toTron(twenty('5')),
  factory: toTron(twenty('d')),
  account: fromTron,
  computed: proxies({
    factory: toTron(twenty('d')),
    account: fromTron,
    runs: (factory) => fromTron(tronCreate2(factory, ZERO_HASH, artifact('DepositAddress').bytecode)),
    create: tronCreate2,
  }),
  link: (address) => `tron:${address}`,
});

/** Of Edwards25519 (RFC 8032): the prime of its field and d. */
const PRIME = 2n ** 255n - 19n;
const D = -121_665n * power(121_666n, PRIME - 2n);
function power(base, exponent) {
  let [result, square] = [1n, base % PRIME];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = (result * square) % PRIME;
    square = (square * square) % PRIME;
  }
  return result;
}
/** Whether 32 bytes are a point of the curve: whether y, the 255 lower bits, has an x with x² = (y² - 1) / (dy² + 1). */
function isOnCurve(bytes) {
  const y = BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`) & (2n ** 255n - 1n);
  const [over, under] = [y * y - 1n, D * y * y + 1n].map((value) => ((value % PRIME) + PRIME) % PRIME);
  return power(over * power(under, PRIME - 2n), (PRIME - 1n) / 2n) !== PRIME - 1n;
}
/** The first address off the curve that a program derives from a seed and 32 bytes. */
function derivedOnSolana(program, seed, hash) {
  for (let bump = 255; ; bump -= 1) {
    const parts = [Buffer.from(seed), hash, Buffer.of(bump), base58.decode(program), Buffer.from('ProgramDerivedAddress')];
    const address = sha256(Buffer.concat(parts));
    if (!isOnCurve(address)) return base58.encode(address);
  }
}
/** The address of terms on Solana, by the letter of contracts/solana/README.md. */
function onSolana({ escrow, token, amount, deposit }, program = escrow) {
  const { payment_id, terms_hash, quote_hash, payer, reserver, releaser, ...times } = deposit;
  const u64 = (value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigUInt64LE(BigInt(value));
    return bytes;
  };
  const committed = [
    Buffer.from('gw-address'),
    Buffer.of(1, 0),
    ...[payment_id, terms_hash, quote_hash].map((hash) => Buffer.from(hash.slice(2), 'hex')),
    ...[payer, token].map(base58.decode),
    u64(amount),
    ...[reserver, releaser].map(base58.decode),
    ...[times.reserve_deadline, times.fulfillment_deadline, times.refund_after].map(u64),
  ];
  return derivedOnSolana(program, 'address', sha256(Buffer.concat(committed)));
}
/** An account on Solana of one digit. */
export const onKey = (digit) => base58.encode(Buffer.from(digit.repeat(64), 'hex'));
const [CLUSTER] = solana.request.source.asset_identifier.split('/');
/** On Solana the escrow's program makes the addresses. The fixture is moved to a cluster with a name. */
export const SOLANA = chainOf(JSON.parse(JSON.stringify(solana).replaceAll(CLUSTER, 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp')), {
  scheme: 'SOLANA_DEPOSIT_ADDRESS',
  originator: (account) => `solana:${account}`,
  refund: onKey('2'),
  other: onKey('5'),
  factory: solana.defaults.source.escrow_contract_address,
  computed: onSolana,
  link: (address, { token }) => `solana:${address}?spl-token=${token}`,
});

/** The ids of payments and quote-requests, by the rule of docs/clients.md. */
export function derived(prefix, ...texts) {
  const length = (bytes) => Buffer.from(bytes.length.toString(16).padStart(16, '0'), 'hex');
  const parts = texts.map((text) => Buffer.from(text)).flatMap((part) => [length(part), part]);
  const bits = [...createHash('sha256').update(Buffer.concat(parts)).digest()].map((byte) => byte.toString(2).padStart(8, '0'));
  const fives = bits.join('').padEnd(260, '0').match(/.{5}/g);
  return prefix + fives.map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five, 2)]).join('');
}

/** The address of a payment. */
export const computed = (terms, from = EVM, ...more) => from.computed(terms, ...more);

/** The chain that an order is paid on. */
export const paidOn = ({ source: { asset_identifier: asset } }) => [SOLANA, TRON].find(({ chain }) => asset.startsWith(`${chain}/`)) ?? EVM;

/** What an honest gateway gives for a quote-request. */
export function addressFor(asked, payBy) {
  const from = paidOn(asked);
  const { served, token } = from;
  const originator = from.originator(asked.source.account);
  const id = derived('pay_', 'gw:payment:v1', originator, derived('qrq_', 'gw:quote-request:v1', originator, asked.request_id));
  const fulfilled = Date.parse(asked.fulfillment_deadline) / 1000;
  const deposit = {
    payment_id: keccak256(stringToHex(id)),
    terms_hash: termsHash(asked),
    quote_hash: ZERO_HASH,
    payer: asked.source.account,
    reserver: served.reserver,
    releaser: served.releaser,
    reserve_deadline: fulfilled - 60,
    fulfillment_deadline: fulfilled,
    refund_after: fulfilled + served.refund_delay_seconds,
  };
  const terms = { escrow: served.escrow_contract_address, token, amount: asked.max_source_amount, deposit };
  const address = computed(terms, from);
  const given = {
    address,
    chain_id: from.chain,
    asset_identifier: asked.source.asset_identifier,
    amount: asked.max_source_amount,
    pay_by: payBy ?? new Date((fulfilled - 120) * 1000).toISOString(),
    refund_account: asked.source.account,
    uri: from.link(address, from),
    factory: from.factory,
    terms,
  };
  return { id, given };
}
