import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { ChangeDialog } from "@/components/Dialog";
import { TextField } from "@/components/Form";

/** Reads hosts and their servers again. */
export function useRefresh(): () => Promise<void> {
  const queries = useQueryClient();
  return () => queries.invalidateQueries({ predicate: (query) => String(query.queryKey[1]).startsWith("/api/v1/hosts") });
}

interface NameDialogProps {
  title: string;
  description?: string;
  action: string;
  name?: string;
  /** What else must be chosen before it can be saved. */
  isMissing?: boolean;
  children?: ReactNode;
  save: (name: string) => Promise<string | undefined>;
  onClose: () => void;
  onSaved: (id: string | undefined) => void;
}

/** Asks for a name: of a host, or of a server on it. */
export function NameDialog({
  title,
  description,
  action,
  name: before = "",
  isMissing = false,
  children,
  save,
  onClose,
  onSaved,
}: NameDialogProps) {
  const [name, setName] = useState(before);
  const refresh = useRefresh();
  const change = useMutation({
    mutationFn: () => save(name.trim()),
    onSuccess: async (id) => {
      await refresh();
      onSaved(id);
    },
  });
  return (
    <ChangeDialog
      onClose={onClose}
      title={title}
      description={description}
      action={action}
      change={change}
      disabled={name.trim() === "" || name.trim() === before || isMissing}
    >
      {children}
      <TextField label="Name" required value={name} maxLength={200} placeholder="backup-box" onChange={setName} />
    </ChangeDialog>
  );
}
