import { Fragment } from "react";
import { nameCommand } from "@/format/command";
import { splitTimes } from "@/format/sentence";
import { ClockTime } from "./Time";

/** A sentence of the server. The times in it are shown in this browser's zone, and in UTC on hover. */
export function Sentence({ text }: { text: string }) {
  return splitTimes(nameCommand(text)).map((part, index) => (
    <Fragment key={index}>{part.at === null ? part.text : <ClockTime at={part.at} seconds />}</Fragment>
  ));
}
