// What the console's API answers. Members that are not listed may come along, and are ignored.

export interface Asset {
  asset_identifier: string;
  symbol: string;
  decimals: number;
}

export interface Chain {
  chain_id: string;
  name: string;
  assets: Asset[];
}

export interface Pause {
  paused: boolean;
  /** It names this state to whoever changes it, exactly as it is written. */
  since: string;
  reason: string | null;
}

export interface Me {
  name: string;
  may_act: boolean;
  gateway: string;
  version: string;
  now: string;
  pause: Pause | null;
  /** Why it is not known whether the installation is paused. */
  pause_unknown?: string | null;
  network: { chains: Chain[] };
}

export interface Transaction {
  chain_id: string;
  transaction_hash: string;
  block_number?: number;
}

/** A payment in a list. */
export interface Row {
  payment_id: string;
  request_id: string;
  originator: string;
  submitted_at: string;
  finished_at?: string;
  status: string;
  stage: string;
  overdue?: { step: string; since: string };
  failure_code?: string;
  source: { asset_identifier: string; account: string; permitted_amount: string; paid_amount?: string; refunded: boolean };
  destination?: { asset_identifier: string; account: string; amount: string; delivered: boolean };
  rate?: { numerator: string; denominator: string };
  settler?: string;
  verifier: string;
  transactions: Record<string, Transaction | undefined>;
  shard: number;
  /** Absent while nobody can tell. */
  parked: boolean | null;
  version: number;
}

export interface Page {
  payments: Row[];
  next_cursor: string | null;
  looked_at: number;
  uncertain_shards: number[];
}

export interface Found {
  payments: Row[];
  quote_requests: { quote_request_id: string; status: string }[];
  incomplete: boolean;
  uncertain_shards: number[];
}

/** An event as it is stored. */
export interface StoredEvent {
  type: string;
  data?: unknown;
}

export interface Commit {
  version: number | null;
  sequence: number;
  stream: string;
  stored_at: string;
  commit_id: string | null;
  previous: string | null;
  hash: string;
  events: StoredEvent[];
  /** Why it cannot be read. */
  unreadable?: string;
  /** What is stored, where that is no list of events. */
  body?: string;
}

export interface Cause {
  kind: string;
  text: string;
  shard?: number;
  sequence?: number;
}

/** One entry of the history of what was parked. */
export interface ParkingEntry {
  stored_at: string;
  entry: string;
  cause?: Cause;
  attempts?: number;
  gateway?: string;
  by?: string;
  reason?: string;
}

export interface ParkedState {
  since: string;
  /** Absent where this gateway does not know the entry. */
  kind: string | null;
  text: string;
  attempts: number | null;
  gateway: string | null;
  advice: string;
  history: ParkingEntry[];
}

export interface PaymentDetail {
  /** Absent where not even its first commit can be read. */
  payment: Row | null;
  commits: Commit[];
  has_more?: boolean;
  parked: ParkedState | null;
}

export interface ParkedItem {
  id: string;
  kind: string;
  since: string;
  cause: string;
  text: string;
  attempts: number | null;
  gateway: string | null;
}

export interface ParkedRead {
  /** Those that have waited longest. */
  parked: ParkedItem[];
  total: number;
}

export interface Surveyed {
  payments: number;
  since: string | null;
}

export interface Settlers {
  settlers: {
    did: string;
    registered: boolean;
    corridors: { source_asset: string; destination_asset: string }[];
    /** Of all payments. */
    record: {
      asked: number;
      offered: number;
      declined: number;
      won: number;
      acknowledged: number;
      refused: number;
      unanswered: number;
      delivered: number;
      late: number;
      missed: number;
      median_delivery_seconds?: number;
      last_won_at?: string;
      passed_over_until?: string;
    };
  }[];
  has_more?: boolean;
}

export interface Verifiers {
  surveyed: Surveyed;
  verifiers: {
    endpoint: string;
    account: string;
    /** The set whose id the account is; absent where it is one verifier. */
    set?: { threshold: number; members: { account: string; endpoint: string }[] };
    /** Whether the configuration names it. */
    trusted: boolean;
    record: { delivered: number; attested: number; unattested: number };
  }[];
  has_more?: boolean;
  /** What this gateway observed of each that its configuration names; absent of a gateway that does not say it. */
  observed?: ObservedVerifier[];
}

export interface ObservedVerifier {
  endpoint: string;
  accounts: { account: string; set?: string; threshold: number; members: number; has_signed: boolean }[];
  /** How often each thing became of an ask. */
  answers: Record<string, number>;
  last_answered_at?: string;
  median_ms?: number;
  p99_ms?: number;
  /** How it does, in a word. */
  state: string;
}

export interface Chains {
  chains: {
    chain_id: string;
    name: string;
    ready: boolean;
    cause: string | null;
    head: number | null;
    settled: number | null;
    submitters: { account: string; coins: number | null; nonces_in_flight: number | null }[];
    nodes: {
      origin: string;
      up: boolean | null;
      head_lag: number | null;
      latency_ms: number | null;
      errors: number;
      calls: number;
      disagreements: number;
    }[];
  }[];
}

export interface Shard {
  shard: number;
  owned?: boolean;
  state: string;
  reason?: string;
  checkpoint: number;
  head?: number;
}

export interface Verdict {
  result: string;
  sequence?: number;
  count?: number;
  streams?: number | string[];
  reason?: string;
}

export interface Rebuild {
  id: string;
  started_at: string;
  ended_at?: string;
  state: string;
  error?: string;
  shards: { shard: number; done: number; total: number; verdict?: Verdict }[];
}

export interface GatewayStatus {
  instance: string;
  version: string;
  listen: string;
  started_at: string;
  uptime_seconds: number;
  shards: Shard[];
  rebuild?: Rebuild;
  journal_alarms: { shard: number; found_at: string; message: string }[];
  unattested: number;
  misconfigured: number;
}

export interface Gateways {
  gateways: { gateway: string; result?: GatewayStatus; error?: string }[];
  silent: string[];
}

export interface Streams {
  streams: {
    name: string;
    messages: number;
    bytes: number;
    first_sequence: number;
    last_sequence: number;
    last_at: string | null;
    replicas: number;
    consumers: number;
  }[];
  has_more?: boolean;
  epochs: { number: number; first_shard: number; shards: number; sealed: boolean; begun_at: string | null }[];
}

export interface Alarms {
  ready: boolean;
  not_ready_reason: string | null;
  alarms: string[];
  overdue: number;
  /** Absent while nobody can tell. */
  parked: number | null;
  unattested: number;
  misconfigured: number;
}

export interface Series {
  name: string;
  labels: Record<string, string>;
  unit: string;
  values: (number | null)[];
}

export interface Graphs {
  every_seconds: number;
  points: number;
  series: Series[];
  /** When the last point was taken; absent before the first. */
  ends_at: string | null;
}
