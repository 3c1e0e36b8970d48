/** Invisible and bidirectional characters: controls, direction marks, zero-width characters, fillers and tags. */
const HIDDEN =
  // eslint-disable-next-line no-control-regex, no-misleading-character-class
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]/u;
const EVERY_HIDDEN = new RegExp(HIDDEN, "gu");

/** Text in which nothing is invisible and nothing is reordered: such characters are shown by their code point. */
export function visible(text: string): string {
  return HIDDEN.test(text) ? text.replace(EVERY_HIDDEN, escaped) : text;
}

function escaped(character: string): string {
  const digits = (character.codePointAt(0) ?? 0).toString(16);
  return digits.length > 4 ? `\\u{${digits}}` : `\\u${digits.padStart(4, "0")}`;
}
