import type { Layout, PlacedNode } from "./layout";

export type Direction = "up" | "down" | "left" | "right";

/** Across is dearer than along: an arrow leads to what lies ahead of it. */
const ACROSS = 2;

/** The nodes that can be reached: all but the dots. */
export function stops(layout: Layout): PlacedNode[] {
  return layout.nodes.filter(({ node }) => node.kind !== "start" && node.kind !== "end");
}

/** The node that an arrow key leads to: into an open group, along an edge if there is one that way, else the nearest in that direction. */
export function neighbour(layout: Layout, from: string, direction: Direction): string | undefined {
  const all = stops(layout);
  const here = all.find(({ node }) => node.id === from);
  if (here === undefined) return all[0]?.node.id;
  const ahead = all.filter((one) => one !== here && isAhead(here, one, direction));
  const linked = direction === "down" || direction === "up" ? linkedTo(layout, from, direction) : new Set<string>();
  // Down from the title of an open group leads into it.
  const within = direction === "down" ? ahead.filter((one) => one.group === from) : [];
  const near = within.length > 0 ? within : ahead.filter(({ node }) => linked.has(node.id));
  const found = (near.length > 0 ? near : ahead).map((one) => ({ one, far: distance(here, one, direction) }));
  return found.reduce<(typeof found)[number] | undefined>(
    (best, next) => (best === undefined || next.far < best.far ? next : best),
    undefined,
  )?.one.node.id;
}

function linkedTo(layout: Layout, from: string, direction: "up" | "down"): Set<string> {
  const edges = layout.edges.map(({ edge }) => edge);
  return new Set(
    direction === "down"
      ? edges.filter((edge) => edge.from === from).map((edge) => edge.to)
      : edges.filter((edge) => edge.to === from).map((edge) => edge.from),
  );
}

function isAhead(here: PlacedNode, one: PlacedNode, direction: Direction): boolean {
  switch (direction) {
    case "down":
      return one.group === here.node.id || one.y >= here.y + here.height;
    case "up":
      return here.group === one.node.id || one.y + one.height <= here.y;
    case "left":
      return one.x + one.width <= here.x;
    case "right":
      return one.x >= here.x + here.width;
  }
}

function distance(here: PlacedNode, one: PlacedNode, direction: Direction): number {
  // By the title line: a group is as high as what it holds.
  const across = Math.abs(one.x + one.width / 2 - here.x - here.width / 2);
  const down = Math.abs(one.y - here.y);
  return direction === "up" || direction === "down" ? down + ACROSS * across : across + ACROSS * 4 * down;
}
