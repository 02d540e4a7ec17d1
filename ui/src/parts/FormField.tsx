// A field of a form that stands for JSON (lib/form).
import { useState } from "react";
import { changed, type Field as FormFieldOf, isJson, shown } from "../lib/form";
import { Field } from "./Ask";
import { css } from "./parts";

/// All fields of a form, or the one that stands for the `whole`. What is typed changes the text, which is what is sent.
export function FormFields({ form, whole, text, onChange }: { form: FormFieldOf[]; whole: string; text: string; onChange: (text: string) => void }) {
  return <>{form.map((field) => <FormField key={field.name} label={field.name || whole} field={field} value={shown(text, field)} onChange={(typed) => onChange(changed(text, field, typed))} />)}</>;
}

function FormField({ label, field, value, onChange }: { label: string; field: FormFieldOf; value: string; onChange: (typed: string) => void }) {
  if (field.kind === "boolean") return <label className={css.check}><input type="checkbox" checked={value === "true"} onChange={(event) => onChange(String(event.target.checked))} /> {label} {field.hint && <small className={css.muted}>{field.hint}</small>}</label>;
  if (field.kind === "json") return <JsonField label={label} field={field} value={value} onChange={onChange} />;
  return (
    <Field label={label} hint={field.hint ?? (field.required ? undefined : "may be left empty")}>
      {field.kind === "choice"
        ? <select className={css.input} value={value} required={field.required} onChange={(event) => onChange(event.target.value)}><option value="" />{field.choices.map((one) => <option key={one}>{one}</option>)}</select>
        : <input className={css.input} value={value} required={field.required} inputMode={field.kind === "number" ? (field.whole ? "numeric" : "decimal") : undefined} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  );
}

/// What a form has no field for. What is typed is sent as soon as it is JSON.
function JsonField({ label, field, value, onChange }: { label: string; field: FormFieldOf; value: string; onChange: (typed: string) => void }) {
  const [typed, setTyped] = useState<string | null>(null);
  const isWrong = typed !== null && !isJson(typed) && typed.trim() !== "";
  return (
    <Field label={label} hint={`JSON${field.hint ? `; ${field.hint}` : field.required ? "" : "; may be left empty"}${isWrong ? "; this is none yet" : ""}`}>
      <textarea className={css.input} rows={3} value={typed ?? value} required={field.required} spellCheck={false} aria-invalid={isWrong}
        ref={(area) => area?.setCustomValidity(isWrong ? "not JSON yet" : "")}
        onChange={(event) => {
          setTyped(event.target.value);
          if (event.target.value.trim() === "" || isJson(event.target.value)) onChange(event.target.value);
        }} />
    </Field>
  );
}

/// A whole that is written as JSON. That it is none yet is said while it is typed, and not only when it is sent.
export function JsonText({ label, hint, text, onChange, ...area }: { label: string; hint?: string; text: string; onChange: (text: string) => void; disabled?: boolean; placeholder?: string }) {
  const isWrong = !area.disabled && !area.placeholder && !isJson(text);
  return (
    <Field label={label} hint={["JSON", hint, isWrong && "this is none yet"].filter(Boolean).join("; ")}>
      <textarea className={css.input} value={text} spellCheck={false} aria-invalid={isWrong} {...area} onChange={(event) => onChange(event.target.value)} />
    </Field>
  );
}
