// What all scenarios use: the driver, and one time for the server and for applications, which ask their own clock.

import assert from "node:assert/strict";
import { mock } from "node:test";
import { MongoClient } from "mongodb";

export const [uri, admin, authority] = process.argv.slice(2);
export const client = new MongoClient(uri);
let databases = 0;

async function post(path, body) {
    const answer = await fetch(`${admin}/${path}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
}

const { now } = await (await fetch(`${admin}/clock`)).json();
mock.timers.enable({ apis: ["Date"], now: new Date(now) });

/** Move the server's clock, and this program's with it. */
export async function advance(seconds) {
    await post("clock/advance", { seconds });
    mock.timers.tick(seconds * 1000);
}

export const later = (seconds) => new Date(Date.now() + seconds * 1000);

/** A database that is not there yet. */
export const database = () => client.db(`js${databases++}`);

/** The error that this is refused with. */
export async function refused(promise, code) {
    const [outcome] = await Promise.allSettled([promise]);
    assert.equal(outcome.status, "rejected");
    assert.equal(outcome.reason.code, code, String(outcome.reason));
    return outcome.reason;
}

export async function run(scenarios) {
    for (const [name, scenario] of Object.entries(scenarios)) {
        let error = null;
        try {
            await scenario();
        } catch (thrown) {
            error = String(thrown?.stack ?? thrown);
        }
        console.log(JSON.stringify({ name, error }));
    }
    await client.close();
}
