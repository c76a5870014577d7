// Builds dist/ from src/ and page/, and types/ from the comments in src/. With --check it writes nothing and fails where
// they are not what these give. esbuild, and what the page needs of npm, are those of web/.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const HOME = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HOME, "../../../..");
const OWN = join(HOME, "../../node_modules");
const WEB = join(ROOT, "web/node_modules");
const ENTRIES = ["client", "server", "store", "evm", "solana", "paywall"];

const { build } = createRequire(join(WEB, "x"))("esbuild");
const shared = {
  absWorkingDir: ROOT,
  bundle: true,
  write: false,
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
};

/** Every package of the page is taken from web/, whether other copies are there or not: dist/ must not differ by it. */
const fromWeb = {
  name: "from-web",
  setup(bundler) {
    bundler.onResolve({ filter: /^[@a-z]/ }, ({ path, importer, kind, pluginData }) => {
      if (pluginData === fromWeb || kind === "entry-point" || importer.includes("node_modules")) return undefined;
      return bundler.resolve(path, { resolveDir: dirname(WEB), kind, importer, pluginData: fromWeb });
    });
  },
};

async function page() {
  const { outputFiles, metafile } = await build({
    ...shared,
    entryPoints: { page: join(HOME, "page/main.tsx") },
    outdir: join(HOME, "dist"),
    format: "iife",
    minify: true,
    metafile: true,
    target: ["es2022", "chrome110", "firefox115", "safari16.4"],
    conditions: ["browser"],
    jsx: "automatic",
    jsxImportSource: "preact",
    tsconfigRaw: {},
    plugins: [fromWeb],
  });
  const of = (end) => outputFiles.find(({ path }) => path.endsWith(end)).text.trimEnd();
  const [script, style] = [of(".js"), of(".css")];
  // Both stand in the page itself.
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style))
    throw new Error("the page's script or style would end its element");
  const hash = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;
  const { title, lead, noscript } = JSON.parse(readFileSync(join(HOME, "page/en.json"), "utf8"));
  const texts = { title, lead, noscript };
  return { page: { script, style, scriptHash: hash(script), styleHash: hash(style), texts }, inputs: usedOf(metafile) };
}

/** The page as the module src/paywall.js imports. */
const embedding = (embedded) => ({
  name: "page",
  setup(bundler) {
    bundler.onResolve({ filter: /^\.\/page\.js$/ }, () => ({ path: "page", namespace: "page", sideEffects: false }));
    bundler.onLoad({ filter: /.*/, namespace: "page" }, () => ({
      contents: `export const PAGE = ${JSON.stringify(embedded)};`,
    }));
    // viem loads by and by what nothing here asks for; it would be built as files of its own.
    bundler.onResolve({ filter: /.*/ }, ({ kind, path }) =>
      kind === "dynamic-import" ? { path, external: true } : undefined,
    );
  },
});

async function made() {
  const { page: embedded, inputs: ofThePage } = await page();
  const { outputFiles, metafile } = await build({
    ...shared,
    entryPoints: ENTRIES.map((name) => join(HOME, `src/${name}.js`)),
    outdir: join(HOME, "dist"),
    chunkNames: "shared-[hash]",
    format: "esm",
    splitting: true,
    metafile: true,
    platform: "neutral",
    mainFields: ["module", "main"],
    conditions: ["browser"],
    external: ["node:*"],
    target: "es2022",
    plugins: [embedding(embedded)],
  });
  for (const { path, text } of outputFiles) {
    if (/\bimport\((?!"\.\/[a-z0-9]+\.js"\))/.test(text)) throw new Error(`${path} loads what is not built`);
  }
  // esbuild leaves a file without a word in it.
  const empty = outputFiles
    .filter(({ text }) => text.trim() === "")
    .map(({ path }) => `import "./${relative(join(HOME, "dist"), path)}";\n`);
  const files = new Map();
  for (const { path, text } of outputFiles.filter(({ text }) => text.trim() !== "")) {
    files.set(
      `dist/${relative(join(HOME, "dist"), path)}`,
      empty.reduce((rest, line) => rest.replace(line, ""), text),
    );
  }
  files.set("dist/LICENSES.txt", licences([...ofThePage, ...usedOf(metafile)]));
  return files;
}

/** The files that something of is in what is built. */
const usedOf = ({ outputs }) =>
  Object.values(outputs).flatMap(({ inputs }) => Object.keys(inputs).filter((path) => inputs[path].bytesInOutput > 0));

/** The licences of the packages that are in what is built. */
function licences(inputs) {
  const packages = inputs.map((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]).filter(Boolean);
  const texts = [...new Set(packages)].map((folder) => {
    const at = (name) => join(ROOT, folder, name);
    const { name, version, license } = JSON.parse(readFileSync(at("package.json"), "utf8"));
    const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map(at).find(existsSync);
    if (!file && license !== "Apache-2.0") throw new Error(`${name} comes without a licence`);
    const text = file
      ? readFileSync(file, "utf8").trim()
      : `Licensed under the Apache License, Version 2.0; see LICENSE of this package.`;
    return `${name} ${version}\n\n${text}\n`;
  });
  return [...new Set(texts)].sort().join("\n----\n\n");
}

/** What the compiler says of the comments in src/. */
function types() {
  const folder = mkdtempSync(join(tmpdir(), "gw-escrow-types-"));
  try {
    execFileSync(process.execPath, [join(OWN, "typescript/bin/tsc"), "--outDir", folder], {
      cwd: HOME,
      stdio: "inherit",
    });
    return new Map(readdirSync(folder).map((name) => [`types/${name}`, readFileSync(join(folder, name), "utf8")]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const wanted = new Map([...(await made()), ...types(), ["LICENSE", readFileSync(join(ROOT, "LICENSE"), "utf8")]]);
const folders = ["dist", "types"].map((name) => join(HOME, name));
const there = folders
  .filter(existsSync)
  .flatMap((folder) => readdirSync(folder).map((name) => relative(HOME, join(folder, name))));
if (process.argv[2] === "--check") {
  const read = (name) => (existsSync(join(HOME, name)) ? readFileSync(join(HOME, name), "utf8") : undefined);
  const differ = [...new Set([...wanted.keys(), ...there])].filter((name) => read(name) !== wanted.get(name));
  if (differ.length) {
    console.error(
      `x402-gw-escrow: ${differ.join(", ")}: not what the sources give: run examples/x402/packages/gw-escrow/build.sh`,
    );
    process.exit(1);
  }
} else {
  for (const folder of folders) mkdirSync(folder, { recursive: true });
  for (const name of there) if (!wanted.has(name)) rmSync(join(HOME, name));
  for (const [name, text] of wanted) writeFileSync(join(HOME, name), text);
  for (const [name, text] of wanted) if (name.startsWith("dist/")) console.log(`${name} ${text.length}`);
}
