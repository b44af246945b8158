// The fleet as a grid of nodes.
import { Component } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { fleet, fresh, natural, read } from "./fleet";
import { of, plural, states } from "./parts";
import type { Row, State } from "./types";

export type Grouping = "rack" | "pool" | "model" | "state" | `label:${string}`;

function groupOf(row: Row, by: Grouping): string {
  switch (by) {
    case "pool": return row.pool || "in no pool";
    case "model": return row.model || "of an unknown model";
    case "state": return of(row.state).name;
  }
  return row.group || "without the label";
}

function isChosen(row: Row, words: string[], only: State | null, among: Set<string> | null): boolean {
  if (only && row.state !== only || among && !among.has(row.name)) return false;
  return words.length === 0 || words.every((w) => (row.name + " " + (row.group ?? "") + " " + (row.pool ?? "") + " " + (row.model ?? "") + " " + (row.reason ?? "")).toLowerCase().includes(w));
}

export function Grid({ by, setBy, query }: { by: Grouping; setBy: (g: Grouping) => void; query: URLSearchParams }) {
  const [only, setOnly] = useState<State | null>(null);
  const [text, setText] = useState("");
  const [at, setAt] = useState("");
  const [entry, setEntry] = useState("");
  const { asked, among, wrong } = useRunning(query);
  const search = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const key = (e: KeyboardEvent) => {
      if (e.key === "/" && !(e.target instanceof HTMLInputElement)) {
        e.preventDefault();
        search.current?.focus();
      }
    };
    addEventListener("keydown", key);
    return () => removeEventListener("keydown", key);
  }, []);

  const counts = new Map<State, number>();
  const groups = new Map<string, Row[]>();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const name of fleet.order) {
    const row = fleet.rows.get(name)!;
    counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
    if (asked && !among || !isChosen(row, words, only, among)) continue;
    shown++;
    const of = groupOf(row, by);
    const group = groups.get(of);
    if (group) group.push(row);
    else groups.set(of, [row]);
  }
  const names = [...groups.keys()].sort(natural.compare);
  // One cell is reached with Tab: that which had the focus last, or else the first one.
  const entered = fleet.rows.get(entry);
  const isShown = !!entered && !!groups.get(groupOf(entered, by))?.includes(entered);
  const tab = isShown ? entry : groups.get(names[0] ?? "")?.[0]?.name;
  const size = shown <= 150 ? "large" : shown <= 800 ? "medium" : "small";
  const focused = fleet.rows.get(at);

  return (
    <main class="grid-page">
      <h1 class="hidden">Nodes</h1>
      <div class="bar">
        <div class="legend" role="group" aria-label="Only nodes that are">
          {states.filter((s) => counts.get(s.state) || only === s.state).map((s) => (
            <button type="button" key={s.state} aria-pressed={only === s.state} onClick={() => setOnly(only === s.state ? null : s.state)}>
              <i class={"tile s-" + s.state} aria-hidden="true">{s.letter}</i><b>{(counts.get(s.state) ?? 0).toLocaleString("en")}</b> {s.name}
            </button>
          ))}
        </div>
        <div class="controls">
          <label>by <select value={by} onChange={(e) => setBy(e.currentTarget.value as Grouping)}>
            {fleet.summary.rack && <option value="rack">{short(fleet.summary.rack)}</option>}
            <option value="pool">pool</option>
            <option value="model">model</option>
            <option value="state">state</option>
            {fleet.summary.labels.filter((l) => l !== fleet.summary.rack).map((l) => <option key={l} value={"label:" + l}>{l}</option>)}
          </select></label>
          <input ref={search} type="search" placeholder="Find nodes  /" aria-label="Find nodes" value={text} onInput={(e) => setText(e.currentTarget.value)} />
        </div>
      </div>
      {asked && <p class={"note" + (wrong ? " bad" : "")}>{wrong ? `Which nodes run ${query.get("version")} cannot be read: ${wrong}`
        : among ? `${plural(among.size, "node runs", "nodes run")} ${query.get("version")} on ${query.get("model")}.` : `Reading which nodes run ${query.get("version")} on ${query.get("model")} …`} <a href="#/">Show all</a></p>}
      {shown === 0 && !(asked && !among) && <p class="empty">{fleet.rows.size === 0 ? "The cluster has no nodes." : "No node is like that."}</p>}
      <div class={"groups size-" + size} onKeyDown={move} onFocusIn={(e) => { setAt(nameOf(e.target)); setEntry(nameOf(e.target)); }} onMouseOver={(e) => setAt(nameOf(e.target) || at)}>
        {names.map((n) => <Group key={n} name={n} rows={groups.get(n)!} large={size === "large"} tab={groups.get(n)!.find((r) => r.name === tab)?.name ?? ""} />)}
      </div>
      <div class="peek" aria-live="polite">
        {focused
          ? <><i class={"tile s-" + focused.state} aria-hidden="true">{of(focused.state).letter}</i> <b>{focused.name}</b> <span>{of(focused.state).name}{focused.state === "updating" && focused.steps ? `, ${focused.over ?? 0} of ${focused.steps} steps` : ""}</span>
            <span class="says">{focused.says || [focused.model, focused.pool && "pool " + focused.pool].filter(Boolean).join(" · ")}</span></>
          : <span class="says">{plural(fleet.rows.size, "node", "nodes")}, {plural(fleet.summary.devices, "device", "devices")}. Point at a node, or walk with the arrow keys; Enter opens it.</span>}
      </div>
    </main>
  );
}

const short = (label: string) => label.slice(label.lastIndexOf("/") + 1);
const nameOf = (t: EventTarget | null) => (t instanceof Element && t.closest<HTMLElement>("a.cell")?.dataset.n) || "";

interface Running { asked: string; among: Set<string> | null; wrong: string }

// useRunning are the nodes that the address asks for by what their devices run; asked is empty where it asks for none, and among is null until they are known.
function useRunning(query: URLSearchParams): Running {
  const asked = query.has("version") ? query.toString() : "";
  const [known, set] = useState<Running>({ asked: "", among: null, wrong: "" });
  const versions = fleet.versions;
  const up = !fleet.gone;
  useEffect(() => {
    if (!asked || !up) return;
    const stop = new AbortController();
    read<string[]>("/api/running?" + asked, stop.signal).then(
      (n) => set({ asked, among: new Set(n), wrong: "" }),
      (e: Error) => { if (!stop.signal.aborted) set((was) => ({ asked, among: was.asked === asked ? was.among : null, wrong: e.message })); });
    return () => stop.abort();
  }, [asked, versions, up]);
  return useMemo(() => (known.asked === asked ? known : { asked, among: null, wrong: "" }), [known, asked]);
}

// move walks over the cells with the arrow keys.
function move(e: KeyboardEvent): void {
  const cell = e.target instanceof Element ? e.target.closest<HTMLElement>("a.cell") : null;
  if (!cell) return;
  const all = [...document.querySelectorAll<HTMLElement>("a.cell")];
  const i = all.indexOf(cell);
  let to: HTMLElement | undefined;
  switch (e.key) {
    case "ArrowRight": to = all[i + 1]; break;
    case "ArrowLeft": to = all[i - 1]; break;
    case "Home": to = all[0]; break;
    case "End": to = all[all.length - 1]; break;
    case "ArrowDown": to = vertical(all.slice(i + 1), cell); break;
    case "ArrowUp": to = vertical(all.slice(0, i).reverse(), cell); break;
    default: return;
  }
  e.preventDefault();
  to?.focus();
}

// vertical is the nearest cell of the next line.
function vertical(rest: HTMLElement[], from: HTMLElement): HTMLElement | undefined {
  const { top, left } = from.getBoundingClientRect();
  let line: number | undefined, best: HTMLElement | undefined, distance = Infinity;
  for (const c of rest) {
    const r = c.getBoundingClientRect();
    if (Math.abs(r.top - top) < 2) continue;
    line ??= r.top;
    if (Math.abs(r.top - line) > 2) break;
    if (Math.abs(r.left - left) < distance) [best, distance] = [c, Math.abs(r.left - left)];
  }
  return best;
}

// tab is the cell of the group that Tab reaches; empty for none.
interface GroupProps { name: string; rows: Row[]; large: boolean; tab: string }

// A group is drawn again only where one of its rows is another one.
class Group extends Component<GroupProps> {
  override shouldComponentUpdate(next: GroupProps): boolean {
    const { rows, large, tab } = this.props;
    return large !== next.large || tab !== next.tab || rows.length !== next.rows.length || rows.some((r, i) => r !== next.rows[i]);
  }
  render({ name, rows, large, tab }: GroupProps) {
    const counts = new Map<State, number>();
    for (const r of rows) counts.set(r.state, (counts.get(r.state) ?? 0) + 1);
    return (
      <section class="group" aria-label={name}>
        <h2><span>{name}</span> <small>{rows.length}</small></h2>
        <div class="share" aria-hidden="true">
          {states.filter((s) => counts.get(s.state)).map((s) => <i key={s.state} class={"s-" + s.state} style={{ flexGrow: counts.get(s.state)! }} />)}
        </div>
        <div class="cells">{rows.map((r) => <Cell key={r.name} row={r} large={large} tab={r.name === tab} />)}</div>
      </section>
    );
  }
}

interface CellProps { row: Row; large: boolean; tab: boolean }

class Cell extends Component<CellProps> {
  override shouldComponentUpdate(next: CellProps): boolean {
    return next.row !== this.props.row || next.large !== this.props.large || next.tab !== this.props.tab;
  }
  render({ row, large, tab }: CellProps) {
    const s = of(row.state);
    const done = row.state === "updating" && row.steps ? Math.round((100 * (row.over ?? 0)) / row.steps) : 0;
    return (
      <a class={`cell s-${row.state}${fresh.has(row.name) ? " fresh" : ""}`} href={"#/node/" + row.name} data-n={row.name} tabIndex={tab ? 0 : -1} aria-label={row.name + " " + s.name}>
        {large ? <><i class="letter" aria-hidden="true">{s.letter}</i><span>{row.name}</span>{done > 0 && <u style={{ width: done + "%" }} />}</> : s.letter}
      </a>
    );
  }
}
