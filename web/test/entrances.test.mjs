// What a payer signs once, in Chromium, before a gateway that says what a test wants: many payments, and what a merchant may ask for. One
// browser and one server are for both.
import { after, before, beforeEach } from 'node:test';

import { batches } from './entrances.batches.mjs';
import { disturbances } from './entrances.disturbances.mjs';
import { mandates } from './entrances.mandates.mjs';
import { newWorld, serveEntrances } from './entrances-server.mjs';
import { launch } from './browser.mjs';

const shared = { browser: undefined, world: newWorld() };
let server;
before(async () => {
  [shared.browser, server] = await Promise.all([launch(), serveEntrances(() => shared.world)]);
  process.env.GATEWAY_URL = `http://127.0.0.1:${server.address().port}`;
});
beforeEach(() => {
  shared.world = newWorld();
});
after(async () => {
  await shared.browser?.close();
  server?.closeAllConnections();
  server?.close();
});

batches(shared);
disturbances(shared);
mandates(shared);
