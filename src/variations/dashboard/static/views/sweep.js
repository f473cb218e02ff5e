"use strict";
/* The progress of a sweep: runs by state, failures with their logs, remaining time and total cost. */
window.V = window.V || {};
V.views = V.views || {};

(() => {
  const ORDER = ["failed", "broken", "interrupted", "running", "queued", "missing", "finished", "pruned"];
  const TITLES = { failed: "Failed", broken: "Cannot be read", interrupted: "Interrupted: they continue when the sweep is started again", running: "Running", queued: "In a queue: they start or continue by themselves", missing: "Not started", pruned: "Pruned: stopped early by a search", finished: "Finished" };

  const state = (run) => (run.state === "absent" ? "missing" : run.state);

  /** The attempts that are trained anew while tables read a former, finished one of their seed. */
  const anew = (sweep) => sweep.runs.filter((run) => !run.latest && run.state === "running");

  function headline(sweep) {
    const parts = Object.entries(sweep.states).map(([name, count]) => `${count} ${name}`);
    return `${sweep.title}: ${parts.join(", ") || "no run has started"}${anew(sweep).length ? `; ${anew(sweep).length} trained anew` : ""}`;
  }

  function tile(label, value, note) {
    return V.el("div", { class: "tile" }, V.el("span", { class: "soft", text: label }), V.el("strong", { text: value }), note ? V.el("span", { class: "soft", text: note }) : null);
  }

  function tiles(sweep) {
    const runs = sweep.runs.filter((run) => run.latest);
    const wanted = Object.values(sweep.states).reduce((sum, count) => sum + count, 0);
    const sum = (key, list = sweep.runs) => list.reduce((total, run) => total + (V.known(run[key]) ? run[key] : 0), 0);
    const first = runs.filter((run) => run.state === "running");
    const running = [...first, ...anew(sweep)];
    const etas = running.map((run) => run.eta_seconds).filter(V.known);
    const queued = sweep.states.queued || 0;
    const left = wanted - (sweep.states.finished || 0) - (sweep.states.pruned || 0) - first.length - queued;
    const trouble = (sweep.states.failed || 0) + (sweep.states.broken || 0);
    return V.el(
      "div",
      { class: "tiles" },
      tile("finished", `${sweep.states.finished || 0} of ${wanted}`, V.count(sweep.rows.filter((row) => !row.quoted).length, "row")),
      tile("running", V.whole(running.length), etas.length && etas.length === running.length ? `the last one will be trained in about ${V.duration(Math.max(...etas))}` : ""),
      queued ? tile("queued", V.whole(queued)) : null,
      tile("still to start or continue", V.whole(Math.max(left - trouble, 0))),
      tile("failed", V.whole(trouble)),
      tile("training time", V.duration(sum("seconds")), sweep.runs.some((run) => run.state === "finished" && !V.known(run.seconds)) ? "without copies and tests of other rows' weights" : "all runs together"),
      tile("training FLOPs", V.short(sum("flops")), "counted"),
    );
  }

  function bar(sweep) {
    const total = Object.values(sweep.states).reduce((sum, count) => sum + count, 0);
    if (!total) return null;
    const text = Object.entries(sweep.states).map(([name, count]) => `${count} ${name}`).join(", ");
    return V.el("div", { class: "progress", role: "img", "aria-label": text }, Object.entries(sweep.states).map(([name, count]) => V.el("span", { class: name, style: { "flex-grow": String(count) }, title: `${count} ${name}` })));
  }

  function progress(run) {
    if (!V.known(run.step) || !run.max_steps) return V.known(run.step) ? `step ${V.whole(run.step)}` : "";
    return [
      run.state === "finished" ? null : V.el("progress", { max: run.max_steps, value: Math.min(run.step, run.max_steps), "aria-label": `${run.title}: ${Math.round((100 * run.step) / run.max_steps)} %` }),
      V.el("span", { class: "soft", text: ` ${V.whole(run.step)}\u00a0/\u00a0${V.whole(run.max_steps)}` }),
    ];
  }

  const left = (run) => (V.known(run.step) && run.step >= run.max_steps ? "testing" : V.duration(run.eta_seconds));

  /** Scrolls a log that is opened to its end, where the exception is; those in `read` were open already, and stay where they are. */
  function toEnd(details, read) {
    const log = details.querySelector("pre.log");
    if (details.open && !read.has(details.id)) log.scrollTop = log.scrollHeight;
    if (!details.open) read.delete(details.id);
  }

  function line(run, digits, read) {
    const log = run.log_tail[0] === run.reason ? run.log_tail.slice(1) : run.log_tail; // the reason is shown above it
    const open = log.length > 0;
    return [
      V.el(
        "tr",
        { id: `run-${run.id}`, tabindex: 0, class: "line" },
        V.el("th", { scope: "row" }, V.swatch(run.color_index), " ", run.title),
        V.el("td", {}, V.stateMark(state(run))),
        V.el("td", {}, progress(run)),
        V.el("td", { class: "number", "data-label": "time left", text: run.state === "running" ? left(run) : "" }),
        V.el("td", { class: "number", "data-label": "score", text: V.known(run.score) ? V.fixed(run.score, digits) : V.known(run.live_score) ? `dev ${V.fixed(run.live_score, digits)}` : "" }),
        V.el("td", { class: "number", "data-label": "trained", text: V.known(run.seconds) ? V.duration(run.seconds) : "" }),
        V.el("td", { class: "number", "data-label": "FLOPs", text: V.known(run.flops) ? V.short(run.flops) : "" }),
      ),
      (run.reason && run.state !== "queued") || open
        ? V.el(
            "tr",
            { class: "detail" },
            V.el("td", { colspan: 7 }, run.reason && run.state !== "queued" ? V.el("p", { class: "reason", text: run.reason }) : null, open ? V.el("details", { id: `log-${run.id}`, open: state(run) === "failed" || undefined, on: { toggle: (event) => toEnd(event.target, read) } }, V.el("summary", { text: `Log, last ${V.count(log.length, "line")}` }), V.el("pre", { class: "log", tabindex: 0, "data-scroll": `log-${run.id}`, text: log.join("\n") })) : null),
          )
        : null,
    ];
  }

  function missing(sweep) {
    const texts = sweep.rows.filter((row) => row.counts.missing && !row.runs.some((run) => run.state === "absent")).map((row) => `${row.label} (${V.count(row.counts.missing, "seed")})`);
    return texts.length ? V.el("section", {}, V.el("h3", { text: "Without a run" }), V.el("p", { text: texts.join(", ") })) : null;
  }

  function group(name, runs, sweep, read) {
    return V.el(
      "section",
      {},
      V.el("h3", {}, `${TITLES[name]} (${runs.length})`),
      V.el(
        "div",
        { class: "scroll", "data-scroll": `runs-${name}` },
        V.arrows(
          V.el(
            "table",
            { class: "results runs" },
            V.el("thead", {}, V.el("tr", {}, ["run", "state", "steps", "time left", sweep.primary.label, "training time", "FLOPs"].map((text, at) => V.el("th", { scope: "col", class: at > 2 ? "number" : "", text })))),
            V.el("tbody", {}, runs.map((run) => line(run, sweep.primary.digits, read))),
          ),
          "tr.line",
        ),
      ),
    );
  }

  V.views.sweep = {
    title: "Sweep",
    hint: "Rows by state, failures, remaining time",
    render: (root, { sweep }) => {
      const read = new Set([...root.querySelectorAll("details[id][open]")].map((details) => details.id));
      const groups = ORDER.map((name) => [name, sweep.runs.filter((run) => state(run) === name)]).filter(([, runs]) => runs.length);
      V.replace(
        root,
        V.el("h2", { text: headline(sweep) }),
        bar(sweep),
        tiles(sweep),
        sweep.fault ? V.el("p", { class: "note", text: sweep.fault }) : null,
        sweep.broken.length ? V.el("ul", { class: "lost" }, sweep.broken.map((item) => V.el("li", { text: `${item.path}: ${item.reason}` }))) : null,
        groups.map(([name, runs]) => group(name, runs, sweep, read)),
        missing(sweep),
        sweep.runs.length ? null : V.empty("No run has started", "Start the sweep; its rows appear here automatically.", `python src/train.py --multirun sweep=${sweep.name}`),
      );
    },
  };
})();
