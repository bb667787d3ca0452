import assert from "node:assert/strict";
import { test } from "node:test";
import { MongoClient } from "mongodb";
import { useMayfly } from "mayflydb/node";

const mayfly = useMayfly();

test("a code lives for five minutes", async () => {
    const client = await MongoClient.connect(mayfly.mongo.uri);
    const codes = client.db("app").collection("codes");
    await codes.createIndex({ _ts: 1 }, { expireAfterSeconds: 300 });
    await codes.insertOne({ _id: "u1", code: 4711 });

    await mayfly.clock.advance({ seconds: 299 });
    assert.equal(await codes.countDocuments(), 1);
    await mayfly.clock.advance({ seconds: 1 });
    assert.equal(await codes.countDocuments(), 0);
    await client.close();
});
