// The page of one finding or gate, and charts.

const MONO = new Set(["source", "signature", "next"]);
const LONGEST_SENTENCE = 800;

async function findingSection(about, id) {
  const at = about.ids.indexOf(id);
  const [section, called] = about.sections.includes("gates") ? ["gates", "Gates"] : ["findings", "Findings"];
  if (at < 0) return [h("h1", {}, "No such finding"), h("p", {}, `There is no page for ${id}. `, h("a", { href: `#/${section}` }, `All ${section}`))];
  const found = (await load(`details-${Math.floor(at / about.chunk)}`))[at % about.chunk];
  const step = (label, to) => (about.ids[to] ? h("a", { href: addressOf(`finding/${about.ids[to]}`, {}) }, label) : "");
  const word = found.word || (found.category === "failure" ? "failed" : found.category === "unstable" ? "unstable" : found.category === "hazard" ? "hazard" : "diverges");
  const parts = [
    h("p", { class: "crumbs" }, h("a", { href: addressOf(section, {}) }, called), " ", step("previous", at - 1), " ", step("next", at + 1)),
    h("p", { class: "kind" }, found.id, " ", status(word, about), found.known ? h("span", { class: "known" }, ` known: ${found.known}`) : ""),
    h("h1", {}, found.head),
    h("p", { class: "sentence" }, cut(found.sentence, LONGEST_SENTENCE)),
    found.sentence.length > LONGEST_SENTENCE ? h("details", {}, h("summary", {}, "All of it"), h("pre", { class: "code" }, found.sentence)) : "",
    h("dl", { class: "facts" }, found.facts.map(([label, lines]) => h("div", {}, h("dt", {}, label), h("dd", { class: label === "where" && lines.length > 1 ? "mono lines" : MONO.has(label) ? "mono" : null }, lines.map((line) => h("div", {}, line)))))),
  ];
  if (found.trace && found.trace.filter((step) => number(step[4]) !== null || number(step[5]) !== null).length > 1) parts.push(traceFigure(found, about.allowed));
  if (found.svg) {
    const whole = found.slice.length === found.nodes;
    parts.push(h("h2", {}, whole ? "The program" : "Around the operator"),
      h("p", { class: "quiet" }, whole ? `All ${many(found.nodes, "operator")}.` : `${found.slice.length} of ${many(found.nodes, "operator")}; dashed ends lead to the rest.`),
      centred(h("div", { class: "scroll picture" }, picture(found.svg))),
      h("details", {}, h("summary", {}, "As text"), h("pre", {}, found.slice.join("\n"))));
  }
  if (found.elements && found.elements.length) parts.push(elementsTable(found));
  const list = (title, items) => (items && items.length ? parts.push(h("h2", {}, title), h("ul", { class: "plain" }, items.map((item) => h("li", {}, item)))) : 0);
  list("Experiments behind the cause", found.experiments);
  list("What makes it vanish", found.vanishes);
  if (found.rungs && found.rungs.length) {
    parts.push(h("h2", {}, "Layer by layer"), h("div", { class: "scroll" }, h("table", {}, caption("What was run, and what became of it"),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "layer"), h("th", { scope: "col" }, "result"))),
      h("tbody", {}, found.rungs.map(([name, result]) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, result)))))));
  }
  for (const [key, title] of [["script", "Reproducer"], ["issue", "Issue text"]]) {
    if (found[`${key}_at`]) parts.push(h("h2", {}, title), h("p", {}, "Too long for this page: ", h("code", {}, found[`${key}_at`]), " in the folder of the campaign."));
    if (found[key]) parts.push(h("div", { class: "with-copy" }, h("h2", {}, title), copyButton("Copy", found[key])), h("pre", { class: "code", tabindex: "0" }, found[key]));
  }
  if (found.said) parts.push(h("h2", {}, "What the script printed"), h("pre", {}, found.said));
  if (found.log) parts.push(h("h2", {}, "Last lines of the log"), h("pre", {}, found.log));
  if (found.evidence && found.evidence.length) parts.push(evidenceTable(found));
  return parts;
}

function elementsTable(found) {
  const titles = ["element", found.platform || "platform", "eager", "float64", "error / rounding"];
  return h("div", {}, h("h2", {}, "Worst elements"), h("div", { class: "scroll" }, h("table", { class: "values" },
    caption(found.elements_of ? `Of ${found.elements_of}, the worst first` : "The worst first"),
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, found.elements.map(([place, ...values]) => h("tr", {}, h("th", { scope: "row", class: "mono" }, place),
      values.map((value, n) => h("td", { class: "mono" }, n === 3 ? multiple(value) : String(value ?? "")))))))));
}

function evidenceTable(found) {
  const titles = ["program", "name", "kind", "operators", "platform", "error / rounding", "in words"];
  const more = found.evidence_total > found.evidence.length ? `, the first ${found.evidence.length} of ${found.evidence_total}` : "";
  const filled = (n) => found.evidence.some((row) => (row[n] ?? "") !== "");
  return h("div", {}, h("h2", {}, "Where it was seen"), h("div", { class: "scroll" }, h("table", {}, caption(`The smallest first${more}`),
    h("thead", {}, h("tr", {}, titles.map((title, n) => (filled(n) ? h("th", { scope: "col" }, title) : "")))),
    h("tbody", {}, found.evidence.map((row) => h("tr", {}, row.map((value, n) => !filled(n) ? "" : h("td", {},
      n === 0 ? h("a", { href: addressOf("runs", { q: `id:${value}` }) }, `#${value}`)
        : n === 5 ? multiple(value) : n === 6 ? h("span", { class: "clip", title: value }, String(value ?? "")) : cut(String(value ?? ""))))))))));
}

// Where a drawing is wider than the screen, the operator at fault is what is seen first.
function centred(holder) {
  requestAnimationFrame(() => {
    const box = holder.querySelector(".g-culprit");
    if (!box) return;
    const [at, around] = [box.getBoundingClientRect(), holder.getBoundingClientRect()];
    holder.scrollLeft += at.left + at.width / 2 - around.left - around.width / 2;
  });
  return holder;
}

// A drawing was made and escaped by mindgap; only shapes and text of it are taken over.
function picture(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  const allowed = new Set(["svg", "g", "path", "rect", "text", "title"]);
  const kept = new Set(["class", "d", "x", "y", "width", "height", "rx", "viewBox", "role"]);
  const copy = (node) => {
    if (!allowed.has(node.localName)) return "";
    const made = document.createElementNS(SVG, node.localName);
    for (const { name, value } of node.attributes) if (kept.has(name)) made.setAttribute(name, value);
    for (const child of node.childNodes) made.append(child.nodeType === Node.TEXT_NODE ? child.data : child.nodeType === Node.ELEMENT_NODE ? copy(child) : "");
    return made;
  };
  return copy(parsed);
}

const FLOOR = 1e-3; // a logarithm has no zero: what is smaller stands on this line
const CEILING = 1e12;

function traceFigure(found, allowed) {
  const steps = [];
  for (const [index, op, where, dtype, own, total, fault, , line] of found.trace) {
    const named = `${index}. ${op} ${dtype}${where ? " in " + where : ""}${line ? ", " + line : ""}`;
    const add = (value, what) => {
      const size = number(value);
      if (size === null || Number.isNaN(size)) return;
      const culprit = what === "its own" && fault;
      steps.push({ index, what, error: Math.min(CEILING, Math.max(FLOOR, size)), shape: culprit ? "diamond" : "circle",
        size: culprit ? 130 : what === "its own" && size ? 42 : 12, said: `${named}: ${what} ${multiple(size) || "0"}` });
    };
    add(total, "of the whole so far");
    add(own, "its own");
  }
  const holder = h("div", { class: "chart", role: "img", "aria-label": `Error along the data flow of ${found.id}: ${traceText(found)}` });
  const part = found.trace_total > found.trace.length ? `${found.trace.length} of ${found.trace_total} operators around the culprit. ` : "";
  const inherited = steps.some(({ what }) => what !== "its own");
  const layer = (item) => inherited || item.mark.type !== "line"; // an empty line has no extent
  const top = Math.ceil(Math.log10(Math.max(allowed, ...steps.map(({ error }) => error))));
  const decades = [...Array(top + 4)].map((_, n) => n - 3).filter((n) => top < 8 || n % 3 === 0).map((n) => 10 ** n);
  const tinted = (item) => {
    if (inherited || !item.encoding.color) return item;
    return { ...item, encoding: { ...item.encoding, color: { ...item.encoding.color, scale: { domain: ["its own"], range: ["var(--accent)"] } } } };
  };
  drawn(holder, "trace", (spec) => ({ ...spec, params: [{ name: "decades", value: decades }], datasets: { ...spec.datasets, steps }, layer: spec.layer.filter(layer).map(tinted) }));
  const rows = found.trace.filter(([, , , , own, total, fault, inherits]) => fault || inherits || (number(own) ?? 0) > 1).slice(0, 12);
  return h("figure", { class: "figure" }, h("h2", {}, "Where the error comes from"),
    h("p", { class: "quiet" }, `${part}Error in multiples of what rounding is expected to cause, log scale: 1 is as expected, more than ${allowed} is no rounding. A diamond is wrong alone; what is exact stands on the lowest line.`), holder,
    h("details", {}, h("summary", {}, "Numbers"), h("div", { class: "scroll" }, h("table", {}, caption("Operators that are wrong, inherit an error, or are farther off than one rounding"),
      h("thead", {}, h("tr", {}, ["", "operator", "module", "source", "its own", "of the whole so far"].map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map(([index, op, where, , own, total, , , line]) => h("tr", {}, h("td", { class: "num" }, String(index)), h("td", {}, op), h("td", {}, where), h("td", {}, line || ""), h("td", {}, multiple(own)), h("td", {}, multiple(total)))))))));
}

function traceText(found) {
  const culprit = found.trace.find((step) => step[6]);
  return culprit ? `operator ${culprit[0]}, ${culprit[1]}, adds ${multiple(culprit[4]) || "an error"}` : "no operator is wrong alone";
}

let library = null;

// The charting library is decoded when the first chart is seen; the page's policy names it by its hash.
function charting() {
  library ??= inflate("charts").then((code) => {
    document.head.append(h("script", {}, code));
    return window.vegaEmbed;
  });
  return library;
}

async function drawn(holder, name, fill) {
  const [spec, embed] = await Promise.all([load("specs").then((specs) => specs[name]), charting()]);
  await new Promise((done) => requestAnimationFrame(done)); // a chart is as wide as its holder, which must be there
  const tip = document.getElementById("tip") || document.body.appendChild(h("div", { id: "tip", hidden: true }));
  // The handler is given before the first drawing: setting it later empties the picture.
  const tooltip = (_, event, item, value) => {
    tip.hidden = !value;
    tip.textContent = value ? (typeof value === "object" ? Object.values(value).join(" ") : String(value)) : "";
    if (value) {
      tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 12))}px`;
      tip.style.top = `${event.clientY + 16}px`;
    }
  };
  await embed(holder, fill ? fill(spec) : spec, { mode: "vega-lite", renderer: "svg", ast: true, actions: false, defaultStyle: false, tooltip });
  for (let frame = 0; frame < 100 && !holder.querySelector("svg path, svg line"); frame++) await new Promise((done) => requestAnimationFrame(done));
  holder.dataset.drawn = "1";
}
