import { CopyPlus, Ellipsis, RotateCw, Square, Trash2 } from "lucide-react";
import { useState } from "react";
import { Button, IconButton } from "@/components/Button";
import { ConfirmDialog } from "@/components/Dialog";
import { Menu, MenuItem, MenuLine } from "@/components/Menu";
import { usePaletteActions } from "@/frame/paletteState";
import { useShortcut } from "@/frame/shortcuts";
import { JOB_MAKERS, MANAGERS, useCan } from "@/session/session";
import { type Job, useJobVerb, verbsOf } from "./detail";

interface JobActionsProps {
  job: Job;
  onCreated: (id: string) => void;
  onDeleted: () => void;
}

/** Retry or cancel as a button, the rest in a menu. */
export function JobActions({ job, onCreated, onDeleted }: JobActionsProps) {
  const manages = useCan(MANAGERS);
  const makes = useCan(JOB_MAKERS);
  const [deleting, setDeleting] = useState(false);
  const verb = useJobVerb(job, { onCreated, onDeleted });
  const may = verbsOf(job);
  const retries = manages && may.includes("retry");
  const cancels = manages && may.includes("cancel");
  useShortcut("r", "Retry this job", () => verb.mutate("retry"), retries);
  usePaletteActions([
    ...(cancels ? [{ id: "cancel job", label: "Cancel this job", hint: "Action", icon: Square, run: () => verb.mutate("cancel") }] : []),
    ...(makes
      ? [{ id: "job again", label: "Enqueue this job again", hint: "Action", icon: CopyPlus, run: () => verb.mutate("again") }]
      : []),
  ]);
  return (
    <>
      {retries && (
        <Button icon={<RotateCw size={14} aria-hidden />} busy={verb.isPending} onClick={() => verb.mutate("retry")}>
          Retry
        </Button>
      )}
      {cancels && (
        <Button icon={<Square size={14} aria-hidden />} busy={verb.isPending} onClick={() => verb.mutate("cancel")}>
          Cancel
        </Button>
      )}
      {makes && (
        <Menu
          label="More actions"
          trigger={
            <IconButton label="More actions">
              <Ellipsis size={16} aria-hidden />
            </IconButton>
          }
        >
          <MenuItem icon={<CopyPlus size={14} aria-hidden />} onSelect={() => verb.mutate("again")}>
            Enqueue again
          </MenuItem>
          {manages && may.includes("delete") && (
            <>
              <MenuLine />
              <MenuItem icon={<Trash2 size={14} aria-hidden />} danger onSelect={() => setDeleting(true)}>
                Delete
              </MenuItem>
            </>
          )}
        </Menu>
      )}
      <ConfirmDialog
        open={deleting}
        onClose={() => setDeleting(false)}
        title="Delete this job?"
        description="Deletes its input, output, attempts and secrets. Its audit rows are kept."
        action="Delete the job"
        danger
        busy={verb.isPending}
        error={verb.error}
        onConfirm={() => verb.mutate("delete", { onSuccess: () => setDeleting(false) })}
      />
    </>
  );
}
