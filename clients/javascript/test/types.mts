// Compiled, not run: the types that a program sees.
import { Expired, Mayfly, MayflyError, Move, serve } from "mayflydb";
import { useMayfly } from "mayflydb/vitest";

const server: Mayfly = await serve({ start: new Date(0), arguments: ["--ydb-port", "-1"], timeout: 1000 });
const move: Move = await server.clock.advance({ hours: 1 });
const [first]: Expired[] = await server.expired("cosmos:shop");
const due: Date | null = await server.clock.nextExpiry();
const uri: string = useMayfly().mongo.uri;
// @ts-expect-error a duration has a unit
await server.clock.advance(5);
// @ts-expect-error there is no such reason
first.reason === "age";
try {
    await server.stop();
} catch (error) {
    if (error instanceof MayflyError) console.log(error.status, move.purged, due, uri);
}
