import {
  concat,
  encodeAbiParameters,
  hashTypedData,
  keccak256,
  onChainId,
  stringToHex
} from "./shared-UDSO6T45.js";
import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/packages/gw-escrow/src/tokens.js
var TEXT_MAX = 256;
var DIGITS_MAX = 78;
var ENDLESS = 2n ** 256n - 1n;
var DOMAIN = (
  /** @type {const} */
  [
    { name: "name", type: "string" },
    { name: "version", type: "string" },
    { name: "chainId", type: "uint256" },
    { name: "verifyingContract", type: "address" }
  ]
);
var AUTHORIZATION_TYPES = (
  /** @type {const} */
  {
    EIP712Domain: DOMAIN,
    ReceiveWithAuthorization: [
      { name: "from", type: "address" },
      { name: "to", type: "address" },
      { name: "value", type: "uint256" },
      { name: "validAfter", type: "uint256" },
      { name: "validBefore", type: "uint256" },
      { name: "nonce", type: "bytes32" }
    ]
  }
);
var ALLOWANCE_TYPES = (
  /** @type {const} */
  {
    EIP712Domain: DOMAIN,
    Permit: [
      { name: "owner", type: "address" },
      { name: "spender", type: "address" },
      { name: "value", type: "uint256" },
      { name: "nonce", type: "uint256" },
      { name: "deadline", type: "uint256" }
    ]
  }
);
function tokenOf(text) {
  const { domain, message } = parsed(text);
  const named = (member) => {
    const value = domain?.[member];
    if (typeof value === "string" && value.length <= TEXT_MAX) return value;
    throw new GwEscrowError("gateway", `the gateway does not say the token's ${member}: ${String(value).slice(0, 100)}`);
  };
  const nonce2 = message?.nonce;
  const isNumber = typeof nonce2 === "string" && /^\d+$/.test(nonce2) && nonce2.length <= DIGITS_MAX;
  return { name: named("name"), version: named("version"), nonce: isNumber ? BigInt(nonce2) : 0n };
}
function parsed(text) {
  try {
    return JSON.parse(String(text)) ?? {};
  } catch {
    return {};
  }
}
function authorization({ domain, message }, { name, version }) {
  const { permitted, spender, witness } = message;
  return {
    domain: { name, version, chainId: domain.chainId, verifyingContract: permitted.token },
    types: AUTHORIZATION_TYPES,
    primaryType: (
      /** @type {const} */
      "ReceiveWithAuthorization"
    ),
    message: {
      from: witness.payer,
      to: spender,
      value: permitted.amount,
      validAfter: 0n,
      validBefore: BigInt(witness.reserveDeadline) + 1n,
      nonce: depositHash(witness)
    }
  };
}
function payloadOf({ message: { witness } }) {
  const { reserveDeadline, fulfillmentDeadline, refundAfter } = witness;
  const times = { reserveDeadline, fulfillmentDeadline, refundAfter };
  const written = Object.fromEntries(Object.entries(times).map(([name, seconds]) => [name, String(seconds)]));
  return {
    reserve_deadline: reserveDeadline,
    refund_after: refundAfter,
    valid_before: reserveDeadline + 1,
    deposit: { ...witness, ...written }
  };
}
function allowance({ domain, message }, { name, version, nonce: nonce2 }) {
  return {
    domain: { name, version, chainId: domain.chainId, verifyingContract: message.permitted.token },
    types: ALLOWANCE_TYPES,
    primaryType: (
      /** @type {const} */
      "Permit"
    ),
    message: {
      owner: message.witness.payer,
      spender: domain.verifyingContract,
      value: ENDLESS,
      nonce: nonce2,
      deadline: message.deadline
    }
  };
}
function depositHash(witness) {
  const type = "GatewayDeposit(bytes32 paymentId,bytes32 termsHash,bytes32 quoteHash,address payer,address reserver,address releaser,uint48 reserveDeadline,uint48 fulfillmentDeadline,uint48 refundAfter)";
  const hex = (text) => (
    /** @type {`0x${string}`} */
    text
  );
  const words = encodeAbiParameters(
    [
      ...Array.from({ length: 3 }, () => ({ type: "bytes32" })),
      ...Array.from({ length: 3 }, () => ({ type: "address" })),
      ...Array.from({ length: 3 }, () => ({ type: "uint48" }))
    ],
    [
      ...[witness.paymentId, witness.termsHash, witness.quoteHash, witness.payer, witness.reserver, witness.releaser].map(hex),
      ...[witness.reserveDeadline, witness.fulfillmentDeadline, witness.refundAfter]
    ]
  );
  return keccak256(concat([keccak256(stringToHex(type)), words]));
}

// examples/x402/packages/gw-escrow/src/evm.js
var PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
var BY_PERMIT2 = "EVM_PERMIT2_ESCROW";
var BY_TOKEN = "EVM_EIP3009";
var TYPES = (
  /** @type {const} */
  {
    EIP712Domain: [
      { name: "name", type: "string" },
      { name: "chainId", type: "uint256" },
      { name: "verifyingContract", type: "address" }
    ],
    TokenPermissions: [
      { name: "token", type: "address" },
      { name: "amount", type: "uint256" }
    ],
    GatewayDeposit: [
      { name: "paymentId", type: "bytes32" },
      { name: "termsHash", type: "bytes32" },
      { name: "quoteHash", type: "bytes32" },
      { name: "payer", type: "address" },
      { name: "reserver", type: "address" },
      { name: "releaser", type: "address" },
      { name: "reserveDeadline", type: "uint48" },
      { name: "fulfillmentDeadline", type: "uint48" },
      { name: "refundAfter", type: "uint48" }
    ],
    PermitWitnessTransferFrom: [
      { name: "permitted", type: "TokenPermissions" },
      { name: "spender", type: "address" },
      { name: "nonce", type: "uint256" },
      { name: "deadline", type: "uint256" },
      { name: "witness", type: "GatewayDeposit" }
    ]
  }
);
function evmPayer(signer, { permit2 = PERMIT2 } = {}) {
  const account = signer.address.toLowerCase();
  return {
    namespace: "eip155",
    account,
    originator: `eip155:${account}`,
    async authorize(order) {
      const { message_scheme, messages } = await messagesFor(order, account, permit2);
      const signed_messages = [];
      for (const { typedData, ...message } of messages) {
        signed_messages.push({ ...message, signature: await signer.signTypedData(typedData) });
      }
      return { message_scheme, signed_messages };
    }
  };
}
async function messagesFor(order, payer, permit2) {
  const transfer = deposit(order, payer, permit2);
  const prepared = await order.prepared?.();
  const [first, ...others] = prepared?.signed_messages ?? [];
  if (prepared?.message_scheme === BY_TOKEN) {
    const own = authorization(transfer, tokenOf(first?.message_prehash));
    return { message_scheme: BY_TOKEN, messages: [{ ...unsigned(own), payload: payloadOf(transfer) }] };
  }
  const messages = [unsigned(transfer)];
  if (others.length) messages.unshift(unsigned(allowance(transfer, tokenOf(first?.message_prehash))));
  return { message_scheme: BY_PERMIT2, messages };
}
function unsigned(typedData) {
  return { typedData, message: hashTypedData(typedData), message_prehash: toJson(typedData) };
}
function deposit(order, payer, permit2) {
  const [, reference] = order.network.split(":");
  const [prefix, token] = order.asset.split("/erc20:");
  if (!token || prefix !== order.network) {
    throw new GwEscrowError("unsupported", `asset is not a token that Permit2 can move: ${order.asset}`);
  }
  const paymentId = onChainId(order.paymentId);
  return {
    domain: { name: "Permit2", chainId: Number(reference), verifyingContract: permit2 },
    types: TYPES,
    primaryType: "PermitWitnessTransferFrom",
    message: {
      permitted: { token, amount: order.amount },
      spender: order.escrow,
      nonce: nonce(paymentId, order.termsHash),
      deadline: BigInt(order.fulfillmentDeadline),
      witness: {
        paymentId,
        termsHash: order.termsHash,
        quoteHash: `0x${"00".repeat(32)}`,
        payer,
        reserver: order.reserver,
        releaser: order.releaser,
        reserveDeadline: order.fulfillmentDeadline,
        fulfillmentDeadline: order.fulfillmentDeadline,
        refundAfter: order.refundAfter
      }
    }
  };
}
function nonce(paymentId, termsHash) {
  return BigInt(keccak256(concat([paymentId, termsHash])));
}
function toJson(typedData) {
  return JSON.stringify(
    typedData,
    (name, value) => typeof value === "bigint" || typeof value === "number" && name !== "chainId" ? String(value) : value
  );
}

export {
  PERMIT2,
  BY_TOKEN,
  evmPayer,
  messagesFor,
  deposit,
  toJson
};
