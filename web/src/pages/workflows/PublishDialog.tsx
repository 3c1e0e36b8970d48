import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { client } from "@/api/client";
import { Problem } from "@/api/problem";
import { ChangeDialog } from "@/components/Dialog";
import type { JsonObject } from "@/format/json";
import { useToast } from "@/components/Toast";
import { plural } from "@/format/numbers";
import { useTenant } from "@/session/tenant";
import type { FieldReason } from "./editor/problems";
import { useActsForAll, type Workflow } from "./workflows";

interface PublishDialogProps {
  document: JsonObject;
  base: Workflow | null;
  /** The version that the text was begun from. */
  begun: number;
  changes: { added: number; removed: number };
  onClose: () => void;
  /** What is wrong with the document after all, such as a secret in clear. */
  onRefused: (errors: readonly FieldReason[]) => void;
  onPublished: () => void;
}

/** Publishes the text as the newest version, unless someone else has published one meanwhile. */
export function PublishDialog({ document, base, begun, changes, onClose, onRefused, onPublished }: PublishDialogProps) {
  const tenant = useTenant();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const toast = useToast();
  const actsForAll = useActsForAll();
  const key = String(document["key"]);
  // A new key, or the first version of a tenant's own, must not be there yet.
  const isNext = base !== null && base.key === key && actsForAll === (base.tenant_id === null);
  const expected_version = isNext ? begun : 0;
  const publish = useMutation({
    mutationFn: async () =>
      (await client.POST("/api/v1/workflows", { params: { query: { tenant } }, body: { document, expected_version } })).data,
    onSuccess: async (saved) => {
      onPublished();
      toast(
        saved?.is_new === false
          ? `Version ${saved.version} of ${key} holds this already`
          : `Version ${saved?.version ?? ""} of ${key} is published`,
      );
      await queries.invalidateQueries();
      onClose();
      void navigate({ to: "/workflows/$key", params: { key }, search: ({ tenant: chosen }) => ({ tenant: chosen }) });
    },
    onError: (error) => {
      if (error instanceof Problem)
        onRefused(error.body.errors.map(({ field, reason }) => ({ field: field.replace(/^document\.?/, ""), reason })));
      // Who was faster is shown beside the text.
      void queries.invalidateQueries({ queryKey: ["get", "/api/v1/workflows/{key}/versions"] });
    },
  });
  const lines = [
    changes.added > 0 && `${plural(changes.added, "line")} added`,
    changes.removed > 0 && `${plural(changes.removed, "line")} removed`,
  ]
    .filter(Boolean)
    .join(", ");
  return (
    <ChangeDialog
      open
      onClose={onClose}
      title={isNext ? `Publish version ${begun + 1} of ${key}?` : `Publish ${key}?`}
      description={
        <>
          {isNext
            ? `${lines}. Runs that start from now on use it. Runs that have started keep their version.`
            : `It is ${actsForAll ? "for all tenants" : "this tenant's own"}, and can be started immediately.`}
          {base !== null &&
            base.key !== key &&
            ` The key is no longer ${base.key}: this publishes a new workflow, and ${base.key} stays unchanged.`}
        </>
      }
      action="Publish"
      change={publish}
    />
  );
}
