import { Check, Copy } from "lucide-react";
import { useEffect, useState, type MouseEvent } from "react";
import { cx, shortId } from "@/format/words";
import styles from "./Id.module.css";

const SHOWN_MS = 1500;
/** What is not longer is shown whole. */
const SHORT = 13;

/** An id, shortened in its middle and whole on hover; a click on the icon copies it. */
export function Id({ value, whole = false }: { value: string; whole?: boolean }) {
  return (
    <span className={styles.id} title={value}>
      {whole || value.length <= SHORT ? <EndKept text={value} /> : <span className={cx(styles.short, "mono")}>{shortId(value)}</span>}
      <CopyButton text={value} label={`Copy ${value}`} />
    </span>
  );
}

const KEPT = 8;
const ASCII = /^[ -~]*$/;

/** A name of which the end tells it apart: where there is no room, it is cut before that, and whole on hover. */
export function EndKept({ text, className = "mono" }: { text: string; className?: string | undefined }) {
  // Letters that join, or run from right to left, cannot be taken apart.
  if (!ASCII.test(text)) return <span className={cx("truncate", className)}>{text}</span>;
  const at = Math.max(0, text.length - KEPT);
  return (
    <span className={cx(styles.kept, className)} title={text}>
      <span className="truncate" title={text}>
        {text.slice(0, at)}
      </span>
      <span data-end>{text.slice(at)}</span>
    </span>
  );
}

/** Copies a text, and shows briefly that it did. Beside each of many ids it is no stop of the Tab key. */
export function CopyButton({ text, label, tabStop = false }: { text: string; label: string; tabStop?: boolean }) {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  const copy = (event: MouseEvent): void => {
    // The row below may open something on a click.
    event.stopPropagation();
    event.preventDefault();
    void copyText(text).then(() => setCopied(true));
  };
  return (
    <button
      type="button"
      className={cx(styles.copy, copied && styles.copied)}
      onClick={copy}
      aria-label={copied ? "Copied" : label}
      tabIndex={tabStop ? 0 : -1}
    >
      {copied ? <Check size={12} aria-hidden /> : <Copy size={12} aria-hidden />}
    </button>
  );
}

/** Pages without TLS have no clipboard of the browser's: there a selection is copied. */
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "visually-hidden";
  document.body.append(field);
  field.select();
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- there is no other way without TLS
  document.execCommand("copy");
  field.remove();
}
