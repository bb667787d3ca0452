export interface Options {
    /** The time at which the clock starts; without it the present second. */
    start?: string | Date;
    /** Further flags of `mayfly serve`. */
    arguments?: string[];
    /** The program that serves; without it MAYFLY_COMMAND, `mayfly` on the PATH, or `uvx mayflydb`. */
    command?: string | string[];
    /** Milliseconds that the start may take: 60,000. */
    timeout?: number;
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

/** One record that age removed. */
export interface Expired {
    /** Its container: `cosmos:shop/sessions`, `mongo:app.otps`, `ydb:/local/carts`. */
    target: string;
    id: string;
    /** The value of the partition key; null for documents of MongoDB. */
    pk: unknown;
    due: Date;
    purgedAt: Date;
    /** The rule: the container's `default`, the `item`'s own ttl, a date `index`, or a TTL `column`. */
    reason: "default" | "item" | "index" | "column";
}

/** The server's clock. It stands still until it is moved, and a move returns when all that it makes due is purged. */
export interface Clock {
    now(): Promise<Date>;
    advance(by: Duration): Promise<Move>;
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
    /** Empty the server, put the clock back to its start, and stop it there. */
    renew(): Promise<void>;
    /** Delete everything and put the clock back to its start; with a target, delete that alone. */
    reset(target?: string, options?: { keepClock?: boolean }): Promise<{ databases: number; containers: number; records: number }>;
    /** Purge what is due now, whatever the schedule. */
    purge(target?: string): Promise<{ purged: number; byTarget: Record<string, number> }>;
    /** Records that age removed since the last reset, in the order of their purges. */
    expired(target?: string): Promise<Expired[]>;
    stats(): Promise<{ now: string; databases: number; containers: number; records: number; targets: Record<string, Record<string, number>> }>;
    /** The certificate authority in PEM, for clients that use https. */
    certificate(): Promise<string>;
    /** Call an operation of the admin API by its path below /_mayfly. */
    request(method: "GET" | "POST", path: string, body?: object): Promise<any>;
}

/** Start a server; stop it with `stop()`. It also ends with this process. */
export function serve(options?: Options): Promise<Mayfly>;

/** A refusal of the admin API. */
export class MayflyError extends Error {
    readonly status: number;
}
