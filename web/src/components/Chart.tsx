import { lazy, Suspense } from "react";
import type { ChartProps } from "./chart";
import { Skeleton } from "./Skeleton";

const Drawn = lazy(() => import("./DrawnChart"));

/** Thin lines over time, y from zero. Above are the values of the bucket under the pointer or the arrow keys, else of the last one. */
export function LineChart({ height = 160, ...rest }: ChartProps) {
  return (
    <Suspense fallback={<Skeleton height={height} />}>
      <Drawn height={height} {...rest} />
    </Suspense>
  );
}

/** A line without axes, as high as a row. */
export function Sparkline({ values, colour = "--ink-quiet", label }: { values: readonly number[]; colour?: string; label: string }) {
  const width = 96;
  const height = 20;
  const top = Math.max(1, ...values);
  const step = width / Math.max(1, values.length - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)},${(height - 1 - (value / top) * (height - 2)).toFixed(1)}`);
  return (
    <svg width={width} height={height} role="img" aria-label={label}>
      <polyline points={points.join(" ")} fill="none" strokeWidth={1.25} style={{ stroke: `var(${colour})` }} />
    </svg>
  );
}
