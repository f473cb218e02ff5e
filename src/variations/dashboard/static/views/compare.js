"use strict";
/* Two or more runs side by side: what differs in configuration, environment, scores and sentences. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const MOST = 6;

  /** Runs to compare: those chosen, else the first finished run of the base row and of the best others. */
  function chosen(sweep) {
    const wanted = V.state.list("ids");
    if (wanted) return wanted.filter((id) => sweep.byId.has(id)).slice(0, MOST);
    const first = (row) => row.runs.find((run) => run.state === "finished");
    const rows = sweep.rows.filter(first);
    const base = rows.find((row) => row.isBase) || rows[0];
    const others = rows.filter((row) => row !== base).sort((a, b) => V.known(b.score) - V.known(a.score) || (V.better(sweep.primary, a.score, b.score) ? -1 : 1));
    return [base, others[0]].filter(Boolean).map((row) => first(row).id);
  }

  function chooser(sweep, ids) {
    const rest = sweep.runs.filter((run) => !ids.includes(run.id));
    const set = (next) => V.state.set({ ids: next });
    return V.el(
      "div",
      { class: "controls" },
      V.el(
        "ol",
        { class: "chips", "aria-label": "Selected runs; the others are compared with the first" },
        ids.map((id, at) => {
          const run = sweep.byId.get(id);
          return V.el(
            "li",
            {},
            V.swatch(run.color_index),
            V.el("span", { class: "name", text: run.title }),
            at === 0 ? V.el("span", { class: "tag", text: "compared with" }) : V.el("button", { type: "button", id: `first-${id}`, text: "make first", on: { click: () => set([id, ...ids.filter((other) => other !== id)]) } }),
            V.el("button", { type: "button", id: `drop-${id}`, "aria-label": `Leave out ${run.title}`, text: "×", on: { click: () => set(ids.filter((other) => other !== id)) } }),
          );
        }),
      ),
      rest.length && ids.length < MOST ? V.select("add-run", "Add", [["", "a run …"], ...rest.map((run) => [run.id, `${run.title} (${run.state})`])], "", (id) => id && set([...ids, id])) : null,
    );
  }

  /** The comparison; null if an exported file does not contain it. */
  async function load(ids, version) {
    try {
      return await V.api.get(V.api.path.compare(ids), version);
    } catch (error) {
      if (V.api.embedded() && error instanceof V.Missing) return null;
      throw error;
    }
  }

  const show = (value) => (value === null || value === undefined ? "–" : typeof value === "number" ? String(value) : typeof value === "string" ? value : JSON.stringify(value));

  function settings(id, title, rows, runs, none) {
    if (!rows.length) return [V.el("h3", { text: title }), V.el("p", { class: "hint", text: none })];
    return [
      V.el("h3", { text: `${title} (${rows.length})` }),
      V.el(
        "div",
        { class: "scroll", "data-scroll": id },
        V.el(
          "table",
          { class: "settings", id },
          V.el("thead", {}, V.el("tr", {}, V.el("th", { scope: "col", text: "key" }), runs.map((run) => V.el("th", { scope: "col", text: V.breakable(run.title) })))),
          V.el("tbody", {}, rows.map(({ key, values }) => V.el("tr", {}, V.el("th", { scope: "row" }, V.el("code", { text: key })), values.map((value, at) => V.el("td", { class: at && show(value) !== show(values[0]) ? "other" : "", "data-label": runs[at].title }, V.el("div", { class: "long", text: show(value) })))))),
        ),
      ),
    ];
  }

  const AGREE = 0.1; // largest difference, in points, of score variants that are folded into one line

  /** Scores with the variants that agree with them for all runs, such as lower-cased BLEU, folded into `same`. */
  function folded(rows) {
    const found = [];
    for (const row of rows) {
      const near = (other) => row.values.every((value, k) => value === other.values[k] || (V.known(value) && V.known(other.values[k]) && Math.abs(value - other.values[k]) < AGREE));
      const kept = found.find((other) => row.label.startsWith(`${other.label} (`) && near(other));
      if (kept) kept.same.push(row.label);
      else found.push({ ...row, same: [] });
    }
    return found;
  }

  /** The tested scores: {sets, items}, such as "test and dev" and "sentences". */
  function drawn(rows) {
    const tested = rows.filter((row) => row.ci.some(Boolean));
    const distinct = (key) => [...new Set(tested.map((row) => row[key] || "items"))].join(" and ");
    return { sets: distinct("set"), items: distinct("items") };
  }

  function scores(rows, runs) {
    const { items } = drawn(rows);
    return V.el(
      "div",
      { class: "scroll", "data-scroll": "scores" },
      V.el(
        "table",
        { class: "results", id: "scores" },
        V.el("caption", {}, V.el("span", { text: `Δ: difference from ${runs[0].title}${items ? `; where it was tested, with the 95 % interval and p of a paired bootstrap over ${items}` : ""}.` })),
        V.el("thead", {}, V.el("tr", {}, V.el("th", { scope: "col", text: "score" }), runs.map((run, at) => [V.el("th", { scope: "col", class: "number", text: V.breakable(run.title) }), at ? V.el("th", { scope: "col", class: "number", text: "Δ" }) : null]))),
        V.el("tbody", {}, folded(rows).map((row) => [
          V.el("tr", { class: row.same.length ? "kept" : "" }, V.el("th", { scope: "row", text: row.label }), runs.map((run, at) => [V.el("td", { class: "number", "data-label": run.title, text: V.fixed(row.values[at], row.digits) }), at ? V.el("td", { class: "number", "data-label": "Δ" }, change(row, at)) : null])),
          row.same.length ? V.el("tr", {}, V.el("td", { class: "soft same", colspan: 2 * runs.length, text: `The same within ${AGREE}: ${row.same.join("; ")}` })) : null,
        ])),
      ),
    );
  }

  /** A difference. It is not marked, however small its p: each run is one seed, and chance between seeds is not covered. */
  function change(row, at) {
    const shift = row.difference[at];
    if (!V.known(shift)) return "–";
    return V.el("span", {}, V.signed(shift, row.digits), row.ci[at] ? [` [${V.signed(row.ci[at][0], row.digits)}, ${V.signed(row.ci[at][1], row.digits)}]`, ` p (${row.items || "items"}) ${V.p(row.p[at])}`].map((text) => V.el("span", { class: "soft interval", text })) : null);
  }

  /** Interval of each tested difference, around zero. */
  function intervals(rows, runs) {
    const marks = rows.flatMap((row) => runs.map((run, at) => ({ run, row, at })).filter(({ at }) => at && row.ci[at])).slice(0, 24);
    return V.forest(
      marks.map(({ run, row, at }) => ({ name: runs.length > 2 ? `${run.title} · ${row.label}` : row.label, look: run.color_index, value: row.difference[at], ci: row.ci[at], digits: row.digits })),
      "difference from the first run (points, 95 % interval)",
    );
  }

  /** Words of `text`; those that `reference` lacks, or has less often, are marked. Punctuation around them is no part. */
  function marked(text, reference) {
    if (!text?.trim()) return V.el("span", { class: "soft", text: text === null ? "–" : "(empty)" }); // null: the notes say why
    const bare = (word) => word.replace(/^\p{P}+|\p{P}+$/gu, "") || word;
    const words = (line) => line.split(/\s+/).filter(Boolean);
    const left = words(reference).map(bare);
    return words(text).flatMap((word) => {
      const at = left.indexOf(bare(word));
      if (at >= 0) left.splice(at, 1);
      return [at >= 0 ? word : V.el("mark", { text: word }), " "];
    });
  }

  function sentence(item, runs, kind) {
    const line = (name, content, score, swatch) => V.el("tr", {}, V.el("th", { scope: "row" }, swatch, ` ${name}`), V.el("td", {}, content), V.el("td", { class: "number", text: score }));
    return V.el(
      "article",
      { class: "sample" },
      V.el("h4", { text: `Sentence ${item.index + 1}: ${V.signed(item.difference, 1)} ${kind} against ${runs[0].title}` }),
      V.el("table", {}, line("source", item.source, ""), line("reference", item.reference, kind), runs.map((run, at) => line(run.title, marked(item.hypotheses[at], item.reference), V.fixed(item.scores[at], 1), V.swatch(run.color_index)))),
    );
  }

  async function render(root, { sweep, current }) {
    const ids = chosen(sweep);
    if (ids.length < 2) {
      const enough = sweep.runs.length > 1;
      V.replace(root, V.el("h2", { text: "Compare runs" }), enough ? chooser(sweep, ids) : null, enough ? V.empty("Choose two runs", "The other runs are compared with the first.") : V.empty("Nothing to compare yet", "A comparison needs two runs; this sweep has fewer."));
      return;
    }
    const runs = ids.map((id) => sweep.byId.get(id));
    const found = await load(ids, runs.map((run) => run.revision).join());
    if (!current()) return;
    if (!found) {
      V.replace(root, V.el("h2", { text: "Compare runs" }), chooser(sweep, ids), V.empty("Not in this file", "An exported file compares the first run of the base row with single other runs, and of large sweeps only with some. The dashboard itself compares any runs: python src/dashboard.py"));
      return;
    }
    const chart = intervals(found.scores, runs);
    const { sets, items } = drawn(found.scores);
    const node = V.el("div", { class: "plot" });
    const count = Math.max(5, Number(V.state.get("sentences")) || 5);
    V.replace(
      root,
      V.el("h2", { text: runs.length === 2 ? `${runs[1].title} compared with ${runs[0].title}` : `${runs.length - 1} runs compared with ${runs[0].title}` }),
      chooser(sweep, ids),
      found.notes.map((text) => V.el("p", { class: "note", text })),
      V.el(
        "div",
        { class: "beside" },
        V.el(
          "section",
          {},
          V.el("h3", { text: `Sentences that differ most (${found.sentence_score})` }),
          found.sentences.length ? V.el("p", { class: "hint" }, V.el("mark", { text: "Marked" }), " words are not in the reference, or more often than there.") : V.el("p", { class: "hint", text: "None: the sentences of these runs do not differ, or are not stored." }),
          found.sentences.slice(0, count).map((item) => sentence(item, runs, found.sentence_score)),
          found.sentences.length > count ? V.el("button", { type: "button", id: "more", text: `Show ${found.sentences.length - count} more`, on: { click: () => V.state.set({ sentences: 1000 }, true) } }) : null,
        ),
        V.el(
          "section",
          {},
          V.el("h3", { text: "Scores" }),
          found.scores.length ? scores(found.scores, runs) : V.el("p", { class: "hint", text: "None of these runs has been tested." }),
          chart ? [V.el("h3", { text: `More than chance in the ${sets} ${items}? Only if the interval excludes 0; chance between seeds is not covered.` }), node] : null,
          settings("config", "Configuration: only what differs", found.config, runs, "These runs have the same configuration."),
        ),
      ),
      settings("environment", "Environment: only what differs", found.environment, runs, "These runs had the same code, versions, data and hardware."),
    );
    if (chart) await V.chart.show(chart.fig, node, `Differences with their intervals: ${chart.text}`);
  }

  V.views.compare = { title: "Compare", hint: "Two or more runs side by side", render };
})();
