import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { keccak256, stringToBytes } from 'viem';
import {
  familyOf,
  onChainId,
  orderOf,
  orderRequest,
  paymentId,
  quoteRequestId,
  splitAsset,
  termsHash,
  termsOf,
  UsageError,
} from 'gateway-client';
import { repository } from './support.mjs';

const USDC = 'eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48';
const ACCOUNT = '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed';
const examples = repository('protocol/openapi.json').paths['/v1/payments'].post.requestBody.content['application/json'].examples;

test('ids are those that the gateway derives', () => {
  // The value that events/src/ids.rs is tested with.
  assert.equal(paymentId('did:example:payer', 'order-1'), 'pay_5u3uedbzhw2omp4cgvym2jxmn6sy4wwjrcqibir5cbnvh4dma6vq');
  // The example of the OpenAPI document.
  const { source, request_id } = examples.plain.value;
  assert.equal(paymentId(`eip155:${source.account}`, request_id), 'pay_eqofi7mcn3hcfxxfdoeie74x6d7gpgeigxwi3judztp3kdcm3jja');
  // Parts are told apart by their lengths, and batches have a key space of their own.
  assert.notEqual(paymentId('ab', 'c'), paymentId('a', 'bc'));
  assert.notEqual(quoteRequestId('a', 'b').slice(4), paymentId('a', 'b').slice(4));
  assert.notEqual(quoteRequestId('a', 'b'), quoteRequestId('a', 'b', 'correct-horse-battery'));
});

test('a payment is known on chain by keccak-256 of its id', () => {
  const id = paymentId('a', 'b');
  assert.equal(onChainId(id), keccak256(stringToBytes(id)));
});

test('terms are hashed in the documented form', () => {
  const terms = termsOf({
    source: { asset_identifier: USDC, account: ACCOUNT },
    destination: ['eip155:137/slip44:966', 'eip155:10/slip44:60', 'eip155:137/slip44:966'].map((asset) => ({
      asset_identifier: asset,
      account: ACCOUNT,
    })),
    fulfillment_amount: '025',
    max_source_amount: '30',
  });
  // The text that events/src/terms.rs is tested with.
  const canonical =
    '{"destination":[{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:10/slip44:60"},' +
    '{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed","asset_identifier":"eip155:137/slip44:966"}],' +
    '"fulfillment_amount":"25","max_source_amount":"30","source":{"account":"0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",' +
    '"asset_identifier":"eip155:1/erc20:0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}}';
  assert.equal(termsHash(terms), `0x${createHash('sha256').update(canonical).digest('hex')}`);
  const { max_source_amount: _, ...uncapped } = terms;
  assert.notEqual(termsHash(uncapped), termsHash(terms));
});

test('the chain of Tron is one, however it is written', () => {
  const owned = (reference) => ({
    asset_identifier: `tron:${reference}/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t`,
    account: 'TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48top',
  });
  const hash = (reference) =>
    termsHash(termsOf({ source: owned(reference), destination: [owned(reference)], fulfillment_amount: '25' }));
  assert.equal(hash('728126428'), hash('0x2b6653dc'));
  assert.equal(hash('728126428'), hash('0x2B6653DC'));
  assert.notEqual(hash('728126428'), hash('3448148188'));
});

test('an order becomes a request in its normal form', () => {
  const order = {
    requestId: 'order-7',
    source: { asset: USDC },
    destination: {
      asset: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501',
      account: '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d',
    },
    amount: 25n,
    maxSource: 30n,
    extra: { settler_requirements: { blacklist: ['did:key:z6Mk'] } },
  };
  const request = orderRequest(order, ACCOUNT, Date.parse('2030-01-01T00:00:00.900Z'));
  assert.deepEqual(request, {
    version: '1.0',
    request_id: 'order-7',
    source: { asset_identifier: USDC.toLowerCase(), account: ACCOUNT.toLowerCase() },
    destination: [{ asset_identifier: order.destination.asset, account: order.destination.account }],
    fulfillment_amount: '25',
    max_source_amount: '30',
    quote_deadline: '2030-01-01T00:00:10Z',
    fulfillment_deadline: '2030-01-01T00:03:00Z',
    settler_requirements: { blacklist: ['did:key:z6Mk'] },
  });
  assert.match(orderRequest({ ...order, requestId: undefined }, ACCOUNT).request_id, /^order-[0-9a-f-]{36}$/);
});

test('an order is read out of a body, and becomes the same body again', () => {
  for (const { value } of Object.values(examples)) {
    const { sender_auth: _, destination, ...body } = value;
    const { destination: own, ...again } = orderRequest(orderOf({ ...body, destination }));
    assert.deepEqual(again, body);
    assert.deepEqual(new Set(own.map((one) => JSON.stringify(one))), new Set(destination.map((one) => JSON.stringify(one))));
    assert.throws(() => orderOf({ ...value, max_source_amount: undefined }), /max_source_amount/);
    assert.throws(() => orderOf({ ...value, destination: undefined }), UsageError);
  }
});

test('what cannot be meant is refused before anything is asked', () => {
  const order = (change) => () =>
    orderRequest(
      { source: { asset: USDC }, destination: { asset: USDC, account: ACCOUNT }, amount: 1n, maxSource: 1n, ...change },
      ACCOUNT,
    );
  for (const [change, rule] of [
    [{ amount: 0n }, /amount/],
    [{ maxSource: -1n }, /maxSource/],
    [{ amount: 1.5 }, /amount/],
    [{ destination: [] }, /destination/],
    [{ destination: { asset: USDC, account: ACCOUNT.replace('5aA', '5aa') } }, /checksum/],
    [{ destination: { asset: 'eip155:1/erc20:0x12', account: ACCOUNT } }, /not an EVM address/],
    [{ destination: { asset: 'bip122:000000000019d6689c085ae165831e93/slip44:0', account: 'x' } }, /not on a chain of a family/],
    [{ destination: { asset: 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/slip44:501', account: ACCOUNT } }, /not a key of Solana/],
    [
      { destination: { asset: 'tron:728126428/slip44:195', account: 'TJEh7TX8sNj5uq4hXKyYdTrnGmeeG48toq' } },
      /not an address of Tron/,
    ],
    [{ requestId: 'a b' }, /request id/],
  ]) {
    assert.throws(
      order(change),
      (error) => error instanceof UsageError && rule.test(error.message),
      JSON.stringify(change, (_, value) => (typeof value === 'bigint' ? `${value}n` : value)),
    );
  }
});

test('assets are taken apart', () => {
  assert.deepEqual(splitAsset('tron:728126428/trc20:TR7'), {
    family: 'tron',
    chainId: 'tron:728126428',
    reference: '728126428',
    namespace: 'trc20',
    token: 'TR7',
  });
  assert.equal(familyOf('eip155:1'), 'evm');
});
