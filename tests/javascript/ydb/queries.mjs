// The query service in `ydb-sdk`.

import assert from "node:assert/strict";
import ydb from "ydb-sdk";
import { execute, fresh, queries, TypedValues, Types, Ydb } from "./client.mjs";

async function made() {
    const name = fresh();
    await execute(`CREATE TABLE ${name} (id Uint64, text Utf8, PRIMARY KEY (id))`);
    return name;
}

const { StatsMode, ExecMode } = Ydb.Query;
const numbers = (count) => TypedValues.list(Types.struct({ id: Types.UINT64 }), Array.from({ length: count }, (_, id) => ({ id })));

export const queryService = {
    async several_statements_give_several_result_sets() {
        const name = await made();
        const sets = await execute({
            text: `DECLARE $rows AS List<Struct<id: Uint64>>;
                UPSERT INTO ${name} (id) SELECT id FROM AS_TABLE($rows);
                SELECT COUNT(*) AS count FROM ${name}; SELECT id, text FROM ${name} WHERE id < 2 ORDER BY id DESC; SELECT 1 AS x WHERE FALSE`,
            parameters: { $rows: numbers(10) },
        });
        assert.deepEqual(JSON.parse(JSON.stringify(sets)), [[{ count: 10 }], [{ id: 1, text: null }, { id: 0, text: null }], []]);
    },

    async results_of_any_length_come_in_parts() {
        const name = await made();
        const text = `UPSERT INTO ${name} SELECT id, "${"x".repeat(400)}"u AS text FROM AS_TABLE($rows)`;
        await execute({ text, parameters: { $rows: numbers(8000) } });
        const [found] = await execute(`SELECT * FROM ${name}`);
        assert.deepEqual([found.length, Number(found[7999].id), found[7999].text.length], [8000, 7999, 400]);
    },

    async a_transaction_is_committed_where_nothing_is_thrown() {
        const name = await made();
        const write = (id, fail) =>
            queries.doTx({
                fn: async (each) => {
                    await (await each.execute({ text: `UPSERT INTO ${name} (id) VALUES (${id})` })).opFinished;
                    // Of what is not an error of YDB's the SDK makes no rollback.
                    if (fail) await each.execute({ text: "SELECT * FROM nothing" });
                },
            });
        await write(1);
        await assert.rejects(write(2, true), /SchemeError/);
        assert.deepEqual((await execute(`SELECT id FROM ${name}`))[0].map(({ id }) => Number(id)), [1]);
    },

    async whoever_loses_is_repeated() {
        const name = await made();
        await execute(`UPSERT INTO ${name} (id, text) VALUES (0, "0")`);
        const add = () =>
            queries.doTx({
                fn: async (each) => {
                    const { resultSets } = await each.execute({ text: `SELECT text FROM ${name}` });
                    let before;
                    for await (const { rows } of resultSets) for await (const row of rows) before = Number(row.text);
                    await (await each.execute({ text: `UPSERT INTO ${name} (id, text) VALUES (0, "${before + 1}")` })).opFinished;
                },
            });
        await Promise.all([add(), add(), add(), add()]);
        assert.deepEqual((await execute(`SELECT text FROM ${name}`))[0], [{ text: "4" }]);
    },

    async a_transaction_that_a_program_begins_and_ends_itself() {
        const name = await made();
        await queries.do({
            fn: async (each) => {
                await each.beginTransaction({ serializableReadWrite: {} });
                await (await each.execute({ text: `UPSERT INTO ${name} (id) VALUES (1)` })).opFinished;
                assert.ok(each.txId);
                await each.rollbackTransaction();
                await each.beginTransaction({ serializableReadWrite: {} });
                await (await each.execute({ text: `UPSERT INTO ${name} (id) VALUES (2)` })).opFinished;
                await each.commitTransaction();
            },
        });
        assert.deepEqual((await execute(`SELECT id FROM ${name}`))[0].map(({ id }) => Number(id)), [2]);
    },

    async statistics_and_plans_are_given_to_who_asks() {
        const name = await made();
        const stats = (args) =>
            queries.do({
                fn: async (each) => {
                    const answer = await each.execute(args);
                    for await (const { rows } of answer.resultSets) for await (const _ of rows);
                    await answer.opFinished;
                    return answer.execStats;
                },
            });
        assert.equal(await stats({ text: `SELECT * FROM ${name}` }), undefined);
        const full = await stats({ text: `SELECT * FROM ${name}`, statsMode: StatsMode.STATS_MODE_FULL });
        assert.ok(full.queryPhases.length > 0 && full.queryPlan);
        const plan = await stats({ text: `SELECT * FROM ${name}`, execMode: ExecMode.EXEC_MODE_EXPLAIN });
        assert.match(plan.queryPlan, /TableFullScan/);
    },

    async what_is_wrong_is_said_in_the_stream() {
        const refused = (text, expected) => assert.rejects(execute(text), expected);
        await refused("SELECT * FROM nothing", /SchemeError[^]*Cannot find table/);
        await refused("SELECT Unwrap(CAST(NULL AS Int32?))", /GenericError|PreconditionFailed/);
        await refused("SELECT $x", /GenericError[^]*Unknown name: \$x/);
        const within = queries.doTx({
            fn: async (each) => (await each.execute({ text: `CREATE TABLE ${fresh()} (id Uint64, PRIMARY KEY (id))` })).opFinished,
        });
        await assert.rejects(within, /Scheme operations cannot be executed inside transaction/);
    },

    async rows_keep_their_types_where_that_is_asked_for() {
        await queries.do({
            fn: async (each) => {
                const { resultSets } = await each.execute({ text: "SELECT 1u AS a, CAST(NULL AS Utf8?) AS b", rowMode: 1 });
                for await (const set of resultSets) {
                    assert.deepEqual(set.columns.map(({ name }) => name), ["a", "b"]);
                    const found = [];
                    for await (const row of set.typedRows(ydb.TypedData)) found.push({ ...row });
                    assert.deepEqual(found, [{ a: 1, b: null }]);
                }
            },
        });
    },
};
