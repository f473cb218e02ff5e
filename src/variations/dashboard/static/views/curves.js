"use strict";
/* Any measure against steps, tokens, seconds or FLOPs; seeds as a band, rows joined by a key, one chart or a grid of small ones. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  let drawing = null; // {key, node, fig, sources}: what is on the page, so that new points move it without a flicker

  const PANELS = [["one", "one chart"], ["rows", "one for each line"], ["measures", "one for each measure"]];
  const MEASURES = 9; // small charts of measures, unless all are asked for
  const AXES = { step: "steps", target_tokens: "target tokens", tokens: "all tokens", seconds: "seconds", flops: "FLOPs" };

  function options(sweep) {
    const metric = V.state.get("metric", sweep.metrics[0]);
    return {
      metric: sweep.metrics.includes(metric) ? metric : sweep.metrics[0],
      name: V.metricName(sweep, sweep.metrics.includes(metric) ? metric : sweep.metrics[0]),
      axis: sweep.axes.includes(V.state.get("x")) ? V.state.get("x") : "step",
      smoothing: Math.min(Math.max(Number(V.state.get("smooth", 0)) || 0, 0), 0.95),
      logX: V.state.get("logx") === "1",
      logY: V.state.get("logy") === "1",
      band: V.state.get("seeds") !== "each",
      panels: PANELS.some(([key]) => key === V.state.get("panels")) ? V.state.get("panels") : "one",
      group: V.groupKey(sweep)?.key ?? null,
    };
  }

  function controls(sweep, chosen) {
    const set = (key) => (value) => V.state.set({ [key]: value });
    return V.el(
      "div",
      { class: "controls" },
      V.select("metric", "Measure", sweep.metrics.map((key) => [key, V.metricName(sweep, key)]), chosen.metric, set("metric")),
      V.select("x", "against", sweep.axes.map((key) => [key, AXES[key]]), chosen.axis, set("x")),
      V.slider("smooth", "Smoothing", { min: 0, max: 0.95, step: 0.05, value: chosen.smoothing, text: (value) => value.toFixed(2) }, (value) => V.state.set({ smooth: value || null }, true)),
      V.check("logx", "log x", chosen.logX, (on) => V.state.set({ logx: on ? 1 : null })),
      V.check("logy", "log y", chosen.logY, (on) => V.state.set({ logy: on ? 1 : null })),
      V.choices("seeds", chosen.group ? "Runs" : "Seeds", [["band", "band"], ["each", "each"]], chosen.band ? "band" : "each", (value) => V.state.set({ seeds: value === "band" ? null : value })),
      V.groupBy(sweep, "nothing"),
      V.select("panels", "Charts", PANELS, chosen.panels, (value) => V.state.set({ panels: value === "one" ? null : value })),
      chosen.panels === "measures" && sweep.metrics.length > MEASURES ? V.check("measures", `all ${sweep.metrics.length} measures`, V.state.get("measures") === "all", (on) => V.state.set({ measures: on ? "all" : null })) : null,
    );
  }

  /** What is drawn as one line: a row, or all rows of a group: {name, label, look, runs: [{run, curves}]}. */
  function series(sweep, rows, found) {
    const mine = (row) => found.filter((item) => item.row === row);
    const groups = V.grouped(sweep, rows);
    const looks = V.distinct(rows.map((row) => row.look));
    if (!groups) return rows.map((row, k) => ({ name: row.name, label: row.label, look: looks[k], runs: mine(row), of: "seeds" }));
    return groups.map((group, look) => ({ name: group.title, label: group.title, look, runs: group.rows.flatMap(mine), of: "runs" }));
  }

  /** The lines of one series: {row, points, band, thin, raw, name}. */
  function lines(row, chosen) {
    const found = row.runs;
    const raw = found.map((item) => V.points(item.curves, chosen.metric, chosen.axis).filter((point) => (!chosen.logX || point.x > 0) && (!chosen.logY || point.y > 0)));
    const smooth = raw.map((points) => V.smooth(points, chosen.smoothing));
    if (!chosen.band || found.length === 1) {
      return smooth.map((points, k) => ({ row, points, band: false, raw: chosen.smoothing > 0 ? raw[k] : null, name: found[k].run.title })).filter((line) => line.points.length);
    }
    const { mean, band, tails } = V.joinSeeds(smooth);
    const measured = found.filter((item, k) => raw[k].length);
    const name = measured.length === 1 ? measured[0].run.title : `${row.label}, mean of ${measured.length} ${row.of}`;
    const joined = [
      { row, points: mean, band, raw: null, name },
      ...tails.map((points) => ({ row, points, band: false, raw: null, thin: true, name: `${row.label}, one of its ${row.of}` })),
    ];
    return joined.filter((line) => line.points.length);
  }

  /** What is chosen, without the axes that leave points out: the latest value of a run may be one of those. */
  const whole = (chosen) => ({ ...chosen, logX: false, logY: false });

  const data = (line, factor) => ({
    x: line.points.map((point) => point.x / factor),
    y: line.points.map((point) => point.y),
    step: line.points.map((point) => point.step),
    low: line.points.map((point) => point.low ?? point.y),
    high: line.points.map((point) => point.high ?? point.y),
    name: line.points.map(() => line.name),
  });

  const columns = (points, factor) => ({ x: points.map((point) => point.x / factor), y: points.map((point) => point.y) });

  /** A figure of the lines `all`. As one of a grid it is `small`: {rest: lines drawn faintly behind, xRange, yRange}. */
  function draw(all, chosen, { factor, label }, small = null) {
    const fig = V.chart.figure({
      height: small ? 215 : 470, x: label, y: small ? "" : chosen.name, xLog: chosen.logX, yLog: chosen.logY, wholeX: chosen.axis === "step" && factor === 1,
      ...(small ? { tools: "", xRange: small.xRange, yRange: small.yRange } : {}),
    });
    for (const line of small ? small.rest : []) fig.line(columns(line.points, factor).x, columns(line.points, factor).y, { line_color: V.ink().soft, line_width: 1, line_alpha: 0.4 });
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
      if (!line.thin && !small) fig.scatter({ field: "x" }, { field: "y" }, { source: add(columns(V.some(line.points), factor)), marker: look.marker, size: 7, fill_color: look.marker === "plus" ? null : look.colour, line_color: look.colour });
    }
    const tips = [["", "@name"], ["step", "@step{0,0}"], [chosen.metric, "@y{0.0000}"]];
    const spread = ["from", "@low{0.0000} to @high{0.0000}"];
    for (const band of [true, false]) {
      const mine = hovered.filter((_, k) => all[k].band === band);
      if (mine.length) V.chart.hover(fig, mine, band ? [...tips, spread] : tips, { line_policy: "nearest" });
    }
    return { fig, sources };
  }

  /** All columns of data in the order in which `draw` made their sources. */
  const values = (all, factor) => all.flatMap((line) => [data(line, factor), ...(line.raw ? [columns(line.raw, factor)] : []), ...(line.thin ? [] : [columns(V.some(line.points), factor)])]);

  /** The measures of a grid with one chart for each. */
  const measures = (sweep) => (V.state.get("measures") === "all" ? sweep.metrics : sweep.metrics.slice(0, MEASURES));

  /** The curves that are drawn, and no others: of the rows that are selected, what is chosen. The list shows the chosen measure too. */
  async function load(sweep, rows, chosen) {
    const wanted = rows.flatMap((row) => row.runs.map((run) => ({ row, run })));
    const metrics = chosen.panels === "measures" ? [...new Set([chosen.metric, ...measures(sweep)])] : [chosen.metric];
    const answers = await Promise.allSettled(V.api.curves(wanted.map(({ run }) => run), metrics, chosen.axis));
    const found = wanted.map((item, k) => ({ ...item, answer: answers[k] }));
    return {
      found: found.filter(({ answer }) => answer.status === "fulfilled").map(({ row, run, answer }) => ({ row, run, curves: answer.value })),
      lost: found.filter(({ run, answer }) => answer.status === "rejected" && run.state !== "absent").map(({ row, run, answer }) => ({ row, text: `${run.title}: ${answer.reason.message}` })),
    };
  }

  /** The last value of each row that is drawn, for the list: the mean over its seeds that have come furthest. A seed that
      is still running would take the mean back to an early step. */
  function latest(rows, found, chosen) {
    const values = {};
    for (const row of rows) {
      const each = lines({ label: row.label, runs: found.filter((item) => item.row === row) }, { ...whole(chosen), band: false });
      const last = each.map((line) => line.points[line.points.length - 1]);
      const step = Math.max(...last.map((point) => point.step));
      const furthest = last.filter((point) => point.step === step).map((point) => point.y);
      if (furthest.length) values[row.name] = V.measured(chosen.metric, furthest.reduce((sum, y) => sum + y, 0) / furthest.length);
    }
    return values;
  }

  const end = (all) => Math.max(0, ...all.map((line) => line.points[line.points.length - 1].x));

  /** The small charts of a grid: {title, all, chosen, rest}. */
  function panels(sweep, parts, chosen, all) {
    if (chosen.panels === "rows") return parts.map((part) => ({ title: part.label, look: part.look, chosen, all: all.filter((line) => line.row === part), rest: all.filter((line) => line.row !== part && !line.thin) })).filter((panel) => panel.all.length);
    return measures(sweep).map((metric) => {
      const own = { ...chosen, metric, name: V.metricName(sweep, metric) };
      return { title: own.name, chosen: own, all: parts.flatMap((part) => lines(part, own)), rest: [] };
    }).filter((panel) => panel.all.length);
  }

  /** One range for all small charts of one measure, so that heights can be compared. */
  function shared(all, chosen, factor) {
    const range = (values, log) => {
      const low = values.reduce((a, b) => Math.min(a, b));
      const high = values.reduce((a, b) => Math.max(a, b));
      const room = 0.05 * (high - low || 1);
      return log ? { start: low / 1.1, end: high * 1.1 } : { start: low - room, end: high + room };
    };
    const points = all.flatMap((line) => line.points);
    const x = range(points.map((point) => point.x / factor), chosen.logX);
    const y = range(points.flatMap((point) => [point.low ?? point.y, point.high ?? point.y]), chosen.logY);
    return () => ({ xRange: new Bokeh.Range1d(x), yRange: new Bokeh.Range1d(y) }); // a range belongs to one chart
  }

  async function showGrid(list, chosen, axis, nodes, current) {
    const ranges = chosen.panels === "rows" ? shared(list.flatMap((panel) => panel.all), chosen, axis.factor) : () => ({});
    for (const [k, panel] of list.entries()) {
      if (!current()) return;
      const { fig } = draw(panel.all, panel.chosen, axis, { rest: panel.rest, ...ranges() });
      await V.chart.show(fig, nodes[k], `${panel.title}: ${ends(panel.all, panel.chosen)}`);
    }
  }

  /** The last values of the rows or groups that are drawn, as text. */
  function ends(all, chosen) {
    const parts = [...new Set(all.map((line) => line.row))];
    const found = parts.flatMap((part) => lines(part, whole(chosen))).filter((line) => !line.thin);
    return found.map((line) => `${line.name} ends at ${V.measured(chosen.metric, line.points[line.points.length - 1].y)}`).join("; ");
  }

  /** The measure that says whether rows can be compared in a recorded quantity; another score where no table has it. */
  function judgedBy(sweep, metric) {
    const loss = (key) => /(nll|ppl|loss)$/.test(key);
    if (loss(metric)) return "dev_nll"; // stands for all losses
    const keys = [metric.replace("/", "."), metric.replace("/", "_")];
    const found = sweep.measures.find((measure) => keys.includes(measure.key)) ?? sweep.measures.find((measure) => !loss(measure.key));
    return (found ?? sweep.primary).key;
  }

  async function render(root, { sweep, current }) {
    if (!sweep.metrics.length) {
      V.replace(root, V.empty("No curves yet", "No run of this sweep has measured anything yet. The first values appear after a run's first log interval or validation."));
      return;
    }
    const chosen = options(sweep);
    const names = V.selected(sweep);
    const rows = names.map((name) => sweep.rows.find((row) => row.name === name));
    const { found, lost } = await load(sweep, rows, chosen);
    if (!current()) return;
    const shown = chosen.panels === "measures" ? measures(sweep) : [chosen.metric];
    const has = (part) => shown.some((metric) => lines(part, { ...chosen, metric }).length);
    const parts = series(sweep, rows, found).filter(has);
    const [there, without] = [true, false].map((wanted) => rows.filter((row) => has({ label: row.label, runs: found.filter((item) => item.row === row) }) === wanted));
    const all = parts.flatMap((part) => lines(part, chosen));
    const grid = chosen.panels === "one" ? [] : panels(sweep, parts, chosen, all);
    const drawn = chosen.panels === "measures" ? grid.flatMap((panel) => panel.all) : all;
    const axis = V.axis(chosen.axis, end(drawn));
    const key = JSON.stringify([V.theme(), axis, sweep.name, chosen, all.map((line) => [line.name, line.row.look, line.band, Boolean(line.raw)])]);
    const what = chosen.panels === "measures" ? V.count(grid.length, "measure") : chosen.name;
    const title = `${what} against ${V.AXES[chosen.axis][0]}: ${chosen.group ? V.count(parts.length, "group") : V.count(there.length, "row")}`;
    const keep = !grid.length && drawing && drawing.key === key && drawing.node.isConnected;
    const node = keep ? drawing.node : V.el("div", { class: "plot" });
    const nodes = grid.map(() => V.el("div", { class: "plot" }));
    const several = parts.some((part) => part.runs.length > 1);
    const other = (row, metric) => row.not_compared_in[judgedBy(sweep, metric)] || (metric.startsWith("dev/") && row.other_validations);
    const apart = rows.filter((row) => shown.some((metric) => other(row, metric))).map((row) => row.label);
    const unlike = rows.filter((row) => row.unlike || row.mixed_validations).map((row) => row.label);
    // The sentence is that of figures/traces.py.
    const averaged = there.filter((row) => row.averaged).map((row) => row.label);
    const ofAveraged = averaged.length ? `${averaged.length < there.length ? `Of ${averaged.join("; ")}, the` : "The"} current weights are drawn, and their moving average is tested.` : "";
    const where = shown.length > 1 ? " in some of these measures" : "";
    const waiting = without.filter((row) => !lost.some((item) => item.row === row)).map((row) => row.label);
    const log = chosen.logX || chosen.logY;
    const value = log ? "positive value" : "value";
    const nothing = log
      ? ["Nothing to draw on a log axis", `A log axis has only positive values, and the selected rows have none of ${chosen.name}: switch it off.`]
      : ["Nothing measured", `The selected rows have no ${chosen.name}.`];
    const band = `${chosen.group ? "The line of a group is the mean over its runs" : "The line of a row is the mean over its seeds"}, as far as all of them have been measured; a band reaches from the lowest to the highest.`;
    V.replace(
      root,
      V.el(
        "div",
        { class: "split" },
        V.picker(sweep, latest(rows, found, chosen), (row) => parts.find((part) => part.runs.some((item) => item.row === row))?.look, there.length),
        V.el(
          "section",
          {},
          V.el("h2", { text: title }),
          controls(sweep, chosen),
          chosen.group && chosen.panels !== "rows" && drawn.length ? V.el("ul", { class: "legend", "aria-label": "Groups" }, parts.map((part) => V.el("li", {}, V.swatch(part.look), `${part.label} (${V.count(part.runs.length, "run")})`))) : null,
          !drawn.length ? V.empty(...(names.length ? nothing : ["No row is selected", "Select rows in the list."])) : null,
          drawn.length && !grid.length ? node : null,
          grid.length ? V.el("div", { class: "small" }, grid.map((panel, k) => V.el("section", {}, V.el("h4", {}, chosen.panels === "rows" ? [V.swatch(panel.look), " "] : null, panel.title), nodes[k]))) : null,
          drawn.length ? V.el("p", { class: "hint", id: "apart", text: [unlike.length ? `Seeds that were not trained or validated alike: those of ${unlike.join("; ")}.` : "", apart.length ? `Not comparable with the base row${where}: ${apart.join("; ")}.` : "", ofAveraged, several && chosen.band ? band : "", chosen.smoothing ? "Thin lines are unsmoothed." : "", chosen.panels === "rows" ? "All charts have the same axes; the other lines are grey." : ""].filter(Boolean).join(" ") }) : null,
          drawn.length && waiting.length ? V.el("p", { class: "hint", id: "waiting", text: `Not drawn, because no ${value} has been measured yet: ${waiting.join("; ")}.` }) : null,
          lost.length ? V.el("details", { class: "lost", id: "lost" }, V.el("summary", { text: `${V.count(lost.length, "curve")} could not be read` }), V.el("ul", {}, lost.map(({ text }) => V.el("li", { text })))) : null,
        ),
      ),
    );
    if (grid.length) {
      drawing = null;
      await showGrid(grid, chosen, axis, nodes, current);
      return;
    }
    if (!all.length) return;
    const told = `${title}: ${ends(all, chosen)}`;
    if (keep) {
      node.setAttribute("aria-label", told);
      values(all, axis.factor).forEach((next, k) => { drawing.sources[k].data = next; });
      return;
    }
    const { fig, sources } = draw(all, chosen, axis);
    drawing = { key, node, fig, sources };
    await V.chart.show(fig, node, told);
  }

  V.views.curves = { title: "Curves", hint: "Any measure while training", render };
})();
