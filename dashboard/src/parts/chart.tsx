// A time series that follows its data. The newest value of each line is written in the legend, so colour is not all that tells them apart.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { count } from "../words";

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
  /** how a value is written */
  show?: (value: number) => string;
}

function time(seconds: number): string {
  return new Date(seconds * 1000).toLocaleTimeString("en-GB");
}

export function Chart({ title, lines, data, height = 160, theme, show = count }: Props) {
  const place = useRef<HTMLDivElement>(null);
  const drawn = useRef<uPlot | null>(null);

  useEffect(() => {
    const at = place.current;
    if (!at) return;
    const colour = (name: string) => getComputedStyle(at).getPropertyValue(name).trim();
    const newest = (shown: uPlot) => {
      const last = shown.data[0].length - 1;
      if (last >= 0 && (shown.cursor.left ?? -1) < 0) shown.setLegend({ idx: last });
    };
    const axis: uPlot.Axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    const plot = new uPlot(
      {
        width: at.clientWidth || 300,
        height,
        // The last time of the axis stands in the middle below its line, so half of it is beyond the plot.
        padding: [null, 32, null, null],
        cursor: { y: false },
        legend: { live: true },
        scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(1, (high ?? 1) * 1.1)] } },
        axes: [
          { ...axis, space: 80, values: (_, at) => at.map(time) },
          { ...axis, size: 56, values: (_, at) => at.map((value) => show(value)) },
        ],
        hooks: { setData: [newest], ready: [newest] },
        series: [
          { label: "at", value: (_, at) => (at == null ? "" : time(at)) },
          ...lines.map((line) => ({
            label: line.label,
            stroke: colour(line.colour),
            width: 2,
            points: { show: false },
            value: (_: uPlot, value: number | null) => (value == null ? "–" : show(value)),
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
  }, [theme, lines.map((line) => line.label).join(), height]);

  useEffect(() => drawn.current?.setData(data), [data]);

  return (
    <figure class="chart" aria-label={title}>
      <figcaption>{title}</figcaption>
      <div ref={place} />
    </figure>
  );
}
