import { CirclePause, CirclePlay } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "@/components/Button";
import { StatusChip } from "@/components/StatusChip";
import { ClockTime, Time } from "@/components/Time";
import { PauseDialog, ResumeDialog } from "./PauseDialog";
import { nameOf, nounOf, type Pause, type Target, useMayPause, useMayResume, usePauseOf, usePausesOf } from "./pauses";

/** The chip "paused" for something that is, with who paused it and why on hover. */
export function PausedChip(target: Target) {
  const own = usePauseOf(target);
  const pauses = usePausesOf(target);
  const pause = own ?? pauses[0];
  if (pause === undefined) return null;
  const label = own === undefined ? `paused for ${pauses.map((one) => one.tenant).join(", ")}` : "paused";
  return (
    <span title={`Paused by ${pause.by}${pause.reason === null ? "" : `: ${pause.reason}`}`}>
      <StatusChip status="paused" label={label} />
    </span>
  );
}

/** Pauses something, or ends its pause. `small`: as an icon, in a row of a table. */
export function PauseButton({ name, small = false, ...target }: Target & { name: string; small?: boolean }) {
  const pause = usePauseOf(target);
  const mayPause = useMayPause(target.kind);
  const mayResume = useMayResume();
  const [open, setOpen] = useState(false);
  if (pause === undefined ? !mayPause : !mayResume(pause)) return null;
  const verb = pause === undefined ? "Pause" : "Resume";
  const Icon = pause === undefined ? CirclePause : CirclePlay;
  const close = (): void => setOpen(false);
  return (
    <>
      {small ? (
        <IconButton label={`${verb} ${name}`} onClick={() => setOpen(true)}>
          <Icon size={14} aria-hidden />
        </IconButton>
      ) : (
        <Button icon={<Icon size={14} aria-hidden />} onClick={() => setOpen(true)}>
          {verb}
        </Button>
      )}
      {open && pause !== undefined && <ResumeDialog pause={pause} onClose={close} />}
      {open && pause === undefined && <PauseDialog kind={target.kind} target={target.target} name={name} onClose={close} />}
    </>
  );
}

/** A pause in a sentence: what, since when, by whom, why, and when it ends. */
export function PauseSentence({ pause }: { pause: Pause }) {
  return (
    <span>
      The {nounOf(pause.kind)} <strong>{nameOf(pause)}</strong>
      {pause.kind === "workflow" && pause.tenant !== null && ` of ${pause.tenant}`} is paused since <ClockTime at={pause.since} /> by{" "}
      {pause.by}
      {pause.reason !== null && <>: {pause.reason}</>}.
      {pause.until !== null && (
        <>
          {" "}
          Resumes <Time at={pause.until} />.
        </>
      )}
    </span>
  );
}
