// The paywall in Chromium: people with a wallet pay at shops on a running gateway, through what can come in between.
// Browser and wallets are those by which web/ tests the gateway's own pages; screenshots are in target/browser.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";

import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { paymentCookie, paywall } from "x402-gw-escrow/paywall";
import { GwEscrowServer } from "x402-gw-escrow/server";

import { launch, open, picture, serious } from "../../../web/test/browser.mjs";
import { evmWallet, newPayer } from "../../../web/test/evm.mjs";
import { facilitator, gateway, network, receiveNetwork, wanted } from "./market.js";

const rpc = wanted("EVM_RPC_URL");
const shop = wanted("SHOP_URL");
const token = wanted("PAY_ASSET");
const chainId = Number(network.split(":")[1]);
const UNITS = 100_000_000n;
const BALANCE = {
  type: "function",
  name: "balanceOf",
  stateMutability: "view",
  inputs: [{ type: "address" }],
  outputs: [{ type: "uint256" }],
};

/** @type {any} */
let browser;
/** @type {any[]} Payers that hold tokens: the account they have them of pays one after the other. */
const payers = [];
before(async () => {
  browser = await launch();
  for (let n = 0; n < 9; n++) payers.push(await newPayer(rpc, wanted("BUYER_KEY"), token, UNITS));
});
after(() => browser?.close());

/**
 * A page of a shop, opened by a browser with a wallet.
 *
 * @param {string} url
 * @param {object} [state] Of the wallet.
 * @param {object} [options] Of the browser.
 */
async function visit(url, state = {}, options = {}) {
  const payer = payers.pop();
  const wallet = evmWallet(rpc, payer.key, { chainId, known: new Set([chainId]), ...state });
  const opened = await open(browser, [wallet], options);
  const response = await opened.page.goto(url);
  assert.equal(response.status(), 402);
  const foreign = () =>
    opened.foreign.filter((/** @type {string} */ address) => new URL(address).origin !== new URL(url).origin);
  const spent = async () =>
    UNITS -
    (await payer.reader.readContract({
      address: token,
      abi: [BALANCE],
      functionName: "balanceOf",
      args: [payer.address],
    }));
  const signatures = () =>
    wallet.asked.filter((/** @type {string} */ method) => method === "eth_signTypedData_v4").length;
  return { ...opened, wallet, foreign, spent, signatures };
}

const press = (/** @type {any} */ page, /** @type {string | RegExp} */ name) =>
  page.getByRole("button", { name }).click();
const heading = (/** @type {any} */ page, /** @type {string} */ name) => page.getByRole("heading", { name }).waitFor();
const says = (/** @type {any} */ page, /** @type {string} */ text) => page.getByText(text).waitFor();

/** From the paywall to the signature. @param {any} page */
async function pay(page) {
  await press(page, "Connect Test Wallet");
  await press(page, /^Allow/);
  await press(page, /^Pay at most/);
}

/** Whether exactly one purchase of the price was paid for. @param {bigint} spent */
function paidOnce(spent) {
  assert.ok(spent >= 1_500_000n && spent <= 1_515_000n, `${spent} were spent`);
}

/**
 * A shop of this process.
 *
 * @param {import("node:test").TestContext} context
 * @param {{ margin?: number, price?: any, withCookie?: boolean, answer?: import("express").RequestHandler }} [choice]
 */
async function shopHere(
  context,
  {
    margin = 100,
    price = wanted("PRICE"),
    withCookie = false,
    answer = (_, response) => void response.send("<h1>Bought</h1>"),
  } = {},
) {
  const receive = { network: receiveNetwork, asset: wanted("RECEIVE_ASSET") };
  const server = new x402ResourceServer(facilitator).register(
    network,
    new GwEscrowServer({ receive, marginBasisPoints: margin }),
  );
  const accepts = {
    scheme: "gw-escrow",
    network,
    payTo: wanted("PAY_TO"),
    price,
    maxTimeoutSeconds: 60,
  };
  const app = express();
  if (withCookie) app.use(paymentCookie());
  app.use(
    paymentMiddleware({ "GET /page": { accepts, description: "A page" } }, server, undefined, paywall({ gateway })),
  );
  app.get("/page", answer);
  const listener = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => listener.once("listening", resolve));
  context.after(() => {
    listener.closeAllConnections();
    listener.close();
  });
  return `http://127.0.0.1:${/** @type {import("node:net").AddressInfo} */ (listener.address()).port}/page`;
}

describe("the paywall", { concurrency: true }, () => {
  test("a person pays and is shown the page, in its own style, and again when it is loaded again", async () => {
    const { page, faults, foreign, spent, signatures } = await visit(shop);
    await says(page, "exactly 1.5 DEV");
    await page.getByRole("button", { name: "Connect Test Wallet" }).waitFor();
    await picture(page, "paywall-1");
    assert.deepEqual(await serious(page), []);
    await press(page, "Connect Test Wallet");
    await page.getByRole("button", { name: /^Allow/ }).waitFor();
    await picture(page, "paywall-2-allow");
    await press(page, /^Allow/);
    await page.getByRole("button", { name: /^Pay at most 1.515 DEV/ }).waitFor();
    await picture(page, "paywall-3-pay");
    assert.deepEqual(await serious(page), []);
    // The shop's answer is kept back until what is shown meanwhile was looked at.
    /** @type {() => void} */
    let answer = () => undefined;
    const looked = new Promise((resolve) => (answer = () => resolve(undefined)));
    await page.route(shop, async (/** @type {any} */ route) => {
      if (!route.request().headers()["payment-signature"]) return route.continue();
      const response = await route.fetch();
      await looked;
      return route.fulfill({ response });
    });
    await press(page, /^Pay at most/);
    await heading(page, "The payment is under way");
    await says(page, "Settler found");
    await picture(page, "paywall-4-sent");
    assert.deepEqual(await serious(page), []);
    answer();
    for (const name of ["paywall-5-bought", "paywall-6-again"]) {
      await heading(page, "Paid across chains");
      assert.match(await page.evaluate(() => getComputedStyle(document.body).fontFamily), /Georgia/);
      assert.equal(await page.evaluate(() => document.cookie), "");
      await picture(page, name);
      if (name === "paywall-5-bought") await page.reload();
    }
    paidOnce(await spent());
    assert.equal(signatures(), 1);
    assert.deepEqual([faults, foreign()], [[], []]);
  });

  test("what is declined takes nothing, a wallet on another network changes, and a phone is wide enough", async () => {
    const rejects = new Set([
      "eth_requestAccounts",
      "wallet_switchEthereumChain",
      "eth_sendTransaction",
      "eth_signTypedData_v4",
    ]);
    const known = new Set([1]);
    const phone = { viewport: { width: 320, height: 640 }, colorScheme: "dark" };
    const { page, faults, spent, signatures } = await visit(shop, { chainId: 1, known, rejects }, phone);
    const retry = () => press(page, /^(?:Try again|Change to)/);
    await press(page, "Connect Test Wallet");
    await says(page, "You did not confirm in your wallet");
    await picture(page, "paywall-declined");
    rejects.delete("eth_requestAccounts");
    await retry();
    await says(page, "The network was not changed");
    rejects.delete("wallet_switchEthereumChain");
    await retry();
    await says(page, `Your wallet does not know ${network}`);
    await picture(page, "paywall-network");
    known.add(chainId);
    await retry();
    await press(page, /^Allow/);
    await says(page, "You did not confirm in your wallet");
    rejects.delete("eth_sendTransaction");
    await retry();
    await press(page, /^Pay at most/);
    await says(page, "You did not confirm in your wallet");
    await picture(page, "paywall-unsigned");
    assert.deepEqual(await serious(page), []);
    assert.equal(await page.evaluate(() => localStorage.length), 0);
    assert.equal(await spent(), 0n);
    rejects.delete("eth_signTypedData_v4");
    await retry();
    await heading(page, "The payment is under way");
    await picture(page, "paywall-phone");
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 320));
    await heading(page, "Paid across chains");
    paidOnce(await spent());
    assert.equal(signatures(), 2);
    assert.deepEqual(faults, []);
  });

  test("a page that is loaded again goes on with the same payment, also where the shop's answer was lost", async () => {
    const { page, spent, signatures } = await visit(shop);
    await pay(page);
    await heading(page, "The payment is under way");
    let lost = 0;
    await page.route(shop, async (/** @type {any} */ route) => {
      if (!route.request().headers()["payment-signature"]) return route.continue();
      const answer = await route.fetch().catch(() => undefined);
      if (!answer?.ok() || lost) return answer ? route.fulfill({ response: answer }) : route.abort();
      lost += 1;
      return route.abort("connectionreset");
    });
    await page.reload();
    await heading(page, "The payment is under way");
    await says(page, "No answer. What you signed is kept");
    await picture(page, "paywall-lost");
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await page.reload();
    await heading(page, "Paid across chains");
    assert.equal(lost, 1);
    paidOnce(await spent());
    assert.equal(signatures(), 1);
  });

  test("a shop that reads no cookies has what was bought shown in the page's place", async (context) => {
    const { page, spent } = await visit(await shopHere(context));
    await pay(page);
    await heading(page, "Bought");
    paidOnce(await spent());
  });

  test("a shop that reads no cookies has a file offered to be saved", async (context) => {
    const answer = (/** @type {any} */ _, /** @type {any} */ response) => void response.json({ text: "Bought" });
    const { page, spent } = await visit(await shopHere(context, { answer }));
    await pay(page);
    const link = page.getByRole("link", { name: "Save it" });
    await link.waitFor();
    await picture(page, "paywall-file");
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    assert.match(download.suggestedFilename(), /^page/);
    const chunks = await (await download.createReadStream()).toArray();
    assert.equal(Buffer.concat(chunks).toString(), '{"text":"Bought"}');
    paidOnce(await spent());
  });

  test("what was paid comes though the price has changed, and a used payment is not let go of", async (context) => {
    let isSold = false;
    const price = () => (isSold ? "$9" : wanted("PRICE"));
    const answer = (/** @type {any} */ _, /** @type {any} */ response) => {
      isSold = true;
      response.send("<h1>Bought</h1>");
    };
    const url = await shopHere(context, { price, answer, withCookie: true });
    const { page, spent, signatures } = await visit(url);
    await pay(page);
    await heading(page, "Bought");
    assert.equal(await page.evaluate(() => document.cookie), "");
    await page.evaluate(() => sessionStorage.clear());
    await page.route(url, async (/** @type {any} */ route) => {
      if (!route.request().headers()["payment-signature"]) return route.continue();
      const required = Buffer.from(JSON.stringify({ error: "payment_used", accepts: [] })).toString("base64");
      return route.fulfill({ status: 402, headers: { "payment-required": required }, body: "{}" });
    });
    await page.reload();
    await heading(page, "This payment was used before");
    await says(page, "The gateway says that the payment is completed: the money was taken.");
    await picture(page, "paywall-used");
    assert.equal(signatures(), 1);
    paidOnce(await spent());
    await press(page, "Pay anew");
    await page.getByRole("button", { name: "Connect Test Wallet" }).waitFor();
  });

  test("a file that a shop means to be saved is offered as one", async (context) => {
    const answer = (/** @type {any} */ _, /** @type {any} */ response) =>
      void response.attachment("report.html").send("<script>document.title = 'ran'</script>");
    const { page, spent } = await visit(await shopHere(context, { answer, withCookie: true }));
    await pay(page);
    const link = page.getByRole("link", { name: "Save it" });
    await link.waitFor();
    const [download] = await Promise.all([page.waitForEvent("download"), link.click()]);
    assert.equal(download.suggestedFilename(), "report.html");
    assert.equal(await page.title(), "A page");
    paidOnce(await spent());
  });

  test("a payment that fails says so and what becomes of the money, and another one may be made", async (context) => {
    // Nobody delivers for no more than the price.
    const { page, spent } = await visit(await shopHere(context, { margin: 0 }));
    await pay(page);
    await heading(page, "The payment failed");
    await says(page, "no money was taken");
    await picture(page, "paywall-failed");
    assert.deepEqual(await serious(page), []);
    assert.equal(await spent(), 0n);
    await press(page, "Pay anew");
    await page.getByRole("button", { name: "Connect Test Wallet" }).waitFor();
  });

  test("what stands in the way is said, and takes nothing", async (context) => {
    const url = await shopHere(context);
    const { page, spent, context: pages } = await visit(url);
    await page.clock.install();
    const outage = (/** @type {any} */ route) => route.abort();
    await page.route(`${gateway}/**`, outage);
    await page.goto(url);
    await heading(page, "A page");
    await says(page, "The gateway cannot be reached");
    await picture(page, "paywall-away");
    await page.unroute(`${gateway}/**`, outage);
    await press(page, "Try again");
    await press(page, "Connect Test Wallet");
    await press(page, /^Allow/);

    // The price is another one by now.
    const { required } = JSON.parse(await page.locator("#x402").textContent());
    const header = (/** @type {object} */ value) => Buffer.from(JSON.stringify(value)).toString("base64");
    const dearer = structuredClone(required);
    for (const member of [dearer.accepts[0], dearer.accepts[0].extra.gw]) {
      for (const name of ["amount", "fulfillmentAmount"])
        if (member[name]) member[name] = String(BigInt(member[name]) * 2n);
    }
    /** @param {object} answer @param {boolean} isPaying */
    const answered = async (answer, isPaying) => {
      await page.unrouteAll({ behavior: "ignoreErrors" });
      await page.route(url, (/** @type {any} */ route) => {
        const { accept, "payment-signature": payment } = route.request().headers();
        const isAsked = isPaying ? payment : !payment && accept === "application/json";
        return isAsked
          ? route.fulfill({ status: 402, headers: { "payment-required": header(answer) }, body: "{}" })
          : route.continue();
      });
    };
    await answered(dearer, false);
    await press(page, /^Pay at most 1.515 DEV/);
    await says(page, "The price has changed");
    await says(page, "exactly 3 DEV");
    await picture(page, "paywall-changed");

    // The shop refuses what was signed.
    await answered({ ...required, error: "insufficient_funds" }, true);
    await page.goto(url);
    await press(page, "Connect Test Wallet");
    await press(page, /^Pay at most/);
    await heading(page, "The shop did not take the payment");
    await says(page, "insufficient_funds");
    await picture(page, "paywall-refused");
    await page.reload();
    await heading(page, "The shop did not take the payment");
    assert.equal(await page.getByRole("button", { name: "Pay anew" }).count(), 0);
    await page.clock.fastForward(400_000);
    await press(page, "Pay anew");
    await page.getByRole("button", { name: "Connect Test Wallet" }).waitFor();
    assert.equal(await spent(), 0n);

    // Without a wallet, and inside another page.
    const bare = await open(browser);
    await bare.page.goto(url);
    await says(bare.page, "No wallet was found in this browser");
    const frame = await bare.context.newPage();
    await frame.setContent(`<iframe src="${url}" width="600" height="400"></iframe>`);
    await frame.frameLocator("iframe").getByText("This page is shown inside another one").waitFor();
    await Promise.all([bare.context.close(), pages.close()]);
  });
});

test("programs are told what they were told before", async () => {
  for (const accept of ["application/json", "*/*", "text/html"]) {
    const response = await fetch(shop, { headers: { accept } });
    assert.equal(response.status, 402);
    assert.equal(response.headers.get("content-type"), "application/json; charset=utf-8");
    assert.ok(response.headers.get("PAYMENT-REQUIRED"));
  }
});
