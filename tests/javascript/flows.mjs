// What Microsoft's guide "Configure time to live in Azure Cosmos DB" does in C#, step by step in JavaScript.
// https://learn.microsoft.com/azure/cosmos-db/nosql/how-to-time-to-live

import assert from "node:assert/strict";
import { advance, changes, container, DAY, ids, there } from "./client.mjs";

/** These and no others are there, whichever way one looks. */
async function lives(c, ...alive) {
    for (const id of new Set(["1", "2", "3", ...alive])) {
        assert.equal(await there(c, id), alive.includes(id), `item ${id}`);
    }
    assert.deepEqual(await ids(c), alive);
    assert.deepEqual(await ids(c, "SELECT VALUE COUNT(1) FROM c"), [alive.length]);
    assert.deepEqual([...(await changes(c)).keys()].sort(), alive);
}

/** Of `id` and these others, it dies when so many seconds have passed, and not before. */
async function diesAfter(c, seconds, id, ...others) {
    await advance(seconds - 1);
    await lives(c, ...[id, ...others].sort());
    await advance(1);
    await lives(c, ...others);
}

async function create(c, id, ttl) {
    return c.items.create(ttl === undefined ? { id, pk: "p" } : { id, pk: "p", ttl });
}

/** Read an item, change it, replace it. */
async function rewrite(c, id, change = () => {}) {
    const { resource } = await c.item(id, "p").read();
    change(resource);
    return (await c.item(id, "p").replace(resource)).resource;
}

/** Replace the container with another `defaultTtl`; undefined: with none. */
async function setDefault(c, defaultTtl) {
    const { resource } = await c.read();
    await c.replace({ ...resource, defaultTtl });
    assert.equal((await c.read()).resource.defaultTtl, defaultTtl);
}

export const flows = {
    async enable_ttl_on_a_container_with_no_expiration() {
        const c = await container({ defaultTtl: -1 });
        await create(c, "1");
        await create(c, "2", 60);
        await diesAfter(c, 60, "2", "1");
        await advance(20 * 365 * DAY);
        await lives(c, "1");
    },

    async enable_ttl_on_a_container_that_exists() {
        const c = await container();
        await create(c, "1");
        await create(c, "2", 30);
        await advance(50);
        await create(c, "3");
        await lives(c, "1", "2", "3");
        await setDefault(c, -1);
        await lives(c, "1", "3");
        await setDefault(c, 100);
        await diesAfter(c, 50, "1", "3");
        await diesAfter(c, 50, "3");
    },

    async set_ttl_on_a_container() {
        const c = await container({ defaultTtl: 90 * DAY });
        assert.equal((await c.read()).resource.defaultTtl, 90 * DAY);
        await create(c, "1");
        await create(c, "2", 30 * DAY);
        await create(c, "3", -1);
        await diesAfter(c, 30 * DAY, "2", "1", "3");
        await diesAfter(c, 60 * DAY, "1", "3");
        await advance(20 * 365 * DAY);
        await lives(c, "3");
    },

    async reset_time_to_live() {
        const c = await container({ defaultTtl: 90 * DAY });
        await create(c, "1");
        const { resource: before } = await create(c, "2", 30 * DAY);
        await advance(29 * DAY);
        const after = await rewrite(c, "2");
        assert.equal(after._ts - before._ts, 29 * DAY);
        await diesAfter(c, 30 * DAY, "2", "1");
        // To be read has started nothing for the other one.
        await diesAfter(c, 31 * DAY, "1");
    },

    async change_the_ttl_of_an_item() {
        const c = await container({ defaultTtl: 90 * DAY });
        await create(c, "1", 30 * DAY);
        await create(c, "2", 30 * DAY);
        await advance(10 * DAY);
        await rewrite(c, "1", (item) => (item.ttl = 60 * DAY));
        await rewrite(c, "2", (item) => (item.ttl = 5 * DAY));
        await diesAfter(c, 5 * DAY, "2", "1");
        await diesAfter(c, 55 * DAY, "1");
    },

    async remove_the_ttl_of_an_item() {
        const c = await container({ defaultTtl: 90 * DAY });
        await create(c, "1", 30 * DAY);
        await advance(20 * DAY);
        const item = await rewrite(c, "1", (read) => delete read.ttl);
        assert.ok(!("ttl" in item));
        await diesAfter(c, 90 * DAY, "1");
    },

    async an_item_that_is_to_stay() {
        const c = await container({ defaultTtl: 90 * DAY });
        await create(c, "1", 30 * DAY);
        await advance(20 * DAY);
        await rewrite(c, "1", (item) => (item.ttl = -1));
        await advance(20 * 365 * DAY);
        await setDefault(c, 1);
        await lives(c, "1");
        await rewrite(c, "1", (item) => (item.ttl = 7));
        await diesAfter(c, 7, "1");
    },

    async disable_ttl_on_a_container_and_enable_it_again() {
        const c = await container({ defaultTtl: 90 * DAY });
        await create(c, "1");
        await create(c, "2", 30 * DAY);
        await create(c, "3", -1);
        await setDefault(c, undefined);
        await advance(90 * DAY);
        await lives(c, "1", "2", "3");
        assert.equal((await c.item("2", "p").read()).resource.ttl, 30 * DAY);
        await setDefault(c, -1);
        await lives(c, "1", "3");
        await setDefault(c, 90 * DAY + 10);
        await diesAfter(c, 10, "1", "3");
    },
};
