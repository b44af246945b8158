// Everything that does not go on until a person acts.
import { fleet } from "./fleet";
import { ago, Card, Commands, plural, useNow } from "./parts";
import type { Need } from "./types";

const countOf = (needs: Need[]) => needs.reduce((n, x) => n + 1 + (x.same?.length ?? 0) + (x.others?.length ?? 0), 0);
export const stuckCount = () => countOf(fleet.needs);

const Name = ({ kind, name }: { kind: string; name: string }) => (kind === "node" ? <a href={"#/node/" + name}>{name}</a> : <b>{name}</b>);

function Names({ kind, names, says }: { kind: string; names: string[] | undefined; says: string }) {
  if (!names?.length) return null;
  return <details class="names"><summary>{says}</summary><ul>{names.map((n) => <li key={n}><Name kind={kind} name={n} /></li>)}</ul></details>;
}

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
        const count = countOf(needs);
        return (
          <Card key={key} title={<>{needs[0]!.reason} <small>{needs[0]!.kind}</small></>} aside={count > 1 ? count.toLocaleString("en") : ""}>
            <ul class="needs">
              {needs.map((n) => (
                <li key={n.name}>
                  <p class="of"><Name kind={n.kind} name={n.name} />{n.since && <span class="quiet">{ago(n.since, now)}</span>}</p>
                  <p class="says">{n.says}</p>
                  <Commands next={n.next} />
                  <Names kind={n.kind} names={n.same} says={`The same is said of ${plural(n.same?.length ?? 0, "other", "others")}, each with its own name`} />
                </li>
              ))}
            </ul>
            <Names kind={needs[0]!.kind} names={needs[0]!.others} says={`${plural(needs[0]!.others?.length ?? 0, "more with this reason says", "more with this reason say")} something else: kubectl firmware why ${needs[0]!.kind}/NAME`} />
          </Card>
        );
      })}
    </main>
  );
}
