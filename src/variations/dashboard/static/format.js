"use strict";
/* Numbers as text. */
window.V = window.V || {};

(() => {
  const NONE = "–";
  const known = (value) => typeof value === "number" && Number.isFinite(value);

  V.known = known;

  /** A score with `digits` decimals; a tie is rounded away from zero, as in tables on the terminal. */
  V.fixed = (value, digits = 2) => (known(value) ? (Math.abs(value) < 1e15 ? (value + 1e-9 * Math.sign(value)).toFixed(digits) : value.toExponential(2)).replace("-", "−") : NONE);

  /** A difference with its sign, which only zero has not. Follows `tables.grid.delta`. */
  V.signed = (value, digits = 2) => {
    if (!known(value)) return NONE;
    const sign = Math.abs(value) < 1e-9 ? "" : value > 0 ? "+" : "−";
    return sign + V.fixed(Math.abs(value), digits);
  };

  /** 1,234,567 */
  V.whole = (value) => (known(value) ? Math.round(value).toLocaleString("en-GB").replace("-", "−") : NONE);

  /** 65.3 M, 2.1 G: three figures. */
  V.short = (value) => {
    if (!known(value)) return NONE;
    const rounded = Number(value.toPrecision(3)); // 999,600 is 1.00 M
    const units = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
    const found = units.find(([unit]) => Math.abs(rounded) >= unit);
    return found ? `${(rounded / found[0]).toPrecision(3)} ${found[1]}` : String(rounded);
  };

  /** 4 significant figures, for values of an unknown kind. */
  V.any = (value) => {
    if (!known(value)) return NONE;
    const size = Math.abs(value);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return value.toExponential(2).replace("-", "−");
    return String(Number(value.toPrecision(4))).replace("-", "−");
  };

  /** A value of a measure of runs: scores in percent with two decimals, as in the table. */
  V.measured = (key, value) => (/bleu|chrf|gleu|match/.test(key) ? V.fixed(value) : V.any(value));

  /** A duration: 45 s, 2 min 5 s, 12 min, 3 h 20 min, 2 d 4 h. */
  V.duration = (seconds) => {
    if (!known(seconds)) return NONE;
    const whole = Math.round(seconds);
    if (whole < 90) return `${whole} s`;
    if (whole < 600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
    const minutes = Math.round(seconds / 60);
    if (minutes < 60) return `${minutes} min`;
    const hours = Math.floor(minutes / 60);
    if (hours < 48) return `${hours} h ${minutes % 60} min`;
    return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  };

  /** Device-hours to three figures: 0.149, 84.2, 1,234. Follows `system.quantities.hours_text`. */
  V.hours = (value) => {
    if (!known(value)) return NONE;
    const short = Number((value + 1e-9).toPrecision(3));
    return short >= 100 ? V.whole(value) : String(Number(short.toFixed(6)));
  };

  /** A p-value, as tables print it: 0.004; < 0.001 if three decimals would all be 0. */
  V.p = (value) => (known(value) ? (value < 0.0005 ? "< 0.001" : V.fixed(value, 3)) : NONE);

  /** Text whose line may break after a comma or colon that joins two names. */
  V.breakable = (text) => text.replace(/([,:])(?=\S)/g, "$1\u200b");

  /** Text with a full stop at its end. */
  V.sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

  /** One or many. */
  V.count = (number, one, many = `${one}s`) => `${V.whole(number)} ${number === 1 ? one : many}`;

  /** The name of what runs of `sweep` measured, as their task calls it. */
  V.metricName = (sweep, key) => {
    const names = { "train/loss": "training loss, as minimised", lr: "learning rate", "branch/dead": "dead branches", "train/grad_norm": "gradient norm" };
    return sweep.labels[key] || names[key] || key.replace(/[/_]/g, " ");
  };

  /** Quantities that runs are drawn against: their names and units. */
  V.AXES = {
    step: ["steps", "updates"],
    target_tokens: ["target tokens read", "tokens"],
    tokens: ["source and target tokens read", "tokens"],
    seconds: ["training time", "seconds"],
    flops: ["training FLOPs, counted", "FLOPs"],
    parameters: ["parameters", "weights"],
  };

  /** An axis for values up to `high`: {factor, label}; values are drawn divided by `factor`, as its label says. */
  V.axis = (key, high) => {
    const [name, unit] = V.AXES[key];
    if (key === "seconds") {
      const [factor, word] = high > 172800 ? [3600, "hours"] : high > 7200 ? [60, "minutes"] : [1, "seconds"];
      return { factor, label: `${name} (${word})` };
    }
    const words = [[1e18, "10¹⁸ "], [1e15, "10¹⁵ "], [1e12, "10¹² "], [1e9, "10⁹ "], [1e6, "million "], [1e5, "thousand ", 1e3]];
    const [, word, factor] = words.map(([from, text, by]) => [from, text, by || from]).find(([from]) => high >= from) || [0, "", 1];
    return { factor, label: `${name} (${word}${unit})` };
  };
})();
