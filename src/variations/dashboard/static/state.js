"use strict";
/* The state of the page is in the URL after #, so that a view can be sent to a colleague and the back button works. */
window.V = window.V || {};

(() => {
  const read = () => new URLSearchParams(window.location.hash.slice(1));

  V.state = {
    /** The value of `key`, or `fallback`. */
    get: (key, fallback = null) => read().get(key) ?? fallback,

    /** A list of values; null if none has been chosen yet. */
    list: (key) => (read().has(key) ? (read().getAll(key).length === 1 && read().get(key) === "" ? [] : read().getAll(key)) : null),

    /** The hash after `patch`: a value of null is left out, a list is repeated. */
    after: (patch) => {
      const next = read();
      for (const [key, value] of Object.entries(patch)) {
        next.delete(key);
        if (Array.isArray(value)) {
          if (value.length === 0) next.append(key, "");
          for (const item of value) next.append(key, item);
        } else if (value !== null && value !== undefined && value !== "") next.set(key, String(value));
      }
      return `#${next}`;
    },

    /** Applies `patch` and shows the result; with `quiet`, there is no new entry for the back button. */
    set: (patch, quiet = false) => {
      const hash = V.state.after(patch);
      if (hash === window.location.hash) return;
      window.history[quiet ? "replaceState" : "pushState"](null, "", hash);
      window.dispatchEvent(new Event("statechange"));
    },
  };
})();
