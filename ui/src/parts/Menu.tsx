// A menu below a button. It closes when somebody presses Esc, chooses something, or points anywhere else, and gives the focus back
// to its button: whoever uses the keyboard goes on from where they were. The arrows walk along it.
import { type KeyboardEvent, type MouseEvent, type ReactNode, useEffect, useRef } from "react";
import { css } from "./parts";

/// `onOpen` is told when it is opened and when it is closed.
export function Menu({ label, name, onOpen, children }: { label: ReactNode; name: string; onOpen?: (isOpen: boolean) => void; children: ReactNode }) {
  const details = useRef<HTMLDetailsElement>(null);
  const close = () => {
    const menu = details.current;
    if (!menu?.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
  };
  useEffect(() => {
    const away = (event: Event) => {
      const isMeant = event.type === "pointerdown" || (event as globalThis.KeyboardEvent).key === "Escape";
      if (isMeant && details.current && !details.current.contains(event.target as Node)) details.current.open = false;
    };
    document.addEventListener("pointerdown", away);
    document.addEventListener("keydown", away);
    return () => {
      document.removeEventListener("pointerdown", away);
      document.removeEventListener("keydown", away);
    };
  }, []);
  const press = (event: KeyboardEvent) => {
    const menu = details.current!;
    const items = [...menu.querySelectorAll<HTMLElement>(":scope > div button, :scope > div input")];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? items.length - 1 : at - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape" && menu.open) close();
    else if (to !== undefined && (menu.open || event.key.startsWith("Arrow"))) {
      menu.open = true;
      items[(to + items.length) % items.length]?.focus();
    } else return;
    event.preventDefault();
  };
  /// What was chosen may ask something: when that is answered the focus comes back here.
  const chosen = (event: MouseEvent) => (event.target as HTMLElement).closest("button") && close();
  return (
    <details className={css.menu} ref={details} onKeyDown={press} onToggle={(event) => onOpen?.(event.currentTarget.open)}>
      <summary className={css.button} aria-label={name}>{label} ▾</summary>
      <div onClick={chosen}>{children}</div>
    </details>
  );
}
