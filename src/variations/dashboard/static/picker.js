"use strict";
/* The list of rows beside a chart: a filter box, top-k, and one checkbox for each row, with the style of its line. */
window.V = window.V || {};

(() => {
  const LIMIT = 400;
  const FIRST = 6;

  /** Rows with something to draw, best first. */
  function ranked(sweep) {
    const sign = sweep.primary.higher_is_better ? 1 : -1;
    const live = (row) => {
      const known = row.runs.map((run) => run.live_score).filter(V.known);
      return known.length ? (sign * known.reduce((sum, value) => sum + value, 0)) / known.length - 1e6 : -Infinity;
    };
    const score = (row) => (row.score === null ? live(row) : sign * row.score);
    return sweep.rows.filter((row) => row.runs.length).sort((a, b) => score(b) - score(a) || a.index - b.index);
  }

  /** Names of the rows that are drawn: those chosen, else the base rows and the first of the ranking. */
  V.selected = (sweep) => {
    const chosen = V.state.list("rows");
    const known = ranked(sweep).map((row) => row.name);
    if (chosen) return chosen.filter((name) => known.includes(name));
    if (V.groupKey(sweep)) return known.slice(0, LIMIT); // the mean of a group is that of all its rows
    const bases = ranked(sweep).filter((row) => row.isBase).map((row) => row.name); // the others are read against them
    const first = [...new Set([...bases, ...known])].slice(0, FIRST);
    return known.filter((name) => first.includes(name));
  };

  /** `values`: the values shown beside the rows that are drawn, by name; they must be of the measure that is drawn.
      `look`: the number of the line that a row is drawn by; `drawn`: the number of rows that are. */
  V.picker = (sweep, values, look, drawn) => {
    const selected = new Set(V.selected(sweep));
    const best = ranked(sweep);
    const filter = V.state.get("filter", "");
    const shown = best.filter((row) => matches(row, filter));
    const choose = (names) => V.state.set({ rows: names });
    const inOrder = (names) => sweep.rows.map((row) => row.name).filter((name) => names.has(name));
    const list = V.el(
      "ul",
      { class: "rows", "data-scroll": "picker", "aria-label": "Rows to draw" },
      shown.slice(0, LIMIT).map((row) => item(row, selected, values[row.name], look(row), (on) => {
        if (on) selected.add(row.name);
        else selected.delete(row.name);
        choose(inOrder(selected));
      })),
    );
    const top = (count) => V.el("button", { type: "button", id: `top-${count}`, text: `Top ${count}`, on: { click: () => choose(inOrder(new Set(shown.slice(0, count).map((row) => row.name)))) } });
    return V.el(
      "aside",
      { class: "picker", "aria-label": "Rows" },
      V.el("input", {
        type: "search", id: "filter", placeholder: "Filter rows  ( / )", "aria-label": "Filter rows", value: filter, autocomplete: "off",
        on: { input: (event) => V.state.set({ filter: event.target.value }, true) },
      }),
      V.el(
        "div",
        { class: "buttons" },
        shown.length > 5 ? top(5) : null,
        shown.length > 10 ? top(10) : null,
        V.el("button", { type: "button", id: "top-all", text: "All", on: { click: () => choose(inOrder(new Set(shown.map((row) => row.name)))) } }),
        V.el("button", { type: "button", id: "top-none", text: "None", on: { click: () => choose([]) } }),
      ),
      V.el("p", { class: "hint", text: `${V.whole(drawn)} of ${V.count(best.length, "row")} drawn, best ${sweep.primary.label} first; the numbers are the latest values, smoothed as the curves are; with several seeds, their mean over the seeds that have come furthest` }),
      V.arrows(list, "input"),
      shown.length > LIMIT ? V.el("p", { class: "hint", text: `${V.whole(shown.length - LIMIT)} more: filter to see them` }) : null,
      shown.length ? null : V.el("p", { class: "hint", text: best.length ? "No row matches the filter." : "No run has started." }),
    );
  };

  function matches(row, filter) {
    const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
    const text = `${row.name} ${row.label} ${row.group || ""} ${row.changes.join(" ")}`.toLowerCase();
    return words.every((word) => text.includes(word));
  }

  V.matches = matches;

  function item(row, selected, value, look, change) {
    const on = selected.has(row.name);
    const id = `row-${row.name}`;
    const running = row.runs.some((run) => run.state === "running");
    return V.el(
      "li",
      {},
      V.el(
        "label",
        { for: id, title: row.changes.join(", ") || row.label },
        V.el("input", { type: "checkbox", id, checked: on, on: { change: (event) => change(event.target.checked) } }),
        on && look !== undefined ? V.swatch(look) : V.el("span", { class: "swatch" }),
        V.el("span", { class: "name", text: V.breakable(row.label) }),
        running ? V.el("span", { class: "state running", title: "running", text: "▶" }) : null,
        V.el("span", { class: "value", text: value ?? "–" }),
      ),
    );
  }
})();
