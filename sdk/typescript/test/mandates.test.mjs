// Mandates: a payer signs once, its merchant for each payment. What a gateway prepares is signed where it is made of the signer's own order, and
// whatever is changed in it is noticed. viem computes the same on its own.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeFunctionData, encodeFunctionData, getAddress, getContractAddress, hexToString, parseTransaction, recoverTypedDataAddress, zeroAddress } from 'viem';
import { privateKeyToAccount } from 'viem/accounts';
import { cancelMandate, termsHash, termsOf, UsageError, VerificationError, WalletError } from 'gateway-client';
import * as evm from 'gateway-client/evm';
import { account, DEFAULTS, PAYER, payerOf, TOKEN } from './batched.mjs';
import {
  ABI, BYTECODE, CHARGE, chargeFor, CONTRACT, DAY, gatewayOf, idOf, IMPLEMENTATION, mandateOrder, merchant, MERCHANT, merchantOf, misused, OTHER, OTHERS, payloadOf,
  payment, PERMIT2_ABI, PREPARE, preparedFor, refused, saltOf, SUBMIT,
} from './mandated.mjs';
import { repository } from './support.mjs';

const DEPLOYER = '0x4e59b44847b379578588920ca78fbf26c0b4956c';
const ZERO_HASH = `0x${'0'.repeat(64)}`;
const VECTORS = repository('contracts/vectors/mandates.json');

const onChain = ({ terms_before: termsBefore, terms_after: termsAfter, ...of }) => ({
  payer: of.payer,
  merchant: of.merchant,
  token: of.token,
  amount: BigInt(of.amount),
  least: BigInt(of.least),
  escrow: of.escrow,
  releaser: of.releaser,
  begins: of.begins,
  periodSeconds: of.period_seconds,
  periods: of.periods,
  lockSeconds: of.lock_seconds,
  salt: of.salt,
  termsBefore,
  termsAfter,
});

test('the contract that keeps mandates is where its code leads, and its first creation is what their addresses run', () => {
  const from = getContractAddress({ opcode: 'CREATE2', from: DEPLOYER, salt: ZERO_HASH, bytecode: BYTECODE });
  assert.equal(from.toLowerCase(), evm.MANDATES);
  assert.equal(getContractAddress({ from, nonce: 1n }).toLowerCase(), evm.MANDATE_IMPLEMENTATION);
  assert.deepEqual([CONTRACT, IMPLEMENTATION], [evm.MANDATES, evm.MANDATE_IMPLEMENTATION]);
});

test('addresses, digests and signatures are those of the vectors', async () => {
  const { chain_id: id, permit2 } = VECTORS;
  const chainId = `eip155:${id}`;
  assert.ok(VECTORS.mandates.length > 1);
  for (const vector of VECTORS.mandates) {
    const of = onChain(vector);
    const at = evm.mandateAddress(of);
    assert.equal(at, vector.address);
    const granted = evm.mandatePermit(of, { chainId, permit2 });
    const { details, spender, sigDeadline } = granted.typedData.message;
    const { amount, expiration, nonce, sig_deadline: deadline, digest, signature } = vector.permit;
    assert.deepEqual([details, spender, sigDeadline], [{ token: of.token, amount, expiration: String(expiration), nonce: String(nonce) }, at, String(deadline)]);
    assert.equal(granted.digest, digest);
    const payer = privateKeyToAccount(vector.payer_private_key);
    assert.equal(await payer.signTypedData(granted.typedData), signature);
    const end = evm.mandateCancellation(of, { chainId });
    assert.equal(end.digest, vector.cancellation.digest);
    assert.equal(await payer.signTypedData(end.typedData), vector.cancellation.signature);
    for (const one of vector.charges) {
      const written = JSON.parse(one.terms);
      const terms = termsOf(written);
      assert.equal(termsHash(terms), one.terms_hash);
      const { least: _, ...unbound } = { ...vector, lock_seconds: of.lockSeconds };
      const mandate = of.least ? { ...unbound, least: vector.least } : unbound;
      assert.deepEqual(evm.mandateOf({ terms, escrow: of.escrow, releaser: of.releaser, mandate }), of);
      const charge = evm.chargeMessage(chainId, {
        mandate: at,
        paymentId: one.payment_id,
        fulfillmentAmount: one.fulfillment_amount,
        amount: one.amount,
        reserver: one.reserver,
        reserveDeadline: String(one.reserve_deadline),
        fulfillmentDeadline: String(one.fulfillment_deadline),
        refundAfter: String(one.refund_after),
      });
      assert.equal(charge.digest, one.digest);
      assert.equal(await privateKeyToAccount(vector.merchant_private_key).signTypedData(charge.typedData), one.signature);
    }
  }
});

test('calls are those of the contract and of Permit2', () => {
  const lower = (value) => (typeof value === 'string' ? value.toLowerCase() : value);
  for (const vector of VECTORS.mandates) {
    const of = onChain(vector);
    const checked = ({ to, data }, functionName, ...others) => {
      const call = decodeFunctionData({ abi: ABI, data });
      assert.deepEqual([to, call.functionName, call.args.slice(1)], [evm.MANDATES, functionName, others]);
      const [{ termsBefore, termsAfter, ...given }] = call.args;
      const own = { ...of, begins: Number(of.begins) };
      assert.deepEqual([hexToString(termsBefore), hexToString(termsAfter)], [own.termsBefore, own.termsAfter]);
      for (const [name, value] of Object.entries(given)) assert.equal(String(lower(value)), String(own[name]), name);
      // Nothing stands behind it, and nothing is missing.
      assert.equal(encodeFunctionData({ abi: ABI, functionName, args: call.args }), data);
      assert.equal(saltOf(call.args[0]), vector.create2_salt);
    };
    checked(evm.cancelMandateCall(of), 'cancel', '0x');
    checked(evm.cancelMandateCall(of, vector.cancellation.signature), 'cancel', vector.cancellation.signature);
    checked(evm.giveBackMandateCall(of, zeroAddress), 'giveBack', zeroAddress);
    const { amount, expiration } = vector.permit;
    const args = [of.token, vector.address, BigInt(amount), expiration];
    assert.deepEqual(evm.allowMandateCall(of, VECTORS.permit2), { to: VECTORS.permit2, data: encodeFunctionData({ abi: PERMIT2_ABI, args }) });
  }
  assert.throws(() => evm.cancelMandateCall(onChain(VECTORS.mandates[0]), 'signature'), UsageError);
});

test('a payer signs once, and its merchant is paid by that', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet, signed, calls } = await payerOf();
  const steps = [];
  const before = Math.floor(Date.now() / 1000);
  const given = await gateway.signMandate(mandateOrder(), wallet, { onStep: (step) => void steps.push(step) });
  assert.deepEqual(steps.map(({ step }) => step), ['ordered', 'signing']);
  assert.deepEqual(steps[0].believed, [`escrow=${DEFAULTS.source.escrow_contract_address}`, `releaser=${DEFAULTS.source.releaser}`]);
  const [request] = bodies(PREPARE);
  assert.deepEqual(steps[1].request, request);
  const { salt, begins, ...others } = request.mandate;
  assert.deepEqual(others, { merchant: MERCHANT, amount: '51000000', least: '50000000', period_seconds: DAY, periods: 3, lock_seconds: 7200 });
  assert.ok(begins >= before && begins <= before + 60);
  const honest = preparedFor(request);
  assert.deepEqual([given.payload.mandate, given.address], [request.mandate, honest.address]);
  assert.deepEqual([given.allow, given.cancel, given.approval, given.sent, calls], [honest.allowance, honest.cancel, undefined, [], []]);
  assert.deepEqual(signed, [JSON.parse(honest.permit.message_prehash)]);
  assert.equal(await recoverTypedDataAddress({ ...signed[0], signature: given.payload.permit }), account.address);
  assert.equal(evm.mandateAddress(evm.mandateOf(given.spend)), given.address);
  assert.deepEqual(evm.cancelMandateCall(evm.mandateOf(given.spend)).data, given.cancel.call.data);

  const asking = await merchantOf();
  const told = [];
  const paid = await gateway.charge(payment({ requestId: 'month-1' }), given.payload, asking.wallet, { onStep: (step) => void told.push(step.step) });
  assert.deepEqual(told, ['ordered', 'signing', 'submitting', 'status', 'status']);
  const [asked] = bodies(CHARGE);
  assert.deepEqual([asked.message_scheme, asked.payload, asked.source.account], ['EVM_PERMIT2_MANDATE', given.payload, PAYER]);
  const [{ sender_auth: auth, ...unsigned }] = bodies(SUBMIT);
  const { message_scheme: _, payload: __, ...plain } = asked;
  assert.deepEqual(unsigned, plain);
  const [{ message, message_prehash: text, payload }] = chargeFor(asked).signed_messages;
  const [{ signature, ...sent }] = auth.signed_messages;
  assert.deepEqual([auth.message_scheme, sent.message, JSON.parse(sent.message_prehash), sent.payload], ['EVM_PERMIT2_MANDATE', message, JSON.parse(text), payload]);
  assert.equal(asking.signed.length, 1);
  assert.equal(await recoverTypedDataAddress({ ...asking.signed[0], signature }), merchant.address);
  assert.deepEqual([paid.status.status, paid.paymentId, paid.requestId, paid.body.sender_auth], ['completed', idOf(asked), 'month-1', auth]);

  // A later one needs the payer's signature no more, and is another payment.
  const { mandate } = given.payload;
  const next = await gateway.charge(payment(), { mandate }, asking.wallet, { until: 'accepted' });
  assert.deepEqual([next.status.status, bodies(CHARGE)[1].payload], ['pending', { mandate }]);
  assert.notEqual(next.paymentId, paid.paymentId);
});

test('the salt is drawn anew each time, when all else is settled', async (t) => {
  const order = mandateOrder({ begins: new Date(1_900_000_000_500) });
  const { gateway, bodies } = await gatewayOf(t);
  const { wallet } = await payerOf();
  await gateway.signMandate(order, wallet);
  await gateway.signMandate(order, wallet);
  const [one, other] = bodies(PREPARE).map(({ mandate }) => mandate);
  assert.match(one.salt, /^0x[0-9a-f]{64}$/);
  assert.notEqual(one.salt, other.salt);
  assert.deepEqual({ ...one, salt: other.salt }, other);
  assert.equal(one.begins, 1_900_000_000);
  // What stops before it has asked for nothing.
  const stop = async ({ step }) => step === 'ordered' && assert.fail('enough');
  await assert.rejects(gateway.signMandate(order, wallet, { onStep: stop }), /enough/);
  assert.equal(bodies(PREPARE).length, 2);
});

test('a payer signs for no other mandate than its own', async (t) => {
  for (const [name, change] of Object.entries(OTHERS)) {
    for (const [part, shown] of [
      ['all of it', (honest, other) => other],
      ['what is shown as asked', (honest, other) => ({ ...other, mandate: honest.mandate })],
      ['and the contract', (honest, other) => ({ ...other, mandate: honest.mandate, contract: honest.contract })],
      ['the permit alone', (honest, { permit }) => ({ ...honest, permit })],
      ['its digest alone', (honest, { permit: { message } }) => ({ ...honest, permit: { ...honest.permit, message } })],
      ['the allowance', (honest, { allowance }) => ({ ...honest, allowance })],
      ['the end', (honest, { cancel: { call } }) => ({ ...honest, cancel: { ...honest.cancel, call } })],
      ['the message of the end', (honest, { cancel: { message } }) => ({ ...honest, cancel: { ...honest.cancel, message } })],
    ]) {
      let isOther = true;
      const answer = (request) => {
        const [[other, places], honest] = [change(request), preparedFor(request)];
        const body = shown(honest, preparedFor(other, { places }));
        isOther = JSON.stringify(body) !== JSON.stringify(honest);
        return isOther ? { body } : { status: 400, body: { code: 'INVALID_REQUEST', message: 'it is the same' } };
      };
      const { gateway } = await gatewayOf(t, { [PREPARE]: answer });
      const { wallet, signed, calls } = await payerOf({ allowance: 0n });
      await assert.rejects(gateway.signMandate(mandateOrder(), wallet), (error) => error instanceof VerificationError || !isOther, `${name}, ${part}`);
      assert.deepEqual([signed, calls], [[], []]);
    }
  }
});

test('what differs is named', async (t) => {
  const data = (edit) => (request) => ({ body: preparedFor(request, { edit }) });
  const details = (edit) => data(({ message }) => edit(message.details));
  const more = (of) => (request) => {
    const honest = preparedFor(request, { approves: true });
    return { body: { ...honest, ...of(honest) } };
  };
  const otherwise = (name) => (request) => {
    const [other, places] = OTHERS[name](request);
    return { body: preparedFor(other, { places }) };
  };
  for (const [field, answer] of [
    ['address', otherwise('another recipient')],
    ['address', otherwise('another escrow')],
    ['mandate.amount', otherwise('another amount')],
    ['mandate.periods', otherwise('more periods')],
    ['contract', otherwise('a contract of a stranger')],
    ['details.amount', details((of) => (of.amount = String(2n ** 160n - 1n)))],
    ['details.token', details((of) => (of.token = OTHER))],
    ['details.expiration', details((of) => (of.expiration = String(Number(of.expiration) + 1)))],
    ['details.nonce', details((of) => (of.nonce = '1'))],
    ['spender', data(({ message }) => (message.spender = OTHER))],
    ['sigDeadline', data(({ message }) => (message.sigDeadline = '9999999999'))],
    ['domain.verifyingContract', data(({ domain }) => (domain.verifyingContract = OTHER))],
    ['domain.chainId', data(({ domain }) => (domain.chainId = 1))],
    ['message_scheme', more(() => ({ message_scheme: 'EVM_PERMIT2_ESCROW' }))],
    ['fulfillment_verifier', more(() => ({ fulfillment_verifier: { account: OTHER } }))],
    ['message', more(({ permit }) => ({ permit: { ...permit, message: ZERO_HASH } }))],
    ['primaryType', more(({ permit }) => ({ permit: { ...permit, message_prehash: 'nothing' } }))],
    ['primaryType', more(() => ({ permit: undefined }))],
    ['allowance.to', more(({ allowance }) => ({ allowance: { ...allowance, to: OTHER } }))],
    ['cancel.call.to', more(() => ({ cancel: undefined }))],
    ['cancel.call.value', more(({ cancel }) => ({ cancel: { ...cancel, call: { ...cancel.call, value: '0x1' } } }))],
    ['cancel.message.message', more(({ cancel }) => ({ cancel: { ...cancel, message: { ...cancel.message, message: ZERO_HASH } } }))],
    ['approval.spender', more(({ approval }) => ({ approval: { ...approval, spender: OTHER } }))],
    ['approval.call.to', more(({ approval }) => ({ approval: { ...approval, call: { ...approval.call, to: OTHER } } }))],
    ['approval.call.data', more(({ approval }) => ({ approval: { ...approval, call: { ...approval.call, data: '0x' } } }))],
  ]) {
    const { gateway } = await gatewayOf(t, { [PREPARE]: answer });
    const { wallet, signed, calls } = await payerOf({ allowance: 0n });
    await assert.rejects(gateway.signMandate(mandateOrder(), wallet), (error) => refused(error, field), field);
    assert.deepEqual([signed, calls], [[], []]);
  }
  // A bound that was not ordered is not the order's.
  const bound = (request) => ({ body: { ...preparedFor(request), mandate: { ...request.mandate, least: '1' } } });
  const { gateway } = await gatewayOf(t, { [PREPARE]: bound });
  await assert.rejects(gateway.signMandate(mandateOrder({ least: undefined }), (await payerOf()).wallet), (error) => refused(error, 'mandate.least'));
});

test('whom the signer does not trust is refused, and addresses are alike however they are written', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  const [{ wallet, signed }, asking, payload] = [await payerOf(), await merchantOf(), await payloadOf(t)];
  for (const name of ['escrow', 'reserver', 'releaser', 'permit2']) {
    const options = { trust: { [name]: OTHER } };
    await assert.rejects(gateway.signMandate(mandateOrder(), wallet, options), (error) => refused(error, name));
    await assert.rejects(gateway.charge(payment(), payload, asking.wallet, options), (error) => refused(error, name));
  }
  assert.deepEqual([signed, asking.signed, bodies(PREPARE), bodies(CHARGE)], [[], [], [], []]);
  const { escrow_contract_address: escrow, releaser } = DEFAULTS.source;
  const steps = [];
  await gateway.signMandate(mandateOrder(), wallet, { trust: { escrow, releaser, lockSecondsMax: 600 }, onStep: (step) => void steps.push(step) });
  assert.deepEqual([steps[0].believed, bodies(PREPARE)[0].mandate.lock_seconds], [[], 600]);

  const written = ({ domain, message }) => {
    domain.verifyingContract = getAddress(domain.verifyingContract);
    message.spender = getAddress(message.spender);
  };
  const other = await gatewayOf(t, { [PREPARE]: (request) => ({ body: preparedFor(request, { edit: written }) }) });
  const { payload: given } = await other.gateway.signMandate(mandateOrder({ source: { asset: TOKEN, account: account.address } }), wallet);
  assert.equal(given.mandate.merchant, MERCHANT);
});

test('Permit2’s allowance for all periods is given first where it is missing, whatever the payer holds', async (t) => {
  const { gateway } = await gatewayOf(t, { [PREPARE]: (request) => ({ body: preparedFor(request, { approves: true }) }) });
  const all = 153_000_000n;
  const token = TOKEN.split(':').at(-1);
  for (const [options, approvals] of [
    [{}, [0n, all]],
    [{ allowance: 2n ** 256n - 1n }, [0n, 2n ** 256n - 1n]],
    [{ allowance: 51_000_000n }, [0n, 51_000_000n]],
    [{ allowance: 0n }, []],
  ]) {
    const { wallet, calls, signed } = await payerOf({ balance: 0n, allowance: 1n });
    const { sent, approval } = await gateway.signMandate(mandateOrder(), wallet, options);
    assert.deepEqual(calls, approvals.map((amount) => ({ to: token, what: 'approve', amount })));
    assert.deepEqual([sent.length, signed.length, approval?.amount], [approvals.length, 1, approvals.length ? undefined : String(all)]);
  }
  const { wallet, calls } = await payerOf({ balance: 0n, allowance: all });
  const { approval } = await gateway.signMandate(mandateOrder(), wallet);
  assert.deepEqual([calls, approval], [[], undefined]);
  await assert.rejects(gateway.signMandate(mandateOrder(), wallet, { allowance: 1n }), UsageError);
});

test('a payer that is a contract signs nothing, and what no key signed is not given to a merchant', async (t) => {
  const { gateway } = await gatewayOf(t);
  const { wallet, signed } = await payerOf();
  const { payload, allow, address } = await gateway.signMandate(mandateOrder(), wallet, { signs: false });
  assert.deepEqual([signed, Object.keys(payload)], [[], ['mandate']]);
  assert.equal(decodeFunctionData({ abi: PERMIT2_ABI, data: allow.data }).args[1].toLowerCase(), address);
  const provider = { request: async ({ method }) => ({ eth_requestAccounts: [PAYER], eth_chainId: '0x7a69', eth_call: `0x${'f'.repeat(64)}` })[method] ?? '0x1234' };
  const contract = await evm.evmWallet({ provider });
  await assert.rejects(gateway.signMandate(mandateOrder(), contract), (error) => error instanceof WalletError && /signs: false/.test(error.message));
});

test('what is no mandate is refused before anybody is asked', async (t) => {
  const { gateway, calls } = await gatewayOf(t);
  const { wallet } = await payerOf();
  for (const [more, said] of [
    [{ amount: 0n }, /amount/],
    [{ least: 0n }, /least/],
    [{ periods: 0 }, /periods must be 1/],
    [{ periods: 2 ** 32 }, /periods must be 1/],
    [{ periodSeconds: 1.5 }, /period_seconds must be 1/],
    [{ lockSeconds: 0 }, /lock_seconds must be 1/],
    [{ amount: 2n ** 160n / 3n + 1n }, /160 bits/],
    [{ begins: new Date(NaN) }, /begins/],
    [{ periodSeconds: 2 ** 32 - 1, periods: 2 ** 32 - 1, amount: 1n }, /48 bits/],
    [{ merchant: 'nobody' }, /merchant/],
    [{ source: { asset: 'eip155:31337/slip44:60' } }, /wraps/],
    [{ destination: [] }, /destination/],
  ]) {
    await assert.rejects(gateway.signMandate(mandateOrder(more), wallet), (error) => misused(error, said), said.source);
  }
  const strict = { trust: { lockSecondsMax: 600 } };
  await assert.rejects(gateway.signMandate(mandateOrder({ lockSeconds: 601 }), wallet, strict), (error) => misused(error, /lockSecondsMax/));
  await assert.rejects(gateway.signMandate(mandateOrder({ source: { asset: TOKEN, account: OTHER } }), wallet), WalletError);
  await assert.rejects(gateway.signMandate(mandateOrder(), { family: 'evm', account: PAYER }), UsageError);
  assert.deepEqual(calls, []);
});

test('payments that could not be refunded in time are none', async (t) => {
  const { gateway, bodies } = await gatewayOf(t);
  // A minute is for clocks that differ.
  const lockSeconds = DEFAULTS.refundDelaySeconds + 60;
  const { wallet } = await payerOf();
  await assert.rejects(gateway.signMandate(mandateOrder({ lockSeconds }), wallet), (error) => misused(error, /must be more than/));
  assert.deepEqual(bodies(PREPARE), []);
});

test('payer and merchant end a mandate by their own call, without a gateway, and nobody else does', async (t) => {
  const { gateway } = await gatewayOf(t);
  const { spend, cancel } = await gateway.signMandate(mandateOrder(), (await payerOf()).wallet);
  for (const [signer, isTaken] of [[account, true], [merchant, true], [privateKeyToAccount(`0x${'9'.repeat(64)}`), false]]) {
    const sent = [];
    const methods = {
      eth_chainId: '0x7a69',
      eth_estimateGas: '0xc350',
      eth_getBlockByNumber: { baseFeePerGas: '0x3b9aca00' },
      eth_maxPriorityFeePerGas: '0x1',
      eth_getTransactionCount: '0x5',
      eth_sendRawTransaction: '0x',
      eth_getTransactionReceipt: { status: '0x1' },
    };
    const request = async ({ method, params }) => (method === 'eth_sendRawTransaction' && sent.push(parseTransaction(params[0])), methods[method]);
    const ending = cancelMandate(await evm.evmWallet({ account: signer, rpc: { request } }), spend);
    if (!isTaken) await assert.rejects(ending, UsageError);
    else assert.match(await ending, /^0x[0-9a-f]{64}$/);
    assert.deepEqual(sent.map(({ to, data, value = 0n }) => [to, data, value]), isTaken ? [[evm.MANDATES, cancel.call.data, 0n]] : []);
  }
  await assert.rejects(cancelMandate({ family: 'evm', account: PAYER }, spend), UsageError);
});
