import * as Radix from "@radix-ui/react-dialog";
import { useNavigate } from "@tanstack/react-router";
import { ArrowRight, LayoutList, Search, Workflow, type LucideIcon } from "lucide-react";
import { createContext, use, useEffect, useMemo, useState, type KeyboardEvent, type ReactNode } from "react";
import { cx } from "@/format/words";
import { PLACES } from "@/navigation";
import { useSession } from "@/session/session";
import styles from "./Palette.module.css";
import { useShortcut } from "./shortcuts";

/** Something that the palette finds: a page, a thing by its id, an action. */
export interface PaletteItem {
  id: string;
  label: string;
  hint?: string;
  icon?: LucideIcon;
  run: () => unknown;
}

/** Finds items for what was typed; pages and parts of the frame add their own. */
export type PaletteSource = (typed: string) => PaletteItem[];

interface PaletteState {
  open: boolean;
  setOpen: (open: boolean) => void;
  help: boolean;
  setHelp: (help: boolean) => void;
  sources: Set<PaletteSource>;
}

const PaletteContext = createContext<PaletteState | null>(null);
const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const MOST_SHOWN = 12;

export function PaletteProvider({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const [sources] = useState(() => new Set<PaletteSource>());
  const state = useMemo(() => ({ open, setOpen, help, setHelp, sources }), [open, help, sources]);
  return <PaletteContext value={state}>{children}</PaletteContext>;
}

export function usePalette(): PaletteState {
  const state = use(PaletteContext);
  if (state === null) throw new Error("The palette is there within the frame only.");
  return state;
}

/** Adds what a page can find or do to the palette while the page is shown. The source should be stable: useCallback. */
export function usePaletteSource(source: PaletteSource): void {
  const { sources } = usePalette();
  useEffect(() => {
    sources.add(source);
    return () => {
      sources.delete(source);
    };
  }, [sources, source]);
}

/** The command palette: Ctrl-K or /. */
export function Palette() {
  const { open, setOpen } = usePalette();
  useShortcut("/", "Search", () => {
    const own = document.querySelector<HTMLInputElement>("[data-page-search]");
    if (own === null) setOpen(true);
    else own.focus();
  });
  useEffect(() => {
    const onKeyDown = (event: globalThis.KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      setOpen(true);
    };
    document.addEventListener("keydown", onKeyDown);
    return () => document.removeEventListener("keydown", onKeyDown);
  }, [setOpen]);
  return (
    <Radix.Root open={open} onOpenChange={setOpen}>
      <Radix.Portal>
        <div className={styles.overlay} />
        <Radix.Content className={styles.palette} aria-describedby={undefined}>
          <Radix.Title className="visually-hidden">Find something</Radix.Title>
          {open && <Finder onDone={() => setOpen(false)} />}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function Finder({ onDone }: { onDone: () => void }) {
  const { sources } = usePalette();
  const [typed, setTyped] = useState("");
  const [active, setActive] = useState(0);
  const own = useOwnItems(typed.trim());
  const items = [...own, ...[...sources].flatMap((source) => source(typed.trim()))].slice(0, MOST_SHOWN);
  const at = Math.min(active, Math.max(0, items.length - 1));
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
          aria-label="Find a job, a run, a page or an action"
          placeholder="An id, a page or an action"
          value={typed}
          onKeyDown={onKeyDown}
          onChange={(event) => {
            setTyped(event.target.value);
            setActive(0);
          }}
        />
      </div>
      <div id="palette-items" role="listbox" aria-label="Found" className={styles.items}>
        {items.map((item, index) => {
          const Icon = item.icon ?? ArrowRight;
          return (
            // The input has the focus and handles the keys.
            // eslint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus
            <div key={item.id} id={`palette-${index}`} role="option" aria-selected={index === at} className={cx(styles.item, index === at && styles.active)} onClick={() => choose(item)} onMouseMove={() => setActive(index)}>
              <Icon size={14} aria-hidden />
              <span className="truncate">{item.label}</span>
              {item.hint !== undefined && <span className={styles.hint}>{item.hint}</span>}
            </div>
          );
        })}
      </div>
      {items.length === 0 && <p className={styles.none}>Nothing is called “{typed.trim()}”. A job or a run is found by its whole id.</p>}
    </>
  );
}

function useOwnItems(typed: string): PaletteItem[] {
  const navigate = useNavigate();
  const { role } = useSession();
  const words = typed.toLowerCase();
  const pages = PLACES.filter((place) => place.roles.includes(role) && place.label.toLowerCase().includes(words));
  const places = pages.map((place) => ({ id: place.to, label: place.label, hint: `g ${place.key}`, icon: place.icon, run: () => navigate({ to: place.to }) }));
  if (!ID.test(typed)) return places;
  const id = typed.toLowerCase();
  return [
    { id: "job", label: `Job ${id}`, icon: LayoutList, run: () => navigate({ to: "/jobs/$jobId", params: { jobId: id } }) },
    { id: "run", label: `Workflow run ${id}`, icon: Workflow, run: () => navigate({ to: "/runs/$runId", params: { runId: id } }) },
  ];
}
