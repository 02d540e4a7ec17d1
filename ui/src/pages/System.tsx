// The server itself: whether it can serve, what `doctor` says, which it is, what it goes by, who asks, and where programs look.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { api, data, type Schemas } from "../api/client";
import { config } from "../app/config";
import { useMay, useVersion } from "../app/Shell";
import { SignOut, useWho } from "../app/You";
import { backlog } from "../lib/backlog";
import { useReach } from "../lib/me";
import { bytes } from "../lib/size";
import { between, duration, millis } from "../lib/time";
import { css, Head, Loading, Problem, Time, useNow } from "../parts/parts";
import { Facts } from "../parts/RunTable";

const LOOKS: Record<string, ["green" | "amber" | "red", string, string]> = { ok: ["green", "✓", "ok"], warn: ["amber", "!", "look"], fail: ["red", "✕", "not ok"] };

/// How high the table of checks mostly becomes.
const USUAL_HEIGHT = 580;

function Verdict({ status }: { status: string }) {
  const [tone, icon, word] = LOOKS[status] ?? ["red", "✕", status];
  return <span className={`${css.chip} ${css[tone]}`}><i aria-hidden="true">{icon}</i>{word}</span>;
}

/// What it means that one is well, of those that say nothing then.
const READY: Record<string, string> = { database: "it answers", writes: "it takes them", schema: "this program's", not_stopping: "it takes requests" };

/// They take a while, and ask much of the database: once, and again when somebody wants it. Also where the stream is lost, and everything else
/// is asked for every few seconds: the database may be what is slow then.
export const CHECKS = queryOptions({ queryKey: ["system", "checks"], queryFn: () => data(api.GET("/api/v1/system/checks")), staleTime: "static", retry: false });
/// Reads all of a file of SQLite: the same.
export const TABLES = queryOptions({ queryKey: ["system", "tables"], queryFn: () => data(api.GET("/api/v1/system/tables")), staleTime: "static", retry: false });

export function SystemPage() {
  const version = useVersion();
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: 5000 });
  const who = useWho();
  const system = useQuery({ queryKey: ["system"], queryFn: () => data(api.GET("/api/v1/system")), refetchInterval: 10_000, retry: false });
  // Whoever is bound is refused these too, and told so once.
  const [mayAct, reach] = [useMay("operate"), useReach()];
  const may = mayAct && reach("system") === true;
  const checks = useQuery({ ...CHECKS, enabled: may });
  // A server that was started anew may go by others.
  const settings = useQuery({ queryKey: ["system", "config"], queryFn: () => data(api.GET("/api/v1/system/config")), enabled: may, staleTime: Infinity, retry: false });
  const tables = useQuery({ ...TABLES, enabled: may });
  // Whether it is ready is asked every few seconds, and says little: what the checks say of the same thing tells more, while it is well.
  const told = new Set(checks.data?.items.map((check) => check.name));
  const all: Schemas["CheckJson"][] = [
    ...(ready.data?.checks ?? []).filter((check) => !check.ok || !told.has(check.name)).map((check) => ({ name: check.name.replaceAll("_", " "), status: check.ok ? "ok" : "fail", detail: check.detail ?? (READY[check.name] ?? "") })),
    ...(checks.data?.items ?? []).map((check) => ({ ...check, name: check.name.replaceAll("_", " ") })),
  ];
  return (
    <>
      <Head title="System">
        {may && <button type="button" className={css.button} disabled={checks.isFetching} onClick={() => (void checks.refetch(), void tables.refetch())}>{checks.isFetching ? "Checking…" : "Check again"}</button>}
        <SignOut />
      </Head>
      <Problem error={ready.error ?? system.error ?? checks.error} />
      {/* All at once, and with room for what takes longer: nothing moves away under somebody's eyes. */}
      {version.isPending || system.isPending || ready.isPending ? <Loading /> : <div className={css.stack}>
        <div className={`${css.card} ${css.scroll}`} style={{ minHeight: may && checks.isPending ? USUAL_HEIGHT : undefined }}>
          <table className={css.table}>
            <thead><tr><th>Check</th><th>Verdict</th><th>Says</th></tr></thead>
            <tbody>
              {all.map((check, place) => (
                <tr key={place}>
                  <td className={css.nowrap}>{check.name}</td>
                  <td><Verdict status={check.status} /></td>
                  <td>{check.detail}{check.fix && <span className={css.muted}> {check.fix}</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {!mayAct && system.data && <p className={`${css.muted} ${css.under}`}>What <code>outlast doctor</code> says, what the server goes by and how much room its tables take is for operators.</p>}
        </div>
        <Facts facts={[
          ["Version", version.data && `${version.data.version}, API ${version.data.api}`], ["Store", version.data?.store], ["Shards", system.data?.shards],
          ["Schema", system.data && `version ${system.data.schema}`], ["Nodes that are up", system.data?.nodes], ["Runs that nodes hold", system.data?.held.toLocaleString("en")], ["Next lease ends", system.data?.next_lease_end && <Time key="l" at={system.data.next_lease_end} />],
          ["Hints of other processes", system.data && (version.data?.store === "sqlite" ? "none are needed" : system.data.hears_others ? "arrive (LISTEN)" : "do not arrive: work is looked for")],
          ["Connections", system.data?.pool && `${system.data.pool.in_use} of ${system.data.pool.size} in use`],
          ["Sums for charts", system.data && <Behind key="b" since={system.data.unsummed_since} />],
          ["The database's time", system.data && <Time key="n" at={system.data.now} />], ["Tokens", system.data && (system.data.tokens ? "needed" : "not needed")],
          ["You", who],
          ["For programs", <span key="p">{["openapi.json", "metrics", "healthz", "readyz"].map((name) => <span key={name}><a href={config.base + name}>/{name}</a> </span>)}</span>],
        ]} />
        {system.data && <Kept system={system.data} />}
        <Problem error={settings.error} />
        {settings.data && settings.data.items.length > 0 && <Config items={settings.data.items} />}
        <Problem error={tables.error} />
        {tables.data && tables.data.items.length > 0 && <Tables items={tables.data.items} />}
      </div>}
    </>
  );
}

/// How long ago the first run ended that no chart shows yet. Sums are made every five seconds, of what ended ten seconds ago.
function Behind({ since }: { since?: string | null }) {
  const now = useNow();
  const behind = since ? between(millis(since) ?? now, now) : 0;
  return <>{behind > 30_000 ? `${duration(behind)} behind` : "up to date"}</>;
}

/// For how long what is kept for.
function Kept({ system }: { system: Schemas["System"] }) {
  const words = (keeps: Record<string, number | null>) => Object.entries(keeps).map(([status, keep]) => `${status} ${keep === null ? "for ever" : `for ${duration(keep)}`}`).join(", ");
  const isForAll = system.retention.some((one) => !one.definition);
  const rows: [string, string][] = [
    ...system.retention.map(({ definition, keeps_ms }): [string, string] => [definition ? `Ended runs of ${definition}` : "Ended runs", words(keeps_ms as Record<string, number | null>)]),
    ...(isForAll ? [] : [[system.retention.length ? "All other ended runs" : "Ended runs", "for ever, unless somebody deletes them"] as [string, string]]),
    ["Sums for charts, failures that are alike", `for ${duration(system.keeps_sums_ms)}`],
    ["The audit log", `for ${duration(system.keeps_audit_ms)}`],
  ];
  return (
    <section className={`${css.card} ${css.scroll}`}>
      <table className={css.table}>
        <thead><tr><th>What</th><th>Is kept</th></tr></thead>
        <tbody>{rows.map(([what, kept]) => <tr key={what + kept}><td>{what}</td><td>{kept}</td></tr>)}</tbody>
      </table>
      {system.retention.length > 0 && (
        <p className={`${css.muted} ${css.under}`}>
          Nodes look every minute for what is kept no longer. <NextPurge at={system.next_purge_at} />
        </p>
      )}
    </section>
  );
}

/// When the first of the ended runs goes.
function NextPurge({ at }: { at?: string | null }) {
  const now = useNow();
  const late = backlog(at, now);
  if (!at) return <>Among the oldest there is none that goes by itself.</>;
  if (late !== null) return <span className={css.warn}>The first should have been deleted {duration(late)} ago.</span>;
  return (millis(at) ?? now) > now ? <>The first goes <Time at={at} />.</> : <>The first goes within a minute.</>;
}

/// What the server goes by. Secrets are left out by the server.
function Config({ items }: { items: Schemas["Setting"][] }) {
  return (
    <section className={`${css.card} ${css.scroll}`} aria-label="Settings of the server">
      <table className={css.table}>
        <thead><tr><th>Setting</th><th>Value</th><th>From</th></tr></thead>
        <tbody>
          {items.map((setting) => (
            <tr key={setting.key}><td className={css.mono}>{setting.key}</td><td className={css.mono}>{setting.value}</td><td className={css.muted}>{setting.origin}</td></tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Tables({ items }: { items: Schemas["Table"][] }) {
  const all = items.reduce((sum, table) => sum + table.bytes, 0);
  return (
    <section className={`${css.card} ${css.scroll}`}>
      <table className={css.table}>
        <thead><tr><th>Table</th><th className={css.num}>Room, with its indexes</th><th><span className={css.hidden}>Share of all</span></th></tr></thead>
        <tbody>
          {items.map((table) => (
            <tr key={table.name}>
              <td className={css.mono}>{table.name}</td>
              <td className={css.num}>{bytes(table.bytes)}</td>
              <td><div className={css.bar} aria-hidden="true"><span style={{ width: `${(100 * table.bytes) / Math.max(1, all)}%` }} /></div></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
