import type { ComponentProps, ReactNode } from "react";
import { cx } from "@/format/words";
import styles from "./Button.module.css";

type Kind = "plain" | "primary" | "danger" | "ghost";

interface ButtonProps extends ComponentProps<"button"> {
  kind?: Kind;
  /** While the request is under way: the button cannot be pressed again. */
  busy?: boolean;
  icon?: ReactNode;
}

/** A button with a verb on it. */
export function Button({ kind = "plain", busy = false, icon, children, className, disabled, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      className={cx(styles.button, styles[kind], className)}
      disabled={disabled === true || busy}
      aria-busy={busy}
      {...rest}
    >
      {icon}
      {children}
    </button>
  );
}

/** A button for one of the things that can be done with a row. */
export function Action(props: ButtonProps) {
  return <Button kind="ghost" {...props} />;
}

interface IconButtonProps extends Omit<ComponentProps<"button">, "aria-label" | "title"> {
  /** What it does, for those who do not see the icon. */
  label: string;
}

/** A button that is an icon alone. */
export function IconButton({ label, className, ...rest }: IconButtonProps) {
  return <button type="button" className={cx(styles.icon, className)} aria-label={label} title={label} {...rest} />;
}
