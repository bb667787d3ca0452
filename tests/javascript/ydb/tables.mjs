// The table and scheme services in `ydb-sdk`: https://github.com/ydb-platform/ydb-nodejs-sdk

import assert from "node:assert/strict";
import ydb from "ydb-sdk";
import { advance, fresh, now, rows, schemes, session, tables, TypedValues, Types, Ydb } from "./client.mjs";

const { Column, TableDescription, TableIndex } = ydb;
const whole = { beginTx: { serializableReadWrite: {} }, commitTx: true };
const begun = { beginTx: { serializableReadWrite: {} }, commitTx: false };

/** A table of numbers and texts. */
const simple = () =>
    new TableDescription()
        .withColumn(new Column("id", Types.optional(Types.UINT64)))
        .withColumn(new Column("text", Types.optional(Types.UTF8)))
        .withPrimaryKey("id");

async function made(description = simple()) {
    const name = fresh();
    await session((each) => each.createTable(name, description));
    return name;
}

const numbered = Types.struct({ id: Types.UINT64, text: Types.UTF8 });

/** Rows from `from` on, all at once. */
async function filled(name, count, from = 0) {
    const list = Array.from({ length: count }, (_, n) => ({ id: from + n, text: `row ${from + n}` }));
    await session((each) => each.bulkUpsert(name, TypedValues.list(numbered, list)));
}

const contents = async (name) =>
    rows(await session((each) => each.executeQuery(`SELECT * FROM ${name} ORDER BY id`))).map(({ id, text }) => `${id} ${text}`);

const upsert = (name, id, text) => `UPSERT INTO ${name} (id, text) VALUES (${id}, "${text}")`;

export const tableService = {
    async a_table_is_described_as_it_was_made() {
        const description = simple()
            .withColumn(new Column("at", Types.optional(Types.TIMESTAMP)))
            .withColumn(new Column("must", Types.INT32))
            .withIndex(new TableIndex("by_text").withIndexColumns("text").withDataColumns("at").withGlobalAsync(false))
            .withTtl("at", 3600);
        description.partitioningSettings = { minPartitionsCount: 3 };
        description.attributes = { purpose: "test" };
        const name = await made(description);
        const settings = new ydb.DescribeTableSettings().withIncludeTableStats(true);
        const told = Ydb.Table.DescribeTableResult.toObject(
            await session((each) => each.describeTable(name, settings)), { enums: String, longs: Number },
        );
        assert.deepEqual(told.columns, [
            { name: "id", type: { optionalType: { item: { typeId: "UINT64" } } } },
            { name: "text", type: { optionalType: { item: { typeId: "UTF8" } } } },
            { name: "at", type: { optionalType: { item: { typeId: "TIMESTAMP" } } } },
            { name: "must", type: { typeId: "INT32" }, notNull: true },
        ]);
        assert.deepEqual([told.primaryKey, told.self.name, told.self.type], [["id"], name, "TABLE"]);
        assert.deepEqual(told.ttlSettings, { dateTypeColumn: { columnName: "at", expireAfterSeconds: 3600 } });
        assert.deepEqual(told.indexes, [
            { name: "by_text", indexColumns: ["text"], dataColumns: ["at"], globalIndex: {}, status: "STATUS_READY" },
        ]);
        assert.deepEqual([told.attributes, told.partitioningSettings.minPartitionsCount], [{ purpose: "test" }, 3]);
        assert.equal(told.tableStats.partitions, 1);
    },

    async a_table_is_altered_and_dropped() {
        const name = await made();
        const change = new ydb.AlterTableDescription();
        change.addColumns = [new Column("at", Types.optional(Types.DATETIME))];
        change.setTtlSettings = new ydb.TableDescription().withTtl("at", 60).ttlSettings;
        await session((each) => each.alterTable(name, change));
        const { ttlSettings } = await session((each) => each.describeTable(name));
        assert.equal(ttlSettings.dateTypeColumn.expireAfterSeconds, 60);
        const back = new ydb.AlterTableDescription();
        back.dropTtlSettings = {};
        await session((each) => each.alterTable(name, back));
        assert.equal((await session((each) => each.describeTable(name))).ttlSettings, null);
        await session((each) => each.dropTable(name));
        await session((each) => each.dropTable(name));
        const strict = new ydb.DropTableSettings({ muteNonExistingTableErrors: false });
        await assert.rejects(session((each) => each.dropTable(name, strict)), /SchemeError \(code 400070\)/);
        await assert.rejects(session((each) => each.describeTable(name)), /SchemeError[^]*Path not found/);
        assert.ok(await session((each) => each.describeTableOptions()));
    },

    async rules_for_ttl_are_kept() {
        const wrong = (column) => made(simple().withTtl(column, 60));
        await assert.rejects(wrong("text"), /SchemeError[^]*Unsupported column type/);
        await assert.rejects(wrong("nothing"), /SchemeError[^]*Cannot enable TTL on unknown column: 'nothing'/);
    },

    async queries_are_prepared_once_and_run_by_id_in_any_session() {
        const name = await made();
        const text = `DECLARE $id AS Uint64; DECLARE $text AS Utf8?; UPSERT INTO ${name} (id, text) VALUES ($id, $text)`;
        const prepared = await session((each) => each.prepareQuery(text));
        assert.deepEqual(Object.keys(prepared.parametersTypes).sort(), ["$id", "$text"]);
        const parameters = (id) => ({ $id: TypedValues.uint64(id), $text: TypedValues.optionalNull(Types.UTF8) });
        await Promise.all([1, 2, 3].map((id) => session((each) => each.executeQuery(prepared, parameters(id)))));
        assert.deepEqual(await contents(name), ["1 null", "2 null", "3 null"]);
        const unknown = Ydb.Table.PrepareQueryResult.create({ queryId: "unknown" });
        await assert.rejects(session((each) => each.executeQuery(unknown)), /NotFound \(code 400140\)/);
    },

    async transactions_of_many_queries() {
        const name = await made();
        await session(async (each) => {
            const { id: txId } = await each.beginTransaction({ serializableReadWrite: {} });
            await each.executeQuery(upsert(name, 1, "a"), {}, { txId });
            assert.deepEqual(await contents(name), []);
            const inside = await each.executeQuery(`SELECT text FROM ${name}`, {}, { txId });
            assert.deepEqual(rows(inside), [{ text: "a" }]);
            await each.commitTransaction({ txId });
            const { txMeta } = await each.executeQuery(upsert(name, 2, "b"), {}, begun);
            await each.rollbackTransaction({ txId: txMeta.id });
            await assert.rejects(each.commitTransaction({ txId: txMeta.id }), /NotFound[^]*Transaction not found/);
        });
        assert.deepEqual(await contents(name), ["1 a"]);
    },

    async the_second_of_two_is_aborted_and_repeated() {
        const name = await made();
        await session((each) => each.executeQuery(upsert(name, 1, "0")));
        let attempts = 0;
        const add = () =>
            ydb.withRetries(() => session(async (each) => {
                attempts += 1;
                const read = await each.executeQuery(`SELECT text FROM ${name} WHERE id = 1`, {}, begun);
                const control = { txId: read.txMeta.id };
                await each.executeQuery(upsert(name, 1, Number(rows(read)[0].text) + 1), {}, { ...control, commitTx: true });
            }));
        await Promise.all([add(), add(), add()]);
        assert.deepEqual(await contents(name), ["1 3"]);
        assert.ok(attempts >= 3);
    },

    async who_lost_is_told_which_table() {
        const name = await made();
        await filled(name, 1);
        const losing = session(async (each) => {
            const { txMeta } = await each.executeQuery(`SELECT * FROM ${name}`, {}, begun);
            await filled(name, 1, 5);
            await each.executeQuery(upsert(name, 0, "x"), {}, { txId: txMeta.id, commitTx: true });
        });
        await assert.rejects(losing, (error) => {
            assert.match(error.message, /Aborted \(code 400040\)/);
            assert.match(error.message, new RegExp(`Transaction locks invalidated. Table: \`/local/${name}\``));
            return true;
        });
    },

    async many_rows_at_once_and_a_table_read_in_ranges() {
        const name = await made();
        await filled(name, 3000);
        const read = async (settings) => {
            const found = [];
            await session((each) =>
                each.streamReadTable(name, ({ resultSet }) => found.push(...rows({ resultSets: [resultSet] })), settings),
            );
            return found;
        };
        const all = await read();
        assert.deepEqual([all.length, all[2999].id, all[2999].text], [3000, 2999, "row 2999"]);
        const key = (id) => TypedValues.tuple(TypedValues.optional(TypedValues.uint64(id)));
        const some = new ydb.ReadTableSettings().withColumns("id").withOrdered(true).withRowLimit(3);
        const ranges = [
            [some.withKeyGreater(key(10)), [11, 12, 13]],
            [new ydb.ReadTableSettings().withKeyGreaterOrEqual(key(2998)), [2998, 2999]],
            [new ydb.ReadTableSettings().withKeyLess(key(2)), [0, 1]],
            [new ydb.ReadTableSettings().withKeyGreaterOrEqual(key(5)).withKeyLessOrEqual(key(6)), [5, 6]],
        ];
        for (const [settings, expected] of ranges) assert.deepEqual((await read(settings)).map(({ id }) => id), expected);
        const bulk = (given) => session((each) => each.bulkUpsert(name, given));
        const other = Types.struct({ id: Types.UINT64, nothing: Types.UTF8 });
        await assert.rejects(bulk(TypedValues.list(other, [{ id: 1, nothing: "" }])), /nothing/);
    },

    async results_are_cut_and_scans_are_not() {
        const name = await made();
        await filled(name, 1500);
        const cut = await session((each) => each.executeQuery(`SELECT * FROM ${name}`));
        assert.deepEqual([cut.resultSets[0].rows.length, cut.resultSets[0].truncated], [1000, true]);
        let count = 0;
        const add = ({ resultSet }) => (count += resultSet?.rows?.length ?? 0);
        const text = `DECLARE $least AS Uint64; SELECT * FROM ${name} WHERE id >= $least`;
        await session((each) => each.streamExecuteScanQuery(text, add, { $least: TypedValues.uint64(100) }));
        assert.equal(count, 1400);
    },

    async plans_are_explained() {
        const name = await made();
        const { queryPlan, queryAst } = await session((each) => each.explainQuery(`SELECT * FROM ${name} WHERE id = 1`));
        assert.match(queryPlan, /TablePointLookup/);
        assert.match(JSON.stringify(JSON.parse(queryPlan).tables), new RegExp(name));
        assert.ok(queryAst.length > 0);
    },

    async values_of_all_types_come_back() {
        const at = new Date("2020-02-03T04:05:06.789Z");
        const uuid = "6af014ea-29dd-401c-a7e3-68a58305f4fb";
        const values = {
            bool: [TypedValues.bool(true), true],
            int8: [TypedValues.int8(-8), -8],
            uint16: [TypedValues.uint16(65535), 65535],
            int32: [TypedValues.int32(-2147483648), -2147483648],
            uint64: [TypedValues.uint64(7), 7],
            float: [TypedValues.float(0.5), 0.5],
            double: [TypedValues.double(1e300), 1e300],
            bytes: [TypedValues.bytes(Buffer.from([0, 255])), Buffer.from([0, 255])],
            utf8: [TypedValues.utf8("ü€𝄞"), "ü€𝄞"],
            json: [TypedValues.json('{"a": [1]}'), '{"a": [1]}'],
            document: [TypedValues.jsonDocument('{"b": 2, "a": 1}'), '{"a":1,"b":2}'],
            uuid: [TypedValues.uuid(uuid), uuid],
            date: [TypedValues.date(at), new Date("2020-02-03T00:00:00Z")],
            datetime: [TypedValues.datetime(at), new Date("2020-02-03T04:05:06Z")],
            timestamp: [TypedValues.timestamp(at), at],
            interval: [TypedValues.interval(-1_000_000), -1_000_000],
            dynumber: [TypedValues.dynumber("3.14"), ".314e1"],
            decimal: [TypedValues.decimal("-1.5"), "-1.5"],
            none: [TypedValues.optionalNull(Types.INT32), null],
            some: [TypedValues.optional(TypedValues.int32(1)), 1],
            list: [TypedValues.list(Types.INT32, [1, 2]), [1, 2]],
            tuple: [TypedValues.tuple(TypedValues.int32(1), TypedValues.utf8("a")), [1, "a"]],
            struct: [TypedValues.struct({ a: Types.INT32, b: Types.UTF8 }, { a: 1, b: "x" }), { a: 1, b: "x" }],
            dict: [TypedValues.dict(Types.UTF8, Types.INT32, { a: 1 }), { a: 1 }],
        };
        for (const [name, [given, expected]] of Object.entries(values)) {
            const [{ back }] = rows(await session((each) => each.executeQuery("SELECT $p AS back", { $p: given })));
            const plain = back?.toNumber?.() ?? (back instanceof Uint8Array ? Buffer.from(back) : back);
            assert.deepEqual(plain instanceof Object && !Array.isArray(plain) && name === "dict" ? { ...plain } : plain, expected, name);
        }
    },

    async what_is_wrong_with_a_query_is_said() {
        const name = await made();
        const refused = (text, expected, ...more) => assert.rejects(session((each) => each.executeQuery(text, ...more)), expected);
        await refused("SELECT * FROM nothing", /SchemeError[^]*Cannot find table 'db.\[\/local\/nothing\]'/);
        await refused("SELEC 1", /GenericError \(code 400080\)[^]*mismatched input|extraneous input/);
        await refused("SELECT * FROM " + name + " WHERE nothing = 1", /GenericError[^]*Member not found: nothing/);
        await refused(`INSERT INTO ${name} (id) VALUES (1), (1)`, /PreconditionFailed[^]*Duplicated keys found/);
        await refused("SELECT 1", /BadRequest/, {}, { beginTx: { onlineReadOnly: {} }, commitTx: false });
        await refused(upsert(name, 1, "x"), /GenericError[^]*read only transaction/, {}, { beginTx: { staleReadOnly: {} }, commitTx: true });
    },

    async sessions_are_kept_alive_and_end() {
        await session((each) => each.keepAlive());
        const all = await Promise.all(Array.from({ length: 15 }, () => session((each) => each.executeQuery("SELECT 1 AS one"))));
        assert.deepEqual(all.map((each) => rows(each)[0].one), Array(15).fill(1));
        let seen = 0;
        await tables.withSessionRetry(async (each) => {
            if (seen++ === 0) await each.delete();
            await each.executeQuery("SELECT 1");
        });
        assert.equal(seen, 2);
    },

    async directories_are_made_listed_and_removed() {
        await schemes.makeDirectory("shops/north");
        await schemes.makeDirectory("shops/north");
        await session((each) => each.createTable("shops/north/carts", simple()));
        const names = ({ children }) => children.map(({ name, type }) => [name, type]);
        const { DIRECTORY, TABLE } = Ydb.Scheme.Entry.Type;
        assert.deepEqual(names(await schemes.listDirectory("shops")), [["north", DIRECTORY]]);
        assert.deepEqual(names(await schemes.listDirectory("shops/north")), [["carts", TABLE]]);
        assert.equal((await schemes.describePath("shops/north/carts")).self.type, TABLE);
        await assert.rejects(schemes.removeDirectory("shops/north"), /PreconditionFailed[^]*path has children/);
        await session((each) => each.dropTable("shops/north/carts"));
        await schemes.modifyPermissions("shops", [{ grant: { subject: "alice", permissionNames: ["ydb.generic.read"] } }]);
        assert.deepEqual((await schemes.describePath("shops")).self.permissions.map(({ subject }) => subject), ["alice"]);
        await schemes.removeDirectory("shops/north");
        await schemes.removeDirectory("shops");
        await assert.rejects(schemes.listDirectory("shops"), /SchemeError[^]*Path not found/);
    },

    async rows_go_at_their_run() {
        const name = await made(simple().withColumn(new Column("at", Types.optional(Types.TIMESTAMP))).withTtl("at", 3600));
        const start = await now();
        const text = `DECLARE $id AS Uint64; DECLARE $at AS Timestamp?; UPSERT INTO ${name} (id, at) VALUES ($id, $at)`;
        const moments = [0, 7200_000, null].map((after) =>
            after === null ? TypedValues.optionalNull(Types.TIMESTAMP) : TypedValues.optional(TypedValues.timestamp(new Date(start + after))),
        );
        await session(async (each) => {
            for (const [id, $at] of moments.entries()) await each.executeQuery(text, { $id: TypedValues.uint64(id), $at }, whole);
        });
        await advance(3599);
        assert.equal((await contents(name)).length, 3);
        // The deadline of the first, and the run that comes after it.
        await advance(3600 + 60);
        assert.deepEqual(await contents(name), ["1 null", "2 null"]);
        await advance(7200 + 60);
        assert.deepEqual(await contents(name), ["2 null"]);
    },
};
