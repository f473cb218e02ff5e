"use strict";
/* Shortcuts, and the page that lists them. */
window.V = window.V || {};

(() => {
  const KEYS = [
    ["1 … 9", "table, curves, compare, branches, attention, sweep, scatter, keys, drawings"],
    ["/", "go to the filter box"],
    ["[ and ]", "previous and next sweep"],
    ["↑ ↓ Home End", "move through rows and lists"],
    ["Enter", "on a column heading: sort; on a row: show what it changes"],
    ["Space", "on a row of a list: select or deselect it"],
    ["t", "light or dark"],
    ["Ctrl + wheel", "zoom a chart; drag to move it, ⟲ to reset it"],
    ["?", "this list"],
    ["Esc", "close this list, or leave the filter box"],
  ];

  V.help = () => {
    const dialog = document.getElementById("help");
    V.replace(
      dialog,
      V.el("h2", { id: "help-title", text: "Keyboard" }),
      V.el("dl", {}, KEYS.map(([key, text]) => [V.el("dt", {}, V.el("kbd", { text: key })), V.el("dd", { text })])),
      V.el("p", { class: "hint", text: "The address contains the view and the selection: copy it to share this view. The browser's back button returns to the previous one." }),
      V.el("form", { method: "dialog" }, V.el("button", { text: "Close" })),
    );
    if (!dialog.open) dialog.showModal();
  };

  function neighbour(step) {
    const select = document.getElementById("choose-sweep");
    if (!select) return;
    const next = select.options[select.selectedIndex + step];
    if (next) V.app.open(next.value);
  }

  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input:not([type=checkbox]):not([type=range]), textarea, select");
    if (event.key === "Escape" && event.target.matches("input[type=search]")) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.getElementById("help").open) return;
    const view = V.app.ORDER[Number(event.key) - 1];
    const actions = { "?": V.help, t: V.switchTheme, "[": () => neighbour(-1), "]": () => neighbour(1), "/": focusFilter };
    if (view) V.state.set({ view });
    else if (actions[event.key]) {
      event.preventDefault();
      actions[event.key]();
    }
  });

  function focusFilter() {
    const box = document.querySelector("input[type=search]");
    if (box) box.focus();
  }
})();
