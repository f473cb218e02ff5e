"use strict";
/* κ and α of every branch of the Weighted Transformer: over time, and layer by branch. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const WEIGHTS = { kappa: "κ", alpha: "α" };
  const MEANING = { kappa: "κ: scales a branch before its feed-forward layer", alpha: "α: weight of a branch in the layer's sum" };

  /** Runs with something to show, and the one that is shown. The attention view uses it too. */
  V.oneRun = (sweep, has) => {
    const runs = sweep.runs.filter(has);
    const wanted = V.state.get("run");
    return { runs, run: runs.find((item) => item.id === wanted) || runs.find((item) => item.state === "finished") || runs[0] };
  };

  /** From 0, or the smallest κ or α of a run if one is negative, to the largest: one scale for both maps and all steps. */
  function scale(found) {
    const all = found.layers.flatMap((layer) => Object.keys(WEIGHTS).flatMap((name) => layer[name].flatMap((values) => values || [])));
    return all.reduce(({ low, high }, value) => ({ low: Math.min(low, value), high: Math.max(high, value) }), { low: 0, high: 1e-9 });
  }

  /** `low`, `high`: ends of the scale; `wide`: width of the chart in px. */
  function heat(found, weight, at, dead, { low, high }, wide) {
    const layers = found.layers;
    const branches = Math.max(...layers.map((layer) => (layer[weight][at] || []).length));
    const narrow = wide < 480;
    const row = (layer) => (narrow ? V.wrap(layer.label, 15).join("\n") : layer.label);
    const room = (wide - (narrow ? 160 : 240)) / branches; // of one cell
    const digits = room > 44 ? 3 : 2;
    const told = (value) => (room > 28 ? value.toFixed(digits) : value.toFixed(digits).replace(/^0/, "")); // .12 on a phone
    const fig = V.chart.figure({
      height: 92 + 34 * layers.length,
      x: "branch",
      y: "",
      xRange: new Bokeh.FactorRange({ factors: Array.from({ length: branches }, (_, k) => String(k + 1)) }),
      yRange: new Bokeh.FactorRange({ factors: layers.map(row).reverse() }),
      tools: "",
      grid: false,
    });
    const cells = layers.flatMap((layer) => (layer[weight][at] || []).map((value, branch) => ({ layer, branch, value })));
    const mapper = V.chart.colours(fig, low, high, "κ, α");
    const gone = (cell) => dead.some((item) => item.layer === cell.layer.name && item.branch === cell.branch && (item.weight === weight || item.weight === "both")) || cell.value === 0;
    const source = V.chart.source({
      x: cells.map((cell) => String(cell.branch + 1)),
      y: cells.map((cell) => row(cell.layer)),
      value: cells.map((cell) => cell.value),
      text: cells.map((cell) => (gone(cell) ? (room > 56 ? "✕ dead" : "✕") : told(cell.value))),
      colour: cells.map((cell) => V.onCividis((cell.value - low) / (high - low))),
    });
    const shown = fig.rect({ field: "x" }, { field: "y" }, 0.96, 0.92, { source, fill_color: { field: "value", transform: mapper }, line_color: null });
    if (room > 17) fig.text({ field: "x" }, { field: "y" }, { field: "text" }, { source, text_align: "center", text_baseline: "middle", text_color: { field: "colour" }, text_font: V.chart.font, text_font_size: room > 60 ? "14px" : room > 28 ? "12px" : "10px" });
    V.chart.hover(fig, [shown], [["", "@y, branch @x"], [WEIGHTS[weight], "@value{0.0000}"]]);
    return fig;
  }

  /** The weight that each branch of a layer would have if all were equal: most readings sum to 1, `softmax_xM` to M. */
  const equal = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  function curve(found, layer, weight, { low, high }) {
    const yRange = new Bokeh.Range1d({ start: 1.06 * low - 0.02 * high, end: 1.06 * high }); // one scale for all layers
    const fig = V.chart.figure({ height: 215, x: V.axis("step", found.steps[found.steps.length - 1]).label, y: WEIGHTS[weight], yRange, tools: "", wholeX: true });
    const ink = V.ink();
    const branches = Math.max(...layer[weight].map((values) => (values || []).length));
    const lines = [];
    for (let branch = 0; branch < branches; branch += 1) {
      const look = V.look(branch);
      const points = found.steps.map((step, k) => ({ x: step / V.axis("step", found.steps[found.steps.length - 1]).factor, step, y: (layer[weight][k] || [])[branch] })).filter((point) => V.known(point.y));
      const source = V.chart.source({ x: points.map((p) => p.x), y: points.map((p) => p.y), step: points.map((p) => p.step), name: points.map(() => `branch ${branch + 1}`) });
      lines.push(fig.line({ field: "x" }, { field: "y" }, { source, line_color: look.colour, line_dash: look.dash, line_width: 2 }));
    }
    const last = layer[weight].findLast((values) => values?.length);
    if (last) fig.add_layout(new Bokeh.Span({ location: equal(last), dimension: "width", line_color: ink.soft, line_dash: [1, 3] }));
    V.chart.hover(fig, lines, [["", "@name"], ["step", "@step{0,0}"], [WEIGHTS[weight], "@y{0.0000}"]], { line_policy: "nearest" });
    return fig;
  }

  function deadText(dead, found, run) {
    if (!dead.length) return "No branch is dead: no κ or α is 0.";
    const name = (item) => `${found.layers.find((layer) => layer.name === item.layer)?.label || item.layer} branch ${item.branch + 1} (${item.weight === "both" ? "κ and α" : WEIGHTS[item.weight]})`;
    return `${V.count(dead.length, "dead branch", "dead branches")} in ${run.title}: ${dead.map(name).join("; ")}.`;
  }

  async function render(root, { sweep, current }) {
    const { runs, run } = V.oneRun(sweep, (item) => item.branched);
    if (!run) {
      V.replace(root, V.empty("No branches in this sweep", "κ and α belong to the Weighted Transformer (model=weighted). None of these runs has recorded any.", "python src/train.py --multirun sweep=quickstart"));
      return;
    }
    const found = await V.api.get(V.api.path.branches(run.id), run.revision);
    if (!current()) return;
    if (!found.layers.length || !found.steps.length) {
      V.replace(root, V.empty("No branch weights yet", `${run.title} has not recorded κ and α so far.`));
      return;
    }
    const weight = V.state.get("weight") === "alpha" ? "alpha" : "kappa";
    const ends = scale(found);
    const last = found.steps.length - 1;
    const at = V.state.get("at") === null ? last : Math.min(Math.max(Number(V.state.get("at")) || 0, 0), last);
    const dead = at === last ? found.dead : [];
    const branches = Math.max(...found.layers.map((layer) => (layer[weight][at] || []).length));
    const levels = found.layers.map((layer) => layer[weight][at] || []).filter((values) => values.length).map(equal);
    const alike = Math.max(...levels) - Math.min(...levels) < 0.0005;
    const dotted = alike ? `Equal branches would have ${V.fixed(levels[0], 3)} each (dotted below).` : "Dotted below: equal branches with the same sum.";
    const maps = Object.keys(WEIGHTS).map((name) => ({ name, node: V.el("div", { class: "plot" }) }));
    const shown = found.layers.slice(0, V.state.get("layers") === "all" ? undefined : 6);
    const small = shown.map((layer) => ({ layer, node: V.el("div", { class: "plot" }) }));
    V.replace(
      root,
      V.el("h2", { text: `Branch weights of ${run.title}` }),
      V.el(
        "div",
        { class: "controls" },
        V.select("run", "Run", runs.map((item) => [item.id, `${item.title}${item.state === "finished" ? "" : ` (${item.state})`}`]), run.id, (id) => V.state.set({ run: id, at: null })),
        V.slider("at", "Step", { min: 0, max: last, step: 1, value: at, text: (value) => V.whole(found.steps[value]) }, (value) => V.state.set({ at: value === last ? null : value }, true)),
      ),
      V.el("p", { class: found.dead.length ? "note" : "hint", text: `${deadText(found.dead, found, run)} ${dotted}` }),
      V.el("div", { class: "pair" }, maps.map(({ name, node }) => V.el("section", {}, V.el("h3", { text: `${MEANING[name]} (step ${V.whole(found.steps[at])})` }), node))),
      V.el(
        "div",
        { class: "controls" },
        V.el("h3", { text: "Over time" }),
        V.choices("weight", "Weight", Object.entries(WEIGHTS), weight, (value) => V.state.set({ weight: value === "kappa" ? null : value })),
        V.el("ul", { class: "legend", "aria-label": "Branches" }, Array.from({ length: branches }, (_, k) => V.el("li", {}, V.line(k), `branch ${k + 1}`))),
        found.layers.length > 6 ? V.check("layers", `all ${found.layers.length} layers`, shown.length > 6, (on) => V.state.set({ layers: on ? "all" : null })) : null,
      ),
      V.el("div", { class: "small" }, small.map(({ layer, node }) => V.el("section", {}, V.el("h4", { text: `${layer.label}: ${WEIGHTS[weight]} of each branch` }), node))),
    );
    for (const { name, node } of maps) {
      await V.chart.show(heat(found, name, at, dead, ends, node.clientWidth), node, `${WEIGHTS[name]} by layer and branch at step ${found.steps[at]}: ${found.layers.map((layer) => `${layer.label} ${(layer[name][at] || []).map((value) => value.toFixed(3)).join(", ")}`).join("; ")}`);
    }
    for (const { layer, node } of small) {
      if (!current()) return;
      const reached = layer[weight][last] || [];
      await V.chart.show(curve(found, layer, weight, ends), node, `${WEIGHTS[weight]} of ${layer.label} over steps; at the end ${reached.map((value) => value.toFixed(3)).join(", ")}`);
    }
  }

  V.views.branches = { title: "Branches", hint: "κ and α of the Weighted Transformer", render };
})();
