import { Link } from "@tanstack/react-router";
import { Dialog } from "@/components/Dialog";
import styles from "./Palette.module.css";
import { usePalette } from "./paletteState";
import { type Shortcut, useShortcut, useShortcutList } from "./shortcuts";

type Keys = Pick<Shortcut, "keys" | "label">;

const ALWAYS: readonly Keys[] = [
  { keys: "Ctrl K", label: "Command palette" },
  { keys: "Esc", label: "Close the open dialog or panel" },
];
const ROWS = ["j", "k", "Enter", "o", "x"];
const EVERYWHERE = ["/", "?"];

/** Lists the shortcuts that work on this page; ? opens it. */
export function KeyboardHelp() {
  const { help, setHelp } = usePalette();
  useShortcut("?", "Keyboard shortcuts", () => setHelp(true));
  return (
    <Dialog open={help} onClose={() => setHelp(false)} title="Keyboard shortcuts" wide>
      {help && <Groups onLeave={() => setHelp(false)} />}
    </Dialog>
  );
}

function Groups({ onLeave }: { onLeave: () => void }) {
  const known = useShortcutList();
  const some = (belongs: (keys: string) => boolean): Keys[] => known.filter((shortcut) => belongs(shortcut.keys));
  const groups: [title: string, shortcuts: readonly Keys[]][] = [
    ["Everywhere", [...ALWAYS, ...some((keys) => EVERYWHERE.includes(keys))]],
    ["Rows of this page", some((keys) => ROWS.includes(keys))],
    ["On this page", some((keys) => !ROWS.includes(keys) && !EVERYWHERE.includes(keys) && !keys.startsWith("g "))],
    ["Pages", some((keys) => keys.startsWith("g "))],
  ];
  return (
    <div className={styles.groups}>
      {groups.map(([title, shortcuts]) => shortcuts.length > 0 && <Group key={title} title={title} shortcuts={shortcuts} />)}
      <p className={styles.guide}>
        New here?{" "}
        <Link to="/first-run" onClick={onLeave}>
          Take the guided first run
        </Link>
        .
      </p>
    </div>
  );
}

function Group({ title, shortcuts }: { title: string; shortcuts: readonly Keys[] }) {
  return (
    <section aria-label={title}>
      <h3>{title}</h3>
      <dl className={styles.shortcuts}>
        {shortcuts.map(({ keys, label }) => (
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
    </section>
  );
}
