// Compiles Uniswap's Permit2 from its published sources with its published settings.
// Usage: node permit2.cjs <output file>
'use strict';
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const { dirname, join } = require('node:path');

const modules = join(__dirname, '..', '..', '.tools', 'npm', 'node_modules');
const solc = require(join(modules, 'solc-0.8.17'));
const { immutablesOf } = require(join(__dirname, '..', '..', 'contracts', 'immutables.cjs'));
const root = join(modules, '@uniswap', 'v4-periphery', 'lib', 'permit2');
const RUNS = 1_000_000;

const readSource = (name) => {
  const path = name.startsWith('solmate/') ? join('lib', 'solmate', name.slice('solmate/'.length)) : name;
  return { contents: readFileSync(join(root, path), 'utf8') };
};
const input = {
  language: 'Solidity',
  sources: { 'src/Permit2.sol': { content: readSource('src/Permit2.sol').contents } },
  settings: {
    viaIR: true,
    optimizer: { enabled: true, runs: RUNS },
    metadata: { bytecodeHash: 'none' },
    outputSelection: {
      '*': { '': ['ast'] },
      'src/Permit2.sol': {
        Permit2: ['abi', 'evm.bytecode.object', 'evm.deployedBytecode.object', 'evm.deployedBytecode.immutableReferences'],
      },
    },
  },
};
const output = JSON.parse(solc.compile(JSON.stringify(input), { import: readSource }));
const errors = (output.errors ?? []).filter((e) => e.severity === 'error');
if (errors.length > 0) {
  for (const e of errors) console.error(e.formattedMessage);
  process.exit(1);
}
const { abi, evm } = output.contracts['src/Permit2.sol'].Permit2;
const file = process.argv[2];
mkdirSync(dirname(file), { recursive: true });
const artifact = {
  contractName: 'Permit2',
  abi,
  bytecode: `0x${evm.bytecode.object}`,
  deployedBytecode: `0x${evm.deployedBytecode.object}`,
  immutables: immutablesOf(output.sources, evm.deployedBytecode.immutableReferences),
  compiler: { version: solc.version().replace(/\.Emscripten.*$/, ''), viaIR: true, runs: RUNS },
};
writeFileSync(`${file}.new`, `${JSON.stringify(artifact, null, 2)}\n`);
renameSync(`${file}.new`, file);
