// What lies over the page until it is answered or left: every dialog, and the palette. The browser's own element keeps the focus inside.
import { type AriaAttributes, type ReactNode, type SyntheticEvent, useEffect, useRef } from "react";
import { css } from "./parts";

export function Modal({ onClose, children, ...named }: { onClose: () => void; children: ReactNode } & AriaAttributes) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    // The browser scrolls to what it gives the focus to, which may be the last line.
    dialog.current?.scrollTo(0, 0);
    // A dialog that is taken away takes the focus along.
    return () => {
      if (document.activeElement === document.body && before?.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  // Esc takes it away at once, as its buttons do. Left to the browser, it would be shut now and gone after the next event, and whoever
  // opens it again in between would see it go.
  const leave = (event: SyntheticEvent) => {
    event.preventDefault();
    onClose();
  };
  return <dialog ref={dialog} className={css.dialog} onCancel={leave} onClose={onClose} {...named}>{children}</dialog>;
}
