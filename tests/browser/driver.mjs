// A real Chromium for the end-to-end tests, driven by JSON lines as tests/python/peer.py is.
//
//   in    {"id": 1, "do": "open", "page": "envelopes"}     opens tests/browser/pages/envelopes.js, bundled, in a page
//         {"id": 2, "do": "show", "file": …, "query": …}   opens a file of the project as it is
//         {"id": 3, "do": "text", "until": "x"}            the page's text, once it has that in it
//         {"id": 4, "do": …, …}                            calls that function of the page's window.doing with the rest
//   out   {"id": 1, "ok": …} or {"id": 1, "error": "…"}
//         {"event": …}                                     whatever the page says by window.tell
//         {"event": "error", "text": …}                    an error that nobody in the page caught
//
// What pages print goes to stderr. Nothing is fetched from outside: packages that a page loads from a public CDN come from
// node_modules, the same files of the same versions.
//
// Usage: node driver.mjs DIRECTORY     as scripts/browser-env prints it
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { dirname, extname, join, normalize } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const environment = process.argv[2];
const require = createRequire(join(environment, 'driver.mjs'));
const { build } = require('esbuild');
const { chromium } = require('playwright-core');

const here = dirname(fileURLToPath(import.meta.url));
const project = join(here, '../..');
const packages = join(environment, 'node_modules');
const CDN = 'https://cdn.jsdelivr.net/npm/';
const types = { '.html': 'text/html', '.js': 'text/javascript', '.mjs': 'text/javascript' };

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

async function bundled(name) {
  const built = await build({
    entryPoints: [join(here, 'pages', name)],
    bundle: true,
    format: 'esm',
    write: false,
    define: { 'process.env.NODE_ENV': '"production"' },
    nodePaths: [packages],
    logLevel: 'silent',
  });
  return built.outputFiles[0].text;
}

// Pages come over HTTP from 127.0.0.1: as on a developer's machine, and a secure context.
async function serve(request, response) {
  const path = normalize(decodeURIComponent(new URL(request.url, 'http://127.0.0.1').pathname));
  const page = /^\/pages\/(\w+)(\.js)?$/.exec(path);
  const shell = (name) => `<!doctype html><meta charset="utf-8"><main></main><script type="module" src="${name}.js"></script>`;
  try {
    const content = page ? (page[2] ? await bundled(`${page[1]}.js`) : shell(page[1])) : await readFile(join(project, path));
    const type = page && !page[2] ? 'text/html' : types[extname(path)];
    response.writeHead(200, { 'content-type': type ?? 'application/octet-stream' }).end(content);
  } catch (error) {
    response.writeHead(404).end(String(error));
  }
}

async function fromPackages(route) {
  const [, name, version, file] = /^((?:@[^/]+\/)?[^@/]+)@([^/]+)\/([^?]+)$/.exec(route.request().url().slice(CDN.length)) ?? [];
  const found = name && JSON.parse(await readFile(join(packages, name, 'package.json'))).version;
  if (!found || found !== version) {
    say({ event: 'error', text: `${route.request().url()} is not what the tests have (${found})` });
    return route.abort();
  }
  const headers = { 'access-control-allow-origin': '*', 'content-type': 'text/javascript' };
  return route.fulfill({ headers, body: await readFile(join(packages, name, normalize(file))) });
}

const server = createServer(serve).listen(0, '127.0.0.1');
const browser = await chromium.launch({
  executablePath: join(environment, 'chromium'),
  // As root there is no sandbox, and in containers hardly any /dev/shm; the others keep it from calling home.
  args: [
    '--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-quic', '--no-first-run',
    '--disable-background-networking', '--disable-component-update', '--disable-sync',
    // A microphone that beeps, and nobody to ask for it.
    '--use-fake-device-for-media-stream', '--use-fake-ui-for-media-stream',
  ],
});
const page = await browser.newPage();
page.on('pageerror', (error) => say({ event: 'error', text: error.stack ?? String(error) }));
page.on('console', (message) => console.error(`${message.type()}: ${message.text()}`));
await page.exposeFunction('tell', say);
await page.route(`${CDN}**`, fromPackages);

const visit = (path) => page.goto(`http://127.0.0.1:${server.address().port}/${path}`);
const doing = {
  open: async ({ page: name }) => {
    await visit(`pages/${name}`);
    await page.waitForFunction(() => window.doing);
  },
  show: async ({ file, query }) => {
    await visit(`${file}?${new URLSearchParams(query)}`);
  },
  text: async ({ until }) => {
    await page.waitForFunction((until) => document.body.innerText.includes(until), until);
    return page.innerText('body');
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, do: what, ...rest } = JSON.parse(line);
  const done = doing[what]?.(rest) ?? page.evaluate(([what, rest]) => window.doing[what](rest), [what, rest]);
  // Not awaited: the test may have more to say meanwhile.
  done.then((ok) => say({ id, ok: ok ?? null }), (error) => say({ id, error: String(error) }));
}
await browser.close();
process.exit(0);
