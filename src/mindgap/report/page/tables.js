// Tables that are filtered, sorted and read page by page; which part is shown is in the hash.

const PER_PAGE = 100;
const LONG = new Set(["in words", "message", "why"]);
const WRAPPED = new Set(["cause", "known", "mutations"]);
const NUMBERS = new Set(["models", "variants", "fragments", "error / rounding", "before / rounding", "now / rounding", "nodes", "seconds"]);

// What a filter may name, each with the columns that it looks at.
const KEYS = {
  id: ["id", "program"], p: ["platform"], k: ["what differs"], op: ["operator"], cause: ["cause"], c: ["category"],
  m: ["model"], v: ["verdict"], s: ["status"], kind: ["kind"], known: ["known"], is: ["change"], dtype: ["dtype"],
  stage: ["stage"], mutation: ["mutations"],
};
const EXACT = new Set(["p", "k", "c", "v", "s", "kind", "is", "stage", "dtype", "id", "cause"]);

function terms(query) {
  return [...query.matchAll(/(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/g)].map(([, key, inQuotes, plain]) => ({
    key: key || "", value: (inQuotes ?? plain ?? "").toLowerCase(),
  }));
}

// A row passes when it has every term: p:openvino k:nonfinite op:amax, or any text.
function matcher(query, titles) {
  const wanted = terms(query).map(({ key, value }) => {
    const names = KEYS[key];
    if (key && !names) return { columns: titles.map((_, n) => n), value: `${key}:${value}`, exact: false };
    const columns = names ? names.map((name) => titles.indexOf(name)).filter((n) => n >= 0) : titles.map((_, n) => n);
    return { columns, value, exact: EXACT.has(key) };
  });
  return (row) => wanted.every(({ columns, value, exact }) => columns.some((n) => {
    const text = String(row[n] ?? "").toLowerCase();
    if (!exact) return text.includes(value);
    return text === value || (titles[n] === "platform" && text.split(" ").includes(value));
  }));
}

function compare(a, b) {
  const [x, y] = [number(a), number(b)];
  if (x !== null || y !== null) return (x ?? -Infinity) - (y ?? -Infinity) || 0;
  return String(a ?? "").localeCompare(String(b ?? ""));
}

function csv(titles, rows) {
  const cell = (value) => {
    let text = String(value ?? "");
    if (/^[=+\-@\t\r]/.test(text) && number(value) === null) text = "'" + text; // a spreadsheet must not compute it
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [titles, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

// `show(row, column)` makes the content of a cell; `open(row)` is where Enter on a row leads.
function tableSection(name, data, options) {
  const { state } = address();
  const query = state.get("q") || "";
  const sort = state.get("sort") || "";
  const at = Math.max(0, Number(state.get("page") || 1) - 1);
  const key = sort.replace(/^-/, "");
  let rows = query ? data.rows.filter(matcher(query, data.titles)) : data.rows;
  const column = data.titles.indexOf(key);
  if (column >= 0) {
    const sign = sort.startsWith("-") ? -1 : 1;
    rows = [...rows].sort((a, b) => sign * compare(a[column], b[column]));
  }
  const found = rows.slice(at * PER_PAGE, (at + 1) * PER_PAGE);
  const shown = data.titles.map((title, n) => [title, n]).filter(([title, n]) => title === key || data.rows.some((row) => (row[n] ?? "") !== ""));
  return [
    filterForm(name, query, options.hint),
    h("p", { class: "quiet count", role: "status" }, counted(data, rows), " ",
      h("button", { type: "button", onclick: () => download(`${name}.csv`, "text/csv", csv(data.titles, rows)) }, "CSV"),
      " ", h("button", { type: "button", onclick: () => download(`${name}.json`, "application/json",
        JSON.stringify(rows.map((row) => Object.fromEntries(data.titles.map((title, n) => [title, row[n]]))), null, 1)) },
      "JSON")),
    h("div", { class: "scroll" }, h("table", { class: "list" },
      caption(data.caption),
      h("thead", {}, h("tr", {}, shown.map(([title]) => head(title, sort)))),
      h("tbody", {}, found.map((row) => h("tr", { tabindex: "-1", "data-to": options.open ? options.open(row) : null },
        shown.map(([title, n]) => h("td", { "data-title": title, class: LONG.has(title) ? "long" : NUMBERS.has(title) ? "num" : WRAPPED.has(title) ? "wrapped" : null,
          title: String(row[n] ?? "").length > 20 && !LONG.has(title) ? row[n] : null }, options.show(row, title, n)))))))),
    pages(at, Math.ceil(rows.length / PER_PAGE)),
  ];
}

function counted(data, rows) {
  const shown = rows.length === data.rows.length ? many(rows.length, "row") : `${rows.length.toLocaleString("en")} of ${many(data.rows.length, "row")}`;
  const more = data.total > data.rows.length ? `, a sample of ${data.total.toLocaleString("en")}: mindgap export has all` : "";
  return shown + more;
}

function head(title, sort) {
  const direction = sort === title ? "ascending" : sort === "-" + title ? "descending" : null;
  const next = sort === "-" + title ? title : "-" + title;
  return h("th", { scope: "col", "aria-sort": direction, class: NUMBERS.has(title) ? "num" : null }, h("button", { type: "button", class: "sort",
    onclick: () => change({ sort: next, page: "" }) }, title, direction ? (direction === "ascending" ? " ↑" : " ↓") : ""));
}

function filterForm(name, query, hint) {
  let timer = 0;
  const input = h("input", { type: "search", id: `filter-${name}`, class: "filter", value: query, autocomplete: "off",
    spellcheck: "false", placeholder: hint, oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => change({ q: input.value.trim(), page: "" }, true), 120);
    } });
  return h("form", { class: "search", role: "search", onsubmit: (event) => event.preventDefault() },
    h("label", { for: `filter-${name}` }, "Filter"), input);
}

function pages(at, count) {
  if (count < 2) return "";
  const step = (label, to) => h("button", { type: "button", disabled: to < 0 || to >= count,
    onclick: () => change({ page: String(to + 1) }) }, label);
  return h("p", { class: "pages" }, step("Previous", at - 1), ` page ${at + 1} of ${count} `, step("Next", at + 1));
}
