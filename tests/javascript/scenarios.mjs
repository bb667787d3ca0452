// What an application in JavaScript does, through the vendor's client: node scenarios.mjs ENDPOINT KEY ADMIN
// Prints one line of JSON for each scenario: {"name": ..., "error": null or what was wrong}.

import assert from "node:assert/strict";
import { ChangeFeedStartFrom, CosmosClient, PartitionKeyDefinitionVersion, PartitionKeyKind } from "@azure/cosmos";

const DAY = 86400;
const [endpoint, key, admin] = process.argv.slice(2);
const client = new CosmosClient({ endpoint, key });
let databases = 0;

async function post(path, body) {
    const answer = await fetch(`${admin}/_mayfly/${path}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
}

const advance = (seconds) => post("clock/advance", { seconds });

/** A new container in a database of its own. */
async function container(options = {}) {
    const { database } = await client.databases.create({ id: `js${databases++}` });
    const made = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] }, ...options });
    return made.container;
}

async function refused(promise, code) {
    await assert.rejects(promise, (error) => {
        assert.equal(error.code, code, `${error.code}: ${error.message}`);
        return true;
    });
}

/** Whether an item is there, as a point read sees it. */
async function there(items, id, pk = "p") {
    const { statusCode } = await items.item(id, pk).read();
    assert.ok([200, 404].includes(statusCode), String(statusCode));
    return statusCode === 200;
}

async function ids(c, query = "SELECT VALUE c.id FROM c ORDER BY c.id", options = {}) {
    return (await c.items.query(query, options).fetchAll()).resources;
}

export const scenarios = {
    async on_without_a_default() {
        const c = await container({ defaultTtl: -1 });
        await c.items.create({ id: "keeps", pk: "p" });
        await c.items.create({ id: "dies", pk: "p", ttl: 5 });
        await advance(4);
        assert.deepEqual(await ids(c), ["dies", "keeps"]);
        await advance(1);
        assert.deepEqual(await ids(c), ["keeps"]);
        await advance(10 * 365 * DAY);
        assert.ok(await there(c, "keeps"));
    },

    async ninety_days_for_the_container_thirty_for_an_item() {
        const c = await container({ defaultTtl: 90 * DAY });
        assert.equal((await c.read()).resource.defaultTtl, 90 * DAY);
        await c.items.create({ id: "default", pk: "p" });
        await c.items.create({ id: "own", pk: "p", ttl: 30 * DAY });
        await c.items.create({ id: "never", pk: "p", ttl: -1 });
        await advance(30 * DAY - 1);
        assert.deepEqual(await ids(c), ["default", "never", "own"]);
        await advance(1);
        assert.deepEqual(await ids(c), ["default", "never"]);
        await advance(60 * DAY);
        assert.deepEqual(await ids(c), ["never"]);
    },

    async a_life_is_extended_by_a_write() {
        const c = await container({ defaultTtl: 100 });
        await c.items.create({ id: "1", pk: "p" });
        await advance(60);
        const { resource } = await c.item("1", "p").read();
        resource.ttl = 1000;
        await c.item("1", "p").replace(resource);
        await advance(999);
        assert.ok(await there(c, "1"));
        await advance(1);
        assert.ok(!(await there(c, "1")));
    },

    async without_its_own_ttl_it_follows_the_default_again() {
        const c = await container({ defaultTtl: 100 });
        await c.items.create({ id: "1", pk: "p", ttl: 1000 });
        const { resource } = await c.item("1", "p").read();
        delete resource.ttl;
        await c.item("1", "p").replace(resource);
        await advance(99);
        assert.ok(await there(c, "1"));
        await advance(1);
        assert.ok(!(await there(c, "1")));
    },

    async switched_off_nobody_dies() {
        const c = await container({ defaultTtl: 100 });
        await c.items.create({ id: "1", pk: "p" });
        await c.items.create({ id: "2", pk: "p", ttl: 10 });
        const { resource } = await c.read();
        delete resource.defaultTtl;
        await c.replace(resource);
        assert.equal((await c.read()).resource.defaultTtl, undefined);
        await advance(10 * 365 * DAY);
        assert.deepEqual(await ids(c), ["1", "2"]);
    },

    async gone_from_every_path() {
        const c = await container({ defaultTtl: 10 });
        const { etag } = await c.items.create({ id: "1", pk: "p" });
        await advance(10);
        assert.ok(!(await there(c, "1")));
        assert.deepEqual((await c.items.readAll().fetchAll()).resources, []);
        assert.deepEqual(await ids(c, "SELECT VALUE COUNT(1) FROM c"), [0]);
        await refused(c.item("1", "p").patch([{ op: "set", path: "/n", value: 1 }]), 404);
        await refused(c.item("1", "p").replace({ id: "1", pk: "p" }), 404);
        await refused(c.item("1", "p").delete({ accessCondition: { type: "IfMatch", condition: etag } }), 404);
        assert.equal((await c.items.create({ id: "1", pk: "p" })).statusCode, 201);
    },

    async invalid_ttls_are_refused() {
        const c = await container({ defaultTtl: 10 });
        for (const ttl of [0, -2, 1.5, "5", 2 ** 31, true]) {
            await refused(c.items.create({ id: "1", pk: "p", ttl }), 400);
        }
        for (const defaultTtl of [0, -2, 1.5, 2 ** 31]) {
            await refused(container({ defaultTtl }), 400);
        }
    },

    async queries_over_all_partitions() {
        const c = await container({ throughput: 24000 });
        const items = Array.from({ length: 120 }, (_, n) => ({ id: String(n).padStart(3, "0"), pk: `p${n % 17}`, n, k: n % 3 }));
        const bulk = items.map((resourceBody) => ({ operationType: "Create", resourceBody, partitionKey: resourceBody.pk }));
        const written = await c.items.executeBulkOperations(bulk);
        assert.deepEqual(new Set(written.map((each) => each.response.statusCode)), new Set([201]));
        assert.deepEqual(await ids(c, "SELECT VALUE c.n FROM c ORDER BY c.n DESC"), items.map(({ n }) => 119 - n));
        assert.deepEqual(await ids(c, "SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n"), [0, 1, 2]);
        assert.deepEqual(await ids(c, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 100 LIMIT 3"), [100, 101, 102]);
        assert.deepEqual(await ids(c, "SELECT VALUE SUM(c.n) FROM c"), [7140]);
        assert.deepEqual((await ids(c, "SELECT DISTINCT c.k FROM c")).map(({ k }) => k).sort(), [0, 1, 2]);
        const groups = await ids(c, "SELECT c.k, COUNT(1) AS count FROM c GROUP BY c.k");
        assert.deepEqual(groups.map((group) => group.count), [40, 40, 40]);
        const bound = { query: "SELECT VALUE c.id FROM c WHERE c.n = @n", parameters: [{ name: "@n", value: 7 }] };
        assert.deepEqual(await ids(c, bound), ["007"]);
        assert.deepEqual(await ids(c, "SELECT VALUE c.n FROM c WHERE c.k = 0 ORDER BY c.n", { partitionKey: "p3" }), [3, 54, 105]);
    },

    async a_query_goes_on_from_its_continuation() {
        const c = await container();
        for (let n = 0; n < 10; n++) await c.items.create({ id: String(n), pk: "p" });
        const seen = [];
        let continuationToken;
        do {
            const options = { maxItemCount: 3, continuationToken, partitionKey: "p" };
            const page = await c.items.query("SELECT VALUE c.id FROM c", options).fetchNext();
            assert.ok(page.resources.length <= 3);
            seen.push(...page.resources);
            continuationToken = page.continuationToken;
        } while (continuationToken);
        assert.deepEqual(seen, Array.from({ length: 10 }, (_, n) => String(n)));
    },

    async a_batch_is_all_or_nothing() {
        const c = await container({ defaultTtl: 100 });
        const operations = [
            { operationType: "Create", resourceBody: { id: "1", pk: "p" } },
            { operationType: "Upsert", resourceBody: { id: "2", pk: "p", ttl: 5 } },
            { operationType: "Read", id: "1" },
        ];
        const good = await c.items.batch(operations, "p");
        assert.deepEqual(good.result.map((each) => each.statusCode), [201, 201, 200]);
        const again = [{ operationType: "Delete", id: "2" }, { operationType: "Create", resourceBody: { id: "1", pk: "p" } }];
        const bad = await c.items.batch(again, "p");
        assert.deepEqual(bad.result.map((each) => each.statusCode), [424, 409]);
        assert.deepEqual(await ids(c), ["1", "2"]);
        await advance(5);
        assert.deepEqual(await ids(c), ["1"]);
    },

    async patches() {
        const c = await container();
        await c.items.create({ id: "1", pk: "p", n: 1, tags: ["a"], gone: true });
        const steps = [
            { op: "incr", path: "/n", value: 4 },
            { op: "add", path: "/tags/-", value: "b" },
            { op: "remove", path: "/gone" },
            { op: "set", path: "/deep", value: { x: 1 } },
            { op: "replace", path: "/deep/x", value: 2 },
        ];
        const { resource } = await c.item("1", "p").patch(steps);
        assert.deepEqual([resource.n, resource.tags, resource.gone, resource.deep], [5, ["a", "b"], undefined, { x: 2 }]);
        const condition = "FROM c WHERE c.n = 1";
        await refused(c.item("1", "p").patch({ operations: [{ op: "incr", path: "/n", value: 1 }], condition }), 412);
    },

    async conditions() {
        const c = await container();
        const { etag } = await c.items.create({ id: "1", pk: "p" });
        await refused(c.items.create({ id: "1", pk: "p" }), 409);
        const only = (condition) => ({ accessCondition: { type: "IfMatch", condition } });
        const { etag: next } = await c.item("1", "p").replace({ id: "1", pk: "p", n: 1 }, only(etag));
        await refused(c.item("1", "p").replace({ id: "1", pk: "p", n: 2 }, only(etag)), 412);
        const unchanged = { accessCondition: { type: "IfNoneMatch", condition: next } };
        assert.equal((await c.item("1", "p").read(unchanged)).statusCode, 304);
    },

    async the_change_feed() {
        const c = await container({ throughput: 24000 });
        const feed = () => c.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 2 });
        for (let n = 0; n < 5; n++) await c.items.create({ id: String(n), pk: `p${n}` });
        await c.items.upsert({ id: "0", pk: "p0", n: 1 });
        const seen = new Map();
        const iterator = feed();
        while (iterator.hasMoreResults) {
            const page = await iterator.readNext();
            if (page.statusCode === 304) break;
            for (const item of page.result) seen.set(item.id, item);
        }
        assert.deepEqual([...seen.keys()].sort(), ["0", "1", "2", "3", "4"]);
        assert.equal(seen.get("0").n, 1);
    },

    async several_partition_keys() {
        const { database } = await client.databases.create({ id: `js${databases++}` });
        const partitionKey = { paths: ["/a", "/b"], version: PartitionKeyDefinitionVersion.V2, kind: PartitionKeyKind.MultiHash };
        const { container: c } = await database.containers.create({ id: "c", partitionKey, defaultTtl: 10 });
        for (const [id, a, b] of [["1", "x", "y"], ["2", "x", "z"], ["3", "w", "y"]]) await c.items.create({ id, a, b });
        assert.equal((await c.item("1", ["x", "y"]).read()).resource.a, "x");
        assert.deepEqual(await ids(c, undefined, { partitionKey: ["x", "z"] }), ["2"]);
        await advance(10);
        assert.deepEqual(await ids(c), []);
    },

    async a_partition_is_deleted_as_a_whole() {
        const c = await container();
        for (let n = 0; n < 6; n++) await c.items.create({ id: String(n), pk: `p${n % 2}` });
        await c.deleteAllItemsForPartitionKey("p1");
        assert.deepEqual(await ids(c), ["0", "2", "4"]);
    },

    async reading_goes_on_while_ranges_are_split() {
        const c = await container({ throughput: 12000 });
        const all = Array.from({ length: 60 }, (_, n) => `i${String(n).padStart(2, "0")}`);
        const create = (id) => ({ operationType: "Create", partitionKey: `p${id}`, resourceBody: { id, pk: `p${id}` } });
        for (const result of await c.items.bulk(all.map(create))) assert.equal(result.statusCode, 201);
        const ordered = c.items.query("SELECT * FROM c ORDER BY c.id", { maxItemCount: 5, maxDegreeOfParallelism: 1 });
        const plain = c.items.query("SELECT * FROM c", { maxItemCount: 5, maxDegreeOfParallelism: 1 });
        const changes = c.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), maxItemCount: 5 });
        const next = async (query) => ((await query.fetchNext()).resources ?? []).map(({ id }) => id);
        const queries = [ordered, plain];
        const found = [[], []];
        for (const [n, query] of queries.entries()) while (!found[n].length) found[n].push(...(await next(query)));
        const told = (await changes.readNext()).result.map(({ id }) => id);

        const { resource: offer } = await c.readOffer();
        await client.offer(offer.id).replace({ ...offer, content: { offerThroughput: 35000 } });

        for (const [n, query] of queries.entries())
            while (query.hasMoreResults()) found[n].push(...(await next(query)));
        assert.deepEqual(found[0], all);
        assert.deepEqual(found[1].sort(), all);
        const more = all.map((id) => `${id}x`);
        for (const result of await c.items.bulk(more.map(create))) assert.equal(result.statusCode, 201);
        for (let idle = 0; idle < 5; ) {
            const { result } = await changes.readNext();
            idle = result?.length ? 0 : idle + 1;
            told.push(...(result ?? []).map(({ id }) => id));
        }
        assert.deepEqual(told.sort(), [...all, ...more].sort());
        assert.deepEqual(await ids(c), [...all, ...more].sort());
    },

    async names_and_throughput() {
        const c = await container({ throughput: 500 });
        assert.equal((await c.readOffer()).resource.content.offerThroughput, 500);
        const found = (await c.database.containers.readAll().fetchAll()).resources;
        assert.deepEqual(found.map(({ id }) => id), ["c"]);
        await refused(c.database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] } }), 409);
        await c.delete();
        await refused(c.read(), 404);
        await c.database.delete();
        await refused(c.database.read(), 404);
    },
};


for (const [name, scenario] of Object.entries(scenarios)) {
    let error = null;
    try {
        await scenario();
    } catch (thrown) {
        error = String(thrown?.stack ?? thrown);
    }
    console.log(JSON.stringify({ name, error }));
}
