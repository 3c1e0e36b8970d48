import styles from "./States.module.css";

/** A grey bar where something will stand: loading moves nothing. */
export function Skeleton({ width = "100%", height = 12 }: { width?: number | string; height?: number }) {
  return <div className={styles.bar} style={{ width, height }} aria-hidden />;
}
