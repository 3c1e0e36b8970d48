import { Link } from "@tanstack/react-router";
import { CirclePause } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { Section } from "@/components/Page";
import { PauseSentence } from "@/pauses/PauseControls";
import { ResumeDialog } from "@/pauses/PauseDialog";
import { nameOf, type Pause, useMayResume, usePauses } from "@/pauses/pauses";
import styles from "./Overview.module.css";

const MAX_SHOWN = 5;

/** What is paused, a line each, with the button that resumes it. Nothing is shown while nothing is paused. */
export function Pauses() {
  const pauses = usePauses() ?? [];
  const mayResume = useMayResume();
  const [resumed, setResumed] = useState<Pause | null>(null);
  if (pauses.length === 0) return null;
  return (
    <Section title="Paused">
      <ul className={styles.rows}>
        {pauses.slice(0, MAX_SHOWN).map((pause) => (
          <li key={pause.id} className={styles.row}>
            <CirclePause size={14} className={styles.alert} aria-hidden />
            <span className={styles.text}>
              <PauseSentence pause={pause} />
            </span>
            {mayResume(pause) && (
              <Button aria-label={`Resume ${nameOf(pause)}`} onClick={() => setResumed(pause)}>
                Resume
              </Button>
            )}
          </li>
        ))}
      </ul>
      {pauses.length > MAX_SHOWN && (
        <Link to="/pauses" search={({ tenant }) => ({ tenant })} className={styles.go}>
          All {pauses.length} pauses
        </Link>
      )}
      {resumed !== null && <ResumeDialog pause={resumed} onClose={() => setResumed(null)} />}
    </Section>
  );
}
