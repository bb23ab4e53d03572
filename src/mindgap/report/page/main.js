// Routes, keys, the theme, and following a campaign that runs.

const SECTIONS = {
  consistency: consistencySection, operators: operatorsSection, findings: findingsSection, runs: runsSection,
  changes: changesSection, gates: gatesSection, finding: findingSection,
};
const KEPT = "mindgap-scrolled";
const LIVE = document.documentElement.dataset.live !== "0"; // only there: a page in a frame may have no storage
const place = { section: "", row: -1, kept: LIVE ? Number(sessionStorage.getItem(KEPT) || 0) : 0 };
if (LIVE) sessionStorage.removeItem(KEPT);
let turn = 0;

async function route() {
  const now = ++turn;
  const { section, id, state } = address();
  const about = await load("about");
  dress(state.get("theme"));
  const name = document.getElementById(`s-${section}`) ? section : "overview";
  if (SECTIONS[name]) {
    const parts = await SECTIONS[name](about, id);
    if (now !== turn) return; // somebody went on
    const holder = document.getElementById(`s-${name}`);
    const typing = holder.contains(document.activeElement) ? document.activeElement : null;
    const [field, from, to] = typing && typing.matches("input") ? [typing.id, typing.selectionStart, typing.selectionEnd] : [""];
    holder.replaceChildren(...parts.filter((part) => part !== ""));
    const again = field && document.getElementById(field);
    if (again) {
      again.focus();
      again.setSelectionRange(from, to);
    }
  }
  for (const element of document.querySelectorAll("main > section")) element.hidden = element.dataset.section !== name;
  for (const link of document.querySelectorAll("nav a")) {
    const here = link.dataset.section === name || (name === "finding" && ["findings", "gates"].includes(link.dataset.section));
    here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    link.setAttribute("href", addressOf(link.dataset.section, {}));
  }
  if (place.section !== name + id) {
    Object.assign(place, { section: name + id, row: -1 });
    scrollTo(0, place.kept);
    place.kept = 0;
  }
  if (name === "overview") charts();
  document.documentElement.dataset.ready = location.hash || "#";
}

function charts() {
  for (const holder of document.querySelectorAll("[data-chart]:not([data-drawn])")) {
    holder.dataset.drawn = "0";
    holder.closest("figure").querySelector("details").open = false;
    drawn(holder, holder.dataset.chart).catch((error) => {
      holder.textContent = `The chart could not be drawn: ${error.message}`;
      holder.closest("figure").querySelector("details").open = true;
    });
  }
}

function dress(theme) {
  const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.hidden = false;
  button.textContent = dark ? "Light" : "Dark";
}

document.getElementById("theme").addEventListener("click", () => {
  change({ theme: document.documentElement.dataset.theme === "dark" ? "light" : "dark" });
});

function rows() {
  const section = [...document.querySelectorAll("main > section")].find((element) => !element.hidden);
  return section ? [...section.querySelectorAll("tbody tr[tabindex], ol.first a")] : [];
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = [...document.querySelectorAll("main > section:not([hidden]) input[type=search]")].pop();
    if (field) field.focus();
    else location.hash = addressOf(document.getElementById("s-findings") ? "findings" : "runs", {});
    event.preventDefault();
  } else if (event.key === "j" || event.key === "k") {
    const found = rows();
    place.row = Math.max(0, Math.min(found.length - 1, place.row + (event.key === "j" ? 1 : -1)));
    if (found[place.row]) found[place.row].focus();
  } else if (event.key === "Enter" && event.target.dataset.to) {
    location.hash = event.target.dataset.to;
  }
});

addEventListener("hashchange", route);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => route());
addEventListener("beforeprint", () => document.querySelectorAll("details.numbers").forEach((element) => (element.open = true)));

if (LIVE) {
  const told = document.getElementById("live");
  const at = new Date().toLocaleTimeString();
  const tell = (said) => told.textContent !== said && (told.textContent = said);
  const busy = () => document.activeElement.matches("input, select") || String(getSelection());
  const seen = document.documentElement.dataset.live; // the server says what this page is made of
  let asking = false; // a large page takes its time: nobody asks twice at once
  tell(`live, as of ${at}`);
  setInterval(async () => {
    if (asking) return;
    asking = true;
    try {
      const answer = await fetch("stamp", { cache: "no-store" });
      if (!answer.ok) return tell(`as of ${at}: it cannot be read now`);
      const stamp = await answer.text();
      if (stamp === seen) return tell(`live, as of ${at}`);
      if (busy()) return tell(`as of ${at}: there is more`); // nobody loses what they type or select
      sessionStorage.setItem(KEPT, String(scrollY));
      location.reload();
    } catch {
      tell(`as of ${at}: no longer followed`); // the server has ended: what is here stays
    } finally {
      asking = false;
    }
  }, 3000);
}

route();
