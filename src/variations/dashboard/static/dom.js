"use strict";
/* Elements are made only through the DOM API: text always arrives as textContent, so nothing in a run's names, sentences
   or logs is ever read as HTML. Every file adds to the one global `V`, because classic scripts also run from file://. */
window.V = window.V || {};

(() => {
  const SVG = "http://www.w3.org/2000/svg";

  /* Characters that change the direction of all following text: in a name, they would reverse the words around it. */
  const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;
  const plain = (text) => String(text).replace(TURNS, "\ufffd");

  /** Text of at most `length` characters, for choices in a list whose full text is shown elsewhere. */
  V.clip = (text, length) => (text.length > length ? `${plain(text).slice(0, length - 1)}…` : plain(text));

  /** `text` in lines of at most `width` characters, broken after spaces and commas only. For labels that must not be cut. */
  V.wrap = (text, width) => {
    const lines = [""];
    for (const part of plain(text).split(/(?<=[^\S\u00a0]|,)/)) {
      if (lines.at(-1) && `${lines.at(-1)}${part}`.trimEnd().length > width) lines.push("");
      lines[lines.length - 1] += part;
    }
    return lines.map((line) => line.trim());
  };

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
      else if (name === "text") node.textContent = plain(value);
      else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
      else if (name === "value") node.value = value;
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children.flat(Infinity)) {
      if (child === null || child === undefined || child === false) continue;
      node.append(child instanceof Node ? child : document.createTextNode(plain(child)));
    }
    return node;
  }

  /** An HTML element; `on` contains its listeners, `text` its text. */
  V.el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

  /** An SVG element. */
  V.svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  /** Marks a part of the page that scrolls sideways while something is hidden at its right: without a mark, its cut looks like its end. */
  const edge = (node) => node.classList.toggle("more-right", node.scrollWidth - node.clientWidth - node.scrollLeft > 3);
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => target.isConnected && edge(target.closest(".scroll"))));

  function watch(node) {
    node.addEventListener("scroll", () => edge(node), { passive: true });
    for (const each of [node, ...node.children]) sizes.observe(each);
  }

  /** Replaces the contents of `parent` by `nodes`; focus and scroll positions are kept by `id`. */
  V.replace = (parent, ...nodes) => {
    const focused = parent.contains(document.activeElement) ? document.activeElement : null;
    const id = focused && focused.id;
    const caret = focused && focused.type === "search" ? focused.selectionStart : null;
    const scrolled = [...parent.querySelectorAll("[data-scroll]")].map((node) => [node.dataset.scroll, node.scrollTop, node.scrollLeft]);
    const opened = [...parent.querySelectorAll("details[id][open]")].map((node) => node.id);
    parent.replaceChildren(...nodes.flat(Infinity).filter(Boolean));
    parent.querySelectorAll(".scroll").forEach(watch);
    for (const name of opened) {
      const node = document.getElementById(name);
      if (node) node.open = true;
    }
    for (const [name, top, left] of scrolled) {
      const node = [...parent.querySelectorAll("[data-scroll]")].find((item) => item.dataset.scroll === name);
      if (node) {
        node.scrollTop = top;
        node.scrollLeft = left;
      }
    }
    const again = id ? document.getElementById(id) : null;
    if (!again) return;
    again.focus({ preventScroll: true });
    if (caret !== null) again.setSelectionRange(caret, caret);
  };

  /** A labelled <select>; `options` are [value, text] pairs. */
  V.select = (id, label, options, value, change) =>
    V.el(
      "label",
      { class: "control", for: id },
      V.el("span", { text: label }),
      V.el(
        "select",
        { id, on: { change: (event) => change(event.target.value) } },
        options.map(([key, text]) => V.el("option", { value: key, selected: String(key) === String(value), text })),
      ),
    );

  /** A labelled slider; it shows its value while it is dragged, and calls `change` when it is released or moved by a key. */
  V.slider = (id, label, { min, max, step, value, text }, change) => {
    const output = V.el("output", { for: id, text: text(value) });
    const input = V.el("input", {
      type: "range", id, min, max, step, value,
      on: {
        input: (event) => { output.textContent = text(Number(event.target.value)); },
        change: (event) => change(Number(event.target.value)),
      },
    });
    return V.el("label", { class: "control", for: id }, V.el("span", { text: label }), input, output);
  };

  /** A labelled checkbox. */
  V.check = (id, label, checked, change) =>
    V.el(
      "label",
      { class: "control check", for: id },
      V.el("input", { type: "checkbox", id, checked, on: { change: (event) => change(event.target.checked) } }),
      V.el("span", { text: label }),
    );

  /** Buttons of which one is pressed. */
  V.choices = (id, label, options, value, change) =>
    V.el(
      "div",
      { class: "control choices", role: "group", "aria-label": label },
      V.el("span", { text: label }),
      V.el(
        "span",
        { class: "buttons" },
        options.map(([key, text]) =>
          V.el("button", {
            type: "button",
            id: `${id}-${key}`,
            "aria-pressed": String(String(key) === String(value)),
            text,
            on: { click: () => change(key) },
          }),
        ),
      ),
    );

  /** Makes the up and down arrows, Home and End move through the elements of `selector` inside `parent`. */
  V.arrows = (parent, selector) => {
    parent.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity }[event.key];
      const items = [...parent.querySelectorAll(selector)];
      const at = items.indexOf(event.target.closest(selector));
      if (step === undefined || at < 0) return;
      event.preventDefault();
      items[Math.max(0, Math.min(items.length - 1, at + step))].focus();
    });
    return parent;
  };

  /** A text with its commands as they are typed here: `variations train` without a checkout. */
  const respelled = (text) => text.replace(/python src\/(\w+)\.py/g, (_, verb) => (V.program || "python src/*.py").replace("*", verb));

  /** The contents of a view that has nothing to show: what is missing, and what to do about it. */
  V.empty = (title, text, command) =>
    V.el(
      "div",
      { class: "empty" },
      V.el("h2", { text: title }),
      V.el("p", { text: respelled(text) }),
      command ? V.el("pre", {}, V.el("code", { text: respelled(command) })) : null,
    );
})();
