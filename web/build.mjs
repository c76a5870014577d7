// Builds dist/ from src/ and data/. With --check it writes nothing, and fails where dist/ is not what these give.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { gunzipSync, gzipSync } from 'node:zlib';
import { fileURLToPath } from 'node:url';

import { ENTRIES, optionsOf } from './bundle.mjs';
import { build } from 'esbuild';

/** Characters of the hash that names the script. */
const HASH_CHARS = 16;

const dist = (name) => fileURLToPath(new URL(`dist/${name}`, import.meta.url));

/** The licences of the packages that are in the scripts. */
function licences(inputs) {
  const names = inputs.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  const texts = [...new Set(names.filter(Boolean))].sort().map((name) => {
    const file = (base) => fileURLToPath(new URL(`node_modules/${name}/${base}`, import.meta.url));
    const { version } = JSON.parse(readFileSync(file('package.json'), 'utf8'));
    const licence = ['LICENSE', 'LICENSE.md'].map(file).find(existsSync);
    if (!licence) throw new Error(`${name} comes without a licence`);
    return `${name} ${version}\n\n${readFileSync(licence, 'utf8').trim()}\n`;
  });
  return Buffer.from(texts.join('\n----\n\n'));
}

async function made(name) {
  const { outputFiles, metafile } = await build({ ...optionsOf(name), write: false, minify: true, metafile: true });
  const of = (end) => Buffer.from(outputFiles.find(({ path }) => path.endsWith(end)).contents);
  const [script, style] = [of(`${name}.js`), of(`${name}.css`)];
  const hash = createHash('sha256').update(script).digest('hex').slice(0, HASH_CHARS);
  return { name, script, style, hash, inputs: Object.keys(metafile.inputs) };
}

const pages = await Promise.all(Object.keys(ENTRIES).map(made));
const notices = licences(pages.flatMap(({ inputs }) => inputs));
if (process.argv[2] === '--check') {
  const differs = (file, wanted, read = (bytes) => bytes) => !existsSync(dist(file)) || !read(readFileSync(dist(file))).equals(wanted);
  const differ = [
    ...pages.flatMap(({ name, script, style, hash }) => [
      // Versions of zlib compress differently.
      [`${name}.js.gz`, differs(`${name}.js.gz`, script, gunzipSync)],
      [`${name}.css`, differs(`${name}.css`, style)],
      [`${name}.hash`, differs(`${name}.hash`, Buffer.from(hash))],
    ]),
    ['LICENSES.txt', differs('LICENSES.txt', notices)],
  ].filter(([, isOther]) => isOther).map(([name]) => name);
  if (differ.length) {
    console.error(`web: dist/${differ.join(', dist/')} is not what the sources give: run web/build.sh`);
    process.exit(1);
  }
} else {
  for (const { name, script, style, hash } of pages) {
    const compressed = gzipSync(script, { level: 9 });
    writeFileSync(dist(`${name}.js.gz`), compressed);
    writeFileSync(dist(`${name}.css`), style);
    writeFileSync(dist(`${name}.hash`), hash);
    console.log(`${name}.js ${script.length} bytes, ${compressed.length} compressed; ${name}.css ${style.length} bytes`);
  }
  writeFileSync(dist('LICENSES.txt'), notices);
}
