"use strict";
/* Tested items as drawn by their task, such as a predicted tree over its gold tree. Only tasks with drawings have this view. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  /* What may be copied from a drawing: anything else, above all scripts and addresses, is left out. */
  const SHAPE = ["x", "y", "x1", "y1", "x2", "y2", "width", "height", "rx", "fill", "stroke", "stroke-width", "stroke-opacity", "font-weight", "text-anchor"];
  const ALLOWED = { svg: [...SHAPE, "viewBox", "role", "font-family", "font-size"], title: [], text: SHAPE, line: SHAPE, rect: SHAPE };
  const LINK = /url\s*\(/i;

  function taken(node) {
    const names = ALLOWED[node.localName];
    if (!names) return null;
    const kept = [...node.attributes].filter(({ name, value }) => names.includes(name) && !LINK.test(value));
    const children = [...node.childNodes].map((child) => (child.nodeType === Node.TEXT_NODE ? child.data : child.nodeType === Node.ELEMENT_NODE ? taken(child) : null));
    return V.svg(node.localName, Object.fromEntries(kept.map(({ name, value }) => [name, V.themed(value)])), children);
  }

  /** The elements of an SVG text that a drawing may have. */
  V.drawing = (text) => {
    const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
    return (root.localName === "svg" && taken(root)) || V.el("p", { class: "note", text: "This drawing is damaged." });
  };

  async function render(root, { sweep, current }) {
    const { runs, run } = V.oneRun(sweep, (item) => item.drawings);
    if (!run) {
      V.replace(root, V.empty("Nothing to draw", "This view draws test items of tested runs, such as predicted trees (task=parsing). Records without sentences have none."));
      return;
    }
    const found = await V.api.get(V.api.path.drawings(run.id), run.revision);
    if (!current()) return;
    const controls = [V.select("run", "Run", runs.map((item) => [item.id, item.title]), run.id, (id) => V.state.set({ run: id }))];
    const line = Number(V.state.get("line"));
    const shown = found.drawings.find((item) => item.line === line) || found.drawings[0];
    if (!shown) {
      V.replace(root, V.el("div", { class: "controls" }, controls), V.empty("No mistake to draw", "This run made no mistake on the short items of the test set."));
      return;
    }
    controls.push(V.select("line", "Item", found.drawings.map((item) => [item.line, `${item.line}: ${V.clip(item.title, 60)}`]), shown.line, (value) => V.state.set({ line: value })));
    V.replace(
      root,
      V.el("h2", { text: `Drawings of ${run.title}` }),
      V.el("p", { class: "hint", text: `Each shows the ${found.drawn}.` }),
      V.el("div", { class: "controls" }, controls),
      V.el("div", { class: "scroll", "data-scroll": "drawing" }, V.drawing(shown.svg)),
    );
  }

  V.views.drawings = { title: "Drawings", hint: "Tested items, drawn", wanted: (sweep) => sweep.runs.some((item) => item.drawings), render };
})();
