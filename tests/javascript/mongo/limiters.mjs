// rate-limiter-flexible: https://github.com/animir/node-rate-limiter-flexible/wiki/Mongo

import assert from "node:assert/strict";
import { RateLimiterMongo } from "rate-limiter-flexible";
import { advance, client, database } from "./client.mjs";

/** A limiter over a database of its own, ready to be asked. */
async function limiter(options) {
    const db = database();
    const made = new RateLimiterMongo({
        storeClient: client, dbName: db.databaseName, tableName: "limits", disableIndexesCreation: true, ...options,
    });
    await made.createIndexes();
    return { limiter: made, collection: db.collection("limits") };
}

/** What is left of the points; how long to wait where there are none. */
async function consume(made, key, points = 1) {
    const [outcome] = await Promise.allSettled([made.consume(key, points)]);
    return outcome.status === "fulfilled" ? outcome.value.remainingPoints : `${outcome.reason.msBeforeNext} ms`;
}

export const limiters = {
    async limits_per_duration() {
        const { limiter: made, collection } = await limiter({ points: 3, duration: 10 });
        assert.deepEqual([await consume(made, "a"), await consume(made, "a", 2), await consume(made, "b")], [2, 0, 2]);
        await advance(4);
        assert.equal(await consume(made, "a"), "6000 ms");
        assert.equal((await made.get("a")).consumedPoints, 4);
        await made.reward("b", 1);
        assert.equal((await made.get("b")).remainingPoints, 3);
        await advance(6);
        // Due, and still there until the monitor's pass: a new duration begins over the old document.
        assert.equal(await made.get("a"), null);
        assert.equal(await consume(made, "a"), 2);
        await made.delete("b");
        assert.equal(await made.get("b"), null);
        await advance(10 + 60);
        assert.equal(await collection.countDocuments(), 0);
    },

    async limits_that_block() {
        const { limiter: made, collection } = await limiter({ points: 1, duration: 1, blockDuration: 300 });
        assert.deepEqual([await consume(made, "a"), await consume(made, "a")], [0, "300000 ms"]);
        await advance(299);
        assert.equal(await consume(made, "a"), "1000 ms");
        await advance(1);
        assert.equal(await consume(made, "a"), 0);
        await made.block("b", 0);
        assert.equal((await made.get("b")).msBeforeNext, -1);
        await advance(100_000);
        assert.deepEqual((await collection.find().toArray()).map(({ key }) => key), ["rlflx:b"]);
    },

    async limits_under_contention() {
        const { limiter: made } = await limiter({ points: 20, duration: 10 });
        const first = await Promise.all(Array.from({ length: 25 }, () => consume(made, "a")));
        assert.equal(first.filter((each) => typeof each === "number").length, 20);
        await advance(10);
        const second = await Promise.all(Array.from({ length: 25 }, () => consume(made, "a")));
        assert.equal(second.filter((each) => typeof each === "number").length, 20);
    },

    async limits_by_other_keys() {
        const { limiter: made } = await limiter({ points: 1, duration: 10, indexKeyPrefix: { country: 1 } });
        const of = (country) => made.consume("a", 1, { attrs: { country } });
        await of("NL");
        await of("DE");
        await assert.rejects(of("NL"), ({ remainingPoints }) => remainingPoints === 0);
    },
};
