import * as Radix from "@radix-ui/react-dropdown-menu";
import { Check } from "lucide-react";
import type { ReactNode } from "react";
import styles from "./Menu.module.css";

/** A menu below a button. Not modal: a modal one adds a style element, which the content security policy refuses. */
export function Menu({
  trigger,
  label,
  children,
  align = "end",
}: {
  trigger: ReactNode;
  label?: string;
  children: ReactNode;
  align?: "start" | "end";
}) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content className={styles.menu} align={align} sideOffset={4} collisionPadding={8} aria-label={label}>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

interface MenuItemProps {
  children: ReactNode;
  onSelect: () => void;
  icon?: ReactNode;
  checked?: boolean;
  danger?: boolean;
  disabled?: boolean;
}

export function MenuItem({ children, onSelect, icon, checked, danger = false, disabled = false }: MenuItemProps) {
  return (
    <Radix.Item className={styles.item} data-danger={danger} onSelect={onSelect} disabled={disabled}>
      {icon}
      <span className={styles.label}>{children}</span>
      {checked === true && <Check size={14} aria-label="chosen" />}
    </Radix.Item>
  );
}

export function MenuHeading({ children }: { children: ReactNode }) {
  return <Radix.Label className={styles.heading}>{children}</Radix.Label>;
}

export function MenuLine() {
  return <Radix.Separator className={styles.line} />;
}
