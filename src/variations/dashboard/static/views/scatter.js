"use strict";
/* Scores against their cost, with the Pareto front: the trained rows that no other one beats at the same or lower cost. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const HEIGHT = 500;
  const LISTED = 40; // points without a label that are listed at once
  const COSTS = {
    parameters: { name: "parameters", of: (row) => row.parameters },
    flops: { name: "FLOPs", of: (row) => row.cost.flops },
    seconds: { name: "time", of: (row) => row.cost.seconds },
  };

  /** Points that no other beats at the same or lower cost, from cheap to expensive. */
  V.pareto = (points, measure) => {
    const front = [];
    for (const point of [...points].sort((a, b) => a.x - b.x || (a.y === b.y ? 0 : V.better(measure, a.y, b.y) ? -1 : 1))) {
      const last = front[front.length - 1];
      if (!last || V.better(measure, point.y, last.y) || (point.x === last.x && point.y === last.y)) front.push(point);
    }
    return front;
  };

  /** Ranges of both axes: costs from 0 or from the lowest one, scores of trained rows with space for labels. */
  function ranges(points, factor, { logX, zero }) {
    const xs = points.map((point) => point.x / factor);
    const [low, high] = [Math.min(...xs), Math.max(...xs)];
    const room = 0.12 * (high - low || high || 1);
    const x = logX ? { start: low / 1.6, end: high * 1.6 } : { start: zero ? 0 : low - room, end: high + (zero ? 0.08 * high : room) };
    const trained = points.filter((point) => !point.row.not_trained); // one that learned nothing would press the others together
    const ys = (trained.length ? trained : points).flatMap((point) => [point.y - (point.sd || 0), point.y + (point.sd || 0)]);
    const [least, most] = [Math.min(...ys), Math.max(...ys)];
    const above = 0.12 * (most - least || Math.abs(most) || 1);
    return { x, y: { start: least - above, end: most + above } };
  }

  function draw(points, front, chosen, wide) {
    const { key, cost, measure, logX } = chosen;
    const { factor, label: xLabel } = V.axis(key, Math.max(...points.map((point) => point.x)));
    const ends = ranges(points, factor, chosen);
    const fig = V.chart.figure({ height: HEIGHT, x: xLabel, y: `${measure.label} (mean over seeds)`, xLog: logX, xRange: new Bokeh.Range1d(ends.x), yRange: new Bokeh.Range1d(ends.y) });
    const ink = V.ink();
    if (front.length) stairs(fig, front, factor, ends, measure, ink, wide);
    const spread = points.filter((point) => V.known(point.sd));
    if (spread.length) fig.segment({ x0: spread.map((p) => p.x / factor), x1: spread.map((p) => p.x / factor), y0: spread.map((p) => p.y - p.sd), y1: spread.map((p) => p.y + p.sd), line_color: ink.soft, line_width: 1.2 });
    const shown = points.map((point) => {
      const look = V.look(point.row.look);
      const best = front.includes(point);
      return fig.scatter(
        { field: "x" },
        { field: "y" },
        {
          source: V.chart.source({ x: [point.x / factor], y: [point.y], name: [point.row.label], score: [V.fixed(point.y, measure.digits)], cost: [V.short(point.x)], sd: [V.known(point.sd) ? `± ${V.fixed(point.sd, measure.digits)}` : ""], front: [best ? "on the Pareto front" : point.row.not_trained ? "not trained" : ""] }),
          marker: look.marker,
          size: (best ? 13 : 10) * (look.marker === "diamond" ? 1.3 : 1),
          fill_color: point.row.not_trained ? ink.page : look.colour,
          line_color: best ? ink.ink : look.colour,
          line_width: best || point.row.not_trained ? 1.5 : 1,
        },
      );
    });
    V.chart.hover(fig, shown, [["", "@name"], [measure.label, "@score @sd"], [cost.name, "@cost"], ["", "@front"]]);
    const outside = points.filter((point) => point.y < ends.y.start || point.y > ends.y.end);
    const inside = points.filter((point) => !outside.includes(point));
    return { fig, outside, unlabelled: label(fig, inside, front, ink, { logX, factor, ends, wide }) };
  }

  /** The Pareto front as a staircase to the right edge, with the area behind it shaded. */
  function stairs(fig, front, factor, ends, measure, ink, wide) {
    const corners = front.flatMap((point, k) => [...(k ? [[point.x / factor, front[k - 1].y]] : []), [point.x / factor, point.y]]);
    corners.push([ends.x.end, front[front.length - 1].y]);
    const [xs, ys] = [corners.map(([x]) => x), corners.map(([, y]) => y)];
    const worst = measure.higher_is_better ? ends.y.start : ends.y.end;
    fig.varea(xs, ys, ys.map(() => worst), { fill_color: ink.ink, fill_alpha: 0.05 });
    fig.line(xs, ys, { line_color: ink.ink, line_width: 1.5, line_dash: [6, 4] });
    if (wide < 500) return; // the text below the chart says so
    const last = ys[ys.length - 1];
    fig.add_layout(new Bokeh.Label({ x: ends.x.end, y: last, x_offset: -8, y_offset: measure.higher_is_better ? 4 : -4, text: "Pareto front", text_align: "right", text_baseline: measure.higher_is_better ? "bottom" : "top", text_color: ink.soft, text_font: V.chart.font, text_font_size: "12px" }));
    fig.add_layout(new Bokeh.Label({
      x: ends.x.end, y: worst, x_offset: -8, y_offset: measure.higher_is_better ? 6 : -6, text: "shaded: some row is at least as good at no higher cost", text_align: "right",
      text_baseline: measure.higher_is_better ? "bottom" : "top", text_color: ink.soft, text_font: V.chart.font, text_font_size: "12px",
    }));
  }

  /** Names beside the points, those of the front first; none if it would overlap another, or be closer to another point. Returns the points without one. */
  function label(fig, points, front, ink, { logX, factor, ends, wide }) {
    const f = logX ? Math.log : (value) => value;
    const across = (point) => ((f(point.x / factor) - f(ends.x.start)) / (f(ends.x.end) - f(ends.x.start))) * wide;
    const up = (point) => ((point.y - ends.y.start) / (ends.y.end - ends.y.start)) * (HEIGHT - 60);
    const boxes = new Map(points.map((point) => [point, box(across(point), up(point), 16, 16)]));
    const drawn = [];
    const left = new Set(points);
    const others = wide < 500 && points.length > 3 ? [] : points.filter((point) => !front.includes(point));
    for (const point of [...front, ...others]) {
      const lines = V.wrap(point.row.label, wide < 500 ? 16 : 34);
      const width = 6.6 * Math.max(...lines.map((line) => line.length));
      const height = 15 * lines.length;
      const near = points.filter((item) => item !== point && Math.abs(across(item) - across(point)) < 60).map(up);
      const taken = [...drawn, ...points.filter((item) => item !== point).map((item) => boxes.get(item))];
      const at = (side, shift) => box(across(point) + side * (12 + width / 2), up(point) + shift, width, height);
      const seen = (place) => place.left >= 0 && place.right <= wide && place.low >= 0 && place.high <= HEIGHT - 60; // within the axes
      const nearest = (shift) => near.every((other) => Math.abs(up(point) + shift - other) >= Math.abs(shift));
      // The stairs come to a point of the front from the left and leave it to the right.
      const shifts = (side) => (front.includes(point) ? [-15 * side, 15 * side, 0, 30, -30] : [0, 16, -16, 24, -24, 34, -34]);
      const places = [1, -1].flatMap((side) => shifts(side).map((shift) => ({ side, shift })));
      const free = places.find(({ side, shift }) => nearest(shift) && seen(at(side, shift)) && taken.every((other) => apart(at(side, shift), other)));
      if (free === undefined) continue;
      drawn.push(at(free.side, free.shift));
      left.delete(point);
      fig.add_layout(new Bokeh.Label({ x: point.x / factor, y: point.y, x_offset: 11 * free.side, y_offset: free.shift, text: lines.join("\n"), text_align: free.side > 0 ? "left" : "right", text_baseline: "middle", text_color: ink.ink, background_fill_color: ink.page, background_fill_alpha: 0.8, text_font: V.chart.font, text_font_size: "12px" }));
    }
    return [...left];
  }

  /** Points that have no label in the chart, because of `why`, best first, with their markers. */
  function legend(unlabelled, measure, why) {
    const order = [...unlabelled].sort((a, b) => (V.better(measure, a.y, b.y) ? -1 : 1));
    const items = V.el("ul", { class: "legend", "aria-label": "Points without a label" }, order.map((point) => V.el("li", {}, V.marker(point.row.look, point.row.not_trained), V.el("span", {}, `${point.row.label} `, V.el("span", { class: "soft", text: V.fixed(point.y, measure.digits) })))));
    if (!order.length) return [];
    return order.length > LISTED ? [V.el("details", { id: "unlabelled-all" }, V.el("summary", { text: `${why} (${order.length})` }), items)] : [V.el("p", { class: "hint", text: `${why}:` }), items];
  }

  const box = (x, y, width, height) => ({ left: x - width / 2, right: x + width / 2, low: y - height / 2, high: y + height / 2 });
  const apart = (a, b) => a.right < b.left || b.right < a.left || a.high < b.low || b.high < a.low;

  /** The first cost that tells rows apart: in a table of readings, nearly all have the same number of parameters. Time is only shown if chosen, because it depends on other work of the machine. */
  function telling(rows) {
    const values = (of) => new Set(rows.map(of).filter(V.known).map((value) => value.toPrecision(2))).size;
    return ["parameters", "flops"].find((name) => values(COSTS[name].of) >= Math.max(2, rows.length / 5)) || "parameters";
  }

  function controls(sweep, { key, cost, measure, logX, zero }) {
    return V.el(
      "div",
      { class: "controls" },
      V.select("measure", "Score", sweep.measures.map((item) => [item.key, item.label]), measure.key, (value) => V.state.set({ measure: value })),
      V.choices("cost", "against", Object.entries(COSTS).map(([name, item]) => [name, item.name]), key, (value) => V.state.set({ cost: value })),
      logX ? null : V.check("zero", `${cost.name} from 0`, zero, (on) => V.state.set({ zero: on ? null : 0 })),
      V.check("logx", "log x", logX, (on) => V.state.set({ logx: on ? 1 : null })),
    );
  }

  async function render(root, { sweep }) {
    const key = COSTS[V.state.get("cost")] ? V.state.get("cost") : telling(sweep.rows);
    const measure = sweep.measures.find((item) => item.key === V.state.get("measure")) || sweep.primary;
    const chosen = { key, cost: COSTS[key], measure, logX: V.state.get("logx") === "1", zero: V.state.get("zero") !== "0" };
    const points = sweep.rows
      .map((row) => ({ row, x: chosen.cost.of(row), y: row.measured[measure.key]?.mean, sd: row.measured[measure.key]?.sd }))
      .filter((point) => V.known(point.x) && V.known(point.y) && (!chosen.logX || point.x > 0));
    if (!points.length) {
      const measured = sweep.rows.some((row) => row.measured[measure.key]);
      const why = measured
        ? `No row with a ${measure.label} has known ${chosen.cost.name}.`
        : sweep.runs.some((run) => run.state === "finished") ? `No finished run has a ${measure.label}.` : "No run of this sweep has finished.";
      const others = sweep.rows.some((row) => Object.keys(row.measured).length);
      V.replace(root, others ? controls(sweep, chosen) : null, V.empty("Nothing to plot yet", `Each row with a finished run is a point here. ${why}`));
      return;
    }
    const other = (row) => row.not_compared_in[measure.key];
    const apart = points.filter((point) => other(point.row));
    const front = V.pareto(points.filter((point) => !point.row.not_trained && !other(point.row)), measure);
    const hollow = points.some((point) => point.row.not_trained);
    const title = `${measure.label} against ${chosen.cost.name}: ${V.count(points.length, "row")}`;
    const node = V.el("div", { class: "plot" });
    const list = V.el("div", { id: "unlabelled" });
    const told = front.length
      ? `Pareto front (dashed line, large marks): ${front.map((point) => point.row.label).join(" → ")}. No other ${hollow ? "trained row" : apart.length ? "compared row" : "row"} has a better ${measure.label} at the same or lower cost; in the shaded area some row is at least as good.`
      : "No row counts as trained, so there is no Pareto front.";
    V.replace(
      root,
      V.el("h2", { text: title }),
      controls(sweep, chosen),
      node,
      V.el("p", { class: "hint", id: "front", text: [told, key === "seconds" ? "Other work on the machine lengthens times." : "", hollow ? "Hollow: not trained." : "", apart.length ? `Not compared, and on no front: ${apart.map((point) => point.row.label).join(", ")}.` : "", points.some((point) => V.known(point.sd)) ? "Vertical bars: ± one standard deviation over seeds." : ""].filter(Boolean).join(" ") }),
      list,
    );
    const { fig, outside, unlabelled } = draw(points, front, chosen, node.clientWidth - (window.innerWidth < 640 ? 80 : 130));
    list.replaceChildren(...legend(outside, measure, "Outside the chart, because not trained"), ...legend(unlabelled, measure, "Without a label in the chart, for lack of room"));
    await V.chart.show(fig, node, `${title}. Pareto front: ${front.map((point) => `${point.row.label} ${V.fixed(point.y)} at ${V.short(point.x)}`).join("; ")}`);
  }

  V.views.scatter = { title: "Scatter", hint: "Scores against their cost", render };
})();
