import { Fragment } from "react";
import type { Schemas } from "@/api/client";
import { nameCommand } from "@/format/command";
import { splitTimes } from "@/format/sentence";
import { ClockTime } from "./Time";

type Part = Schemas["SentencePart"];

/** A sentence of the server, in its texts and times. Times are shown in this browser's zone, and in UTC on hover. */
export function Parts({ parts }: { parts: readonly Part[] }) {
  return parts.map((part, index) => (
    <Fragment key={index}>{part.at === null ? nameCommand(part.text) : <ClockTime at={part.at} seconds />}</Fragment>
  ));
}

/** A recorded message, which is a text: of an audit row, an error. Times in the server's one form are shown in the same way. */
export function Sentence({ text }: { text: string }) {
  return splitTimes(nameCommand(text)).map((part, index) => (
    <Fragment key={index}>{part.at === null ? part.text : <ClockTime at={part.at} seconds />}</Fragment>
  ));
}
