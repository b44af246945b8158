// What the devices of each model run.
import { fleet } from "./fleet";
import { Card, plural } from "./parts";
import type { Model, Running } from "./types";

const order = { Behind: 0, Unknown: 1, Newest: 2, Ahead: 3 };
const glyph = { Newest: "✓", Behind: "↓", Ahead: "↑", Unknown: "·" };

export function Versions() {
  const classes = [...new Set(fleet.versions.map((m) => m.class))];
  const total = (p: (r: Running) => boolean) => fleet.versions.reduce((n, m) => n + m.running.filter(p).reduce((k, r) => k + r.devices, 0), 0);
  const vulnerable = total((r) => !!r.issues?.length);
  return (
    <main>
      <div class="title"><h1>Versions</h1></div>
      <p class="key">
        <span class="v v-Newest">✓ newest {total((r) => r.position === "Newest").toLocaleString("en")}</span>
        <span class="v v-Ahead">↑ ahead {total((r) => r.position === "Ahead").toLocaleString("en")}</span>
        <span class="v v-Behind">↓ behind {total((r) => r.position === "Behind").toLocaleString("en")}</span>
        <span class="v v-Unknown">· not known {total((r) => r.position === "Unknown").toLocaleString("en")}</span>
        <span class="v vulnerable">⚠ vulnerable {vulnerable.toLocaleString("en")}</span>
      </p>
      {classes.length === 0 && <p class="empty">No device has reported yet.</p>}
      {classes.map((c) => (
        <Card key={c} title={c || "Other"} aside={plural(fleet.versions.filter((m) => m.class === c).length, "model", "models")}>
          <table class="matrix">
            <thead><tr><th>model</th><th>devices</th><th>newest offered</th><th>running</th></tr></thead>
            <tbody>{fleet.versions.filter((m) => m.class === c).map((m) => <Line key={m.model} m={m} />)}</tbody>
          </table>
        </Card>
      ))}
    </main>
  );
}

function Line({ m }: { m: Model }) {
  const running = [...m.running].sort((a, b) => order[a.position] - order[b.position] || a.version.localeCompare(b.version, "en", { numeric: true }));
  return (
    <tr>
      <th scope="row">{m.model}</th>
      <td class="number">{m.running.reduce((n, r) => n + r.devices, 0).toLocaleString("en")}</td>
      <td>{m.newest?.join(", ") ?? <span class="quiet">not known</span>}</td>
      <td><div class="versions">{running.map((r) => <Box key={r.version + r.position + r.fixedIn + r.issues?.join()} m={m} r={r} />)}</div></td>
    </tr>
  );
}

function Box({ m, r }: { m: Model; r: Running }) {
  const bad = !!r.issues?.length;
  const to = "#/?" + new URLSearchParams({ class: m.class, model: m.model, version: r.version }).toString();
  return (
    <a href={to} class={`v v-${r.position}${bad ? " vulnerable" : ""}`} style={{ flexGrow: r.devices }}
      aria-label={`${r.version}: ${r.devices} devices on ${r.nodes} nodes, ${r.position.toLowerCase()}${bad ? ", vulnerable: " + r.issues!.join(", ") : ""}`}
      title={`${plural(r.nodes, "node", "nodes")}${bad ? "\n" + r.issues!.join(", ") + (r.fixedIn ? "\nfixed in " + r.fixedIn : "") : ""}`}>
      <b>{glyph[r.position]} {r.version}</b>
      <span>{r.devices.toLocaleString("en")}{bad && " ⚠ " + r.issues!.length}</span>
    </a>
  );
}
