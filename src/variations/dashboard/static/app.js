"use strict";
/* The page: header, views, shortcuts, and what happens when the store changes. */
window.V = window.V || {};

(() => {
  const ORDER = ["table", "curves", "compare", "branches", "attention", "sweep", "scatter", "keys", "drawings"];
  const node = (id) => document.getElementById(id);

  const awaited = new Map(); // path of payloads with tests that have been requested → their version
  const done = new Map(); // path of payloads with tests that have arrived → their version
  let index = null;
  let first = null;
  let revision = "";
  let turn = 0;
  let drawn = 0;
  let drawnSweep = null; // the name of the sweep that is drawn
  let answering = true;
  let noted = "";
  const shown = new Map(); // id of a part of the page → what it shows, as text
  let held = false; // whether the pointer drags a part of the drawing

  /** Draws a part of the page again only if what it shows has changed: a click on what is replaced meanwhile is lost. */
  function redraw(id, facts, make) {
    const now = JSON.stringify(facts);
    if (shown.get(id) === now) return;
    shown.set(id, now);
    V.replace(node(id), ...make());
  }

  function header(sweep) {
    const names = index.sweeps.map((item) => [item.name, item.name === "single" ? "single runs" : item.title && item.title !== item.name ? `${item.name} – ${item.title}` : item.name]);
    const exported = V.api.embedded();
    redraw("header", [names, sweep && [sweep.name, sweep.states], exported, answering, noted, V.theme()], () => [
      V.el("h1", {}, V.el("span", { class: "brand", text: "Variations" })),
      names.length
        ? V.select("choose-sweep", "Sweep", names, sweep ? sweep.name : "", (name) => V.app.open(name))
        : null,
      sweep ? V.el("span", { class: "states" }, Object.entries(sweep.states).map(([state, count]) => V.stateMark(state, count))) : null,
      V.el("span", { class: "spring" }),
      V.el("span", {
        id: "live",
        class: exported ? "still" : answering ? "live" : "silent",
        text: exported ? "exported file" : answering ? `live${noted}` : "the server does not answer",
      }),
      exported ? null : exportLink(sweep),
      V.el("button", { id: "theme", type: "button", text: V.theme() === "dark" ? "Light" : "Dark", "aria-label": `Switch to the ${V.theme() === "dark" ? "light" : "dark"} theme`, on: { click: V.switchTheme } }),
      V.el("button", { id: "shortcuts", type: "button", text: "?", "aria-label": "Keyboard shortcuts", on: { click: V.help } }),
    ]);
  }

  function exportLink(sweep) {
    if (!sweep) return null;
    return V.el("a", { id: "export", class: "button", href: V.api.path.export(sweep.name), download: `${sweep.name}.html`, text: "Export" });
  }

  /** A state with its symbol, so that colour is never needed to recognise it. */
  V.stateMark = (state, count) => {
    const signs = { finished: "✓", running: "▶", failed: "✕", interrupted: "‖", queued: "◷", pruned: "⊘", broken: "!", missing: "○", absent: "○" };
    const text = state === "absent" ? "missing" : state;
    return V.el("span", { class: `state ${state}` }, V.el("span", { "aria-hidden": "true", text: signs[state] || "·" }), ` ${count === undefined ? "" : `${V.whole(count)} `}${text}`);
  };

  function nav(view, sweep) {
    const wanted = ORDER.filter((key) => key === view || !V.views[key].wanted || V.views[key].wanted(sweep));
    redraw("nav", [view, wanted.map((key) => [key, V.state.after({ view: key })])], () => wanted.map((key) => V.el("a", {
      id: `nav-${key}`,
      href: V.state.after({ view: key }),
      "aria-current": key === view ? "page" : null,
      title: `${V.views[key].hint} (key ${ORDER.indexOf(key) + 1})`,
      text: V.views[key].title,
    })));
    const tab = node("nav").querySelector("[aria-current]");
    if (tab) node("nav").scrollLeft = tab.offsetLeft - (node("nav").clientWidth - tab.offsetWidth) / 2; // on a phone the tabs scroll
  }

  async function render() {
    if (held) return; // it is drawn when the pointer is released
    const mine = ++turn;
    const current = () => mine === turn;
    const view = V.views[V.state.get("view")] ? V.state.get("view") : "table";
    try {
      if (!index) {
        const raw = await V.api.get(V.api.path.index(), revision);
        if (!current()) return;
        index = raw;
        V.program = index.program;
      }
      const name = V.state.get("sweep") || index.sweep || (index.sweeps[0] && index.sweeps[0].name);
      if (!name) {
        header(null);
        redraw("nav", [], () => []);
        V.replace(node("main"), nothing());
        document.documentElement.dataset.shown = `nothing:${++drawn}`;
        return;
      }
      window.history.replaceState(null, "", V.state.after({ sweep: name })); // another server may open another sweep first
      const waiting = name === drawnSweep ? null : setTimeout(() => current() && reading(name), 150);
      const sweep = V.model(await payload(name).finally(() => clearTimeout(waiting)));
      if (!current()) return;
      drawnSweep = name;
      document.title = `${V.views[view].title} · ${sweep.name} · Variations`;
      header(sweep);
      nav(view, sweep);
      await V.views[view].render(node("main"), { index, sweep, current });
      V.chart.free();
      if (current()) document.documentElement.dataset.shown = `${view}:${++drawn}`;
    } catch (error) {
      if (current()) failed(error);
    }
  }

  /** Say what is read in place of the sweep that is still drawn. */
  function reading(name) {
    drawnSweep = null;
    header({ name, states: {} });
    V.replace(node("main"), V.el("p", { class: "soft", role: "status", text: `Reading ${name} …` }));
  }

  /** The sweep. If tests of significance take time, it comes without them first, and the page is drawn again when they are done. */
  async function payload(name) {
    const entry = index.sweeps.find((item) => item.name === name);
    const version = entry ? entry.revision : revision;
    const path = V.api.path.sweep(name);
    if (V.api.embedded()) return structuredClone(await V.api.get(path));
    const tested = `${path}?significance=1`;
    if (done.get(tested) === version) return structuredClone(await V.api.get(tested, version));
    const first = await V.api.get(path, version);
    if (first.table && !first.table.tested && awaited.get(tested) !== version) {
      awaited.set(tested, version);
      V.api.get(tested, version).then(
        () => {
          done.set(tested, version);
          render();
        },
        () => awaited.delete(tested), // the table stays without tests; the next request shows the error
      );
    }
    return structuredClone(first);
  }

  function nothing() {
    return V.empty(
      "No runs yet",
      `There is no run below ${index.root || "runs"}. Train the small table that comes with the project (some minutes on two cores); this page updates automatically when runs start.`,
      "python src/train.py --multirun sweep=quickstart",
    );
  }

  function failed(error) {
    if (!index) redraw("header", null, () => [V.el("h1", { text: "Variations" })]);
    else if (!node("nav").firstChild) header(null);
    const first = index && index.sweeps[0];
    V.replace(
      node("main"),
      V.empty("This cannot be shown", error.message || String(error)),
      first ? V.el("p", {}, V.el("a", { href: `#sweep=${encodeURIComponent(first.name)}`, text: `Go to ${first.name}` })) : null,
    );
  }

  async function changed(next) {
    await first; // the stream's first event may arrive before the page has loaded the index
    if (index && next === index.revision) return;
    revision = next;
    index = null;
    await render();
    noted = ` · changed ${new Date().toLocaleTimeString("en-GB")}`;
    node("notice").textContent = "The run store has changed; this page is up to date.";
    follow(answering);
  }

  function follow(answers) {
    const live = node("live");
    if (!live) return;
    live.className = answers ? "live" : "silent";
    live.textContent = answers ? `live${noted}` : "the server does not answer";
  }

  V.app = {
    ORDER,
    render,
    /** Draw nothing until the pointer that was captured is released: a new drawing would remove what is dragged. */
    hold: () => {
      held = true;
      turn += 1; // the drawing that still waits for its data is dropped
    },
    /** Another sweep, in the same view. */
    open: (name) => {
      const view = V.state.get("view");
      const hash = new URLSearchParams({ sweep: name, ...(view ? { view } : {}) });
      window.history.pushState(null, "", `#${hash}`);
      render();
    },
  };

  document.addEventListener("lostpointercapture", () => {
    held = false;
    render();
  });
  window.addEventListener("statechange", render);
  window.addEventListener("popstate", render);
  window.addEventListener("themechange", render);
  node("skip").addEventListener("click", (event) => {
    event.preventDefault();
    node("main").focus();
  });
  V.api.follow(changed, (answers) => {
    answering = answers;
    follow(answers);
  });
  first = render();
})();
