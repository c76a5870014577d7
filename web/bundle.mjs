// How the page's script and style are bundled.
import { fileURLToPath } from 'node:url';

const at = (path) => fileURLToPath(new URL(path, import.meta.url));

/** What the SDK needs of npm. It is taken from here, whether the SDK's own packages are there or not: `dist/` must not differ by it. */
const OF_THE_SDK = ['@noble/ed25519', '@noble/hashes', '@noble/secp256k1', '@scure/base'];

/** For esbuild. The SDK is bundled from its source. */
export const options = {
  absWorkingDir: at('.'),
  entryPoints: { page: 'src/main.tsx' },
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
};
