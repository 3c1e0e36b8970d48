import { clockTime } from "./time";

interface Part {
  text: string;
  /** The time that it stands for, or null. */
  at: string | null;
}

/** The one form of times in recorded messages, which are texts: 2026-11-17 01:47:00 UTC. */
const TIME = /(\d{4}-\d{2}-\d{2}) (\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?) UTC/g;

/** A sentence as text and times. */
export function splitTimes(sentence: string): Part[] {
  const parts: Part[] = [];
  let end = 0;
  for (const found of sentence.matchAll(TIME)) {
    const at = `${found[1]}T${found[2]}Z`;
    if (Number.isNaN(Date.parse(at))) continue;
    parts.push({ text: sentence.slice(end, found.index), at: null }, { text: found[0], at });
    end = found.index + found[0].length;
  }
  parts.push({ text: sentence.slice(end), at: null });
  return parts.filter(({ text }) => text !== "");
}

/** The same as plain text in this browser's zone, for where only text fits. */
export function inLocalTime(sentence: string): string {
  return partsInLocalTime(splitTimes(sentence));
}

/** The parts of a sentence as plain text in this browser's zone. */
export function partsInLocalTime(parts: readonly Part[]): string {
  return parts.map(({ text, at }) => (at === null ? text : clockTime(new Date(at), undefined, true))).join("");
}
