import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { fleet, follow, onChange } from "./fleet";
import { Grid, type Grouping } from "./grid";
import { Node } from "./node";
import { ago, useNow } from "./parts";
import { Rollouts } from "./rollouts";
import { Stuck, stuckCount } from "./stuck";
import { Versions } from "./versions";
import "./view.css";

const pages = [["", "Nodes"], ["rollouts", "Rollouts"], ["versions", "Versions"], ["stuck", "Stuck"]] as const;

function where(): { page: string; name: string; query: URLSearchParams } {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [page = "", ...rest] = path.split("/");
  try {
    return { page, name: decodeURIComponent(rest.join("/")), query: new URLSearchParams(query) };
  } catch { // an address that somebody wrote; the nodes are shown
    return { page: "", name: "", query: new URLSearchParams() };
  }
}

function View() {
  const [, draw] = useState(0);
  const [at, go] = useState(where());
  const [by, setBy] = useState<Grouping>((localStorage.getItem("by") as Grouping | null) ?? "rack");
  useEffect(() => {
    let due = false;
    onChange(() => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => {
        due = false;
        draw((n) => n + 1);
      });
    });
    const moved = () => {
      if (location.hash.startsWith("#token=")) location.reload(); // the address of another view, in the tab of this one
      go(where());
      scrollTo(0, 0);
    };
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const label = by.startsWith("label:") ? by.slice("label:".length) : "";
  useEffect(() => follow(label), [label]);
  const choose = (g: Grouping) => {
    localStorage.setItem("by", g);
    setBy(g);
  };
  const shown: Grouping = by === "rack" && !fleet.summary.rack ? "pool" : by;
  const stuck = stuckCount();
  return (
    <>
      <header class="top">
        <a class="name" href="#/"><img src="icon.svg" alt="" width={20} height={20} />Firmware</a>
        <nav aria-label="Pages">
          {pages.map(([page, name]) => (
            <a key={page} href={"#/" + page} {...(at.page === page ? { "aria-current": "page" as const } : {})}>{name}{page === "stuck" && stuck > 0 && <span class="count">{stuck.toLocaleString("en")}</span>}</a>
          ))}
        </nav>
        {fleet.summary.cluster && <span class="cluster" title={fleet.summary.cluster}>{fleet.summary.cluster}</span>}
        <Connection />
      </header>
      <Outage />
      {fleet.refused ? <main><p class="empty">{fleet.refused}</p></main>
        : !fleet.read ? <main><p class="empty">Reading the fleet …</p></main>
        : at.page === "rollouts" ? <Rollouts />
        : at.page === "versions" ? <Versions />
        : at.page === "stuck" ? <Stuck />
        : at.page === "node" ? <Node name={at.name} />
        : <Grid by={shown} setBy={choose} query={at.query} />}
    </>
  );
}

function Connection() {
  const broken = fleet.gone || fleet.outage.since;
  return <span class={"connection" + (broken ? " broken" : "")} role="status">{broken ? "○ not connected" : fleet.read ? "● live" : "○ connecting"}</span>;
}

function Outage() {
  const now = useNow();
  if (fleet.refused) return null;
  if (fleet.gone && fleet.read) return <p class="outage" role="alert">kubectl firmware ui has ended, or does not answer since {ago(fleet.gone.toISOString(), now)}. What is shown is from then.</p>;
  if (fleet.outage.since) return <p class="outage" role="alert">Since {new Date(fleet.outage.since).toLocaleTimeString()} ({ago(fleet.outage.since, now)}): {fleet.outage.says} What is shown is from then; the page goes on by itself.</p>;
  return null;
}

render(<View />, document.body);
