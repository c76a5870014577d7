// What an honest gateway gives for a payment by deposit address, on EVM chains and on Tron, from the contracts' artefacts and the letter
// of the rules: the SDK that is in the page has no part in it.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { createBase58check } from '@scure/base';
import { concat, encodeAbiParameters, getContractAddress, keccak256, stringToHex } from 'viem';

import { termsHash } from '../../sdk/typescript/test/permits.mjs';

const read = (path) => JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'));
/** What a gateway gave once. */
export const recorded = read('../../sdk/typescript/test/fixtures/prepared.json');
const { evm, tron } = recorded;
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

/** The chain of a fixture: what its gateway serves, who gets what comes back, and where which contract makes addresses. */
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
  account: (text) => text,
  runs: () => getContractAddress({ from: MAKER, nonce: 1n }),
  create: (from, salt, code) => getContractAddress({ opcode: 'CREATE2', from, salt, bytecode: code }).toLowerCase(),
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
  runs: (factory) => fromTron(tronCreate2(factory, ZERO_HASH, artifact('DepositAddress').bytecode)),
  create: tronCreate2,
  link: (address) => `tron:${address}`,
});

/** The ids of payments and quote-requests, by the rule of docs/clients.md. */
export function derived(prefix, ...texts) {
  const length = (bytes) => Buffer.from(bytes.length.toString(16).padStart(16, '0'), 'hex');
  const parts = texts.map((text) => Buffer.from(text)).flatMap((part) => [length(part), part]);
  const bits = [...createHash('sha256').update(Buffer.concat(parts)).digest()].map((byte) => byte.toString(2).padStart(8, '0'));
  const fives = bits.join('').padEnd(260, '0').match(/.{5}/g);
  return prefix + fives.map((five) => 'abcdefghijklmnopqrstuvwxyz234567'[parseInt(five, 2)]).join('');
}

/** The address of a payment, by the letter of EIP-1014 and ERC-1167. */
export function computed({ deposit, ...terms }, from = EVM, factory = from.factory) {
  const word = (value) => (/^(?:T|0x.{40}$)/.test(value) ? from.account(value) : value);
  const camel = (name) => name.replace(/_(.)/g, (_, char) => char.toUpperCase());
  const words = (members) => Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), word(value)]));
  const salt = keccak256(encodeAbiParameters(TERMS, [{ ...words(terms), deposit: words(deposit) }]));
  const code = concat(['0x3d602d80600a3d3981f3363d3d373d3d3d363d73', from.runs(factory), '0x5af43d82803e903d91602b57fd5bf3']);
  return from.create(factory, salt, code);
}

/** The chain that an order is paid on. */
export const paidOn = ({ source }) => (source.asset_identifier.startsWith('tron:') ? TRON : EVM);

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
