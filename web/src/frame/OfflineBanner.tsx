import { PowerOff } from "lucide-react";
import { useState } from "react";
import { Button } from "@/components/Button";
import { ClockTime } from "@/components/Time";
import { GateDialog, useGate } from "@/gate/gate";
import { OPERATORS, useCan } from "@/session/session";
import styles from "./OfflineBanner.module.css";

/** Under the top line of every page while Atlas is off: since when, by whom, why, and until when. */
export function OfflineBanner() {
  const { data: gate } = useGate();
  const may = useCan(OPERATORS);
  const [asked, setAsked] = useState(false);
  if (gate === undefined || gate.online) return null;
  const by = gate.by === null ? "" : ` by ${gate.by}`;
  const why = gate.reason === null ? "" : `: ${gate.reason}`;
  return (
    <div className={styles.banner} role="status" data-testid="offline">
      <PowerOff size={14} aria-hidden />
      <span className={styles.text}>
        <strong>Atlas is offline</strong>
        {gate.since !== null && (
          <>
            {" "}
            since <ClockTime at={gate.since} />
          </>
        )}
        {by}
        {why}.{" "}
        {gate.until === null ? (
          "Nothing new starts."
        ) : (
          <>
            Comes back at <ClockTime at={gate.until} />.
          </>
        )}
      </span>
      {may && <Button onClick={() => setAsked(true)}>Bring online</Button>}
      {asked && <GateDialog online onClose={() => setAsked(false)} />}
    </div>
  );
}
