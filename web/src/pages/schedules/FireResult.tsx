import { StatusChip } from "@/components/StatusChip";

const RESULTS: Record<string, [status: string, label: string]> = {
  fired: ["succeeded", "fired"],
  swallowed: ["canceled", "left out"],
  failed: ["failed", "failed"],
  missed: ["canceled", "missed"],
};

/** What became of a time or an event that a trigger waits for. */
export function FireResult({ result }: { result: string }) {
  const [status, label] = RESULTS[result] ?? [result, result];
  return <StatusChip status={status} label={label} />;
}
