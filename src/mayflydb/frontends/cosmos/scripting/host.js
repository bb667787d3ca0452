// The environment of scripts: context, request, response and collection of the service's server-side API. This file is evaluated
// in a new context before the script. Its value is one function, the only interface to Python: host(verb, text) -> text.
// Texts are JSON; the text of an error is "!" and its description. Operations on the collection are queued here and run by
// Python after the script has returned, so a script never calls Python.
//
// The API is that of https://azure.github.io/azure-cosmosdb-js-server/
(function () {
    "use strict";
    const { parse, stringify } = JSON;
    const evaluate = globalThis.eval;
    const sliced = Function.prototype.call.bind(String.prototype.slice);
    const clock = performance.now.bind(performance);
    const NativeError = Error;
    const NativeDate = Date;
    const secret = Symbol("what was set");
    const queue = [];
    let began = clock();
    let patience = Infinity;
    let waiting;
    let aborted;
    let main;
    const functions = new Map();
    let request;
    let response;
    let context;
    let log = "";
    let collection;

    // Scripts get neither shared memory nor the host's clock.
    for (const name of ["performance", "Atomics", "SharedArrayBuffer"]) delete globalThis[name];

    const codes = Object.freeze({
        BadRequest: 400, Forbidden: 403, NotFound: 404, Conflict: 409, PreconditionFailed: 412, RequestEntityTooLarge: 413,
        RetryWith: 449, InternalServerError: 500,
    });

    // `new Error(404, "text")` has a number beside the message, as in the service.
    const trace = NativeError.captureStackTrace;
    function numbered(args, target, caller) {
        const withNumber = args.length > 1 && typeof args[0] === "number";
        const made = Reflect.construct(NativeError, withNumber ? [String(args[1])] : args, target);
        if (withNumber) made.number = args[0];
        trace(made, caller);
        return made;
    }
    const shown = {
        construct: (_, args, target) => numbered(args, target, shown.construct),
        apply: (_, self, args) => numbered(args, NativeError, shown.apply),
    };
    const ServiceError = new Proxy(NativeError, shown);
    NativeError.prototype.constructor = ServiceError;
    globalThis.Error = ServiceError;

    function fault(number, message) {
        return numbered([number, message], NativeError, fault);
    }

    // --- time ----------------------------------------------------------------------------------------------------------

    // As in the service, local time is UTC in every time zone of the host.
    const offset = NativeDate.prototype.getTimezoneOffset;
    const MINUTE = 60_000;
    const ABSOLUTE = /(?:Z|GMT|UTC|[+-]\d{2}:?\d{2})(?: *\([^)]*\))?$|^[+-]?\d{4,6}(?:-\d{2}){0,2}$/i;

    function inUtc() {
        const prototype = NativeDate.prototype;
        for (const part of ["FullYear", "Month", "Date", "Day", "Hours", "Minutes", "Seconds", "Milliseconds"]) {
            prototype[`get${part}`] = prototype[`getUTC${part}`];
            if (part !== "Day") prototype[`set${part}`] = prototype[`setUTC${part}`];
        }
        prototype.getTimezoneOffset = () => 0;
        for (const name of ["", "Date", "Time", "Locale", "LocaleDate", "LocaleTime"].map((kind) => `to${kind}String`)) {
            const local = prototype[name];
            prototype[name] = function (...args) {
                const shifted = new NativeDate(this.getTime() + offset.call(this) * MINUTE);
                return local.apply(shifted, args).replace(/GMT[+-]\d{4}/, "GMT+0000");
            };
        }
    }

    const { parse: parseDate, UTC } = NativeDate;
    function parsed(text) {
        const instant = parseDate(text);
        return ABSOLUTE.test(String(text).trim()) ? instant : instant - offset.call(new NativeDate(instant)) * MINUTE;
    }

    function stopClock(now) {
        const values = (args) => {
            if (args.length > 1) return [UTC(...args)];
            return args.length ? [typeof args[0] === "string" ? parsed(args[0]) : args[0]] : [now];
        };
        const StillDate = new Proxy(NativeDate, {
            construct: (_, args, target) => Reflect.construct(NativeDate, values(args), target),
            apply: () => new NativeDate(now).toString(),
        });
        inUtc();
        NativeDate.now = () => now;
        NativeDate.parse = parsed;
        NativeDate.prototype.constructor = StillDate;
        globalThis.Date = StillDate;
    }

    // --- errors ------------------------------------------------------------------------------------------------------

    function described(error) {
        let text;
        // The engine throws null if no memory is left for an error object.
        if (error === null) text = "null (out of memory, if the script does not throw it itself)";
        else if (error instanceof NativeError) text = `${error.name}: ${error.message}`;
        else if (typeof error === "object" && error !== null) text = stringify(error);
        else text = String(error);
        const number = typeof error === "object" && error !== null ? error.number : undefined;
        return "!" + stringify({
            text,
            stack: error instanceof NativeError ? String(error.stack ?? "") : "",
            number: typeof number === "number" ? number : 0,
        });
    }

    function guarded(work) {
        try {
            return work();
        } catch (error) {
            return described(error);
        }
    }

    // --- scripts -----------------------------------------------------------------------------------------------------

    // The text of a script is one function, with or without a name, or declares several, of which the first is run.
    function compiled(text) {
        const plain = text.replace(/[\s;]+$/, "");
        const bare = plain.replace(/(?:[\s;]|\/\/[^\n]*$|\/\*(?:(?!\*\/)[^])*\*\/$)+$/, "");
        const declared = /(?:^|[\s;}/])(?:async\s+)?function\s*\*?\s*([A-Za-z_$][\w$]*)\s*\(/.exec(plain);
        let refused;
        for (const source of [`(${plain}\n)`, `(${bare}\n)`, declared && `${plain}\n;${declared[1]}`]) {
            try {
                const found = source && evaluate(source);
                if (typeof found === "function") return found;
            } catch (error) {
                if (!(error instanceof SyntaxError)) throw error;
                refused ??= error;
            }
        }
        throw refused ?? new TypeError("the text of a script must be a function");
    }

    // --- request and response ----------------------------------------------------------------------------------------

    // Values by name, with accessors for each name (getBody, setBody, appendBody) and for any (getValue, setValue, appendValue).
    function Properties(values, writable, limit) {
        const held = new Map(Object.entries(values));
        const touched = new Set();
        Object.defineProperty(this, secret, { value: (name) => touched.has(name) });
        const check = (name) => {
            if (!held.has(name)) throw fault(codes.BadRequest, `There is no property '${name}' that could be set.`);
            if (!writable.includes(name)) throw fault(codes.Forbidden, `The property '${name}' cannot be set.`);
        };
        const set = (name, value) => {
            check(name);
            const text = typeof value === "object" && value !== null ? stringify(value) : value;
            if (limit && text !== undefined && text !== null && String(text).length > limit) {
                throw fault(codes.RequestEntityTooLarge, `The message would be too large with this '${name}'.`);
            }
            held.set(name, value);
            touched.add(name);
        };
        const append = (name, value) => {
            check(name);
            const before = held.get(name);
            set(name, before === undefined || before === null ? value : before + value);
        };
        this.getValue = (name) => held.get(name);
        if (writable.length) {
            this.setValue = set;
            this.appendValue = append;
        }
        for (const name of held.keys()) {
            this[`get${name}`] = () => held.get(name);
            if (writable.includes(name)) {
                this[`set${name}`] = (value) => set(name, value);
                this[`append${name}`] = (value) => append(name, value);
            }
        }
    }

    function formatted(format, args) {
        let next = 0;
        return format.replace(/%(%|s)/g, (_, kind) => (kind === "%" ? "%" : String(args[next++])));
    }

    function logger(limit) {
        return (...args) => {
            if (!args.length) throw fault(codes.BadRequest, "console.log needs at least one argument.");
            if (args.length > 1 && typeof args[0] !== "string") {
                throw fault(codes.BadRequest, "The first of several arguments of console.log must be a string.");
            }
            const more = (args.length > 1 ? formatted(args[0], args.slice(1)) : String(args[0])).toWellFormed();
            if (encodeURIComponent(log + more).length > limit) {
                throw fault(codes.RequestEntityTooLarge, "The log of the script would be too large.");
            }
            log += more;
        };
    }

    // --- the collection ----------------------------------------------------------------------------------------------

    function settings(options, callback) {
        if (callback === undefined && typeof options === "function") return [{}, options];
        if (options !== undefined && options !== null && typeof options !== "object") {
            throw fault(codes.BadRequest, `The options of the call must be an object, not of type ${typeof options}.`);
        }
        if (callback !== undefined && callback !== null && typeof callback !== "function") {
            throw fault(codes.BadRequest, `The callback of the call must be a function, not of type ${typeof callback}.`);
        }
        return [options ?? {}, callback ?? undefined];
    }

    // Close to the end of its time a script's operations are not accepted, so that it can answer with its progress.
    function accepts() {
        return clock() - began < patience;
    }

    function enqueue(asked, callback, shape) {
        if (!accepts()) return false;
        queue.push({
            asked,
            done(answer) {
                if (answer.error === undefined) return callback && callback(undefined, ...shape(answer));
                const error = fault(answer.error.number, stringify({ Errors: [answer.error.message] }));
                error.body = error.message;
                if (!callback) throw error;
                return callback(error);
            },
        });
        return true;
    }

    const item = (answer) => [answer.body, answer.options];
    const feed = (answer) => [answer.body, answer.options];

    function Collection(selfLink, altLink) {
        const need = (name, count, given) => {
            if (given < count) throw fault(codes.BadRequest, `${name} needs at least ${count} argument(s), and was given ${given}.`);
        };
        const container = (link) => {
            if (link !== selfLink && link !== altLink) {
                throw fault(codes.BadRequest, `The link '${link}' is not that of the collection in which the script runs.`);
            }
        };
        const document = (link) => {
            const text = String(link).replace(/\/$/, "");
            for (const [start, byName] of [[`${selfLink}docs/`, false], [`${altLink}/docs/`, true]]) {
                if (text.startsWith(start)) return { id: text.slice(start.length), byName };
            }
            throw fault(codes.BadRequest, `The link '${link}' is not that of a document in the collection in which the script runs.`);
        };
        const content = (body) => {
            if (body === null || (typeof body !== "object" && typeof body !== "string")) {
                throw fault(codes.BadRequest, "The body of a document must be an object, or a string with its JSON.");
            }
            return typeof body === "string" ? body : stringify(body);
        };
        const define = (name, count, work) => {
            this[name] = (...args) => {
                need(name, count, args.length);
                return work(...args);
            };
        };
        const store = (name, op) => define(name, 2, (link, body, options, callback) => {
            container(link);
            [options, callback] = settings(options, callback);
            const given = { op, body: content(body), etag: options.etag, keepId: options.disableAutomaticIdGeneration === true };
            return enqueue(given, callback, item);
        });

        this.getSelfLink = () => selfLink;
        this.getAltLink = () => altLink;
        store("createDocument", "create");
        store("upsertDocument", "upsert");
        define("replaceDocument", 2, (link, body, options, callback) => {
            const place = document(link);
            [options, callback] = settings(options, callback);
            return enqueue({ op: "replace", ...place, body: content(body), etag: options.etag }, callback, item);
        });
        define("deleteDocument", 1, (link, options, callback) => {
            const place = document(link);
            [options, callback] = settings(options, callback);
            return enqueue({ op: "delete", ...place, etag: options.etag }, callback, (answer) => [answer.options]);
        });
        define("readDocument", 1, (link, options, callback) => {
            const place = document(link);
            [options, callback] = settings(options, callback);
            return enqueue({ op: "read", ...place, ifNoneMatch: options.ifNoneMatch }, callback, item);
        });
        define("readDocuments", 1, (link, options, callback) => {
            container(link);
            [options, callback] = settings(options, callback);
            return enqueue({ op: "query", ...page(options) }, callback, feed);
        });
        define("queryDocuments", 2, (link, query, options, callback) => {
            container(link);
            if (typeof query !== "string" && (typeof query !== "object" || query === null)) {
                throw fault(codes.BadRequest, "A query must be a string, or an object with its text and parameters.");
            }
            [options, callback] = settings(options, callback);
            return enqueue({ op: "query", query, ...page(options) }, callback, feed);
        });
        defineQueries(this);
    }

    function page(options) {
        return { pageSize: options.pageSize, continuation: options.continuation || undefined };
    }

    // --- queries as chains of functions ------------------------------------------------------------------------------

    const rank = (value) => ["undefined", "object", "boolean", "number", "string"].indexOf(typeof value);

    function ordered(by, sign) {
        return (rows) => rows
            .map((row) => [by(row), row])
            .sort(([a], [b]) => sign * (rank(a) - rank(b) || (a < b ? -1 : a > b ? 1 : 0)))
            .map(([, row]) => row);
    }

    const flat = (row, deep) => (Array.isArray(row) ? row.flatMap((inner) => (deep ? flat(inner, true) : [inner])) : [row]);

    function joined(rows, inner, result) {
        return rows.flatMap((row) => {
            const found = inner(row) ?? [];
            return result === undefined ? found : found.map((each) => result(row, each));
        });
    }

    const callable = (given) => {
        if (typeof given !== "function") throw fault(codes.BadRequest, "A query function needs a function as its argument.");
        return given;
    };
    const property = (name) => {
        if (typeof name !== "string" || !name) throw fault(codes.BadRequest, "The name of a property must be a string that is not empty.");
        return name;
    };

    // `takes`: the number of arguments of the function itself; `make`: its work on rows. A stage that is `whole` needs all rows.
    const stages = {
        filter: { takes: () => 1, make: (test) => (callable(test), (rows) => rows.filter((row) => test(row))) },
        map: { takes: () => 1, make: (change) => (callable(change), (rows) => rows.map((row) => change(row))) },
        pluck: { takes: () => 1, make: (name) => (property(name), (rows) => rows.map((row) => row[name])) },
        flatten: {
            takes: (args) => (typeof args[0] === "boolean" ? 1 : 0),
            make: (shallow) => (rows) => rows.flatMap((row) => flat(row, shallow !== true)),
        },
        unwind: {
            takes: (args) => (typeof args[1] === "function" && args[1].length > 1 ? 2 : 1),
            make: (inner, result) => (callable(inner), (rows) => joined(rows, inner, result)),
        },
        sortBy: { takes: () => 1, whole: true, make: (by) => ordered(callable(by), 1) },
        sortByDescending: { takes: () => 1, whole: true, make: (by) => ordered(callable(by), -1) },
    };

    function toBody(error, rows) {
        if (error) throw error;
        if (!response) throw fault(codes.BadRequest, "A query without a callback needs a response, which a pre-trigger has not.");
        response.appendBody(stringify(rows));
    }

    // Reads the whole partition page by page, and returns the page of the result that the options name.
    function evaluated(chain, options, callback) {
        const first = chain.findIndex((stage) => stage.whole);
        const early = first < 0 ? chain : chain.slice(0, first);
        const late = first < 0 ? [] : chain.slice(first);
        const through = (part, rows) => part.reduce((before, stage) => stage.run(before), rows);
        const size = options.pageSize > 0 ? options.pageSize : 100;
        const start = Number(options.continuation || 0);
        let rows = [];
        const more = (continuation) => enqueue({ op: "query", pageSize: 1000, continuation }, (error, found, { continuation }) => {
            if (error) return callback(error);
            try {
                rows = rows.concat(through(early, found));
                if (continuation === undefined) rows = through(late, rows);
            } catch (thrown) {
                return callback(thrown);
            }
            if (continuation !== undefined) {
                if (!more(continuation)) throw fault(codes.InternalServerError, "The time of the script ended in a query.");
                return undefined;
            }
            const next = start + size < rows.length ? String(start + size) : undefined;
            return callback(undefined, rows.slice(start, start + size), { continuation: next });
        }, feed);
        return { isAccepted: more(undefined) };
    }

    function defineQueries(on) {
        for (const [name, stage] of Object.entries(stages)) {
            on[name] = (...args) => {
                const own = stage.takes(args);
                const [options, callback] = settings(...args.slice(own, own + 2));
                return evaluated([{ run: stage.make(...args.slice(0, own)), whole: stage.whole }], options, callback ?? toBody);
            };
        }
        on.chain = () => chained([]);
    }

    function chained(chain) {
        const link = { isAccepted: accepts() };
        for (const [name, stage] of Object.entries(stages)) {
            link[name] = (...args) => {
                const own = stage.takes(args);
                if (args.slice(own).some((left) => left !== undefined)) {
                    throw fault(codes.BadRequest, "In a chain, options and callback belong to value().");
                }
                return chained([...chain, { run: stage.make(...args.slice(0, own)), whole: stage.whole }]);
            };
        }
        link.value = (...args) => {
            const [options, callback] = settings(...args.slice(0, 2));
            return evaluated(chain, options, callback ?? toBody);
        };
        return link;
    }

    // --- verbs that Python calls -------------------------------------------------------------------------------------

    function define(given) {
        stopClock(given.now);
        if (given.udfs) {
            for (const [name, text] of Object.entries(given.udfs)) functions.set(name, compiled(text));
            return;
        }
        began = clock();
        patience = given.patience;
        const own = given.mode === "pre" ? ["Body"] : [];
        request = new Properties({ ...given.headers, Body: given.request }, own, 0);
        request.getOperationType = () => given.operation;
        collection = new Collection(given.selfLink, given.altLink);
        context = {
            getCollection: () => collection,
            getRequest: () => request,
            abort(error) {
                aborted = described(error);
                throw error;
            },
        };
        globalThis.__ = Object.create(collection, { request: { value: request, enumerable: true } });
        if (given.mode !== "pre") {
            response = new Properties({ Body: given.response }, ["Body"], given.mostBody);
            context.getResponse = () => response;
            Object.defineProperty(globalThis.__, "response", { value: response, enumerable: true });
        }
        globalThis.getContext = () => context;
        globalThis.console = { log: given.logs ? logger(given.mostLog) : () => {} };
        globalThis.ErrorCodes = codes;
        main = compiled(given.script);
    }

    const verbs = {
        define: (text) => (define(parse(text)), ""),
        run: (text) => (main(...parse(text)), ""),
        next() {
            if (aborted) return aborted;
            waiting = queue.shift();
            return waiting === undefined ? "" : stringify(waiting.asked);
        },
        reply: (text) => (waiting.done(parse(text)), ""),
        outcome() {
            const body = (of) => (of !== undefined && of[secret]("Body") ? stringify(of.getValue("Body")) ?? '""' : null);
            return stringify({ request: body(request), response: body(response) });
        },
        log: () => log,
        call(text) {
            const [name, args] = parse(text);
            return stringify(functions.get(name)(...args)) ?? "";
        },
    };

    // The engine cannot return a concatenation of long texts (a rope). `sliced` copies it to one piece.
    return (verb, text) => {
        const answer = guarded(() => verbs[verb](text));
        return typeof answer === "string" ? sliced(answer, 0) : answer;
    };
})();
