const { MongoClient } = require("mongodb");
const { useMayfly } = require("mayflydb/jest");

const mayfly = useMayfly({ start: "2026-01-01T00:00:00Z" });

test.each(["once", "again"])("a code is gone after five minutes, %s", async () => {
    const client = await MongoClient.connect(mayfly.mongo.uri);
    const codes = client.db("app").collection("codes");
    await codes.createIndex({ _ts: 1 }, { expireAfterSeconds: 300 });
    await codes.insertOne({ _id: "c1" });

    await mayfly.clock.advance({ seconds: 299 });
    expect(await codes.countDocuments()).toBe(1);
    await mayfly.clock.advance({ seconds: 1 });
    expect(await codes.countDocuments()).toBe(0);
    await client.close();
});
