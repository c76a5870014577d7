import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { deflateSync } from "node:zlib";

import { paymentCookie, paywall } from "x402-gw-escrow/paywall";

import { requirement } from "./world.js";

const gateway = "https://pay.example/base";

/** @param {object} [resource] @returns {any} */
function required(resource = {}) {
  return { x402Version: 2, resource: { url: "https://shop.example/a", ...resource }, accepts: [requirement()] };
}

/** @param {string} text */
const sha256 = (text) => `sha256-${createHash("sha256").update(text).digest("base64")}`;

/** @param {string} page @param {RegExp} pattern */
function part(page, pattern) {
  const [, ...groups] = pattern.exec(page) ?? [];
  assert.ok(groups.length, `${pattern} is not in the page`);
  return groups.map((group) => group.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code)));
}

test("the page's policy lets in its own script and style, and connections to the shop and the gateway alone", () => {
  const page = paywall({ gateway }).generateHtml(required());
  const [policy] = part(page, /Content-Security-Policy" content="([^"]*)"/);
  const [script] = part(page, /<script>([\s\S]*?)<\/script>/);
  const [style] = part(page, /<style>([\s\S]*?)<\/style>/);
  assert.deepEqual(policy.split("; ").sort(), [
    "base-uri 'none'",
    "connect-src 'self' https://pay.example",
    "default-src 'none'",
    "form-action 'none'",
    "img-src data:",
    `script-src '${sha256(script)}'`,
    `style-src '${sha256(style)}'`,
  ]);
  assert.equal([...page.matchAll(/<script/g)].length, 2);
  assert.doesNotMatch(page.replace(script, "").replace(style, ""), /\b(?:src|href)="(?!data:)/);
  // It has to be known before the first 1024 bytes are over.
  assert.ok(page.indexOf("charset") < 512 && page.indexOf("Content-Security-Policy") < 512);
});

test("what shops and buyers write stays text", () => {
  const lie = "</script><script>alert(1)</script><!--\"'&\u2028";
  const page = paywall({ gateway, name: lie }).generateHtml(
    required({ description: lie, url: `https://shop.example/${lie}` }),
  );
  assert.equal([...page.matchAll(/<script/g)].length, 2);
  assert.ok(!page.includes("alert(1)</"));
  const handed = JSON.parse(part(page, /id="x402">([^<]*)</)[0]);
  assert.equal(handed.required.resource.description, lie);
  assert.equal(handed.gateway, gateway);
  assert.equal(handed.maxLockSeconds, 3600);
});

test("a gateway that the shop passes requests on to is a path of its own", () => {
  const [policy] = part(paywall({ gateway: "/gateway" }).generateHtml(required()), /Policy" content="([^"]*)"/);
  assert.match(policy, /connect-src 'self';/);
});

test("settings that do not fit are refused at once", () => {
  for (const wrong of [
    "",
    "pay.example",
    "//pay.example",
    "/\\pay.example",
    "ftp://pay.example",
    "https://u:p@pay.example",
    "https://:p@pay.example",
    "javascript:1",
  ]) {
    assert.throws(() => paywall({ gateway: wrong }), { code: "configuration" }, wrong);
  }
  assert.throws(() => paywall({ gateway, maxLockSeconds: 0 }), { code: "configuration" });
});

/** What the payment middleware finds, and what the browser is told. @param {string} cookie @param {object} [others] */
async function taken(cookie, others = {}) {
  const request = { headers: { cookie, ...others }, url: "/article?edition=2" };
  /** @type {string[]} */
  const told = [];
  let isNext = 0;
  const response = { appendHeader: (/** @type {any} */ _, /** @type {string} */ value) => told.push(value) };
  await paymentCookie()(request, /** @type {any} */ ({ ...response, writeHead: () => undefined }), () => (isNext += 1));
  assert.equal(isNext, 1);
  return { payment: /** @type {any} */ (request.headers)["payment-signature"], told };
}

/** @param {string | Buffer} payment */
const compressed = (payment) => deflateSync(payment).toString("base64url");

test("a payment in a cookie counts as one in its header, once", async () => {
  const json = JSON.stringify({ ...required(), memo: "für €" });
  const payment = Buffer.from(json).toString("base64");
  const cookie = `a=b; payment-signature=${compressed(json)}; c=d`;
  assert.deepEqual(await taken(cookie), {
    payment,
    told: ["payment-signature=; Path=/article; Max-Age=0; SameSite=Strict"],
  });
  assert.equal((await taken(cookie, { "payment-signature": "own" })).payment, "own");
  assert.deepEqual(await taken("a=b"), { payment: undefined, told: [] });
});

test("a cookie that is none, or would become too much, opens nothing", async () => {
  const bomb = compressed(Buffer.alloc(50_000_000, "{"));
  for (const wrong of ["AAAA", "*", compressed('"<script>'), bomb]) {
    assert.equal((await taken(`payment-signature=${wrong}`)).payment, undefined, wrong.slice(0, 20));
  }
});
