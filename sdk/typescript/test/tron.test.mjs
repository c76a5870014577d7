// A payer on Tron, with nodes and wallets that say what a test wants.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { TronWeb, utils } from 'tronweb';
import { keccak256 } from 'viem';
import { refund, spendOf, WalletError } from 'gateway-client';
import { tronKey, tronWallet } from 'gateway-client/tron';
import { prepared as fixtures } from './support.mjs';

const KEY = '7'.repeat(64);
const WRAPPED = fixtures().tron.request.source.asset_identifier.split('/trc20:')[1];
const hexOf = (address) => TronWeb.address.toHex(address).slice(2);
const word = (value) => BigInt(value).toString(16).padStart(64, '0');

/** A node; `state` has the balance, and what was broadcast. */
function node(state, more = {}) {
  const paths = {
    '/wallet/getblockbynum': () => ({ blockID: word(31339) }),
    '/wallet/getnowblock': () => ({
      blockID: word(0x123456n << 64n),
      block_header: { raw_data: { number: 0x123456, timestamp: 1_800_000_000_000 } },
    }),
    '/wallet/triggerconstantcontract': () => ({ constant_result: [word(state.balance)] }),
    '/wallet/broadcasttransaction': (transaction) => {
      state.sent.push(transaction);
      return { result: true };
    },
    '/wallet/gettransactioninfobyid': ({ value }) => ({ id: value, receipt: { result: 'SUCCESS' } }),
    ...more,
  };
  return async (path, body) => (paths[path] ?? assert.fail(path))(body);
}

const spend = () => {
  const { request, defaults, now } = fixtures().tron;
  const own = { ...request, source: { ...request.source, account: tronKey(KEY).address } };
  return spendOf(own, defaults, {}, now);
};
const funding = (wrap) => ({ wrap, allowance: 0n, onStep: async () => {} });

test('a key has the address and gives the signatures that tronweb gives', async () => {
  const signer = tronKey(`0x${KEY}`);
  assert.equal(signer.address, TronWeb.address.fromPrivateKey(KEY));
  const state = { balance: 0n, sent: [] };
  await tronWallet({ signer, node: node(state) }).fund(spend(), funding(true));
  const [{ signature: own, ...transaction }] = state.sent;
  assert.equal(utils.transaction.txCheck(transaction), true);
  assert.equal(transaction.txID, createHash('sha256').update(Buffer.from(transaction.raw_data_hex, 'hex')).digest('hex'));
  const theirs = await new TronWeb({ fullHost: 'http://127.0.0.1:1' }).trx.sign(structuredClone(transaction), KEY);
  assert.deepEqual(
    own.map((one) => one.toLowerCase()),
    theirs.signature.map((one) => one.toLowerCase()),
  );
});

test('coins are wrapped only where that was asked for, what is missing, at a bounded fee', async () => {
  const cap = spend().cap;
  const state = { balance: 5n, sent: [] };
  const wallet = tronWallet({ signer: tronKey(KEY), node: node(state) });
  assert.deepEqual(await wallet.fund(spend(), funding(false)), []);
  const [sent] = await wallet.fund(spend(), funding(true));
  const [
    {
      raw_data: {
        contract: [
          {
            parameter: { value },
          },
        ],
        fee_limit: fee,
      },
      txID,
    },
  ] = state.sent;
  assert.deepEqual(
    [value.call_value, value.contract_address, value.data, fee, sent.transaction],
    [Number(cap - 5n), TronWeb.address.toHex(WRAPPED), 'd0e30db0', 30_000_000, txID],
  );
  state.balance = cap;
  assert.deepEqual(await wallet.fund(spend(), funding(true)), []);
});

test('a transaction that was refused, failed or dropped is an error', async () => {
  for (const [lie, rule] of [
    [
      { '/wallet/broadcasttransaction': () => ({ code: 'SIGERROR', message: Buffer.from('bad signature').toString('hex') }) },
      /SIGERROR bad signature/,
    ],
    [{ '/wallet/gettransactioninfobyid': ({ value }) => ({ id: value, receipt: { result: 'OUT_OF_ENERGY' } }) }, /OUT_OF_ENERGY/],
    [
      {
        '/wallet/gettransactioninfobyid': () => ({}),
        '/wallet/getnowblock': () => ({ blockID: word(0), block_header: { raw_data: { number: 1, timestamp: 1 } } }),
      },
      /dropped/,
    ],
    [{ '/wallet/triggerconstantcontract': () => ({}) }, /says nothing/],
    [{ '/wallet/getnowblock': () => ({}) }, /newest block/],
  ]) {
    const wallet = tronWallet({ signer: tronKey(KEY), node: node({ balance: 0n, sent: [] }, lie) });
    await assert.rejects(
      wallet.fund(spend(), funding(true)),
      (error) => error instanceof WalletError && rule.test(error.message),
      String(rule),
    );
  }
});

test('a wallet that signs with another key, or something else, is found out', async () => {
  const { address } = tronKey(KEY);
  for (const sign of [
    (transaction) => tronKey('8'.repeat(64)).sign(transaction),
    () => tronKey(KEY).sign({ txID: '9'.repeat(64) }),
    () => '0x',
    () => ({}),
    () => ({ signature: ['zz'] }),
  ]) {
    const state = { balance: 0n, sent: [] };
    const wallet = tronWallet({ signer: { address, sign: async (transaction) => sign(transaction) }, node: node(state) });
    await assert.rejects(wallet.fund(spend(), funding(true)), /not T/);
    assert.deepEqual(state.sent, []);
  }
});

test('a tronWeb is wallet and node in one, and tells that the person said no', async () => {
  const state = { balance: 0n, sent: [] };
  const own = node(state);
  const tronWeb = {
    defaultAddress: { base58: tronKey(KEY).address },
    trx: { sign: async (transaction) => ({ ...transaction, signature: [await tronKey(KEY).sign(transaction)] }) },
    fullNode: { request: (path, body, method) => (assert.equal(method, 'post'), own(`/${path}`, body)) },
  };
  const wallet = tronWallet({ signer: tronWeb });
  await wallet.connect('tron:31339');
  await assert.rejects(wallet.connect('tron:728126428'), (error) => error.reason === 'chain');
  assert.equal((await wallet.fund(spend(), funding(true))).length, 1);
  tronWeb.trx.sign = () => Promise.reject('Confirmation declined by user');
  await assert.rejects(wallet.fund(spend(), funding(true)), (error) => error.reason === 'rejected');
  assert.throws(() => tronWallet({ signer: { ...tronWeb, defaultAddress: { base58: false } } }), WalletError);
});

test('an overdue payment is refunded with the terms that the chain has', async () => {
  const paymentId = 'pay_a';
  const id = TronWeb.sha3(paymentId).slice(2);
  const [payer, escrow] = [hexOf(tronKey(KEY).address), hexOf(fixtures().tron.defaults.source.escrow_contract_address)];
  // The deposit's nine words, the token, what was deposited, and what stands for a reservation: the quote and zeros.
  const quote = word(77);
  const deposited = [
    id,
    word(1),
    quote,
    word(`0x${payer}`),
    word(2),
    word(3),
    word(10),
    word(20),
    word(1000),
    word(4),
    word(100),
  ].join('');
  const terms = deposited + quote + word(0) + word(0) + word(0);
  const record = [1, 0, 7, 0, 0].map(word).join('') + keccak256(`0x${terms}`).slice(2);
  const signature =
    'Deposited(bytes32,bytes32,address,(bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48),address,uint256)';
  const state = { balance: 0n, sent: [] };
  const chain = node(state, {
    '/wallet/triggerconstantcontract': ({ data }) => {
      assert.equal(data, TronWeb.sha3('recordOf(bytes32)').slice(2, 10) + id);
      return { constant_result: [record] };
    },
    '/wallet/gettransactioninfobyblocknum': ({ num }) => {
      assert.equal(num, 7);
      const log = { address: escrow, topics: [TronWeb.sha3(signature).slice(2), id, quote, word(`0x${payer}`)], data: deposited };
      return [{}, { log: [{ ...log, topics: [log.topics[0], word(1)] }, log] }];
    },
  });
  const wallet = tronWallet({ signer: tronKey(KEY), node: chain });
  const where = { paymentId, chainId: 'tron:31339', escrow: fixtures().tron.defaults.source.escrow_contract_address };
  await refund(wallet, where);
  const [
    {
      raw_data: {
        contract: [
          {
            parameter: { value },
          },
        ],
      },
    },
  ] = state.sent;
  const selector = TronWeb.sha3(
    'refund(((bytes32,bytes32,bytes32,address,address,address,uint48,uint48,uint48),address,uint256,bytes32,address,uint256,uint48))',
  ).slice(2, 10);
  assert.equal(value.data, selector + terms);
  assert.equal(value.contract_address, `41${escrow}`);
});
