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
export function paywall({ gateway, name, maxLockSeconds, pins }: PaywallOptions): PaywallProvider;
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
export function paymentCookie(): (request: CookieRequest, response: CookieResponse, next: () => void) => Promise<void>;
export type PaywallOptions = {
    /**
     * Base URL of the gateway, as browsers reach it, or a path of the shop (`/gateway`) that
     * passes everything below it on to the gateway.
     */
    gateway: string;
    /**
     * The shop's name, over the page.
     */
    name?: string | undefined;
    /**
     * Longest time after which money that was not used must be on its way back; an
     * hour.
     */
    maxLockSeconds?: number | undefined;
    /**
     * By network: what the
     * gateway itself must name.
     */
    pins?: Record<string, {
        escrow: string;
        reserver: string;
        releaser: string;
    }> | undefined;
};
/**
 * Who makes the page that a browser is shown for a 402.
 */
export type PaywallProvider = {
    generateHtml: (paymentRequired: import("./x402.js").PaymentRequired, config?: {
        appName?: string;
    }) => string;
};
/**
 * Takes the payment that the paywall gives the next load of a page in a cookie, as if it had come in
 * `PAYMENT-SIGNATURE`: so what was bought comes to the browser as any page does, with its own scripts and styles. For
 * Express and others of its kind, before the payment middleware. A cookie counts once; one that is refused leads to
 * the same address without it, where the paywall is.
 */
export type CookieRequest = {
    headers: {
        [name: string]: string | string[] | undefined;
    };
    url?: string;
    originalUrl?: string;
};
/**
 * Takes the payment that the paywall gives the next load of a page in a cookie, as if it had come in
 * `PAYMENT-SIGNATURE`: so what was bought comes to the browser as any page does, with its own scripts and styles. For
 * Express and others of its kind, before the payment middleware. A cookie counts once; one that is refused leads to
 * the same address without it, where the paywall is.
 */
export type CookieResponse = {
    appendHeader(name: string, value: string): unknown;
    setHeader(name: string, value: string): unknown;
    writeHead(...rest: any[]): any;
};
