// The sections that are made when they are opened.

async function findingsSection(about) {
  const data = await load("section-findings");
  const known = new Set(about.ids);
  return [h("h1", {}, "Findings"),
    h("p", { class: "quiet" }, "One row per root cause. Terms: ", h("code", {}, "p:openvino k:nonfinite op:amax cause:\"exceptional values\" c:failure"),
      ", or any text."),
    ...tableSection("findings", data, {
      hint: "p:openvino k:nonfinite op:amax",
      open: (row) => (known.has(row[0]) ? addressOf(`finding/${row[0]}`, {}) : null),
      show: (row, title, n) => {
        if (title === "id" && known.has(row[n])) return h("a", { href: addressOf(`finding/${row[n]}`, {}) }, row[n]);
        if (title === "error / rounding") return multiple(row[n]);
        if (title === "category") return status(row[n] === "failure" ? "failed" : row[n] === "unstable" ? "unstable" : row[n] === "hazard" ? "hazard" : "diverges", about);
        if (title === "in words") return h("span", { class: "clip", title: row[n] }, String(row[n] ?? ""));
        return cut(String(row[n] ?? ""));
      },
    })];
}

async function gatesSection(about) {
  const data = await load("section-gates");
  return [h("h1", {}, "Gates"),
    h("p", { class: "quiet" }, "Values that rest on ordinary inputs and decide the output when they do not, and what only a copy has. Terms: ",
      h("code", {}, "v:suspicious op:sigmoid"), ", or any text."),
    ...tableSection("gates", data, {
      hint: "v:suspicious op:sigmoid",
      open: (row) => addressOf(`finding/${row[0]}`, {}),
      show: (row, title, n) => {
        if (title === "id") return h("a", { href: addressOf(`finding/${row[n]}`, {}) }, row[n]);
        if (title === "verdict") return status(row[n], about);
        return h("span", { class: "clip", title: row[n] }, String(row[n] ?? ""));
      },
    })];
}

async function runsSection(about) {
  const data = await load("section-runs");
  return [h("h1", {}, "Runs"),
    h("p", { class: "quiet" }, "What each platform did with each program. Terms: ",
      h("code", {}, "p:openvino v:diverges s:ok k:nonfinite m:bert kind:fragment"), ", or any text."),
    ...tableSection("runs", data, {
      hint: "p:openvino v:diverges m:bert",
      show: (row, title, n) => {
        if (title === "error / rounding") return multiple(row[n]);
        if ((title === "verdict" || title === "status") && row[n]) return status(row[n], about);
        if (title === "message") return h("span", { class: "clip", title: row[n] }, String(row[n] ?? ""));
        return cut(String(row[n] ?? ""));
      },
    })];
}

async function changesSection(about) {
  const data = await load("section-changes");
  return [h("h1", {}, "Changes"),
    h("p", { class: "quiet" }, "What is not the same in both. Terms: ", h("code", {}, "is:appeared p:openvino k:value"), ", or any text."),
    ...tableSection("changes", data, {
      hint: "is:appeared p:openvino",
      show: (row, title, n) => (title === "change" ? status(row[n], about)
        : title.endsWith("rounding") ? multiple(row[n])
          : title === "why" ? h("span", { class: "clip", title: row[n] }, String(row[n] ?? "")) : cut(String(row[n] ?? ""))),
    })];
}

// Ten steps of shade: one more for every factor of ten over what rounding explains.
function shade(value) {
  const found = number(value);
  if (found === null || Number.isNaN(found) || found <= 1) return 0;
  return found === Infinity ? 9 : Math.min(9, 1 + Math.floor(Math.log10(found)));
}

async function consistencySection(about) {
  const data = await load("section-consistency");
  const { state } = address();
  const kind = data.kinds.includes(state.get("kind")) ? state.get("kind") : data.kinds[0];
  const view = data.views[kind];
  const columns = new Set([...Object.keys(data.pairs[kind] || {}).flatMap((key) => key.split("\n")), ...data.platforms]);
  const reference = columns.has(state.get("ref")) ? state.get("ref") : "";
  const choose = (id, label, options, value, onchange) => h("label", { for: id }, label, " ",
    h("select", { id, onchange: (event) => onchange(event.target.value) },
      options.map(([key, name]) => h("option", { value: key, selected: key === value }, name))));
  const wanted = state.get("m") || "";
  const rows = view.rows.filter(([model]) => model.toLowerCase().includes(wanted.toLowerCase()));
  const shown = [...columns].filter((name) => name !== reference && (reference || data.platforms.includes(name)));
  const table = h("table", { class: "heat" },
    caption(reference ? `Programs whose outputs differ from ${reference}'s by more than rounding`
      : `Largest error against float64, in multiples of what rounding is expected to cause (${about.allowed} allowed); the word is the gravest verdict`),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "model"), shown.map((name) => h("th", { scope: "col" },
      h("a", { href: addressOf("consistency", { kind, ref: name === reference ? "" : name }) }, name),
      partial(data.ran?.[kind]?.[name] || (empty(view, data.platforms.indexOf(name)) ? [0, 1] : null)))))),
    h("tbody", {}, rows.map(([model, cells]) => h("tr", { tabindex: "-1", "data-to": addressOf("runs", { q: `${quoted("m", model)} kind:${kind}` }) },
      h("th", { scope: "row" }, cut(model)), shown.map((name) => reference
        ? pairCell(data.pairs[kind], model, reference, name, kind, about)
        : heatCell(cells[data.platforms.indexOf(name)], model, name, kind, about))))));
  return [h("h1", {}, "Consistency"),
    h("form", { class: "search", onsubmit: (event) => event.preventDefault() },
      choose("heat-ref", "compare with", [["", "float64 and rounding"], ...[...columns].map((name) => [name, name])], reference, (ref) => change({ ref })),
      choose("heat-kind", "programs", data.kinds.map((item) => [item, item + "s"]), kind, (value) => change({ kind: value })),
      h("label", { for: "filter-models" }, "model "),
      h("input", { type: "search", id: "filter-models", class: "filter short", value: wanted, oninput: (event) => change({ m: event.target.value }, true) })),
    h("p", { class: "quiet" }, view.total > view.rows.length ? `The first ${many(view.rows.length, "model")} of ${view.total.toLocaleString("en")}, those that differ most first. ` : "",
      "Darker is farther from rounding. ", h("b", {}, "known"), ": everything found there is listed as known. A striped cell was not run."),
    h("div", { class: "scroll" }, table)];
}

const empty = (view, column) => column >= 0 && !view.rows.some(([, cells]) => cells[column]);

// A column that is not complete says so.
function partial(ran) {
  if (!ran || (ran[0] && ran[0] >= ran[1])) return "";
  return h("small", {}, ran[0] ? `${ran[0].toLocaleString("en")} of ${ran[1].toLocaleString("en")} ran` : "· not run");
}

function heatCell(cell, model, platform, kind, about) {
  if (!cell) return h("td", { class: "none" }, "· not run");
  const [word, worst, counts, known] = cell;
  const total = Object.values(counts).reduce((a, b) => a + b, 0);
  const told = Object.entries(counts).map(([key, count]) => `${count} ${key}`).join(", ");
  const measured = ["diverges", "unstable", "rounding", "hazard"].includes(word);
  const level = measured && word !== "rounding" ? shade(worst) : 0; // what rounding explains needs no colour
  const value = measured ? multiple(worst) : "";
  return h("td", { class: word === "failed" ? "heat-failed" : `heat-${level}`, title: `${model} on ${platform}: ${told}` },
    h("a", { href: addressOf("runs", { q: `${quoted("m", model)} ${quoted("p", platform.split(" ")[0])} kind:${kind}` }) },
      h("span", { class: "glyph", "aria-hidden": "true" }, about.glyphs[word] || ""), " ", word, value ? ` ${value}` : ""),
    h("small", {}, `${counts[word]} of ${total}`, known ? " known" : ""));
}

function pairCell(pairs, model, reference, platform, kind, about) {
  const counts = ((pairs || {})[`${reference}\n${platform}`] || (pairs || {})[`${platform}\n${reference}`] || {})[model];
  if (!counts) return h("td", { class: "none" }, "· not run");
  const total = Object.values(counts).reduce((a, b) => a + b, 0);
  const word = ["differs", "not judged", "same fault", "rounding", "same bits"].find((key) => counts[key]);
  const level = counts.differs ? Math.max(2, Math.round((9 * counts.differs) / total)) : 0;
  const told = Object.entries(counts).map(([key, count]) => `${count} ${key}`).join(", ");
  return h("td", { class: `heat-${level}`, title: `${model}, ${platform} next to ${reference}: ${told}` },
    h("a", { href: addressOf("runs", { q: `${quoted("m", model)} ${quoted("p", platform)} kind:${kind}` }) },
      h("span", { class: "glyph", "aria-hidden": "true" }, about.glyphs[word] || ""), " ", word),
    h("small", {}, `${counts[word]} of ${total}`));
}

// A row passes when it has the operator and the dtype, and one platform (p:) of it was observed (v:) or declared (d:) so.
function operatorMatcher(query, titles, platforms) {
  const wanted = terms(query);
  const values = (key) => wanted.filter((term) => term.key === key).map((term) => term.value);
  const rest = matcher(query.replace(/(^|\s)[pvd]:(?:"[^"]*"|\S+)/g, " "), titles);
  return (row) => rest(row) && (!["p", "v", "d"].some((key) => values(key).length) || platforms.some((name, n) => {
    const [declared, observed] = row[n + 2] || [null, null];
    return values("p").every((value) => value === name.toLowerCase())
      && values("v").every((value) => value === (observed || "not exercised"))
      && values("d").every((value) => value === declared);
  }));
}

async function operatorsSection(about) {
  const data = await load("section-operators");
  const query = address().state.get("q") || "";
  const titles = ["operator", "dtype"];
  const rows = query ? data.rows.filter(operatorMatcher(query, titles, data.platforms)) : data.rows;
  const shown = rows.slice(0, 500);
  const whole = rows.length <= 6; // few enough to say everything
  const cell = (item, operator, dtype, platform) => {
    if (!item) return h("td", { class: "none" }, "· not exercised");
    const [declared, observed, said, called] = item;
    const to = addressOf("operators", { q: [["op", operator], ["dtype", dtype], ["p", platform]].map((part) => quoted(...part)).join(" ") });
    return h("td", { title: whole ? null : said || null, class: observed ? null : "none" },
      h("a", { href: to }, status(observed || "not exercised", about)),
      h("small", {}, declared ? `declared: ${declared}` : "declared: nothing known"),
      whole && called ? h("small", {}, `called: ${called}`) : "", said ? h("small", { class: whole ? "whole" : "clip" }, said) : "");
  };
  return [h("h1", {}, "Operators"),
    h("p", { class: "quiet" }, "Observed is what ran here; declared is what a package registers. What was not exercised is not known to work. Terms: ",
      h("code", {}, "op:amax dtype:float16 p:openvino v:wrong d:missing"), "."),
    filterForm("operators", query, "op:amax dtype:float16 p:openvino v:wrong"),
    h("p", { class: "quiet count", role: "status" }, `${shown.length.toLocaleString("en")} of ${many(rows.length, "row")}`),
    h("div", { class: "scroll" }, h("table", { class: "heat" }, caption("Operators by dtype and platform"),
      h("thead", {}, h("tr", {}, [...titles, ...data.platforms].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, shown.map(([operator, dtype, ...cells]) => h("tr", { tabindex: "-1" }, h("th", { scope: "row" }, operator), h("td", {}, dtype),
        cells.map((item, n) => cell(item, operator, dtype, data.platforms[n])))))))];
}
