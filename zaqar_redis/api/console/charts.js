// SPDX-License-Identifier: Apache-2.0
// The chart of a queue, by plotly.js, which is loaded when the first chart is drawn.

let loading = null;

function plotly() {
  loading ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly.min.js could not be loaded"));
    document.head.append(script);
  });
  return loading;
}

const CONFIG = { displayModeBar: false, responsive: true, scrollZoom: false };

// Draws samples: [{at (Date), free, claimed, posts, takes}, …].
export async function draw(element, samples) {
  const { react } = await plotly();
  const colour = colours(element);
  const times = samples.map((sample) => sample.at);
  const line = (name, key, axis, more) => ({
    type: "scatter", mode: "lines", name, x: times, y: samples.map((sample) => sample[key]),
    yaxis: axis, line: { width: 2, color: colour(`--${key}`) }, ...more,
  });
  const axis = { rangemode: "tozero", gridcolor: colour("--line"), zeroline: false,
    fixedrange: true, automargin: true, nticks: 5 };
  const layout = {
    height: 300,
    margin: { l: 44, r: 8, t: 8, b: 28 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "inherit", size: 12, color: colour("--ink") },
    hovermode: "x unified",
    hoverlabel: { bgcolor: colour("--card"), bordercolor: colour("--line") },
    legend: { orientation: "h", x: 0, y: 1.14, traceorder: "normal" },
    xaxis: { gridcolor: colour("--line"), fixedrange: true, anchor: "y2", nticks: 4,
      tickformat: "%H:%M:%S", tickangle: 0 },
    yaxis: { ...axis, domain: [0.52, 0.97], title: { text: "messages" } },
    yaxis2: { ...axis, domain: [0, 0.42], title: { text: "a second" } },
  };
  await react(element, [
    line("free", "free", "y", { stackgroup: "depth" }),
    line("claimed", "claimed", "y", { stackgroup: "depth" }),
    line("posts/s", "posts", "y2", {}),
    line("takes/s", "takes", "y2", {}),
  ], layout, CONFIG);
}

export function forget(element) {
  if (window.Plotly) window.Plotly.purge(element);
}

function colours(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(name).trim();
}
