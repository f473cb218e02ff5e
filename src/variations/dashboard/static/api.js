"use strict";
/* Where payloads come from: the server, or the exported file itself.

   Agreement with export.py and server.py
   - Scripts are classic ones, in the order of index.html, and share the global `V`: served from /static/ and /bokeh/, or
     written into one file as <script>…</script> in the same order and place (end of body, without src and defer).
   - An export contains each payload as <script type="application/json" class="payload" data-path="/api/…">…</script>, with
     `<` written as \u003c. If there is one such element, nothing is ever fetched; a path without an element is "not in
     this file". data-path is exactly what `V.api.path` returns, without `compare` (see views/compare.js)
     and `curvesOf` (a file has all curves of a run).
   - Bokeh puts <style> into its shadow roots: the policy needs style-src 'self' 'unsafe-inline', img-src 'self' data: blob:,
     connect-src 'self', script-src 'self' (no eval). */
window.V = window.V || {};

(() => {
  const cache = new Map(); // path → {version, promise}
  const TOGETHER = 50; // runs in one request for curves: an address must stay below 64 KB

  const embedded = () => document.querySelector("script.payload[data-path]") !== null;

  function stored(path) {
    const found = [...document.querySelectorAll("script.payload")].find((node) => node.dataset.path === path);
    if (!found) throw new V.Missing(path);
    return JSON.parse(found.textContent);
  }

  async function fetched(path) {
    const answer = await fetch(path, { headers: { accept: "application/json" } });
    if (answer.ok) return answer.json();
    let reason = `${answer.status} ${answer.statusText}`;
    try {
      reason = (await answer.json()).error || reason;
    } catch {
      // no JSON: only the status line is known
    }
    throw answer.status === 404 ? new V.Missing(path, reason) : new Error(reason);
  }

  /** Thrown if there is no such payload: not measured, or not part of an exported file. */
  V.Missing = class extends Error {
    constructor(path, reason) {
      super(reason || "This is not included in the exported file.");
      this.path = path;
    }
  };

  /** The answer to what `path` asks for, made by `ask`; kept as long as `version` stays the same. */
  function kept(path, version, ask) {
    const known = cache.get(path);
    if (known && known.version === version) return known.promise;
    const promise = ask();
    cache.set(path, { version, promise });
    promise.catch(() => cache.delete(path));
    return promise;
  }

  function ownCurves(answer, id) {
    const found = answer.runs.find((curves) => curves.id === id);
    if (!found) throw new Error(answer.broken.find((item) => item.path === id)?.reason);
    return found;
  }

  const list = (items) => items.map((item) => encodeURIComponent(item)).join(",");
  const encode = (id) => String(id).split("/").map(encodeURIComponent).join("/");

  V.api = {
    embedded,

    path: {
      index: () => "/api/index",
      sweep: (name) => `/api/sweep/${encode(name)}`,
      run: (id) => `/api/run/${encode(id)}`,
      curves: (id) => `/api/curves/${encode(id)}`,
      curvesOf: (ids, metrics, axis) => `/api/curves?ids=${list(ids)}&metrics=${list(metrics)}&x=${axis}`,
      branches: (id) => `/api/branches/${encode(id)}`,
      attention: (id) => `/api/attention/${encode(id)}`,
      drawings: (id) => `/api/drawings/${encode(id)}`,
      importance: (name) => `/api/importance/${encode(name)}`,
      export: (name) => `/api/export?sweep=${encodeURIComponent(name)}`,
      compare: (ids) => `/api/compare?ids=${list(ids)}`,
    },

    /** The payload of `path`. */
    get: (path, version = "") => kept(path, version, () => (embedded() ? Promise.resolve().then(() => stored(path)) : fetched(path))),

    /** Of each of `runs` a promise of its curves, with `metrics` and `axis` at least. Only what is not known yet is asked for. */
    curves: (runs, metrics, axis) => {
      if (embedded()) return runs.map((run) => V.api.get(V.api.path.curves(run.id), run.revision));
      const own = (run) => V.api.path.curvesOf([run.id], metrics, axis);
      const lacking = runs.filter((run) => cache.get(own(run))?.version !== run.revision);
      for (let at = 0; at < lacking.length; at += TOGETHER) {
        const some = lacking.slice(at, at + TOGETHER);
        const answer = fetched(V.api.path.curvesOf(some.map((run) => run.id), metrics, axis));
        for (const run of some) kept(own(run), run.revision, () => answer.then((found) => ownCurves(found, run.id)));
      }
      return runs.map((run) => cache.get(own(run)).promise);
    },

    /** Calls `changed` whenever the run store has changed, and `alive` with true or false as the server starts or stops answering. */
    follow: (changed, alive) => {
      if (embedded()) return;
      const source = new EventSource("/api/events");
      source.addEventListener("open", () => alive(true));
      source.addEventListener("error", () => alive(false));
      source.addEventListener("revision", (event) => changed(event.data));
    },
  };
})();
