/** How well a label fits what was typed: 0 not at all, more if it begins so, or a word of it does. Every word must be found. */
export function fit(label: string, typed: string): number {
  const text = label.toLowerCase();
  const words = typed.toLowerCase().split(/\s+/).filter(Boolean);
  let sum = 1;
  for (const word of words) {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    sum += at === 0 ? 3 : startsWord(text, word) ? 2 : 1;
  }
  return sum;
}

function startsWord(text: string, word: string): boolean {
  return text.split(/[^\p{L}\p{N}]+/u).some((one) => one.startsWith(word));
}

/** Those that fit, the best first; those that fit alike stay in their order. */
export function ranked<Item>(items: readonly Item[], typed: string, labelOf: (item: Item) => string): Item[] {
  return items
    .map((item) => ({ item, score: fit(labelOf(item), typed) }))
    .filter((one) => one.score > 0)
    .sort((a, b) => b.score - a.score)
    .map((one) => one.item);
}
