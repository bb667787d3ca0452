// connect-mongo, where express-session keeps its sessions: https://github.com/jdesboeufs/connect-mongo

import assert from "node:assert/strict";
import { promisify } from "node:util";
import session from "express-session";
import MongoStore from "connect-mongo";
import { advance, client, database, later } from "./client.mjs";

/** A store over a database of its own, with promises. */
async function made(options) {
    const db = database();
    const store = MongoStore.create({ client, dbName: db.databaseName, ...options });
    const methods = ["get", "set", "touch", "destroy", "length", "all", "clear"];
    const calls = Object.fromEntries(methods.map((name) => [name, promisify(store[name].bind(store))]));
    await store.collectionP;
    return { ...calls, collection: db.collection("sessions"), store };
}

const cookie = (seconds) => ({ originalMaxAge: seconds * 1000, expires: later(seconds).toJSON() });

/** What a browser gets that sends this cookie to an application that counts visits. */
async function visit(app, header) {
    const headers = {};
    const request = { headers: { cookie: header }, url: "/", originalUrl: "/", connection: {} };
    const response = {
        headers, getHeader: (name) => headers[name], setHeader: (name, value) => (headers[name] = value),
        writeHead() {}, _implicitHeader() { this.writeHead(200); }, write() {}, end() {},
    };
    await new Promise((done, failed) => app(request, response, (error) => (error ? failed(error) : done())));
    request.session.visits = (request.session.visits ?? 0) + 1;
    await new Promise((done) => { response.end = done; request.session.save(done); });
    return { visits: request.session.visits, id: request.sessionID };
}

export const sessions = {
    async sessions_live_and_die() {
        const { get, set, touch, length, collection } = await made({ ttl: 100 });
        assert.deepEqual((await collection.indexes()).at(-1).expireAfterSeconds, 0);
        await set("a", { cookie: {}, user: "Ann" });
        await set("b", { cookie: cookie(50) });
        assert.equal((await get("a")).user, "Ann");
        await advance(49);
        assert.equal((await get("b")).cookie.originalMaxAge, 50000);
        await touch("b", { cookie: cookie(100) });
        await advance(1);
        assert.ok(await get("b"));
        // At 100 seconds; the index is cleared at the monitor's next pass.
        await advance(50);
        assert.equal(await get("a"), null);
        await advance(60);
        assert.equal(await length(), 0);
        await assert.rejects(touch("b", { cookie: cookie(100) }), /Unable to find the session/);
    },

    async sessions_with_times_and_a_secret() {
        const { get, set, collection } = await made({ timestamps: true, touchAfter: 10, crypto: { secret: "squirrel" } });
        await set("a", { cookie: {}, user: "Ann" });
        await advance(5);
        await set("a", { cookie: {}, user: "Bartholomew" });
        const { createdAt, updatedAt, session } = await collection.findOne();
        assert.equal(updatedAt - createdAt, 5000);
        assert.ok(!session.includes("Bartholomew"));
        assert.equal((await get("a")).user, "Bartholomew");
    },

    async sessions_end() {
        const { all, clear, destroy, get, set } = await made({ stringify: false });
        for (const id of ["a", "b", "c"]) await set(id, { cookie: {}, id });
        await destroy("b");
        assert.equal(await get("b"), null);
        assert.deepEqual((await all()).map(({ id }) => id), ["a", "c"]);
        await clear();
        assert.deepEqual(await all(), []);
        await clear();
    },

    async sessions_removed_at_intervals() {
        const { collection, length, set, store } = await made({ ttl: 100, autoRemove: "interval", autoRemoveInterval: 1 });
        assert.equal((await collection.indexes().catch(() => [])).length, 0);
        await set("a", { cookie: {} });
        await set("b", { cookie: cookie(200) });
        await advance(100 + 60);
        assert.equal(await length(), 2);
        // What its timer does, which runs by the machine's time.
        const { acknowledged } = await collection.deleteMany({ expires: { $lt: later(0) } }, { writeConcern: { w: 0 } });
        assert.deepEqual([acknowledged, await length()], [false, 1]);
        clearInterval(store.timer);
    },

    async sessions_behind_express() {
        const { store, collection } = await made({ ttl: 100 });
        const app = session({ store, secret: "s", resave: false, saveUninitialized: true, genid: () => "me" });
        assert.deepEqual(await visit(app), { visits: 1, id: "me" });
        const saved = await collection.findOne({ _id: "me" });
        assert.equal(JSON.parse(saved.session).visits, 1);
        assert.equal(saved.expires - Date.now(), 100_000);
    },
};
