// Every page and its address. Addresses are plain (`?status=failed&status=cancelled`), and values are texts: a copied
// link shows the same screen, and people can write one by hand.
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { FIELDS } from "../lib/filter";
// What the first page has parts of comes with it.
import { ErrorsPage } from "../pages/Errors";
import { OverviewPage } from "../pages/Overview";
import { QueuesPage } from "../pages/Queues";
import { RunsPage } from "../pages/Runs";
import { SchedulesPage } from "../pages/Schedules";
import { config } from "./config";
import { later } from "./later";
import { keepPlaces } from "./places";
import { NotFound, Shell } from "./Shell";

export function parseSearch(text: string): Record<string, string | string[]> {
  const found: Record<string, string | string[]> = {};
  for (const [name, value] of new URLSearchParams(text)) {
    const before = found[name];
    found[name] = before === undefined ? value : [...(Array.isArray(before) ? before : [before]), value];
  }
  return found;
}

function stringifySearch(search: Record<string, unknown>): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(search)) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) params.append(name, String(one));
  }
  const text = params.toString();
  return text && `?${text}`;
}

function only(...names: string[]) {
  return (search: Record<string, unknown>) => Object.fromEntries(Object.entries(search).filter(([name]) => names.includes(name))) as Record<string, string | string[] | undefined>;
}

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound });
const under = () => root;
const routes = [
  createRoute({ getParentRoute: under, path: "/", component: OverviewPage, validateSearch: only("range") }),
  createRoute({ getParentRoute: under, path: "/errors", component: ErrorsPage, validateSearch: only("range", "def") }),
  createRoute({ getParentRoute: under, path: "/runs", component: RunsPage, validateSearch: only(...FIELDS, "sort", "cols") }),
  createRoute({
    getParentRoute: under,
    path: "/runs/$id",
    component: later(() => import("../run/RunPage"), "RunPage"),
    validateSearch: only("tab", "step", "attempt", "idle", "zoom", "open", "closed", "bands", "kind", "level", "text", "logstep"),
  }),
  createRoute({ getParentRoute: under, path: "/queues", component: QueuesPage, validateSearch: only("range") }),
  createRoute({ getParentRoute: under, path: "/schedules", component: SchedulesPage, validateSearch: only("open") }),
  createRoute({ getParentRoute: under, path: "/nodes", component: later(() => import("../pages/Nodes"), "NodesPage"), validateSearch: only("state") }),
  createRoute({ getParentRoute: under, path: "/definitions", component: later(() => import("../pages/Definitions"), "DefinitionsPage"), validateSearch: only("range") }),
  createRoute({ getParentRoute: under, path: "/errors/$fp", component: later(() => import("../pages/ErrorPage"), "ErrorPage"), validateSearch: only("range") }),
  createRoute({ getParentRoute: under, path: "/queues/$name", component: later(() => import("../pages/QueuePage"), "QueuePage"), validateSearch: only("range") }),
  createRoute({ getParentRoute: under, path: "/schedules/$name", component: later(() => import("../pages/SchedulePage"), "SchedulePage") }),
  createRoute({ getParentRoute: under, path: "/nodes/$id", component: later(() => import("../pages/Nodes"), "NodePage") }),
  createRoute({ getParentRoute: under, path: "/definitions/$name", component: later(() => import("../pages/Definitions"), "DefinitionPage"), validateSearch: only("range", "version") }),
  createRoute({ getParentRoute: under, path: "/bulk", component: later(() => import("../pages/Bulks"), "BulksPage"), validateSearch: only("state") }),
  createRoute({ getParentRoute: under, path: "/bulk/$id", component: later(() => import("../pages/Bulks"), "BulkPage") }),
  createRoute({ getParentRoute: under, path: "/runs/import", component: later(() => import("../run/Import"), "ImportPage") }),
  createRoute({ getParentRoute: under, path: "/settings", component: later(() => import("../pages/Settings"), "SettingsPage") }),
  createRoute({ getParentRoute: under, path: "/system", component: later(() => import("../pages/System"), "SystemPage") }),
];

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: config.base,
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
});
keepPlaces(router);
