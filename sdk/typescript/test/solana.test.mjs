// The pieces of Solana that are made here, beside @solana/web3.js and the vectors of the program.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keypair, PublicKey, SystemProgram, Transaction, TransactionInstruction } from '@solana/web3.js';
import { UsageError, WalletError } from 'gateway-client';
import { addressOf, giveBackCall, giveBackLamportsCall, solanaKeypair, solanaWallet, standardSigner } from 'gateway-client/solana';
import { readEscrow, refundInstruction } from '../dist/solana/escrow.js';
import { delegateAddress, derivedAddress, tokenAccount, TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from '../dist/solana/keys.js';
import { depositBytes } from '../dist/solana/message.js';
import { message, transaction } from '../dist/solana/transaction.js';
import { depositOnSolana } from './addressed.mjs';
import { repository } from './support.mjs';

const text = (bytes) => new PublicKey(bytes).toBase58();
const bytes = (name) => new PublicKey(name).toBytes();

test('addresses are those of the vectors of the program, and of web3.js', () => {
  const { addresses, deposit, domain } = repository('contracts/solana/vectors.json');
  const own = bytes(domain.program_id);
  const id = Buffer.from(deposit.fields.payment_id, 'hex');
  assert.equal(text(derivedAddress(own, Buffer.from('config'))), addresses.config.key);
  assert.equal(text(derivedAddress(own, Buffer.from('escrow'), id)), addresses.escrow.key);
  assert.equal(text(derivedAddress(own, Buffer.from('vault'), id)), addresses.vault.key);
  assert.equal(text(delegateAddress(own, bytes(deposit.signer))), addresses.delegate.key);
  const [owner, mint] = [Keypair.generate().publicKey, Keypair.generate().publicKey];
  const program2 = new PublicKey('ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL');
  const seeds = [owner.toBuffer(), Buffer.from(TOKEN_PROGRAM), mint.toBuffer()];
  assert.equal(
    text(tokenAccount(owner.toBytes(), mint.toBytes(), TOKEN_PROGRAM)),
    PublicKey.findProgramAddressSync(seeds, program2)[0].toBase58(),
  );
});

test('web3.js reads in a transaction what was put into it, and its signature holds', async () => {
  const payer = Keypair.generate();
  const others = Array.from({ length: 20 }, () => Keypair.generate().publicKey);
  const blockhash = Keypair.generate().publicKey.toBase58();
  const keys = others.map((pubkey, at) => ({ pubkey, isSigner: false, isWritable: at % 2 === 0 }));
  keys.push({ pubkey: payer.publicKey, isSigner: true, isWritable: false });
  const program = Keypair.generate().publicKey;
  const theirs = new Transaction({ feePayer: payer.publicKey, recentBlockhash: blockhash }).add(
    SystemProgram.transfer({ fromPubkey: payer.publicKey, toPubkey: others[1], lamports: 5 }),
    new TransactionInstruction({ programId: program, keys, data: Buffer.alloc(150, 7) }),
  );
  const instructions = theirs.instructions.map(({ programId, keys: used, data }) => ({
    program: programId.toBytes(),
    accounts: used.map(({ pubkey, isSigner, isWritable }) => ({ key: pubkey.toBytes(), signer: isSigner, writable: isWritable })),
    data: Uint8Array.from(data),
  }));
  const own = message(payer.publicKey.toBytes(), blockhash, instructions);
  // web3.js sorts the accounts of one kind by name, which is not a rule; what counts is what it reads out of ours.
  const signer = await solanaKeypair(payer.secretKey);
  const read = Transaction.from(await signer.signTransaction(transaction(own)));
  assert.ok(read.verifySignatures());
  assert.equal(read.feePayer.toBase58(), payer.publicKey.toBase58());
  assert.equal(read.recentBlockhash, blockhash);
  const shown = ({ programId, keys: used, data }) => ({
    program: programId.toBase58(),
    keys: used.map(({ pubkey }) => pubkey.toBase58()),
    data: data.toString('hex'),
  });
  assert.deepEqual(read.instructions.map(shown), theirs.instructions.map(shown));
  const roles = (of) =>
    Object.fromEntries(
      of.instructions
        .flatMap(({ keys: used }) => used)
        .map(({ pubkey, isSigner, isWritable }) => [pubkey.toBase58(), `${isSigner}${isWritable}`]),
    );
  const compiled = Transaction.from(theirs.serialize({ requireAllSignatures: false, verifySignatures: false }));
  assert.deepEqual(roles(read), roles(compiled));
});

test('a refund is the instruction of the vectors of the program, from what its escrow account says', () => {
  const { deposit, domain, escrow_account: account, instructions } = repository('contracts/solana/vectors.json');
  const terms = readEscrow(Uint8Array.from(Buffer.from(account, 'hex')));
  assert.equal(terms.refundAfter, BigInt(deposit.fields.refund_after));
  assert.equal(terms.isReserved, true);
  // Above the state it stands how often the escrow was reassigned.
  const inState = (state) => readEscrow(Uint8Array.from(Buffer.from(account, 'hex')).fill(state, 2, 3)).isReserved;
  assert.deepEqual([1, 2, 3, 0b101, 0b11111101, 0b110, 0b111].map(inState), [true, false, false, true, true, false, false]);
  const own = refundInstruction(bytes(domain.program_id), Buffer.from(deposit.fields.payment_id, 'hex'), terms);
  const { refund } = instructions;
  assert.equal(Buffer.from(own.data).toString('hex'), refund.data);
  assert.equal(text(own.program), refund.program);
  assert.deepEqual(
    own.accounts.map(({ key, signer = false, writable = false }) => ({ key: text(key), signer, writable })),
    refund.accounts,
  );
  assert.equal(readEscrow(new Uint8Array(389)), undefined);
});

/** The deposit address of the vectors, and its terms as the SDK has them. */
function addressVector() {
  const vector = repository('contracts/solana/vectors.json').deposit_address;
  const { fields } = vector;
  const terms = {
    escrow: vector.program_id,
    token: fields.mint,
    amount: BigInt(fields.amount),
    deposit: {
      paymentId: `0x${fields.payment_id}`,
      termsHash: `0x${fields.terms_hash}`,
      quoteHash: `0x${fields.quote_hash}`,
      payer: fields.payer,
      reserver: fields.reserver,
      releaser: fields.releaser,
      reserveDeadline: String(fields.reserve_deadline),
      fulfillmentDeadline: String(fields.fulfillment_deadline),
      refundAfter: String(fields.refund_after),
    },
  };
  return { vector, terms };
}

test('a deposit address is that of the vectors of the program, of the bytes that other payers sign', () => {
  const { vector, terms } = addressVector();
  const { deposit } = repository('contracts/solana/vectors.json');
  const own = Buffer.from(depositBytes(terms));
  assert.deepEqual([own.toString('hex'), own.length], [vector.terms, 257]);
  assert.ok(deposit.preimage.endsWith(vector.terms));
  assert.equal(addressOf(terms), vector.address);
  assert.equal(PublicKey.isOnCurve(vector.address), false);
  assert.equal(text(tokenAccount(bytes(vector.address), bytes(terms.token), bytes(vector.token_program))), vector.token_account);
  // What the tests of the answers hold the SDK against computes the same.
  assert.equal(depositOnSolana({ token: vector.fields.mint, amount: vector.fields.amount, deposit: vector.fields }).toString('hex'), vector.terms);
});

test('what anyone has sent back from an address are the instructions of the vectors of the program', () => {
  const { vector, terms } = addressVector();
  const { give_back: giveBack, give_back_lamports: giveBackLamports } = vector.instructions;
  const call = ({ program, accounts, data }) => ({ program, accounts, data: `0x${data}` });
  const carrier = giveBack.accounts[0].key;
  assert.deepEqual(giveBackCall(terms, { carrier }), call(giveBack));
  assert.deepEqual(giveBackCall(terms, { carrier, token: terms.token, tokenProgram: vector.token_program }), call(giveBack));
  assert.deepEqual(giveBackLamportsCall(terms), call(giveBackLamports));

  // Another mint, of Token-2022: both token accounts are of that.
  const token = Keypair.generate().publicKey;
  const tokenProgram = text(TOKEN_2022_PROGRAM);
  const other = giveBackCall(terms, { carrier, token: token.toBase58(), tokenProgram });
  const of = (owner) => text(tokenAccount(bytes(owner), token.toBytes(), TOKEN_2022_PROGRAM));
  const keys = giveBack.accounts.map(({ key }) => key);
  const expected = [...keys.slice(0, 3), of(vector.address), of(terms.deposit.payer), keys[5], token.toBase58(), tokenProgram];
  assert.deepEqual(other.accounts.map(({ key }) => key), expected);

  // Out of another token account of the address, and into one that the refund account names by signing.
  const [from, to] = [Keypair.generate().publicKey.toBase58(), Keypair.generate().publicKey.toBase58()];
  const elsewhere = giveBackCall(terms, { carrier, from, to });
  const changed = new Map([[3, { key: from, signer: false, writable: true }], [4, { key: to, signer: false, writable: true }], [5, { ...giveBack.accounts[5], signer: true }]]);
  assert.deepEqual(elsewhere.accounts, giveBack.accounts.map((account, at) => changed.get(at) ?? account));

  // One that cannot be closed is emptied alone: the last byte says so, and nothing else is changed by it.
  const open = call({ ...giveBack, data: giveBack.data.replace(/01$/, '00') });
  assert.notDeepEqual(open, call(giveBack));
  assert.deepEqual(giveBackCall(terms, { carrier, closes: false }), open);
  assert.deepEqual(giveBackCall(terms, { carrier, closes: true }), call(giveBack));
  for (const options of [{ carrier: '0x' }, { carrier, token: '0x' }, { carrier, tokenProgram: 'TR' }, { carrier, from: '' }, { carrier, to: '1' }]) {
    assert.throws(() => giveBackCall(terms, options), UsageError);
  }
});

test('a keypair is one, and a wallet of Wallet Standard signs what it is given', async () => {
  const pair = Keypair.generate();
  const signer = await solanaKeypair([...pair.secretKey]);
  assert.equal(signer.address, pair.publicKey.toBase58());
  await assert.rejects(
    solanaKeypair([...pair.secretKey.slice(0, 32), ...Keypair.generate().secretKey.slice(32)]),
    /do not belong together/,
  );
  await assert.rejects(solanaKeypair([1, 2, 3]), /64 bytes/);

  const features = (signMessage) => ({ 'solana:signMessage': { signMessage } });
  const account = { address: signer.address };
  const good = {
    accounts: [account],
    features: features(async ({ message: text }) => [{ signedMessage: text, signature: await signer.signMessage(text) }]),
  };
  const hash = new Uint8Array(32).fill(7);
  assert.deepEqual(await standardSigner(good, 'solana:mainnet').signMessage(hash), await signer.signMessage(hash));
  const declining = { accounts: [account], features: features(() => Promise.reject(new Error('User rejected the request.'))) };
  await assert.rejects(
    standardSigner(declining, 'solana:mainnet').signMessage(hash),
    (error) => error instanceof WalletError && error.reason === 'rejected',
  );
  const lying = {
    accounts: [account],
    features: features(async () => [{ signedMessage: new Uint8Array(32), signature: new Uint8Array(64) }]),
  };
  await assert.rejects(standardSigner(lying, 'solana:mainnet').signMessage(hash), /another message/);
  assert.throws(() => standardSigner({ accounts: [], features: {} }, 'solana:mainnet'), WalletError);
});

test('a node of another cluster is refused', async () => {
  const signer = await solanaKeypair(Keypair.generate().secretKey);
  const wallet = solanaWallet({ signer, rpc: async () => '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d' });
  await wallet.connect('solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp');
  await assert.rejects(
    wallet.connect('solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'),
    (error) => error instanceof WalletError && error.reason === 'chain',
  );
});
