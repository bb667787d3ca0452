// mongoose: https://mongoosejs.com/docs/

import assert from "node:assert/strict";
import mongoose from "mongoose";
import { advance, database, later, refused, uri } from "./client.mjs";

/** What `use` does with a connection to a database of its own. */
async function connection(use) {
    const made = await mongoose.createConnection(uri, { dbName: database().databaseName }).asPromise();
    try {
        return await use(made);
    } finally {
        await made.close();
    }
}

export const models = {
    async models_that_expire() {
        await connection(async (db) => {
            const schema = new mongoose.Schema({
                name: { type: String, unique: true },
                made: { type: Date, default: Date.now, expires: "1h" },
                until: { type: Date, index: { expireAfterSeconds: 0 } },
            });
            const Token = db.model("Token", schema);
            await Token.init();
            const indexes = await Token.collection.indexes();
            assert.deepEqual(indexes.map((each) => [each.name, each.expireAfterSeconds]).sort(), [
                ["_id_", undefined], ["made_1", 3600], ["name_1", undefined], ["until_1", 0],
            ]);
            // As at each start of an application.
            await Token.syncIndexes();
            await Token.create([{ name: "a" }, { name: "b", until: later(60) }, { name: "c", made: null }]);
            await refused(Token.create({ name: "a" }), 11000);
            await advance(60 + 60);
            assert.deepEqual((await Token.find().sort("name")).map(({ name }) => name), ["a", "c"]);
            await advance(3600);
            assert.deepEqual((await Token.find()).map(({ name }) => name), ["c"]);
        });
    },

    async models_with_versions_and_times() {
        await connection(async (db) => {
            const schema = new mongoose.Schema({ tags: [String], n: Number }, { timestamps: true, optimisticConcurrency: true });
            const Note = db.model("Note", schema);
            const note = await Note.create({ tags: ["a", "b"], n: 1 });
            assert.deepEqual([note.__v, note.createdAt.getTime()], [0, Date.now()]);
            const other = await Note.findById(note.id);
            await advance(5);
            note.tags = ["c"];
            await note.save();
            assert.deepEqual([note.__v, note.updatedAt - note.createdAt], [1, 5000]);
            other.n = 2;
            await assert.rejects(other.save(), mongoose.Error.VersionError);
            const upserted = await Note.findOneAndUpdate({ n: 7 }, { $addToSet: { tags: "x" } }, { upsert: true, returnDocument: "after" });
            assert.deepEqual([upserted.__v, upserted.tags.length, upserted.createdAt.getTime()], [0, 1, Date.now()]);
            const written = await Note.bulkWrite([
                { updateOne: { filter: { n: 7 }, update: { $inc: { n: 1 } } } }, { insertOne: { document: { n: 9 } } },
            ]);
            assert.deepEqual([written.modifiedCount, written.insertedCount], [1, 1]);
            assert.equal(await Note.countDocuments({ n: { $gte: 8 } }), 2);
            assert.ok(await Note.exists({ n: 9 }));
        });
    },

    async models_in_a_transaction() {
        await connection(async (db) => {
            const Note = db.model("Note", new mongoose.Schema({ n: Number }));
            await Note.init();
            const note = await Note.create({ n: 1 });
            const failing = db.transaction(async (session) => {
                note.n = 2;
                await note.save({ session });
                await Note.create([{ n: 3 }], { session });
                throw new Error("no");
            });
            await assert.rejects(failing, /no/);
            assert.deepEqual((await Note.find()).map(({ n }) => n), [1]);
            await db.transaction(async () => note.save());
            assert.deepEqual((await Note.find()).map(({ n }) => n), [2]);
        });
    },

    async models_that_refer_to_others() {
        await connection(async (db) => {
            const Author = db.model("Author", new mongoose.Schema({ name: String }));
            const author = { type: mongoose.Schema.Types.ObjectId, ref: "Author" };
            const Book = db.model("Book", new mongoose.Schema({ title: String, author, price: mongoose.Schema.Types.Decimal128 }));
            const ann = await Author.create({ name: "Ann" });
            await Book.insertMany([{ title: "A", author: ann, price: "1.10" }, { title: "B", author: ann, price: "2.20" }]);
            const book = await Book.findOne({ title: "B" }).populate("author").lean();
            assert.equal(book.author.name, "Ann");
            const [sum] = await Book.aggregate([
                { $lookup: { from: "authors", localField: "author", foreignField: "_id", as: "by" } },
                { $unwind: "$by" },
                { $group: { _id: "$by.name", price: { $sum: "$price" }, titles: { $push: "$title" } } },
            ]);
            assert.deepEqual([sum._id, String(sum.price), sum.titles], ["Ann", "3.30", ["A", "B"]]);
            let seen = 0;
            for await (const _ of Book.find().cursor({ batchSize: 1 })) seen++;
            assert.equal(seen, 2);
        });
    },
};
