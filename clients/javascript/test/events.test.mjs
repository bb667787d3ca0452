// The stream of events, over a connection that breaks.
import assert from "node:assert/strict";
import { connect, createServer } from "node:net";
import { test } from "node:test";
import { Mayfly } from "mayflydb";

const SEED = {
    databases: [{ id: "shop", containers: [{ id: "carts", partition_key: "/id", default_ttl: -1, items: [1, 2, 3].map((n) => ({ id: `c${n}`, ttl: n })) }] }],
};

/** A server behind a proxy, whose connections can be cut. */
class Behind extends Mayfly {
    #sockets = [];
    #proxy = createServer((near) => {
        const { hostname, port } = new URL(super.admin);
        const far = connect(Number(port), hostname);
        for (const [one, other] of [[near, far], [far, near]]) {
            one.pipe(other);
            one.on("error", () => other.destroy());
            one.on("close", () => other.destroy());
        }
        this.#sockets.push(near);
    });

    get admin() {
        return `http://127.0.0.1:${this.#proxy.address().port}/_mayfly`;
    }

    async start() {
        await new Promise((resolve) => this.#proxy.listen(0, "127.0.0.1", resolve));
        return await super.start();
    }

    cut() {
        for (const socket of this.#sockets.splice(0)) socket.resetAndDestroy();
    }

    async stop() {
        await super.stop();
        this.cut();
        this.#proxy.close();
    }
}

test("each expiry comes once, over a connection that breaks", { timeout: 60_000 }, async (t) => {
    const server = await new Behind({ start: "2026-01-01T00:00:00Z" }).start();
    t.after(() => server.stop());
    await server.seed(SEED);
    await server.clock.advance({ seconds: 1 });
    const seen = [];
    for await (const event of server.events({ types: "expired", after: 0 })) {
        assert.equal(event.type, "expired");
        assert.equal(event.seq, event.data.seq);
        seen.push(event.data.id);
        server.cut();
        if (seen.length === 3) break;
        await server.clock.advance({ seconds: 1 });
    }
    assert.deepEqual(seen, ["c1", "c2", "c3"]);
    // Behind an event, and of one target.
    const [first] = (await server.request("GET", "events/expired")).events;
    const { value } = await server.events({ types: ["expired"], target: "cosmos:shop", after: first.seq }).next();
    assert.equal(value.data.id, "c2");
});

test("a stream that begins now resumes there, and ends with the server", { timeout: 60_000 }, async (t) => {
    const server = await new Behind().start();
    t.after(() => server.stop());
    await server.seed(SEED);
    const types = [];
    const whole = (async () => {
        for await (const { type } of server.events()) types.push(type);
    })();
    while (types.length === 0) await server.clock.advance("1us");
    await server.clock.advance({ seconds: 1 });
    while (!types.includes("purged")) await server.stats();
    await server.stop();
    await whole;
    assert.deepEqual([...new Set(types)].sort(), ["clock", "expired", "purged"]);
});

test("the waiting ends by a signal, and a refusal is thrown", { timeout: 60_000 }, async (t) => {
    const server = await new Mayfly().start();
    t.after(() => server.stop());
    for (const calls of [0, 1, 9]) {
        const controller = new AbortController();
        const waiting = assert.rejects(server.events({ signal: controller.signal }).next(), { name: "AbortError" });
        for (let call = 0; call < calls; call++) await server.stats();
        controller.abort();
        await waiting;
    }
    await assert.rejects(server.events({ types: "deaths" }).next(), { name: "MayflyError", status: 400, hint: /expired/ });
    await server.stop();
    assert.throws(() => server.events(), /does not run/);
});
