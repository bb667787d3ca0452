import { afterAll, beforeAll, beforeEach } from "vitest";
import { using } from "./use.js";

export const useMayfly = using(beforeAll, beforeEach, afterAll);
