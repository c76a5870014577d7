// Payers on Solana as an independent client makes them: keys, addresses, digests and signatures of random payments, one JSON
// object a line. It knows the gateway by this alone:
//
//   payment_id  keccak256 of the payment's text
//   terms_hash  SHA-256 of the RFC 8785 form of {destination sorted by asset, fulfillment_amount, max_source_amount, source}
//   preimage    "gw-escrow" | 1 | cluster id | program | 0 | payment_id | terms_hash | quote_hash | payer | mint |
//               amount u64 | reserver | releaser | reserve_deadline u64 | fulfillment_deadline u64 | refund_after u64,
//               numbers little endian
//   digest      SHA-256 of the preimage; the signer's Ed25519 signature is over these 32 bytes
//   addresses   ["delegate", signer], ["escrow", payment_id], ["vault", payment_id] of the program, and
//               ["fulfillment", SHA-256 of "gw-fulfillment" | 1 | program | payment_id | quote_hash | settler | mint |
//               recipient | amount u64 | fulfill_by u64]
const { createHash } = require('node:crypto');
const { createRequire } = require('node:module');

const fetched = createRequire(`${process.env.SOLANA_CLIENT_MODULES}/`);
const { Ed25519Program, Keypair, PublicKey } = fetched('@solana/web3.js');
const { keccak_256 } = fetched('@noble/hashes/sha3');

const TOKEN_PROGRAMS = ['TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA', 'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb'];
const ASSOCIATED_TOKEN_PROGRAM = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
const BASE32 = 'abcdefghijklmnopqrstuvwxyz234567';
const FULFILLMENT_DEADLINE = 1800000600n;

const [count, seed] = process.argv.slice(2);
const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts.map((part) => Buffer.from(part)))).digest();
const hex = (bytes) => `0x${Buffer.from(bytes).toString('hex')}`;

// Everything random comes from the seed, so that a case that failed can be seen again.
let drawn = 0;
const random = () => sha256(seed, ':', String(drawn++));
const keypair = () => Keypair.fromSeed(random());
const address = () => keypair().publicKey;
const below = (bound) => random().readBigUInt64LE() % bound;

const u64 = (number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(number);
  return bytes;
};

const base32 = (bytes) => {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return bits.match(/.{1,5}/g).map((group) => BASE32[parseInt(group.padEnd(5, '0'), 2)]).join('');
};

// The members of a payment's terms are texts, arrays and objects, for which this is RFC 8785.
const canonical = (value) => {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  const members = Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`);
  return `{${members.join(',')}}`;
};

const derived = (program, ...seeds) => PublicKey.findProgramAddressSync(seeds.map((part) => Buffer.from(part)), program)[0].toBase58();

const one = (index) => {
  const clusterId = address();
  const [program, mint, reserver, releaser, settler, recipient] = Array.from({ length: 6 }, address);
  const payer = keypair();
  const delegate = index % 3 === 0 ? keypair() : undefined;
  const signer = delegate ?? payer;
  const chain = `solana:${clusterId.toBase58().slice(0, 32)}`;
  const paymentId = `pay_${base32(random())}`;
  const amount = 1n + below(2n ** 64n - 1n);
  const capped = index % 4 !== 0;
  const terms = {
    destination: [{ account: recipient.toBase58(), asset_identifier: `${chain}/slip44:501` }],
    fulfillment_amount: String(1n + below(10n ** 9n)),
    source: { account: payer.publicKey.toBase58(), asset_identifier: `${chain}/token:${mint.toBase58()}` },
  };
  if (capped) terms.max_source_amount = String(amount);
  const quoteHash = index % 2 === 0 ? Buffer.alloc(32) : random();
  const reserveDeadline = FULFILLMENT_DEADLINE - below(500n);
  const refundAfter = FULFILLMENT_DEADLINE + 900n + below(10000n);

  const onChain = Buffer.from(keccak_256(Buffer.from(paymentId)));
  const body = [
    [0], onChain, sha256(canonical(terms)), quoteHash, payer.publicKey.toBytes(), mint.toBytes(), u64(amount),
    reserver.toBytes(), releaser.toBytes(), u64(reserveDeadline), u64(FULFILLMENT_DEADLINE), u64(refundAfter),
  ];
  const preimage = (version) =>
    Buffer.concat(['gw-escrow', [version], clusterId.toBytes(), program.toBytes(), ...body].map((part) => Buffer.from(part)));
  const signed = (digest) => Ed25519Program.createInstructionWithPrivateKey({ privateKey: signer.secretKey, message: digest }).data;
  const digest = sha256(preimage(1));
  const precompile = signed(digest);
  const otherDigest = sha256(preimage(2));

  const delivered = 1n + below(2n ** 40n);
  const key = sha256(
    'gw-fulfillment', [1], program.toBytes(), onChain, quoteHash, settler.toBytes(), mint.toBytes(), recipient.toBytes(),
    u64(delivered), u64(FULFILLMENT_DEADLINE),
  );
  const payload = { reserve_deadline: String(reserveDeadline), refund_after: String(refundAfter) };
  if (!capped) payload.permitted_amount = String(amount);
  if (delegate) payload.delegate_signer = delegate.publicKey.toBase58();
  return {
    cluster_id: clusterId.toBase58(),
    program: program.toBase58(),
    mint: mint.toBase58(),
    reserver: reserver.toBase58(),
    releaser: releaser.toBase58(),
    settler: settler.toBase58(),
    payment_id: paymentId,
    terms,
    quote_hash: hex(quoteHash),
    signer: signer.publicKey.toBase58(),
    delivered: String(delivered),
    preimage: hex(preimage(1)),
    precompile: hex(precompile),
    signed: { message: hex(digest), message_prehash: hex(preimage(1)), signature: hex(precompile.subarray(48, 112)), payload },
    signed_for_version_2: {
      message: hex(otherDigest),
      message_prehash: hex(preimage(2)),
      signature: hex(signed(otherDigest).subarray(48, 112)),
      payload,
    },
    addresses: {
      delegate: derived(program, 'delegate', signer.publicKey.toBytes()),
      escrow: derived(program, 'escrow', onChain),
      vault: derived(program, 'vault', onChain),
      fulfillment: derived(program, 'fulfillment', key),
      associated: TOKEN_PROGRAMS.map((tokenProgram) =>
        derived(ASSOCIATED_TOKEN_PROGRAM, payer.publicKey.toBytes(), new PublicKey(tokenProgram).toBytes(), mint.toBytes())),
    },
  };
};

for (let index = 0; index < Number(count); index++) console.log(JSON.stringify(one(index)));
