// A payload of a run. Of a long one the server sends how it begins; the rest is a file. Where there is a decoder, somebody can have
// it decoded by a click, and not before: nothing is sent elsewhere by itself.
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { decode, usable } from "../lib/codec";
import { type Json, parse, write } from "../lib/json";
import { fileOf, type Preview, previewOf, wholeOf } from "../lib/payload";
import { size, sizeOf } from "../lib/size";
import { JsonView } from "./JsonView";
import { Copy, css, Problem } from "./parts";

interface Props {
  run: string;
  /// Which of its payloads: input, output, entry:12, step:charge.
  of: string;
  name: string;
  value: unknown;
  /// Where it is longer than what comes with a run.
  preview?: Preview;
}

export function Payload({ run, of, name, value, preview }: Props) {
  const more = useQuery({ ...previewOf(run, of), enabled: preview !== undefined });
  const known = preview && (more.data ?? preview);
  return (
    <Decodable key={`${run} ${of}`} text={() => (preview ? wholeOf(run, of) : write(value))} name={name}>
      <Problem error={preview && more.error} />
      {!known ? <JsonView value={value} name={name} />
        : known.truncated ? <Beginning preview={known} name={name} href={fileOf(run, of)} />
        : <JsonView value={parse(known.text)} name={name} />}
    </Decodable>
  );
}

/// What a long one begins with: it is no JSON that could be shown as a tree.
function Beginning({ preview: { text, size: whole }, name, href }: { preview: Preview; name: string; href: string }) {
  return (
    <div>
      <div className={css.jsonBar}>
        <a className={css.bare} href={href} download>download {size(whole)}</a>
        <Copy text={text} name={`the beginning of ${name}`} />
      </div>
      <div className={css.json} data-wrap tabIndex={0} role="region" aria-label={name}><pre>{text}</pre></div>
      <p className={css.muted}>The first {size(sizeOf(text))} of {size(whole)} are shown: download it for the rest.</p>
    </div>
  );
}

function Decodable({ text, name, children }: { text: () => string | Promise<string>; name: string; children: React.ReactNode }) {
  const codec = usable();
  const [decoded, setDecoded] = useState<{ value: Json } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  if (!codec) return <>{children}</>;
  const ask = async () => {
    setBusy(true);
    setError(null);
    try {
      setDecoded({ value: await decode(codec, await text()) });
    } catch (found) {
      setError(found);
    }
    setBusy(false);
  };
  return (
    <div>
      <div className={css.decoder}>
        {decoded
          ? <><span className={css.muted}>Decoded by {new URL(codec.url).host}.</span> <button type="button" className={css.bare} onClick={() => setDecoded(null)}>as recorded</button></>
          : <button type="button" className={css.bare} disabled={busy} aria-label={`Decode ${name}`} onClick={() => void ask()}>{busy ? "…" : "decode"}</button>}
      </div>
      <Problem error={error} />
      {decoded ? <JsonView value={decoded.value} name={`${name}, decoded`} /> : children}
    </div>
  );
}
