// Who waits for whom, drawn in layers: arrows run from the one that waits to what it waits for.
import { Graph as Layers, layout } from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";

export interface Node {
  id: string;
  title: string;
  text: string;
  kind: "waiting" | "holding" | "task" | "done" | "failed" | "running";
  choose?: () => void;
}

export interface Edge {
  from: string;
  to: string;
  text: string;
}

const WIDTH = 172;
const HEIGHT = 46;

export function Graph({ label, nodes, edges }: { label: string; nodes: readonly Node[]; edges: readonly Edge[] }) {
  const drawn = useMemo(() => arranged(nodes, edges), [nodes, edges]);
  return (
    <div class="scroll graph" tabIndex={0} role="region" aria-label={label}>
      <svg width={drawn.width} height={drawn.height} viewBox={`0 0 ${drawn.width} ${drawn.height}`} role="img" aria-label={label}>
        <defs>
          <clipPath id="box">
            <rect width={WIDTH - 6} height={HEIGHT} />
          </clipPath>
          <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 8 4 0 8z" />
          </marker>
        </defs>
        {drawn.edges.map((edge) => (
          <g class="edge" key={`${edge.from}>${edge.to}`}>
            <path d={edge.path} marker-end="url(#arrow)" />
          </g>
        ))}
        {drawn.edges.map((edge) => (
          <g class="edge" key={`${edge.from}>${edge.to} text`}>
            <text x={edge.x} y={edge.y}>
              {edge.text}
            </text>
          </g>
        ))}
        {drawn.nodes.map((node) => (
          <g
            key={node.id}
            class={`node ${node.kind}${node.choose ? " can-choose" : ""}`}
            transform={`translate(${node.x - WIDTH / 2} ${node.y - HEIGHT / 2})`}
            onClick={node.choose}
          >
            <title>{`${node.title} ${node.text}`}</title>
            <rect width={WIDTH} height={HEIGHT} rx="6" />
            <text x="10" y="19" class="title" clip-path="url(#box)">
              {cut(node.title, 19)}
            </text>
            <text x="10" y="36" clip-path="url(#box)">{cut(node.text, 25)}</text>
          </g>
        ))}
      </svg>
    </div>
  );
}

function arranged(nodes: readonly Node[], edges: readonly Edge[]) {
  const layers = new Layers({ multigraph: false });
  layers.setGraph({ rankdir: "RL", nodesep: 14, ranksep: 44, marginx: 12, marginy: 12 });
  layers.setDefaultEdgeLabel(() => ({}));
  for (const node of nodes) layers.setNode(node.id, { width: WIDTH, height: HEIGHT });
  const known = edges
    .filter((edge) => layers.hasNode(edge.from) && layers.hasNode(edge.to))
    .map((edge) => ({ ...edge, text: cut(edge.text, 24) }));
  for (const edge of known) layers.setEdge(edge.from, edge.to, { width: 7 * edge.text.length, height: 14, labelpos: "c" });
  layout(layers);
  const size = layers.graph() as { width?: number; height?: number };
  return {
    width: Math.max(1, Math.ceil(size.width ?? 1)),
    height: Math.max(1, Math.ceil(size.height ?? 1)),
    nodes: nodes.map((node) => {
      const at = layers.node(node.id) as { x: number; y: number };
      return { ...node, x: at.x, y: at.y };
    }),
    edges: known.map((edge) => {
      const { points, x, y } = layers.edge(edge.from, edge.to) as { points: { x: number; y: number }[]; x?: number; y?: number };
      const path = points.map((point, place) => `${place ? "L" : "M"}${point.x.toFixed(1)} ${point.y.toFixed(1)}`).join("");
      return { ...edge, path, x: x ?? 0, y: (y ?? 0) - 5 };
    }),
  };
}

function cut(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
