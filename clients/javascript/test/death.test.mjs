// The server ends with the process that started it, however that ends.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { test } from "node:test";

const STARTER = `
const { serve } = await import("mayflydb");
const server = await serve();
console.log(server.admin);
process.stdin.resume();
`;

const refused = (url) =>
    new Promise((resolve) => {
        const { hostname, port } = new URL(url);
        const socket = connect(Number(port), hostname);
        socket.once("connect", () => (socket.destroy(), resolve(false)));
        socket.once("error", () => resolve(true));
    });

for (const signal of ["SIGTERM", "SIGKILL"]) {
    test(`the server ends with a process that gets ${signal}`, { timeout: 60_000 }, async () => {
        const starter = spawn(process.execPath, ["--input-type=module", "-e", STARTER], {
            cwd: import.meta.dirname,
            stdio: ["pipe", "pipe", "inherit"],
        });
        const admin = await new Promise((resolve) => createInterface(starter.stdout).once("line", resolve));
        assert.equal(await refused(admin), false);
        starter.kill(signal);
        while (!(await refused(admin)));
    });
}

test("a process that forgets to stop the server ends all the same", { timeout: 60_000 }, async () => {
    const starter = spawn(process.execPath, ["--input-type=module", "-e", STARTER], {
        cwd: import.meta.dirname,
        stdio: ["ignore", "pipe", "inherit"],
    });
    assert.equal(await new Promise((resolve) => starter.once("exit", resolve)), 0);
});
