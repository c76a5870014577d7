// A receiver of the gateway's webhooks: verifies each message with the stock library of Standard Webhooks, drops what it has had
// already, and prints the rest, a line of JSON each. See README.md.
import { createPublicKey, verify } from "node:crypto";
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const port = Number(process.argv[2] ?? 4000);
const secret = process.env.WEBHOOK_SECRET; // whsec_…, of POST /v1/webhooks
const keys = (process.env.WEBHOOK_KEYS ?? "").split(",").filter(Boolean); // whpk_…, of GET /v1/webhooks/keys
if (!secret && keys.length === 0) throw new Error("WEBHOOK_SECRET or WEBHOOK_KEYS is needed");

/** A message is a fraction of this. */
const BODY_BYTES_MAX = 256 * 1024;
/** By how much, in seconds, a message may be older or newer than this machine's clock says. */
const TOLERANCE_SECONDS = 300;
/** Ids of messages that were taken. A shop keeps them where it keeps its orders, in the same transaction. */
const taken = new Set();
const TAKEN_MAX = 100_000;

const webhook = secret && new Webhook(secret);
// What stands before an Ed25519 key in the form that Node reads (RFC 8410).
const SPKI = Buffer.from("302a300506032b6570032100", "hex");
const publicKeys = keys.map((key) =>
  createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(key.slice("whpk_".length), "base64")]), format: "der", type: "spki" }),
);

/** The message, or an error. `v1` is verified by the library, `v1a`, which it does not know, here. */
function opened(headers, body) {
  if (webhook) return webhook.verify(body, headers);
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures = "" } = headers;
  if (!(Math.abs(Date.now() / 1000 - Number(timestamp)) <= TOLERANCE_SECONDS)) throw new Error("too old, or too new");
  const signed = Buffer.from(`${id}.${timestamp}.${body}`);
  const holds = signatures.split(" ").some((text) => {
    const [version, signature = ""] = text.split(",");
    return version === "v1a" && publicKeys.some((key) => verify(null, signed, key, Buffer.from(signature, "base64")));
  });
  if (!holds) throw new Error("no signature holds");
  return JSON.parse(body);
}

const server = createServer(async (request, response) => {
  const answer = (status) => response.writeHead(status).end();
  try {
    if (request.method !== "POST") return answer(405);
    const chunks = [];
    let length = 0;
    for await (const chunk of request) {
      length += chunk.length;
      if (length > BODY_BYTES_MAX) return answer(413);
      chunks.push(chunk);
    }
    const message = opened(request.headers, Buffer.concat(chunks).toString());
    const id = request.headers["webhook-id"];
    // At least once: what came before is answered as it was then, and not acted on again.
    if (!taken.has(id)) {
      console.log(JSON.stringify({ id, type: message.type, payment_id: message.data.payment_id, status: message.data.status }));
      if (taken.size >= TAKEN_MAX) taken.delete(taken.values().next().value);
      taken.add(id);
    }
    answer(204);
  } catch (error) {
    console.error(`refused: ${error.message}`);
    answer(400);
  }
});
server.listen(port, "127.0.0.1");
