// Compiled, not run: the types that a program sees.
import { Expired, Explanation, Forecast, Mayfly, MayflyError, Move, Preview, Snapshot, serve } from "mayflydb";
import { useMayfly } from "mayflydb/vitest";

const server: Mayfly = await serve({ start: new Date(0), arguments: ["--ydb-port", "-1"], timeout: 1000 });
const move: Move = await server.clock.advance({ hours: 1 });
const [first]: Expired[] = await server.expired("cosmos:shop");
const due: Date | null = await server.clock.nextExpiry();
const uri: string = useMayfly().mongo.uri;
const seeded: { created: number } = await server.seed("shop.json", new URL("file:///shop.json"), { databases: [] });
const saved: Snapshot = await server.snapshot();
await server.restore(saved.name);
const preview: Preview = await server.preview("cosmos:shop/sessions", { default_ttl: null });
const forecast: Forecast = await server.forecast({ horizon: { hours: 1 }, buckets: 4 });
const why: Explanation = await server.explain("cosmos:shop/sessions", "s1", ["a", 1]);
for await (const { type, seq } of server.events({ types: ["expired", "write"], after: 0 })) {
    if (type === "lost") console.log(seq, seeded.created, preview.exact, forecast.buckets[0].count, why.text);
}
await server.request("PUT", "snapshots/a");
useMayfly({ seed: ["shop.json", {}], requestTimeout: 1000 });
// @ts-expect-error there is no such method
await server.request("PATCH", "snapshots/a");
// @ts-expect-error there is no such event
server.events({ types: "deaths" });
// @ts-expect-error a duration has a unit
await server.clock.advance(5);
// @ts-expect-error there is no such reason
first.reason === "age";
try {
    await server.stop();
} catch (error) {
    if (error instanceof MayflyError) console.log(error.status, error.title, error.detail, error.hint, move.purged, due, uri);
}
