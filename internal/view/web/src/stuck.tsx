// Everything that does not go on until a person acts.
import { fleet } from "./fleet";
import { ago, Card, Commands, plural, useNow } from "./parts";
import type { Need } from "./types";

export const stuckCount = () => fleet.needs.reduce((n, x) => n + 1 + (x.more ?? 0), 0);

export function Stuck() {
  const now = useNow();
  const groups = new Map<string, Need[]>();
  for (const n of fleet.needs) {
    const key = n.kind + "/" + n.reason;
    const group = groups.get(key);
    if (group) group.push(n);
    else groups.set(key, [n]);
  }
  return (
    <main>
      <div class="title"><h1>Stuck</h1><span class="quiet">What does not go on until somebody acts. Nothing on this page acts: copy a command, and type it where you type commands.</span></div>
      {groups.size === 0 && <p class="empty good">✓ Nothing waits for a person.</p>}
      {[...groups].map(([key, needs]) => {
        const count = needs.reduce((n, x) => n + 1 + (x.more ?? 0), 0);
        return (
          <Card key={key} title={<>{needs[0]!.reason} <small>{needs[0]!.kind}</small></>} aside={count > 1 ? count.toLocaleString("en") : ""}>
            <ul class="needs">
              {needs.map((n) => (
                <li key={n.name}>
                  <p class="of">{n.kind === "node" ? <a href={"#/node/" + n.name}>{n.name}</a> : <b>{n.name}</b>}{n.since && <span class="quiet">{ago(n.since, now)}</span>}</p>
                  <p class="says">{n.says}</p>
                  <Commands next={n.next} />
                  {!!n.more && <p class="quiet">The same is said of {plural(n.more, "other", "others")}.</p>}
                </li>
              ))}
            </ul>
          </Card>
        );
      })}
    </main>
  );
}
