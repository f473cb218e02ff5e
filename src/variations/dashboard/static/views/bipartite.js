"use strict";
/* Lines from queries to keys (Vaswani et al. 2017, Figures 3 to 5), as SVG. */
window.V = window.V || {};

(() => {
  const WEAKEST = 0.05;
  const ROW = 25;
  const TOP = 48;
  const LETTER = 7.6; // px of a letter at the size of .word

  /** Draws `weights` [head][query][key] of the chosen heads: queries on the left, keys on the right. */
  V.bipartite = (queries, keys, weights, heads, names) => {
    const side = (texts, name) => Math.max(LETTER * Math.max(...texts.map((text) => text.length)), 6.6 * name.length) + 18;
    const LEFT = side(queries, names.left);
    const RIGHT = LEFT + (window.innerWidth < 640 ? 110 : 210);
    const WIDTH = RIGHT + side(keys, names.right);
    const height = TOP + ROW * Math.max(queries.length, keys.length) + 8;
    const y = (k) => TOP + ROW * k + ROW / 2;
    const lines = [];
    for (const head of heads) {
      const { colour, dash } = V.look(head);
      const shift = heads.length > 1 ? (heads.indexOf(head) / (heads.length - 1) - 0.5) * Math.min(10, 2.5 * heads.length) : 0;
      weights[head].forEach((row, q) => row.forEach((weight, k) => {
        if (weight < WEAKEST) return;
        lines.push(V.svg("line", { x1: LEFT, y1: y(q) + shift, x2: RIGHT, y2: y(k) + shift, stroke: colour, "stroke-width": 0.6 + 2.6 * weight, "stroke-opacity": Math.min(1, 0.12 + 0.88 * weight), "stroke-dasharray": dash.join(" ") || null, "data-q": q, "data-k": k }));
      }));
    }
    const group = V.svg("g", { class: "lines", "aria-hidden": "true" }, lines);
    const alone = (side, at) => {
      for (const line of lines) line.classList.toggle("off", at !== null && line.dataset[side] !== String(at));
    };
    const strongest = (q) => {
      const sums = keys.map((_, k) => heads.reduce((sum, head) => sum + weights[head][q][k], 0) / heads.length);
      const best = sums.indexOf(Math.max(...sums));
      return `${queries[q]} attends most to ${keys[best]}, weight ${sums[best].toFixed(2)}`;
    };
    const word = (side, text, at) => {
      const left = side === "q";
      return V.svg(
        "text",
        {
          class: "word", x: left ? LEFT - 8 : RIGHT + 8, y: y(at), "text-anchor": left ? "end" : "start", "dominant-baseline": "central", "data-side": side,
          tabindex: left ? (at ? -1 : 0) : null, role: left ? "img" : null, "aria-label": left ? strongest(at) : null,
          on: { mouseenter: () => alone(side, at), mouseleave: () => alone(side, null), focus: () => alone(side, at), blur: () => alone(side, null) },
        },
        text,
      );
    };
    const head = (kind, text, x, anchor) => [
      V.svg("text", { class: "axis kind", x, y: 16, "text-anchor": anchor }, kind),
      V.svg("text", { class: "axis", x, y: 32, "text-anchor": anchor }, text),
    ];
    const drawing = V.svg(
      "svg",
      { class: "bipartite", viewBox: `0 0 ${WIDTH} ${height}`, width: WIDTH, height, role: "group", "aria-label": `Attention lines from queries (${names.left}) to keys (${names.right})` },
      head("query", names.left, LEFT - 8, "end"),
      head("key", names.right, RIGHT + 8, "start"),
      group,
      queries.map((text, at) => word("q", text, at)),
      keys.map((text, at) => word("k", text, at)),
    );
    return V.arrows(drawing, "text[data-side=q]");
  };
})();
