"use strict";

const { afterAll, beforeAll, beforeEach } = require("@jest/globals");
const { using } = require("./use.js");

exports.useMayfly = using(beforeAll, beforeEach, afterAll);
