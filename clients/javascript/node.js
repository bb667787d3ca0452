"use strict";

const test = require("node:test");
const { using } = require("./use.js");

const timed = (hook) => (act, timeout) => hook(act, { timeout });

exports.useMayfly = using(timed(test.before), timed(test.beforeEach), timed(test.after));
