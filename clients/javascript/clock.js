// The server's clock, and times and durations as the admin API has them.
"use strict";

const UNITS = { days: 86_400, hours: 3_600, minutes: 60, seconds: 1, milliseconds: 0.001 };
const LAST = new Date(8.64e15);

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

    async advance(by, { sweep } = {}) {
        return moved(await this.#post("advance", { by: durationOf(by), sweep }));
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

function durationOf(by) {
    if (typeof by === "string") return by;
    if (by === null || typeof by !== "object") throw new TypeError('a duration: { minutes: 5 }, or text such as "1h30m"');
    let seconds = 0;
    for (const [unit, number] of Object.entries(by)) {
        if (!Object.hasOwn(UNITS, unit) || !(number >= 0)) throw new TypeError(`no duration: ${number} ${unit}`);
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

module.exports = { Clock, dateOf, durationOf, timeOf };
