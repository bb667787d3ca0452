// The driver of MongoDB for Node.

import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { BSON, Binary, Decimal128, Double, GridFSBucket, Int32, Long, MongoClient, ObjectId, Timestamp, UUID } from "mongodb";
import { admin, advance, authority, client, database, later, refused, uri } from "./client.mjs";

const { EJSON } = BSON;
const address = uri.split("/")[2];

/** As whom a client with these options is connected. */
async function connected(options, user = "") {
    const other = new MongoClient(`mongodb://${user}${address}/?directConnection=true`, options);
    try {
        const { authInfo } = await other.db("admin").command({ connectionStatus: 1 });
        return authInfo.authenticatedUsers.map((each) => each.user);
    } finally {
        await other.close();
    }
}

export const driver = {
    async values_come_back_as_they_went() {
        const c = database().collection("c");
        const values = {
            _id: new ObjectId(), int: 1, negative: -5, long: Long.fromString("9007199254740993"), double: 0.5,
            decimal: Decimal128.fromString("1.10"), text: "ü€𝄞", bytes: new Binary(Buffer.from([0, 255])), uuid: new UUID(),
            date: new Date(-1), stamp: new Timestamp({ t: 5, i: 6 }), list: [null, true, /^a.b$/i, { a: [[]] }], none: {},
        };
        await c.insertOne(values);
        const found = await c.findOne();
        assert.equal(EJSON.stringify(found), EJSON.stringify(values));
        const types = await c.aggregate([
            { $project: { _id: 0, all: { $map: { input: { $objectToArray: "$$ROOT" }, in: { $type: "$$this.v" } } } } },
        ]).next();
        assert.equal(types.all.join(" "), "objectId int int long double decimal string binData binData date timestamp array object");
    },

    async cursors_of_many_batches() {
        const c = database().collection("c");
        await c.insertMany(Array.from({ length: 300 }, (_, n) => ({ _id: n, k: n % 7 })));
        const found = await c.find({ k: { $in: [1, 2] } }, { batchSize: 10 }).sort({ _id: -1 }).skip(1).limit(50).toArray();
        assert.deepEqual(found.map(({ _id }) => _id).slice(0, 3), [295, 289, 288]);
        assert.equal(found.length, 50);
        let count = 0;
        for await (const each of c.find({}, { projection: { k: 1, _id: 0 } })) count += Object.keys(each).length;
        assert.equal(count, 300);
        assert.deepEqual([await c.countDocuments({ k: 0 }), await c.estimatedDocumentCount()], [43, 300]);
        assert.deepEqual(await c.distinct("k"), [0, 1, 2, 3, 4, 5, 6]);
        const abandoned = c.find({}, { batchSize: 2 });
        await abandoned.next();
        await abandoned.close();
    },

    async writes_of_every_kind() {
        const c = database().collection("c");
        const made = await c.bulkWrite([
            { insertOne: { document: { _id: 1, n: 1, tags: ["a"] } } },
            { updateOne: { filter: { _id: 2 }, update: { $set: { n: 2 } }, upsert: true } },
            { replaceOne: { filter: { _id: 3 }, replacement: { n: 3 }, upsert: true } },
            { updateMany: { filter: {}, update: { $inc: { n: 10 } } } },
            { deleteOne: { filter: { _id: 3 } } },
        ]);
        assert.deepEqual(
            [made.insertedCount, made.upsertedIds, made.matchedCount, made.modifiedCount, made.deletedCount],
            [1, { 1: 2, 2: 3 }, 3, 3, 1],
        );
        const after = await c.findOneAndUpdate(
            { _id: 1 }, { $push: { tags: { $each: ["b", "c"], $slice: -2 } } }, { returnDocument: "after" },
        );
        assert.deepEqual(after, { _id: 1, n: 11, tags: ["b", "c"] });
        const filters = { arrayFilters: [{ each: "b" }] };
        assert.equal((await c.updateOne({ _id: 1 }, { $set: { "tags.$[each]": "B" } }, filters)).modifiedCount, 1);
        await c.updateMany({}, [{ $set: { twice: { $multiply: ["$n", 2] }, at: "$$NOW" } }]);
        const { twice, at } = await c.findOneAndReplace({ _id: 2 }, { n: 0 });
        assert.deepEqual([twice, at.getTime()], [24, Date.now()]);
        assert.deepEqual(await c.findOneAndDelete({ _id: 2 }, { includeResultMetadata: false }), { _id: 2, n: 0 });
        assert.equal((await c.deleteMany({})).deletedCount, 1);
    },

    async duplicates_name_their_key() {
        const c = database().collection("c");
        await c.createIndex({ "a.b": 1 }, { unique: true });
        await c.insertOne({ a: { b: "x" } });
        const error = await refused(c.insertOne({ a: { b: "x" } }), 11000);
        assert.deepEqual([error.keyPattern, error.keyValue], [{ "a.b": 1 }, { "a.b": "x" }]);
        const many = await refused(
            c.insertMany([{ a: 1 }, { a: { b: "x" } }, { a: { b: "y" } }, { a: 2 }], { ordered: false }), 11000,
        );
        assert.deepEqual([many.result.insertedCount, many.writeErrors.map(({ index }) => index)], [2, [1, 3]]);
    },

    async collections_and_indexes() {
        const db = database();
        const c = await db.createCollection("c", { validator: { n: { $gt: 0 } } });
        await refused(c.insertOne({ n: 0 }), 121);
        await db.createCollection("v", { viewOn: "c", pipeline: [{ $match: { n: 1 } }] });
        await c.insertMany([{ n: 1 }, { n: 2 }]);
        assert.equal(await db.collection("v").countDocuments(), 1);
        assert.equal(await c.createIndex({ n: 1, m: -1 }, { sparse: true }), "n_1_m_-1");
        assert.deepEqual((await c.indexes()).map(({ name }) => name), ["_id_", "n_1_m_-1"]);
        assert.ok(await c.indexExists("n_1_m_-1"));
        const { queryPlanner } = await c.find({ n: 1 }).hint("n_1_m_-1").explain("queryPlanner");
        assert.equal(queryPlanner.winningPlan.inputStage.indexName, "n_1_m_-1");
        await c.dropIndex("n_1_m_-1");
        await c.rename("d");
        assert.deepEqual((await db.listCollections().toArray()).map(({ name }) => name).sort(), ["d", "v"]);
        await db.dropDatabase();
        assert.deepEqual(await db.listCollections({}, { nameOnly: true }).toArray(), []);
    },

    async the_documents_own_ttl() {
        const db = database();
        const created = await db.command({
            createIndexes: "coll", indexes: [{ key: { _ts: 1 }, name: "_ts_1", expireAfterSeconds: 10 }],
        });
        assert.deepEqual(Object.entries(created), [
            ["_t", "CreateIndexesResponse"], ["ok", 1], ["createdCollectionAutomatically", true],
            ["numIndexesBefore", 1], ["numIndexesAfter", 4],
        ]);
        const ttls = [20, new Double(20), new Int32(20), Long.fromNumber(20), 20.5, Long.fromString("2147483649"), -1];
        await db.collection("coll").insertMany(ttls.map((ttl, _id) => ({ _id, id: 1, location: "Paris", ttl })));
        const there = async () => (await db.collection("coll").find().toArray()).map(({ _id }) => _id);
        await advance(9);
        assert.deepEqual(await there(), [0, 1, 2, 3, 4, 5, 6]);
        await advance(1);
        assert.deepEqual(await there(), [0, 1, 2, 3, 6]);
        await advance(10);
        assert.deepEqual(await there(), [6]);
    },

    async dates_under_an_index() {
        const c = database().collection("c");
        await c.createIndex({ at: 1 }, { expireAfterSeconds: 3600 });
        await c.insertMany([{ at: later(0) }, { at: [later(60), later(30)] }, { at: "text" }, {}]);
        await advance(3599);
        assert.equal(await c.countDocuments(), 4);
        await advance(1 + 60);
        assert.equal(await c.countDocuments(), 2);
        assert.ok((await client.db("admin").command({ serverStatus: 1 })).metrics.ttl.deletedDocuments >= 2);
    },

    async changes_are_seen() {
        const c = database().collection("c");
        await c.createIndex({ at: 1 }, { expireAfterSeconds: 10 });
        const options = { fullDocument: "updateLookup", maxAwaitTimeMS: 10 };
        const stream = c.watch([{ $match: { operationType: { $ne: "replace" } } }], options);
        // The stream begins with the first question.
        assert.equal(await stream.tryNext(), null);
        await c.insertOne({ _id: 1, at: later(0) });
        await c.replaceOne({ _id: 1 }, { at: later(0), n: 1 });
        await c.updateOne({ _id: 1 }, { $set: { n: 2 }, $unset: { m: 1 } });
        await advance(10 + 60);
        const seen = [await stream.next(), await stream.next(), await stream.next()];
        assert.deepEqual(seen.map((each) => [each.operationType, each.documentKey._id]), [["insert", 1], ["update", 1], ["delete", 1]]);
        assert.deepEqual(seen[1].updateDescription.updatedFields, { n: 2 });
        const again = c.watch([], { resumeAfter: seen[1]._id });
        assert.equal((await again.next()).operationType, "delete");
        await Promise.all([stream.close(), again.close()]);
    },

    async transactions_hold_or_leave_nothing() {
        const db = database();
        const [from, to] = [db.collection("from"), db.collection("to")];
        await from.insertOne({ _id: 1, n: 10 });
        const move = async (session, n) => {
            await from.updateOne({ _id: 1 }, { $inc: { n: -n } }, { session });
            await to.updateOne({ _id: 1 }, { $inc: { n } }, { session, upsert: true });
            assert.equal((await to.findOne({ _id: 1 }, { session })).n, n);
            assert.equal(await to.countDocuments(), 0);
            if (n > 5) throw new Error("too much");
        };
        await assert.rejects(client.withSession((session) => session.withTransaction(() => move(session, 6))), /too much/);
        assert.deepEqual(await to.find().toArray(), []);
        await client.withSession((session) => session.withTransaction(() => move(session, 4)));
        assert.deepEqual([(await from.findOne()).n, (await to.findOne()).n], [6, 4]);
        // Whoever comes second does it once more.
        const add = (session) => session.withTransaction(async () => {
            const { n } = await from.findOne({ _id: 1 }, { session });
            await from.updateOne({ _id: 1 }, { $set: { n: n + 1 } }, { session });
        });
        await Promise.all(Array.from({ length: 4 }, () => client.withSession(add)));
        assert.equal((await from.findOne()).n, 10);
    },

    async an_outage_is_retried() {
        const c = database().collection("c");
        const failing = { failCommands: ["insert"], closeConnection: true };
        await client.db("admin").command({ configureFailPoint: "failCommand", mode: { times: 1 }, data: failing });
        await c.insertOne({ _id: 1 });
        assert.equal(await c.countDocuments(), 1);
    },

    async files_in_buckets() {
        const bucket = new GridFSBucket(database(), { chunkSizeBytes: 1000 });
        const content = Buffer.from(Array.from({ length: 5500 }, (_, n) => n % 251));
        const upload = bucket.openUploadStream("f", { metadata: { kind: "test" } });
        await new Promise((done, failed) => Readable.from(content).pipe(upload).on("finish", done).on("error", failed));
        assert.ok(content.equals(await buffer(bucket.openDownloadStreamByName("f"))));
        const part = await buffer(bucket.openDownloadStream(upload.id, { start: 990, end: 2010 }));
        assert.ok(content.subarray(990, 2010).equals(part));
        const [{ length, metadata }] = await bucket.find({ filename: "f" }).toArray();
        assert.deepEqual([length, metadata], [5500, { kind: "test" }]);
        await bucket.delete(upload.id);
        assert.deepEqual(await bucket.find().toArray(), []);
    },

    async compressed() {
        const other = new MongoClient(uri, { compressors: ["zlib"] });
        const c = other.db(database().databaseName).collection("c");
        const { compression } = await other.db("admin").command({ hello: 1, compression: ["zlib"] });
        assert.deepEqual(compression, ["zlib"]);
        const text = "compressible ".repeat(50_000);
        await c.insertOne({ text });
        assert.equal((await c.findOne()).text, text);
        await other.close();
    },

    async over_tls() {
        assert.deepEqual(await connected({ tls: true, tlsCAFile: authority }), []);
        await assert.rejects(connected({ tls: true, serverSelectionTimeoutMS: 500 }), /certificate/);
    },

    async with_a_password() {
        const command = (body) => client.db("admin").command(body);
        await command({ createUser: "ann", pwd: "se:cret", roles: ["root"] });
        assert.deepEqual(await connected({ authMechanism: "SCRAM-SHA-256" }, "ann:se%3Acret@"), ["ann"]);
        assert.deepEqual(await connected({}, "ann:se%3Acret@"), ["ann"]);
        await refused(connected({}, "ann:wrong@"), 18);
        await command({ dropUser: "ann" });
        await refused(connected({}, "ann:se%3Acret@"), 18);
    },
};
