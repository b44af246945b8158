// The rollouts: waves, budget, windows, and what is coming.
import { useEffect, useState } from "preact/hooks";
import { fleet, read } from "./fleet";
import { ago, Card, Commands, of, plural, stamp, states, useNow } from "./parts";
import type { Coming, ComingPool, Impact, Pool, Rollout, Wave } from "./types";

export function Rollouts() {
  const [coming, setComing] = useState<Coming | string | null>(null);
  const [asked, ask] = useState(0);
  const now = useNow();
  useEffect(() => {
    const stop = new AbortController();
    setComing(null);
    read<Coming>("/api/forecast", stop.signal).then(setComing, (e: Error) => { if (!stop.signal.aborted) setComing(e.message); });
    return () => stop.abort();
  }, [asked]);
  return (
    <main>
      <div class="title"><h1>Rollouts</h1><button type="button" onClick={() => ask(asked + 1)} disabled={coming === null}>{coming === null ? "Forecasting …" : "Forecast again"}</button></div>
      {typeof coming === "string" && <p class="note bad">No forecast: {coming}</p>}
      {fleet.pools.length === 0 && <p class="empty">There is no RolloutPolicy. The operator makes the one named default.</p>}
      {[...fleet.pools].sort((a, b) => rank(a) - rank(b)).map((p) => <PoolCard key={p.name} p={p} now={now} coming={typeof coming === "object" ? coming : null} />)}
    </main>
  );
}

// rank puts the pools in which something happens, or should, before those at rest.
const rank = (p: Pool) => (p.rollouts?.some((r) => r.halted) ? 0 : p.nodes.unavailable + p.nodes.queued + p.nodes.refused > 0 ? 1 : p.rollouts?.length ? 2 : 3);

function PoolCard({ p, now, coming }: { p: Pool; now: number; coming: Coming | null }) {
  const next = coming?.pools[p.name];
  return (
    <Card id={"pool-" + p.name} title={<>{p.name} {p.state !== "Active" && <span class="chip warn">{p.state}</span>}</>}
      aside={<>{plural(p.nodes.selected, "node", "nodes")}{p.ends && <> · done by {stamp(p.ends)}</>}</>}>
      <p class="says">{p.says || p.reason}</p>
      <Commands next={p.next} />
      <Shares p={p} />
      {p.rollouts?.map((r) => <Waves key={r.model + r.version} waves={p.waves ?? []} r={r} now={now} />)}
      {!p.rollouts?.length && !!p.waves?.length && <div class="update"><p class="quiet">No update is under way. One goes in these waves:</p><Line waves={p.waves} r={null} /></div>}
      <div class="columns">
        <div>
          <h3>Budget</h3>
          <Budget p={p} />
        </div>
        <div>
          <h3>Windows</h3>
          <Windows p={p} now={now} />
        </div>
      </div>
      {next && <><h3>Coming</h3><Next c={next} now={now} rough={coming!.rough} /></>}
      {coming && !next && <p class="quiet">Nothing further is coming.</p>}
    </Card>
  );
}

function Shares({ p }: { p: Pool }) {
  const counts = states.map((s) => ({ ...s, n: p.counts?.[s.state] ?? 0 })).filter((s) => s.n > 0);
  return (
    <div class="shares">
      <div class="share big" aria-hidden="true">{counts.map((s) => <i key={s.state} class={"s-" + s.state} style={{ flexGrow: s.n }} />)}</div>
      <p>{counts.map((s) => <span key={s.state}><i class={"tile s-" + s.state} aria-hidden="true">{s.letter}</i>{s.n.toLocaleString("en")} {s.name}</span>)}</p>
    </div>
  );
}

function Budget({ p }: { p: Pool }) {
  const admitted = (p.admitted ?? []).map((name) => ({ name, state: fleet.rows.get(name)?.state ?? "unknown" }));
  const other = Math.max(0, p.nodes.unavailable - admitted.length);
  const free = Math.max(0, p.nodes.budget - admitted.length - other);
  return (
    <>
      <p>{p.nodes.unavailable} of {plural(p.nodes.budget, "place", "places")} taken <span class="quiet">(maxUnavailable {p.budget})</span></p>
      <div class="places">
        {admitted.slice(0, 120).map((a) => <a key={a.name} class={"tile s-" + a.state} href={"#/node/" + a.name} aria-label={`${a.name} ${of(a.state).name}`} title={a.name}>{of(a.state).letter}</a>)}
        {Array.from({ length: Math.min(other, 120) }, (_, i) => <i key={"o" + i} class="tile s-silent" title="not Ready, or cordoned by somebody else">×</i>)}
        {Array.from({ length: Math.min(free, 120) }, (_, i) => <i key={"f" + i} class="tile free" title="free" />)}
      </div>
      {p.domains?.map((d) => <p key={d.key} class="quiet">at most {d.budget} with the same {d.key}</p>)}
      {p.nodes.queued + p.nodes.refused > 0 && <p>{plural(p.nodes.queued + p.nodes.refused, "node waits", "nodes wait")}{p.waiting?.length ? ": " : ""}{p.waiting?.map((w) => <span key={w.reason} class="chip">{w.reason} {w.nodes}</span>)}</p>}
    </>
  );
}

const week = 7 * 24 * 3600_000;

function Windows({ p, now }: { p: Pool; now: number }) {
  if (!p.windows?.length) return <p class="quiet">None: nodes may go at any time.</p>;
  const at = (t: number) => Math.min(100, Math.max(0, (100 * (t - now)) / week));
  const open = (p.open ?? []).map((s) => ({ from: Date.parse(s.from), to: Date.parse(s.to) }));
  const isOpen = open.find((s) => s.from <= now && now < s.to);
  const nextOpen = open.find((s) => s.from > now);
  const days: number[] = [];
  const midnight = new Date(now);
  midnight.setHours(24, 0, 0, 0);
  for (let t = midnight.getTime(); t < now + week; t += 24 * 3600_000) days.push(t);
  return (
    <>
      <p>{isOpen ? <><span class="p-Newest">● open</span>, closes {stamp(isOpen.to)}</> : <>○ closed{nextOpen ? <>, opens {stamp(nextOpen.from)}</> : p.opens ? <>, opens {stamp(p.opens)}</> : ", and does not open in the next days"}</>}</p>
      <div class="strip" role="img" aria-label={open.map((s) => `open from ${stamp(s.from)} to ${stamp(s.to)}`).join("; ")}>
        {open.filter((s) => s.to > now).map((s) => <i key={s.from} class="open" style={{ left: at(s.from) + "%", width: at(s.to) - at(s.from) + "%" }} title={`${stamp(s.from)} to ${stamp(s.to)}`} />)}
        {days.map((t) => <b key={t} style={{ left: at(t) + "%" }}>{new Date(t).toLocaleDateString(undefined, { weekday: "short" })}</b>)}
      </div>
      <ul class="plain">{p.windows.map((w) => <li key={w.name}><b>{w.name}</b> {w.effect === "Deny" ? "never" : "lets nodes go"} <code>{w.when}</code></li>)}</ul>
    </>
  );
}

function Waves({ waves, r, now }: { waves: Wave[]; r: Rollout; now: number }) {
  return (
    <div class="update">
      <p><b>{r.model}</b> to <b>{r.version}</b>{r.halted && <span class="chip bad">■ halted {ago(r.halted, now)}</span>}</p>
      <Line waves={waves} r={r} />
      {r.says && <p class="quiet">{r.says}</p>}
      <Commands next={r.next ?? []} />
    </div>
  );
}

function Line({ waves, r }: { waves: Wave[]; r: Rollout | null }) {
  const all: Wave[] = [...waves, { name: "rest" }];
  const open = r ? all.findIndex((w) => w.name === r.wave) : -1;
  return (
    <ol class="waves">
      {all.map((w, i) => {
        const is = !r ? "later" : i < open ? "over" : i > open ? "later" : r.halted ? "halted" : "open";
        return (
          <li key={w.name} class={is} {...(is === "open" ? { "aria-current": "step" as const } : {})}>
            <b>{is === "over" ? "✓ " : is === "halted" ? "■ " : is === "open" ? "▶ " : ""}{w.name}</b>
            <span>{w.size ? "to " + w.size : w.name === "rest" ? "all others" : "all it selects"}{w.for ? " of " + w.for : ""}</span>
            {i === open && r && <span class="count">{r.done > 0 && `${r.done} before · `}{r.succeeded} healthy{r.failed > 0 && <em> · {r.failed} failed</em>}</span>}
            {w.soak && <span class="quiet">then {w.soak} soak</span>}
          </li>
        );
      })}
    </ol>
  );
}

const impacts: Record<Impact, string> = { InService: "stays in service", Drained: "drained", MayReboot: "may reboot", Reboots: "reboots" };

function Next({ c, now, rough }: { c: ComingPool; now: number; rough: boolean }) {
  const most = Math.max(...c.starts);
  return (
    <>
      {!!c.waits?.length && <p>When {plural(c.waits.reduce((n, w) => n + w.nodes, 0), "job", "jobs")} will begin is not known: {c.waits.map((w) => <span key={w.reason} class="chip">{w.reason} {w.nodes}</span>)}</p>}
      {c.total > 0 && <p>{plural(c.total, "job begins", "jobs begin")} without a person until {stamp(c.to)}{rough && ", roughly"}; {plural(c.reboots, "reboots its node", "reboot their nodes")}.</p>}
      {c.total > 1 && c.from !== c.to && (
        <div class="bars" role="img" aria-label={`Beginnings from ${stamp(c.from)} to ${stamp(c.to)}, at most ${most} in one bar`}>
          {c.starts.map((n, i) => <i key={i} style={{ height: (100 * n) / most + "%" }} title={plural(n, "job", "jobs")} />)}
        </div>
      )}
      {c.total > 1 && c.from !== c.to && <p class="ends"><span>{stamp(c.from)}</span><span>{stamp(c.to)}</span></p>}
      {c.total > 0 && <details>
        <summary>The next {Math.min(c.jobs.length, c.total)}</summary>
        <table>
          <thead><tr><th>begins</th><th>node</th><th>wave</th><th>what it costs</th><th>takes about</th></tr></thead>
          <tbody>{c.jobs.map((j) => (
            <tr key={j.node + j.starts}><td>{Date.parse(j.starts) <= now ? "now" : stamp(j.starts)}</td><td><a href={"#/node/" + j.node}>{j.node}</a></td><td>{j.wave}</td><td>{impacts[j.impact]}</td><td>{j.minutes ? j.minutes + " min" : "unknown"}</td></tr>
          ))}</tbody>
        </table>
      </details>}
    </>
  );
}
