import { Maximize, Minus, Plus } from "lucide-react";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { IconButton } from "@/components/Button";
import { cx } from "@/format/words";
import type { Graph } from "./graph";
import styles from "./Graph.module.css";
import { layout, pathOf, type Layout, type PlacedEdge } from "./layout";
import { NodeBox } from "./NodeBox";
import { SPACE, useView } from "./useView";
import { neighbour, stops, type Direction } from "./walk";

interface GraphViewProps extends Graph {
  /** What the graph is of, for those who do not see it. */
  label: string;
  /** The node that is open elsewhere on the page; it is brought into view. */
  selected?: string | undefined;
  /** A click, or Enter on a node. */
  onSelect?: ((id: string) => void) | undefined;
  /** The node that is pointed at elsewhere. */
  lit?: string | undefined;
  /** The pointer or the focus is on a node, or has left it. */
  onLight?: ((id: string | undefined) => void) | undefined;
  /** A node that `folds` is opened or closed. */
  onToggle?: ((id: string) => void) | undefined;
}

const ARROWS: Record<string, Direction> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const STEP = 1.25;
/** Smaller than this no text can be read. */
const FAR = 0.3;

/**
 * A graph, top to bottom. It scrolls as any part of a page, and is dragged by the pointer; + and - and Ctrl with the wheel zoom, 0 shows all.
 * Tab leads to one node, the arrow keys from node to node. Only what is in view is drawn, so that thousands of nodes are as smooth as ten.
 */
export function GraphView({ label, nodes, edges, selected, onSelect, lit, onLight, onToggle }: GraphViewProps) {
  const drawing = useMemo(() => {
    performance.mark("graph-began");
    return layout({ nodes, edges });
  }, [nodes, edges]);
  const ref = useRef<HTMLDivElement>(null);
  const view = useView(ref, drawing);
  const [active, setActive] = useState<string>();
  const byId = useMemo(() => new Map(drawing.nodes.map((one) => [one.node.id, one])), [drawing]);
  const reached = [active, selected].find((id) => id !== undefined && byId.has(id)) ?? stops(drawing)[0]?.node.id;

  useEffect(() => {
    // How long it took from the data to the picture; the tests read it.
    const frame = requestAnimationFrame(() => performance.measure("graph-drawn", { start: "graph-began", detail: drawing.nodes.length }));
    return () => cancelAnimationFrame(frame);
  }, [drawing]);

  const isMoving = useRef(false);
  useEffect(() => {
    if (!isMoving.current || active === undefined) return;
    isMoving.current = false;
    ref.current?.querySelector<HTMLElement>(`[data-node="${CSS.escape(active)}"]`)?.focus({ preventScroll: true });
  }, [active]);

  const place = selected === undefined ? undefined : byId.get(selected);
  const revealed = useRef<string>(undefined);
  useEffect(() => {
    if (place === undefined || revealed.current === selected || view.size.width === 0) return;
    revealed.current = selected;
    view.reveal(place);
  });

  const go = (id: string | undefined): void => {
    const to = id === undefined ? undefined : byId.get(id);
    if (to === undefined) return;
    isMoving.current = true;
    setActive(to.node.id);
    view.reveal(to);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const direction = ARROWS[event.key];
    const isOnNode = event.target instanceof HTMLElement && event.target.dataset["node"] !== undefined;
    if (direction !== undefined && isOnNode && reached !== undefined) go(neighbour(drawing, reached, direction));
    else if (event.key === "Home" && isOnNode) go(stops(drawing)[0]?.node.id);
    else if (event.key === "End" && isOnNode) go(stops(drawing).at(-1)?.node.id);
    else if (event.key === "+" || event.key === "=") view.zoomBy(STEP);
    else if (event.key === "-") view.zoomBy(1 / STEP);
    else if (event.key === "0") view.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const shown = drawing.nodes.filter((one) => view.isVisible(one) || one.node.id === reached);
  return (
    // The keys are those of the nodes within.
    // eslint-disable-next-line jsx-a11y/no-static-element-interactions
    <div className={styles.frame} onKeyDown={onKeyDown}>
      <div ref={ref} className={styles.view} role="group" aria-label={label} {...view.handlers} onPointerLeave={() => onLight?.(undefined)}>
        <div className={styles.size} style={{ width: view.content.width, height: view.content.height }}>
          <div
            className={cx(styles.drawing, view.zoom < FAR && styles.far)}
            style={{ transform: `translate(${view.offset}px, ${SPACE}px) scale(${view.zoom})` }}
          >
            <Edges drawing={drawing} lit={lit ?? selected} isVisible={view.isVisible} />
            {shown.map((one) => (
              <NodeBox
                key={one.node.id}
                placed={one}
                isSelected={one.node.id === selected}
                isLit={one.node.id === lit}
                isReached={one.node.id === reached}
                onSelect={onSelect}
                onLight={onLight}
                onToggle={onToggle}
                onFocus={setActive}
              />
            ))}
          </div>
        </div>
      </div>
      <div className={styles.tools} role="toolbar" aria-label="Zoom">
        <IconButton label="Zoom out" onClick={() => view.zoomBy(1 / STEP)}>
          <Minus size={14} aria-hidden />
        </IconButton>
        <span className={styles.zoom}>{Math.round(view.zoom * 100)} %</span>
        <IconButton label="Zoom in" onClick={() => view.zoomBy(STEP)}>
          <Plus size={14} aria-hidden />
        </IconButton>
        <IconButton label="Show all of it" onClick={view.fit}>
          <Maximize size={14} aria-hidden />
        </IconButton>
      </div>
    </div>
  );
}

interface EdgesProps {
  drawing: Layout;
  lit: string | undefined;
  isVisible: (box: PlacedEdge) => boolean;
}

/** The edges behind the nodes. Those to what has not begun are pale and dashed; those of the lit node stand out. */
function Edges({ drawing, lit, isVisible }: EdgesProps) {
  const pale = useMemo(
    () => new Set(drawing.nodes.filter(({ node }) => node.status === "unreached" || node.status === "skipped").map(({ node }) => node.id)),
    [drawing],
  );
  return (
    <svg className={styles.edges} width={drawing.width} height={drawing.height} aria-hidden>
      {drawing.edges.filter(isVisible).map(({ edge, points, isBack }) => (
        <path
          key={`${edge.from}\n${edge.to}`}
          d={pathOf(points)}
          className={cx(
            styles.edge,
            (pale.has(edge.to) || pale.has(edge.from)) && styles.pale,
            lit !== undefined && (edge.from === lit || edge.to === lit) && styles.litEdge,
            isBack && styles.wrong,
          )}
        />
      ))}
    </svg>
  );
}
