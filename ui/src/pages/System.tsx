// The server itself: whether it can serve, what `doctor` says, which it is, who asks, and where programs look.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { api, authorization, data, signOut } from "../api/client";
import { config } from "../app/config";
import { useVersion } from "../app/Shell";
import { css, Head, Problem } from "../parts/parts";
import { Facts } from "../parts/RunTable";

export interface SystemCheck {
  name: string;
  state: "ok" | "warn" | "bad";
  detail: string;
  remedy?: string;
}

/// What `outlast doctor` looks at, where the API has it.
export function useChecks() {
  return useQuery({
    queryKey: ["system", "checks"],
    queryFn: async (): Promise<SystemCheck[] | null> => {
      const answer = await fetch(new URL(`${config.base}api/v1/system/checks`, location.href), { headers: authorization() });
      if (!answer.ok) return null;
      const said = (await answer.json()) as { items?: Record<string, unknown>[]; checks?: Record<string, unknown>[] };
      return (said.items ?? said.checks ?? []).map(read);
    },
    enabled: __HAS_CHECKS__,
    refetchInterval: 30_000,
    retry: false,
  });
}

/// A check as it is shown: what is neither `ok` nor a warning is bad.
function read(said: Record<string, unknown>): SystemCheck {
  const state = String(said.state ?? said.status ?? (said.ok ? "ok" : "bad"));
  return { name: String(said.name).replaceAll("_", " "), state: state === "ok" ? "ok" : state.startsWith("warn") ? "warn" : "bad", detail: String(said.detail ?? ""), remedy: said.remedy ? String(said.remedy) : undefined };
}

const LOOKS = { ok: ["green", "✓", "ok"], warn: ["amber", "!", "look"], bad: ["red", "✕", "not ok"] } as const;

function Verdict({ state }: { state: keyof typeof LOOKS }) {
  const [tone, icon, word] = LOOKS[state];
  return <span className={`${css.chip} ${css[tone]}`}><i aria-hidden="true">{icon}</i>{word}</span>;
}

export function SystemPage() {
  const client = useQueryClient();
  const version = useVersion();
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: 5000 });
  const me = useQuery({ queryKey: ["me"], queryFn: () => data(api.GET("/api/v1/me")) });
  const system = useQuery({ queryKey: ["system"], queryFn: () => data(api.GET("/api/v1/system")), refetchInterval: 10_000, retry: false });
  const checks = useChecks();
  const leave = async () => {
    await signOut();
    await client.invalidateQueries();
  };
  const all: SystemCheck[] = [
    ...(ready.data?.checks ?? []).map((check) => ({ name: check.name.replaceAll("_", " "), state: check.ok ? ("ok" as const) : ("bad" as const), detail: check.detail ?? "" })),
    ...(checks.data ?? []),
  ];
  return (
    <>
      <Head title="System">{system.data?.tokens && <button type="button" className={css.button} onClick={() => void leave()}>Sign out</button>}</Head>
      <Problem error={ready.error} />
      <div className={css.stack}>
        <div className={`${css.card} ${css.scroll}`}>
          <table className={css.table}>
            <thead><tr><th>Check</th><th>Verdict</th><th>Says</th></tr></thead>
            <tbody>
              {all.map((check) => (
                <tr key={check.name}>
                  <td className={css.nowrap}>{check.name}</td>
                  <td><Verdict state={check.state} /></td>
                  <td>{check.detail}{check.remedy && check.state !== "ok" && <span className={css.muted}> {check.remedy}</span>}</td>
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
