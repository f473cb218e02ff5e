"use strict";
/* Colours after Okabe and Ito, safe for colour-blind readers, with dashes and markers that distinguish series without
   colour; and the light and dark themes. */
window.V = window.V || {};

(() => {
  const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#B6589A", "#C78500", "#2A9BD6", "#222222"];
  const DARK = ["#4FB0E8", "#FF8A3D", "#2FCB9E", "#E79BC6", "#F2B134", "#9AD4F5", "#F0E442"];
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 5]];
  const MARKERS = ["circle", "square", "triangle", "diamond", "inverted_triangle", "hex", "plus", "star"];
  const STORE = "variations-theme";

  /** light or dark: the reader's choice, else the system's setting. */
  V.theme = () => document.documentElement.dataset.theme;

  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return window.localStorage.getItem(STORE);
    } catch {
      return null; // storage is closed to pages from some file systems
    }
  }

  function apply() {
    document.documentElement.dataset.theme = chosen() || (system.matches ? "dark" : "light");
    window.dispatchEvent(new Event("themechange"));
  }

  V.switchTheme = () => {
    const next = V.theme() === "dark" ? "light" : "dark";
    try {
      window.localStorage.setItem(STORE, next);
      apply();
    } catch {
      document.documentElement.dataset.theme = next;
      window.dispatchEvent(new Event("themechange"));
    }
  };

  system.addEventListener("change", apply);
  apply();

  /** Colours of the page's own parts, for charts. */
  V.ink = () => {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue(name).trim();
    return { page: read("--panel"), ink: read("--ink"), soft: read("--soft"), grid: read("--rule"), accent: read("--accent") };
  };

  /** Colour, dashes and marker of series number `index`. */
  V.look = (index) => {
    const colours = V.theme() === "dark" ? DARK : LIGHT;
    return {
      colour: colours[index % colours.length],
      dash: DASHES[index % DASHES.length],
      marker: MARKERS[index % MARKERS.length],
    };
  };

  /** Numbers of series that are drawn in one chart: each keeps its own, unless an earlier one has its colour and another is free. */
  V.distinct = (indices) => {
    const taken = new Set();
    return indices.map((index) => {
      const tried = LIGHT.map((_, k) => index + k);
      const found = tried.find((number) => !taken.has(number % LIGHT.length)) ?? index;
      taken.add(found % LIGHT.length);
      return found;
    });
  };

  /** A colour of the light palette in the current theme; any other colour is kept. */
  V.themed = (colour) => (V.theme() === "dark" && LIGHT.includes(colour) ? DARK[LIGHT.indexOf(colour)] : colour);

  const SHAPES = {
    circle: ["circle", { cx: 14, cy: 6, r: 3.6 }],
    square: ["rect", { x: 10.6, y: 2.6, width: 6.8, height: 6.8 }],
    triangle: ["path", { d: "M14 1.6 L18.4 9.6 H9.6 Z" }],
    diamond: ["path", { d: "M14 1 L17.8 6 L14 11 L10.2 6 Z" }],
    inverted_triangle: ["path", { d: "M14 10.4 L18.4 2.4 H9.6 Z" }],
    hex: ["path", { d: "M10 6 L12 2.4 H16 L18 6 L16 9.6 H12 Z" }],
    plus: ["path", { d: "M14 1.5 V10.5 M9.5 6 H18.5" }],
    star: ["path", { d: "M14 1 L15.4 4.4 L18.8 4.6 L16.2 6.9 L17 10.4 L14 8.5 L11 10.4 L11.8 6.9 L9.2 4.6 L12.6 4.4 Z" }],
  };

  /** A line with its marker, as charts draw it. */
  V.swatch = (index) => {
    const { colour, dash, marker } = V.look(index);
    const [tag, attributes] = SHAPES[marker];
    return V.svg(
      "svg",
      { class: "swatch", viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" },
      V.svg("line", { x1: 0, y1: 6, x2: 28, y2: 6, stroke: colour, "stroke-width": 2, "stroke-dasharray": dash.join(" ") || null }),
      V.svg(tag, { ...attributes, fill: marker === "plus" ? "none" : colour, stroke: colour, "stroke-width": 1.4 }),
    );
  };

  /** A marker alone, as scatter charts draw it; `hollow` as that of a row that is not trained. */
  V.marker = (index, hollow) => {
    const { colour, marker } = V.look(index);
    const [tag, attributes] = SHAPES[marker];
    return V.svg("svg", { class: "swatch alone", viewBox: "7 0 14 12", width: 14, height: 12, "aria-hidden": "true" }, V.svg(tag, { ...attributes, fill: hollow || marker === "plus" ? "none" : colour, stroke: colour, "stroke-width": marker === "plus" && !hollow ? 3 : 1.4 }));
  };

  /** A line alone, for series without markers. */
  V.line = (index) => {
    const { colour, dash } = V.look(index);
    return V.svg("svg", { class: "swatch", viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" }, V.svg("line", { x1: 0, y1: 6, x2: 28, y2: 6, stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dash.join(" ") || null }));
  };

  /** cividis, from low to high: its lightness rises evenly for all kinds of colour vision. */
  V.CIVIDIS = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
})();
