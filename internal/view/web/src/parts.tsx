// What several pages are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Command, Position, State } from "./types";

export const states: { state: State; letter: string; name: string }[] = [
  { state: "held", letter: "H", name: "held" },
  { state: "stuck", letter: "!", name: "needs a person" },
  { state: "silent", letter: "?", name: "silent" },
  { state: "updating", letter: "U", name: "updating" },
  { state: "waiting", letter: "W", name: "waiting" },
  { state: "pending", letter: "P", name: "to do" },
  { state: "done", letter: "", name: "done" },
  { state: "unknown", letter: "–", name: "not reported" },
];
export const of = (s: State) => states.find((x) => x.state === s)!;

export function Badge({ state }: { state: State }) {
  const s = of(state);
  return <span class="badge"><i class={"tile s-" + state} aria-hidden="true">{s.letter}</i>{s.name}</span>;
}

const stands: Record<Position, string> = { Newest: "✓", Behind: "↓", Ahead: "↑", Unknown: "·" };

export function Stands({ position, issues, newest, fixedIn }: { position: Position; issues?: string[] | undefined; newest?: string | undefined; fixedIn?: string | undefined }) {
  return (
    <span class="stands">
      <span class={"p-" + position}>{stands[position]} {position === "Unknown" ? "not known" : position.toLowerCase()}{position === "Behind" && newest ? " " + newest : ""}</span>
      {issues && issues.length > 0 && (
        <span class="p-vulnerable" title={issues.join(", ")}>⚠ {issues[0]}{issues.length > 1 ? ` and ${issues.length - 1} more` : ""}{fixedIn ? `, fixed in ${fixedIn}` : ""}</span>
      )}
    </span>
  );
}

// Commands are shown to be copied. Nothing here runs one.
export function Commands({ next }: { next: Command[] }) {
  if (next.length === 0) return null;
  return (
    <ul class="commands">
      {next.map((c) => (
        <li key={c.typed}>
          <span class="purpose">{c.purpose}</span>
          <Copy text={c.typed} />
        </li>
      ))}
    </ul>
  );
}

function Copy({ text }: { text: string }) {
  const [copied, set] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const t = setTimeout(() => set(false), 1500);
    return () => clearTimeout(t);
  }, [copied]);
  return (
    <span class="command">
      <code>{text}</code>
      <button type="button" aria-label={"Copy " + text} onClick={() => void navigator.clipboard.writeText(text).then(() => set(true))}>{copied ? "Copied" : "Copy"}</button>
    </span>
  );
}

export function Card({ title, aside, children, id }: { title: ComponentChildren; aside?: ComponentChildren; children: ComponentChildren; id?: string }) {
  return (
    <section class="card" {...(id ? { id } : {})}>
      <header><h2>{title}</h2>{aside && <div class="aside">{aside}</div>}</header>
      {children}
    </section>
  );
}

// The clock of the page: what is shown relative to now is drawn again every half a minute, and nothing else moves.
export function useNow(): number {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const t = setInterval(() => set(Date.now()), 30_000);
    return () => clearInterval(t);
  }, []);
  return now;
}

export function length(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return s + " s";
  const m = Math.round(s / 60);
  if (m < 90) return m + " min";
  const h = Math.round(m / 60);
  if (h < 48) return h + " h";
  return Math.round(h / 24) + " days";
}

export function ago(at: string | null | undefined, now: number): string {
  if (!at) return "";
  const d = now - Date.parse(at);
  return d >= 0 ? length(d) + " ago" : "in " + length(-d);
}

const clock = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false });
export const stamp = (at: string | number) => clock.format(new Date(at));

export const plural = (n: number, one: string, many: string) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
