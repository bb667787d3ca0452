// Starts Mayfly in a process of its own, tells its addresses, moves its clock, and calls its admin API.
"use strict";

const { readFile } = require("node:fs/promises");
const { MayflyError, call } = require("./calls.js");
const { Clock, dateOf, durationOf, timeOf } = require("./clock.js");
const { follow } = require("./events.js");
const { Program } = require("./program.js");

const REQUEST_TIMEOUT = 60_000;
const STOPPED = "the server does not run: await start() first";

class Mayfly {
    #options;
    #program = null;

    constructor(options = {}) {
        this.#options = options;
        this.clock = new Clock(this);
    }

    // --- its life -------------------------------------------------------------------------------------------------------

    async start() {
        const { start, arguments: more = [] } = this.#options;
        const flags = [...(start === undefined ? [] : ["--clock-start", timeOf(start)]), ...more];
        this.#program = await Program.start(flags, this.#options);
        return this;
    }

    async stop() {
        const program = this.#program;
        this.#program = null;
        await program?.stop();
    }

    // --- addresses ------------------------------------------------------------------------------------------------------

    get #addresses() {
        if (this.#program === null) throw new Error(STOPPED);
        return this.#program.ready;
    }

    get cosmos() {
        const { endpoint, key } = this.#addresses.cosmos;
        return { endpoint, key, connectionString: `AccountEndpoint=${endpoint};AccountKey=${key};` };
    }

    get mongo() {
        return { uri: this.#addresses.mongo.uri };
    }

    get ydb() {
        const { endpoint, database } = this.#addresses.ydb;
        return { endpoint, database, connectionString: endpoint + database };
    }

    get admin() {
        return this.#addresses.admin;
    }

    env() {
        return {
            COSMOS_ENDPOINT: this.cosmos.endpoint,
            COSMOS_KEY: this.cosmos.key,
            COSMOS_CONNECTION_STRING: this.cosmos.connectionString,
            MONGODB_URI: this.mongo.uri,
            YDB_CONNECTION_STRING: this.ydb.connectionString,
        };
    }

    // --- what is stored -------------------------------------------------------------------------------------------------

    async renew() {
        await this.reset();
        await this.clock.freeze();
    }

    async reset(target, { keepClock = false } = {}) {
        const { databases, containers, records } = await this.request("POST", "reset", { target, keep_clock: keepClock });
        return { databases, containers, records };
    }

    async seed(...sources) {
        const done = { created: 0, changed: 0, same: 0 };
        for (const source of sources) {
            const answer = JSON.parse(await this.#call("POST", "apply", await documentOf(source)));
            for (const word of Object.keys(done)) done[word] += answer[word];
        }
        return done;
    }

    async snapshot(name = "snapshot") {
        return snapshotOf(await this.request("PUT", snapshotPath(name)));
    }

    async restore(name = "snapshot") {
        await this.request("POST", `${snapshotPath(name)}/restore`);
    }

    async deleteSnapshot(name = "snapshot") {
        await this.request("DELETE", snapshotPath(name));
    }

    async snapshots() {
        return (await this.request("GET", "snapshots")).snapshots.map(snapshotOf);
    }

    async stats() {
        return await this.request("GET", "stats");
    }

    // --- expiry ---------------------------------------------------------------------------------------------------------

    async purge(target) {
        const { purged, by_target: byTarget } = await this.request("POST", "purge", { target });
        return { purged, byTarget };
    }

    async expired(target) {
        const found = [];
        for (let after = -1, next = 0; next !== after; ) {
            after = next;
            const page = await this.request("GET", withQuery("events/expired", { after, target }));
            for (const { target, id, pk, due, purged_at: purgedAt, reason } of page.events) {
                found.push({ target, id, pk, due: dateOf(due), purgedAt: dateOf(purgedAt), reason });
            }
            next = page.last;
        }
        return found;
    }

    events(options) {
        if (this.#program === null) throw new Error(STOPPED);
        return follow(() => (this.#program === null ? null : this.admin), options);
    }

    async preview(target, change) {
        return await this.request("POST", "ttl/preview", { target, ...change });
    }

    async forecast({ horizon, buckets, target } = {}) {
        const span = horizon === undefined ? undefined : durationOf(horizon);
        return await this.request("GET", withQuery("ttl/forecast", { horizon: span, buckets, target }));
    }

    async explain(target, id, pk) {
        const key = pk === undefined ? undefined : JSON.stringify(pk);
        return await this.request("GET", withQuery("ttl/explain", { target, id, pk: key }));
    }

    // --- everything else ------------------------------------------------------------------------------------------------

    async certificate() {
        return await this.#call("GET", "cert");
    }

    async request(method, path, body) {
        return JSON.parse(await this.#call(method, path, body === undefined ? undefined : JSON.stringify(body)));
    }

    #call(method, path, body) {
        const { requestTimeout = REQUEST_TIMEOUT } = this.#options;
        return call(this.admin, method, path.replace(/^\/?(_mayfly\/)?/, ""), body, requestTimeout);
    }
}

function serve(options) {
    return new Mayfly(options).start();
}

/** The text of a resource document. A file goes as it is: its numbers may have more digits than JavaScript's. */
async function documentOf(source) {
    if (typeof source !== "string" && !(source instanceof URL)) return JSON.stringify(source);
    if (!/\.json$/i.test(source instanceof URL ? source.pathname : source)) {
        throw new TypeError(`seed reads documents and .json files, and not ${source}: mayfly apply reads TOML, YAML, YQL and folders`);
    }
    return await readFile(source, "utf8");
}

function snapshotPath(name) {
    return `snapshots/${encodeURIComponent(name)}`;
}

function snapshotOf({ name, saved_at: savedAt, bytes }) {
    return { name, savedAt: new Date(savedAt), bytes };
}

function withQuery(path, members) {
    const given = Object.entries(members).filter(([, value]) => value !== undefined);
    return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`;
}

module.exports = { Mayfly, MayflyError, serve };
