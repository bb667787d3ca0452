// The same second in MongoDB and YDB, by the vendors' SDKs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Driver } from "@ydbjs/core";
import { query } from "@ydbjs/query";
import { MongoClient } from "mongodb";
import { Mayfly, serve } from "mayflydb";
import { useMayfly } from "mayflydb/node";

const START = "2026-01-01T00:00:00.000Z";
const mayfly = useMayfly({ start: START });

test("a document of MongoDB expires by its date, at the first pass", async () => {
    const client = await MongoClient.connect(mayfly.mongo.uri);
    try {
        const otps = client.db("app").collection("otps");
        await otps.createIndex({ at: 1 }, { expireAfterSeconds: 300 });
        await otps.insertOne({ _id: "o1", at: await mayfly.clock.now() });
        const due = await mayfly.clock.nextExpiry();
        assert.equal(due.getTime() - Date.parse(START), 300_000);

        await mayfly.clock.advance("4m59s");
        assert.equal(await otps.countDocuments(), 1);
        await mayfly.clock.advance({ minutes: 1, seconds: 1 });
        assert.equal(await otps.countDocuments(), 0);
        const [record] = await mayfly.expired("mongo:app");
        assert.deepEqual([record.target, record.id, record.reason], ["mongo:app.otps", "o1", "index"]);
        assert.deepEqual(record.due, due);
    } finally {
        await client.close();
    }
});

test("a row of YDB is purged on demand at its very second", async () => {
    const driver = new Driver(mayfly.ydb.connectionString);
    try {
        await driver.ready();
        const sql = query(driver);
        await sql`CREATE TABLE carts (id Uint64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON until)`;
        await sql`UPSERT INTO carts (id, until) VALUES (1, CurrentUtcTimestamp() + Interval("PT90S"))`;

        await mayfly.clock.advance({ seconds: 89 });
        assert.equal((await mayfly.purge()).purged, 0);
        await mayfly.clock.advance({ milliseconds: 1000 });
        assert.deepEqual(await mayfly.purge("ydb:/local/carts"), { purged: 1, byTarget: { "ydb:/local/carts": 1 } });
        assert.deepEqual((await mayfly.expired()).map((record) => record.reason), ["column"]);
        const [[{ n }]] = await sql`SELECT COUNT(*) AS n FROM carts`;
        assert.equal(Number(n), 0);
    } finally {
        driver.close();
    }
});

test("each test begins empty, at the start", async () => {
    assert.equal((await mayfly.clock.now()).toISOString(), START);
    assert.equal((await mayfly.stats()).containers, 0);
    assert.deepEqual(await mayfly.expired(), []);
    assert.equal(await mayfly.clock.nextExpiry(), null);
    assert.deepEqual(await mayfly.clock.advanceToNextExpiry(), { now: new Date(START), expired: 0, purged: 0, byTarget: {} });
});

test("the clock ticks when it is resumed, and goes back over an empty server", async () => {
    await mayfly.clock.resume();
    await mayfly.clock.freeze();
    await mayfly.clock.set("2030-01-01T00:00:00Z");
    assert.equal((await mayfly.clock.set(new Date(START), { force: true })).now.toISOString(), START);
});

test("a refusal says what it refuses", async () => {
    await assert.rejects(mayfly.clock.advance("soon"), { name: "MayflyError", status: 400, message: /soon/ });
    await assert.rejects(mayfly.clock.advance(5), TypeError);
    await assert.rejects(mayfly.clock.advance({ weeks: 5 }), TypeError);
    await assert.rejects(mayfly.purge("cosmos:nowhere"), { status: 404 });
});

test("addresses are known while the server runs", async () => {
    const server = new Mayfly();
    assert.throws(() => server.cosmos, /does not run/);
    await server.start();
    assert.match(server.env().MONGODB_URI, /^mongodb:/);
    assert.match(await server.certificate(), /BEGIN CERTIFICATE/);
    await server.stop();
    assert.throws(() => server.admin, /does not run/);
});

test("what cannot be started is named", async () => {
    await assert.rejects(serve({ command: ["no-such-program"] }), /no-such-program.*MAYFLY_COMMAND/);
    await assert.rejects(serve({ arguments: ["--no-such-flag"] }), /ended with 2[^]*no-such-flag/);
});
