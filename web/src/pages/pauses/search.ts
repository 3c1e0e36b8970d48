import { KINDS, type PauseKind } from "@/pauses/pauses";
import { oneOf, text, type RawSearch } from "@/search";

/** What the page keeps in its address: the dialog that is open. */
export interface PausesSearch {
  new?: "pause" | undefined;
  kind?: PauseKind | undefined;
  target?: string | undefined;
  resume?: string | undefined;
}

export function pausesSearch(search: RawSearch): PausesSearch {
  return {
    new: oneOf(search, "new", ["pause"]),
    kind: oneOf(search, "kind", KINDS),
    target: text(search, "target"),
    resume: text(search, "resume"),
  };
}
