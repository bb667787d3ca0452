import { Mayfly, Options } from "./index.js";

/** Start one server for all tests of this file, and renew it before each of them: empty, the clock at its start. */
export function useMayfly(options?: Options): Mayfly;
