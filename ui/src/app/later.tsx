// Pages that are loaded when somebody opens them. Where the server is away then, the page says so inside of what is around it, and
// comes by itself when the server is back: the router's own way would load the whole document anew, and leave people with the
// browser's page about a server that cannot be reached.
import { type ComponentType, useEffect, useState } from "react";
import { css, Note } from "../parts/parts";
import { config } from "./config";
import { useLiveState } from "./live";

/// A page that `load` brings, under this name.
export function later<Name extends string>(load: () => Promise<Record<Name, ComponentType>>, name: Name) {
  let Page: ComponentType | undefined;
  /// Whether it is there now. Nothing is thrown: whoever only points at a link must not cause an error.
  const preload = async (): Promise<boolean> => {
    try {
      Page ??= (await load())[name];
    } catch {
      // It is asked for again when somebody wants to see it.
    }
    return Page !== undefined;
  };
  function Later() {
    const [isThere, setThere] = useState(Page !== undefined);
    return isThere && Page ? <Page /> : <Away load={preload} onLoad={() => setThere(true)} />;
  }
  return Object.assign(Later, { preload: async () => void (await preload()) });
}

function Away({ load, onLoad }: { load: () => Promise<boolean>; onLoad: () => void }) {
  const [isBusy, setBusy] = useState(true);
  const live = useLiveState();
  const retry = async () => {
    setBusy(true);
    if (await load()) return onLoad();
    // Some browsers remember that a script could not be had, for as long as the document stays: a new one helps, once there is a server.
    if (await answers()) location.reload();
    setBusy(false);
  };
  useEffect(() => {
    void retry();
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [live]);
  if (isBusy) return <div className={css.empty} role="status">Loading…</div>;
  return (
    <div role="alert">
      <Note tone="red">
        <strong>✕</strong> <span>The server cannot be reached: this page comes as soon as it is back.</span>
        <button type="button" className={`${css.button} ${css.small}`} onClick={() => void retry()}>Try again</button>
      </Note>
    </div>
  );
}

/// Whether the server is there: a document that is asked for while it is not is lost.
async function answers(): Promise<boolean> {
  try {
    return (await fetch(`${config.base}version`, { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}
