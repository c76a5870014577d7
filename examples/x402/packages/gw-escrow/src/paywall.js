import { GwEscrowError } from "./errors.js";
import { PAGE } from "./page.js";

/** Longest payment that is taken out of a cookie, in bytes: more than fits into a header. */
const PAYMENT_BYTES_MAX = 24_576;
const COOKIE = "payment-signature";
const HEADER = "payment-signature";

/**
 * @typedef {object} PaywallOptions
 * @property {string} gateway Base URL of the gateway, as browsers reach it, or a path of the shop (`/gateway`) that
 *   passes everything below it on to the gateway.
 * @property {string} [name] The shop's name, over the page.
 * @property {number} [maxLockSeconds] Longest time after which money that was not used must be on its way back; an
 *   hour.
 * @property {Record<string, { escrow: string, reserver: string, releaser: string }>} [pins] By network: what the
 *   gateway itself must name.
 *
 * @typedef {object} PaywallProvider Who makes the page that a browser is shown for a 402.
 * @property {(paymentRequired: import("./x402.js").PaymentRequired, config?: { appName?: string }) => string}
 *   generateHtml
 */

/**
 * A paywall for browsers: a page on which a person pays with a wallet by `gw-escrow`, for `paymentMiddleware` and
 * `registerPaywallProvider` of the official packages. The page is whole: it asks nobody but the shop and the gateway.
 *
 * @param {PaywallOptions} options
 * @returns {PaywallProvider}
 * @throws {GwEscrowError} Of code `configuration`, where `gateway` is neither an address nor a path.
 */
export function paywall({ gateway, name, maxLockSeconds = 3600, pins = {} }) {
  const source = sourceOf(gateway);
  if (!Number.isSafeInteger(maxLockSeconds) || maxLockSeconds <= 0) {
    throw new GwEscrowError("configuration", `maxLockSeconds is not a number of seconds: ${maxLockSeconds}`);
  }
  const policy = [
    "default-src 'none'",
    `script-src '${PAGE.scriptHash}'`,
    `style-src '${PAGE.styleHash}'`,
    "img-src data:",
    ["connect-src 'self'", ...source].join(" "),
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return {
    generateHtml(required, config) {
      const title = required.resource?.description || PAGE.texts.title;
      const handed = { required, gateway, maxLockSeconds, pins };
      return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${text(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="same-origin">
<link rel="icon" href="data:,">
<title>${text(title)}</title>
<style>${PAGE.style}</style>
</head>
<body>
<header class="bar"><span>${text(name ?? config?.appName ?? PAGE.texts.title)}</span></header>
<main id="main">
<h1>${text(title)}</h1>
<p>${text(PAGE.texts.lead)}</p>
<noscript><p>${text(PAGE.texts.noscript)}</p></noscript>
</main>
<script type="application/json" id="x402">${json(handed)}</script>
<script>${PAGE.script}</script>
</body>
</html>
`;
    },
  };
}

/**
 * Takes the payment that the paywall gives the next load of a page in a cookie, as if it had come in
 * `PAYMENT-SIGNATURE`: so what was bought comes to the browser as any page does, with its own scripts and styles. For
 * Express and others of its kind, before the payment middleware. A cookie counts once; one that is refused leads to
 * the same address without it, where the paywall is.
 *
 * @returns {(request: CookieRequest, response: CookieResponse, next: () => void) => Promise<void>}
 *
 * @typedef {{ headers: { [name: string]: string | string[] | undefined }, url?: string, originalUrl?: string }}
 *   CookieRequest
 * @typedef {{ appendHeader(name: string, value: string): unknown, setHeader(name: string, value: string): unknown,
 *   writeHead(...rest: any[]): any }} CookieResponse
 */
export function paymentCookie() {
  return async (request, response, next) => {
    const value = cookieOf(request.headers.cookie);
    if (value !== undefined) {
      const address = request.originalUrl ?? request.url ?? "";
      const [path] = /^[\x21-\x3a\x3c-\x3e\x40-\x7e]*/.exec(address) ?? [""];
      response.appendHeader("Set-Cookie", `${COOKIE}=; Path=${path}; Max-Age=0; SameSite=Strict`);
      const payment = await inflated(value);
      if (payment !== undefined && request.headers[HEADER] === undefined) {
        request.headers[HEADER] = payment;
        refusedToPaywall(address, response);
      }
    }
    next();
  };
}

/**
 * What says 402 leads to the same address instead. The payment middleware takes whoever sends a payment for a program,
 * and answers with JSON.
 *
 * @param {string} address
 * @param {CookieResponse} response
 */
function refusedToPaywall(address, response) {
  const writeHead = response.writeHead.bind(response);
  response.writeHead = (status, ...rest) => {
    if (status !== 402) return writeHead(status, ...rest);
    // Relative to the page itself: a path that begins with two slashes would be another host.
    response.setHeader("Location", `./${/[^/?]*(?:\?.*)?$/.exec(address)?.[0] ?? ""}`);
    return writeHead(303, ...rest);
  };
}

/** @param {string | string[] | undefined} header @returns {string | undefined} */
function cookieOf(header) {
  const entries = String(header ?? "").split(/; */);
  const found = entries.find((entry) => entry.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1);
  return found && /^[A-Za-z0-9_-]+$/.test(found) ? found : undefined;
}

/**
 * The payment whose JSON was compressed into a cookie, as its header has it; `undefined` where it is none.
 *
 * @param {string} value
 * @returns {Promise<string | undefined>}
 */
async function inflated(value) {
  try {
    const bytes = Uint8Array.from(atob(value.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    let json = "";
    for await (const chunk of /** @type {any} */ (stream)) {
      // One character for each byte, as Base64 is made of them.
      for (const byte of chunk) json += String.fromCharCode(byte);
      // A few bytes can become very many.
      if (json.length > PAYMENT_BYTES_MAX) return undefined;
    }
    return json.startsWith("{") ? btoa(json) : undefined;
  } catch {
    return undefined;
  }
}

/**
 * The gateway as a source of a Content-Security-Policy; none where it is a path of the shop.
 *
 * @param {string} gateway
 * @returns {string[]}
 */
function sourceOf(gateway) {
  if (/^\/(?![/\\])[^\s\\]*$/.test(gateway)) return [];
  const url = URL.canParse(gateway) ? new URL(gateway) : undefined;
  if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password || url.search || url.hash) {
    throw new GwEscrowError("configuration", `gateway is neither an address nor a path: ${gateway}`);
  }
  return [url.origin];
}

/** JSON that may stand in a script of a page. @param {unknown} value */
function json(value) {
  return JSON.stringify(value).replace(
    /[<>&\u2028\u2029]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** @param {string} value */
function text(value) {
  return String(value).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
