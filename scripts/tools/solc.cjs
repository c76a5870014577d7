// A native-looking solc over the npm compiler, as far as forge needs it: `--version` and `--standard-json`.
// Usage: node solc.cjs <npm module of the compiler> <solc arguments>
'use strict';
const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const [moduleName, ...args] = process.argv.slice(2);
const solc = require(join(__dirname, '..', '..', '.tools', 'npm', 'node_modules', moduleName));

if (args.includes('--version')) {
  console.log(`solc, the solidity compiler commandline interface\nVersion: ${solc.version()}`);
} else if (args.includes('--standard-json')) {
  // forge puts every source into the request, so an import that is missing is an error and never a file to find.
  process.stdout.write(solc.compile(readFileSync(0, 'utf8')));
} else {
  console.error('only --version and --standard-json are known');
  process.exit(2);
}
