// Elements, data and addresses. Text from models only ever becomes text nodes: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}

const decoded = new Map();

// Data is decoded when it is looked at, once.
function load(name) {
  if (!decoded.has(name)) decoded.set(name, inflate(name).then((text) => JSON.parse(text)));
  return decoded.get(name);
}

async function inflate(name) {
  const holder = document.getElementById("data-" + name);
  if (!holder) return "null";
  const bytes = Uint8Array.from(atob(holder.textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

// JSON has no infinity and no NaN: they travel as text.
function number(value) {
  if (typeof value === "number") return value;
  return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value] ?? null;
}

function multiple(value) {
  const found = number(value);
  if (found === null) return "";
  if (!Number.isFinite(found)) return "not rounding";
  return (found < 1000 ? String(Number(found.toPrecision(2))) : found.toExponential(1).replace(/e\+(\d)$/, "e+0$1")) + "x";
}

const many = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

// The whole state is the hash: #/findings?q=p:openvino&sort=-models
function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [section, ...rest] = path.split("/");
  const state = new URLSearchParams(query || "");
  return { section: section || "overview", id: decodeURIComponent(rest.join("/")), state };
}

function addressOf(section, state) {
  const query = new URLSearchParams([...Object.entries(state)].filter(([, value]) => value));
  const theme = address().state.get("theme");
  if (theme && !query.has("theme")) query.set("theme", theme);
  const text = query.toString();
  return `#/${section}${text ? "?" + text : ""}`;
}

// Changes a part of the state and leaves the rest; `silent` does not add to the browser's history.
function change(parts, silent) {
  const { section, id, state } = address();
  const next = { ...Object.fromEntries(state), ...parts };
  const to = addressOf(id ? `${section}/${encodeURIComponent(id)}` : section, next);
  if (silent) {
    history.replaceState(null, "", to);
    route();
  } else location.hash = to;
}

function quoted(key, value) {
  const shown = value.split('"').reduce((a, b) => (b.length > a.length ? b : a));
  return /\s/.test(shown) || shown === "" ? `${key}:"${shown}"` : `${key}:${shown}`;
}

// A name is as long as a model wants: what is cut stands in full where the mouse rests.
const LONGEST = 160;
const cut = (text, most = LONGEST) => (text.length > most ? h("span", { title: text }, text.slice(0, most - 1) + "…") : text);

function status(word, about) {
  return h("span", { class: `status t-${about.tones[word] || "open"}` },
    h("span", { class: "glyph", "aria-hidden": "true" }, about.glyphs[word] || ""), word);
}

// The caption of a table that may be wider than the screen stays where it is read.
const caption = (...said) => h("caption", {}, h("span", {}, ...said));

function copyButton(label, text) {
  const button = h("button", { type: "button", class: "copy", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const area = h("textarea", {}, text); // where a page from a file may not use the clipboard
      document.body.append(area);
      area.select();
      button.textContent = document.execCommand("copy") ? "Copied" : "Select and copy";
      area.remove();
    }
    setTimeout(() => (button.textContent = label), 1500);
  } }, label);
  return button;
}

function download(name, kind, text) {
  const link = h("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
