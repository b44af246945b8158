// The fleet as the stream tells it, and the connection that the stream is.
import type { Delta, Model, Need, Outage, Pool, Row, Summary } from "./types";

export const fleet = {
  rows: new Map<string, Row>(),
  // order has the names of the rows as people order them.
  order: [] as string[],
  summary: { cluster: "", devices: 0, labels: [], rack: "" } as Summary,
  pools: [] as Pool[],
  versions: [] as Model[],
  needs: [] as Need[],
  outage: { since: null } as Outage,
  // read says that a whole picture was sent once; gone, that the program that serves the page does not answer, since when.
  read: false,
  gone: null as Date | null,
  // refused is why the page may not read at all.
  refused: "",
};

let changed: () => void = () => {};
export function onChange(f: () => void): void { changed = f; }

// The token comes with the address, and stays in this tab: out of the address, so that it is not copied with it.
function token(): string {
  const given = /^#token=([A-Z0-9]+)$/i.exec(location.hash);
  if (given?.[1]) {
    sessionStorage.setItem("token", given[1]);
    history.replaceState(null, "", "/#/");
  }
  return sessionStorage.getItem("token") ?? "";
}
const secret = token();

export function ask(path: string, signal?: AbortSignal): Promise<Response> {
  return fetch(path, { headers: { Authorization: "Bearer " + secret }, cache: "no-store", ...(signal ? { signal } : {}) });
}

// read asks for one thing; what went wrong is an error with words for people.
export async function read<T>(path: string, signal?: AbortSignal): Promise<T> {
  const answer = await ask(path, signal);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return (await answer.json()) as T;
}

let current: AbortController | undefined;

// The server says something every ten seconds. What says nothing for longer than patience is stuck, though its connection looks well.
const patience = 30_000;
let heard = Date.now();

// watched ends an attempt to follow the stream on which nothing comes.
function watched(attempt: AbortController): () => void {
  heard = Date.now();
  const t = setInterval(() => {
    if (Date.now() - heard < patience) return;
    fleet.gone ??= new Date(heard);
    changed();
    attempt.abort();
  }, 1000);
  return () => clearInterval(t);
}

// follow reads the stream, grouped by a label, and begins again where it breaks off.
export function follow(label: string): void {
  current?.abort();
  const run = (current = new AbortController());
  void (async () => {
    for (let pause = 250; !run.signal.aborted; pause = Math.min(pause * 2, 5000)) {
      const attempt = new AbortController();
      const rest = watched(attempt);
      try {
        const answer = await ask("/api/stream" + (label ? "?label=" + encodeURIComponent(label) : ""), AbortSignal.any([run.signal, attempt.signal]));
        if (answer.status === 401 || answer.status === 403) {
          fleet.refused = await answer.text();
          changed();
          return;
        }
        if (!answer.ok || !answer.body) throw new Error(answer.statusText);
        pause = 250;
        await events(answer.body);
      } catch {
        // below
      } finally {
        rest();
      }
      if (run.signal.aborted) return;
      fleet.gone ??= new Date();
      changed();
      await new Promise((r) => setTimeout(r, pause));
    }
  })();
}

// events takes what a stream says. The first picture comes in parts, of which that of the outage is the last; nothing is drawn before that one.
async function events(body: ReadableStream<Uint8Array>): Promise<void> {
  let first = true, whole = false;
  const reader = body.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  let left: string[] = [];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard = Date.now();
    if (!value.includes("\n")) {
      left.push(value);
      continue;
    }
    const parts = (left.join("") + value).split("\n\n");
    left = [parts.pop() ?? ""];
    for (const part of parts) {
      if (part.startsWith(":")) continue; // the server is there
      const at = part.indexOf("\ndata: ");
      const name = part.slice("event: ".length, at);
      take(name, part.slice(at + "\ndata: ".length), first);
      first = false;
      whole ||= name === "outage";
    }
    if (!whole) continue;
    fleet.gone = null;
    fleet.read = true;
    changed();
  }
}

export const natural = new Intl.Collator("en", { numeric: true });
let known = new Set<string>();

// fresh are the rows whose state changed with the last event, to show that for a moment.
export const fresh = new Set<string>();

function take(name: string, data: string, first: boolean): void {
  switch (name) {
    case "nodes": {
      const d = JSON.parse(data) as Delta;
      if (first) fleet.rows = new Map();
      fresh.clear();
      for (const row of d.rows) {
        const was = fleet.rows.get(row.name);
        if (!first && was?.state !== row.state) fresh.add(row.name);
        fleet.rows.set(row.name, row);
      }
      for (const gone of d.gone ?? []) fleet.rows.delete(gone);
      if (fleet.rows.size !== fleet.order.length || !d.rows.every((r) => known.has(r.name))) {
        fleet.order = [...fleet.rows.keys()].sort(natural.compare);
        known = new Set(fleet.order);
      }
      break;
    }
    case "summary":
      fleet.summary = JSON.parse(data) as Summary;
      document.title = [fleet.summary.cluster, "Firmware"].filter(Boolean).join(" · ");
      break;
    case "pools": fleet.pools = JSON.parse(data) as Pool[]; break;
    case "versions": fleet.versions = JSON.parse(data) as Model[]; break;
    case "needs": fleet.needs = JSON.parse(data) as Need[]; break;
    case "outage": fleet.outage = JSON.parse(data) as Outage; break;
  }
}
