// Dialogs: what is asked before something is changed.
import { type FormEvent, type ReactNode, useId, useRef, useState } from "react";
import { once, type Once } from "../api/client";
import { Modal } from "./Modal";
import { css, Problem } from "./parts";

interface Asked {
  title: string;
  /// The word on the button that does it.
  action: string;
  danger?: boolean;
  disabled?: boolean;
  /// It only tells something: there is nothing to decline.
  isNote?: boolean;
  children?: ReactNode;
  /// What it posts it posts by this, so that nothing is done twice.
  onDo: (once: Once) => Promise<unknown>;
  onClose: () => void;
}

export function Ask({ title, action, danger, disabled, isNote, children, onDo, onClose }: Asked) {
  const heading = useId();
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const [own] = useState(once);
  // A second click may come before the button is drawn as busy.
  const isDoing = useRef(false);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (isDoing.current) return;
    isDoing.current = true;
    setBusy(true);
    setError(null);
    try {
      await onDo(own);
      onClose();
    } catch (found) {
      setError(found);
      setBusy(false);
      isDoing.current = false;
    }
  };
  return (
    <Modal aria-labelledby={heading} onClose={onClose}>
      <form onSubmit={(event) => void submit(event)}>
        <h2 id={heading}>{title}</h2>
        {children}
        <Problem error={error} />
        <div className={css.foot}>
          {!isNote && <button type="button" className={css.button} onClick={onClose}>Not now</button>}
          <button type="submit" className={`${css.button} ${danger ? css.danger : css.primary}`} disabled={busy || disabled}>
            {busy ? "…" : action}
          </button>
        </div>
      </form>
    </Modal>
  );
}

export function Field({ label, hint, children }: { label: string; hint?: string; children: ReactNode }) {
  return (
    <label className={css.field}>
      <span>{label}{hint && <small> {hint}</small>}</span>
      {children}
    </label>
  );
}

/// Why: for the run, for whoever looks later, and for the audit log.
export function ReasonField({ value, onChange, required }: { value: string; onChange: (text: string) => void; required?: boolean }) {
  return (
    <Field label="Reason" hint={required ? "(needed)" : "(kept)"}>
      <input className={css.input} value={value} required={required} maxLength={200} onChange={(event) => onChange(event.target.value)} />
    </Field>
  );
}
