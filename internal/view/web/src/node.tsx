// A node: its devices, the steps of its job, its timeline, and what it waits for.
import { useEffect, useState } from "preact/hooks";
import { fleet, read } from "./fleet";
import { ago, Badge, Card, Commands, length, stamp, Stands, useNow } from "./parts";
import type { Job, NodePage, Step } from "./types";

export function Node({ name }: { name: string }) {
  const row = fleet.rows.get(name);
  const [page, set] = useState<NodePage | null>(null);
  const [wrong, setWrong] = useState("");
  const now = useNow();
  const version = row?.version;
  const up = !fleet.gone && !fleet.outage.since;
  useEffect(() => {
    const stop = new AbortController();
    read<NodePage>("/api/node?name=" + encodeURIComponent(name), stop.signal).then(
      (p) => { set(p); setWrong(""); }, (e: Error) => { if (!stop.signal.aborted) setWrong(e.message); });
    return () => stop.abort();
  }, [name, version, up]);
  const p = page?.name === name ? page : null;
  const job = p && p.job >= 0 ? p.jobs[p.job] : undefined;
  return (
    <main>
      <div class="title"><h1>{name}</h1>{row && <Badge state={row.state} />}<span class="quiet">{[p?.machine?.vendor, p?.machine?.model].filter(Boolean).join(" ")}{p?.machine?.serialNumber && " · " + p.machine.serialNumber}{row?.pool && <> · pool <a href="#/rollouts">{row.pool}</a></>}</span></div>
      {wrong && <p class="note bad">{wrong}</p>}
      {p && <>
        <section class="card">
          <p class="says">{p.says} <span class="chip">{p.reason}</span></p>
          {p.chain.length > 0 && <table class="chain"><tbody>{p.chain.map((l, i) => <tr key={i}><th scope="row">{l.of}</th><td>{l.reason && <span class="chip">{l.reason}</span>}</td><td>{l.says}</td></tr>)}</tbody></table>}
          <Commands next={p.next} />
          <p class="quiet">{p.scanned && <>Hardware read {ago(p.scanned, now)}. </>}{p.pins?.length ? "Pins: " + p.pins.join(", ") + "." : ""}</p>
        </section>
        {job && <Card title={<>Job {job.name}</>} aside={job.start ? `began ${ago(job.start, now)}` : `queued ${ago(job.made, now)}`}><Steps job={job} now={now} /></Card>}
        <Card title="Devices" aside={p.devices.length}>
          <table class="devices">
            <thead><tr><th>device</th><th>model</th><th>runs</th><th>wanted</th><th>stands</th><th>says</th></tr></thead>
            <tbody>{p.devices.map((d) => (
              <tr key={d.name}>
                <th scope="row">{d.name.startsWith(name + "-") ? d.name.slice(name.length + 1) : d.name}<small>{d.class}{d.address && " · " + d.address}</small></th>
                <td>{d.model}<small>{d.vendor}</small></td>
                <td>{d.running || "unknown"}{d.stored && d.stored !== d.running && <small>{d.stored} is stored</small>}</td>
                <td>{d.desired ? <>{d.desired === d.running ? "✓ " : "→ "}{d.desired}<small>{d.by}</small></> : <span class="quiet">nothing</span>}</td>
                <td><Stands position={d.position} issues={d.issues} newest={d.newest} fixedIn={d.fixedIn} /></td>
                <td class={d.ready ? "quiet" : ""}>{!d.ready && <span class="chip warn">{d.reason}</span>} {d.says}{d.notes?.map((n) => <small key={n}>{n}</small>)}</td>
              </tr>
            ))}</tbody>
          </table>
        </Card>
        <Card title="Timeline" aside={p.jobs.length ? "the jobs that are kept, the newest first" : ""}>
          {p.jobs.length === 0 && <p class="quiet">No job of this node is kept.</p>}
          <ol class="timeline">{p.jobs.map((j) => <Past key={j.name} job={j} now={now} current={j === job} />)}</ol>
        </Card>
      </>}
      {!p && !wrong && <p class="empty">Reading {name} …</p>}
    </main>
  );
}

const mark = { Pending: "○", Running: "▶", Succeeded: "✓", Failed: "✕", Skipped: "–" };

function Steps({ job, now }: { job: Job; now: number }) {
  return (
    <>
      <Updates job={job} />
      {job.steps.length === 0 && <p class="quiet">{job.says}</p>}
      <ol class="steps">{job.steps.map((s, i) => <StepLine key={i} s={s} now={now} />)}</ol>
    </>
  );
}

function Updates({ job }: { job: Job }) {
  if (!job.updates?.length) return null;
  return <ul class="plain">{job.updates.map((u) => <li key={u.device}><code>{u.device}</code> {u.to ? <>{u.from} → <b>{u.to}</b></> : job.type}</li>)}</ul>;
}

function StepLine({ s, now }: { s: Step; now: number }) {
  const took = s.startTime ? (s.completionTime ? Date.parse(s.completionTime) : s.state === "Running" ? now : Date.parse(s.startTime)) - Date.parse(s.startTime) : 0;
  return (
    <li class={"step t-" + s.state} {...(s.state === "Running" ? { "aria-current": "step" as const } : {})}>
      <i aria-hidden="true">{mark[s.state]}</i>
      <span class="hidden">{s.state}</span>
      <b>{s.part === "Rollback" ? "↶ " : ""}{s.name}</b>
      <span class="quiet">{s.device}{s.attempt && s.attempt > 1 ? `, attempt ${s.attempt}` : ""}</span>
      <span class="says">{s.message}</span>
      <span class="took">{s.state === "Running" && s.progressPercent !== undefined ? <progress max={100} value={s.progressPercent}>{s.progressPercent} %</progress> : took > 0 ? length(took) : ""}</span>
    </li>
  );
}

function Past({ job, now, current }: { job: Job; now: number; current: boolean }) {
  const begun = job.start ?? job.made;
  return (
    <li class={job.failed ? "bad" : job.end ? "good" : "open"}>
      <details>
        <summary>
          <i aria-hidden="true">{job.failed ? "✕" : job.end ? "✓" : "▶"}</i>
          <time dateTime={begun} title={ago(begun, now)}>{stamp(begun)}</time>
          <b>{job.type}</b>
          <span>{job.updates?.map((u) => (u.to ?? "")).filter((v, i, a) => v && a.indexOf(v) === i).join(", ")}</span>
          <span class="chip">{job.reason}</span>
          <span class="quiet">{job.end && job.start ? length(Date.parse(job.end) - Date.parse(job.start)) : current ? "now" : ""}{job.reboots > 0 && ` · ${job.reboots} reboot${job.reboots > 1 ? "s" : ""}`}</span>
        </summary>
        <p>{job.says}</p>
        <Updates job={job} />
        <ol class="steps">{job.steps.map((s, i) => <StepLine key={i} s={s} now={now} />)}</ol>
      </details>
    </li>
  );
}
