// Seeds, snapshots, reports, refusals and time limits.
import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { Mayfly } from "mayflydb";
import { useMayfly } from "mayflydb/node";

const SESSIONS = "cosmos:shop/sessions";
const START = "2026-01-01T00:00:00.000Z";
const shop = (...items) => ({
    databases: [{ id: "shop", containers: [{ id: "sessions", partition_key: "/userId", default_ttl: 3600, items }] }],
});
const mayfly = useMayfly({ start: START, seed: shop({ id: "s1", userId: "u1" }, { id: "s2", userId: "u1", ttl: 60 }) });

const home = await mkdtemp(join(tmpdir(), "mayfly-"));
after(() => rm(home, { recursive: true }));

test("a seed makes what documents and files describe, once", async () => {
    assert.equal((await mayfly.stats()).records, 2);
    const file = join(home, "more.json");
    await writeFile(file, '{"mongo": {"databases": [{"name": "app", "collections": [{"name": "n", "documents": [{"_id": 9007199254740993}]}]}]}}');
    assert.deepEqual(await mayfly.seed(file, shop({ id: "s1", userId: "u1" })), { created: 2, changed: 0, same: 3 });
    assert.deepEqual(await mayfly.seed(pathToFileURL(file)), { created: 0, changed: 0, same: 2 });
    const exported = await fetch(`${mayfly.admin}/data/export?target=mongo:app.n`);
    assert.match(await exported.text(), /9007199254740993/, "a file is sent as it is");
    await assert.rejects(mayfly.seed(join(home, "more.toml")), { name: "TypeError", message: /mayfly apply/ });
    await assert.rejects(mayfly.seed(join(home, "none.json")), { code: "ENOENT" });
    await assert.rejects(mayfly.seed({ databses: [] }), { status: 400, detail: /databses/ });
});

test("a snapshot has records and clock, and is deleted", async () => {
    const saved = await mayfly.snapshot("fresh");
    assert.deepEqual([saved.name, saved.savedAt.toISOString()], ["fresh", START]);
    await mayfly.clock.advance({ minutes: 1 });
    assert.equal((await mayfly.stats()).records, 1);
    await mayfly.restore("fresh");
    assert.equal((await mayfly.stats()).records, 2);
    assert.equal((await mayfly.clock.now()).toISOString(), START);
    assert.deepEqual(await mayfly.snapshots(), [saved]);
    await mayfly.deleteSnapshot("fresh");
    assert.deepEqual(await mayfly.snapshots(), []);
    await assert.rejects(mayfly.restore("fresh"), { status: 404 });
    await assert.rejects(mayfly.snapshot("a b"), { status: 400 });
});

test("a preview, a forecast and an explanation change nothing", async () => {
    const preview = await mayfly.preview(SESSIONS, { default_ttl: 1800 });
    assert.deepEqual([preview.records, preview.expire_now, preview.expire_within["1h"]], [2, 0, 2]);
    assert.equal((await mayfly.preview(SESSIONS, { default_ttl: null })).never, 2);
    const forecast = await mayfly.forecast({ horizon: { hours: 1 }, buckets: 2, target: SESSIONS });
    assert.deepEqual(forecast.buckets.map((bucket) => bucket.count), [1, 1]);
    assert.equal((await mayfly.forecast()).in_horizon, 2);
    const why = await mayfly.explain(SESSIONS, "s2", "u1");
    assert.deepEqual([why.state, why.deadline], ["alive", "2026-01-01T00:01:00Z"]);
    assert.equal((await mayfly.stats()).records, 2);
});

test("an advance may leave the purge to others", async () => {
    assert.deepEqual(await mayfly.clock.advance("1m", { sweep: "none" }), {
        now: new Date("2026-01-01T00:01:00Z"),
        expired: 1,
        purged: 0,
        byTarget: { [SESSIONS]: { expired: 1, purged: 0 } },
    });
    assert.equal((await mayfly.purge(SESSIONS)).purged, 1);
});

test("a refusal has the title, the detail and the hint", async () => {
    await assert.rejects(mayfly.purge("cosmos:nowhere"), (error) => {
        assert.deepEqual([error.name, error.status, error.title], ["MayflyError", 404, "Not found"]);
        assert.match(error.hint, /names all targets/);
        assert.equal(error.message, `404 Not found: there is no cosmos:nowhere; ${error.hint}`);
        assert.equal(error.detail, "there is no cosmos:nowhere");
        return true;
    });
});

test("a call that gets no answer ends in time", async () => {
    const silent = createServer(() => {}).listen(0, "127.0.0.1");
    await new Promise((resolve) => silent.once("listening", resolve));
    class Elsewhere extends Mayfly {
        get admin() {
            return `http://127.0.0.1:${silent.address().port}/_mayfly`;
        }
    }
    await assert.rejects(new Elsewhere({ requestTimeout: 20 }).stats(), /no answer to GET stats within 20 ms/);
    silent.close();
});
