// What a wallet does, by tronweb as it comes from npm, against a development node that makes blocks on demand.
//
//   node wallet.mjs <node_modules> <url> <artefact of a TRC-20 that anyone mints> <blocks to solidify>
//
// Ends with the words "all as it should be", or with the assertion that failed.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [modules, url, artefact, lag] = process.argv.slice(2);
const { TronWeb, utils } = createRequire(`${modules}/`)('tronweb');
const { abi, bytecode } = JSON.parse(readFileSync(artefact, 'utf8'));
const TRX = 1_000_000;

async function dev(name, body) {
  const response = await fetch(`${url}/dev/${name}`, { method: 'POST', body: JSON.stringify(body ?? {}) });
  const answer = await response.json();
  assert.equal(response.status, 200, `/dev/${name}: ${JSON.stringify(answer)}`);
  return answer;
}
const mine = (blocks = 1) => dev('mine', { blocks });
const words = (hex) => Buffer.from(hex, 'hex').toString();

async function account(sun) {
  const { privateKey, address } = utils.accounts.generateAccount();
  if (sun) await dev('fund', { address: address.base58, sun });
  const web = new TronWeb({ fullHost: url, privateKey: privateKey.replace(/^0x/, '') });
  return { web, key: privateKey.replace(/^0x/, ''), address: address.base58, hex: address.hex.toLowerCase() };
}

// Signed by its owner, sent, in a block.
async function sent(from, transaction) {
  const answer = await from.web.trx.sendRawTransaction(await from.web.trx.sign(transaction, from.key));
  assert.equal(answer.result, true, JSON.stringify(answer));
  await mine();
  return from.web.trx.getUnconfirmedTransactionInfo(answer.txid);
}

// Signed by its owner, sent, refused with a code.
async function refused(from, transaction, code, text) {
  const signed = transaction.signature ? transaction : await from.web.trx.sign(transaction, from.key);
  const answer = await from.web.trx.sendRawTransaction(signed);
  assert.equal(answer.code, code, JSON.stringify(answer));
  assert.equal(answer.result, undefined);
  assert.match(words(answer.message), text);
}

const alice = await account(10_000 * TRX);
const bob = await account(1_000 * TRX);
const { web } = alice;

// The network, as it shows itself.
assert.deepEqual(await web.isConnected(), { fullNode: true, solidityNode: true, eventServer: false });
assert.equal((await web.trx.getBlock('earliest')).blockID.slice(-8), (2494104990).toString(16));
assert.equal(await web.trx.getEnergyPrices(), '0:100');
assert.equal(await web.trx.getBandwidthPrices(), '0:1000');
const parameters = await web.trx.getChainParameters();
assert.equal(parameters.find(({ key }) => key === 'getEnergyFee').value, 100);
assert.match((await web.trx.getNodeInfo()).configNodeInfo.codeVersion, /no Tron node/);
assert.deepEqual(await web.trx.listNodes(), []);
assert.equal((await web.trx.listSuperRepresentatives()).length, 27);

// TRX: to an account that this makes, then to it again.
assert.equal(await web.trx.getBalance(alice.address), 10_000 * TRX);
assert.deepEqual(await web.trx.getUnconfirmedAccount((await account()).address), {});
const carol = await account();
const first = await sent(alice, await web.transactionBuilder.sendTrx(carol.address, 5 * TRX, alice.address));
assert.equal(first.fee, 1_100_000);
assert.equal(first.receipt.net_fee, 100_000);
assert.equal(first.receipt.result, undefined);
assert.equal(await web.trx.getUnconfirmedBalance(carol.address), 5 * TRX);
assert.equal(await web.trx.getUnconfirmedBalance(alice.address), 10_000 * TRX - 5 * TRX - 1_100_000);
const second = await sent(alice, await web.transactionBuilder.sendTrx(carol.address, 1, alice.address));
assert.equal(second.fee, undefined);
assert.ok(second.receipt.net_usage > 200 && second.receipt.net_usage < 300);
assert.equal(await web.trx.getBandwidth(alice.address), 600 - second.receipt.net_usage);
assert.equal((await web.trx.getAccountResources(alice.address)).freeNetUsed, second.receipt.net_usage);

// In a block is not solidified.
assert.deepEqual(await web.trx.getTransactionInfo(second.id), {});
await assert.rejects(web.trx.getConfirmedTransaction(second.id), /Transaction not found/);
assert.equal(await web.trx.getBalance(carol.address), 0);
await mine(Number(lag));
assert.deepEqual(await web.trx.getTransactionInfo(second.id), second);
assert.equal((await web.trx.getConfirmedTransaction(second.id)).ret[0].contractRet, 'SUCCESS');
assert.equal(await web.trx.getBalance(carol.address), 5 * TRX + 1);
const raw = await web.trx.raw.getTransactionInfo(second.id);
assert.equal(raw.receipt.net_usage, String(second.receipt.net_usage));
const held = await web.trx.getBlock(second.blockNumber);
assert.equal(held.transactions[0].txID, second.id);
assert.equal((await web.trx.getBlock(held.blockID)).block_header.raw_data.number, second.blockNumber);
assert.equal((await web.trx.getBlockRange(0, second.blockNumber)).length, second.blockNumber + 1);

// A TRC-20.
const deployment = await web.transactionBuilder.createSmartContract({
  abi, bytecode, parameters: ['Development USD', 'dUSD', 6], name: 'DevToken', feeLimit: 1_000 * TRX,
}, alice.address);
const deployed = await sent(alice, deployment);
assert.equal(deployed.receipt.result, 'SUCCESS');
assert.equal(deployed.contract_address, deployment.contract_address);
assert.equal(deployed.receipt.energy_fee, deployed.receipt.energy_usage_total * 100);
assert.equal(deployed.fee, deployed.receipt.energy_fee + (deployed.receipt.net_fee ?? 0));
const info = await web.trx.getContractInfo(deployment.contract_address);
assert.equal(info.runtimecode, deployed.contractResult[0]);
const token = await web.contract().at(deployment.contract_address);
assert.equal(await token.name().call(), 'Development USD');
assert.equal(await token.decimals().call(), 6n);

async function call(from, signature, parameters, options = {}) {
  const built = await from.web.transactionBuilder.triggerSmartContract(
    deployment.contract_address, signature, { feeLimit: 100 * TRX, ...options }, parameters, from.address);
  return built.transaction;
}
const to = (someone, amount) => [{ type: 'address', value: someone.address }, { type: 'uint256', value: amount }];

const minted = await token.mint(alice.address, 1_000).send({ feeLimit: 100 * TRX });
await mine();
assert.equal((await web.trx.getUnconfirmedTransactionInfo(minted)).receipt.result, 'SUCCESS');
assert.equal(await token.balanceOf(alice.address).call(), 1_000n);
const approved = await sent(alice, await call(alice, 'approve(address,uint256)', to(bob, 300)));
assert.equal(approved.receipt.result, 'SUCCESS');
assert.equal(await token.allowance(alice.address, bob.address).call(), 300n);
const pulled = await sent(bob, await call(bob, 'transferFrom(address,address,uint256)', [
  { type: 'address', value: alice.address }, ...to(carol, 250)]));
assert.equal(pulled.receipt.result, 'SUCCESS');
const moved = await sent(alice, await call(alice, 'transfer(address,uint256)', to(bob, 100)));
assert.equal(await token.balanceOf(alice.address).call(), 650n);
assert.equal(await token.balanceOf(bob.address).call(), 100n);
assert.equal(await token.balanceOf(carol.address).call(), 250n);

// Its event.
const [log] = moved.log;
assert.equal(log.address, deployment.contract_address.slice(2).toLowerCase());
assert.equal(log.topics[0], TronWeb.sha3('Transfer(address,address,uint256)', false));
assert.equal(`41${log.topics[1].slice(24)}`, alice.hex);
assert.equal(`41${log.topics[2].slice(24)}`, bob.hex);
assert.equal(BigInt(`0x${log.data}`), 100n);
assert.deepEqual(moved.contractResult, ['1'.padStart(64, '0')]);
assert.ok((await web.transactionBuilder.estimateEnergy(deployment.contract_address, 'transfer(address,uint256)', {},
  to(bob, 1), alice.address)).energy_required > 10_000);

// Included is not succeeded: more than there is.
await assert.rejects(web.transactionBuilder.triggerConstantContract(
  deployment.contract_address, 'transfer(address,uint256)', {}, to(bob, 651), alice.address), /REVERT opcode executed/);
const reverted = await sent(alice, await call(alice, 'transfer(address,uint256)', to(bob, 651)));
assert.equal(reverted.result, 'FAILED');
assert.equal(reverted.receipt.result, 'REVERT');
assert.equal(words(reverted.resMessage), 'REVERT opcode executed');
assert.equal(reverted.contractResult[0].slice(0, 8),
  TronWeb.sha3('ERC20InsufficientBalance(address,uint256,uint256)', false).slice(0, 8));
assert.equal(reverted.log, undefined);
assert.ok(reverted.receipt.energy_usage_total > 0 && reverted.receipt.energy_usage_total < 100_000);
const polled = token.transfer(bob.address, 651).send({ feeLimit: 100 * TRX, shouldPollResponse: true, pollTimes: 3 });
const settled = assert.rejects(polled, /REVERT opcode executed/);
while ((await (await fetch(`${url}/dev/status`)).json()).pending === 0) await new Promise((go) => setTimeout(go, 20));
await mine(Number(lag) + 1);
await settled;

// Too little energy: all of it is spent.
const starved = await sent(alice, await call(alice, 'transfer(address,uint256)', to(bob, 1), { feeLimit: 500_000 }));
assert.equal(starved.receipt.result, 'OUT_OF_ENERGY');
assert.equal(starved.result, 'FAILED');
assert.equal(starved.receipt.energy_usage_total, 5_000);
assert.equal(starved.receipt.energy_fee, 500_000);
assert.equal((await web.trx.getTransaction(starved.id)).ret[0].contractRet, 'OUT_OF_ENERGY');
assert.equal(await token.balanceOf(alice.address).call(), 650n);

// Refusals.
const { block_header: { raw_data: now } } = await web.trx.getCurrentBlock();
const good = await web.trx.getCurrentRefBlockParams();
const build = (changes) =>
  web.transactionBuilder.sendTrx(bob.address, 1, alice.address, { blockHeader: { ...good, ...changes } });
await refused(alice, await build({ expiration: now.timestamp }), 'TRANSACTION_EXPIRATION_ERROR', /Transaction expired/);
await refused(alice, await build({ expiration: now.timestamp + 86_400_001 }), 'TRANSACTION_EXPIRATION_ERROR', /expired/);
await refused(alice, await build({ ref_block_hash: '00'.repeat(8) }), 'TAPOS_ERROR', /Tapos check error/);
const late = await web.trx.sign(await build({}), alice.key);
const forged = { ...late, signature: [(await bob.web.trx.sign(
  await bob.web.transactionBuilder.sendTrx(alice.address, 1, bob.address), bob.key)).signature[0]] };
await refused(alice, forged, 'SIGERROR', /Validate signature error/);
await dev('time', { advance_ms: 61_000 });
await mine();
await refused(alice, late, 'TRANSACTION_EXPIRATION_ERROR', /Transaction expired/);
const twice = await web.trx.sign(await web.transactionBuilder.sendTrx(bob.address, 2, alice.address), alice.key);
assert.equal((await web.trx.sendRawTransaction(twice)).result, true);
await refused(alice, twice, 'DUP_TRANSACTION_ERROR', /Dup transaction/);
await mine();
await refused(alice, twice, 'DUP_TRANSACTION_ERROR', /Dup transaction/);
await refused(alice, await web.transactionBuilder.sendTrx(bob.address, 20_000 * TRX, alice.address),
  'CONTRACT_VALIDATE_ERROR', /balance is not sufficient/);
await refused(alice, await web.transactionBuilder.sendTrx(deployment.contract_address, 1, alice.address),
  'CONTRACT_VALIDATE_ERROR', /Cannot transfer TRX to a smartContract/);
await refused(alice, await web.transactionBuilder.sendToken(bob.address, 1, '1000001', alice.address),
  'CONTRACT_VALIDATE_ERROR', /TransferAssetContract is not supported/);
await assert.rejects(web.transactionBuilder.triggerSmartContract(bob.address, 'f()', {}, [], alice.address),
  /No contract or not a valid smart contract/);
const dave = await account(1);
await dev('fund', { address: dave.address, sun: 299_999 });
const free = await sent(dave, await dave.web.transactionBuilder.sendTrx(bob.address, 1, dave.address));
assert.ok(free.receipt.net_usage > 0);
await sent(dave, await dave.web.transactionBuilder.sendTrx(bob.address, 100_000, dave.address));
await refused(dave, await dave.web.transactionBuilder.sendTrx(bob.address, 2, dave.address),
  'BANDWITH_ERROR', /Account resource insufficient/);

// A memo, and a transaction in hex.
const plain = await web.transactionBuilder.sendTrx(bob.address, 3, alice.address);
const noted = await web.trx.sign(await web.transactionBuilder.addUpdateData(plain, 'thanks', 'utf8'), alice.key);
const message = utils.transaction.txJsonToPb(noted);
message.addSignature(Uint8Array.from(Buffer.from(noted.signature[0], 'hex')));
const answer = await web.trx.sendHexTransaction(Buffer.from(message.serializeBinary()).toString('hex'));
assert.equal(answer.result, true, JSON.stringify(answer));
assert.equal(answer.transaction.txID, noted.txID);
await mine();
assert.equal((await web.trx.getUnconfirmedTransactionInfo(noted.txID)).fee >= TRX, true);
assert.equal(words((await web.trx.getTransaction(noted.txID)).raw_data.data), 'thanks');
const approvals = await web.trx.getApprovedList(noted);
assert.deepEqual(approvals.approved_list, [alice.hex]);
assert.equal((await web.trx.getSignWeight(noted)).current_weight, 1);

// A fork: what was in its blocks waits again, and comes again.
const kept = await sent(alice, await web.transactionBuilder.sendTrx(bob.address, 4, alice.address));
const before = await web.trx.getBlock(kept.blockNumber);
await dev('fork', { blocks: 1 });
assert.deepEqual(await web.trx.getUnconfirmedTransactionInfo(kept.id), {});
await mine();
const again = await web.trx.getUnconfirmedTransactionInfo(kept.id);
assert.equal(again.blockNumber, kept.blockNumber);
assert.notEqual((await web.trx.getBlock(kept.blockNumber)).blockID, before.blockID);

console.log('all as it should be');
