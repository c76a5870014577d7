// What the paywall believes of a shop's answer, and what becomes of what was bought. The page's own sources are built
// for it, before a browser that is as much of one as they need.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const home = fileURLToPath(new URL("..", import.meta.url));
const root = fileURLToPath(new URL("../../../../..", import.meta.url));
const GATEWAY = "https://pay.example";
const KEY = "x402-gw-escrow:v1:/a";

/** @param {unknown} value */
const encoded = (value) => Buffer.from(JSON.stringify(value)).toString("base64");

/** Storage of a browser. */
class Storage {
  /** @param {string} key */
  getItem(key) {
    return /** @type {any} */ (this)[key] ?? null;
  }
  /** @param {string} key @param {string} value */
  setItem(key, value) {
    /** @type {any} */ (this)[key] = value;
  }
  /** @param {string} key */
  removeItem(key) {
    delete (/** @type {any} */ (this)[key]);
  }
}

/** What the page did, and what the shop and the gateway answer. @type {any} */
let browser;
/** @type {any} */
let page;
const folder = mkdtempSync(join(tmpdir(), "gw-escrow-deliver-"));

beforeEach(() => {
  browser = { written: "", loads: 0, cookie: "", shop: () => new Response("bought"), status: "unknown" };
  Object.assign(globalThis, { localStorage: new Storage(), sessionStorage: new Storage() });
});
before(async () => {
  const { build } = createRequire(join(root, "web/package.json"))("esbuild");
  const names = ["deliver", "answer", "kept"];
  const contents = names.map((name) => `export * from ${JSON.stringify(join(home, `page/${name}.ts`))};`).join("\n");
  const outfile = join(folder, "page.mjs");
  await build({
    stdin: { contents, resolveDir: home },
    nodePaths: [join(root, "web/node_modules")],
    bundle: true,
    format: "esm",
    platform: "node",
    tsconfigRaw: {},
    outfile,
    logLevel: "error",
  });
  const href = "https://shop.example/a";
  Object.assign(globalThis, {
    location: { href, pathname: "/a", search: "", origin: "https://shop.example", protocol: "https:" },
    document: {
      getElementById: () => ({ textContent: JSON.stringify({ gateway: GATEWAY }) }),
      get cookie() {
        return browser.cookie;
      },
      set cookie(/** @type {string} */ value) {
        browser.cookie = value;
      },
      open: () => undefined,
      write: (/** @type {string} */ text) => (browser.written += text),
      close: () => undefined,
    },
    fetch: async (/** @type {string} */ url) => {
      if (url === href) return browser.shop();
      if (browser.status === "away") throw new TypeError("failed to fetch");
      return browser.status === "unknown"
        ? Response.json({ code: "PAYMENT_NOT_FOUND" }, { status: 404 })
        : Response.json({ status: browser.status });
    },
  });
  /** @type {any} */ (globalThis.location).reload = () => (browser.loads += 1);
  page = await import(pathToFileURL(outfile).href);
});
after(() => rmSync(folder, { recursive: true, force: true }));

const payment = (members = {}) => ({ paymentId: "pay_1", header: encoded({ payload: {} }), ...members });
const refusal = (/** @type {string} */ error) =>
  new Response("{}", { status: 402, headers: { "payment-required": encoded({ error, accepts: [] }) } });

test("a shop that says that a payment was used, or that there is no page, is held against the gateway", async () => {
  /** @type {[() => Response, string, string][]} */
  const cases = [
    [() => refusal("payment_used"), "unknown", "refused"],
    [() => refusal("payment_used"), "pending", "disputed"],
    [() => refusal("payment_used"), "finalizing", "disputed"],
    [() => refusal("payment_used"), "failed", "failed"],
    [() => refusal("payment_used"), "completed", "used"],
    [() => refusal("payment_used"), "away", "again"],
    [() => refusal("payment_in_use"), "completed", "again"],
    [() => refusal("unexpected_verify_error"), "completed", "again"],
    [() => new Response("", { status: 404 }), "unknown", "broken"],
    [() => new Response("", { status: 404 }), "completed", "broken"],
    [() => new Response("", { status: 404 }), "failed", "failed"],
    [() => new Response("", { status: 403 }), "away", "again"],
    [() => new Response("", { status: 502 }), "completed", "again"],
  ];
  for (const [shop, status, kind] of cases) {
    Object.assign(browser, { shop, status });
    const outcome = await page.send(payment());
    assert.equal(outcome.kind, kind, `${shop} ${status}`);
    if (["used", "disputed", "broken"].includes(kind)) assert.equal(outcome.status, status);
  }
});

test("what is meant to be saved is a file, and never a document of the shop", async () => {
  const lie = "<script>alert(1)</script>";
  for (const disposition of ['attachment; filename="upload.html"', "ATTACHMENT", "x-unknown"]) {
    for (const isPlain of [false, true]) {
      const headers = { "content-type": "text/html", "content-disposition": disposition };
      const bought = await page.show(payment(), new Response(lie, { headers }), isPlain);
      assert.equal(bought?.type, "text/html", disposition);
      assert.equal(bought.name, disposition.includes("upload") ? "upload.html" : "a");
      assert.deepEqual([browser.written, browser.loads, browser.cookie], ["", 0, ""]);
    }
  }
  const headers = { "content-type": "text/html", "content-disposition": "inline; filename=a.html" };
  assert.equal(await page.show(payment(), new Response("<p>bought", { headers }), true), undefined);
  assert.equal(browser.written, "<p>bought");
});

test("the answer is kept until a load of the page has shown it", async () => {
  const html = "<h1>Bought, für 1 €</h1>";
  const headers = { "content-type": "text/html; charset=utf-8" };
  assert.equal(await page.show(payment(), new Response(html, { headers }), false), undefined);
  assert.deepEqual([browser.loads, browser.written], [1, ""]);
  assert.match(browser.cookie, /^payment-signature=.+; Path=\/a; Max-Age=60; SameSite=Strict; Secure$/);
  // The load was refused.
  const kept = page.keptAnswer("pay_1");
  assert.equal(await page.inPlace(kept), undefined);
  assert.equal(browser.written, html);
  assert.equal(page.keptAnswer("pay_2"), undefined);
  page.dropAnswer();
  assert.equal(page.keptAnswer("pay_1"), undefined);
  // What this tab cannot keep is not risked.
  const large = new Response(new Uint8Array(2_000_000), { headers: { "content-type": "application/zip" } });
  assert.equal((await page.show(payment(), large, false))?.type, "application/zip");
  assert.equal(browser.loads, 1);
});

test("another payment is made only after the signed end of the first, also of one of an older version", () => {
  const signedAt = { payload: { paymentRequest: { fulfillment_deadline: "2030-01-01T00:05:00Z" } } };
  const end = Date.parse("2030-01-01T00:06:00Z");
  const quoteDeadline = Date.parse("2030-01-01T00:00:05Z") / 1000;
  const old = { paymentId: "pay_1", header: encoded(signedAt), quoteDeadline };
  localStorage.setItem(KEY, JSON.stringify(old));
  assert.equal(page.lapsesAt(page.kept()), end);
  assert.equal(page.lapsesAt(payment({ fulfillmentDeadline: end / 1000 - 60 })), end);
  assert.ok(Number.isNaN(page.lapsesAt(payment())));
});

test("what is kept and not what it should be does no harm, and what ended long ago is dropped", (context) => {
  localStorage.setItem(KEY, JSON.stringify(payment({ loads: "x", paid: 1, fulfillmentDeadline: "x" })));
  assert.deepEqual(page.kept(), payment());
  localStorage.setItem(KEY, JSON.stringify(payment({ loads: ["x", null, 5] })));
  assert.deepEqual(page.kept(), payment({ loads: [5] }));
  for (const none of ["{", "null", "[]", '{"header":1}']) {
    localStorage.setItem(KEY, none);
    assert.equal(page.kept(), undefined, none);
  }
  const old = payment({ fulfillmentDeadline: 1_900_000_000 });
  for (const key of [KEY, `${KEY}2`, "other"]) localStorage.setItem(key, JSON.stringify(old));
  localStorage.setItem(`${KEY}3`, JSON.stringify({ ...old, fulfillmentDeadline: 1_910_000_000 }));
  context.mock.method(Date, "now", () => 1_905_000_000_000);
  page.tidy();
  assert.deepEqual(Object.keys(localStorage).sort(), ["other", KEY, `${KEY}3`]);
});
