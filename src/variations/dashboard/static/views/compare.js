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
    const others = rows.filter((row) => row !== base).sort((a, b) => (V.better(sweep.primary, a.score, b.score) ? -1 : 1));
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

  /** An exported file contains no pairs: configuration, environment and scores are compared from the runs themselves. */
  async function fromRuns(ids, measures) {
    const runs = await Promise.all(ids.map((id) => V.api.get(V.api.path.run(id))));
    const differing = (part) => {
      const keys = [...new Set(runs.flatMap((run) => Object.keys(run[part])))].sort();
      const rows = keys.map((key) => ({ key, values: runs.map((run) => run[part][key] ?? null) }));
      return rows.filter(({ values }) => new Set(values.map((value) => JSON.stringify(value))).size > 1);
    };
    const names = [...new Set(runs.flatMap((run) => Object.keys(run.result)))].map((key) => /^scores\.([^.]+)\.([^.]+)\.value$/.exec(key)).filter(Boolean);
    const scores = names.map(([key, set, name]) => {
      const values = runs.map((run) => run.result[key] ?? null);
      const known = measures.find((item) => item.key === `${set}.${name}`);
      return { set, name, label: known?.label ?? `${set} ${name.replace(/_/g, " ")}`, digits: known?.digits, values, difference: values.map((value, k) => (k && V.known(value) && V.known(values[0]) ? value - values[0] : null)), ci: values.map(() => null), p: values.map(() => null), items: null, higher_is_better: !V.lowerIsBetter(name) };
    });
    const sentences = runs[0].samples.map((sample) => {
      const all = runs.map((run) => run.samples.find((item) => item.index === sample.index && item.source === sample.source));
      if (!all.every(Boolean) || all.every((item) => item.hypothesis === all[0].hypothesis)) return null;
      const shifts = all.map((item) => item.score - sample.score);
      return { index: sample.index, source: sample.source, reference: sample.reference, hypotheses: all.map((item) => item.hypothesis), scores: all.map((item) => item.score), difference: shifts.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a), 0) };
    });
    return {
      config: differing("config").filter(({ key }) => !/^(run|runs|resume|name|seed$|sweep|logger|variation\.(row|label|base|table|published|provenance|note|group))/.test(key)),
      environment: differing("environment"),
      scores,
      sentences: sentences.filter(Boolean).sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference)),
      sentence_score: "chrF",
      notes: ["An exported file contains no tests between runs, and only sentences among the first 20 of the test set."],
    };
  }

  async function load(ids, version, measures) {
    if (!V.api.embedded()) return V.api.get(V.api.path.compare(ids), version);
    try {
      return await V.api.get(V.api.path.compare(ids));
    } catch (error) {
      if (error instanceof V.Missing) return fromRuns(ids, measures);
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
          V.el("tbody", {}, rows.map(({ key, values }) => V.el("tr", {}, V.el("th", { scope: "row" }, V.el("code", { text: key })), values.map((value, at) => V.el("td", { class: at && show(value) !== show(values[0]) ? "other" : "" }, V.el("div", { class: "long", text: show(value) })))))),
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
    const found = await load(ids, runs.map((run) => run.revision).join(), sweep.measures);
    if (!current()) return;
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
          found.sentences.length ? V.el("p", { class: "hint" }, V.el("mark", { text: "Marked" }), " words are not in the reference, or more often than there.") : V.el("p", { class: "hint", text: V.api.embedded() ? "Among the sentences that this file contains, none differs between these runs." : "No sentence differs between these runs, or they have stored none." }),
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
