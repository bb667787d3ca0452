// What all scenarios use: the vendor's client, Mayfly's clock, and how a container looks from outside.

import assert from "node:assert/strict";
import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

export const DAY = 86400;
const [endpoint, key, admin] = process.argv.slice(2);
export const client = new CosmosClient({ endpoint, key });
let databases = 0;

/** The id of a database that is not there yet. */
export const newName = () => `js${databases++}`;

async function post(path, body) {
    const answer = await fetch(`${admin}/_mayfly/${path}`, { method: "POST", body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
}

export const advance = (seconds) => post("clock/advance", { seconds });

/** A new container in a database of its own. */
export async function container(options = {}) {
    const { database } = await client.databases.create({ id: newName() });
    const made = await database.containers.create({ id: "c", partitionKey: { paths: ["/pk"] }, ...options });
    return made.container;
}

export async function refused(promise, code) {
    await assert.rejects(promise, (error) => {
        assert.equal(error.code, code, `${error.code}: ${error.message}`);
        return true;
    });
}

/** Whether an item is there, as a point read sees it. */
export async function there(items, id, pk = "p") {
    const { statusCode } = await items.item(id, pk).read();
    assert.ok([200, 404].includes(statusCode), String(statusCode));
    return statusCode === 200;
}

export async function ids(c, query = "SELECT VALUE c.id FROM c ORDER BY c.id", options = {}) {
    return (await c.items.query(query, options).fetchAll()).resources;
}

/** The newest state of each item, by id, as the change feed tells it from its beginning. */
export async function changes(c, options = {}) {
    const seen = new Map();
    const iterator = c.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(), ...options });
    while (iterator.hasMoreResults) {
        const page = await iterator.readNext();
        if (page.statusCode === 304) break;
        for (const item of page.result) seen.set(item.id, item);
    }
    return seen;
}
