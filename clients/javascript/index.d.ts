export interface Options {
    /** The time at which the clock starts; without it the present second. */
    start?: string | Date;
    /** Further flags of `mayfly serve`. */
    arguments?: string[];
    /** The program that serves; without it MAYFLY_COMMAND, or `mayfly` on the PATH. */
    command?: string | string[];
    /** Milliseconds that the start may take: 60,000. */
    timeout?: number;
    /** Milliseconds that a call of the admin API may take, such as a move of the clock: 60,000. */
    requestTimeout?: number;
}

/** The sum of the parts, or text such as "1h30m". */
export type Duration =
    | string
    | { days?: number; hours?: number; minutes?: number; seconds?: number; milliseconds?: number };

/** What a move of the clock did. */
export interface Move {
    now: Date;
    expired: number;
    purged: number;
    byTarget: Record<string, { expired: number; purged: number }>;
}

/** The rule: the container's `default`, the `item`'s own ttl, a date `index`, or a TTL `column`. */
export type Reason = "default" | "item" | "index" | "column";

/** One record that age removed. */
export interface Expired {
    /** Its container: `cosmos:shop/sessions`, `mongo:app.otps`, `ydb:/local/carts`. */
    target: string;
    id: string;
    /** The value of the partition key; null for documents of MongoDB. */
    pk: unknown;
    due: Date;
    purgedAt: Date;
    reason: Reason;
}

export type EventType = "expired" | "purged" | "write" | "clock" | "reset";

/** An event of the stream, with the members that the admin API's page describes. `seq` is null where the log has no place for it. */
export interface MayflyEvent {
    type: EventType | "lost";
    seq: number | null;
    data: Record<string, any>;
}

export interface EventOptions {
    /** Without it all but `write`. */
    types?: EventType | EventType[];
    target?: string;
    /** The number of an expiry event, behind which the stream begins; 0: with the first. Without it, it begins now. */
    after?: number;
    /** Ends the waiting for the next event, which then throws an AbortError. */
    signal?: AbortSignal;
}

/** A change of TTL settings: `default_ttl` of Cosmos DB's containers (null: off; -1: on without a default), the others of indexes and columns. */
export interface Change {
    default_ttl?: number | null;
    index?: string;
    field?: string;
    column?: string;
    expire_after_seconds?: number | null;
    unit?: "seconds" | "milliseconds" | "microseconds" | "nanoseconds";
    run_interval_seconds?: number;
}

export interface Preview {
    now: string;
    records: number;
    expire_now: number;
    expire_within: Record<"1h" | "1d" | "7d", number>;
    own_ttl: number;
    never: number;
    reappear_now: number;
    exact: boolean;
    sample: string[];
    [more: string]: any;
}

export interface Forecast {
    now: string;
    bucket_seconds: number;
    /** `from` is exclusive, `to` inclusive. */
    buckets: { from: string; to: string; count: number }[];
    due_now: number;
    in_horizon: number;
    later: number;
    never: number;
    exact: boolean;
}

export interface Explanation {
    now: string;
    target: string;
    id: string;
    pk: unknown;
    /** `due`: expired, and visible until it is purged. */
    state: "alive" | "hidden" | "due";
    deadline: string | null;
    purge_from: string | null;
    reason: string;
    text: string;
    [more: string]: any;
}

export interface Snapshot {
    name: string;
    savedAt: Date;
    bytes: number;
}

/** The server's clock. It stands still until it is moved, and a move returns when all that it makes due is purged. */
export interface Clock {
    now(): Promise<Date>;
    /** `sweep`: `now` purges all that is due at the end, `none` nothing; without it each container's schedule counts. */
    advance(by: Duration, options?: { sweep?: "scheduled" | "now" | "none" }): Promise<Move>;
    /** The past needs `force`, and a server without newer records. */
    set(to: Date | string, options?: { force?: boolean }): Promise<Move>;
    freeze(): Promise<void>;
    /** Let it tick. */
    resume(): Promise<void>;
    /** The next deadline; null: no record expires. */
    nextExpiry(): Promise<Date | null>;
    advanceToNextExpiry(): Promise<Move>;
}

export class Mayfly {
    constructor(options?: Options);
    /** Start the server, and return when each of its listeners answers. It also ends with this process. */
    start(): Promise<this>;
    stop(): Promise<void>;
    readonly clock: Clock;
    readonly cosmos: { endpoint: string; key: string; connectionString: string };
    readonly mongo: { uri: string };
    readonly ydb: { endpoint: string; database: string; connectionString: string };
    /** The base of the admin API, without a slash at the end. */
    readonly admin: string;
    /** COSMOS_ENDPOINT, COSMOS_KEY, COSMOS_CONNECTION_STRING, MONGODB_URI and YDB_CONNECTION_STRING. */
    env(): Record<string, string>;
    /** Empty the server, put the clock back to its start, and stop it there. Snapshots stay. */
    renew(): Promise<void>;
    /** Delete everything and put the clock back to its start; with a target, delete that alone. */
    reset(target?: string, options?: { keepClock?: boolean }): Promise<{ databases: number; containers: number; records: number }>;
    /** Make what resource documents describe: documents, or paths of .json files. What is there with the same content stays. */
    seed(...sources: (object | string | URL)[]): Promise<{ created: number; changed: number; same: number }>;
    /** Save everything that is stored, and the clock, in the place of a snapshot of that name: without one, `snapshot`. */
    snapshot(name?: string): Promise<Snapshot>;
    /** Replace everything by a snapshot, and return the clock to its instant. */
    restore(name?: string): Promise<void>;
    deleteSnapshot(name?: string): Promise<void>;
    snapshots(): Promise<Snapshot[]>;
    stats(): Promise<{ now: string; databases: number; containers: number; records: number; targets: Record<string, Record<string, any>> }>;
    /** Purge what is due now, whatever the schedule. */
    purge(target?: string): Promise<{ purged: number; byTarget: Record<string, number> }>;
    /** Records that age removed since the last reset, in the order of their purges. */
    expired(target?: string): Promise<Expired[]>;
    /**
     * Events as they come, until the loop is left or the server stops. A stream that breaks is resumed behind the last event, so
     * that each expiry comes once.
     */
    events(options?: EventOptions): AsyncGenerator<MayflyEvent, void, undefined>;
    /** Count what a change of TTL settings would expire; it changes nothing. */
    preview(target: string, change: Change): Promise<Preview>;
    /** Count deadlines by bucket, from now to a horizon: 60 buckets of one hour together. */
    forecast(options?: { horizon?: Duration; buckets?: number; target?: string }): Promise<Forecast>;
    /** Tell when and why one record expires, or why it does not. `pk`: Cosmos DB's partition key. */
    explain(target: string, id: string, pk?: unknown): Promise<Explanation>;
    /** The certificate authority in PEM, for clients that use https. */
    certificate(): Promise<string>;
    /** Call an operation of the admin API by its path below /_mayfly, and return its answer. */
    request(method: "GET" | "POST" | "PUT" | "DELETE", path: string, body?: object): Promise<any>;
}

/** Start a server; stop it with `stop()`. It also ends with this process. */
export function serve(options?: Options): Promise<Mayfly>;

/** A refusal of the admin API. The message has all of it. */
export class MayflyError extends Error {
    readonly status: number;
    readonly title: string;
    readonly detail: string;
    /** The next thing to try; often empty. */
    readonly hint: string;
}
