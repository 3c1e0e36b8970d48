import type { ReactNode } from "react";
import { Button } from "@/components/Button";
import { Dialog } from "@/components/Dialog";
import { Command } from "@/components/EmptyState";
import styles from "./Settings.module.css";

/** A secret that is shown once. */
export function SecretDialog({
  secret,
  title,
  onClose,
  children,
}: {
  secret: string;
  title: string;
  onClose: () => void;
  children?: ReactNode;
}) {
  return (
    <Dialog onClose={onClose} title={title} description="It is shown once.">
      {children}
      <Command text={secret} />
      <div className={styles.buttons}>
        <Button kind="primary" onClick={onClose}>
          I have copied it
        </Button>
      </div>
    </Dialog>
  );
}
