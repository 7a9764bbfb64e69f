// A time series that follows its data. The newest value of each line is written in the legend, so colour is not all that tells them apart.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Line {
  label: string;
  /** name of a CSS colour variable of the page, e.g. `--held` */
  colour: string;
  dash?: number[];
}

interface Props {
  title: string;
  lines: Line[];
  /** seconds since 1970, then one row per line */
  data: uPlot.AlignedData;
  height?: number;
  /** whatever changes when the colours do */
  theme: string;
}

export function Chart({ title, lines, data, height = 160, theme }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);

  useEffect(() => {
    const at = place.current;
    if (!at) return;
    const colour = (name: string) => getComputedStyle(at).getPropertyValue(name).trim();
    const axis: uPlot.Axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const plot = new uPlot(
      {
        width: at.clientWidth || 300,
        height,
        cursor: { y: false },
        legend: { live: true },
        scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.1)] } },
        axes: [axis, { ...axis, size: 46 }],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.label,
            stroke: colour(line.colour),
            width: 2,
            points: { show: false },
            ...(line.dash ? { dash: line.dash } : {}),
          })),
        ],
      },
      data,
      at,
    );
    drawn.current = plot;
    const resized = new ResizeObserver(() => plot.setSize({ width: at.clientWidth, height }));
    resized.observe(at);
    return () => {
      resized.disconnect();
      plot.destroy();
      drawn.current = null;
    };
  }, [theme, lines.length, height]);

  useEffect(() => drawn.current?.setData(data), [data]);

  return (
    <figure class="chart" aria-label={title}>
      <figcaption>{title}</figcaption>
      <div ref={place} />
    </figure>
  );
}
