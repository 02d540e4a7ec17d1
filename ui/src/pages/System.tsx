// The server itself: whether it can serve, what `doctor` says, which it is, who asks, and where programs look.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas, signOut } from "../api/client";
import { config } from "../app/config";
import { useMay, useVersion } from "../app/Shell";
import { css, Head, Problem } from "../parts/parts";
import { Facts } from "../parts/RunTable";

const LOOKS: Record<string, ["green" | "amber" | "red", string, string]> = { ok: ["green", "✓", "ok"], warn: ["amber", "!", "look"], fail: ["red", "✕", "not ok"] };

function Verdict({ status }: { status: string }) {
  const [tone, icon, word] = LOOKS[status] ?? ["red", "✕", status];
  return <span className={`${css.chip} ${css[tone]}`}><i aria-hidden="true">{icon}</i>{word}</span>;
}

export function SystemPage() {
  const client = useQueryClient();
  const version = useVersion();
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: 5000 });
  const me = useQuery({ queryKey: ["me"], queryFn: () => data(api.GET("/api/v1/me")) });
  const system = useQuery({ queryKey: ["system"], queryFn: () => data(api.GET("/api/v1/system")), refetchInterval: 10_000, retry: false });
  const may = useMay("operate");
  // They take a while, and ask much of the database: once, and again when somebody wants it.
  const checks = useQuery({ queryKey: ["system", "checks"], queryFn: () => data(api.GET("/api/v1/system/checks")), enabled: may, staleTime: Infinity, retry: false });
  const leave = async () => {
    await signOut();
    await client.invalidateQueries();
  };
  const all: Schemas["CheckJson"][] = [
    ...(ready.data?.checks ?? []).map((check) => ({ name: check.name.replaceAll("_", " "), status: check.ok ? "ok" : "fail", detail: check.detail ?? "" })),
    ...(checks.data?.items ?? []),
  ];
  return (
    <>
      <Head title="System">
        {may && <button type="button" className={css.button} disabled={checks.isFetching} onClick={() => void checks.refetch()}>{checks.isFetching ? "Checking…" : "Check again"}</button>}
        {system.data?.tokens && <button type="button" className={css.button} onClick={() => void leave()}>Sign out</button>}
      </Head>
      <Problem error={ready.error ?? checks.error} />
      <div className={css.stack}>
        <div className={`${css.card} ${css.scroll}`}>
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
        </div>
        <Facts facts={[
          ["Version", version.data && `${version.data.version}, API ${version.data.api}`], ["Store", version.data?.store], ["Shards", system.data?.shards],
          ["Nodes that are up", system.data?.nodes], ["The database's time", system.data?.now], ["Tokens", system.data && (system.data.tokens ? "needed" : "not needed")],
          ["You", me.data && `${me.data.actor}, ${me.data.role}${me.data.tenant ? `, of tenant ${me.data.tenant}` : ""}`],
          ["For programs", <span key="p">{["openapi.json", "metrics", "healthz", "readyz"].map((name) => <span key={name}><a href={config.base + name}>/{name}</a> </span>)}</span>],
        ]} />
      </div>
    </>
  );
}
