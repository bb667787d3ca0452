// What all scenarios use: one driver of each SDK, and the server's clock.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Driver as NewDriver } from "@ydbjs/core";
import { query } from "@ydbjs/query";
import ydb from "ydb-sdk";

export const [plain, tls, guarded, admin, authority] = process.argv.slice(2);
export const { TypedData, TypedValues, Types, Ydb } = ydb;

const quiet = () => {};
const silent = { fatal: quiet, error: quiet, warn: quiet, info: quiet, debug: quiet, trace: quiet };

/** A driver of `ydb-sdk`, to be destroyed by who made it. */
export const older = (connectionString, authService = new ydb.AnonymousAuthService(), more = {}) =>
    new ydb.Driver({ connectionString, authService, logger: silent, ...more });

/** Of `@ydbjs/core`, to be closed. */
export const newer = (connectionString, options = {}) => new NewDriver(connectionString, options);

export const certificate = () => readFileSync(authority);
export const logger = silent;

const oldDriver = older(plain);
const newDriver = newer(plain);
export const [tables, queries, schemes] = [oldDriver.tableClient, oldDriver.queryClient, oldDriver.schemeClient];
export const sql = query(newDriver);
export { newDriver };

let named = 0;

/** The name of a table that is not there yet. */
export const fresh = () => `table${named++}`;

/** What this does with a session of the table service. */
export const session = (use) => tables.withSession(use);

/** The only result set of a query of the table service, as objects. */
export const rows = ({ resultSets: [first] }) => TypedData.createNativeObjects(first).map((each) => ({ ...each }));

/** What one query of the query service answers in `ydb-sdk`: rows by result set. */
export const execute = (args) =>
    queries.do({
        fn: async (each) => {
            const { resultSets, opFinished } = await each.execute(typeof args === "string" ? { text: args } : args);
            const all = [];
            for await (const set of resultSets) {
                all.push([]);
                for await (const row of set.rows) all.at(-1).push({ ...row });
            }
            await opFinished;
            return all;
        },
    });

async function post(path, body) {
    const answer = await fetch(`${admin}/${path}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
}

/** Move the server's clock. */
export const advance = (seconds) => post("clock/advance", { seconds });

/** Milliseconds since 1970, by the server's clock. */
export const now = async () => Date.parse((await (await fetch(`${admin}/clock`)).json()).now);

export async function run(scenarios) {
    assert.ok(await oldDriver.ready(10_000));
    await newDriver.ready();
    for (const [name, scenario] of Object.entries(scenarios)) {
        let error = null;
        try {
            await scenario();
        } catch (thrown) {
            error = [thrown?.stack ?? thrown, thrown?.cause?.stack ?? ""].join("\n");
        }
        console.log(JSON.stringify({ name, error }));
    }
    await oldDriver.destroy();
    newDriver.close();
}
