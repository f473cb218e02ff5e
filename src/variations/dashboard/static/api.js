"use strict";
/* Where payloads come from: the server, or this very file.

   Agreement with export.py and server.py
   - Scripts are classic ones, in the order of index.html, and share the global `V`: served from /static/ and /bokeh/, or
     written into one file as <script>…</script> in the same order and place (end of body, without src and defer).
   - An export holds each payload as <script type="application/json" class="payload" data-path="/api/…">…</script>, with
     `<` written as \u003c. Where one such element exists nothing is ever fetched; a path without an element is "not in
     this file". data-path is exactly what `V.api.path` makes, without `compare` (see views/compare.js).
   - Bokeh puts <style> into its shadow roots: the policy needs style-src 'self' 'unsafe-inline', img-src 'self' data: blob:,
     connect-src 'self', script-src 'self' (no eval). */
window.V = window.V || {};

(() => {
  const cache = new Map(); // path → {revision, promise}

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
      // no JSON: the status line is what we have
    }
    throw answer.status === 404 ? new V.Missing(path, reason) : new Error(reason);
  }

  /** There is no such payload: not measured, or not part of an exported file. */
  V.Missing = class extends Error {
    constructor(path, reason) {
      super(reason || "This is not included in the exported file.");
      this.path = path;
    }
  };

  const encode = (id) => String(id).split("/").map(encodeURIComponent).join("/");

  V.api = {
    embedded,

    path: {
      index: () => "/api/index",
      sweep: (name) => `/api/sweep/${encode(name)}`,
      run: (id) => `/api/run/${encode(id)}`,
      curves: (id) => `/api/curves/${encode(id)}`,
      branches: (id) => `/api/branches/${encode(id)}`,
      attention: (id) => `/api/attention/${encode(id)}`,
      drawings: (id) => `/api/drawings/${encode(id)}`,
      importance: (name) => `/api/importance/${encode(name)}`,
      export: (name) => `/api/export?sweep=${encodeURIComponent(name)}`,
      compare: (ids) => `/api/compare?ids=${ids.map((id) => encodeURIComponent(id)).join(",")}`,
    },

    /** The payload of `path`; kept as long as `version` stays the same. */
    get: (path, version = "") => {
      const known = cache.get(path);
      if (known && known.version === version) return known.promise;
      const promise = embedded() ? Promise.resolve().then(() => stored(path)) : fetched(path);
      cache.set(path, { version, promise });
      promise.catch(() => cache.delete(path));
      return promise;
    },

    /** Calls `changed` whenever the run store has changed, and `alive` with whether the server answers. */
    follow: (changed, alive) => {
      if (embedded()) return;
      const source = new EventSource("/api/events");
      source.addEventListener("open", () => alive(true));
      source.addEventListener("error", () => alive(false));
      source.addEventListener("revision", (event) => changed(event.data));
    },
  };
})();
