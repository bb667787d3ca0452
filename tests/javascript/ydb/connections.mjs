// How both SDKs come to the server: discovery, TLS and passwords.

import assert from "node:assert/strict";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import { DiscoveryServiceDefinition, ListEndpointsResultSchema } from "@ydbjs/api/discovery";
import { StaticCredentialsProvider } from "@ydbjs/auth/static";
import { query } from "@ydbjs/query";
import ydb from "ydb-sdk";
import { certificate, guarded, logger, newDriver, newer, older, plain, rows, tls } from "./client.mjs";

/** What one query answers a driver of `ydb-sdk`, which is destroyed. */
async function oldOne(driver) {
    try {
        assert.ok(await driver.ready(10_000));
        return rows(await driver.tableClient.withSession((each) => each.executeQuery("SELECT 1 AS one")))[0].one;
    } finally {
        await driver.destroy();
    }
}

/** So for `@ydbjs`. */
async function newOne(driver) {
    try {
        await driver.ready(AbortSignal.timeout(10_000));
        return (await query(driver)`SELECT 1 AS one`)[0][0].one;
    } finally {
        driver.close();
    }
}

const { host } = new URL(guarded.replace(/^grpc/, "http"));

export const connections = {
    async endpoints_are_those_that_were_dialled() {
        const { operation } = await newDriver.createClient(DiscoveryServiceDefinition).listEndpoints({ database: "/local" });
        const { endpoints, selfLocation } = anyUnpack(operation.result, ListEndpointsResultSchema);
        const { hostname, port } = new URL(plain.replace(/^grpc/, "http"));
        assert.deepEqual(
            endpoints.map((each) => [each.address, String(each.port), each.ssl, each.location]),
            [[hostname, port, false, selfLocation]],
        );
        assert.ok(endpoints[0].service.includes("table_service"));
    },

    async both_forms_of_a_connection_string() {
        const path = plain.replace("?database=", "");
        assert.deepEqual([await oldOne(older(path)), await newOne(newer(path))], [1, 1]);
        await assert.rejects(newOne(newer(plain.replace("/local", "/nowhere"), { "ydb.sdk.ready_timeout_ms": 1000 })));
    },

    async over_tls() {
        const rootCertificates = certificate();
        assert.equal(await oldOne(older(tls, undefined, { sslCredentials: { rootCertificates } })), 1);
        assert.equal(await newOne(newer(tls, { secureOptions: { ca: rootCertificates } })), 1);
    },

    async with_a_password() {
        const service = (password) => new ydb.StaticCredentialsAuthService("root", password, host, logger);
        assert.equal(await oldOne(older(guarded, service("secret"))), 1);
        const provider = (password) =>
            new StaticCredentialsProvider({ username: "root", password }, guarded);
        assert.equal(await newOne(newer(guarded, { credentialsProvider: provider("secret") })), 1);
        await assert.rejects(provider("wrong").getToken(), ({ code }) => code === 400020);
        await assert.rejects(service("wrong").getAuthMetadata(), /Unauthorized \(code 400020\)[^]*Invalid password/);
    },

    async without_a_password_nothing_is_answered() {
        await assert.rejects(newOne(newer(guarded, { "ydb.sdk.ready_timeout_ms": 1000 })));
    },
};
