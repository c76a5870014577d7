// Packs the package, installs the tarball into an empty folder, loads it there, and compiles a consumer with strict TypeScript.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const { devDependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'));
const CONSUMER = `
import { Gateway, GatewayError, nextStep, parseAmount, type PayResult, type Wallet } from 'gateway-client';
import { evmWallet } from 'gateway-client/evm';
import { solanaKeypair, solanaWallet } from 'gateway-client/solana';
import { tronKey, tronWallet } from 'gateway-client/tron';
import { privateKeyToAccount } from 'viem/accounts';

const gateway = new Gateway('https://pay.example', { timeoutMs: 1000 });
export async function pay(): Promise<PayResult['status']['status']> {
  const wallets: Wallet[] = [
    await evmWallet({ account: privateKeyToAccount('0x01'), rpc: 'https://rpc.example' }),
    solanaWallet({ signer: await solanaKeypair(new Uint8Array(64)), rpc: 'https://rpc.example' }),
    tronWallet({ signer: tronKey('01'), node: 'https://rpc.example' }),
  ];
  try {
    const order = { source: { asset: 'eip155:1/erc20:0x' }, destination: { asset: 'eip155:10/slip44:60', account: '0x' }, amount: 1n, maxSource: parseAmount('1', 6) };
    const { status } = await gateway.pay(order, wallets[0]!, { trust: { escrow: '0x' }, onStep: ({ step }) => console.log(step) });
    for await (const entry of gateway.watch(status.payment_id)) console.log(entry.event, entry.transactions?.deposit?.transaction_hash);
    return status.status;
  } catch (error) {
    if (error instanceof GatewayError && nextStep(error) === 'fix') console.log(error.code, error.field);
    throw error;
  }
}
`;

const folder = mkdtempSync(join(tmpdir(), 'gateway-client-'));
const run = (cwd, command, ...parameters) =>
  execFileSync(command, parameters, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const [packed] = JSON.parse(run(ROOT, 'npm', 'pack', '--json', '--pack-destination', folder));
  const names = packed.files.map(({ path }) => path);
  for (const name of [
    'LICENSE',
    'README.md',
    'dist/index.js',
    'dist/index.d.ts',
    'dist/evm/index.js',
    'dist/solana/index.js',
    'dist/tron/index.js',
  ]) {
    if (!names.includes(name)) throw new Error(`${name} is not in the package`);
  }
  const stray = names.filter((name) => !/^(?:dist|src)\/|^(?:LICENSE|README\.md|package\.json)$/.test(name));
  if (stray.length) throw new Error(`the package holds ${stray}`);
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }));
  const tools = ['viem', 'typescript'].map((name) => `${name}@${devDependencies[name]}`);
  run(folder, 'npm', 'install', '--no-audit', '--no-fund', `./${packed.filename}`, ...tools);
  const loaded =
    "for (const name of ['', '/evm', '/solana', '/tron']) console.log(Object.keys(await import('gateway-client' + name)).length > 0 || process.exit(1))";
  run(folder, 'node', '--input-type=module', '-e', loaded);
  run(folder, 'node', '-e', "require('node:assert').ok(import('gateway-client'))");
  writeFileSync(join(folder, 'consumer.ts'), CONSUMER);
  const libraries = ['--lib', 'es2022,dom,dom.asynciterable', '--skipLibCheck', 'false'];
  for (const resolution of [
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    run(
      folder,
      'npx',
      'tsc',
      '--noEmit',
      '--strict',
      '--target',
      'es2022',
      '--module',
      resolution[0],
      '--moduleResolution',
      resolution[1],
      ...libraries,
      'consumer.ts',
    );
  }
  console.log(`${packed.filename}: ${packed.size} bytes, ${names.length} files; installed, loaded and compiled`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
