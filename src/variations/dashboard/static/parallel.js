"use strict";
/* Parallel coordinates (Inselberg 1985) as SVG: an axis for each configuration key and one for the score, a line for each row. */
window.V = window.V || {};

(() => {
  const TOP = 46;
  const HEIGHT = 340;
  const CONTINUOUS = 8; // keys with more numeric values than this get a scale; fewer values are evenly spaced
  const FORK = 11; // px by which lines through one value are spread, so that they can be distinguished

  /** A value of a configuration as text. */
  V.value = (value) => (value === null || value === undefined ? "none" : typeof value === "boolean" ? (value ? "on" : "off") : typeof value === "number" ? String(Number(value.toPrecision(6))) : typeof value === "string" ? value : JSON.stringify(value));

  /** Distinct values, numbers by size and before words, `null` last. */
  V.levels = (values) => {
    const rank = (value) => (typeof value === "number" ? 0 : value === null ? 2 : 1);
    const known = [...new Map(values.map((value) => [V.value(value), value])).values()];
    return known.sort((a, b) => rank(a) - rank(b) || (typeof a === "number" ? a - b : V.value(a).localeCompare(V.value(b))));
  };

  /** Round numbers from `low` to `high`: 1, 2 or 5 times a power of ten. */
  function round(low, high, log) {
    if (log) {
      const powers = Array.from({ length: 40 }, (_, k) => 10 ** (k - 20));
      const all = powers.flatMap((power) => [power, 2 * power, 5 * power]).filter((value) => value >= low && value <= high);
      return all.length > 7 ? all.filter((value) => powers.some((power) => Math.abs(value / power - 1) < 1e-9)) : all;
    }
    const rough = (high - low) / 5;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((by) => by * power).find((by) => by >= rough);
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, k) => (first + k) * step);
  }

  function continuous(title, values) {
    const numbers = values.filter(V.known).sort((a, b) => a - b);
    const low = numbers[0];
    const high = numbers.at(-1);
    const log = low > 0 && high / low >= 30 && numbers[numbers.length >> 1] < low + 0.25 * (high - low); // most are small
    const f = log ? Math.log : (value) => value;
    const share = (value) => (high > low ? (f(value) - f(low)) / (f(high) - f(low)) : 0.5);
    const ticks = high > low ? round(low, high, log) : [low];
    return { title: log ? `${title} (log)` : title, share, ticks: ticks.map((value) => ({ share: share(value), text: V.any(value) })), exact: true };
  }

  function discrete(title, levels) {
    const texts = levels.map(V.value);
    const place = (k) => (texts.length > 1 ? (k + 0.5) / texts.length : 0.5);
    return { title, share: (value) => place(texts.indexOf(V.value(value))), ticks: texts.map((text, k) => ({ share: place(k), text })), exact: false };
  }

  /** The axis of a key whose rows have `values`, or of a score. */
  V.coordinate = (title, values, score = false) => {
    const levels = V.levels(values);
    return score || (levels.length > CONTINUOUS && levels.every(V.known)) ? continuous(title, values) : discrete(title, levels);
  };

  /** Colour of a score: cividis without the end that is too close to the page's background. */
  V.ramp = (share) => V.cividisAt(V.theme() === "dark" ? 0.36 + 0.64 * share : 0.86 * share);

  const path = (points) => points.map(([x, y], k) => (k ? `C${(points[k - 1][0] + x) / 2},${points[k - 1][1]} ${(points[k - 1][0] + x) / 2},${y} ${x},${y}` : `M${x},${y}`)).join("");

  /** Draws `lines` {name, text, values, score} across `axes`; the last axis is the score's. `brushes` by axis: [low, high] as
      shares of its height; a line outside one of them fades. `change` gets the brushes, `point` the line under the pointer. */
  V.parallel = (axes, lines, { brushes, change, point, wide }) => {
    const SIDE = wide < 500 ? 48 : 70;
    const gap = Math.max(wide < 500 ? 88 : 128, (wide - 2 * SIDE) / Math.max(1, axes.length - 1));
    const width = 2 * SIDE + gap * (axes.length - 1);
    const x = (k) => SIDE + gap * k;
    const y = (share) => TOP + (HEIGHT - TOP - 22) * (1 - share);
    const last = axes.length - 1;
    const rank = new Map([...lines].sort((a, b) => a.score - b.score).map((line, k) => [line.name, lines.length > 1 ? (2 * k) / (lines.length - 1) - 1 : 0]));
    const spread = (axis) => (axis.exact ? 0 : Math.min(FORK, (0.3 * (HEIGHT - TOP)) / axis.ticks.length));
    const kept = (line) => axes.every((axis, k) => !brushes[k] || (axis.share(line.values[k]) >= brushes[k][0] && axis.share(line.values[k]) <= brushes[k][1]));
    const strokes = [...lines].sort((a, b) => a.score - b.score).map((line) => {
      const d = path(axes.map((axis, k) => [x(k), y(axis.share(line.values[k])) - spread(axis) * rank.get(line.name)]));
      const on = kept(line);
      return V.svg("path", { d, class: on ? "line" : "line off", stroke: V.ramp(axes[last].share(line.score)), on: on ? { mouseenter: () => point(line), mouseleave: () => point(null) } : {} }, V.svg("title", {}, line.text));
    });
    const drawing = V.svg("svg", { class: "parallel", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `Parallel coordinates: ${V.count(lines.length, "row")} across ${axes.map((axis) => axis.title).join(", ")}` }, V.svg("g", {}, strokes));
    axes.forEach((axis, k) => drawing.append(column(axis, k, x(k), y, brushes, change, drawing, k === last)));
    return { drawing, kept: lines.filter(kept) };
  };

  function column(axis, k, x, y, brushes, change, drawing, score) {
    const words = V.wrap(axis.title, 16).slice(0, 2);
    const inside = (event) => {
      const box = drawing.getBoundingClientRect();
      const at = ((event.clientY - box.top) / box.height) * HEIGHT;
      return Math.min(1.02, Math.max(-0.02, (y(0) - at) / (y(0) - y(1))));
    };
    const brush = V.svg("rect", { class: "brush", x: x - 9, width: 18, visibility: "hidden" });
    const place = ([low, high]) => {
      brush.setAttribute("y", y(high));
      brush.setAttribute("height", y(low) - y(high));
      brush.setAttribute("visibility", "visible");
    };
    if (brushes[k]) place(brushes[k]);
    let from = null;
    const drag = V.svg("rect", {
      class: "drag", x: x - 14, y: y(1) - 8, width: 28, height: y(0) - y(1) + 16,
      on: {
        pointerdown: (event) => {
          from = inside(event);
          event.target.setPointerCapture(event.pointerId);
        },
        pointermove: (event) => from !== null && place([Math.min(from, inside(event)), Math.max(from, inside(event))]),
        pointerup: (event) => {
          const to = inside(event);
          const range = Math.abs(to - from) < 0.015 ? null : [Math.min(from, to), Math.max(from, to)].map((share) => Number(share.toFixed(3)));
          from = null;
          change(k, range);
        },
      },
    }, V.svg("title", {}, "Drag along the axis to keep only the rows in that range; a click clears it"));
    return V.svg(
      "g",
      { class: score ? "axis score" : "axis" },
      V.svg("line", { x1: x, x2: x, y1: y(0), y2: y(1) }),
      words.map((text, at) => V.svg("text", { class: "head", x, y: 16 + 14 * at, "text-anchor": "middle" }, text)),
      axis.ticks.map((tick) => V.svg("text", { class: "tick", x: score ? x + 8 : x - 8, y: y(tick.share), "text-anchor": score ? "start" : "end", "dominant-baseline": "central" }, V.clip(tick.text, 14), V.svg("title", {}, tick.text))),
      brush,
      drag,
    );
  }
})();
