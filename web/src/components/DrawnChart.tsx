import { useEffect, useEffectEvent, useId, useRef, useState, type KeyboardEvent } from "react";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { timeSpan } from "@/format/time";
import { bucketSeconds, isolated, SCALES, timeTick, type ChartProps, type Series } from "./chart";
import styles from "./Chart.module.css";

/** Shorter draws are clicks. */
const LEAST_PIXELS = 4;

/** The chart itself, loaded when a page shows the first one. */
export default function DrawnChart({
  label,
  times,
  series,
  height,
  unit = "count",
  gap = false,
  isRunning = false,
  onRange,
}: ChartProps & { height: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  // Where Shift was first held while the keys move.
  const anchor = useRef<number | null>(null);
  const [hovered, setHovered] = useState<number | null>(null);
  const theme = useThemeChanges();
  const hint = useId();
  const { show } = SCALES[unit];
  const step = bucketSeconds(times);
  const last = Math.max(0, times.length - 1);
  const found = hovered === null ? -1 : times.indexOf(hovered);
  const index = found < 0 ? last : found;

  const data = useEffectEvent((): UPlot.AlignedData => [[...times], ...series.map((one) => [...one.values])]);
  const choose = (one: number, other: number): void => {
    const from = times[Math.min(one, other)];
    const to = times[Math.max(one, other)];
    if (from !== undefined && to !== undefined) onRange?.(from, to + step);
  };
  const dragged = useEffectEvent(choose);
  const options = useEffectEvent((width: number): UPlot.Options => ({
    ...drawing(series, unit, gap),
    width,
    height,
    cursor: { y: false, drag: { x: onRange !== undefined, y: false, setScale: false, dist: LEAST_PIXELS }, points: { size: 5 } },
    hooks: {
      drawClear: isRunning ? [shadeLast] : [],
      setCursor: [(self) => setHovered(typeof self.cursor.idx === "number" ? (self.data[0][self.cursor.idx] ?? null) : null)],
      setSelect: [
        (self) => {
          const { left, width: drawn } = self.select;
          if (drawn < LEAST_PIXELS) return;
          self.setSelect(NOTHING, false);
          dragged(self.posToIdx(left), self.posToIdx(left + drawn));
        },
      ],
    },
  }));
  // Other lines or colours need another drawing; other values do not.
  const shape = JSON.stringify([
    series.map((one) => [one.label, one.colour, one.filled]),
    height,
    unit,
    gap,
    isRunning,
    onRange !== undefined,
    theme,
  ]);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const drawn = new UPlot(options(element.clientWidth), data(), element);
    plot.current = drawn;
    const sizes = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    return () => {
      sizes.disconnect();
      drawn.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  useEffect(() => {
    plot.current?.setData(data());
  }, [times, series]);

  const moveTo = (drawn: UPlot, next: number, chooses: boolean): void => {
    const to = Math.max(0, Math.min(last, next));
    const left = drawn.valToPos(times[to] ?? 0, "x");
    drawn.setCursor({ left, top: 0 });
    anchor.current = chooses ? (anchor.current ?? index) : null;
    const from = drawn.valToPos(times[anchor.current ?? to] ?? 0, "x");
    drawn.setSelect({ left: Math.min(from, left), width: Math.abs(left - from), top: 0, height: drawn.over.clientHeight }, false);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const drawn = plot.current;
    if (drawn === null) return;
    const moves: Record<string, number> = { ArrowLeft: index - 1, ArrowRight: index + 1, Home: 0, End: last };
    const next = moves[event.key];
    if (next !== undefined) moveTo(drawn, next, event.shiftKey && onRange !== undefined);
    else if (event.key === "Enter" && anchor.current !== null) choose(anchor.current, index);
    else if (event.key !== "Escape" || anchor.current === null) return;
    event.preventDefault();
    if (next !== undefined) return;
    anchor.current = null;
    drawn.setSelect(NOTHING, false);
  };

  const values = series.map((one) => shownValue(one.values[index], show));
  const span = timeSpan(new Date((times[index] ?? 0) * 1000), new Date(((times[index] ?? 0) + step) * 1000));
  const bucket = isRunning && index === last ? `${span}, so far` : span;
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>
        {series.map((one, at) => (
          <span key={one.label} style={{ color: `var(${one.colour})` }}>
            {one.label} <strong>{values[at]}</strong>
          </span>
        ))}
        <span className={styles.bucket}>{bucket}</span>
      </figcaption>
      <div
        ref={box}
        className={styles.drawing}
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={last}
        aria-valuenow={index}
        aria-valuetext={`${bucket}: ${series.map((one, at) => `${one.label} ${values[at]}`).join(", ")}`}
        aria-describedby={onRange === undefined ? undefined : hint}
        onKeyDown={onKeyDown}
        onBlur={() => plot.current?.setCursor({ left: -10, top: -10 })}
      />
      {onRange !== undefined && (
        <p id={hint} className={styles.hint}>
          Drag, or Shift with ← → and Enter, to show a part of it
        </p>
      )}
    </figure>
  );
}

const NOTHING = { left: 0, top: 0, width: 0, height: 0 };

/** Shades the way to the last bucket, which has not ended. */
function shadeLast(self: UPlot): void {
  const times = self.data[0];
  if (times.length < 2) return;
  const from = self.valToPos(times[times.length - 2] ?? 0, "x", true);
  const to = self.valToPos(times[times.length - 1] ?? 0, "x", true);
  self.ctx.fillStyle = pale(inkOf("--ink-quiet"));
  self.ctx.fillRect(from, self.bbox.top, to - from, self.bbox.height);
}

/** Lines, axes and the space between two lines. */
function drawing(
  series: readonly Series[],
  unit: NonNullable<ChartProps["unit"]>,
  gap: boolean,
): Pick<UPlot.Options, "legend" | "scales" | "axes" | "bands" | "series"> {
  const { tick, steps, atLeast } = SCALES[unit];
  const axis = {
    stroke: inkOf("--ink-quiet"),
    grid: { stroke: inkOf("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const inks = series.map((one) => inkOf(one.colour));
  return {
    legend: { show: false },
    scales: { y: { range: (_, __, highest) => [0, Math.max(atLeast, highest * 1.1)] } },
    axes: [
      { ...axis, grid: { show: false }, size: 24, space: 64, values: (_, ticks, __, ___, step) => ticks.map((at) => timeTick(at, step)) },
      { ...axis, size: 48, incrs: steps, values: (_, ticks) => ticks.map(tick) },
    ],
    // Each line is filled down to the other, where that is lower.
    bands: gap ? [band(1, 2, inks[0]), band(2, 1, inks[1])] : [],
    series: [
      {},
      ...series.map((one, at) => ({
        label: one.label,
        stroke: inks[at] ?? "",
        width: 1.5,
        points: { show: true, size: 4, fill: inks[at] ?? "", filter: (self: UPlot, nth: number) => isolated([...(self.data[nth] ?? [])]) },
        ...(one.filled === true && { fill: pale(inks[at]) }),
      })),
    ],
  };
}

/** Counts up whenever the colours change. */
function useThemeChanges(): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const again = (): void => setCount((before) => before + 1);
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("atlas:theme", again);
    system.addEventListener("change", again);
    return () => {
      window.removeEventListener("atlas:theme", again);
      system.removeEventListener("change", again);
    };
  }, []);
  return count;
}

function shownValue(value: number | null | undefined, show: (value: number) => string): string {
  return value === null || value === undefined ? "–" : show(value);
}

function band(upper: number, lower: number, ink: string | undefined): UPlot.Band {
  return { series: [upper, lower], fill: pale(ink) };
}

function pale(ink = ""): string {
  return `color-mix(in srgb, ${ink} 14%, transparent)`;
}

/** The colour of a variable as the canvas needs it. */
function inkOf(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(${variable})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
