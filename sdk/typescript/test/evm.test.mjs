// A payer on EVM chains, with nodes and wallets that say what a test wants.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  decodeFunctionData,
  encodeAbiParameters,
  encodeEventTopics,
  erc20Abi,
  keccak256,
  parseTransaction,
  recoverTypedDataAddress,
  stringToHex,
} from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { claim, refund, spendOf, UsageError, WalletError } from 'gateway-client';
import { claimable, evmWallet } from 'gateway-client/evm';
import { prepared as fixtures, repository } from './support.mjs';

const CHAIN = 'eip155:31337';
const account = privateKeyToAccount(`0x${'7'.repeat(64)}`);
const { abi: ESCROW_ABI } = repository('contracts/artifacts/GatewayEscrow.json');
const { permit2, escrow_contract_address: ESCROW } = fixtures().evm.defaults.source;
const [, TOKEN] = fixtures().evm.request.source.asset_identifier.split('/erc20:');
const word = (value) => `0x${BigInt(value).toString(16).padStart(64, '0')}`;

/** A node; `state` has balance, allowance and what was sent. */
function node(state, more = {}) {
  const methods = {
    eth_chainId: () => '0x7a69',
    eth_call: ([{ data }]) => {
      const { functionName } = decodeFunctionData({ abi: erc20Abi, data });
      return word(functionName === 'balanceOf' ? state.balance : state.allowance);
    },
    eth_estimateGas: () => '0xc350',
    eth_getBlockByNumber: () => ({ baseFeePerGas: '0x3b9aca00', timestamp: '0x1' }),
    eth_maxPriorityFeePerGas: () => '0x1',
    eth_getTransactionCount: () => '0x5',
    eth_sendRawTransaction: ([raw]) => {
      const transaction = parseTransaction(raw);
      take(state, transaction);
      return keccak256(raw);
    },
    eth_getTransactionReceipt: () => ({ status: '0x1' }),
    ...more,
  };
  return { request: async ({ method, params }) => (methods[method] ?? assert.fail(method))(params) };
}

function take(state, { data, value = 0n }) {
  state.sent.push({ data, value: BigInt(value) });
  if (data.startsWith('0xd0e30db0')) state.balance += BigInt(value);
  else [, state.allowance] = decodeFunctionData({ abi: erc20Abi, data }).args;
}

const spend = (more = {}) => {
  const { request, defaults, now } = fixtures().evm;
  const own = { ...request, source: { ...request.source, account: account.address.toLowerCase() } };
  return { ...spendOf(own, defaults, {}, now), ...more };
};
const funding = (more = {}) => ({ wrap: false, allowance: spend().cap, onStep: async () => {}, ...more });
const amounts = ({ sent }) =>
  sent.map(({ data, value }) => (data.startsWith('0xd0e30db0') ? value : decodeFunctionData({ abi: erc20Abi, data }).args[1]));

test('an allowance is given where one is missing, to Permit2 alone and of so much', async () => {
  const cap = spend().cap;
  for (const [allowance, given] of [
    [0n, [cap]],
    [cap - 1n, [0n, cap]],
    [cap, []],
  ]) {
    const state = { balance: cap, allowance, sent: [] };
    const wallet = await evmWallet({ account, rpc: node(state) });
    const sent = await wallet.fund(spend(), funding());
    assert.deepEqual(amounts(state), given);
    assert.equal(sent.length, given.length);
    for (const { data } of state.sent)
      assert.equal(decodeFunctionData({ abi: erc20Abi, data }).args[0].toLowerCase(), permit2.toLowerCase());
  }
});

test('coins are wrapped only where that was asked for, and what is missing of them', async () => {
  const cap = spend().cap;
  const state = { balance: 1n, allowance: 0n, sent: [] };
  const wallet = await evmWallet({ account, rpc: node(state) });
  assert.deepEqual(
    await wallet.fund(spend(), funding()),
    [],
    'neither coins nor an allowance, as the gateway is going to refuse it',
  );
  const sent = await wallet.fund(spend(), funding({ wrap: true }));
  assert.deepEqual(
    [amounts(state), sent.map(({ what }) => what)],
    [
      [cap - 1n, cap],
      ['wrap', 'approve'],
    ],
  );
});

test('what a node says cannot make a transaction dear, nor wrong', async () => {
  const state = { balance: spend().cap, allowance: 0n, sent: [] };
  for (const [lie, reason, said] of [
    [{ eth_estimateGas: () => '0x38d7ea4c68000' }, 'fee', /10000000000000000/],
    [{ eth_maxPriorityFeePerGas: () => '0x38d7ea4c68000' }, 'fee', /10000000000000000/],
    [{ eth_getBlockByNumber: () => ({ baseFeePerGas: '0x38d7ea4c68000' }) }, 'fee', /10000000000000000/],
    [{ eth_estimateGas: () => '-0x38d7ea4c68000' }, 'failed', /-0x38d7ea4c68000/],
    [{ eth_getBlockByNumber: () => null }, 'failed', /baseFeePerGas/],
    [{ eth_call: () => '0x' }, 'failed', /not a token/],
  ]) {
    const wallet = await evmWallet({ account, rpc: node(state, lie) });
    await assert.rejects(
      wallet.fund(spend(), funding()),
      (error) => error instanceof WalletError && error.reason === reason && said.test(error.message),
      JSON.stringify(said.source),
    );
  }
  assert.deepEqual(state.sent, []);
  const reverted = await evmWallet({ account, rpc: node(state, { eth_getTransactionReceipt: () => ({ status: '0x0' }) }) });
  await assert.rejects(reverted.fund(spend(), funding()), /reverted/);
});

test('a transaction that another took the place of is known by its effect', async () => {
  const state = { balance: spend().cap, allowance: 0n, sent: [] };
  const wallet = await evmWallet({ account, rpc: node(state, { eth_getTransactionReceipt: () => null }) });
  assert.equal((await wallet.fund(spend(), funding())).length, 1);
});

test("a browser's wallet is asked for what it has to do, and may say no", async () => {
  const state = { balance: spend().cap, allowance: 0n, sent: [] };
  const asked = [];
  let chain = '0x1';
  const provider = {
    async request(call) {
      asked.push(call.method);
      switch (call.method) {
        case 'eth_requestAccounts':
          return [account.address];
        case 'eth_chainId':
          return chain;
        case 'wallet_switchEthereumChain':
          [{ chainId: chain }] = call.params;
          return null;
        case 'eth_sendTransaction':
          assert.equal(call.params[0].chainId, '0x7a69');
          take(state, call.params[0]);
          return keccak256(stringToHex('sent'));
        case 'eth_signTypedData_v4':
          return account.signTypedData(JSON.parse(call.params[1]));
        default:
          return node(state).request(call);
      }
    },
  };
  const wallet = await evmWallet({ provider });
  await wallet.connect(CHAIN);
  assert.equal(chain, '0x7a69');
  await wallet.fund(spend(), funding());
  assert.deepEqual(amounts(state), [spend().cap]);

  // A wallet that was changed to another chain since then sends nothing there.
  Object.assign(state, { allowance: 0n, sent: [] });
  chain = '0x1';
  await assert.rejects(wallet.fund(spend(), funding()), (error) => error instanceof WalletError && error.reason === 'chain');
  assert.deepEqual(state.sent, []);

  const rejecting = (method) => ({
    request: async (call) => {
      if (call.method === method) throw Object.assign(new Error('User denied it'), { code: 4001 });
      return provider.request(call);
    },
  });
  await assert.rejects(evmWallet({ provider: rejecting('eth_requestAccounts') }), (error) => error.reason === 'rejected');
  chain = '0x1';
  const staying = await evmWallet({ provider: rejecting('wallet_switchEthereumChain') });
  await assert.rejects(staying.connect(CHAIN), (error) => error.reason === 'rejected');
  await assert.rejects(evmWallet({ provider, account: `0x${'a'.repeat(40)}` }), WalletError);
});

test('what is signed is what was rebuilt, by a wallet or by a key', async () => {
  const { prepared } = fixtures().evm;
  const payer = fixtures().evm.request.source.account;
  const { request, defaults, now } = fixtures().evm;
  const signed = [];
  const signer = { address: payer, signTypedData: async (typed) => (signed.push(typed), account.signTypedData(typed)) };
  const wallet = await evmWallet({ account: signer, rpc: node({}) });
  const [message] = await wallet.sign(spendOf(request, defaults, {}, now), prepared);
  assert.equal(
    await recoverTypedDataAddress({ ...JSON.parse(message.message_prehash), signature: message.signature }),
    account.address,
  );
  assert.deepEqual(JSON.parse(message.message_prehash), signed[0]);
  assert.equal(message.message, prepared.signed_messages[0].message);
});

/** A payment in an escrow, as a node shows it: the terms that `refund` takes, and the events that they are read from. */
function escrowed(paymentId, { state = 2, refundAfter = 1000, reserved = true, reassigned = false, ownNumbers = true } = {}) {
  const id = keccak256(stringToHex(paymentId));
  const hash = (text) => keccak256(stringToHex(text));
  const address = (digit) => `0x${digit.repeat(40)}`;
  const deposit = {
    paymentId: id,
    termsHash: hash('terms'),
    quoteHash: hash('agreed'),
    payer: address('1'),
    reserver: address('2'),
    releaser: address('3'),
    reserveDeadline: 10,
    fulfillmentDeadline: 20,
    refundAfter,
  };
  const reservation = reserved
    ? { quoteHash: hash('quote'), settler: address('4'), sourceAmount: 90n, fulfillBy: 15 }
    : { quoteHash: deposit.quoteHash, settler: address('0'), sourceAmount: 0n, fulfillBy: 0 };
  const terms = { deposit, token: TOKEN, deposited: 100n, ...reservation };
  const parameter = ESCROW_ABI.find(({ name, type }) => type === 'function' && name === 'refund').inputs;
  const encoded = encodeAbiParameters(parameter, [terms]);
  const record = [state, reassigned ? 2 : 1, 7, reserved ? 9 : 0, 0, BigInt(keccak256(encoded))].map((value) => word(value).slice(2)).join('');
  const event = (eventName, args) => {
    const { inputs } = ESCROW_ABI.find(({ name, type }) => type === 'event' && name === eventName);
    const data = inputs.filter(({ indexed }) => !indexed);
    return {
      topics: encodeEventTopics({ abi: ESCROW_ABI, eventName, args }),
      data: encodeAbiParameters(
        data,
        data.map(({ name }) => args[name]),
      ),
    };
  };
  const before = { quoteHash: hash('before'), settler: address('5'), sourceAmount: 100n, fulfillBy: 12, paymentId: id };
  const deposited = event('Deposited', {
    ...terms,
    paymentId: id,
    quoteHash: deposit.quoteHash,
    payer: deposit.payer,
    deposit,
    amount: 100n,
  });
  const first = [deposited, ...(reassigned ? [event('Reserved', before)] : [])];
  const last = [event('Reserved', { ...reservation, paymentId: id })];
  // Where the contract's block numbers are another chain's, nothing is in the blocks that it names.
  const logs = ownNumbers ? { '0x7': first, '0x9': last } : { '0x0': [...first, ...last] };
  const sent = [];
  const methods = {
    eth_chainId: () => '0x7a69',
    eth_requestAccounts: () => [account.address],
    eth_call: () => `0x${record}`,
    eth_getLogs: ([{ address: from, fromBlock, topics }]) => {
      assert.equal(from, ESCROW);
      const named = logs[fromBlock] ?? [];
      return named.filter((log) => log.topics[0] === topics[0] && log.topics[1] === topics[1]);
    },
    eth_getBlockByNumber: () => ({ timestamp: '0x3e8' }),
    eth_sendTransaction: ([transaction]) => {
      sent.push(transaction);
      return keccak256(stringToHex('sent'));
    },
    eth_getTransactionReceipt: () => ({ status: '0x1' }),
  };
  const provider = { request: async ({ method, params }) => (methods[method] ?? assert.fail(method))(params) };
  return { provider, methods, sent, terms };
}

test('an overdue payment is refunded with the terms that the chain has', async () => {
  const payment = { paymentId: 'pay_a', chainId: CHAIN, escrow: ESCROW };
  const reassigned = [{ reassigned: true }, { reassigned: true, ownNumbers: false }];
  for (const options of [{}, { reserved: false, state: 1 }, { ownNumbers: false }, ...reassigned]) {
    const { provider, sent, terms } = escrowed('pay_a', options);
    await refund(await evmWallet({ provider }), payment);
    const { functionName, args } = decodeFunctionData({ abi: ESCROW_ABI, data: sent[0].data });
    assert.equal(functionName, 'refund');
    const lower = (value) =>
      JSON.stringify(value, (_, one) => (typeof one === 'bigint' || typeof one === 'number' ? String(one) : one)).toLowerCase();
    assert.equal(
      lower(args[0]),
      lower({
        deposit: terms.deposit,
        token: terms.token,
        deposited: terms.deposited,
        quoteHash: terms.quoteHash,
        settler: terms.settler,
        sourceAmount: terms.sourceAmount,
        fulfillBy: terms.fulfillBy,
      }),
    );
    assert.equal(sent[0].to, ESCROW);
  }
});

test('nothing is sent for a payment that cannot be refunded, or by the word of a node that lies', async () => {
  const payment = { paymentId: 'pay_a', chainId: CHAIN, escrow: ESCROW };
  for (const [options, change, rule] of [
    [{ state: 4 }, () => {}, /it is refunded/],
    [{ state: 0 }, () => {}, /it is not there/],
    [{ refundAfter: 1001 }, () => {}, /can be refunded from 1970-01-01T00:16:41/],
    [{}, ({ methods }) => (methods.eth_getLogs = () => []), /does not show the event/],
    [
      {},
      ({ methods }) => {
        const honest = methods.eth_getLogs;
        methods.eth_getLogs = (params) =>
          honest(params).map(({ topics, data }) => ({ topics, data: data.replace(/^0x..../, '0xffff') }));
      },
      /other events/,
    ],
  ]) {
    const world = escrowed('pay_a', options);
    change(world);
    const wallet = await evmWallet({ provider: world.provider });
    await assert.rejects(
      refund(wallet, payment),
      (error) => error instanceof WalletError && rule.test(error.message),
      String(rule),
    );
    assert.deepEqual(world.sent, []);
  }
  const wallet = await evmWallet({ provider: escrowed('pay_a').provider });
  await assert.rejects(refund(wallet, { ...payment, chainId: 'eip155:1' }), WalletError);
  await assert.rejects(refund(wallet, { ...payment, chainId: 'tron:1' }), WalletError);
});

test('a claim is taken to its owner by anyone, and elsewhere by its owner alone', async () => {
  const { provider, sent, methods } = escrowed('pay_a');
  const wallet = await evmWallet({ provider });
  const [owner, to] = [`0x${'5'.repeat(40)}`, `0x${'6'.repeat(40)}`];
  const where = { chainId: CHAIN, escrow: ESCROW, token: TOKEN };
  await claim(wallet, where);
  await claim(wallet, { ...where, owner });
  await claim(wallet, { ...where, to });
  const calls = sent
    .map(({ data }) => decodeFunctionData({ abi: ESCROW_ABI, data }))
    .map(({ functionName, args }) => [functionName, ...args.map((one) => one.toLowerCase())]);
  assert.deepEqual(calls, [
    ['claimFor', account.address.toLowerCase(), TOKEN],
    ['claimFor', owner, TOKEN],
    ['claim', TOKEN, to],
  ]);
  await assert.rejects(claim(wallet, { ...where, owner, to }), UsageError);
  methods.eth_call = ([{ data }]) => {
    assert.equal(decodeFunctionData({ abi: ESCROW_ABI, data }).functionName, 'claimable');
    return word(7);
  };
  assert.equal(await claimable(provider, { ...where, owner }), 7n);
});
