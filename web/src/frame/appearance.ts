import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
export type Density = "comfortable" | "compact";

/** How high a row of a table is, as `--row` in the styles. */
export const ROW_HEIGHTS: Record<Density, number> = { comfortable: 36, compact: 28 };

/** A choice that this browser remembers, as an attribute of the document for the styles. The first value is the default and has none. */
class Choice<Value extends string> {
  private readonly key: string;
  private readonly changed: string;

  constructor(
    private readonly name: string,
    readonly values: readonly [Value, ...Value[]],
  ) {
    this.key = `atlas.${name}`;
    this.changed = `atlas:${name}`;
  }

  readonly read = (): Value => {
    const kept = localStorage.getItem(this.key);
    return this.values.find((one) => one === kept) ?? this.values[0];
  };

  readonly apply = (): void => {
    const value = this.read();
    if (value === this.values[0]) document.documentElement.removeAttribute(`data-${this.name}`);
    else document.documentElement.setAttribute(`data-${this.name}`, value);
    // Charts draw with colours that they read once.
    window.dispatchEvent(new Event(this.changed));
  };

  readonly keep = (value: Value): void => {
    if (value === this.values[0]) localStorage.removeItem(this.key);
    else localStorage.setItem(this.key, value);
    this.apply();
  };

  readonly subscribe = (watcher: () => void): (() => void) => {
    window.addEventListener(this.changed, watcher);
    return () => window.removeEventListener(this.changed, watcher);
  };

  /** Another tab of this browser may change it. */
  readonly follow = (): void => {
    this.apply();
    window.addEventListener("storage", (event) => event.key === this.key && this.apply());
  };
}

export const theme = new Choice<Theme>("theme", ["system", "light", "dark"]);
export const density = new Choice<Density>("density", ["comfortable", "compact"]);

export function useTheme(): Theme {
  return useSyncExternalStore(theme.subscribe, theme.read);
}

export function useDensity(): Density {
  return useSyncExternalStore(density.subscribe, density.read);
}
