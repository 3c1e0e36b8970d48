import { ChevronDown, ChevronRight } from "lucide-react";
import { useState } from "react";
import { exactTime } from "@/format/time";
import { visible } from "@/format/visible";
import { cx } from "@/format/words";
import { CopyButton } from "./Id";
import styles from "./JsonView.module.css";
import { Moment } from "./Time";

/** Longer texts and lists are cut until they are asked for: a job's input may have a megabyte. */
const LONG_TEXT = 400;
const MAX_TEXT = 100_000;
const PAGE = 100;
/** So many levels are open at first. */
const OPEN_LEVELS = 2;

/** Any JSON value as a tree that can be folded. Everything is shown as text, whatever it contains. */
export function JsonView({ value, label }: { value: unknown; label: string }) {
  const text = JSON.stringify(value ?? null, null, 2);
  return (
    <div className={styles.view} role="group" aria-label={label}>
      <div className={styles.copy}>
        <CopyButton text={text} label={`Copy ${label}`} />
      </div>
      <Node value={value} level={0} />
    </div>
  );
}

function Node({ name, value, level }: { name?: string; value: unknown; level: number }) {
  if (typeof value === "object" && value !== null) return <Branch name={name} value={value} level={level} />;
  return (
    <div className={styles.line}>
      <Name name={name} />
      <Leaf value={value} />
    </div>
  );
}

function Branch({ name, value, level }: { name: string | undefined; value: object; level: number }) {
  const [open, setOpen] = useState(level < OPEN_LEVELS);
  const [count, setCount] = useState(PAGE);
  const isList = Array.isArray(value);
  const entries = Object.entries<unknown>(value as Record<string, unknown>);
  const [begin, end] = isList ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) {
    return (
      <div className={styles.line}>
        <Name name={name} />
        <span className={styles.quiet}>{begin + end}</span>
      </div>
    );
  }
  return (
    <div>
      <button type="button" className={cx(styles.line, styles.toggle)} aria-expanded={open} onClick={() => setOpen(!open)}>
        {open ? <ChevronDown size={12} aria-hidden /> : <ChevronRight size={12} aria-hidden />}
        <Name name={name} />
        <span className={styles.quiet}>{open ? begin : `${begin} ${entries.length} ${isList ? "items" : "fields"} ${end}`}</span>
      </button>
      {open && (
        <div className={styles.inner}>
          {entries.slice(0, count).map(([key, inner]) => (
            <Node key={key} name={key} value={inner} level={level + 1} />
          ))}
          {entries.length > count && (
            <button type="button" className={styles.more} onClick={() => setCount(count + PAGE * 10)}>
              Show more of {entries.length}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

function Name({ name }: { name: string | undefined }) {
  return name === undefined ? null : <span className={styles.name}>{name}: </span>;
}

function Leaf({ value }: { value: unknown }) {
  if (typeof value === "string") return <Text value={value} />;
  return (
    <span className={cx(value === null ? styles.quiet : typeof value === "number" ? styles.number : styles.boolean)}>{String(value)}</span>
  );
}

function Text({ value }: { value: string }) {
  const [whole, setWhole] = useState(false);
  const long = value.length > LONG_TEXT;
  const shown = !long ? value : value.slice(0, whole ? MAX_TEXT : LONG_TEXT);
  return (
    <span className={styles.text}>
      {`"${shown}`}
      {shown.length < value.length ? "…" : '"'}
      {long && (
        <button type="button" className={styles.more} onClick={() => setWhole(!whole)}>
          {whole ? "Show less" : `Show all ${value.length.toLocaleString("en")} characters`}
        </button>
      )}
    </span>
  );
}

interface TextViewProps {
  text: string;
  label: string;
  /** A log: the time at the beginning of a line is shown in this browser's zone, and in UTC on hover. */
  timed?: boolean;
}

/** A log, a traceback or another long text, as it is. */
export function TextView({ text, label, timed = false }: TextViewProps) {
  const shown = visible(text.slice(0, MAX_TEXT));
  return (
    // A scrolling region can be reached by the keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className={styles.pre} role="region" aria-label={label} tabIndex={0}>
      {timed ? <TimedLines text={shown} /> : shown}
      {text.length > MAX_TEXT && "…"}
    </pre>
  );
}

/** How a line of an attempt's log begins: 2026-11-17T01:47:00.123Z. */
const LINE_TIME = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z)(?= )/gm;

function TimedLines({ text }: { text: string }) {
  // Every second part is a time.
  return text.split(LINE_TIME).map((part, index) =>
    index % 2 === 0 || Number.isNaN(Date.parse(part)) ? (
      part
    ) : (
      <Moment key={index} at={part}>
        {exactTime(new Date(part))}
      </Moment>
    ),
  );
}
