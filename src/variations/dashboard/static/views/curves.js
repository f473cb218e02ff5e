"use strict";
/* Any measure against steps, tokens, seconds or FLOPs; seeds as a band. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  let drawing = null; // {key, node, fig, sources}: what is on the page, so that new points move it without a flicker

  const AXES = [["step", "steps"], ["target_tokens", "target tokens"], ["tokens", "all tokens"], ["seconds", "seconds"], ["flops", "FLOPs"]];

  function options(sweep) {
    const metric = V.state.get("metric", sweep.metrics[0]);
    return {
      metric: sweep.metrics.includes(metric) ? metric : sweep.metrics[0],
      axis: AXES.some(([key]) => key === V.state.get("x")) ? V.state.get("x") : "step",
      smoothing: Math.min(Math.max(Number(V.state.get("smooth", 0)) || 0, 0), 0.95),
      logX: V.state.get("logx") === "1",
      logY: V.state.get("logy") === "1",
      band: V.state.get("seeds") !== "each",
    };
  }

  function controls(sweep, chosen) {
    const set = (key) => (value) => V.state.set({ [key]: value });
    return V.el(
      "div",
      { class: "controls" },
      V.select("metric", "Measure", sweep.metrics.map((key) => [key, V.metricName(key)]), chosen.metric, set("metric")),
      V.select("x", "against", AXES, chosen.axis, set("x")),
      V.slider("smooth", "Smoothing", { min: 0, max: 0.95, step: 0.05, value: chosen.smoothing, text: (value) => value.toFixed(2) }, (value) => V.state.set({ smooth: value || null }, true)),
      V.check("logx", "log x", chosen.logX, (on) => V.state.set({ logx: on ? 1 : null })),
      V.check("logy", "log y", chosen.logY, (on) => V.state.set({ logy: on ? 1 : null })),
      V.choices("seeds", "Seeds", [["band", "band"], ["each", "each"]], chosen.band ? "band" : "each", (value) => V.state.set({ seeds: value === "band" ? null : value })),
    );
  }

  /** The lines of one row: {row, points, band, thin, raw, name}. */
  function lines(row, found, chosen) {
    const raw = found.map((item) => V.points(item.curves, chosen.metric, chosen.axis).filter((point) => (!chosen.logX || point.x > 0) && (!chosen.logY || point.y > 0)));
    const smooth = raw.map((points) => V.smooth(points, chosen.smoothing));
    if (!chosen.band || found.length === 1) {
      return smooth.map((points, k) => ({ row, points, band: false, raw: chosen.smoothing > 0 ? raw[k] : null, name: found[k].run.title, marks: k === 0 }));
    }
    const { mean, band, tails } = V.joinSeeds(smooth);
    return [
      { row, points: mean, band, raw: null, name: `${row.label}, mean of ${found.length} seeds`, marks: true },
      ...tails.map((points) => ({ row, points, band: false, raw: null, thin: true, name: `${row.label}, one seed` })),
    ];
  }

  const data = (line, factor) => ({
    x: line.points.map((point) => point.x / factor),
    y: line.points.map((point) => point.y),
    step: line.points.map((point) => point.step),
    low: line.points.map((point) => point.low ?? point.y),
    high: line.points.map((point) => point.high ?? point.y),
    name: line.points.map(() => line.name),
  });

  const columns = (points, factor) => ({ x: points.map((point) => point.x / factor), y: points.map((point) => point.y) });

  function draw(all, chosen, { factor, label }) {
    const fig = V.chart.figure({ height: 470, x: label, y: V.metricName(chosen.metric), xLog: chosen.logX, yLog: chosen.logY, wholeX: chosen.axis === "step" && factor === 1 });
    const sources = [];
    const hovered = [];
    const add = (values) => {
      const source = V.chart.source(values);
      sources.push(source);
      return source;
    };
    for (const line of all) {
      const look = V.look(line.row.look);
      const source = add(data(line, factor));
      if (line.band) fig.varea({ x: { field: "x" }, y1: { field: "low" }, y2: { field: "high" }, source, fill_color: look.colour, fill_alpha: 0.18 });
      if (line.raw) fig.line({ field: "x" }, { field: "y" }, { source: add(columns(line.raw, factor)), line_color: look.colour, line_width: 1, line_alpha: 0.3 });
      const glyph = fig.line({ field: "x" }, { field: "y" }, { source, line_color: look.colour, line_dash: look.dash, line_width: line.thin ? 1.2 : 2.2, line_alpha: line.thin ? 0.7 : 1 });
      hovered.push(glyph);
      if (!line.thin) fig.scatter({ field: "x" }, { field: "y" }, { source: add(columns(V.some(line.points), factor)), marker: look.marker, size: 7, fill_color: look.marker === "plus" ? null : look.colour, line_color: look.colour });
    }
    const tips = [["", "@name"], ["step", "@step{0,0}"], [chosen.metric, "@y{0.0000}"]];
    const spread = ["seeds from", "@low{0.0000} to @high{0.0000}"];
    for (const band of [true, false]) {
      const mine = hovered.filter((_, k) => all[k].band === band);
      if (mine.length) V.chart.hover(fig, mine, band ? [...tips, spread] : tips, { line_policy: "nearest" });
    }
    return { fig, sources };
  }

  /** All columns of data in the order in which `draw` made their sources. */
  const values = (all, factor) => all.flatMap((line) => [data(line, factor), ...(line.raw ? [columns(line.raw, factor)] : []), ...(line.thin ? [] : [columns(V.some(line.points), factor)])]);

  async function load(sweep, rows) {
    const wanted = rows.flatMap((row) => row.runs.map((run) => ({ row, run })));
    const answers = await Promise.allSettled(wanted.map(({ run }) => V.api.get(V.api.path.curves(run.id), run.revision)));
    const found = wanted.map((item, k) => ({ ...item, answer: answers[k] }));
    return {
      found: found.filter(({ answer }) => answer.status === "fulfilled").map(({ row, run, answer }) => ({ row, run, curves: answer.value })),
      lost: found.filter(({ run, answer }) => answer.status === "rejected" && run.state !== "absent").map(({ run, answer }) => `${run.title}: ${answer.reason.message}`),
    };
  }

  function latest(all, metric) {
    const values = {};
    for (const line of all) if (!line.thin && line.points.length) values[line.row.name] = V.measured(metric, line.points[line.points.length - 1].y);
    return values;
  }

  async function render(root, { sweep, current }) {
    if (!sweep.metrics.length) {
      V.replace(root, V.empty("No curves yet", "No run of this sweep has measured anything yet. The first values appear after a run's first log interval or validation."));
      return;
    }
    const chosen = options(sweep);
    const names = V.selected(sweep);
    const rows = names.map((name) => sweep.rows.find((row) => row.name === name));
    const { found, lost } = await load(sweep, rows);
    if (!current()) return;
    const all = rows.flatMap((row) => {
      const mine = found.filter((item) => item.row === row);
      return mine.length ? lines(row, mine, chosen) : [];
    }).filter((line) => line.points.length);
    const axis = V.axis(chosen.axis, Math.max(0, ...all.map((line) => line.points[line.points.length - 1].x)));
    const key = JSON.stringify([V.theme(), axis, sweep.name, chosen, all.map((line) => [line.name, line.band, Boolean(line.raw)])]);
    const title = `${V.metricName(chosen.metric)} against ${V.AXES[chosen.axis][0]}: ${V.count(rows.length, "row")}`;
    const keep = drawing && drawing.key === key && drawing.node.isConnected;
    const node = keep ? drawing.node : V.el("div", { class: "plot" });
    const best = chosen.band ? "a band reaches from the lowest to the highest seed" : "one line for each seed";
    V.replace(
      root,
      V.el(
        "div",
        { class: "split" },
        V.picker(sweep, latest(all, chosen.metric)),
        V.el(
          "section",
          {},
          V.el("h2", { text: title }),
          controls(sweep, chosen),
          all.length ? node : V.empty(names.length ? "Nothing measured" : "No row is selected", names.length ? `The selected rows have no ${V.metricName(chosen.metric)}.` : "Select rows in the list on the left."),
          all.length ? V.el("p", { class: "hint", text: `Figures in the list: the last value of each line. ${sweep.runs.length > sweep.rows.length ? `With several seeds ${best}.` : ""} ${chosen.smoothing ? "Thin lines: as measured, before smoothing." : ""}` }) : null,
          lost.length ? V.el("details", { class: "lost", id: "lost" }, V.el("summary", { text: `${V.count(lost.length, "curve")} could not be read` }), V.el("ul", {}, lost.map((text) => V.el("li", { text })))) : null,
        ),
      ),
    );
    if (!all.length) return;
    if (keep) {
      values(all, axis.factor).forEach((next, k) => { drawing.sources[k].data = next; });
      return;
    }
    const { fig, sources } = draw(all, chosen, axis);
    drawing = { key, node, fig, sources };
    await V.chart.show(fig, node, `${title}: ${all.filter((line) => !line.thin).map((line) => `${line.name} ends at ${V.measured(chosen.metric, line.points[line.points.length - 1].y)}`).join("; ")}`);
  }

  V.views.curves = { title: "Curves", hint: "Any measure while training", render };
})();
