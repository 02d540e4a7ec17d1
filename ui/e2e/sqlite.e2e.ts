import { describe } from "vitest";
import { story } from "./story";

describe("on SQLite", () => story());
