// What several tests need: a gateway that says what a test wants, and prepared payments as a gateway gave them.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';

/** Answers of `/v1/payments/prepare` that a gateway of gw-dev gave, with what they were for. */
export const prepared = () => JSON.parse(readFileSync(new URL('fixtures/prepared.json', import.meta.url), 'utf8'));

/** A file of the repository. */
export const repository = (path) => JSON.parse(readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8'));

/**
 * An HTTP server on loopback whose answers are what `answer` returns: `{status, headers, body}`, or `undefined` where it has
 * answered by itself. `calls` has what was asked. Ends with the test `t`.
 */
export async function serve(t, answer) {
  const calls = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const call = { method: request.method, url: request.url, headers: request.headers, text };
    calls.push(call);
    const given = await answer(call, response, calls.length);
    if (!given) return;
    const { status = 200, headers = {}, body } = given;
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(body === undefined ? '' : typeof body === 'string' ? body : JSON.stringify(body));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return { url: `http://127.0.0.1:${server.address().port}`, calls, close };
}

/** Without pauses that a test would wait for. */
export const QUICK = { pauseMs: 1, retries: 3 };
