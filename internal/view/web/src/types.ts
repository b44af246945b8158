// What the server sends; internal/view has the same in Go.
export type State = "held" | "stuck" | "silent" | "updating" | "waiting" | "pending" | "done" | "unknown";

export interface Row {
  name: string; state: State; reason?: string; says?: string; pool?: string; model?: string; job?: string;
  over?: number; steps?: number; version: string; group?: string;
}
export interface Delta { rows: Row[]; gone?: string[] }
export interface Summary { cluster: string; devices: number; labels: string[]; rack: string }
export interface Command { purpose: string; typed: string }
export interface Need { kind: string; name: string; reason: string; says: string; since: string | null; next: Command[]; same?: string[]; others?: string[] }
export type Position = "Newest" | "Behind" | "Ahead" | "Unknown";
export interface Running { version: string; devices: number; position: Position; issues?: string[]; fixedIn?: string; nodes: number }
export interface Model { class: string; model: string; newest?: string[]; running: Running[] }
export interface Span { from: string; to: string }
export interface Wave { name: string; size?: string; for?: string; soak?: string }
export interface Rollout {
  model: string; version: string; wave: string; done: number; succeeded: number; failed: number; halted?: string; says?: string; next?: Command[];
}
export interface Pool {
  name: string; state: string; reason: string; says: string; next: Command[];
  nodes: { selected: number; budget: number; unavailable: number; queued: number; refused: number };
  counts: Partial<Record<State, number>> | null; budget: string; domains?: { key: string; budget: string }[];
  waiting?: { reason: string; nodes: number }[]; admitted?: string[];
  windows?: { name: string; effect: string; when: string }[]; open?: Span[]; waves?: Wave[]; rollouts?: Rollout[]; opens?: string; ends?: string;
}
export interface Outage { since: string | null; says?: string }

export type Impact = "InService" | "Drained" | "MayReboot" | "Reboots";
export interface Coming { pools: Record<string, ComingPool>; ends?: string; rough: boolean }
export interface ComingPool {
  jobs: { node: string; wave?: string; starts: string; minutes?: number; impact: Impact }[];
  total: number; reboots: number; from: string; to: string; starts: number[]; waits?: { reason: string; nodes: number }[];
}

export interface Step {
  name: string; device?: string; part?: string; state: "Pending" | "Running" | "Succeeded" | "Failed" | "Skipped"; attempt?: number;
  progressPercent?: number; startTime?: string; completionTime?: string; message?: string;
}
export interface Job {
  name: string; type: string; made: string; start?: string; end?: string; failed: boolean; reason: string; says: string; steps: Step[]; reboots: number;
  updates?: { device: string; from?: string; to?: string }[];
}
export interface Device {
  name: string; class: string; vendor?: string; model?: string; address?: string; running?: string; stored?: string; desired?: string; by?: string;
  position: Position; newest?: string; issues?: string[]; fixedIn?: string; ready: boolean; reason: string; says: string; notes?: string[];
}
export interface NodePage {
  name: string; machine?: { vendor?: string; model?: string; serialNumber?: string }; scanned?: string; pins?: string[]; reason: string; says: string;
  chain: { of: string; reason?: string; says: string }[]; next: Command[]; devices: Device[]; jobs: Job[]; job: number;
}
