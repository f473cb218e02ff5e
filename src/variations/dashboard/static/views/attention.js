"use strict";
/* Attention of one sentence: a heat map, and lines between words, with a colour or dash pattern for each head. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const AXES = { source: "source sub-words", target: "target sub-words", before: "target sub-words read so far" };

  /** The mean over the chosen heads, (T, S). */
  function mean(weights, heads) {
    return weights[heads[0]].map((row, q) => row.map((_, k) => heads.reduce((sum, head) => sum + weights[head][q][k], 0) / heads.length));
  }

  /** What a task other than translation calls the two texts and axes. */
  const words = (found) => found.words || { source: "source", target: found.references ? "reference (no translation was short enough)" : "translation" };

  function ticks(axis, tokens) {
    const at = tokens.map((_, k) => k);
    axis.ticker = new Bokeh.FixedTicker({ ticks: at });
    axis.major_label_overrides = new Map(tokens.map((token, k) => [k, V.wrap(token, 48).join("\n")]));
  }

  function heat(layer, tokens, heads, named) {
    const queries = tokens[layer.queries];
    const keys = tokens[layer.keys];
    const values = mean(layer.weights, heads);
    const fig = V.chart.figure({
      height: Math.max(300, Math.min(named.looking ? 1400 : 560, 120 + 26 * queries.length)),
      x: named.looked_at ? "" : `key: ${AXES[layer.keys]}`, // the heading has these words
      y: named.looking || `query: ${AXES[layer.queries]}`,
      xRange: new Bokeh.Range1d({ start: -0.5, end: keys.length - 0.5 }),
      yRange: new Bokeh.Range1d({ start: queries.length - 0.5, end: -0.5 }),
      tools: "",
      grid: false,
    });
    ticks(fig.xaxis, keys);
    ticks(fig.yaxis, queries);
    fig.xaxis.major_label_orientation = Math.PI / 3;
    const cells = values.flatMap((row, q) => row.map((value, k) => ({ q, k, value })));
    const mapper = V.chart.colours(fig, Math.min(0, ...cells.map((cell) => cell.value)), Math.max(...cells.map((cell) => cell.value), 1e-9), "weight");
    const source = V.chart.source({
      x: cells.map((cell) => cell.k),
      y: cells.map((cell) => cell.q),
      value: cells.map((cell) => cell.value),
      query: cells.map((cell) => queries[cell.q]),
      key: cells.map((cell) => keys[cell.k]),
    });
    const shown = fig.rect({ field: "x" }, { field: "y" }, 1, 1, { source, fill_color: { field: "value", transform: mapper }, line_color: { field: "value", transform: mapper } });
    V.chart.hover(fig, [shown], [["query", "@query"], ["key", "@key"], ["weight", "@value{0.000}"]]);
    return fig;
  }

  function heads(layer, chosen) {
    return V.el(
      "div",
      { class: "control choices", role: "group", "aria-label": "Heads" },
      V.el("span", { text: "Heads" }),
      V.el(
        "span",
        { class: "buttons" },
        Array.from({ length: layer.heads }, (_, head) => {
          const on = chosen.includes(head);
          const next = on ? chosen.filter((other) => other !== head) : [...chosen, head].sort((a, b) => a - b);
          return V.el(
            "button",
            { type: "button", id: `head-${head + 1}`, "aria-pressed": String(on), "aria-label": `Head ${head + 1}`, on: { click: () => next.length && V.state.set({ heads: next.length === layer.heads ? null : next.map((k) => k + 1) }) } },
            V.line(head),
            String(head + 1),
          );
        }),
        V.el("button", { type: "button", id: "head-all", text: "all", on: { click: () => V.state.set({ heads: null }) } }),
      ),
    );
  }

  async function render(root, { sweep, current }) {
    const { runs, run } = V.oneRun(sweep, (item) => item.attention);
    if (!run) {
      V.replace(root, V.empty("No attention maps yet", "A finished run stores the attention maps of a few sentences. No run of this sweep has stored any; records do not contain them. For a run that still has its checkpoints, this draws them:", "python src/figures.py run=RUN figure=attention"));
      return;
    }
    const found = await V.api.get(V.api.path.attention(run.id), run.revision);
    if (!current()) return;
    const number = Math.min(Math.max(Number(V.state.get("sentence")) || 1, 1), found.sentences.length);
    const sentence = found.sentences[number - 1];
    const layers = sentence.layers;
    const layer = layers.find((item) => item.name === V.state.get("layer")) || layers.filter((item) => item.kind === "cross").pop() || layers[0];
    const wanted = (V.state.list("heads") || []).map((text) => Number(text) - 1).filter((head) => head >= 0 && head < layer.heads);
    const chosen = wanted.length ? wanted : Array.from({ length: layer.heads }, (_, k) => k);
    const tokens = { source: sentence.source_tokens, target: sentence.target_tokens, before: sentence.before_tokens };
    const which = chosen.length === 1 ? `head ${chosen[0] + 1}` : chosen.length === layer.heads ? `mean of all ${layer.heads} heads` : `mean of heads ${chosen.map((head) => head + 1).join(", ")}`;
    const named = words(found);
    const dotted = [...tokens[layer.queries], ...tokens[layer.keys]].find((token) => /^·./.test(token));
    const node = V.el("div", { class: "plot" });
    V.replace(
      root,
      V.el("h2", { text: `Attention of ${run.title}: ${layer.label}` }),
      V.el(
        "div",
        { class: "controls" },
        V.select("run", "Run", runs.map((item) => [item.id, item.title]), run.id, (id) => V.state.set({ run: id })),
        V.select("sentence", named.looking ? "Question" : "Sentence", found.sentences.map((item, k) => [k + 1, `${named.looking ? item.layers[0].label : k + 1}: ${V.clip(item.source, 60)}`]), number, (value) => V.state.set({ sentence: value })),
        layers.length === 1 ? null : V.select("layer", "Layer", layers.map((item) => [item.name, item.label]), layer.name, (value) => V.state.set({ layer: value })),
        layer.heads === 1 && named.looking ? null : heads(layer, chosen),
      ),
      found.note ? V.el("p", { class: "note", text: found.note }) : null,
      V.el("dl", { class: "sentence" }, V.el("dt", { text: named.source }), V.el("dd", { text: sentence.source }), V.el("dt", { text: named.target }), V.el("dd", { text: sentence.target })),
      V.el(
        "div",
        { class: "pair" },
        V.el("section", {}, V.el("h3", { text: named.looked_at ? named.looked_at[0].toUpperCase() + named.looked_at.slice(1) : `Heat map: ${which}` }), node),
        named.looking ? null : V.el(
          "section",
          {},
          V.el("h3", { text: "Lines from queries to keys: a colour or dash pattern for each head" }),
          V.el("div", { class: "scroll", "data-scroll": "bipartite" }, V.bipartite(tokens[layer.queries], tokens[layer.keys], layer.weights, chosen, { left: AXES[layer.queries], right: AXES[layer.keys] })),
          V.el("p", { class: "hint", text: "The stronger the line, the larger the weight; weights below 0.05 are not drawn. Point at a sub-word, or move to it with Tab and the arrow keys, to see only its lines." }),
          dotted ? V.el("p", { class: "hint", text: `${dotted}: the dot marks a sub-word that continues the word before it.` }) : null,
        ),
      ),
    );
    await V.chart.show(heat(layer, tokens, chosen, named), node, `Attention weights, ${named.looked_at || `${layer.label}, ${which}`}: ${tokens[layer.queries].length} queries attending to ${tokens[layer.keys].length}`);
  }

  V.views.attention = { title: "Attention", hint: "Which query attends to which key", render };
})();
