// A payer on Tron who signs for Permit2 (TIP-712): wallets and what they can sign, the allowance that Permit2 needs once, and the
// scheme that a gateway is asked for.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TronWeb, utils } from 'tronweb';
import { maxUint256, recoverAddress } from 'viem';
import { Gateway, GatewayError, paymentId, UsageError, VerificationError, WalletError } from 'gateway-client';
import { tronKey, tronWallet } from 'gateway-client/tron';
import { PERMIT2, SCHEME } from './permits.mjs';
import { QUICK, serve } from './support.mjs';
import { asked, fixtureOn, HASH, KEY, NILE, OTHER, PAYER, spendFor, toHex } from './tron.mjs';

/** A tronWeb with a key, of which these functions sign typed data. */
function tronWebOf(...names) {
  const web = new TronWeb({ fullHost: 'http://127.0.0.1:1', privateKey: KEY });
  const trx = { sign: (transaction) => web.trx.sign(transaction) };
  for (const name of names) trx[name] = (...data) => web.trx[name](...data);
  return { defaultAddress: web.defaultAddress, trx, fullNode: { request: assert.fail } };
}

test('a key and a tronWeb sign what was rebuilt, so that it recovers to the payer', async () => {
  const fixture = fixtureOn();
  const [{ message, payload }] = asked(fixture).signed_messages;
  const web = new TronWeb({ fullHost: 'http://127.0.0.1:1', privateKey: KEY });
  const signatures = [];
  for (const wallet of [
    tronWallet({ signer: tronKey(KEY), node: assert.fail }),
    tronWallet({ signer: web }),
    tronWallet({ signer: tronWebOf('signTypedData') }),
    tronWallet({ signer: tronWebOf('_signTypedData') }),
  ]) {
    assert.equal(wallet.messageScheme, undefined);
    const [signed, ...others] = await wallet.sign(spendFor(fixture), asked(fixture));
    assert.deepEqual([signed.message, signed.payload, others], [message, payload, []]);
    assert.match(signed.signature, /^0x[0-9a-f]{128}(?:1b|1c)$/);
    assert.equal((await recoverAddress({ hash: message, signature: signed.signature })).toLowerCase(), toHex(PAYER));
    const { domain, types: { EIP712Domain: _, ...types }, message: values } = JSON.parse(signed.message_prehash);
    assert.equal(await web.trx.verifyTypedData(domain, types, values, signed.signature, PAYER), true);
    signatures.push(signed.signature);
  }
  assert.equal(new Set(signatures).size, 1);
});

test('a wallet that signs no typed data is bound to transactions, and one that signs something else is found out', async () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const bare = tronWallet({ signer: tronWebOf() });
  assert.equal(bare.messageScheme, 'TRON');
  await assert.rejects(bare.sign(spend, asked(fixture)), WalletError);
  for (const sign of [
    (data, digest) => tronKey('8'.repeat(64)).signTypedData(data, digest),
    (data) => tronKey(KEY).signTypedData(data, HASH),
    () => '0x',
    () => ({}),
    () => undefined,
  ]) {
    const signer = { address: PAYER, sign: assert.fail, signTypedData: async (...of) => sign(...of) };
    await assert.rejects(tronWallet({ signer, node: assert.fail }).sign(spend, asked(fixture)), /not T/);
  }
  // Some write the parity alone, and no 0x.
  const parity = async (data, digest) => (await tronKey(KEY).signTypedData(data, digest)).replace(/1b$/, '00').replace(/1c$/, '01');
  const older = tronWallet({ signer: { address: PAYER, sign: assert.fail, signTypedData: parity }, node: assert.fail });
  const [{ signature }] = await older.sign(spend, asked(fixture));
  assert.match(signature, /^0x[0-9a-f]{128}(?:1b|1c)$/);
  // Nothing is shown to a wallet that is another's, or that is not the payer's own.
  const asks = { address: PAYER, sign: assert.fail, signTypedData: assert.fail };
  await assert.rejects(
    tronWallet({ signer: asks, node: assert.fail }).sign(spend, asked(fixture, ({ message }) => (message.spender = OTHER))),
    VerificationError,
  );
  await assert.rejects(
    tronWallet({ signer: { ...asks, address: OTHER }, node: assert.fail }).sign(spend, asked(fixture)),
    (error) => error.field === 'payer',
  );
});

/** What wallets throw whose person said no. */
const DECLINED = [new Error('Confirmation declined by user'), { code: 4001, message: 'no' }, 'Confirmation declined by user'];
/** What they throw that cannot sign typed data. */
const UNABLE = [new Error('Ledger: invalid data'), { code: 4200, message: 'the method was rejected' }, 'unsupported', undefined];

test('of two functions that sign typed data the one that works is taken, and a person is asked once', async () => {
  const fixture = fixtureOn();
  const calls = [];
  const web = (first) => {
    const made = tronWebOf('_signTypedData');
    const { _signTypedData: own } = made.trx;
    made.trx.signTypedData = () => (calls.push('signTypedData'), first());
    made.trx._signTypedData = (...data) => (calls.push('_signTypedData'), own(...data));
    return tronWallet({ signer: made });
  };
  // A library's own, without a key.
  const without = () => {
    throw new TypeError("Cannot read properties of false (reading 'replace')");
  };
  assert.equal((await web(without).sign(spendFor(fixture), asked(fixture))).length, 1);
  assert.deepEqual(calls.splice(0), ['signTypedData', '_signTypedData']);
  for (const no of DECLINED) {
    await assert.rejects(
      web(() => Promise.reject(no)).sign(spendFor(fixture), asked(fixture)),
      (error) => error instanceof WalletError && error.reason === 'rejected',
    );
    assert.deepEqual(calls.splice(0), ['signTypedData']);
  }
});

const word = (value) => BigInt(value).toString(16).padStart(64, '0');
const selector = (signature) => TronWeb.sha3(signature).slice(2, 10);

/** A node; `state` has balance and allowance, and what was sent. */
function node(state, more = {}) {
  const paths = {
    '/wallet/getnowblock': () => ({
      blockID: word(0x123456n << 64n),
      block_header: { raw_data: { number: 0x123456, timestamp: 1_800_000_000_000 } },
    }),
    '/wallet/triggerconstantcontract': ({ data, contract_address: contract }) => {
      assert.equal(contract, toHex(state.token).replace('0x', '41'));
      const owner = word(toHex(PAYER));
      if (data === selector('balanceOf(address)') + owner) return { constant_result: [word(state.balance)] };
      assert.equal(data, selector('allowance(address,address)') + owner + word(toHex(state.spender)));
      return { constant_result: [word(state.allowance)] };
    },
    '/wallet/broadcasttransaction': (transaction) => {
      assert.equal(utils.transaction.txCheck(transaction), true);
      state.sent.push(transaction);
      return { result: true };
    },
    '/wallet/gettransactioninfobyid': ({ value }) => ({ id: value, receipt: { result: 'SUCCESS' } }),
    ...more,
  };
  return async (path, body) => (paths[path] ?? assert.fail(path))(body);
}
const callOf = ({ raw_data: { contract: [{ parameter: { value } }] } }) => value;
const noted = (steps) => async (step) => void steps.push(`${step.step} ${step.what}`);

test('an allowance is given where one is missing, to Permit2 alone, of so much, and at a bounded fee', async () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const [, token] = fixture.request.source.asset_identifier.split('/trc20:');
  const { cap } = spend;
  for (const [stands, allowance, given] of [
    [0n, cap, [cap]],
    [0n, maxUint256, [maxUint256]],
    [cap - 1n, cap, [0n, cap]],
    [cap, maxUint256, []],
  ]) {
    const state = { balance: cap, allowance: stands, token, spender: PERMIT2, sent: [] };
    const steps = [];
    const wallet = tronWallet({ signer: tronKey(KEY), node: node(state) });
    const sent = await wallet.fund(spend, { wrap: false, allowance, onStep: noted(steps) });
    const wanted = given.map((amount) => ({
      data: selector('approve(address,uint256)') + word(toHex(PERMIT2)) + word(amount),
      owner_address: toHex(PAYER).replace('0x', '41'),
      contract_address: toHex(token).replace('0x', '41'),
    }));
    assert.deepEqual(state.sent.map(callOf), wanted);
    assert.deepEqual(sent, state.sent.map(({ txID }) => ({ what: 'approve', transaction: txID })));
    assert.ok(state.sent.every(({ raw_data: raw }) => raw.fee_limit === 50_000_000));
    assert.deepEqual(steps, given.flatMap(() => ['sending approve', 'sent approve']));
  }
  const state = { balance: cap, allowance: 0n, token, spender: PERMIT2, sent: [] };
  const wallet = tronWallet({ signer: tronKey(KEY), node: node(state) });
  const funding = { wrap: false, allowance: cap, onStep: async () => {} };
  await wallet.fund({ ...spend, feeMax: 1000n }, funding);
  assert.equal(state.sent.pop().raw_data.fee_limit, 1000);
  // Who has too little is told so by the gateway; who is not asked for an allowance gives none, and nobody gives one to nobody knows whom.
  state.balance = cap - 1n;
  assert.deepEqual(await wallet.fund(spend, funding), []);
  state.balance = cap;
  assert.deepEqual(await wallet.fund(spend, { ...funding, allowance: 0n }), []);
  const { permit2: _, ...unknown } = spend;
  await assert.rejects(wallet.fund(unknown, funding), (error) => error instanceof VerificationError && error.field === 'permit2');
  const failing = node(state, { '/wallet/gettransactioninfobyid': ({ value }) => ({ id: value, receipt: { result: 'OUT_OF_ENERGY' } }) });
  await assert.rejects(tronWallet({ signer: tronKey(KEY), node: failing }).fund(spend, funding), /OUT_OF_ENERGY/);
  assert.equal(state.sent.length, 1);
});

test('coins are wrapped before the allowance is given', async () => {
  const fixture = fixtureOn();
  const spend = spendFor(fixture);
  const [, token] = fixture.request.source.asset_identifier.split('/trc20:');
  const state = { balance: 1n, allowance: 0n, token, spender: PERMIT2, sent: [] };
  const wallet = tronWallet({ signer: tronKey(KEY), node: node(state) });
  const sent = await wallet.fund(spend, { wrap: true, allowance: spend.cap, onStep: async () => {} });
  assert.deepEqual(sent.map(({ what }) => what), ['wrap', 'approve']);
  assert.deepEqual(state.sent.map((one) => callOf(one).call_value), [Number(spend.cap - 1n), undefined]);
  assert.deepEqual(state.sent.map(({ raw_data: raw }) => raw.fee_limit), [30_000_000, 50_000_000]);
});

/**
 * A gateway on the main network, or of `fixture`, that prepares for `preferred` where nobody names a scheme, or else for, or with, what
 * `lie` says.
 */
async function gatewayOf(t, preferred, lie, fixture = fixtureOn()) {
  const idOf = ({ request_id: requestId }) => paymentId(`tron:${PAYER}`, requestId);
  const server = await serve(t, ({ method, url, text }) => {
    const line = `${method} ${url.split('?')[0]}`;
    const body = text ? JSON.parse(text) : undefined;
    switch (line) {
      case 'GET /v1/defaults':
        return { body: fixture.defaults.source };
      case 'POST /v1/payments/prepare': {
        if (lie?.status) return lie;
        const scheme = lie ?? body.message_scheme ?? preferred;
        if (scheme === SCHEME) return { body: asked({ ...fixture, request: body }) };
        const message = { message: '0x00', message_prehash: '0x' };
        return { body: { payment_id: idOf(body), message_scheme: scheme, signed_messages: [message, message] } };
      }
      case 'POST /v1/payments':
        return { body: { payment_id: idOf(body), status: 'completed', idempotent_replay: false } };
      default:
        return assert.fail(line);
    }
  });
  const posted = (path) => server.calls.filter(({ method, url }) => method === 'POST' && url === path);
  const bodies = (path) => posted(path).map(({ text }) => JSON.parse(text));
  const { request } = fixture;
  const [destination] = request.destination;
  const order = {
    source: { asset: request.source.asset_identifier },
    destination: { asset: destination.asset_identifier, account: destination.account },
    amount: 25_000_000n,
    maxSource: 25_500_000n,
  };
  const gateway = new Gateway(server.url, QUICK);
  return { gateway, order, prepares: () => bodies('/v1/payments/prepare'), submissions: () => bodies('/v1/payments') };
}

/** A wallet with a key, whose own transactions are told and not sent. */
function walletOf(signer = tronKey(KEY)) {
  const wallet = tronWallet({ signer, node: assert.fail });
  const allowed = [];
  wallet.connect = async () => {};
  wallet.fund = async (_, { allowance }) => (allowed.push(allowance), []);
  return { wallet, allowed };
}

test('where the gateway finds an allowance, a payment on Tron is one signature', async (t) => {
  const { gateway, order, prepares, submissions } = await gatewayOf(t, SCHEME);
  const { wallet, allowed } = walletOf();
  const { status, sent } = await gateway.pay(order, wallet);
  assert.deepEqual([status.status, sent, allowed], ['completed', [], [0n]]);
  assert.deepEqual(prepares().map(({ message_scheme: scheme }) => scheme), [undefined]);
  const [{ sender_auth: auth, message_scheme: named }] = submissions();
  assert.deepEqual([auth.message_scheme, auth.signed_messages.length, named], [SCHEME, 1, undefined]);
  const [{ message, signature, payload }] = auth.signed_messages;
  assert.equal((await recoverAddress({ hash: message, signature })).toLowerCase(), toHex(PAYER));
  assert.deepEqual(Object.keys(payload), ['reserve_deadline', 'refund_after', 'permit_deadline']);
});

test('by the name of the scheme the allowance is given first, and what was asked for is what is signed', async (t) => {
  const { gateway, order, prepares, submissions } = await gatewayOf(t, 'TRON');
  const { wallet, allowed } = walletOf();
  await gateway.pay(order, wallet, { messageScheme: SCHEME });
  await gateway.pay(order, wallet, { messageScheme: SCHEME, allowance: maxUint256 });
  assert.deepEqual(allowed, [25_500_000n, maxUint256]);
  assert.deepEqual(prepares().map(({ message_scheme: scheme }) => scheme), [SCHEME, SCHEME]);
  for (const { sender_auth: auth, ...body } of submissions()) {
    assert.equal(auth.message_scheme, SCHEME);
    assert.ok(!('message_scheme' in body));
  }
  const lying = await gatewayOf(t, 'TRON', 'TRON');
  await assert.rejects(
    lying.gateway.pay(lying.order, walletOf().wallet, { messageScheme: SCHEME }),
    (error) => error instanceof VerificationError && error.field === 'message_scheme',
  );
  // What the gateway refuses to prepare costs no transaction.
  const poor = await gatewayOf(t, 'TRON', { status: 400, body: { code: 'INSUFFICIENT_FUNDS', message: 'too little' } });
  const payer = walletOf();
  await assert.rejects(poor.gateway.pay(poor.order, payer.wallet, { messageScheme: SCHEME }), GatewayError);
  assert.deepEqual(payer.allowed, []);
});

test('the gateway is asked for transactions where the wallet signs no typed data', async (t) => {
  const { gateway, order, prepares, submissions } = await gatewayOf(t, SCHEME);
  const { signTypedData: _, ...signer } = tronKey(KEY);
  const { wallet, allowed } = walletOf(signer);
  // Those of this gateway are none.
  await assert.rejects(gateway.pay(order, wallet), (error) => error.field === 'message_prehash');
  assert.deepEqual([prepares().map(({ message_scheme: scheme }) => scheme), allowed], [['TRON'], [0n]]);
  await assert.rejects(gateway.pay(order, wallet, { messageScheme: SCHEME }), UsageError);
  assert.deepEqual(submissions(), []);
});

test('a gateway whose Permit2 the payer does not know is asked for transactions, unless the caller named the signature', async (t) => {
  const { permit2: _, ...none } = fixtureOn().defaults.source;
  const silent = { ...fixtureOn(), defaults: { ...fixtureOn().defaults, source: none } };
  const hexadecimal = { permit2: toHex(PERMIT2) };
  for (const [fixture, trust, isKnown, said] of [
    [fixtureOn(), {}, true],
    [fixtureOn(), hexadecimal, true],
    [fixtureOn(undefined, OTHER), {}, false, /another Permit2/],
    [fixtureOn(undefined, OTHER), { permit2: OTHER }, true],
    [fixtureOn(undefined, 'nothing'), {}, false, /another Permit2/],
    [fixtureOn(), { permit2: OTHER }, false, /another Permit2/],
    [silent, {}, false, /no Permit2/],
    [silent, { permit2: OTHER }, false, /no Permit2/],
    [fixtureOn(NILE, OTHER), {}, false, /trust\.permit2/],
    [fixtureOn(NILE, OTHER), hexadecimal, false, /trust\.permit2/],
    [fixtureOn(NILE, OTHER), { permit2: OTHER }, true],
  ]) {
    const { gateway, order, prepares, submissions } = await gatewayOf(t, SCHEME, undefined, fixture);
    const { wallet, allowed } = walletOf();
    const schemes = () => prepares().map(({ message_scheme: scheme }) => scheme);
    const paying = gateway.pay(order, wallet, { trust });
    if (isKnown) await paying;
    // Its transactions are none.
    else await assert.rejects(paying, (error) => error.field === 'message_prehash');
    assert.deepEqual([schemes(), allowed], [[isKnown ? undefined : 'TRON'], [0n]]);
    if (isKnown) continue;
    const named = gateway.pay(order, wallet, { trust, messageScheme: SCHEME });
    await assert.rejects(named, (error) => error instanceof VerificationError && error.field === 'permit2' && said.test(error.message));
    assert.deepEqual([schemes().length, allowed.length, submissions()], [1, 1, []]);
  }
});

test('how much is allowed is said with the name of the scheme that has an allowance of its own', async (t) => {
  const { gateway, order, prepares } = await gatewayOf(t, SCHEME);
  const { wallet, allowed } = walletOf();
  for (const options of [{}, { messageScheme: 'TRON' }]) {
    const paying = gateway.pay(order, wallet, { ...options, allowance: maxUint256 });
    await assert.rejects(paying, (error) => error instanceof UsageError && error.message.includes(`messageScheme: '${SCHEME}'`));
  }
  assert.deepEqual([prepares(), allowed], [[], []]);
});

test('a wallet that turns out to sign no typed data is asked for transactions, and one whose person declined is not', async (t) => {
  const payer = (fault) => {
    const signed = [];
    const wallet = walletOf({ address: PAYER, sign: assert.fail, signTypedData: () => Promise.reject(fault) }).wallet;
    const { verify, sign } = wallet;
    // Those of this gateway are none, so that they are not compared.
    wallet.verify = (spend, prepared) => (prepared.message_scheme === 'TRON' ? undefined : verify.call(wallet, spend, prepared));
    wallet.sign = async (spend, prepared) => {
      signed.push(prepared.message_scheme);
      return prepared.message_scheme === 'TRON' ? [] : sign.call(wallet, spend, prepared);
    };
    return { wallet, signed };
  };
  for (const fault of UNABLE) {
    const { gateway, order, prepares, submissions } = await gatewayOf(t, SCHEME);
    const { wallet, signed } = payer(fault);
    const steps = [];
    const onStep = ({ step, request, prepared }) =>
      void (step === 'signing' && steps.push([request.message_scheme, prepared.message_scheme]));
    await gateway.pay(order, wallet, { onStep });
    assert.deepEqual(signed, [SCHEME, 'TRON']);
    assert.deepEqual(steps, [[undefined, SCHEME], ['TRON', 'TRON']]);
    assert.deepEqual(prepares().map(({ message_scheme: scheme }) => scheme), [undefined, 'TRON']);
    assert.deepEqual(submissions().map(({ sender_auth: auth }) => auth.message_scheme), ['TRON']);
    // Who named the signature is told.
    const named = gateway.pay(order, payer(fault).wallet, { messageScheme: SCHEME });
    await assert.rejects(named, (error) => error instanceof WalletError && error.reason === 'failed');
    assert.equal(submissions().length, 1);
  }
  for (const fault of DECLINED) {
    const { gateway, order, prepares, submissions } = await gatewayOf(t, SCHEME);
    const { wallet, signed } = payer(fault);
    await assert.rejects(gateway.pay(order, wallet), (error) => error instanceof WalletError && error.reason === 'rejected');
    assert.deepEqual([signed, prepares().length, submissions()], [[SCHEME], 1, []]);
  }
  // Transactions that cannot be signed have nothing in their place.
  const { gateway, order, prepares } = await gatewayOf(t, 'TRON');
  const { wallet } = payer(UNABLE[0]);
  wallet.sign = () => Promise.reject(new WalletError('failed', 'no'));
  await assert.rejects(gateway.pay(order, wallet), WalletError);
  assert.equal(prepares().length, 1);
});
