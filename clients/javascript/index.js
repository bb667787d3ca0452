// Starts Mayfly in a process of its own, tells its addresses, and moves its clock.
"use strict";

const { spawn } = require("node:child_process");
const http = require("node:http");
const { createInterface } = require("node:readline");

const SERVE = ["serve", "--memory", "--clock", "virtual", "-p", "0", "--mongo-port", "0", "--ydb-port", "0"];
const PROGRAMS = [["mayfly"], ["uvx", "mayflydb"]];
const TAIL = 4_000;
const UNITS = { days: 86_400, hours: 3_600, minutes: 60, seconds: 1, milliseconds: 0.001 };
const LAST = new Date(8.64e15);

/** A refusal of the admin API: the status, and what its problem document says. */
class MayflyError extends Error {
    constructor(status, problem) {
        super([problem.detail ?? problem.title ?? `status ${status}`, problem.hint].filter(Boolean).join("; "));
        this.name = "MayflyError";
        this.status = status;
    }
}

class Clock {
    #post;
    #get;

    constructor(server) {
        this.#post = (path, body) => server.request("POST", `clock/${path}`, body);
        this.#get = () => server.request("GET", "clock");
    }

    async now() {
        return new Date((await this.#get()).now);
    }

    async advance(by) {
        return moved(await this.#post("advance", { by: durationOf(by) }));
    }

    async set(to, { force = false } = {}) {
        return moved(await this.#post("set", { to: timeOf(to), force }));
    }

    async freeze() {
        await this.#post("freeze", {});
    }

    async resume() {
        await this.#post("resume", {});
    }

    async nextExpiry() {
        return dateOf((await this.#get()).next_expiry);
    }

    async advanceToNextExpiry() {
        return moved(await this.#post("advance", { to: "next-expiry" }));
    }
}

class Mayfly {
    #options;
    #child = null;
    #ended = null;
    #ready = null;

    constructor(options = {}) {
        this.#options = options;
        this.clock = new Clock(this);
    }

    /** Start the server, and return when each of its listeners answers. */
    async start() {
        const named = this.#options.command ?? process.env.MAYFLY_COMMAND;
        const programs = named ? [typeof named === "string" ? words(named) : named] : PROGRAMS;
        for (const program of programs) {
            if (await this.#launch(program)) return this;
        }
        const tried = programs.map((program) => program[0]).join(" and ");
        throw new Error(`not on the PATH: ${tried}. Install Mayfly (pip install mayflydb), or set MAYFLY_COMMAND`);
    }

    /** Whether the program was there; it ends with this process, because its standard input does. */
    async #launch([program, ...first]) {
        const { start, arguments: more = [], timeout = 60_000 } = this.#options;
        const { MAYFLY_COMMAND: _, ...env } = process.env;
        const chosen = [...(start === undefined ? [] : ["--clock-start", timeOf(start)]), ...more];
        const child = spawn(program, [...first, ...SERVE, "--stop-with-stdin", ...chosen], { env, windowsHide: true });
        const ended = new Promise((resolve) => child.once("close", resolve));
        let log = "";
        child.stderr.on("data", (text) => (log = (log + text).slice(-TAIL)));
        child.stdin.on("error", () => {});
        const line = await new Promise((resolve, reject) => {
            const clock = setTimeout(() => {
                child.kill();
                reject(new Error(`${program} was not ready after ${timeout} ms\n${log}`));
            }, timeout);
            const settle = (act) => (value) => (clearTimeout(clock), act(value));
            child.once("error", settle((error) => (error.code === "ENOENT" ? resolve(null) : reject(error))));
            createInterface({ input: child.stdout }).once("line", settle(resolve));
            ended.then(settle((code) => reject(new Error(`${program} ended with ${code}\n${log}`))));
        });
        if (line === null) return false;
        this.#ready = JSON.parse(line);
        [this.#child, this.#ended] = [child, ended];
        // A test that forgets to stop the server ends all the same, and the server with it.
        for (const each of [child, child.stdin, child.stdout, child.stderr]) each.unref();
        return true;
    }

    /** Stop the server. */
    async stop() {
        if (this.#child === null) return;
        const [child, ended] = [this.#child, this.#ended];
        this.#child = this.#ready = null;
        child.ref();
        child.stdin.end();
        const impatient = setTimeout(() => child.kill("SIGKILL"), 10_000);
        await ended;
        clearTimeout(impatient);
    }

    get #addresses() {
        if (this.#ready === null) throw new Error("the server does not run: await start() first");
        return this.#ready;
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

    /** The variables in which applications look for their databases. */
    env() {
        return {
            COSMOS_ENDPOINT: this.cosmos.endpoint,
            COSMOS_KEY: this.cosmos.key,
            COSMOS_CONNECTION_STRING: this.cosmos.connectionString,
            MONGODB_URI: this.mongo.uri,
            YDB_CONNECTION_STRING: this.ydb.connectionString,
        };
    }

    /** Empty the server, put its clock back to its start and stop it there. */
    async renew() {
        await this.reset();
        await this.clock.freeze();
    }

    async reset(target, { keepClock = false } = {}) {
        const { databases, containers, records } = await this.request("POST", "reset", { target, keep_clock: keepClock });
        return { databases, containers, records };
    }

    async purge(target) {
        const { purged, by_target: byTarget } = await this.request("POST", "purge", { target });
        return { purged, byTarget };
    }

    async stats() {
        return await this.request("GET", "stats");
    }

    /** The records that age removed since the last reset, in the order of their purges. */
    async expired(target) {
        const found = [];
        const only = target === undefined ? "" : `&target=${encodeURIComponent(target)}`;
        for (let after = -1, next = 0; next !== after; ) {
            after = next;
            const page = await this.request("GET", `events/expired?after=${after}${only}`);
            for (const { target, id, pk, due, purged_at: purgedAt, reason } of page.events) {
                found.push({ target, id, pk, due: dateOf(due), purgedAt: dateOf(purgedAt), reason });
            }
            next = page.last;
        }
        return found;
    }

    /** The certificate, in PEM, that clients which use https must trust. */
    async certificate() {
        return await this.#call("GET", "cert");
    }

    /** Call an operation of the admin API by its path below /_mayfly, and return its answer. */
    async request(method, path, body) {
        return JSON.parse(await this.#call(method, path, body));
    }

    #call(method, path, body) {
        const text = body === undefined ? undefined : JSON.stringify(body);
        return new Promise((resolve, reject) => {
            const url = `${this.admin}/${path.replace(/^\/?(_mayfly\/)?/, "")}`;
            const request = http.request(url, { method, agent: false, headers: { "content-type": "application/json" } });
            request.on("error", reject);
            request.on("response", async (response) => {
                response.setEncoding("utf8");
                let said = "";
                try {
                    for await (const part of response) said += part;
                } catch (error) {
                    reject(error);
                }
                if (response.statusCode < 300) resolve(said);
                else reject(new MayflyError(response.statusCode, problemOf(said)));
            });
            request.end(text);
        });
    }
}

/** Start a server. */
function serve(options) {
    return new Mayfly(options).start();
}

function words(line) {
    return (line.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

function durationOf(by) {
    if (typeof by === "string") return by;
    if (by === null || typeof by !== "object") throw new TypeError('a duration: { minutes: 5 }, or text such as "1h30m"');
    let seconds = 0;
    for (const [unit, number] of Object.entries(by)) {
        if (!(unit in UNITS) || !(number >= 0)) throw new TypeError(`no duration: ${number} ${unit}`);
        seconds += number * UNITS[unit];
    }
    return `${Math.round(seconds * 1000)}ms`;
}

function timeOf(moment) {
    return typeof moment === "string" ? moment : moment.toISOString();
}

/** An instant after the year 9999 is the last that a Date has. */
function dateOf(text) {
    if (text === null) return null;
    return text.startsWith("after") ? LAST : new Date(text);
}

/** A step back answers with the clock alone. */
function moved({ now, expired = 0, purged = 0, by_target: byTarget = {} }) {
    return { now: new Date(now), expired, purged, byTarget };
}

function problemOf(text) {
    try {
        return JSON.parse(text);
    } catch {
        return { title: text };
    }
}

module.exports = { Mayfly, MayflyError, serve };
