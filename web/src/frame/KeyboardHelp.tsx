import { Dialog } from "@/components/Dialog";
import styles from "./Palette.module.css";
import { usePalette } from "./Palette";
import { useShortcut, useShortcutList } from "./shortcuts";

const ALWAYS: readonly [keys: string, label: string][] = [
  ["Ctrl K", "Command palette"],
  ["Esc", "Close what is open"],
];

/** Lists the shortcuts that work on this page; ? opens it. */
export function KeyboardHelp() {
  const { help, setHelp } = usePalette();
  useShortcut("?", "This list", () => setHelp(true));
  return (
    <Dialog open={help} onClose={() => setHelp(false)} title="Keyboard shortcuts">
      {help && <List />}
    </Dialog>
  );
}

function List() {
  const shortcuts = useShortcutList();
  const rows = [...ALWAYS, ...shortcuts.map((one) => [one.keys, one.label] as const)];
  return (
    <dl className={styles.shortcuts}>
      {rows.map(([keys, label]) => (
        <div key={keys}>
          <dt>
            {keys.split(" ").map((key) => (
              <kbd key={key}>{key}</kbd>
            ))}
          </dt>
          <dd>{label}</dd>
        </div>
      ))}
    </dl>
  );
}
