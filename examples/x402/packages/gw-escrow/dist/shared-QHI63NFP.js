import {
  concat,
  hashTypedData,
  keccak256,
  onChainId
} from "./shared-QW7TA72N.js";
import {
  GwEscrowError
} from "./shared-EJZXPSA6.js";

// examples/x402/packages/gw-escrow/src/evm.js
var PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3";
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
      const typedData = deposit(order, account, permit2);
      const signature = await signer.signTypedData(typedData);
      return {
        message_scheme: "EVM_PERMIT2_ESCROW",
        signed_messages: [
          { message: hashTypedData(
            /** @type {any} */
            typedData
          ), message_prehash: toJson(typedData), signature }
        ]
      };
    }
  };
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
  evmPayer,
  deposit,
  toJson
};
