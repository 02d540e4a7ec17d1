import { describe } from "vitest";
import { POSTGRES } from "./lab";
import { story } from "./story";

describe.runIf(POSTGRES)("on PostgreSQL", () => story(POSTGRES));
