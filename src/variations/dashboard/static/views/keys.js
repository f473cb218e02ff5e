"use strict";
/* Which configuration key matters: parallel coordinates of all rows, and each key's share of the variance. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const MOST = 8; // axes of keys: more do not fit on a screen
  const LINES = 1000;
  const INSEPARABLE = "cannot be separated from the other keys";

  /** Rows with a score, best first. */
  function scored(sweep, measure) {
    const known = sweep.rows.filter((row) => V.known(row.measured[measure.key]?.mean) && V.matches(row, V.state.get("filter", "")));
    const better = measure.higher_is_better ? 1 : -1;
    return known.map((row) => ({ row, score: row.measured[measure.key].mean })).sort((a, b) => better * (b.score - a.score));
  }

  /** The ranges that are chosen, by axis; in the address as `range=key:low:high`. */
  function ranges(names) {
    const found = {};
    for (const text of V.state.list("range") || []) {
      const [, name, low, high] = /^(.*):(-?[\d.]+):(-?[\d.]+)$/.exec(text) || [];
      if (names.includes(name)) found[names.indexOf(name)] = [Number(low), Number(high)];
    }
    return found;
  }

  /** Keys that differ between `rows`, most important first; of keys that always changed together only one, unless keys=all is chosen. */
  function chosen(sweep, rows, effects) {
    const order = effects.flatMap((effect) => effect.keys);
    const rank = (key) => (order.includes(key.key) ? order.indexOf(key.key) : order.length);
    const all = sweep.keys.filter((key) => V.levels(rows.map(({ row }) => key.values[row.index] ?? null)).length > 1).sort((a, b) => rank(a) - rank(b));
    const first = all.filter((key) => effects.some((effect) => effect.keys[0] === key.key) || !order.includes(key.key)).slice(0, MOST);
    return { all, drawn: V.state.get("keys") === "all" ? all : first };
  }

  const name = (sweep, key) => sweep.keys.find((item) => item.key === key)?.symbol || key;

  function bars(sweep, found) {
    const share = (value) => (!V.known(value) ? "–" : value > 0 && value < 0.01 ? "< 1 %" : `${Math.round(100 * value)} %`);
    const line = (head, value, p, kind) => V.el(
      "tr",
      { class: kind },
      V.el("th", { scope: "row" }, head),
      V.el("td", { class: "share" }, V.known(value) ? V.el("span", { style: { width: `${100 * value}%` } }) : INSEPARABLE),
      V.el("td", { class: "number", text: share(value) }),
      V.el("td", { class: "number", text: p }),
    );
    return V.el(
      "table",
      { class: "importance", id: "importance" },
      V.el("thead", {}, V.el("tr", {}, ["key", "share of the variance", "", "p"].map((text, at) => V.el("th", { scope: "col", class: at > 1 ? "number" : "", text })))),
      V.el(
        "tbody",
        {},
        found.effects.map((effect) => line(effect.keys.flatMap((key, at) => [at ? " with " : "", V.el("code", { text: V.breakable(name(sweep, key)) }), name(sweep, key) === key ? "" : ` ${key}`]), effect.share, V.known(effect.p) ? V.p(effect.p) : "–", effect.p < 0.05 ? "sure" : "chance")),
        found.shared >= 0.005 ? line("shared: explained by several keys, not separable", found.shared, "", "shared") : null,
        V.known(found.rest) ? line("not explained: interactions, seeds, chance", found.rest, "", "rest") : null,
      ),
    );
  }

  const every = (count) => (count === 1 ? "One row" : count === 2 ? "Both rows" : `All ${V.count(count, "row")}`);

  function verdict(sweep, found) {
    if (found.reason) return `${sweep.keys.length === 1 ? "One key differs" : `${sweep.keys.length} keys differ`} between the rows`;
    const [first] = found.effects;
    const along = first.keys.length > 1 ? ` (with ${V.count(first.keys.length - 1, "key")} that changed along with it)` : "";
    const together = found.shared > (first.share ?? 0);
    const share = `${together ? "several keys, not separable" : `${name(sweep, first.keys[0])}${along}`}, ${Math.round(100 * (together ? found.shared : first.share))} % of the variance of ${found.label}`;
    const [p, sure] = together ? [found.p, found.p < 0.05] : [first.p, first.p < 0.05 && first.share > 0];
    const scored = sweep.rows.filter((row) => row.score !== null);
    if (scored.length && scored.every((row) => row.not_trained)) return `Largest share: ${share}, but no row counts as trained`;
    if (!sure) return `Largest share: ${share}, but ${V.count(found.runs, "run")} cannot exclude chance (p ${V.p(p)} by permutation, which is not the test of the table)`;
    const left = scored.filter((row) => row.not_trained).length;
    const out = left ? `, without ${left} of ${V.count(scored.length, "row")}, not trained` : "";
    if (!together) return `What matters most: ${share} (${V.count(found.runs, "run")}${out})`;
    const most = found.shared > 0.5 ? `Most of the variance (${Math.round(100 * found.shared)} %) belongs to several keys together` : `Largest share: ${share}`;
    return `${most}; these runs cannot say which of them matters.`;
  }

  async function importance(sweep) {
    try {
      return await V.api.get(V.api.path.importance(sweep.name), sweep.revision);
    } catch (error) {
      if (error instanceof V.Missing) return { effects: [], reason: error.message, notes: [], label: sweep.primary.label };
      throw error;
    }
  }

  async function render(root, { sweep, current }) {
    if (!sweep.keys.length) {
      V.replace(root, V.empty("No key differs", "All rows of this sweep have the same configuration, or none has run yet."));
      return;
    }
    const found = await importance(sweep);
    if (!current()) return;
    const measure = sweep.measures.find((item) => item.key === V.state.get("measure")) || sweep.primary;
    const known = scored(sweep, measure);
    const rows = known.slice(0, LINES);
    const cut = rows.length < known.length;
    const whole = cut ? `The best ${V.whole(rows.length)} of ${V.count(known.length, "row")}` : every(rows.length);
    const { all, drawn: keys } = chosen(sweep, rows, found.effects);
    const names = [...keys.map((key) => key.key), measure.key];
    const brushes = ranges(names);
    const set = (at, range) => {
      const next = { ...brushes, [at]: range };
      V.state.set({ range: names.flatMap((key, k) => (next[k] ? [`${key}:${next[k][0]}:${next[k][1]}`] : [])) }, true);
    };
    const told = V.el("p", { class: "hint", id: "pointed", role: "status" });
    const node = V.el("div", { class: "scroll plot", "data-scroll": "parallel" });
    const axes = [...keys.map((key) => V.coordinate(key.symbol, rows.map(({ row }) => key.values[row.index] ?? null))), V.coordinate(measure.label, rows.map((item) => item.score), true)];
    const lines = rows.map(({ row, score }) => ({ name: row.name, text: `${row.label}: ${measure.label} ${V.fixed(score, measure.digits)}`, score, values: [...keys.map((key) => key.values[row.index] ?? null), score] }));
    const summary = (kept) => `${kept.length === lines.length ? whole : `${V.whole(kept.length)} of ${cut ? "the best " : ""}${V.count(lines.length, "row")}`}${kept.length ? `: ${measure.label} ${V.fixed(Math.min(...kept.map((line) => line.score)), measure.digits)} to ${V.fixed(Math.max(...kept.map((line) => line.score)), measure.digits)}` : ""}.`;
    V.replace(
      root,
      V.el("h2", { text: verdict(sweep, found) }),
      V.el(
        "div",
        { class: "controls" },
        V.select("measure", "Score", sweep.measures.map((item) => [item.key, item.label]), measure.key, (value) => V.state.set({ measure: value, range: null })),
        V.el("input", { type: "search", id: "filter", placeholder: "Filter rows  ( / )", "aria-label": "Filter rows", value: V.state.get("filter", ""), on: { input: (event) => V.state.set({ filter: event.target.value }, true) } }),
        Object.keys(brushes).length ? V.el("button", { type: "button", id: "clear", text: "Clear ranges", on: { click: () => V.state.set({ range: null }) } }) : null,
        all.length > keys.length || V.state.get("keys") ? V.check("keys", `all ${all.length} keys`, keys.length === all.length, (on) => V.state.set({ keys: on ? "all" : null })) : null,
      ),
      rows.length ? node : V.empty("No score yet", V.state.get("filter") ? "No row with a score matches the filter." : sweep.runs.some((run) => run.state === "finished") ? `No finished run has a ${measure.label}: choose another score.` : "A row appears here when its first run has been tested."),
      told,
      V.el("p", { class: "hint", text: "One line for each row, coloured by its score. Drag along an axis to keep only the rows in that range; click the axis to clear it." }),
      V.el(
        "section",
        { class: "effects" },
        V.el("h3", { text: `How much each key matters for ${found.label}` }),
        found.reason ? V.el("p", { class: "note", text: found.reason }) : bars(sweep, found),
        found.notes.map((text) => V.el("p", { class: "note", text })),
        found.method ? V.el("p", { class: "hint", text: found.method }) : null,
      ),
    );
    if (!rows.length) return;
    const { drawing, kept } = V.parallel(axes, lines, { brushes, change: set, wide: node.clientWidth - 14, point: (line) => { told.textContent = line ? line.text : summary(kept); } });
    told.textContent = summary(kept);
    node.replaceChildren(drawing);
  }

  V.views.keys = { title: "Keys", hint: "Which configuration key matters", wanted: (sweep) => sweep.keys.length > 0, render };
})();
