// What an application in JavaScript does, through the vendor's client: node scenarios.mjs ENDPOINT KEY ADMIN
// Prints one line of JSON for each scenario: {"name": ..., "error": null or what was wrong}.

import assert from "node:assert/strict";
import { ChangeFeedMode, ChangeFeedStartFrom, PartitionKeyDefinitionVersion, PartitionKeyKind } from "@azure/cosmos";
import { advance, changes, client, container, ids, newName, refused, there } from "./client.mjs";
import { flows } from "./flows.mjs";

const scenarios = {
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

    async searches_over_all_partitions() {
        const c = await container({ throughput: 24000 });
        const texts = ["red fox", "a fox, a fox and a bird", "two birds", "foxes in the red sky", "the sea", "red"];
        const items = texts.map((t, n) => ({ id: String(n), pk: `p${n}`, t, v: [n, 1] }));
        for (const item of items) await c.items.create(item);
        const parameters = [{ name: "@word", value: "fox" }, { name: "@v", value: [1, 0] }];
        const ranked = async (rank, options) =>
            (await ids(c, { query: `SELECT c.id FROM c ${rank}`, parameters }, options)).map(({ id }) => id);
        const text = "ORDER BY RANK FullTextScore(c.t, @word)";
        assert.deepEqual(await ranked(`WHERE FullTextContains(c.t, @word) ${text} OFFSET 0 LIMIT 10`), ["1", "0", "3"]);
        assert.deepEqual(await ranked(`${text} OFFSET 1 LIMIT 2`), ["0", "3"]);
        assert.deepEqual(await ranked(text, { partitionKey: "p3" }), ["3"]);
        // By text: 1, 0, 3, then the rest; by vector: 5, 4, 3, 2, 1, 0.
        const both = "ORDER BY RANK RRF(FullTextScore(c.t, @word), VectorDistance(c.v, @v)";
        assert.deepEqual(await ranked(`${both}) OFFSET 0 LIMIT 6`), ["5", "1", "4", "3", "0", "2"]);
        assert.deepEqual(await ranked(`${both}, [5, 1]) OFFSET 0 LIMIT 3`), ["1", "0", "3"]);
        const vectors = "ORDER BY RANK RRF(VectorDistance(c.v, @v), VectorDistance(c.v, @v), [1, -0.5])";
        assert.deepEqual(await ranked(`${vectors} OFFSET 0 LIMIT 2`), ["5", "4"]);
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

    async an_item_is_renamed() {
        const c = await container();
        const { resource: first } = await c.items.create({ id: "a", pk: "p" });
        const { resource: renamed } = await c.item("a", "p").replace({ id: "b", pk: "p" });
        assert.deepEqual([renamed.id, renamed._rid], ["b", first._rid]);
        assert.deepEqual(await ids(c), ["b"]);
        await c.items.create({ id: "a", pk: "p" });
        await refused(c.item("a", "p").replace({ id: "b", pk: "p" }), 409);
    },

    async the_change_feed() {
        const c = await container({ throughput: 24000 });
        for (let n = 0; n < 5; n++) await c.items.create({ id: String(n), pk: `p${n}` });
        await c.items.upsert({ id: "0", pk: "p0", n: 1 });
        const seen = await changes(c, { maxItemCount: 2 });
        assert.deepEqual([...seen.keys()].sort(), ["0", "1", "2", "3", "4"]);
        assert.equal(seen.get("0").n, 1);
    },

    async the_feed_of_all_versions_and_deletes() {
        const c = await container({ throughput: 24000, defaultTtl: 10, changeFeedPolicy: { retentionDuration: 10 } });
        const changes = async (changeFeedStartFrom) => {
            const changeFeedMode = ChangeFeedMode.AllVersionsAndDeletes;
            const iterator = c.items.getChangeFeedIterator({ changeFeedMode, changeFeedStartFrom, maxItemCount: 2 });
            const rows = [];
            let continuation;
            for (;;) {
                const page = await iterator.readNext();
                continuation = page.continuationToken;
                if (page.statusCode === 304) return { rows, continuation };
                for (const { current, metadata } of page.result) {
                    const what = metadata.timeToLiveExpired ? "expire" : metadata.operationType;
                    rows.push(`${what} ${metadata.id ?? current.id} ${metadata.partitionKey?.pk ?? current.pk}`);
                }
            }
        };
        const { rows: none, continuation } = await changes(ChangeFeedStartFrom.Now());
        assert.deepEqual(none, []);
        for (let n = 0; n < 4; n++) await c.items.create({ id: String(n), pk: `p${n}` });
        await c.items.upsert({ id: "0", pk: "p0", ttl: -1 });
        await c.item("1", "p1").delete();
        await advance(10);
        await c.items.create({ id: "2", pk: "p2", ttl: -1 });
        const { rows } = await changes(ChangeFeedStartFrom.Continuation(continuation));
        assert.deepEqual(rows.filter((row) => row.endsWith("p0")), ["create 0 p0", "replace 0 p0"]);
        assert.deepEqual(rows.filter((row) => row.endsWith("p1")), ["create 1 p1", "delete 1 p1"]);
        assert.deepEqual(rows.filter((row) => row.endsWith("p2")), ["create 2 p2", "expire 2 p2", "create 2 p2"]);
        assert.deepEqual(rows.filter((row) => row.endsWith("p3")), ["create 3 p3", "expire 3 p3"]);
        assert.equal(rows.length, 9);
    },

    async several_partition_keys() {
        const { database } = await client.databases.create({ id: newName() });
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

    async stored_procedures() {
        const c = await container();
        const body = `function (id, fail) {
            __.createDocument(__.getSelfLink(), { id, pk: "p" }, function (error, made) {
                if (error) throw error;
                if (fail) throw new Error(4321, "not today");
                console.log("made %s", id);
                getContext().getResponse().setBody(made);
            });
        }`;
        await c.scripts.storedProcedures.create({ id: "make", body });
        const procedure = c.scripts.storedProcedure("make");
        assert.equal((await procedure.read()).resource.body, body);
        const { resource, headers } = await procedure.execute("p", ["1"], { enableScriptLogging: true });
        assert.deepEqual(resource, (await c.item("1", "p").read()).resource);
        assert.equal(decodeURIComponent(headers["x-ms-documentdb-script-log-results"]), "made 1");
        await assert.rejects(procedure.execute("p", ["2", true]), (error) => {
            assert.deepEqual([error.code, error.substatus], [400, 4321]);
            return /not today/.test(error.message);
        });
        assert.deepEqual(await ids(c), ["1"]);
        const found = (await c.scripts.storedProcedures.readAll().fetchAll()).resources;
        assert.deepEqual(found.map(({ id }) => id), ["make"]);
        await procedure.replace({ id: "make", body: "() => __.response.setBody(Date.now())" });
        const now = (await procedure.execute("p", [])).resource;
        await advance(10);
        assert.equal((await procedure.execute("p", [])).resource, now + 10_000);
        await procedure.delete();
        await refused(procedure.execute("p", []), 404);
    },

    async triggers() {
        const c = await container();
        const before = `function () {
            const item = __.request.getBody();
            item.stamp = __.request.getOperationType();
            __.request.setBody(item);
        }`;
        await c.scripts.triggers.create({ id: "stamp", body: before, triggerType: "Pre", triggerOperation: "All" });
        await c.scripts.triggers.create({
            id: "fail", body: "function () { throw new Error('no'); }", triggerType: "Post", triggerOperation: "Delete",
        });
        const { resource } = await c.items.create({ id: "1", pk: "p" }, { preTriggerInclude: "stamp" });
        assert.equal(resource.stamp, "Create");
        const upserted = await c.items.upsert({ id: "1", pk: "p" }, { preTriggerInclude: ["stamp"] });
        assert.equal(upserted.resource.stamp, "Upsert");
        await refused(c.item("1", "p").delete({ postTriggerInclude: "fail" }), 400);
        assert.deepEqual(await ids(c), ["1"]);
        await refused(c.items.create({ id: "2", pk: "p" }, { postTriggerInclude: "fail" }), 400);
        assert.equal((await c.scripts.trigger("fail").read()).resource.triggerOperation, "Delete");
        await c.scripts.trigger("fail").delete();
        assert.equal((await c.scripts.triggers.readAll().fetchAll()).resources.length, 1);
    },

    async user_defined_functions() {
        const c = await container({ throughput: 20_000 });
        for (let n = 0; n < 5; n++) await c.items.create({ id: String(n), pk: `p${n}`, n });
        await c.scripts.userDefinedFunctions.create({ id: "square", body: "function (n) { return n * n; }" });
        const query = "SELECT VALUE udf.square(c.n) FROM c WHERE udf.square(c.n) > 1 ORDER BY c.n DESC";
        assert.deepEqual(await ids(c, query), [16, 9, 4]);
        await c.scripts.userDefinedFunction("square").replace({ id: "square", body: "(n) => -n" });
        assert.deepEqual(await ids(c, "SELECT VALUE SUM(udf.square(c.n)) FROM c"), [-10]);
        await c.scripts.userDefinedFunction("square").delete();
        await assert.rejects(ids(c, "SELECT VALUE udf.square(c.n) FROM c"), /udf.square/);
    },
};

for (const [name, scenario] of Object.entries({ ...flows, ...scenarios })) {
    let error = null;
    try {
        await scenario();
    } catch (thrown) {
        error = String(thrown?.stack ?? thrown);
    }
    console.log(JSON.stringify({ name, error }));
}
