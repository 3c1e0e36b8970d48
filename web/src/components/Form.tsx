import { useId, type ComponentProps, type ReactNode } from "react";
import { cx } from "@/format/words";
import { useReason } from "./formProblem";
import styles from "./Form.module.css";

interface FieldProps {
  label: string;
  /** What belongs in it. */
  hint?: ReactNode;
  /** What the API calls it: the reason why the form was refused stands below the field that it is about. */
  name?: string | undefined;
  /** Why it was refused, unless the API says so. */
  error?: string | undefined;
  required?: boolean | undefined;
  /** Gets the ids that connect the control with its label, hint and error. */
  children: (control: { id: string; "aria-describedby": string | undefined; "aria-invalid": boolean; required: boolean }) => ReactNode;
}

/** A label, a control, a hint and the reason why the value was refused. */
export function Field({ label, hint, name, error: wrong, required = false, children }: FieldProps) {
  const id = useId();
  const reason = useReason(name);
  const error = wrong ?? reason;
  const about = [hint !== undefined && `${id}-hint`, error !== undefined && `${id}-error`].filter(Boolean).join(" ");
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={styles.label}>
        {label}
        {required && <span className="quiet"> required</span>}
      </label>
      {children({ id, "aria-describedby": about === "" ? undefined : about, "aria-invalid": error !== undefined, required })}
      {hint !== undefined && (
        <p id={`${id}-hint`} className={styles.hint}>
          {hint}
        </p>
      )}
      {error !== undefined && (
        <p id={`${id}-error`} className={styles.error}>
          {error}
        </p>
      )}
    </div>
  );
}

export function Input({ className, ...rest }: ComponentProps<"input">) {
  return <input className={cx(styles.input, className)} autoComplete="off" spellCheck={false} {...rest} />;
}

type TextFieldProps = Omit<FieldProps, "children"> & Omit<ComponentProps<"input">, "onChange"> & { onChange: (text: string) => void };

/** A field for a line of text or a number. */
export function TextField({ label, hint, name, error, required, onChange, ...rest }: TextFieldProps) {
  return (
    <Field label={label} hint={hint} name={name} error={error} required={required}>
      {(control) => <Input {...control} {...rest} onChange={(event) => onChange(event.target.value)} />}
    </Field>
  );
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return <textarea className={cx(styles.area, className)} rows={4} spellCheck={false} {...rest} />;
}

export function Select({ className, children, ...rest }: ComponentProps<"select">) {
  return (
    <select className={cx(styles.input, styles.select, className)} {...rest}>
      {children}
    </select>
  );
}

export function Checkbox({ label, ...rest }: ComponentProps<"input"> & { label: ReactNode }) {
  return (
    <label className={styles.check}>
      <input type="checkbox" {...rest} />
      {label}
    </label>
  );
}

/** An on/off switch whose state is also a word beside it. */
export function Switch({
  on,
  onChange,
  label,
  disabled = false,
  large = false,
}: {
  on: boolean;
  onChange: (on: boolean) => void;
  label: string;
  disabled?: boolean;
  large?: boolean;
}) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={on}
      aria-label={label}
      disabled={disabled}
      className={cx(styles.switch, large && styles.large)}
      onClick={() => onChange(!on)}
    >
      <span className={styles.knob} />
    </button>
  );
}
