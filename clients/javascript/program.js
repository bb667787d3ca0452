// `mayfly serve` as a process of its own. It ends with this process, because its standard input does.
"use strict";

const { spawn } = require("node:child_process");
const { createInterface } = require("node:readline");

const SERVE = ["serve", "--memory", "--clock", "virtual", "-p", "0", "--mongo-port", "0", "--ydb-port", "0", "--stop-with-stdin"];
const USUAL = ["mayfly"];
const TAIL = 4_000;
const LAST_WORDS = 10_000;

class Program {
    #child;
    #ended;

    /** Start the program and return it when each of its listeners answers: `ready` is the document that it prints then. */
    static async start(flags, { command = process.env.MAYFLY_COMMAND, timeout = 60_000 }) {
        const [program, ...first] = command ? (typeof command === "string" ? words(command) : command) : USUAL;
        const started = new Program();
        const line = await started.#launch(program, [...first, ...SERVE, ...flags], timeout);
        started.ready = JSON.parse(line);
        return started;
    }

    async #launch(program, flags, timeout) {
        const { MAYFLY_COMMAND: _, ...env } = process.env;
        const child = spawn(program, flags, { env, windowsHide: true });
        const ended = new Promise((resolve) => child.once("close", resolve));
        [this.#child, this.#ended] = [child, ended];
        let log = "";
        child.stderr.on("data", (text) => (log = (log + text).slice(-TAIL)));
        child.stdin.on("error", () => {});
        const line = await new Promise((resolve, reject) => {
            const clock = setTimeout(() => {
                child.kill("SIGKILL");
                reject(new Error(`${program} was not ready after ${timeout} ms\n${log}`));
            }, timeout);
            const settle = (act) => (value) => (clearTimeout(clock), act(value));
            child.once("error", settle((error) => reject(error.code === "ENOENT" ? missing(program) : error)));
            createInterface({ input: child.stdout }).once("line", settle(resolve));
            ended.then(settle((code) => reject(new Error(`${program} ended with ${code}\n${log}`))));
        });
        // A test that forgets to stop the server ends all the same, and the server with it.
        for (const each of [child, child.stdin, child.stdout, child.stderr]) each.unref();
        return line;
    }

    async stop() {
        this.#child.ref();
        this.#child.stdin.end();
        const impatient = setTimeout(() => this.#child.kill("SIGKILL"), LAST_WORDS);
        await this.#ended;
        clearTimeout(impatient);
    }
}

function missing(program) {
    return new Error(`${program} is not on the PATH: run "pip install" on a clone of Mayfly, or set MAYFLY_COMMAND to the program`);
}

function words(line) {
    return (line.match(/"[^"]*"|\S+/g) ?? []).map((word) => word.replaceAll('"', ""));
}

module.exports = { Program };
