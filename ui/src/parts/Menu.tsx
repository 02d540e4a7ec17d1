// A menu below a button. It closes when somebody presses Esc, or points anywhere else.
import { type ReactNode, type RefObject, useEffect, useRef } from "react";
import { css } from "./parts";

export function Menu({ label, name, children, menu }: { label: ReactNode; name: string; children: ReactNode; menu?: RefObject<HTMLDetailsElement | null> }) {
  const own = useRef<HTMLDetailsElement>(null);
  const details = menu ?? own;
  useEffect(() => {
    const away = (event: Event) => {
      const open = details.current;
      if (open && (event.type === "keydown" ? (event as KeyboardEvent).key === "Escape" : !open.contains(event.target as Node))) open.open = false;
    };
    document.addEventListener("pointerdown", away);
    document.addEventListener("keydown", away);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("keydown", away);
    };
  }, [details]);
  return (
    <details className={css.menu} ref={details}>
      <summary className={css.button} aria-label={name}>{label} ▾</summary>
      <div>{children}</div>
    </details>
  );
}
