"use strict";

const { Mayfly } = require("./index.js");

/**
 * One server for all tests of a file, renewed before each of them.
 * `before`, `beforeEach`, `after`: the runner's functions, in a form that takes a function and milliseconds.
 */
exports.using = (before, beforeEach, after) =>
    function useMayfly(options = {}) {
        const server = new Mayfly(options);
        const seeds = [options.seed ?? []].flat();
        const patience = (options.timeout ?? 60_000) + 10_000;
        before(async () => void (await server.start()), patience);
        beforeEach(async () => {
            await server.renew();
            await server.seed(...seeds);
        }, patience);
        after(() => server.stop(), patience);
        return server;
    };
