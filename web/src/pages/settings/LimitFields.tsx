import { Field, Input } from "@/components/Form";
import { whole } from "@/format/numbers";
import { capitalized, spaced } from "@/format/words";
import { type LimitField, LIMITS, type LimitTexts, MAIL, QUOTAS } from "./limits";
import styles from "./Settings.module.css";

interface LimitFieldsProps {
  texts: LimitTexts;
  onChange: (texts: LimitTexts) => void;
  /** Why the server refused a field. */
  reason: (field: string) => string | undefined;
}

/** A field for each limit of a tenant; an empty one has its default. */
export function LimitFields({ texts, onChange, reason }: LimitFieldsProps) {
  const field = ({ path, label, hint }: LimitField, placeholder?: string) => (
    <Field key={path} label={label} {...(hint !== undefined && { hint })} error={reason(`limits.${path}`)}>
      {(control) => (
        <Input
          {...control}
          placeholder={placeholder}
          value={texts[path] ?? ""}
          onChange={(event) => onChange({ ...texts, [path]: event.target.value })}
        />
      )}
    </Field>
  );
  return (
    <>
      {LIMITS.map((limit) => field(limit))}
      <details className={styles.more}>
        <summary>Mail</summary>
        {MAIL.map((limit) => field(limit))}
      </details>
      <details className={styles.more}>
        <summary>Quotas</summary>
        {Object.entries(QUOTAS).map(([name, most]) => field({ path: `quotas.${name}`, label: capitalized(spaced(name)) }, whole(most)))}
      </details>
    </>
  );
}
