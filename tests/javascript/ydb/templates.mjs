// `@ydbjs/query`: https://github.com/ydb-platform/ydb-js-sdk

import assert from "node:assert/strict";
import { StatsMode } from "@ydbjs/api/query";
import * as primitive from "@ydbjs/value/primitive";
import { Optional } from "@ydbjs/value/optional";
import { advance, fresh, now, sql } from "./client.mjs";

async function made(columns = "id Uint64, text Utf8, PRIMARY KEY (id)", more = "") {
    const name = fresh();
    await sql`CREATE TABLE ${sql.identifier(name)} (${sql.unsafe(columns)}) ${sql.unsafe(more)}`;
    return sql.identifier(name);
}

/** The code and the issues that a query is refused with. */
async function refused(query) {
    // Who listens to no errors has the process ended by them.
    const [{ status, reason }] = await Promise.allSettled([query.on("error", () => {})]);
    assert.equal(status, "rejected");
    return [reason.code, JSON.stringify(reason.issues)];
}

const u = (n) => new primitive.Uint64(BigInt(n));

export const templates = {
    async values_are_parameters_and_come_back() {
        const given = [
            true, -5, 2.5, 9007199254740993n, "ü€𝄞", new Date("2020-02-03T04:05:06Z"), new Uint8Array([0, 255]),
            [1, 2], { a: 1, b: "x" }, new Map([["k", 1]]), [{ n: 1, t: "a" }, { n: 2, t: "b" }],
        ];
        const bare = (value) => (value instanceof Buffer ? new Uint8Array(value) : value);
        for (const each of given) assert.deepEqual(bare((await sql`SELECT ${each} AS back`)[0][0].back), each);
    },

    async all_primitive_types_come_back() {
        const at = new Date("2020-02-03T04:05:06.789Z");
        const uuid = "6af014ea-29dd-401c-a7e3-68a58305f4fb";
        const cases = [
            [new primitive.Int8(-8), -8], [new primitive.Uint8(255), 255], [new primitive.Int16(-3), -3],
            [new primitive.Uint16(65535), 65535], [new primitive.Int32(-1), -1], [new primitive.Uint32(4294967295), 4294967295],
            [new primitive.Int64(-1n), -1n], [new primitive.Uint64(18446744073709551615n), 18446744073709551615n],
            [new primitive.Float(0.5), 0.5], [new primitive.Double(1e300), 1e300], [new primitive.Bool(false), false],
            [new primitive.Text(""), ""], [new primitive.Json('{"a":1}'), { a: 1 }], [new primitive.JsonDocument('{"a": 1}'), { a: 1 }],
            [new primitive.Uuid(uuid), uuid], [new primitive.Date(at), new Date("2020-02-03T00:00:00Z")],
            [new primitive.Datetime(at), new Date("2020-02-03T04:05:06Z")], [new primitive.Timestamp(at), at],
            [new Optional(new primitive.Int32(1)), 1], [new Optional(null, new primitive.Int32Type()), null],
        ];
        for (const [given, expected] of cases) {
            const [[{ back }]] = await sql`SELECT ${given} AS back`;
            assert.deepEqual(back, expected, given.constructor.name);
        }
    },

    async lists_of_structs_are_tables() {
        const name = await made("id Int32, text Utf8, PRIMARY KEY (id)");
        const rows = Array.from({ length: 2000 }, (_, id) => ({ id, text: `row ${id}` }));
        await sql`INSERT INTO ${name} SELECT id, text FROM AS_TABLE(${rows})`;
        const [[{ count }], some] = await sql`SELECT COUNT(*) AS count FROM ${name}; SELECT text FROM ${name} WHERE id IN ${[5, 7]} ORDER BY text`;
        assert.deepEqual([count, some], [2000n, [{ text: "row 5" }, { text: "row 7" }]]);
        const named = sql`SELECT text FROM ${name} WHERE id = $id`.parameter("id", new primitive.Int32(3)).values();
        assert.deepEqual(await named, [[["row 3"]]]);
        assert.equal((await sql`SELECT id FROM ${name}`)[0].length, 2000);
    },

    async transactions_hold_or_leave_nothing() {
        const name = await made();
        const ended = [];
        const write = (id, fail) =>
            sql.begin(async (tx) => {
                tx.onClose((committed) => ended.push(committed));
                await tx`UPSERT INTO ${name} (id) VALUES (${u(id)})`;
                assert.equal((await tx`SELECT id FROM ${name} WHERE id = ${u(id)}`)[0].length, 1);
                if (fail) throw new Error("no");
                return id;
            });
        assert.equal(await write(1), 1);
        await assert.rejects(write(2, true), ({ cause }) => cause.message === "no");
        assert.deepEqual(await sql`SELECT id FROM ${name}`, [[{ id: 1n }]]);
        assert.deepEqual(ended, [true, false]);
        const reading = sql.begin({ isolation: "snapshotReadOnly" }, async (tx) => {
            await tx`UPSERT INTO ${name} (id) VALUES (${u(3)})`;
        });
        await assert.rejects(reading, ({ cause }) => cause.issues[0].message.includes("read only transaction"));
    },

    async whoever_comes_second_does_it_once_more() {
        const name = await made("id Uint64, n Int32, PRIMARY KEY (id)");
        await sql`UPSERT INTO ${name} (id, n) VALUES (${u(0)}, 0)`;
        const add = () =>
            sql.begin({ idempotent: true }, async (tx) => {
                const [[{ n }]] = await tx`SELECT n FROM ${name}`;
                await tx`UPSERT INTO ${name} (id, n) VALUES (${u(0)}, ${n + 1})`;
            });
        await Promise.all([add(), add(), add()]);
        assert.deepEqual(await sql`SELECT n FROM ${name} WHERE id = ${u(0)}`, [[{ n: 3 }]]);
    },

    async isolation_of_single_queries() {
        const name = await made();
        for (const mode of ["implicit", "serializableReadWrite", "snapshotReadOnly", "onlineReadOnly", "staleReadOnly"]) {
            assert.deepEqual(await sql`SELECT * FROM ${name}`.isolation(mode), [[]], mode);
        }
        const writing = sql`UPSERT INTO ${name} (id) VALUES (${u(1)})`.isolation("onlineReadOnly", { allowInconsistentReads: true });
        assert.match((await refused(writing))[1], /read only transaction/);
    },

    async statistics_are_events() {
        const query = sql`SELECT 1 AS one`.withStats(StatsMode.FULL).idempotent(true).timeout(5000);
        let told = null;
        query.on("stats", (stats) => (told = stats));
        await query;
        assert.ok(told.queryPlan && told === query.stats());
    },

    async errors_have_a_code_and_issues() {
        const name = await made();
        const missing = await refused(sql`SELECT * FROM nothing`);
        assert.deepEqual([missing[0], /Cannot find table/.test(missing[1])], [400070, true]);
        assert.equal((await refused(sql`SELEC 1`))[0], 400080);
        await sql`INSERT INTO ${name} (id) VALUES (${u(1)})`;
        const [code, text] = await refused(sql`INSERT INTO ${name} (id) VALUES (${u(1)})`);
        assert.deepEqual([code, /Conflict with existing key/.test(text)], [400120, true]);
        assert.equal((await refused(sql`UPSERT INTO ${name} (id) VALUES (${"text"})`))[0], 400080);
    },

    async a_query_that_is_cancelled_leaves_its_session_to_others() {
        const long = sql`SELECT ListLength(ListFromRange(0, ${100_000})) AS n`.on("error", () => {});
        const outcome = Promise.allSettled([long]);
        long.cancel();
        assert.equal((await outcome)[0].status, "rejected");
        assert.deepEqual(await sql`SELECT 1 AS one`, [[{ one: 1 }]]);
    },

    async rows_go_at_their_run_by_seconds_since_1970() {
        const name = await made("id Uint64, until Uint32, PRIMARY KEY (id)", 'WITH (TTL = Interval("PT0S") ON until AS SECONDS)');
        const start = Math.floor((await now()) / 1000);
        const rows = [[1, start + 100], [2, start + 100_000]].map(([id, until]) => ({ id: u(id), until: new primitive.Uint32(until) }));
        await sql`UPSERT INTO ${name} SELECT id, until FROM AS_TABLE(${rows})`;
        const there = async () => (await sql`SELECT id FROM ${name}`.values())[0].flat();
        assert.deepEqual(await there(), [1n, 2n]);
        await advance(100 + 3600 + 60);
        assert.deepEqual(await there(), [2n]);
        await sql`ALTER TABLE ${name} RESET (TTL)`;
        await advance(100_000);
        assert.deepEqual(await there(), [2n]);
    },
};
