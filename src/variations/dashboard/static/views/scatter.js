"use strict";
/* Scores against what they cost, with the Pareto front: rows that nothing beats at less cost. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const COSTS = {
    parameters: { name: "parameters", of: (row) => row.parameters },
    flops: { name: "FLOPs", of: (row) => row.cost.flops },
    seconds: { name: "time", of: (row) => row.cost.seconds },
  };

  /** Points that no other beats at the same or lower cost, from cheap to expensive. */
  V.pareto = (points, measure) => {
    const front = [];
    for (const point of [...points].sort((a, b) => a.x - b.x || (V.better(measure, a.y, b.y) ? -1 : 1))) {
      if (!front.length || V.better(measure, point.y, front[front.length - 1].y)) front.push(point);
    }
    return front;
  };

  function draw(points, front, chosen) {
    const { key, cost, measure, logX } = chosen;
    const { factor, label: xLabel } = V.axis(key, Math.max(...points.map((point) => point.x)));
    const fig = V.chart.figure({ height: 500, x: xLabel, y: `${measure.label} (mean over seeds)`, xLog: logX, room: 0.16 });
    const ink = V.ink();
    const spread = points.filter((point) => V.known(point.sd));
    if (spread.length) fig.segment({ x0: spread.map((p) => p.x / factor), x1: spread.map((p) => p.x / factor), y0: spread.map((p) => p.y - p.sd), y1: spread.map((p) => p.y + p.sd), line_color: ink.soft, line_width: 1.2 });
    if (front.length > 1) fig.step(front.map((p) => p.x / factor), front.map((p) => p.y), "after", { line_color: ink.ink, line_width: 1.5, line_dash: [6, 4] });
    const shown = points.map((point) => {
      const look = V.look(point.row.look);
      const best = front.includes(point);
      return fig.scatter(
        { field: "x" },
        { field: "y" },
        {
          source: V.chart.source({ x: [point.x / factor], y: [point.y], name: [point.row.label], score: [V.fixed(point.y)], cost: [V.short(point.x)], sd: [V.known(point.sd) ? `± ${V.fixed(point.sd)}` : ""], front: [best ? "on the Pareto front" : ""] }),
          marker: look.marker,
          size: (best ? 13 : 10) * (look.marker === "diamond" ? 1.3 : 1),
          fill_color: look.colour,
          line_color: best ? ink.ink : look.colour,
          line_width: best ? 1.5 : 1,
        },
      );
    });
    V.chart.hover(fig, shown, [["", "@name"], [measure.label, "@score @sd"], [cost.name, "@cost"], ["", "@front"]]);
    label(fig, points, front, ink, logX, factor);
    return fig;
  }

  /** Names beside the points, those of the front first; none where it would stand upon another, or nearer to another point. */
  function label(fig, points, front, ink, logX, factor) {
    const place = (value, all, log) => {
      const f = log ? Math.log : (v) => v;
      const low = Math.min(...all.map(f));
      const high = Math.max(...all.map(f));
      return high > low ? (f(value) - low) / (high - low) : 0.5;
    };
    const xs = points.map((point) => point.x);
    const ys = points.map((point) => point.y);
    const boxes = points.map((point) => box(place(point.x, xs, logX) * 820, place(point.y, ys, false) * 360, 16, 16));
    const drawn = [];
    for (const point of [...front, ...points.filter((item) => !front.includes(item))]) {
      const text = V.clip(point.row.label, 34);
      const width = 7 * text.length;
      const x = place(point.x, xs, logX) * 820;
      const y = place(point.y, ys, false) * 360;
      const right = place(point.x, xs, logX) < 0.6;
      const own = boxes[points.indexOf(point)];
      const near = points.filter((item) => item !== point && Math.abs(place(item.x, xs, logX) * 820 - x) < 60).map((item) => place(item.y, ys, false) * 360);
      const free = (!front.includes(point) ? [0, 16, -16] : right ? [-15, 15, 0] : [15, 0, -15]).find((shift) => {
        const mine = box(x + (right ? 12 + width / 2 : -12 - width / 2), y + shift, width, 15);
        return near.every((other) => Math.abs(y + shift - other) >= Math.abs(shift)) && [...drawn, ...boxes.filter((item) => item !== own)].every((other) => apart(mine, other));
      });
      if (free === undefined) continue;
      drawn.push(box(x + (right ? 12 + width / 2 : -12 - width / 2), y + free, width, 15));
      fig.add_layout(new Bokeh.Label({ x: point.x / factor, y: point.y, x_offset: right ? 11 : -11, y_offset: free, text, text_align: right ? "left" : "right", text_baseline: "middle", text_color: ink.ink, text_font: V.chart.font, text_font_size: "12px", background_fill_color: ink.page, background_fill_alpha: 0.8 }));
    }
  }

  const box = (x, y, width, height) => ({ left: x - width / 2, right: x + width / 2, low: y - height / 2, high: y + height / 2 });
  const apart = (a, b) => a.right < b.left || b.right < a.left || a.high < b.low || b.high < a.low;

  async function render(root, { sweep }) {
    const key = COSTS[V.state.get("cost")] ? V.state.get("cost") : "parameters";
    const measure = sweep.measures.find((item) => item.key === V.state.get("measure")) || sweep.primary;
    const chosen = { key, cost: COSTS[key], measure, logX: V.state.get("logx") === "1" };
    const points = sweep.rows
      .map((row) => ({ row, x: chosen.cost.of(row), y: row.measured[measure.key]?.mean, sd: row.measured[measure.key]?.sd }))
      .filter((point) => V.known(point.x) && V.known(point.y) && (!chosen.logX || point.x > 0));
    if (!points.length) {
      V.replace(root, V.empty("Nothing to plot yet", "Each row with a finished run is a point here. No run of this sweep has finished."));
      return;
    }
    const front = V.pareto(points, measure);
    const title = `${measure.label} against ${chosen.cost.name}: ${V.count(points.length, "row")}`;
    const node = V.el("div", { class: "plot" });
    V.replace(
      root,
      V.el("h2", { text: title }),
      V.el(
        "div",
        { class: "controls" },
        V.select("measure", "Score", sweep.measures.map((item) => [item.key, item.label]), measure.key, (value) => V.state.set({ measure: value })),
        V.choices("cost", "against", Object.entries(COSTS).map(([name, item]) => [name, item.name]), key, (value) => V.state.set({ cost: value })),
        V.check("logx", "log x", chosen.logX, (on) => V.state.set({ logx: on ? 1 : null })),
      ),
      node,
      V.el("p", { class: "hint" }, "Pareto front (dashed; large marks): ", front.map((point) => point.row.label).join(" → "), `. No other row has a better ${measure.label} at the same or less cost. ${points.some((point) => V.known(point.sd)) ? "Vertical bars: ± standard deviation over seeds." : ""}`),
    );
    await V.chart.show(draw(points, front, chosen), node, `${title}. Pareto front: ${front.map((point) => `${point.row.label} ${V.fixed(point.y)} at ${V.short(point.x)}`).join("; ")}`);
  }

  V.views.scatter = { title: "Scatter", hint: "Scores against what they cost", render };
})();
