// node scenarios.mjs URI ADMIN AUTHORITY: what each file says, one after the other.
// Prints one line of JSON for each scenario: {"name": ..., "error": null or what was wrong}.

import { run } from "./client.mjs";
import { driver } from "./driver.mjs";
import { limiters } from "./limiters.mjs";
import { models } from "./models.mjs";
import { sessions } from "./sessions.mjs";

await run({ ...driver, ...models, ...sessions, ...limiters });
