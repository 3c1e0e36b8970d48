import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState, type PointerEvent, type RefObject } from "react";
import type { Box, Layout } from "./layout";

/** Around the drawing. */
export const SPACE = 24;
const MIN_ZOOM = 0.1;
const MAX_ZOOM = 2;
/** At first it is as wide as its view, but no smaller than can be read. */
const MIN_ZOOM_AT_FIRST = 0.8;
/** What lies so near to the view is drawn too; a picture of a place is kept until the view leaves it. */
const TILE = 400;

interface Size {
  width: number;
  height: number;
}

/** A part of a drawing that is looked at: how large, and where. The browser scrolls it. */
export function useView(ref: RefObject<HTMLElement | null>, drawing: Layout) {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  const [tile, setTile] = useState({ x: 0, y: 0 });
  const [chosen, setChosen] = useState<number>();
  const zoom = chosen ?? clamp((size.width - 2 * SPACE) / Math.max(1, drawing.width), MIN_ZOOM_AT_FIRST, 1);
  const offset = offsetOf(drawing, size, zoom);
  // What a change of the zoom leaves where it was: a point of the drawing, and of the view.
  const kept = useRef<{ x: number; y: number; atX: number; atY: number }>(undefined);

  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const measure = (): void => setSize({ width: element.clientWidth, height: element.clientHeight });
    const follow = (): void => {
      const [x, y] = [Math.floor(element.scrollLeft / TILE), Math.floor(element.scrollTop / TILE)];
      setTile((before) => (before.x === x && before.y === y ? before : { x, y }));
    };
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    element.addEventListener("scroll", follow, { passive: true });
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", follow);
    };
  }, [ref]);

  const zoomTo = useCallback(
    (scale: number, atX: number, atY: number): void => {
      const element = ref.current;
      if (element === null) return;
      const next = clamp(scale, MIN_ZOOM, MAX_ZOOM);
      kept.current = { x: (element.scrollLeft + atX - offset) / zoom, y: (element.scrollTop + atY - SPACE) / zoom, atX, atY };
      setChosen(next);
    },
    [ref, offset, zoom],
  );

  useLayoutEffect(() => {
    const [element, point] = [ref.current, kept.current];
    if (element === null || point === undefined) return;
    kept.current = undefined;
    element.scrollTo(point.x * zoom + offset - point.atX, point.y * zoom + SPACE - point.atY);
  }, [ref, zoom, offset]);

  useEffect(() => {
    const element = ref.current;
    if (element === null) return;
    const onWheel = (event: WheelEvent): void => {
      // Also what a touchpad sends for a pinch.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const corner = element.getBoundingClientRect();
      zoomTo(zoom * Math.exp(-event.deltaY / 300), event.clientX - corner.left, event.clientY - corner.top);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [ref, zoom, zoomTo]);

  const isSet = useRef(false);
  useLayoutEffect(() => {
    const first = drawing.nodes[0];
    if (isSet.current || size.width === 0 || first === undefined) return;
    isSet.current = true;
    ref.current?.scrollTo((first.x + first.width / 2) * zoom + offset - size.width / 2, 0);
  }, [ref, drawing, size, zoom, offset]);

  const fit = (): void => {
    kept.current = { x: drawing.width / 2, y: 0, atX: size.width / 2, atY: SPACE };
    setChosen(clamp(Math.min((size.width - 2 * SPACE) / drawing.width, (size.height - 2 * SPACE) / drawing.height), MIN_ZOOM, 1));
  };

  const reveal = (box: Box): void => {
    const element = ref.current;
    if (element === null) return;
    const [left, top] = [box.x * zoom + offset, box.y * zoom + SPACE];
    const [width, height] = [box.width * zoom, Math.min(box.height * zoom, size.height / 2)];
    const isIn =
      left >= element.scrollLeft &&
      left + width <= element.scrollLeft + size.width &&
      top >= element.scrollTop &&
      top + height <= element.scrollTop + size.height;
    if (!isIn) element.scrollTo(left + width / 2 - size.width / 2, top + height / 2 - size.height / 2);
  };

  const isVisible = useMemo(() => {
    const [left, top] = [(tile.x - 1) * TILE - offset, (tile.y - 1) * TILE - SPACE];
    const [right, bottom] = [left + size.width + 3 * TILE, top + size.height + 3 * TILE];
    return (box: Box): boolean =>
      box.x * zoom <= right && (box.x + box.width) * zoom >= left && box.y * zoom <= bottom && (box.y + box.height) * zoom >= top;
  }, [tile, size, zoom, offset]);

  const content = { width: Math.max(size.width, drawing.width * zoom + 2 * SPACE), height: drawing.height * zoom + 2 * SPACE };
  return {
    size,
    zoom,
    offset,
    content,
    fit,
    reveal,
    isVisible,
    zoomBy: (by: number) => zoomTo(zoom * by, size.width / 2, size.height / 2),
    handlers: dragging,
  };
}

/** The left edge of the drawing: in the middle where it is narrower than its view. */
function offsetOf(drawing: Layout, size: Size, zoom: number): number {
  return Math.max(SPACE, (size.width - drawing.width * zoom) / 2);
}

/** A mouse drags the ground; a finger scrolls by itself. */
const dragging = {
  onPointerDown(event: PointerEvent<HTMLElement>): void {
    const isNode = event.target instanceof Element && event.target.closest("button") !== null;
    if (event.pointerType === "mouse" && event.button === 0 && !isNode) event.currentTarget.setPointerCapture(event.pointerId);
  },
  onPointerMove(event: PointerEvent<HTMLElement>): void {
    if (event.currentTarget.hasPointerCapture(event.pointerId)) event.currentTarget.scrollBy(-event.movementX, -event.movementY);
  },
};

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, value));
}
