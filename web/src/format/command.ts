/** How a person types `atlas` on the machine that serves the pages: `.venv/bin/atlas` in a clone. */
function typed(): string {
  return typeof document === "undefined"
    ? "atlas"
    : (document.querySelector<HTMLMetaElement>('meta[name="atlas-command"]')?.content ?? "atlas");
}

/** A text whose commands are named as a person types them: all of a command, or those between backticks of a sentence. */
export function nameCommand(text: string, command = typed()): string {
  if (/^(\S+=\S+ )*atlas /.test(text)) return named(text, command);
  return text.replace(/`[^`]*`/g, (quoted) => named(quoted, command));
}

function named(text: string, command: string): string {
  return text.replace(/(?<![\w./-])atlas(?= [a-z-])/g, command);
}
