import { Field, Select } from "./Form";

const DURATIONS: readonly [label: string, seconds: number][] = [
  ["15 minutes", 900],
  ["1 hour", 3600],
  ["2 hours", 7200],
  ["8 hours", 28_800],
  ["24 hours", 86_400],
];

interface DurationFieldProps {
  /** What null means: "Until someone resumes it". */
  endless: string;
  seconds: number | null;
  onChange: (seconds: number | null) => void;
}

/** For how long Atlas is off, or something is paused. */
export function DurationField({ endless, seconds, onChange }: DurationFieldProps) {
  return (
    <Field label="For how long">
      {(control) => (
        <Select
          {...control}
          value={seconds ?? ""}
          onChange={(event) => onChange(event.target.value === "" ? null : Number(event.target.value))}
        >
          <option value="">{endless}</option>
          {DURATIONS.map(([label, value]) => (
            <option key={label} value={value}>
              {label}
            </option>
          ))}
        </Select>
      )}
    </Field>
  );
}
