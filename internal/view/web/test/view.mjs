// Drives a browser through the view: view.mjs URL pages|large DIRECTORY-OF-PICTURES. A line "hold NODE" on the output asks whoever runs this to have
// that node held; the answer on the input is a line.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [url, what, pictures] = process.argv.slice(2);
const origin = new URL(url).origin;
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function hold(node) {
  console.log("hold " + node);
  await answers.next();
}

const browser = await chromium.launch({
  executablePath: process.env.UI_BROWSER,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const wrong = [];

async function open(colorScheme, viewport = { width: 1280, height: 860 }) {
  const context = await browser.newContext({ colorScheme, viewport, permissions: ["clipboard-read", "clipboard-write"], timezoneId: "UTC", locale: "en-GB" });
  const page = await context.newPage();
  page.on("request", (r) => { if (new URL(r.url()).origin !== origin) wrong.push("request to " + r.url()); });
  page.on("console", (m) => { if (m.type() === "error") wrong.push(`${m.text()} (${m.location().url})`); });
  page.on("pageerror", (e) => wrong.push(String(e)));
  await page.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI}`));
    const look = () => (document.querySelectorAll("a.cell").length === 5000 ? (window.all = performance.now()) : requestAnimationFrame(look));
    look();
    new PerformanceObserver((list) => { for (const e of list.getEntries()) if (e.name === "first-contentful-paint") window.painted = e.startTime; }).observe({ type: "paint", buffered: true });
  });
  await page.goto(url);
  await page.waitForSelector("a.cell");
  return page;
}

try {
  await { pages, large }[what]();
  assert.deepEqual(wrong, []);
} finally {
  await browser.close();
}
process.exit(0);

async function pages() {
  let page = await open("light");
  assert.ok(!page.url().includes("token"), "the token stays in the address");
  assert.equal(await page.title(), "production · Firmware");
  assert.equal(await page.textContent("header.top .cluster"), "production");
  await page.screenshot({ path: pictures + "/view-nodes.png" });

  // With the keyboard alone: to a node and back, to each page, and a command is copied.
  await page.keyboard.press("/");
  await page.keyboard.type("gpu-03");
  await page.waitForFunction(() => document.querySelectorAll("a.cell").length < 12);
  await page.keyboard.press("Tab");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.n), "gpu-031");
  const reached = () => page.evaluate(() => [...document.querySelectorAll('a.cell[tabindex="0"]')].map((c) => c.dataset.n));
  assert.deepEqual(await reached(), ["gpu-031"]);
  await page.fill("input[type=search]", "gpu-04");
  await page.waitForSelector("a.cell[data-n=gpu-031]", { state: "detached" });
  assert.deepEqual(await reached(), ["gpu-040"], "the one that had the focus is not shown");
  await page.fill("input[type=search]", "gpu-03");
  await page.waitForSelector("a.cell[data-n=gpu-031]");
  assert.deepEqual(await reached(), ["gpu-031"]);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.dataset.n), "gpu-031");
  await page.keyboard.press("Enter");
  await page.waitForSelector("h1:text('gpu-031')");
  await page.waitForSelector("text=Devices");
  for (const name of ["Nodes", "Rollouts", "Versions", "Stuck"]) {
    await page.evaluate(() => document.activeElement.blur());
    for (let i = 0; i < 8 && (await page.evaluate(() => document.activeElement.textContent.replace(/[0-9]/g, ""))) !== name; i++) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.waitForSelector(`nav a[aria-current]:text('${name}')`);
  }
  for (let i = 0; i < 40 && (await page.evaluate(() => document.activeElement.textContent)) !== "Copy"; i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForSelector("button:text('Copied')");
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(copied, /^kubectl (firmware )?--context=production /);

  // The pages, as they are for the documentation, in both colours.
  for (const scheme of ["light", "dark"]) {
    page = await open(scheme);
    const picture = async (name) => page.screenshot({ path: `${pictures}/view-${name}${scheme === "dark" ? "-dark" : ""}.png` });
    await picture("nodes");
    await page.click("nav >> text=Rollouts");
    await page.waitForSelector("text=jobs begin");
    await page.locator("#pool-gpu").scrollIntoViewIfNeeded();
    await page.evaluate(() => scrollTo(0, document.querySelector("#pool-gpu").offsetTop - 64));
    await picture("rollouts");
    await page.click("nav >> text=Versions");
    await page.waitForSelector("table.matrix");
    await picture("versions");
    await page.click("nav >> text=Stuck");
    await page.waitForSelector(".needs");
    await picture("stuck");
    await page.click(".needs a");
    await page.waitForSelector(".steps");
    await picture("node");
  }

  // A version leads to its nodes.
  await page.click("nav >> text=Versions");
  await page.click("a.v >> text=28.39.2048 >> nth=0");
  await page.waitForSelector("text=nodes run 28.39.2048");
  assert.ok((await page.locator("a.cell").count()) < 96);
  await page.click("text=Show all");
  {
    const page = await (await browser.newContext()).newPage();
    let answer;
    await page.route("**/api/running?*", (r) => { answer = r; });
    await page.goto(url);
    await page.waitForSelector("a.cell");
    await page.evaluate(() => { location.hash = "#/?class=NIC&model=ConnectX-7&version=28.39.2048"; });
    await page.waitForSelector("text=Reading which nodes run 28.39.2048 on ConnectX-7 …");
    assert.equal(await page.locator("a.cell").count(), 0, "others are shown meanwhile");
    await answer.fulfill({ status: 502, body: "it is away" });
    await page.waitForSelector("text=Which nodes run 28.39.2048 cannot be read: it is away");
    await page.click("text=Show all");
    await page.waitForSelector("a.cell");
  }

  // What changes is shown without being asked for, on the page of the node too.
  await hold("edge-096");
  await page.waitForSelector("a.cell.s-held[data-n=edge-096]");

  // The filter that is on can be put off, though no node is like that any more.
  await page.click(".legend button:has-text('silent')");
  await page.waitForFunction(() => document.querySelectorAll("a.cell").length === 1);
  await hold("gpu-036");
  await page.waitForSelector("text=No node is like that.");
  await page.click(".legend button[aria-pressed=true]:has-text('0 silent')");
  await page.waitForFunction(() => document.querySelectorAll("a.cell").length === 96);

  await page.selectOption("select", "model");
  await page.waitForSelector(".group >> text=HPE ProLiant DL360 Gen11");
  await page.selectOption("select", "label:topology.kubernetes.io/zone");
  await page.waitForSelector(".group >> text=hall-b");

  // A tab takes the address of another view, or of the same one again.
  await page.evaluate((hash) => { location.hash = hash; }, new URL(url).hash);
  await page.waitForFunction(() => location.hash === "#/" && document.querySelectorAll("a.cell").length === 96);

  // What nothing is heard of is not shown as live, though its connection looks well.
  {
    const page = await (await browser.newContext()).newPage();
    await page.clock.install();
    await page.goto(url);
    await page.waitForSelector("text=● live");
    await page.route("**/api/stream", (r) => r.abort());
    await page.clock.fastForward(31_000);
    await page.waitForSelector("text=○ not connected");
    await page.waitForSelector("text=What is shown is from then");
    await page.unroute("**/api/stream");
    await page.waitForSelector("text=● live");
  }

  // A picture of which only a part has come is none.
  {
    const page = await (await browser.newContext()).newPage();
    await page.route("**/api/stream", (r) => r.fulfill({ contentType: "text/event-stream", body: 'event: nodes\ndata: {"rows":[]}\n\nevent: summary\ndata: {"dev' }));
    await page.goto(url);
    await page.waitForSelector("text=○ not connected");
    assert.equal(await page.textContent("main"), "Reading the fleet …");
    await page.unroute("**/api/stream");
    await page.waitForSelector("a.cell");
  }

  // An address that means nothing shows the nodes.
  await page.evaluate(() => { location.hash = "#/node/%"; });
  await page.waitForSelector("nav a[aria-current]:text('Nodes')");
  await page.waitForSelector("a.cell");

  // Without the token there is nothing to see.
  const bare = await (await browser.newContext()).newPage();
  await bare.goto(origin);
  await bare.waitForSelector("text=Open the address that kubectl firmware ui printed");
}

async function large() {
  const page = await open("light");
  console.log(`5,000 nodes: first paint after ${Math.round(await page.evaluate(() => window.painted))} ms, all nodes after ${Math.round(await page.evaluate(() => window.all))} ms`);
  await page.waitForTimeout(1500);
  await page.screenshot({ path: pictures + "/view-large.png" });
  for (const node of ["gpu-2000", "gpu-2001", "gpu-2002"]) {
    await page.evaluate((n) => {
      const cell = document.querySelector(`a.cell[data-n="${n}"]`);
      new MutationObserver(() => requestAnimationFrame(() => { window.shown = Date.now(); })).observe(cell, { attributes: true });
    }, node);
    const from = Date.now();
    await hold(node);
    const written = Date.now();
    await page.waitForSelector(`a.cell.s-held[data-n="${node}"]`);
    const at = await page.evaluate(() => window.shown);
    console.log(`5,000 nodes: a change is shown after ${at - written} ms (${at - from} ms with its write)`);
    await page.waitForTimeout(3000);
  }
}
