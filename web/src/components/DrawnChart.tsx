import { useEffect, useEffectEvent, useRef, useState } from "react";
import UPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { short } from "@/format/numbers";
import { exactTime } from "@/format/time";
import styles from "./Chart.module.css";
import type { ChartProps } from "./Chart";

interface Hover {
  time: number;
  values: (number | null)[];
}

/** The chart itself, loaded when a page shows the first one. */
export default function DrawnChart({ label, times, series, height, atLeast = 1, gap = false, format = short, onRange }: ChartProps & { height: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<UPlot | null>(null);
  const [hover, setHover] = useState<Hover | null>(null);
  const [theme, setTheme] = useState(0);
  const range = useEffectEvent((from: number, to: number) => onRange?.(from, to));
  const shown = useEffectEvent((value: number) => format(value));
  const data: UPlot.AlignedData = [[...times], ...series.map((one) => [...one.values])];
  const current = useEffectEvent(() => data);
  // Other lines or colours need another drawing; other values do not.
  const shape = JSON.stringify([series.map((one) => [one.label, one.colour, one.filled]), height, atLeast, gap, theme]);
  const lines = useEffectEvent(() => series.map((one) => ({ ...one, ink: inkOf(one.colour) })));
  // Each line is filled down to the other, where that is lower.
  const bands = useEffectEvent((inks: readonly string[]): UPlot.Band[] => (gap ? [band(1, 2, inks[0]), band(2, 1, inks[1])] : []));
  const top = useEffectEvent((highest: number) => Math.max(atLeast, highest * 1.1));

  useEffect(() => {
    const again = (): void => setTheme((before) => before + 1);
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    window.addEventListener("atlas:theme", again);
    system.addEventListener("change", again);
    return () => {
      window.removeEventListener("atlas:theme", again);
      system.removeEventListener("change", again);
    };
  }, []);

  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const axis = { stroke: inkOf("--ink-quiet"), grid: { stroke: inkOf("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const drawnLines = lines();
    const drawn = new UPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, setScale: false }, points: { size: 5 } },
        scales: { y: { range: (_, __, highest) => [0, top(highest)] } },
        axes: [
          { ...axis, grid: { show: false }, size: 24, space: 64, values: (_, ticks, __, ___, step) => ticks.map((tick) => tickLabel(tick, step)) },
          { ...axis, size: 48, values: (_, ticks) => ticks.map((tick) => shown(tick)) },
        ],
        bands: bands(drawnLines.map((one) => one.ink)),
        series: [{}, ...drawnLines.map((one) => ({ label: one.label, stroke: one.ink, width: 1.5, points: { show: false }, ...(one.filled === true ? { fill: pale(one.ink) } : {}) }))],
        hooks: {
          setCursor: [
            (self) => {
              const index = self.cursor.idx;
              const time = index === null || index === undefined ? undefined : self.data[0][index];
              setHover(time === undefined ? null : { time, values: self.data.slice(1).map((column) => column[index ?? 0] ?? null) });
            },
          ],
          setSelect: [
            (self) => {
              if (self.select.width < 4) return;
              range(self.posToVal(self.select.left, "x"), self.posToVal(self.select.left + self.select.width, "x"));
            },
          ],
        },
      },
      current(),
      element,
    );
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
    plot.current?.setData(current());
  }, [times, series]);

  return (
    <figure className={styles.chart}>
      <figcaption className={styles.caption}>
        {series.map((one, index) => (
          <span key={one.label} style={{ color: `var(${one.colour})` }}>
            {one.label} <strong>{shownValue(hover === null ? one.values.at(-1) : hover.values[index], format)}</strong>
          </span>
        ))}
        {hover !== null && <span className="quiet">{exactTime(new Date(hover.time * 1000)).slice(0, 16)}</span>}
      </figcaption>
      <div ref={box} role="img" aria-label={label} />
    </figure>
  );
}

function shownValue(value: number | null | undefined, format: (value: number) => string): string {
  return value === null || value === undefined ? "–" : format(value);
}

const DAY = 86_400;

/** 13:05, or the day where ticks are days apart. */
function tickLabel(seconds: number, step: number): string {
  const exact = exactTime(new Date(seconds * 1000));
  return step >= DAY ? exact.slice(5, 10) : exact.slice(11, 16);
}

function band(upper: number, lower: number, ink = ""): UPlot.Band {
  return { series: [upper, lower], fill: pale(ink) };
}

function pale(ink: string): string {
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
