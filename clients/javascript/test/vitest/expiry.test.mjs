import { CosmosClient } from "@azure/cosmos";
import { expect, test } from "vitest";
import { useMayfly } from "mayflydb/vitest";

const mayfly = useMayfly({ start: "2026-01-01T00:00:00Z" });

test.each(["once", "again"])("an item has its own deadline, %s", async () => {
    const client = new CosmosClient(mayfly.cosmos);
    const { database } = await client.databases.create({ id: "shop" });
    const { container } = await database.containers.create({ id: "carts", partitionKey: "/id", defaultTtl: -1 });
    await container.items.create({ id: "c1", ttl: 60 });

    expect((await mayfly.clock.advanceToNextExpiry()).purged).toBe(1);
    expect(await mayfly.clock.now()).toEqual(new Date("2026-01-01T00:01:00Z"));
    expect((await container.item("c1", "c1").read()).statusCode).toBe(404);
});
