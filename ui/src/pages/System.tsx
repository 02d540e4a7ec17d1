// The server itself: whether it can serve, which it is, who asks, and where programs look.
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import { config } from "../app/config";
import { useVersion } from "../app/Shell";
import { css, Head, Problem } from "../parts/parts";

export function SystemPage() {
  const version = useVersion();
  const ready = useQuery({ queryKey: ["ready"], queryFn: () => data(api.GET("/readyz")), refetchInterval: 5000 });
  const me = useQuery({ queryKey: ["me"], queryFn: () => data(api.GET("/api/v1/me")) });
  return (
    <>
      <Head title="System" />
      <Problem error={ready.error} />
      <div className={css.card}>
        <table className={css.table}>
          <tbody>
            {ready.data?.checks.map((check) => (
              <tr key={check.name}>
                <th scope="row">{check.name.replace("_", " ")}</th>
                <td><span className={`${css.chip} ${check.ok ? css.green : css.red}`}><i aria-hidden="true">{check.ok ? "✓" : "✕"}</i>{check.ok ? "ok" : "not ok"}</span> {check.detail}</td>
              </tr>
            ))}
            <tr><th scope="row">version</th><td>{version.data?.version}, API {version.data?.api}</td></tr>
            <tr><th scope="row">store</th><td>{version.data?.store}</td></tr>
            <tr><th scope="row">you</th><td>{me.data && <>{me.data.actor}, {me.data.role}{me.data.tenant ? `, of tenant ${me.data.tenant}` : ""}</>}</td></tr>
            <tr>
              <th scope="row">for programs</th>
              <td>{["openapi.json", "metrics", "healthz", "readyz"].map((name) => <span key={name}><a href={config.base + name}>/{name}</a> </span>)}</td>
            </tr>
          </tbody>
        </table>
      </div>
    </>
  );
}
