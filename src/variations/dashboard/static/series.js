"use strict";
/* Curves of runs made ready for drawing: points of one measure, smoothed, and seeds joined to a mean with a band. */
window.V = window.V || {};

(() => {
  /** Points {step, x, y} of `metric` against `axis`; lines without either are left out. */
  V.points = (curves, metric, axis) => {
    const [lines, values] = curves.metrics[metric] || [[], []];
    return lines
      .map((line, k) => ({ step: curves.step[line], x: curves[axis][line], y: values[k] }))
      .filter((point) => V.known(point.x) && V.known(point.y));
  };

  /** Exponential moving average of weight `a` (0: none), corrected for its start as Adam's is. */
  V.smooth = (points, a) => {
    if (!(a > 0)) return points;
    let mean = 0;
    let weight = 0;
    return points.map((point) => {
      mean = a * mean + (1 - a) * point.y;
      weight = a * weight + (1 - a);
      return { ...point, y: mean / weight };
    });
  };

  /** Seeds as one line: the mean at steps that every seed has, with the lowest and the highest seed as its band. Where
      only some seeds have come, each goes on alone in `tails`. Nothing is interpolated. */
  V.joinSeeds = (seeds) => {
    const lists = seeds.filter((points) => points.length);
    if (lists.length < 2) return { mean: lists[0] || [], band: false, tails: [] };
    const byStep = lists.map((points) => new Map(points.map((point) => [point.step, point])));
    const shared = lists[0].map((point) => point.step).filter((step) => byStep.every((map) => map.has(step)));
    const mean = shared.map((step) => {
      const here = byStep.map((map) => map.get(step));
      const ys = here.map((point) => point.y);
      return { step, x: average(here.map((point) => point.x)), y: average(ys), low: Math.min(...ys), high: Math.max(...ys) };
    });
    const last = shared.length ? shared[shared.length - 1] : -Infinity;
    const tails = lists.map((points) => points.filter((point) => point.step >= last)).filter((points) => points.length > 1);
    return { mean, band: mean.length > 1, tails };
  };

  const average = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

  /** At most `count` of `points`, evenly spaced, with the last one: the positions of markers. */
  V.some = (points, count = 12) => {
    if (points.length <= count) return points;
    const step = (points.length - 1) / (count - 1);
    return Array.from({ length: count }, (_, i) => points[Math.round(i * step)]);
  };
})();
