import type { LucideIcon } from "lucide-react";
import { createContext, use, useEffect, useId, useMemo, useState, type ReactNode } from "react";

/** Something that the palette finds: a page, a thing by its id, an action. */
export interface PaletteItem {
  id: string;
  label: string;
  /** What kind of thing it is, or the key that does the same. */
  hint?: string;
  icon?: LucideIcon;
  run: () => unknown;
}

interface PaletteState {
  open: boolean;
  setOpen: (open: boolean) => void;
  help: boolean;
  setHelp: (help: boolean) => void;
  /** Asks whether to switch Atlas. */
  gate: boolean;
  setGate: (asked: boolean) => void;
  /** What the parts of the page that is shown can do. */
  actions: Map<string, readonly PaletteItem[]>;
}

const PaletteContext = createContext<PaletteState | null>(null);

export function PaletteProvider({ children }: { children: ReactNode }) {
  const [open, setOpen] = useState(false);
  const [help, setHelp] = useState(false);
  const [gate, setGate] = useState(false);
  const [actions] = useState(() => new Map<string, readonly PaletteItem[]>());
  const state = useMemo(() => ({ open, setOpen, help, setHelp, gate, setGate, actions }), [open, help, gate, actions]);
  return <PaletteContext value={state}>{children}</PaletteContext>;
}

export function usePalette(): PaletteState {
  const state = use(PaletteContext);
  if (state === null) throw new Error("The palette is there within the frame only.");
  return state;
}

/** Adds what a part of a page can do to the palette while it is shown. What has a key (`useShortcut`) is there by itself. */
export function usePaletteActions(items: readonly PaletteItem[]): void {
  const { actions } = usePalette();
  const id = useId();
  useEffect(() => {
    actions.set(id, items);
    return () => {
      actions.delete(id);
    };
  }, [actions, id, items]);
}
