// The stream of events: text/event-stream, resumed where it broke.
"use strict";

const { MayflyError, open } = require("./calls.js");

// The server says something every 15 seconds.
const SILENCE = 60_000;

/**
 * Yield events as they come. A stream that breaks is opened again behind the last event, so that each expiry comes once; one that
 * breaks again before the server says anything new, throws.
 *
 * `addressOf`: returns the base of the admin API, or null when the server has been stopped, which ends the stream.
 */
async function* follow(addressOf, { types, target, after, signal } = {}) {
    const query = new URLSearchParams();
    if (types !== undefined) query.set("types", [types].flat().join(","));
    if (target !== undefined) query.set("target", target);
    if (after !== undefined) query.set("after", after);
    let last = null;
    for (let heard = true; ; ) {
        let broken = new Error("the server ended the stream of events");
        try {
            const headers = last === null ? {} : { "last-event-id": last };
            const stream = await open(addressOf(), `events?${query}`, headers, SILENCE, signal);
            const first = last === null;
            heard &&= first;
            for await (const frame of frames(stream)) {
                if (frame.id !== undefined) last = frame.id;
                if (frame.event === undefined && !frame.comment) continue;
                heard = true;
                if (frame.event !== undefined) yield eventOf(frame);
            }
        } catch (error) {
            if (error instanceof MayflyError) throw error;
            broken = error;
        }
        signal?.throwIfAborted();
        if (addressOf() === null) return;
        if (last === null || !heard) throw broken;
    }
}

function eventOf({ event: type, id, data }) {
    return { type, seq: id === undefined ? null : Number(id), data: JSON.parse(data) };
}

/** The frames of a stream: blocks of lines up to an empty one. What stands behind the last empty line did not arrive whole. */
async function* frames(stream) {
    let rest = "";
    for await (const part of stream) {
        const blocks = (rest + part).split("\n\n");
        rest = blocks.pop();
        for (const block of blocks) yield frameOf(block);
    }
}

function frameOf(block) {
    const frame = { comment: block.startsWith(":") };
    for (const line of block.split("\n")) {
        const [, name, value] = /^(id|event|data): ?(.*)$/.exec(line) ?? [];
        if (name !== undefined) frame[name] = value;
    }
    return frame;
}

module.exports = { follow };
