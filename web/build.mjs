// Builds dist/ from src/ and data/. With --check it writes nothing, and fails where dist/ is not what these give.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

import { options } from './bundle.mjs';
import { build } from 'esbuild';

/** Characters of the hash that names the script. */
const HASH_CHARS = 16;

const dist = (name) => fileURLToPath(new URL(`dist/${name}`, import.meta.url));

/** The licences of the packages that are in the script. */
function licences(inputs) {
  const names = Object.keys(inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  const texts = [...new Set(names.filter(Boolean))].sort().map((name) => {
    const file = (base) => fileURLToPath(new URL(`node_modules/${name}/${base}`, import.meta.url));
    const { version } = JSON.parse(readFileSync(file('package.json'), 'utf8'));
    const licence = ['LICENSE', 'LICENSE.md'].map(file).find(existsSync);
    if (!licence) throw new Error(`${name} comes without a licence`);
    return `${name} ${version}\n\n${readFileSync(licence, 'utf8').trim()}\n`;
  });
  return Buffer.from(texts.join('\n----\n\n'));
}

async function made() {
  const { outputFiles, metafile } = await build({ ...options, write: false, minify: true, metafile: true });
  const of = (end) => Buffer.from(outputFiles.find(({ path }) => path.endsWith(end)).contents);
  const [script, style] = [of('page.js'), of('page.css')];
  const hash = createHash('sha256').update(script).digest('hex').slice(0, HASH_CHARS);
  return { script, style, hash, notices: licences(metafile.inputs) };
}

const { script, style, hash, notices } = await made();
if (process.argv[2] === '--check') {
  const differ = [
    // Versions of zlib compress differently.
    ['page.js.gz', !gunzipSync(readFileSync(dist('page.js.gz'))).equals(script)],
    ['page.css', !readFileSync(dist('page.css')).equals(style)],
    ['LICENSES.txt', !readFileSync(dist('LICENSES.txt')).equals(notices)],
    ['page.hash', readFileSync(dist('page.hash'), 'utf8') !== hash],
  ].filter(([, differs]) => differs).map(([name]) => name);
  if (differ.length) {
    console.error(`web: dist/${differ.join(', dist/')} is not what the sources give: run web/build.sh`);
    process.exit(1);
  }
} else {
  const compressed = gzipSync(script, { level: 9 });
  writeFileSync(dist('page.js.gz'), compressed);
  writeFileSync(dist('page.css'), style);
  writeFileSync(dist('LICENSES.txt'), notices);
  writeFileSync(dist('page.hash'), hash);
  console.log(`page.js ${script.length} bytes, ${compressed.length} compressed; page.css ${style.length} bytes`);
}
