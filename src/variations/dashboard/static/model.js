"use strict";
/* A sweep's payload (payload/sweeps.py: Sweep) as the views want it: rows with their runs, scores, tests and states. */
window.V = window.V || {};

(() => {
  const STATES = ["finished", "running", "failed", "interrupted", "queued", "pruned", "broken", "missing"];
  const NO_TABLE = { metric: "test.bleu", measures: [], columns: [], rows: [], keys: [], notes: [], footnotes: [], missing: [], level: 0.95, tested: true };

  V.model = (payload) => {
    const table = payload.table || NO_TABLE;
    const measures = table.measures.length ? table.measures : [{ key: "test.bleu", label: "test BLEU", convention: null, higher_is_better: true }];
    const primary = measures[0];
    const rows = table.rows.map((raw, index) => row(raw, index, payload.runs, primary));
    const known = new Map(rows.map((item) => [item.name, item]));
    for (const run of payload.runs) {
      if (!known.has(run.row)) known.set(run.row, stranger(run, rows, payload.runs, primary));
      run.home = known.get(run.row);
      run.title = runTitle(run, payload.runs);
    }
    for (const item of rows) item.isBase = rows.some((other) => other.base === item.name);
    const first = rows.find((item) => item.isBase);
    for (const item of rows) item.against = item.base && item.base !== first.name ? known.get(item.base)?.label ?? item.base : null; // a reader would take the first one for its base row
    const sweep = {
      name: payload.name,
      revision: payload.revision,
      title: payload.title || payload.name,
      fault: payload.fault,
      broken: payload.broken || [],
      rows,
      runs: payload.runs,
      metrics: payload.metrics,
      labels: payload.labels,
      axes: payload.axes,
      measures,
      primary,
      keys: table.keys,
      level: table.level,
      tested: table.tested,
      columns: new Set(table.columns.map((column) => column.key)), // parts of a score, such as single tasks, have none
      publishedKeys: table.columns.filter((column) => column.key.startsWith("published.")).map((column) => column.key.slice(10)).filter((key) => key !== "params_millions"),
      publishedTitles: Object.fromEntries(table.columns.filter((column) => column.key.startsWith("published.")).map((column) => [column.key.slice(10), column.title])),
      notes: table.notes,
      footnotes: [...payload.rank_correlation.map((item) => item.sentence), ...table.footnotes],
      states: tally(rows),
      byId: new Map(payload.runs.map((run) => [run.id, run])),
    };
    sweep.verdict = V.verdict(sweep, sweep.rows);
    return sweep;
  };

  function row(raw, index, runs, primary) {
    const mine = runs.filter((run) => run.row === raw.row);
    return {
      ...raw,
      name: raw.row,
      index,
      look: raw.color_index,
      isBase: false,
      against: null,
      score: raw.measured[primary.key] ? raw.measured[primary.key].mean : null,
      runs: mine.filter((run) => run.latest),
      attempts: mine,
      counts: counts(mine, raw),
    };
  }

  /** The number of a row's seeds in each state. A seed without a run is missing. */
  function counts(mine, raw) {
    const found = {};
    for (const run of mine.filter((item) => item.latest)) {
      const state = run.state === "absent" ? "missing" : run.state;
      found[state] = (found[state] || 0) + 1;
    }
    const wanted = Number((raw.seeds || "").split("/")[1] || 0);
    const begun = Object.values(found).reduce((sum, count) => sum + count, 0);
    if (wanted > begun) found.missing = (found.missing || 0) + wanted - begun;
    return found;
  }

  /** A row of the store that is not in the table: it was removed from the sweep, or there is no table. */
  function stranger(run, rows, runs, primary) {
    const mine = runs.filter((item) => item.row === run.row);
    const scores = mine.filter((item) => item.latest && V.known(item.score)).map((item) => item.score);
    const mean = scores.length ? scores.reduce((sum, value) => sum + value, 0) / scores.length : null;
    const item = {
      name: run.row, label: run.label, group: null, index: rows.length, look: run.color_index, base: null, isBase: false, against: null, quoted: false,
      changes: [], changed_keys: [], published: {}, measured: mean === null ? {} : { [primary.key]: { mean, sd: null, n: scores.length } },
      delta: {}, ci: null, p: null, significant: null, marks: [], not_tested: null, not_compared: null, not_compared_in: {}, other_validations: null, mixed_validations: null, averaged: false, not_trained: null, parameters: run.parameters, parameters_published: null,
      cost: { flops: run.flops, seconds: run.seconds }, device_hours: V.known(run.seconds) ? run.seconds / 3600 : null, device: null,
      notes: [], missing: [], score: mean, runs: mine.filter((each) => each.latest), attempts: mine,
    };
    item.counts = counts(mine, { seeds: "" });
    item.seeds = `${item.counts.finished || 0}/${item.runs.length}`;
    rows.push(item);
    return item;
  }

  function runTitle(run, runs) {
    const parts = [run.home.label];
    if (runs.some((other) => other.row === run.row && other.seed !== run.seed)) parts.push(`seed\u00a0${run.seed}`);
    if (run.attempt > 1) parts.push(`attempt\u00a0${run.attempt}`);
    return parts.join(", ");
  }

  function tally(rows) {
    const sums = STATES.map((state) => [state, rows.reduce((sum, item) => sum + (item.counts[state] || 0), 0)]);
    return Object.fromEntries(sums.filter(([, count]) => count));
  }

  /** One sentence: which variation matters among `rows`. */
  V.verdict = (sweep, rows) => {
    const scored = rows.filter((item) => item.score !== null && !item.not_compared);
    const of = rows.length < sweep.rows.length ? " of these rows" : ""; // a filter hides the others
    if (!scored.length && rows.some((item) => item.counts?.finished)) return `No finished run${of} has a ${sweep.primary.label}`;
    if (!scored.length) return rows.some((item) => item.runs.length) ? `No run${of} has finished yet` : `No run${of} has started`;
    const trained = scored.filter((item) => !item.not_trained);
    if (!trained.length) return `${of ? "None of these rows" : "No row"} counts as trained: train for more steps`;
    const best = trained.reduce((a, b) => (V.better(sweep.primary, b.score, a.score) ? b : a));
    const equal = trained.filter((item) => item.score === best.score).length;
    const chance = V.known(best.p) && !best.significant ? " (its difference from the base row may be chance)" : "";
    const finished = (item) => item.counts?.finished || 0;
    const few = finished(best) < Math.max(...trained.map(finished)) ? ` (${V.count(finished(best), "seed")})` : "";
    const score = V.fixed(best.score, sweep.primary.digits);
    const first = equal > 1 ? `${V.count(equal, "row")} with ${score}` : `${best.label}, ${score}${few}${chance}`;
    const lead = `${sweep.primary.higher_is_better ? "Highest" : "Lowest"} ${sweep.primary.label}: ${first}.`;
    const tested = rows.filter((item) => V.known(item.p));
    const single = rows.every((item) => finished(item) <= 1) && rows.some((item) => item.ci);
    const untested = single ? "One seed a row: intervals cover only chance in the test set." : "No difference is tested.";
    if (!tested.length) return sweep.tested || single ? `${lead} ${untested}` : lead;
    const marked = tested.filter((item) => item.significant);
    const compared = rows.filter((item) => item.base);
    const one = `The difference of ${tested[0].label} from ${V.bases(tested)} cannot be told from chance.`;
    const all = `${tested.length < compared.length ? `None of the ${tested.length} tested differences` : "No difference"} from ${V.bases(tested)} can be told from chance.`;
    if (!marked.length) return `${lead} ${tested.length === 1 ? one : all}`;
    const shift = (item) => item.delta[sweep.primary.key]?.mean ?? 0;
    const strongest = marked.reduce((a, b) => (Math.abs(shift(b)) > Math.abs(shift(a)) ? b : a));
    const verb = marked.length === 1 ? "differs" : "differ";
    const from = V.bases(tested) === "the base row" ? "the base row" : marked.length === 1 ? "its base row" : "their base rows";
    const uncorrected = tested.length > 1 ? ` (p not corrected for ${tested.length} comparisons)` : "";
    return `${lead} ${marked.length} of ${V.count(tested.length, "tested row")} ${verb} from ${from} by more than chance${uncorrected}; most of all ${strongest.label} (${V.signed(shift(strongest), sweep.primary.digits)}).`;
  };

  /** What `rows` are compared with, in words. */
  V.bases = (rows) => (new Set(rows.map((item) => item.base)).size > 1 ? "their base rows" : "the base row");

  /** Is `ours` better than `theirs` in `measure`? */
  V.better = (measure, ours, theirs) => (measure.higher_is_better ? ours > theirs : ours < theirs);

  /** The configuration key by which rows are grouped, from the address. */
  V.groupKey = (sweep) => sweep.keys.find((item) => item.key === V.state.get("group")) || null;

  /** The control that chooses it; `none`: its text for no grouping. Null if no key differs. */
  V.groupBy = (sweep, none) =>
    sweep.keys.length
      ? V.select("group", "Group by", [["", none], ...sweep.keys.map((item) => [item.key, item.symbol === item.key ? item.key : `${item.symbol} (${item.key})`])], V.groupKey(sweep)?.key ?? "", (value) => V.state.set({ group: value || null }))
      : null;

  /** `rows` by their value of that key: [{title, rows}]; null if no key is chosen. */
  V.grouped = (sweep, rows) => {
    const key = V.groupKey(sweep);
    if (!key) return null;
    const value = (row) => key.values[row.index] ?? null;
    const groups = V.levels(rows.map(value)).map((level) => ({ title: `${key.symbol} = ${V.value(level)}`, rows: rows.filter((row) => V.level(value(row)) === V.level(level)) }));
    return groups;
  };

  /** The name of a published figure. */
  V.publishedName = (sweep, key) => sweep.publishedTitles[key] || key.replace(/_/g, " ");
})();
