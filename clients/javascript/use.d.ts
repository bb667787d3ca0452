import { Mayfly, Options } from "./index.js";

/** Options of a server that the tests of a file share. */
export interface Shared extends Options {
    /** What each test finds: resource documents, or paths of .json files. */
    seed?: object | string | URL | (object | string | URL)[];
}

/** Start one server for all tests of this file, and renew it before each of them: the seed alone, the clock at its start. */
export function useMayfly(options?: Shared): Mayfly;
