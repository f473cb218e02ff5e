"use strict";
/* Bokeh figures in the page's colours. Every chart has labelled axes with units, and a text for readers who cannot see
   it. */
window.V = window.V || {};

(() => {
  const live = new Map(); // element → Bokeh view

  const FONT = "system-ui, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif";

  const narrow = () => window.innerWidth < 640;

  function axis(target, label, ink) {
    Object.assign(target, {
      axis_label: label,
      axis_label_text_color: ink.ink,
      axis_label_text_font: FONT,
      axis_label_text_font_size: "12.5px",
      axis_label_text_font_style: "normal",
      axis_line_color: ink.soft,
      major_tick_line_color: ink.soft,
      minor_tick_line_color: null,
      major_label_text_color: ink.ink,
      major_label_text_font: FONT,
      major_label_text_font_size: "11.5px",
    });
  }

  V.chart = {
    /** A figure. `large` axes print 12k for 12,000. */
    figure: ({ height = 400, x, y, xLog = false, yLog = false, xRange, yRange, tools, grid = true, wholeX = false, room = 0 }) => {
      const ink = V.ink();
      const fig = Bokeh.Plotting.figure({
        height,
        sizing_mode: "stretch_width",
        min_border_right: 16,
        tools: tools ?? "pan,box_zoom,wheel_zoom,reset,save",
        x_axis_type: xLog ? "log" : "auto",
        y_axis_type: yLog ? "log" : "auto",
        ...(xRange ? { x_range: xRange } : {}),
        ...(yRange ? { y_range: yRange } : {}),
        background_fill_color: ink.page,
        border_fill_color: ink.page,
        outline_line_color: null,
      });
      fig.toolbar.logo = null;
      if (tools === "" || narrow()) fig.toolbar_location = null; // on a phone it would take the chart's space
      for (const wheel of fig.toolbar.tools.filter((tool) => tool.type === "WheelZoomTool")) {
        wheel.modifiers = { ctrl: true }; // the wheel alone scrolls the page
        fig.toolbar.active_scroll = wheel;
      }
      axis(fig.xaxis, x, ink);
      axis(fig.yaxis, y, ink);
      const few = narrow() && !(xRange instanceof Bokeh.FactorRange); // on a phone, more would collide
      if (!xLog && (few || wholeX)) fig.xaxis.ticker = new Bokeh.BasicTicker({ ...(few ? { desired_num_ticks: 3 } : {}), ...(wholeX ? { min_interval: 1 } : {}) });
      if (wholeX && !xLog) fig.xaxis.formatter = new Bokeh.NumeralTickFormatter({ format: "0,0" });
      for (const range of [fig.x_range, fig.y_range]) if (room && range.type === "DataRange1d") range.range_padding = room;
      for (const lines of [fig.xgrid, fig.ygrid]) {
        lines.grid_line_color = grid ? ink.grid : null;
        lines.grid_line_alpha = 0.7;
      }
      return fig;
    },

    source: (data) => new Bokeh.ColumnDataSource({ data }),

    /** Values under the pointer; text from runs is shown as text. */
    hover: (fig, renderers, tooltips, options = {}) => {
      fig.add_tools(new Bokeh.HoverTool({ renderers, tooltips, ...options }));
    },

    /** Draws `fig` in `node`, and frees the chart that was there. */
    show: async (fig, node, text) => {
      V.chart.free();
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", text);
      node.classList.add("chart");
      const shown = await Bokeh.Plotting.show(fig, node);
      live.set(node, Array.isArray(shown) ? shown[0] : shown);
      node.dataset.drawn = "true";
    },

    /** Frees charts that have left the page. */
    free: () => {
      for (const [node, view] of live) {
        if (node.isConnected) continue;
        live.delete(node);
        if (view && view.remove) view.remove();
      }
    },

    /** A cividis colour scale from `low` to `high`, with its colour bar at the right of `fig`, and `title` above it. */
    colours: (fig, low, high, title) => {
      const ink = V.ink();
      const mapper = new Bokeh.LinearColorMapper({ palette: cividis(64), low, high });
      fig.add_layout(
        new Bokeh.ColorBar({
          color_mapper: mapper,
          width: 12,
          major_label_text_font: FONT,
          major_label_text_color: ink.ink,
          background_fill_color: null,
          border_line_color: null,
          major_tick_line_color: ink.soft,
          padding: 8,
        }),
        "right",
      );
      // The bar's own title would stand upright beside its lower end.
      fig.add_layout(new Bokeh.Title({ text: title, align: "right", offset: -44, standoff: 4, text_font: FONT, text_font_size: "11.5px", text_font_style: "normal", text_color: ink.ink }), "above");
      return mapper;
    },

    font: FONT,
  };

  /** Differences with their intervals around zero: marks {name, look, value, ci, digits}. Null if there are none. */
  V.forest = (marks, x) => {
    if (!marks.length) return null;
    const phone = narrow();
    const wrapped = (name) => V.wrap(name, phone ? 16 : 34).join("\n");
    const names = marks.map(({ name }, k) => wrapped(marks.findIndex((mark) => mark.name === name) === k ? name : `${name} (${k + 1})`));
    const told = ({ value, ci, digits }) => `${V.signed(value, digits)}, interval ${V.signed(ci[0], digits)} to ${V.signed(ci[1], digits)}`;
    // A few very long intervals, such as those of two seeds, would press all others together: the edge cuts them.
    const length = ({ ci }) => ci[1] - ci[0];
    const usual = 8 * marks.map(length).sort((a, b) => a - b)[Math.floor(marks.length / 2)];
    const whole = marks.filter((mark) => !usual || length(mark) <= usual);
    const cut = whole.length < marks.length;
    const values = (whole.length ? whole : marks).map((mark) => mark.value);
    const low = Math.min(0, ...values, ...whole.map((mark) => mark.ci[0]));
    const high = Math.max(0, ...values, ...whole.map((mark) => mark.ci[1]));
    const room = 0.06 * (high - low || 1);
    const lines = Math.max(...names.map((name) => name.split("\n").length)); // every row gets the height of the tallest name
    const axis = cut ? `${x}; arrow: cut at the edge` : x;
    const title = phone ? V.wrap(axis, 26) : [axis];
    const fig = V.chart.figure({
      height: 56 + 16 * title.length + (16 + 15 * lines) * names.length, x: title.join("\n"), y: "", tools: "",
      xRange: new Bokeh.Range1d({ start: low - room, end: high + room }),
      yRange: new Bokeh.FactorRange({ factors: [...names].reverse() }),
    });
    const ink = V.ink();
    fig.ygrid.grid_line_color = null;
    fig.add_layout(new Bokeh.Span({ location: 0, dimension: "height", line_color: ink.ink, line_width: 1.2, line_dash: [5, 4] }));
    const shown = marks.map((mark, k) => {
      const look = V.look(mark.look);
      const source = V.chart.source({ x: [mark.value], y: [names[k]], low: [mark.ci[0]], high: [mark.ci[1]], shown: [told(mark)] });
      fig.segment({ x0: { field: "low" }, x1: { field: "high" }, y0: { field: "y" }, y1: { field: "y" }, source, line_color: look.colour, line_width: 3 });
      return fig.scatter({ field: "x" }, { field: "y" }, { source, marker: look.marker, size: 11, fill_color: look.marker === "plus" ? null : look.colour, line_color: look.colour });
    });
    marks.forEach((mark, k) => {
      const colour = V.look(mark.look).colour;
      const arrow = (at, side, hidden) => {
        fig.scatter([at], [names[k]], { marker: "triangle", angle: (-side * Math.PI) / 2, size: 10, fill_color: colour, line_color: colour });
        if (hidden) fig.text([at], [names[k]], [V.signed(mark.value, mark.digits)], { x_offset: -side * 10, y_offset: -4, text_align: side > 0 ? "right" : "left", text_color: ink.ink, text_font: FONT, text_font_size: "12px" });
      };
      if (mark.ci[0] < low - room) arrow(low - room * 0.6, -1, mark.value < low - room);
      if (mark.ci[1] > high + room) arrow(high + room * 0.6, 1, mark.value > high + room);
    });
    V.chart.hover(fig, shown, [["", "@y"], ["difference", "@shown"]]);
    return { fig, text: marks.map((mark) => `${mark.name} ${told(mark)}`).join("; ") };
  };

  const STOPS = V.CIVIDIS.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

  /** Red, green and blue of cividis at `share` of its length. */
  function mixed(share) {
    const place = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
    const low = Math.min(Math.floor(place), STOPS.length - 2);
    return STOPS[low].map((value, k) => Math.round(value + (STOPS[low + 1][k] - value) * (place - low)));
  }

  V.cividisAt = (share) => `#${mixed(share).map((value) => value.toString(16).padStart(2, "0")).join("")}`;

  const cividis = (count) => Array.from({ length: count }, (_, i) => V.cividisAt(i / (count - 1)));

  /** Black or white, whichever has the higher contrast (WCAG 2) with cividis at `share` of its length. */
  V.onCividis = (share) => {
    const [red, green, blue] = mixed(share).map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
    const luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    return (luminance + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff";
  };
})();
