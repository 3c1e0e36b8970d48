import { useMemo, useState, type SyntheticEvent } from "react";
import { serverNow } from "@/format/clock";
import { clockTime, exactTime, timeSpan } from "@/format/time";
import { Button } from "./Button";
import { FilterChip, FilterMenu } from "./FilterChips";
import { TextField } from "./Form";
import { useMinute } from "./Time";
import { type Bounds, boundsOf, isSet, NO_RANGE, SPAN_NAMES, SPANS, type TimeRange } from "./timeRange";
import styles from "./TimeRangeFilter.module.css";

interface TimeRangeProps {
  onChange: (range: TimeRange) => void;
  /** What is shown where no range is set. */
  unset: string;
}

/** The range of time of a page: chosen here or on a chart, kept in the address. */
export function TimeRangeFilter({ range, unset, onChange }: TimeRangeProps & { range: TimeRange }) {
  return (
    <>
      {isSet(range) && <FilterChip name="Time" value={rangeText(range)} onRemove={() => onChange(NO_RANGE)} />}
      <TimeRangeMenu unset={isSet(range) ? "Change" : unset} onChange={onChange} />
    </>
  );
}

/** The range as it was when it was chosen, for a list that follows what is new by itself. */
export function useFixedBounds({ last, since, until }: TimeRange): Bounds {
  const now = useMinute();
  const name = JSON.stringify([last, since, until]);
  const [kept, setKept] = useState({ name, now });
  if (kept.name !== name) setKept({ name, now });
  const at = kept.name === name ? kept.now : now;
  return useMemo(() => boundsOf({ last, since, until }, at), [last, since, until, at]);
}

/** Sets a range: one that ends now, or two times. */
export function TimeRangeMenu({ unset, onChange }: TimeRangeProps) {
  return (
    <FilterMenu label={unset}>
      {(close) => {
        const set = (range: TimeRange): void => {
          onChange(range);
          close();
        };
        return (
          <>
            <ul>
              {SPAN_NAMES.map((last) => (
                <li key={last}>
                  <button type="button" className={styles.span} onClick={() => set({ ...NO_RANGE, last })}>
                    {SPANS[last].label}
                  </button>
                </li>
              ))}
            </ul>
            <FromTo onSet={set} />
          </>
        );
      }}
    </FilterMenu>
  );
}

function FromTo({ onSet }: { onSet: (range: TimeRange) => void }) {
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const reversed = from !== "" && to !== "" && from >= to;
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (reversed || (from === "" && to === "")) return;
    onSet({ last: undefined, since: utc(from), until: utc(to) });
  };
  return (
    <form className={styles.form} onSubmit={submit}>
      <TextField label="From" type="datetime-local" max={local(new Date(serverNow()))} value={from} onChange={setFrom} />
      <TextField label="To" error={reversed ? "Must be after the start." : undefined} type="datetime-local" value={to} onChange={setTo} />
      <Button type="submit" kind="primary" disabled={reversed || (from === "" && to === "")}>
        Show
      </Button>
    </form>
  );
}

function rangeText({ last, since, until }: TimeRange): string {
  if (last !== undefined) return SPANS[last].label.toLowerCase();
  if (since !== undefined && until !== undefined) return timeSpan(new Date(since), new Date(until));
  return since !== undefined ? `since ${clockTime(new Date(since))}` : `until ${clockTime(new Date(until ?? ""))}`;
}

/** A local time as its field has it, or none. */
function utc(typed: string): string | undefined {
  return typed === "" ? undefined : new Date(typed).toISOString();
}

function local(at: Date): string {
  return exactTime(at).slice(0, 16).replace(" ", "T");
}
