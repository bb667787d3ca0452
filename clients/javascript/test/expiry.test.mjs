import assert from "node:assert/strict";
import { test } from "node:test";
import { CosmosClient } from "@azure/cosmos";
import { useMayfly } from "mayflydb/node";

const mayfly = useMayfly({ start: "2026-01-01T00:00:00Z" });

test("a session expires after an hour", async () => {
    const client = new CosmosClient(mayfly.cosmos);
    const { database } = await client.databases.create({ id: "shop" });
    const { container: sessions } = await database.containers.create({
        id: "sessions",
        partitionKey: "/userId",
        defaultTtl: 3600,
    });
    await sessions.items.create({ id: "s1", userId: "u1" });

    await mayfly.clock.advance({ seconds: 3599 });
    assert.equal((await sessions.item("s1", "u1").read()).statusCode, 200);
    await mayfly.clock.advance({ seconds: 1 });
    assert.equal((await sessions.item("s1", "u1").read()).statusCode, 404);
    assert.deepEqual((await mayfly.expired()).map((record) => record.id), ["s1"]);
});
