import { api } from "@/api/client";
import { visible } from "@/format/visible";
import { Fact, Facts, Section } from "@/components/Page";
import { StatusChip } from "@/components/StatusChip";
import { useTenant } from "@/session/tenant";

/** What a job has done outside of the database; nothing for a job without effects. */
export function JobEffects({ jobId }: { jobId: string }) {
  const params = { query: { tenant: useTenant(), job_id: jobId, limit: 50 } };
  const { data } = api.useQuery("get", "/api/v1/effects", { params }, { meta: { live: ["job"] } });
  if (data === undefined || data.items.length === 0) return null;
  return (
    <Section title="Effects">
      <Facts>
        {data.items.map((effect) => (
          <Fact key={effect.id} name={visible(effect.name)}>
            <StatusChip status={effect.state} /> {visible(effect.reference ?? effect.question ?? "")}
          </Fact>
        ))}
      </Facts>
    </Section>
  );
}
