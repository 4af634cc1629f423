// SPDX-License-Identifier: Apache-2.0
// Charts over time, by uPlot, which is loaded when the first chart is drawn.

import { make } from "./dom.js";

const HEIGHT = 170;
let loading = null;

function library() {
  loading ??= new Promise((resolve, reject) => {
    const script = make("script", { src: "uPlot.iife.min.js" });
    script.onload = () => resolve(window.uPlot);
    script.onerror = () => {
      loading = null;
      reject(new Error("uPlot.iife.min.js could not be loaded"));
    };
    document.head.append(make("link", { rel: "stylesheet", href: "uPlot.min.css" }), script);
  });
  return loading;
}

const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

// Seconds between marks of the axis of time.
const STEPS = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");
const minute = (seconds) => clock(seconds).slice(0, 5);

// The messages of a queue or project, and what happens to them.
export const MESSAGE_CHARTS = [
  { title: "Messages", series: [
    { name: "Free", key: "free", colour: "--free" },
    { name: "Claimed", key: "claimed", colour: "--claimed" },
    { name: "Delayed", key: "delayed", colour: "--delayed" }] },
  { title: "A second", isRate: true, series: [
    { name: "Posts/s", key: "posts", colour: "--posts" },
    { name: "Claims/s", key: "claims", colour: "--claimed" },
    { name: "Deletes/s", key: "deletes", colour: "--takes" },
    { name: "Dead letters/s", key: "deadLetters", colour: "--bad" }] },
];

const NOT_INSTALLED = "There are no charts: the service was installed from a checkout without " +
  "running tools/console-assets, which needs npm.";

// Charts below each other, with one axis of time: [{title, series: [{name, key, colour}]}], with
// isRate where the values are of the time since the sample before.
export class Charts {
  #plots = [];
  #groups;
  #installed;
  #data = null;
  #span = 0;
  #drawing = null;
  #dark = matchMedia("(prefers-color-scheme: dark)");
  #observer = new ResizeObserver(() => this.#resize());
  #restyle = () => {
    if (!this.#data) return;
    this.#clear();
    this.show(this.#data, this.#span);
  };

  // label: what the charts show, for those who do not see them; installed: whether uPlot is.
  constructor(label, groups, installed) {
    this.#groups = groups;
    this.#installed = installed;
    this.label = label;
    this.element = make("div", { class: "charts" });
    if (!installed) this.element.append(make("p", { class: "hint" }, NOT_INSTALLED));
    this.#observer.observe(this.element);
    this.#dark.addEventListener("change", this.#restyle);
  }

  // samples: [{at: seconds, <key>: number or null, …}, …], the oldest first. span: the seconds that
  // are shown, up to the last of them.
  async show(samples, span) {
    if (!this.#installed) return;
    this.#data = samples;
    this.#span = span;
    const times = samples.map((sample) => sample.at);
    const groups = this.#groups.map(({ series }) =>
      [times, ...series.map(({ key }) => samples.map((sample) => sample[key] ?? null))]);
    if (!this.#plots.length) {
      this.#drawing ??= library();
      const Plot = await this.#drawing;
      if (!this.element.isConnected || this.#plots.length) return;
      this.#plots = this.#groups.map((group, index) => this.#plot(Plot, group, groups[index]));
      return;
    }
    this.#plots.forEach((plot, index) => plot.setData(groups[index]));
  }

  close() {
    this.#observer.disconnect();
    this.#dark.removeEventListener("change", this.#restyle);
    this.#clear();
  }

  #clear() {
    for (const plot of this.#plots) plot.destroy();
    this.#plots = [];
    this.element.replaceChildren();
  }

  #resize() {
    for (const plot of this.#plots) {
      const width = plot.root.parentElement.clientWidth;
      if (width && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    }
  }

  #plot(Plot, { title, series, isRate = false }, data) {
    const paths = isRate ? { paths: Plot.paths.stepped({ align: -1 }) } : {};
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const element = this.element.appendChild(
      make("figure", { class: "chart", "aria-label": `${this.label}: ${title}` },
        make("figcaption", {}, title)));
    return new Plot({
      width: element.clientWidth || 600,
      height: HEIGHT,
      cursor: { sync: { key: this.label }, drag: { x: false, y: false } },
      scales: {
        x: { range: (_, __, last) => [(last ?? 0) - this.#span, last ?? 0] },
        // From zero, with some room above.
        y: { range: (_, __, high) => [0, Math.max(1, (high ?? 0) * 1.05)] },
      },
      axes: [{ ...axis, space: 50, incrs: STEPS, values: (_, marks) => marks.map(minute) },
        { ...axis, size: 52, values: (_, marks) => marks.map((mark) => SHORT.format(mark)) }],
      series: [
        { label: "Time", value: (_, at) => (at === null ? "–" : clock(at)) },
        ...series.map((each) => ({ label: each.name, stroke: colour(each.colour), width: 2,
          spanGaps: false, ...paths, points: { show: (plot) => plot.data[0].length < 2 },
          value: (_, value) => (value === null ? "–" : WHOLE.format(value)) })),
      ],
    }, data, element);
  }
}
