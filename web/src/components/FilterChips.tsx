import * as Popover from "@radix-ui/react-popover";
import { ChevronDown, X } from "lucide-react";
import { useState, type SyntheticEvent, type ReactNode } from "react";
import { cx } from "@/format/words";
import { Button } from "./Button";
import { EndKept } from "./Id";
import styles from "./FilterChips.module.css";

/** A filter that is set: its name and value, and a button that removes it. */
export function FilterChip({ name, value, onRemove }: { name: string; value: string; onRemove: () => void }) {
  return (
    <span className={cx(styles.chip, styles.set)}>
      <span className="quiet">{name}</span>
      <EndKept text={value} className="" />
      <button type="button" className={styles.remove} onClick={onRemove} aria-label={`Remove the filter ${name} ${value}`}>
        <X size={12} aria-hidden />
      </button>
    </span>
  );
}

/** A button that opens a few choices below it; a slim one is its icon alone. */
export function FilterMenu({
  label,
  icon,
  slim = false,
  children,
}: {
  label: string;
  icon?: ReactNode;
  slim?: boolean;
  children: (close: () => void) => ReactNode;
}) {
  const [open, setOpen] = useState(false);
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger className={styles.chip} title={slim ? label : undefined}>
        {icon}
        <span className={slim ? "visually-hidden" : "truncate"}>{label}</span>
        <ChevronDown size={12} aria-hidden />
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className={styles.menu} align="start" sideOffset={4} collisionPadding={8} aria-label={label}>
          {children(() => setOpen(false))}
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

interface ChoiceFilterProps<Value extends string> {
  label: string;
  values: readonly Value[];
  chosen: readonly Value[];
  onChange: (chosen: Value[]) => void;
  show?: (value: Value) => ReactNode;
  /** Instead of the label, which is still there for those who do not see it. */
  icon?: ReactNode;
}

/** A filter by some of several known values. */
export function ChoiceFilter<Value extends string>({
  label,
  values,
  chosen,
  onChange,
  show = (value) => value,
  icon,
}: ChoiceFilterProps<Value>) {
  const toggle = (value: Value): void => onChange(chosen.includes(value) ? chosen.filter((one) => one !== value) : [...chosen, value]);
  return (
    <FilterMenu label={label} icon={icon} slim={icon !== undefined}>
      {() => (
        <ul className={styles.choices}>
          {values.map((value) => (
            <li key={value}>
              <label className={styles.choice}>
                <input type="checkbox" checked={chosen.includes(value)} onChange={() => toggle(value)} />
                {show(value)}
              </label>
            </li>
          ))}
        </ul>
      )}
    </FilterMenu>
  );
}

/** A filter by a text that is typed. */
export function TextFilter({ label, placeholder, onSet }: { label: string; placeholder?: string; onSet: (value: string) => void }) {
  const [text, setText] = useState("");
  return (
    <FilterMenu label={label}>
      {(close) => (
        <form
          className={styles.typed}
          onSubmit={(event: SyntheticEvent) => {
            event.preventDefault();
            if (text.trim() !== "") onSet(text.trim());
            setText("");
            close();
          }}
        >
          <input
            className={styles.input}
            aria-label={label}
            placeholder={placeholder}
            value={text}
            onChange={(event) => setText(event.target.value)}
          />
          <Button type="submit" kind="primary">
            Filter
          </Button>
        </form>
      )}
    </FilterMenu>
  );
}
