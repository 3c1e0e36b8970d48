import { TextField } from "@/components/Form";
import { whole } from "@/format/numbers";
import { capitalized, spaced } from "@/format/words";
import { type LimitField, LIMITS, type LimitTexts, MAIL, QUOTAS } from "./limits";
import styles from "./Settings.module.css";

interface LimitFieldsProps {
  texts: LimitTexts;
  onChange: (texts: LimitTexts) => void;
}

/** A field for each limit of a tenant; an empty one has its default. */
export function LimitFields({ texts, onChange }: LimitFieldsProps) {
  const field = ({ path, label, hint }: LimitField, placeholder?: string) => (
    <TextField
      key={path}
      name={`limits.${path}`}
      label={label}
      hint={hint}
      placeholder={placeholder}
      value={texts[path] ?? ""}
      onChange={(text) => onChange({ ...texts, [path]: text })}
    />
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
