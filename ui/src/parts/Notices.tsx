// What somebody should look at, while it is so. Whoever listens hears of each once, when it comes: its numbers change and its times tick, and nobody
// wants to be told every second.
import { type ReactNode, useEffect, useRef, useState } from "react";
import { css } from "./parts";

export interface Notice {
  /// What it is about: as long as that is among them it is the same one, whatever it says by now.
  key: string;
  note: ReactNode;
}

/// By then it has been heard, and whoever reads on finds it where it is shown.
const HEARD = 5000;

export function Notices({ items, label, id, className }: { items: Notice[]; label?: string; id?: string; className?: string }) {
  const box = useRef<HTMLDivElement>(null);
  const known = useRef<ReadonlySet<string>>(new Set());
  const [told, setTold] = useState("");
  const keys = items.map((one) => one.key);
  useEffect(() => {
    const fresh = keys.flatMap((key, nth) => (known.current.has(key) ? [] : (box.current?.children[nth]?.textContent ?? [])));
    known.current = new Set(keys);
    if (fresh.length) setTold(fresh.join(" "));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [keys.join("\n")]);
  useEffect(() => {
    if (!told) return;
    const timer = setTimeout(() => setTold(""), HEARD);
    return () => clearTimeout(timer);
  }, [told]);
  return (
    <>
      {items.length > 0 && <div className={className} id={id} ref={box} role="status" aria-live="off" aria-label={label}>{items.map(({ key, note }) => <div key={key}>{note}</div>)}</div>}
      <span className={css.hidden} aria-live="polite">{told}</span>
    </>
  );
}
