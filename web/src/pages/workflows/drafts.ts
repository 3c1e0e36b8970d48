/** A text that is not published yet, kept in this tab: reloading the page does not lose it. */
export interface Draft {
  text: string;
  /** The newest version when it was begun; 0 for a new workflow. */
  version: number;
}

/** Under this name the draft of a workflow is kept, for each tenant by itself; of a new one without a key. */
export function draftName(tenant: string | undefined, key: string | undefined): string {
  return `atlas.workflow-draft:${encodeURIComponent(tenant ?? "")}:${key === undefined ? "" : `=${encodeURIComponent(key)}`}`;
}

export function readDraft(name: string, storage: Storage = sessionStorage): Draft | null {
  try {
    const found: unknown = JSON.parse(storage.getItem(name) ?? "null");
    return isDraft(found) ? found : null;
  } catch {
    return null;
  }
}

export function keepDraft(name: string, draft: Draft | null, storage: Storage = sessionStorage): void {
  try {
    if (draft === null) storage.removeItem(name);
    else storage.setItem(name, JSON.stringify(draft));
  } catch {
    // A full storage keeps what it has: the text is still in the editor.
  }
}

function isDraft(value: unknown): value is Draft {
  return (
    typeof value === "object" &&
    value !== null &&
    "text" in value &&
    typeof value.text === "string" &&
    "version" in value &&
    typeof value.version === "number"
  );
}
