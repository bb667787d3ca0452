// node scenarios.mjs PLAIN TLS GUARDED ADMIN AUTHORITY: what each file says, one after the other. PLAIN, TLS and GUARDED are
// connection strings; GUARDED is that of a server that wants a password. Prints one line of JSON for each scenario:
// {"name": ..., "error": null or what was wrong}.

import { run } from "./client.mjs";
import { connections } from "./connections.mjs";
import { queryService } from "./queries.mjs";
import { tableService } from "./tables.mjs";
import { templates } from "./templates.mjs";

await run({ ...connections, ...tableService, ...queryService, ...templates });
