"use strict";
/* The table, sortable; a click on a row shows what it changes. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const LIMIT = 40; // differences in the chart below the table

  /** Columns: key, head, tooltip, the value to sort by, and the contents of the cell. */
  function columns(sweep) {
    const out = [{ key: "label", head: "Row", sort: (row) => row.label.toLowerCase(), cell: (row) => label(row), text: true }];
    for (const key of sweep.publishedKeys) {
      out.push({ key: `published.${key}`, head: [V.publishedName(sweep, key).replace(/^published /i, "").replace(/, published$/i, ""), "published"], sort: (row) => row.published[key]?.value, cell: (row) => published(row.published[key], printed(sweep, row, `published.${key}`)) });
    }
    for (const [at, measure] of sweep.measures.filter((measure, k) => k === 0 || sweep.columns.has(measure.key)).entries()) {
      out.push({ key: measure.key, head: [measure.label, "ours"], hint: measure.convention, sort: (row) => row.measured[measure.key]?.mean, cell: (row) => measured(sweep, row, measure, at === 0) });
      if (at === 0) {
        out.push({ key: "delta", head: ["Δ base", `${Math.round(100 * sweep.level)} % interval`], hint: "Difference from the row's base row, over the seeds both have", sort: (row) => row.delta[measure.key]?.mean, cell: (row) => delta(row, measure) });
      }
    }
    out.push({ key: "parameters", head: ["parameters", sweep.rows.some((row) => row.parameters_published) ? "published / ours" : ""], sort: (row) => row.parameters, cell: (row) => parameters(row) });
    out.push({ key: "hours", head: ["cost", hoursName(sweep)], sort: (row) => row.device_hours, cell: (row) => hours(sweep, row) });
    out.push({ key: "state", head: ["runs", "finished / all"], sort: (row) => (row.quoted ? undefined : row.counts.finished || 0), cell: (row) => runs(row) });
    return out;
  }

  const label = (row) => [
    V.el("span", { class: "label", text: row.label }),
    row.quoted ? V.el("span", { class: "tag", text: "quoted" }) : null,
    row.notes.length ? V.el("span", { class: "tag", title: row.notes.join("\n"), text: "note" }) : null,
  ];

  /** The text of a cell as `table.py` prints it; undefined for a row that is not in the table. */
  const printed = (sweep, row, column) => row.cells?.[[...sweep.columns].indexOf(column)]?.text;

  function published(figure, text) {
    if (!figure) return "";
    const from = figure.recalled ? "Recalled, not read in the paper" : "Read in the paper";
    return V.el("span", { class: "published", title: [from, ...figure.notes].join("\n"), text: `${text || V.any(figure.value)}${figure.recalled ? "°" : ""}` });
  }

  function measured(sweep, row, measure, first) {
    const found = row.measured[measure.key];
    if (!found) return first && !row.quoted ? missing(sweep, row, measure) : "";
    const spread = V.known(found.sd) ? ` ± ${V.fixed(found.sd, measure.digits)}` : "";
    return [V.el("strong", { text: V.fixed(found.mean, measure.digits) }), V.el("span", { class: "soft", title: V.count(found.n, "seed"), text: spread || (first && found.n === 1 ? " n = 1" : "") })];
  }

  /** Why a row has no value of `measure`: what has become of its first run, or, in the words of the table, that a finished run did not measure it. */
  function missing(sweep, row, measure) {
    if (row.counts.finished) return V.el("span", { class: "soft", text: printed(sweep, row, measure.key) ?? "not measured" });
    return V.stateMark(row.runs.length ? row.runs[0].state : "missing");
  }

  function delta(row, measure) {
    const found = row.delta[measure.key];
    if (!found) return row.not_tested ? V.el("span", { class: "soft", title: row.not_tested, text: row.not_trained ? "not trained" : /not trained$/.test(row.not_tested) ? row.not_tested : "not tested" }) : row.isBase && !row.base ? V.el("span", { class: "soft", text: "base" }) : "";
    const better = V.better(measure, found.mean, 0);
    const chance = V.known(row.p) ? `p ${V.p(row.p)}` : "one seed, chance in test items only";
    const title = row.ci ? `${chance}, interval ${V.signed(row.ci[0], measure.digits)} to ${V.signed(row.ci[1], measure.digits)}` : row.not_tested;
    return V.el(
      "span",
      { class: row.significant ? (better ? "better" : "worse") : "", title },
      V.signed(found.mean, measure.digits),
      V.el("sup", { class: "mark", text: row.marks.join("") }),
      row.ci ? V.el("span", { class: "soft interval", text: ` [${V.signed(row.ci[0], measure.digits)}, ${V.signed(row.ci[1], measure.digits)}]` }) : null,
      row.against ? V.el("span", { class: "soft against", text: `v.\u00a0${row.against}` }) : null,
    );
  }

  function parameters(row) {
    const theirs = V.known(row.parameters_published) ? V.el("span", { class: "published", text: `${V.any(row.parameters_published)} M` }) : null;
    return [theirs, theirs && row.parameters ? " / " : null, row.parameters ? V.short(row.parameters) : theirs ? "" : "–"];
  }

  /** As in the tables: on CPUs, the hours are those of processes, not of cores. */
  function hoursName(sweep) {
    const devices = [...new Set(sweep.rows.map((row) => row.device).filter(Boolean))];
    return devices.length === 1 && { CPU: "process-hours", GPU: "GPU-hours" }[devices[0]] || "device-hours";
  }

  function hours(sweep, row) {
    if (!V.known(row.device_hours)) return "";
    const [text] = (printed(sweep, row, "device_hours") ?? V.hours(row.device_hours)).split(" "); // its device may follow
    return [text, V.el("span", { class: "soft", text: ` ${row.device || ""}` })];
  }

  function runs(row) {
    if (row.quoted) return "";
    const worst = ["failed", "broken", "running", "interrupted", "queued"].find((state) => row.counts[state]);
    return [row.seeds, worst && row.score !== null ? [" ", V.stateMark(worst)] : null];
  }

  function head(column, sorted, down) {
    const [first, second] = Array.isArray(column.head) ? column.head : [column.head, ""];
    const sort = sorted === column.key ? (down ? "descending" : "ascending") : "none";
    return V.el(
      "th",
      { scope: "col", class: column.text ? "" : "number", "aria-sort": sort },
      V.el(
        "button",
        { type: "button", id: `sort-${column.key}`, title: column.hint || `Sort by ${first} ${second}`, on: { click: () => choose(column, sorted, down) } },
        V.el("span", { text: first }),
        second ? V.el("span", { class: "soft", text: second }) : null,
        V.el("span", { class: "arrow", "aria-hidden": "true", text: sort === "none" ? "" : down ? "▼" : "▲" }),
      ),
    );
  }

  /** Numbers come largest first, then smallest, then in the table's own order again. */
  function choose(column, sorted, down) {
    if (sorted !== column.key) V.state.set({ sort: column.key, up: column.text ? 1 : null });
    else if (down === !column.text) V.state.set({ up: column.text ? null : 1 });
    else V.state.set({ sort: null, up: null });
  }

  function ordered(rows, column, down) {
    if (!column) return rows;
    const value = (row) => column.sort(row);
    const has = (row) => value(row) !== undefined && value(row) !== null;
    const compare = (a, b) => (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    return [...rows].sort((a, b) => Number(has(b)) - Number(has(a)) || (has(a) ? (down ? -compare(a, b) : compare(a, b)) : 0) || a.index - b.index);
  }

  /** Rows by the key that was chosen, else by the groups of the paper's table: [{title, rows}]. */
  function sections(sweep, rows, sorted) {
    const groups = V.grouped(sweep, rows);
    if (groups) return groups.map((group) => ({ ...group, title: `${group.title}: ${mean(sweep, group.rows)}` }));
    const found = [];
    for (const row of rows) {
      const title = sorted ? null : row.group;
      if (!found.length || found.at(-1).title !== title) found.push({ title, rows: [] });
      found.at(-1).rows.push(row);
    }
    return found;
  }

  /** Over the rows that the table compares: others were measured on something else, or are not trained. */
  function mean(sweep, rows) {
    const scores = rows.filter((row) => !row.not_compared && !row.not_trained).map((row) => row.score).filter(V.known);
    const average = scores.reduce((sum, score) => sum + score, 0) / scores.length;
    return `${V.count(rows.length, "row")}${scores.length ? `, mean of ${sweep.primary.label}: ${V.fixed(average, sweep.primary.digits)}${scores.length < rows.length ? ` of ${scores.length}` : ""}` : ""}`;
  }

  function body(sweep, list, rows, sorted, open) {
    const heading = (title) => V.el("tr", { class: "group" }, V.el("th", { colspan: list.length, scope: "colgroup", text: title }));
    const end = () => V.el("tr", { class: "end" }, V.el("td", { colspan: list.length })); // else a row without a group would seem to belong to the group above it
    return sections(sweep, rows, sorted).flatMap((section, at) => [section.title ? heading(section.title) : at ? end() : null, ...lines(sweep, list, section.rows, open)]);
  }

  function lines(sweep, list, rows, open) {
    const out = [];
    for (const row of rows) {
      const expanded = open === row.name;
      const toggle = () => V.state.set({ open: expanded ? null : row.name }, true);
      out.push(
        V.el(
          "tr",
          {
            id: `line-${row.name}`, class: `line${row.isBase ? " base" : ""}`, tabindex: 0, "aria-expanded": String(expanded),
            on: {
              click: () => window.getSelection().isCollapsed && toggle(),
              keydown: (event) => {
                if (event.key !== "Enter" && event.key !== " ") return;
                event.preventDefault();
                toggle();
              },
            },
          },
          list.map((column, at) => V.el(at ? "td" : "th", at ? { class: "number" } : { scope: "row" }, column.cell(row))),
        ),
      );
      if (expanded) out.push(V.el("tr", { class: "detail" }, V.el("td", { colspan: list.length }, detail(sweep, row))));
    }
    return out;
  }

  function detail(sweep, row) {
    const base = sweep.rows.find((item) => item.name === row.base);
    const done = row.runs.filter((run) => run.state === "finished");
    const other = base && base.runs.find((run) => run.state === "finished");
    return V.el(
      "div",
      { class: "opened" },
      V.el("p", {}, V.el("strong", { text: base ? `Changes relative to ${base.label}: ` : "" }), row.changes.length ? V.el("span", { class: "changes" }, row.changes.map((change) => V.el("code", { text: change }))) : base ? "not known before it has run" : "Other rows are compared with this row."),
      row.not_tested ? V.el("p", { class: "soft", text: `Not tested: ${row.not_tested.replace(/^not tested: /, "")}` }) : null,
      row.notes.map((note) => V.el("p", { class: "soft", text: note })),
      Object.entries(row.published).flatMap(([key, figure]) => figure.notes.map((note) => V.el("p", { class: "soft", text: `${V.publishedName(sweep, key)}: ${note}` }))),
      row.runs.length
        ? V.el("ul", { class: "seeds" }, row.runs.map((run) => V.el("li", {}, `seed ${run.seed}: `, V.stateMark(run.state), V.known(run.score) ? ` ${V.fixed(run.score, sweep.primary.digits)}` : "", run.reason ? ` – ${run.reason}` : "")))
        : null,
      V.el(
        "p",
        { class: "links" },
        row.runs.length ? V.el("a", { href: V.state.after({ view: "curves", rows: base ? [base.name, row.name] : [row.name] }), text: base ? "curves beside its base row" : "curves" }) : null,
        done.length && other ? V.el("a", { href: V.state.after({ view: "compare", ids: [other.id, done[0].id] }), text: "compare with its base row" }) : null,
      ),
    );
  }

  V.views.table = {
    title: "Table",
    hint: "Published figures beside ours",
    render: async (root, { sweep }) => {
      const list = columns(sweep);
      const sorted = V.state.get("sort");
      const column = list.find((item) => item.key === sorted);
      const down = V.state.get("up") !== "1";
      const filter = V.state.get("filter", "");
      const rows = ordered(sweep.rows.filter((row) => V.matches(row, filter)), column, down);
      const hidden = sweep.rows.length - rows.length;
      const table = V.el(
        "table",
        { class: "results" },
        V.el("caption", {}, V.el("span", { text: caption(sweep) })),
        V.el("thead", {}, V.el("tr", {}, list.map((item) => head(item, sorted, down)))),
        V.el("tbody", {}, body(sweep, list, rows, Boolean(column), V.state.get("open"))),
      );
      const chart = effects(sweep, rows);
      const node = V.el("div", { class: "plot" });
      V.replace(
        root,
        sweep.fault ? V.el("p", { class: "note", text: sweep.fault }) : null,
        V.el(
          "div",
          { class: "bar" },
          V.el("h2", { text: hidden && rows.length ? `${V.sentence(V.verdict(sweep, rows))} ${V.count(hidden, "row")} hidden by the filter.` : sweep.verdict }),
          V.groupBy(sweep, sweep.rows.some((row) => row.group) ? "as published" : "nothing"),
          sweep.rows.length > 8 || filter ? V.el("input", { type: "search", id: "filter", class: "inline", placeholder: "Filter rows  ( / )", "aria-label": "Filter rows", value: filter, on: { input: (event) => V.state.set({ filter: event.target.value }, true) } }) : null,
        ),
        V.el("div", { class: "scroll", "data-scroll": "table" }, V.arrows(table, "tr.line")),
        rows.length ? null : V.el("p", { class: "hint", text: "No row matches the filter." }),
        chart ? V.el("section", { class: "effects" }, V.el("h3", { text: chart.heading }), node) : null,
        V.el("details", { class: "footnotes", id: "footnotes" }, V.el("summary", { text: `How these figures were measured (${sweep.footnotes.length})` }), V.el("ol", {}, sweep.footnotes.map((text) => V.el("li", { text }))), V.el("ul", { class: "marks" }, sweep.notes.map((note) => V.el("li", {}, V.el("sup", { text: note.mark }), ` ${note.text}${holders(sweep, note.mark)}`)))),
      );
      if (chart) await V.chart.show(chart.fig, node, `Differences from ${chart.bases}: ${chart.text}`);
    },
  };

  /** The rows that have a mark, in brackets. */
  function holders(sweep, mark) {
    const names = sweep.rows.filter((row) => mark !== "*" && (row.cells || []).some((cell) => cell.marks.includes(mark))).map((row) => row.label);
    return names.length ? ` (${names.join("; ")})` : "";
  }

  /** Differences from the base rows with their intervals, in the order of the table. */
  function effects(sweep, rows) {
    const tested = rows.filter((row) => row.ci && row.delta[sweep.primary.key]);
    const marks = tested.slice(0, LIMIT);
    const more = tested.length > LIMIT ? `. The first ${LIMIT} of ${V.count(tested.length, "row")}: filter to see others` : "";
    const single = marks.filter((row) => !V.known(row.p));
    const which = single.length === marks.length ? "" : `${single.map((row) => row.label).join("; ")}: `;
    const seeds = single.length ? `. ${which}${which ? "one" : "One"} seed, so the chance between seeds is not covered` : "";
    const bases = V.bases(marks);
    const drawn = V.forest(
      marks.map((row) => ({ name: row.against ? `${row.label} (v.\u00a0${row.against})` : row.label, look: row.color_index, value: row.delta[sweep.primary.key].mean, ci: row.ci, digits: sweep.primary.digits })),
      `${sweep.primary.label}: difference from ${bases} (points, ${Math.round(100 * sweep.level)} % interval)`,
    );
    return drawn && { ...drawn, bases, heading: `Which variation matters? Differences from ${bases} with their ${Math.round(100 * sweep.level)} % intervals${more}${seeds}` };
  }

  function caption(sweep) {
    const marks = sweep.notes.filter((note) => note.mark === "*").map((note) => ` ${note.mark} ${V.sentence(note.text)}`).join("");
    const recalled = sweep.rows.some((row) => Object.values(row.published).some((figure) => figure.recalled)) ? " ° Recalled, not read in the paper." : "";
    const waiting = sweep.tested ? "" : " Differences are being tested …";
    const spread = sweep.rows.some((row) => V.known(row.measured[sweep.primary.key]?.sd)) ? ", mean ± standard deviation over seeds" : ", one seed";
    return `${sweep.primary.label}${spread}.${marks}${recalled}${waiting} Open a row to see what it changes.${sweep.rows.some((row) => row.isBase) ? " A thick line is below each base row." : ""}`;
  }
})();
