import * as Radix from "@radix-ui/react-dialog";
import { X } from "lucide-react";
import { useState, type SyntheticEvent, type ReactNode } from "react";
import { EditConflict } from "@/api/edits";
import { cx } from "@/format/words";
import { usesKeys } from "@/frame/modality";
import { Button, IconButton } from "./Button";
import { Conflict } from "./Conflict";
import styles from "./Dialog.module.css";
import { FormProblem } from "./formProblem";
import { ProblemLine } from "./ProblemView";

// Radix's own overlay adds a style element to lock the page's scrolling, which the content security policy refuses. Ours is a plain
// element: the page behind does not scroll anyway, since only its parts do.

interface DialogProps {
  open?: boolean;
  onClose: () => void;
  title: string;
  /** A sentence under the title: what will happen. */
  description?: ReactNode;
  wide?: boolean;
  children?: ReactNode;
}

/** A window above the page. Escape and a click beside it close it; the focus stays within. */
export function Dialog({ open = true, onClose, title, description, wide = false, children }: DialogProps) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <div className={styles.overlay} />
        <Radix.Content
          className={cx(styles.dialog, wide && styles.wide)}
          onOpenAutoFocus={focusFirst}
          {...(description === undefined ? { "aria-describedby": undefined } : {})}
        >
          <div className={styles.head}>
            <Radix.Title className={styles.title}>{title}</Radix.Title>
            <Radix.Close asChild>
              <IconButton label="Close">
                <X size={16} aria-hidden />
              </IconButton>
            </Radix.Close>
          </div>
          {description !== undefined && (
            <Radix.Description asChild>
              <div className={styles.description}>{description}</div>
            </Radix.Description>
          )}
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** The first field, or what is marked as the thing to press; not the button that closes. */
function focusFirst(event: Event): void {
  const dialog = event.target instanceof HTMLElement ? event.target : null;
  const first =
    dialog?.querySelector<HTMLElement>("form :is(input, select, textarea)") ?? dialog?.querySelector<HTMLElement>("[data-first]");
  if (first == null) return;
  event.preventDefault();
  first.focus();
}

interface ConfirmDialogProps extends DialogProps {
  /** The verb on the button: "Retry 12 jobs". */
  action: string;
  danger?: boolean;
  busy?: boolean;
  error?: unknown;
  onConfirm: () => void;
  disabled?: boolean;
}

/** Asks before something is done, says what follows, and shows why it was refused. */
export function ConfirmDialog({ action, danger, busy, error, onConfirm, disabled, children, ...dialog }: ConfirmDialogProps) {
  return (
    <Dialog {...dialog}>
      <ConfirmForm {...{ action, danger, busy, error, onConfirm, disabled, children }} onClose={dialog.onClose} />
    </Dialog>
  );
}

type ConfirmFormProps = Omit<ConfirmDialogProps, "open" | "title" | "description" | "wide">;

/** Mounted when the dialog opens. */
function ConfirmForm({ action, danger = false, busy = false, error, onConfirm, disabled = false, children, onClose }: ConfirmFormProps) {
  // A list has one change for all of its rows: why it was refused for one row is not said of the next.
  const [earlier] = useState(error);
  const refusal = error === earlier ? null : error;
  const conflict = refusal instanceof EditConflict ? refusal : null;
  const submit = (event: SyntheticEvent): void => {
    event.preventDefault();
    if (!disabled && !busy) onConfirm();
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      <FormProblem value={refusal}>{children}</FormProblem>
      {conflict === null ? <ProblemLine error={refusal} /> : <Conflict error={conflict} />}
      <div className={styles.buttons}>
        <Button onClick={onClose} data-first={danger ? "" : undefined}>
          Cancel
        </Button>
        <Button type="submit" kind={danger ? "danger" : "primary"} busy={busy} disabled={disabled} data-first={danger ? undefined : ""}>
          {conflict === null ? action : "Replace with mine"}
        </Button>
      </div>
    </form>
  );
}

type ChangeDialogProps<Input> = Omit<ConfirmDialogProps, "busy" | "error" | "onConfirm"> & {
  /** A mutation, and what it gets. */
  change: { isPending: boolean; error: unknown; mutate: (input: Input) => void };
} & (undefined extends Input ? { input?: Input } : { input: Input });

/** Asks before a change is made, and makes it. */
export function ChangeDialog<Input>({ change, input, ...dialog }: ChangeDialogProps<Input>) {
  return <ConfirmDialog busy={change.isPending} error={change.error} onConfirm={() => change.mutate(input as Input)} {...dialog} />;
}

interface SidePanelProps {
  title: string;
  about?: ReactNode;
  actions?: ReactNode;
  onClose: () => void;
  children: ReactNode;
}

/** A panel beside a list that shows one of its rows. The list stays usable; Escape closes the panel. */
export function SidePanel({ title, about, actions, onClose, children }: SidePanelProps) {
  // What had the focus before, or the list beside the panel: its active row is the one that was open.
  const [before] = useState(() => document.activeElement);
  const returnFocus = (event: Event): void => {
    event.preventDefault();
    const list = document.querySelector<HTMLElement>("[role=grid]");
    const isBack = before instanceof HTMLElement && before !== document.body && before.isConnected;
    (isBack ? before : list)?.focus();
  };
  return (
    <Radix.Root open modal={false} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Content
          className={styles.panel}
          data-panel
          aria-describedby={undefined}
          onInteractOutside={(event) => event.preventDefault()}
          onCloseAutoFocus={returnFocus}
          onOpenAutoFocus={(event) => {
            event.preventDefault();
            if (usesKeys() && event.target instanceof HTMLElement) event.target.focus();
          }}
        >
          <div className={styles.head}>
            <Radix.Title className={styles.title}>{title}</Radix.Title>
            {about}
            <div className={styles.actions}>
              {actions}
              <Radix.Close asChild>
                <IconButton label="Close">
                  <X size={16} aria-hidden />
                </IconButton>
              </Radix.Close>
            </div>
          </div>
          <div className={styles.content}>{children}</div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}
