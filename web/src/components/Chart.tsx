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
