// How the scripts and styles of the pages are bundled.
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

/** What the SDK needs of npm. It is taken from here, whether the SDK's own packages are there or not: `dist/` must not differ by it. */
const OF_THE_SDK = ['@noble/ed25519', '@noble/hashes', '@noble/secp256k1', '@scure/base'];

/** Where each page begins: `page` is what payers see, `console` what operators do. */
export const ENTRIES = { page: 'src/main.tsx', console: 'src/console/main.tsx' };

/** For esbuild, of one of `ENTRIES`. The SDK is bundled from its source. */
export const optionsOf = (name) => ({
  absWorkingDir: at('.'),
  entryPoints: { [name]: ENTRIES[name] },
  outdir: 'dist',
  bundle: true,
  format: 'iife',
  target: ['es2022', 'chrome110', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  alias: Object.fromEntries(OF_THE_SDK.map((name) => [name, at(`node_modules/${name}`)])),
  charset: 'utf8',
  legalComments: 'none',
  logLevel: 'warning',
});
