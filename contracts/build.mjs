// Compiles the contracts and writes artifacts/*.json; with --check compares instead of writing. With --input FOLDER it
// writes there all sources and the compiler's standard JSON input (input.json), for tools that compile by themselves.
// Everything that goes into the compiler is named by relative paths, so the result is the same on every machine.
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, '..', '.tools', 'npm', 'node_modules');
const solc = createRequire(import.meta.url)(join(modules, 'solc'));

const CONTRACTS = [
  'GatewayEscrow', 'FulfillmentProxy', 'AccountProbe', 'AccountDeposit', 'DevToken', 'DevAccountFactory',
  'DevHostileAccount', 'DevWrappedCoin',
];
const EVM_VERSION = 'paris';
const RUNS = 10_000;

const readSource = (name) =>
  readFileSync(name.startsWith('@') ? join(modules, name) : join(here, name), 'utf8');

const input = {
  language: 'Solidity',
  sources: Object.fromEntries(CONTRACTS.map((c) => [`src/${c}.sol`, { content: readSource(`src/${c}.sol`) }])),
  settings: {
    evmVersion: EVM_VERSION,
    optimizer: { enabled: true, runs: RUNS },
    metadata: { bytecodeHash: 'none' },
    outputSelection: { '*': { '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object'] } },
  },
};
const inputAt = process.argv.indexOf('--input');
if (inputAt > 0) {
  const sources = {};
  const add = (name) => {
    if (sources[name]) return;
    const content = readSource(name);
    sources[name] = { content };
    for (const [, path] of content.matchAll(/^import\s[^;]*?"([^"]+)";/gms)) {
      add(path.startsWith('.') ? posix.join(posix.dirname(name), path) : path);
    }
  };
  for (const name of CONTRACTS) add(`src/${name}.sol`);
  input.sources = sources;
  input.settings.outputSelection = {
    '*': { '*': ['abi', 'evm.bytecode', 'evm.deployedBytecode', 'userdoc', 'devdoc'], '': ['ast'] },
  };
  const folder = process.argv[inputAt + 1];
  for (const [name, { content }] of Object.entries(sources)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  writeFileSync(join(folder, 'input.json'), JSON.stringify(input));
  process.exit(0);
}
const resolveImport = (name) => {
  try {
    return { contents: readSource(name) };
  } catch (e) {
    return { error: e.message };
  }
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: resolveImport }));
for (const e of output.errors ?? []) console.error(e.formattedMessage);
if ((output.errors ?? []).length > 0) process.exit(1);

const check = process.argv.includes('--check');
const stale = [];
mkdirSync(join(here, 'artifacts'), { recursive: true });
for (const contractName of CONTRACTS) {
  const { abi, evm } = output.contracts[`src/${contractName}.sol`][contractName];
  const artifact = {
    contractName,
    abi,
    bytecode: `0x${evm.bytecode.object}`,
    deployedBytecode: `0x${evm.deployedBytecode.object}`,
    compiler: { version: solc.version().replace(/\.Emscripten.*$/, ''), evmVersion: EVM_VERSION, runs: RUNS },
  };
  const text = `${JSON.stringify(artifact, null, 2)}\n`;
  const path = join('artifacts', `${contractName}.json`);
  const size = evm.deployedBytecode.object.length / 2;
  if (check) {
    const same = existsSync(join(here, path)) && readFileSync(join(here, path), 'utf8') === text;
    console.log(`${path}: ${same ? 'reproduced' : 'DIFFERS from what the sources give'} (${size} bytes of code)`);
    if (!same) stale.push(path);
  } else {
    writeFileSync(join(here, path), text);
    console.log(`${path}: written (${size} bytes of code)`);
  }
}
if (stale.length > 0) {
  console.error('run contracts/build.sh and commit the artefacts');
  process.exit(1);
}
