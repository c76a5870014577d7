// Chromium with wallets of three families: real keys, whose signatures are made here and not in the page.
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

const CHROMIUMS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const TIMEOUT_MS = 60_000;
const SIZE = { width: 1000, height: 900 };

export const need = (name) => {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: tests/browser.rs starts the network and says where it is`);
  return value;
};

/** Where screenshots go. */
const ARTEFACTS = process.env.ARTEFACTS ?? new URL('../../target/browser/', import.meta.url).pathname;

export async function launch() {
  const executablePath = [process.env.CHROMIUM, ...CHROMIUMS].find((path) => path && existsSync(path));
  if (!executablePath) throw new Error('there is no Chromium: apt-get install chromium, or name one by CHROMIUM');
  mkdirSync(ARTEFACTS, { recursive: true });
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}

/**
 * A page with these wallets, each `{ script, handle }`: the script is run in the page before its own, and what it asks of
 * `window.__wallet_NAME` is handled here.
 */
export async function open(browser, wallets = [], options = {}) {
  const context = await browser.newContext({ viewport: SIZE, ...options });
  context.setDefaultTimeout(TIMEOUT_MS);
  for (const wallet of wallets) {
    await context.exposeBinding(`__wallet_${wallet.name}`, async (_, method, params) => {
      try {
        return { value: await wallet.handle(method, params) };
      } catch (error) {
        return { error: { message: error.shortMessage ?? error.message, code: error.code } };
      }
    });
    await context.addInitScript({ content: wallet.script });
  }
  const page = await context.newPage();
  const faults = [];
  const foreign = [];
  page.on('pageerror', (error) => faults.push(error.message));
  page.on('console', (message) => message.type() === 'error' && /Content Security Policy|Uncaught/i.test(message.text()) && faults.push(message.text()));
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (!['data:', 'blob:'].includes(url.protocol) && url.origin !== new URL(need('GATEWAY_URL')).origin) foreign.push(request.url());
  });
  return { context, page, faults, foreign };
}

/** A picture of the page, kept as an artefact. */
export const picture = (page, name) => page.screenshot({ path: `${ARTEFACTS}/${name}.png`, fullPage: true });

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe-core finds that is serious or worse. The page's policy lets no script of another origin in, so it comes in beside it. */
export async function serious(page) {
  const session = await page.context().newCDPSession(page);
  const { result: found } = await session.send('Runtime.evaluate', { expression: 'typeof axe' });
  if (found.value === 'undefined') await session.send('Runtime.evaluate', { expression: axe });
  const { result } = await session.send('Runtime.evaluate', {
    expression: `axe.run(document, { resultTypes: ['violations'] }).then(({ violations }) => JSON.stringify(violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => [id, nodes.map(({ html, failureSummary }) => [html, failureSummary])])))`,
    awaitPromise: true,
    returnByValue: true,
  });
  await session.detach();
  return JSON.parse(result.value);
}

/** The link that asks for this. */
export const linkOf = (members) => `/pay#${Buffer.from(JSON.stringify({ v: 1, ...members })).toString('base64url')}`;
