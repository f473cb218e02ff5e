"use strict";
/* Parallel coordinates (Inselberg 1985) as SVG: an axis for each configuration key and one for the score, a line for each row. */
window.V = window.V || {};

(() => {
  const TOP = 46;
  const HEIGHT = 340;
  const CONTINUOUS = 8; // keys with more numeric values than this get a scale; fewer values are evenly spaced
  const FORK = 11; // px to either side over which lines through one value are spread, so that they can be distinguished
  const APART = 4; // px between two of them, if there are few
  const SIZE = 12; // px of letters
  const FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"; // of the page

  /** A number as text: an integer in full, such as a seed or a number of steps; a fraction to six figures. */
  const number = (value) => String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));

  /** A value of a configuration as text; of a key that is absent or has no effect, a dash, as in Compare. */
  V.value = (value) => (value === null || value === undefined ? "–" : typeof value === "boolean" ? (value ? "on" : "off") : typeof value === "number" ? number(value) : typeof value === "string" ? value : JSON.stringify(value));

  /** What equal values have in common; texts that only look like an absent or switched value, or like a number, are different. */
  V.level = (value) => (value === null || value === undefined ? null : ["boolean", "number"].includes(typeof value) ? value : V.value(value));

  /** Distinct values, numbers by size and before words, `null` last. */
  V.levels = (values) => {
    const rank = (value) => (typeof value === "number" ? 0 : value === null ? 2 : 1);
    const known = [...new Map(values.map((value) => [V.level(value), value])).values()];
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

  const pen = document.createElement("canvas").getContext("2d");

  /** The width of `text` in px. */
  function wide(text, bold = false) {
    pen.font = `${bold ? 600 : 400} ${SIZE}px ${FONT}`;
    return pen.measureText(text).width;
  }

  /** `text` with its middle left out, so that it is at most `room` px wide. */
  function shortened(text, room, bold) {
    for (let kept = text.length - 1; kept > 1 && wide(text, bold) > room; kept -= 1) {
      const short = `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - Math.floor(kept / 2))}`;
      if (wide(short, bold) <= room) return short;
    }
    return text;
  }

  /** `text` in at most two lines of `room` px, if possible broken where a word of a name ends; the middle of a longer one is left out. */
  function folded(text, room, bold) {
    if (wide(text, bold) <= room) return [text];
    const parts = text.split(/(?<=[\s,._/-])/);
    for (let at = parts.length - 1; at > 0; at -= 1) {
      const lines = [parts.slice(0, at).join(""), parts.slice(at).join("")].map((line) => line.trim());
      if (lines.every((line) => line && wide(line, bold) <= room)) return lines;
    }
    for (let at = text.length - 1; at > 1; at -= 1) if (wide(text.slice(0, at), bold) <= room) return [text.slice(0, at), shortened(text.slice(at), room, bold)];
    return [shortened(text, room, bold)];
  }

  /** Labels of different `texts` that remain different: [[line, …], …]; `high`: whether there is room for two lines. */
  V.labels = (texts, room, high = true) => {
    const found = texts.map((text) => (high ? folded(text, room) : [shortened(text, room)]));
    const same = (k) => found.findIndex((lines) => lines.join() === found[k].join());
    const places = texts.map((_, k) => (same(k) < k ? found.slice(0, k).filter((lines) => lines.join() === found[k].join()).length + 1 : 0));
    return found.map((lines, k) => (places[k] ? [...lines.slice(0, -1), `${lines.at(-1)} (${places[k]})`] : lines));
  };

  function discrete(title, levels) {
    const texts = levels.map(V.value);
    const known = levels.map(V.level);
    const place = (k) => (texts.length > 1 ? (k + 0.5) / texts.length : 0.5);
    return { title, share: (value) => place(known.indexOf(V.level(value))), ticks: texts.map((text, k) => ({ share: place(k), text })), exact: false };
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
  V.parallel = (axes, lines, { brushes, change, point, wide: screen }) => {
    const phone = screen < 500;
    const SIDE = phone ? 48 : 70;
    const least = phone ? 96 : 128; // px between axes
    const drawn = axes.map((axis, k) => ({ ...axis, labels: V.labels(axis.ticks.map((tick) => tick.text), least - 12, (HEIGHT - TOP) / axis.ticks.length > 2.6 * SIZE), words: folded(axis.title, least - 8, true), last: k === axes.length - 1 }));
    const longest = (lines, bold) => Math.max(0, ...lines.map((line) => wide(line, bold)));
    const left = Math.max(SIDE, longest(drawn[0].labels.flat()) + 14, longest(drawn[0].words, true) / 2 + 4); // else the labels of the first axis would be cut
    const right = Math.max(SIDE, longest(drawn.at(-1).labels.flat()) + 14, longest(drawn.at(-1).words, true) / 2 + 4);
    const gap = Math.max(least, (screen - left - right) / Math.max(1, axes.length - 1));
    const width = left + right + gap * (axes.length - 1);
    const x = (k) => left + gap * k;
    const y = (share) => TOP + (HEIGHT - TOP - 22) * (1 - share);
    const last = axes.length - 1;
    const shifts = axes.map((axis, k) => (axis.exact ? new Map() : forks(lines, k, Math.min(FORK, (0.3 * (HEIGHT - TOP)) / axis.ticks.length))));
    const kept = (line) => axes.every((axis, k) => !brushes[k] || (axis.share(line.values[k]) >= brushes[k][0] && axis.share(line.values[k]) <= brushes[k][1]));
    const strokes = [...lines].sort((a, b) => a.score - b.score).map((line) => {
      const d = path(axes.map((axis, k) => [x(k), y(axis.share(line.values[k])) - (shifts[k].get(line.name) || 0)]));
      const on = kept(line);
      return V.svg("path", { d, class: on ? "line" : "line off", stroke: V.ramp(axes[last].share(line.score)), on: on ? { mouseenter: () => point(line), mouseleave: () => point(null) } : {} }, V.svg("title", {}, line.text));
    });
    const drawing = V.svg("svg", { class: "parallel", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": `Parallel coordinates: ${V.count(lines.length, "row")} across ${axes.map((axis) => axis.title).join(", ")}` }, V.svg("g", {}, strokes));
    drawn.forEach((axis, k) => drawing.append(column(axis, k, x(k), y, brushes, change, drawing)));
    return { drawing, kept: lines.filter(kept) };
  };

  /** By how many px up each line is drawn beside its value on axis `k`, by its name; the lines through one value lie around it. */
  function forks(lines, k, most) {
    const through = new Map();
    for (const line of [...lines].sort((a, b) => a.score - b.score)) {
      const value = V.level(line.values[k]);
      through.set(value, [...(through.get(value) || []), line]);
    }
    const shift = (mine) => mine.map((line, at) => [line.name, (at - (mine.length - 1) / 2) * Math.min(APART, (2 * most) / Math.max(1, mine.length - 1))]);
    return new Map([...through.values()].flatMap(shift));
  }

  function column(axis, k, x, y, brushes, change, drawing) {
    const score = axis.last;
    const label = (tick, lines) => {
      const side = score ? x + 8 : x - 8;
      const first = lines.length > 1 ? -0.55 : 0; // both lines around the value
      return V.svg("text", { class: "tick", x: side, y: y(tick.share), "text-anchor": score ? "start" : "end", "dominant-baseline": "central" }, lines.map((line, at) => V.svg("tspan", { x: side, dy: `${at ? 1.1 : first}em` }, line)), V.svg("title", {}, tick.text));
    };
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
          V.app.hold();
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
      axis.words.map((text, at) => V.svg("text", { class: "head", x, y: 16 + 14 * at, "text-anchor": "middle" }, text)),
      axis.ticks.map((tick, at) => label(tick, axis.labels[at])),
      brush,
      drag,
    );
  }
})();
