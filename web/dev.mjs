// Serves the pages from their sources and passes everything else on to a running gateway, so that a change of the script
// needs no build of the gateway: node web/dev.mjs http://127.0.0.1:8080 [port]. With `console` behind the port it serves the
// console, before a gateway's listener for operators.
import { readFileSync } from 'node:fs';
import { createServer, request } from 'node:http';

import { build } from 'esbuild';

import { optionsOf } from './bundle.mjs';

const [gateway = 'http://127.0.0.1:8080', port = '8090', entry = 'page'] = process.argv.slice(2);
const options = optionsOf(entry);
const ID = /^\/pay\/((?:pay|qrq)_[a-z2-7]+)$/;

async function page(kind, id) {
  const { outputFiles } = await build({ ...options, write: false });
  const style = outputFiles.find(({ path }) => path.endsWith('.css')).text;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Payment gateway</title><style>${style}</style><script src="/pay/dev.js" defer></script></head>
<body data-page="${kind}" data-id="${id}"><header class="bar"><a href="/">Payment gateway</a></header><main id="main"></main></body></html>`;
}

const bundled = async (name) => {
  const { outputFiles } = await build({ ...options, write: false, sourcemap: 'inline' });
  return outputFiles.find(({ path }) => path.endsWith(name)).text;
};

createServer(async (asked, answer) => {
  const { pathname } = new URL(asked.url, gateway);
  const found = ID.exec(pathname);
  try {
    if (entry === 'console' && ['/', '/console.js', '/console.css'].includes(pathname)) {
      answer.setHeader('content-type', { '/console.js': 'text/javascript', '/console.css': 'text/css' }[pathname] ?? 'text/html');
      answer.end(pathname === '/' ? readFileSync(new URL('data/console.html', import.meta.url)) : await bundled(pathname));
    } else if (entry === 'page' && pathname === '/pay/dev.js') {
      answer.setHeader('content-type', 'text/javascript').end(await bundled('.js'));
    } else if (entry === 'page' && (pathname === '/pay' || pathname === '/' || found)) {
      const kind = found ? (found[1].startsWith('pay_') ? 'payment' : 'quote-request') : pathname === '/' ? 'start' : 'link';
      answer.setHeader('content-type', 'text/html').end(await page(kind, found?.[1] ?? ''));
    } else {
      const { method, headers } = asked;
      const passed = request(new URL(asked.url, gateway), { method, headers }, (response) => {
        answer.writeHead(response.statusCode, response.headers);
        response.pipe(answer);
      });
      passed.on('error', () => answer.destroy());
      answer.on('close', () => passed.destroy());
      asked.pipe(passed);
    }
  } catch (error) {
    answer.writeHead(500).end(String(error.message));
  }
}).listen(Number(port), '127.0.0.1', () => console.log(`http://127.0.0.1:${port} before ${gateway}`));
