import * as Radix from "@radix-ui/react-dialog";
import { ArrowRight, Search } from "lucide-react";
import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { cx } from "@/format/words";
import { GateDialog, useGate } from "@/gate/gate";
import styles from "./Palette.module.css";
import { useIdItems, useNamedItems, wordsOf } from "./paletteItems";
import { usePaletteKey } from "./paletteKey";
import { type PaletteItem, usePalette } from "./paletteState";
import { ranked } from "./rank";
import { useShortcut } from "./shortcuts";

const MAX_SHOWN = 40;

/** The command palette: Ctrl-K or /. */
export function Palette() {
  const { open, setOpen } = usePalette();
  useShortcut("/", "Search", () => {
    const own = document.querySelector<HTMLInputElement>("[data-page-search]");
    if (own === null) setOpen(true);
    else own.focus();
  });
  usePaletteKey(() => setOpen(true));
  return (
    <>
      <Radix.Root open={open} onOpenChange={setOpen}>
        <Radix.Portal>
          <div className={styles.overlay} />
          <Radix.Content className={styles.palette} aria-describedby={undefined}>
            <Radix.Title className="visually-hidden">Find something</Radix.Title>
            {open && <Finder onDone={() => setOpen(false)} />}
          </Radix.Content>
        </Radix.Portal>
      </Radix.Root>
      <GatePrompt />
    </>
  );
}

function GatePrompt() {
  const { gate: asked, setGate } = usePalette();
  const { data: gate } = useGate();
  if (!asked || gate === undefined) return null;
  return <GateDialog online={!gate.online} onClose={() => setGate(false)} />;
}

function Finder({ onDone }: { onDone: () => void }) {
  const [typed, setTyped] = useState("");
  const [active, setActive] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const words = typed.trim();
  const byId = useIdItems(words);
  const named = useNamedItems();
  const items = [...byId, ...ranked(named, words, wordsOf)].slice(0, MAX_SHOWN);
  const at = Math.min(active, Math.max(0, items.length - 1));
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const choose = (item: PaletteItem | undefined): void => {
    if (item === undefined) return;
    onDone();
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1 };
    const next = moves[event.key];
    if (next !== undefined) {
      event.preventDefault();
      setActive((next + items.length) % Math.max(1, items.length));
    } else if (event.key === "Enter") {
      event.preventDefault();
      choose(items[at]);
    }
  };
  return (
    <>
      <div className={styles.typed}>
        <Search size={16} aria-hidden />
        <input
          role="combobox"
          aria-expanded
          aria-controls="palette-items"
          aria-activedescendant={items[at] === undefined ? undefined : `palette-${at}`}
          aria-label="Find a job, run, page or action"
          placeholder="Id prefix, name, page or action"
          value={typed}
          onKeyDown={onKeyDown}
          onChange={(event) => {
            setTyped(event.target.value);
            setActive(0);
          }}
        />
      </div>
      <div id="palette-items" ref={list} role="listbox" aria-label="Results" className={styles.items}>
        {items.map((item, index) => {
          const Icon = item.icon ?? ArrowRight;
          return (
            // The input has the focus and handles the keys.
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
            <div
              key={item.id}
              id={`palette-${index}`}
              role="option"
              aria-selected={index === at}
              className={cx(styles.item, index === at && styles.active)}
              onClick={() => choose(item)}
              onMouseMove={() => setActive(index)}
            >
              <Icon size={14} aria-hidden />
              <span className="truncate">{item.label}</span>
              {item.hint !== undefined && <span className={styles.hint}>{item.hint}</span>}
            </div>
          );
        })}
      </div>
      {items.length === 0 && (
        <p className={styles.none}>No results for “{words}”. Find a job or a run by its id, or by at least its first four characters.</p>
      )}
    </>
  );
}
