// Requests to the admin API, each with a time limit, and its refusals.
"use strict";

const http = require("node:http");

/** A refusal of the admin API: the status, and the title, detail and hint of its problem document. */
class MayflyError extends Error {
    constructor(status, { title = "", detail = "", hint = "" }) {
        super([`${status} ${title}`.trim() + (detail && `: ${detail}`), hint].filter(Boolean).join("; "));
        this.name = "MayflyError";
        this.status = status;
        this.title = title;
        this.detail = detail;
        this.hint = hint;
    }
}

/** Send a request and return the text of the answer. `body`: JSON as text. */
function call(base, method, path, body, timeout) {
    const headers = body === undefined ? {} : { "content-type": "application/json" };
    return new Promise((resolve, reject) => {
        const request = http.request(`${base}/${path}`, { method, agent: false, headers });
        const late = setTimeout(() => request.destroy(new Error(`no answer to ${method} ${path} within ${timeout} ms`)), timeout);
        request.on("close", () => clearTimeout(late));
        request.on("error", reject);
        request.on("response", (response) => read(response).then(resolve, reject));
        request.end(body);
    });
}

/** Open a stream of the admin API. It breaks when it is silent for `silence` milliseconds, or by `signal`. */
function open(base, path, headers, silence, signal) {
    return new Promise((resolve, reject) => {
        const request = http.request(`${base}/${path}`, { agent: false, headers, signal });
        request.setTimeout(silence, () => request.destroy(new Error(`no word from GET ${path} for ${silence} ms`)));
        request.on("error", reject);
        request.on("response", (response) => {
            if (response.statusCode === 200) resolve(response.setEncoding("utf8"));
            else read(response).then(resolve, reject);
        });
        request.end();
    });
}

/** Read an answer to its end; MayflyError for a refusal. */
async function read(response) {
    let said = "";
    for await (const part of response.setEncoding("utf8")) said += part;
    if (response.statusCode >= 300) throw new MayflyError(response.statusCode, problemOf(said));
    return said;
}

function problemOf(text) {
    try {
        return JSON.parse(text);
    } catch {
        return { detail: text };
    }
}

module.exports = { MayflyError, call, open };
