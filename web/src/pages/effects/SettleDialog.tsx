import { useState } from "react";
import { api, client, type Schemas } from "@/api/client";
import { Button } from "@/components/Button";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";
import { JsonView } from "@/components/JsonView";
import { Fact, Facts } from "@/components/Page";
import { Time } from "@/components/Time";
import { visible } from "@/format/visible";
import { MANAGERS, useCan } from "@/session/session";
import { useChange } from "@/components/useChange";
import { useTenant } from "@/session/tenant";

export type Effect = Schemas["Effect"];

/** The two answers to the question whether an unknown effect was made, for those who may give them. */
export function SettleButtons({ effect }: { effect: Effect }) {
  const manages = useCan(MANAGERS);
  const [answer, setAnswer] = useState<boolean | null>(null);
  if (!manages || effect.state !== "unknown") return null;
  return (
    <>
      <Button kind="primary" aria-label={`It was made: ${effect.name}`} onClick={() => setAnswer(true)}>
        It was made
      </Button>{" "}
      <Button aria-label={`It was not made: ${effect.name}`} onClick={() => setAnswer(false)}>
        It was not
      </Button>
      {answer !== null && <SettleDialog effect={effect} wasMade={answer} onClose={() => setAnswer(null)} />}
    </>
  );
}

/** The same for an effect of which the id is known. */
export function SettleOf({ effectId }: { effectId: string }) {
  const params = { path: { effect_id: effectId }, query: { tenant: useTenant() } };
  const { data } = api.useQuery("get", "/api/v1/effects/{effect_id}", { params }, { meta: { live: ["job"] } });
  return data === undefined ? null : <SettleButtons effect={data} />;
}

/** Shows what was called, and asks for the provider's reference. */
function SettleDialog({ effect, wasMade, onClose }: { effect: Effect; wasMade: boolean; onClose: () => void }) {
  const tenant = useTenant();
  const [reference, setReference] = useState("");
  const settle = useChange(
    async () => {
      const given = reference.trim() === "" ? null : reference.trim();
      const body = wasMade ? { outcome: "done" as const, reference: given } : { outcome: "not_done" as const };
      return (
        await client.POST("/api/v1/effects/{effect_id}/settle", { params: { path: { effect_id: effect.id }, query: { tenant } }, body })
      ).data;
    },
    { done: (_, settled) => (settled?.woken ? "Recorded: the job continues" : "Recorded"), onDone: onClose },
  );
  return (
    <ChangeDialog
      onClose={onClose}
      title={wasMade ? `${visible(effect.name)} was made?` : `${visible(effect.name)} was not made?`}
      description={
        wasMade
          ? "Look it up at the provider. The job continues with its reference and does not call again."
          : "Be sure: the job calls the provider again with the same key."
      }
      action={wasMade ? "It was made" : "It was not made"}
      danger={!wasMade}
      change={settle}
    >
      <Facts>
        <Fact name="Tenant">{visible(effect.tenant ?? effect.tenant_id)}</Fact>
        <Fact name="Key">{visible(effect.key)}</Fact>
        <Fact name="Called">
          <Time at={effect.intended_at} />
        </Fact>
        {effect.other_references.length > 0 && <Fact name="Also made as">{visible(effect.other_references.join(", "))}</Fact>}
      </Facts>
      {Object.keys(effect.detail).length > 0 && <JsonView label="detail" value={effect.detail} />}
      {wasMade && (
        <TextField label="Reference" hint="The provider's id for it." value={reference} maxLength={2000} onChange={setReference} />
      )}
    </ChangeDialog>
  );
}
