/** Class names that are there. */
export function cx(...names: (string | false | null | undefined)[]): string {
  return names.filter(Boolean).join(" ");
}

/** An id in few characters: its beginning tells when it was made, its end tells it apart. */
export function shortId(id: string): string {
  return id.length <= 13 ? id : `${id.slice(0, 8)}…${id.slice(-4)}`;
}

/** "dead_letter" as a person would write it: "dead letter". */
export function spaced(name: string): string {
  return name.replaceAll("_", " ");
}

export function capitalized(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
