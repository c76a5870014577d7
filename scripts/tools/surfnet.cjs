// A Solana runtime in one process, on a port of its own choice:
//   node surfnet.cjs <folder of scripts/tools.sh's npm packages> <milliseconds per slot> <file to write when it is ready>
// The file holds the address as JSON. The process ends when the one that started it has ended.
'use strict';

const fs = require('node:fs');
const path = require('node:path');

const [packages, slotTimeMs, ready] = process.argv.slice(2);
const scope = path.join(packages, 'node_modules', '@solana');
// Only the package of this platform is installed.
const found = fs.existsSync(scope) ? fs.readdirSync(scope).filter((name) => name.startsWith('surfpool-')) : [];
if (found.length !== 1) {
  console.error(`no Solana runtime for ${process.platform}-${process.arch} among the npm packages`);
  process.exit(1);
}
const { Surfnet } = require(path.join(scope, found[0]));
const surfnet = Surfnet.startWithConfig({
  offline: true,
  blockProductionMode: 'clock',
  slotTimeMs: Number(slotTimeMs),
});

fs.writeFileSync(`${ready}.new`, JSON.stringify({ url: surfnet.rpcUrl }));
fs.renameSync(`${ready}.new`, ready);

const parent = process.ppid;
setInterval(() => {
  // It keeps a thousand events, a slot each, for whoever reads them, and stands still when nobody does. Named here it is
  // not collected as garbage either, which would end the chain.
  surfnet.drainEvents();
  if (process.ppid === parent) return;
  surfnet.stop();
  process.exit(0);
}, 250);
