// Compiles the contracts and writes artifacts/*.json; with --check compares instead of writing. With --input FOLDER it
// writes there all sources and the compiler's standard JSON input (input.json), for tools that compile by themselves.
// Everything that goes into the compiler is named by relative paths, so the result is the same on every machine.
import { createRequire } from 'node:module';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const modules = join(here, '..', '.tools', 'npm', 'node_modules');
const require = createRequire(import.meta.url);
const solc = require(join(modules, 'solc'));
const { immutablesOf } = require('./immutables.cjs');

const CONTRACTS = [
  'GatewayEscrow', 'FulfillmentProxy', 'AccountProbe', 'AccountDeposit', 'DevToken', 'DevAccountFactory',
  'DevHostileAccount', 'DevWrappedCoin', 'DevStablecoin', 'PermittedDeposit', 'DepositAddresses', 'DepositAddress',
  'TronDepositAddresses', 'OfferAddresses', 'PaymentBatches', 'Mandates',
];
// What explorers are shown.
const PUBLISHED = [
  'GatewayEscrow', 'FulfillmentProxy', 'DepositAddresses', 'TronDepositAddresses', 'OfferAddresses', 'PaymentBatches',
  'Mandates',
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
    outputSelection: {
      '*': {
        '*': ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object', 'evm.deployedBytecode.immutableReferences'],
        '': ['ast'],
      },
    },
  },
};
// Contracts with all that they import.
const sourcesOf = (contracts) => {
  const sources = {};
  const add = (name) => {
    if (sources[name]) return;
    const content = readSource(name);
    sources[name] = { content };
    for (const [, path] of content.matchAll(/^import\s[^;]*?"([^"]+)";/gms)) {
      add(path.startsWith('.') ? posix.join(posix.dirname(name), path) : path);
    }
  };
  for (const name of contracts) add(`src/${name}.sol`);
  return sources;
};
const inputAt = process.argv.indexOf('--input');
if (inputAt > 0) {
  const sources = sourcesOf(CONTRACTS);
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
const put = (path, text, about) => {
  if (check) {
    const same = existsSync(join(here, path)) && readFileSync(join(here, path), 'utf8') === text;
    console.log(`${path}: ${same ? 'reproduced' : 'DIFFERS from what the sources give'} (${about})`);
    if (!same) stale.push(path);
  } else {
    writeFileSync(join(here, path), text);
    console.log(`${path}: written (${about})`);
  }
};
for (const contractName of CONTRACTS) {
  const { abi, evm } = output.contracts[`src/${contractName}.sol`][contractName];
  const artifact = {
    contractName,
    abi,
    bytecode: `0x${evm.bytecode.object}`,
    deployedBytecode: `0x${evm.deployedBytecode.object}`,
    immutables: immutablesOf(output.sources, evm.deployedBytecode.immutableReferences),
    compiler: { version: solc.version().replace(/\.Emscripten.*$/, ''), evmVersion: EVM_VERSION, runs: RUNS },
  };
  const size = evm.deployedBytecode.object.length / 2;
  put(join('artifacts', `${contractName}.json`), `${JSON.stringify(artifact, null, 2)}\n`, `${size} bytes of code`);
}

// Uniswap's Permit2, which scripts/tools/permit2.cjs has compiled from its published sources with its published settings.
const permit2 = readFileSync(join(here, '..', '.tools', 'permit2', 'Permit2.json'), 'utf8');
put(join('artifacts', 'Permit2.json'), permit2, `${JSON.parse(permit2).deployedBytecode.length / 2 - 1} bytes of code`);

// What an explorer is given to compile the contracts of a payment by itself. It has to come to the same code.
const standard = {
  language: input.language,
  sources: sourcesOf(PUBLISHED),
  settings: { ...input.settings, outputSelection: { '*': { '*': ['evm.bytecode.object', 'evm.deployedBytecode.object'] } } },
};
const byExplorer = JSON.parse(solc.compile(JSON.stringify(standard)));
for (const contractName of PUBLISHED) {
  const path = `src/${contractName}.sol`;
  const code = (from) => from.contracts[path][contractName].evm.bytecode.object;
  if (code(byExplorer) !== code(output)) throw new Error(`${contractName} compiles to other code by standard-input.json`);
}
put(join('artifacts', 'standard-input.json'), `${JSON.stringify(standard, null, 1)}\n`, PUBLISHED.join(', '));

if (stale.length > 0) {
  console.error('run contracts/build.sh and commit the artefacts');
  process.exit(1);
}
