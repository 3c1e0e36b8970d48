import * as Radix from "@radix-ui/react-toast";
import { X } from "lucide-react";
import { createContext, use, useCallback, useState, type ReactNode } from "react";
import { cx } from "@/format/words";
import styles from "./Toast.module.css";

interface Message {
  id: number;
  text: string;
  /** A button: "Undo", "Open". */
  action?: { label: string; run: () => void };
  failed?: boolean;
}

type Show = (text: string, options?: Omit<Message, "id" | "text">) => void;

const ToastContext = createContext<Show>(() => undefined);
let nextId = 0;

/** `const toast = useToast(); toast("12 jobs are queued again")`. */
export function useToast(): Show {
  return use(ToastContext);
}

/** Short messages about what was done, in a corner. */
export function ToastProvider({ children }: { children: ReactNode }) {
  const [messages, setMessages] = useState<Message[]>([]);
  const show = useCallback<Show>((text, options) => {
    nextId += 1;
    setMessages((before) => [...before.slice(-3), { id: nextId, text, ...options }]);
  }, []);
  return (
    <ToastContext value={show}>
      <Radix.Provider duration={6000} swipeDirection="right">
        {children}
        {messages.map((message) => (
          <Radix.Root
            key={message.id}
            className={cx(styles.toast, message.failed === true && styles.failed)}
            onOpenChange={(open) => !open && setMessages((before) => before.filter((one) => one.id !== message.id))}
          >
            <Radix.Description className={styles.text}>{message.text}</Radix.Description>
            {message.action !== undefined && (
              <Radix.Action altText={message.action.label} className={styles.action} onClick={message.action.run}>
                {message.action.label}
              </Radix.Action>
            )}
            <Radix.Close className={styles.close} aria-label="Dismiss">
              <X size={14} aria-hidden />
            </Radix.Close>
          </Radix.Root>
        ))}
        <Radix.Viewport className={styles.viewport} />
      </Radix.Provider>
    </ToastContext>
  );
}
