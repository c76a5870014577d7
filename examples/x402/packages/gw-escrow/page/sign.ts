// From an offer and a wallet to a payment that may be sent. What is signed is built twice: by the client of this package, out of
// the requirement, and by the SDK, out of the gateway's defaults; a wallet is asked only where the two are the same.

import { hexToBytes, toHex } from 'viem/utils';

import type { Gateway } from '../../../../../sdk/typescript/src/gateway.js';
import { orderRequest, spendOf } from '../../../../../sdk/typescript/src/spend.js';
import { rfc3339 } from '../../../../../sdk/typescript/src/time.js';
import type { PreparedPayment, PrepareRequest, SignedMessage, Spend, Wallet } from '../../../../../sdk/typescript/src/types.js';
import { GwEscrowClient, type OpenPayment } from '../src/client.js';
import { messagesFor, PERMIT2, type Order, type Payer } from '../src/evm.js';
import { memoryStore } from '../src/memory.js';
import { deposit, solanaPayer } from '../src/solana.js';
import type { PaymentRequired } from '../src/x402.js';
import type { Kept } from './kept.js';
import type { Handed, Offer } from './offer.js';
import { encoded } from './wire.js';

const IDENTIFIER = 'payment-identifier';

/** What the SDK makes of an order by itself. */
async function spendFor(order: Order, gateway: Gateway, lockSecondsMax: number): Promise<Spend> {
  const defaults = await gateway.paymentDefaults(order.terms);
  const deadline = rfc3339(order.fulfillmentDeadline * 1000);
  const request = { version: '1.0', request_id: 'x402', ...order.terms, quote_deadline: deadline, fulfillment_deadline: deadline };
  return { ...spendOf(request, defaults, { lockSecondsMax }), paymentId: order.paymentId };
}

/** What a wallet is to sign, as it was made out of the requirement. */
interface Unsigned {
  message: string;
  message_prehash: string;
  payload?: object;
}

/** A wallet of the SDK as a payer of this package. */
export function payerOf(wallet: Wallet, gateway: Gateway, lockSecondsMax: number): Payer {
  const asked = async (order: Order, message_scheme: string, signed_messages: Unsigned[]): Promise<SignedMessage[]> => {
    const spend = await spendFor(order, gateway, lockSecondsMax);
    const prepared = { payment_id: order.paymentId, message_scheme, signed_messages } as unknown as PreparedPayment;
    wallet.verify(spend, prepared);
    // It may have been changed to another chain since it was connected.
    await wallet.connect(order.network);
    return wallet.sign(spend, prepared);
  };
  const { account } = wallet;
  if (wallet.family === 'solana') {
    const of = (order: Order): Payer =>
      solanaPayer({
        address: account,
        signMessage: async (digest) => {
          const unsigned = { message: toHex(digest), message_prehash: toHex(deposit(order, account)) };
          const [signed] = await asked(order, 'SOLANA', [unsigned]);
          return hexToBytes((signed?.signature ?? '') as `0x${string}`);
        },
      });
    return { namespace: 'solana', account, originator: `solana:${account}`, authorize: (order) => of(order).authorize(order) };
  }
  return {
    namespace: 'eip155',
    account,
    originator: `eip155:${account}`,
    async authorize(order) {
      const { message_scheme, messages } = await messagesFor(order, account, PERMIT2);
      const unsigned = messages.map(({ message, message_prehash, payload }) => ({ message, message_prehash, ...(payload ? { payload } : {}) }));
      return { message_scheme, signed_messages: await asked(order, message_scheme, unsigned) };
    },
  };
}

/** The body by which the gateway is asked what the payer has to send first. */
export function requestFor({ wanted }: Offer, account: string): PrepareRequest {
  const now = Date.now();
  return orderRequest({
    source: { asset: wanted.asset, account },
    destination: { asset: wanted.destination.asset, account: wanted.destination.address },
    amount: wanted.fulfillmentAmount,
    maxSource: wanted.amount,
    quoteDeadline: new Date(now + wanted.quoteSeconds * 1000),
    fulfillmentDeadline: new Date(now + wanted.fulfillmentSeconds * 1000),
  });
}

/** Has the wallet sign for this offer, and for no more than it shows. */
export async function signed(offer: Offer, required: PaymentRequired, wallet: Wallet, gateway: Gateway, handed: Handed): Promise<Kept> {
  const { maxLockSeconds, pins } = handed;
  const payers = [payerOf(wallet, gateway, maxLockSeconds)];
  const open = memoryStore<OpenPayment>();
  let made: OpenPayment | undefined;
  const client = new GwEscrowClient({
    gateway: gateway.baseUrl,
    payers,
    maxLockSeconds,
    pins,
    open: { ...open, set: async (key, payment) => void ((made = payment), await open.set(key, payment)) },
  });
  const { requirement } = offer;
  const declared = required.extensions;
  const context = { maxAmountPerPayment: String(offer.wanted.amount), ...(declared ? { extensions: declared } : {}) };
  const { payload, extensions } = await client.createPaymentPayload(2, requirement, context);
  if (!made) throw new Error('the client made no payment');
  const identifier = extensions?.[IDENTIFIER] as { info: { id: string } } | undefined;
  const echoed = declared && {
    ...declared,
    ...(identifier ? { [IDENTIFIER]: merged(declared[IDENTIFIER], identifier.info) } : {}),
  };
  const { resource } = required;
  const header = encoded({ x402Version: 2, payload, ...(echoed ? { extensions: echoed } : {}), resource, accepted: requirement });
  return { paymentId: made.paymentId, fulfillmentDeadline: made.fulfillmentDeadline, header };
}

/** What the shop declared of the extension, with the buyer's own part in it. */
function merged(declared: unknown, info: object): unknown {
  const extension = (declared ?? {}) as { info?: object };
  return { ...extension, info: { ...extension.info, ...info } };
}
