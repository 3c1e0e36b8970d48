import type { Schemas } from "@/api/client";
import { Dialog } from "@/components/Dialog";
import { Command } from "@/components/EmptyState";

/** How a tenant moves to another installation: by commands, since its file is written and read beside the databases. */
export function MoveTenant({ tenant: { slug, moving_at }, onClose }: { tenant: Schemas["Tenant"]; onClose: () => void }) {
  const isMoving = moving_at !== null;
  return (
    <Dialog
      onClose={onClose}
      title={`Move the tenant ${slug}`}
      description={
        isMoving
          ? "It is paused here. Import its file into the other installation, then remove it here."
          : "Exporting pauses the tenant here and writes all of it to a file, which the other installation imports."
      }
    >
      <p>{isMoving ? "Write the file again, if the first try was interrupted:" : "Here, beside the database:"}</p>
      <Command text={`atlas tenant export ${slug} ${slug}.zip`} />
      <p>At the other installation:</p>
      <Command text={`atlas tenant import ${slug}.zip`} />
      <p>Or keep the tenant here, if it was not imported:</p>
      <Command text={`atlas tenant export ${slug} --cancel`} />
    </Dialog>
  );
}
