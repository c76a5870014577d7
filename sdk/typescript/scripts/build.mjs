// Compiles into a folder of its own, which takes the place of `dist` once it is whole: a package holds nothing that its sources do not,
// and who loads it meanwhile finds the earlier one.
import { execFileSync } from 'node:child_process';
import { renameSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const made = `${ROOT}.dist-${process.pid}`;
try {
  execFileSync('npx', ['--no-install', 'tsc', '-p', 'tsconfig.build.json', '--outDir', made], { cwd: ROOT, stdio: 'inherit' });
  rmSync(`${ROOT}dist`, { recursive: true, force: true });
  renameSync(made, `${ROOT}dist`);
} catch (error) {
  rmSync(made, { recursive: true, force: true });
  throw error;
}
