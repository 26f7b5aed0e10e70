// Keys on an episode's page: j and k move between turns, n and p between episodes, / searches.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const go = (rel) => document.querySelector(`a[rel=${rel}]`)?.click();
  const turns = [...document.querySelectorAll(".turn")];
  const at = turns.indexOf(document.activeElement.closest(".turn"));
  const show = (turn) => { turn?.focus(); turn?.scrollIntoView({ block: "start" }); };
  if (event.key === "j") show(turns[at + 1]);
  else if (event.key === "k") show(turns[Math.max(at - 1, 0)]);
  else if (event.key === "n") go("next");
  else if (event.key === "p") go("prev");
  else if (event.key === "/") { event.preventDefault(); document.querySelector("input[type=search]")?.focus(); }
});

// Tables: rows are filtered while typing, sorted by a click on a heading, and saved as CSV.
// A table that the server pages ([data-paged]) is filtered, sorted and saved by the server.
const shown = (cell) => cell.innerText.trim().replace(/\s+/g, " ");
const value = (row, at) => {
  const text = shown(row.cells[at]);
  const number = Number.parseFloat(text.replace(/[,$%★]/g, ""));
  return /^[-+$.]?\d/.test(text) && !Number.isNaN(number) ? number : text;
};
const compared = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
  : String(a).localeCompare(String(b), undefined, { numeric: true }));

function sortBy(table, heading, at) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => !row.classList.contains("total"));
  rows.sort((a, b) => compared(value(a, at), value(b, at)) * (down ? -1 : 1));
  body.prepend(...rows);
  for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
}

function save(table, name) {
  const cell = (text) => {
    // A spreadsheet would run a text that begins like a formula.
    const safe = /^[=+@\t\r-]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
    return `"${safe.replaceAll('"', '""')}"`;
  };
  const lines = [...table.rows].filter((row) => !row.hidden)
    .map((row) => [...row.cells].map((one) => cell(shown(one))).join(","));
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([lines.join("\r\n") + "\r\n"], { type: "text/csv" }));
  link.download = `${name.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// On a narrow screen a row is a list of these names and its values.
function label(table) {
  if (table.matches(".heat, .blame") || !table.tHead) return;
  const titles = [...table.tHead.rows[0].cells].map(shown);
  for (const row of table.tBodies[0].rows) {
    if (row.cells.length !== titles.length) continue;
    [...row.cells].forEach((cell, at) => { cell.dataset.label = titles[at]; });
  }
}

function equip(region) {
  const table = region.querySelector("table");
  if (!table) return;
  if (table.dataset.paged !== undefined) label(table);
  if (region.dataset.equipped || table.dataset.paged !== undefined) return;
  region.dataset.equipped = "yes";
  label(table);
  const name = region.getAttribute("aria-label") || "table";
  const bar = document.createElement("p");
  bar.className = "tools";
  if (table.tBodies[0].rows.length > 5) {
    const input = document.createElement("input");
    input.type = "search";
    input.placeholder = "filter";
    input.setAttribute("aria-label", `filter ${name}`);
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of table.tBodies[0].rows) row.hidden = !shown(row).toLowerCase().includes(wanted);
    });
    bar.append(input, " ");
  }
  const button = document.createElement("button");
  button.type = "button";
  button.className = "plain";
  button.textContent = "CSV";
  button.setAttribute("aria-label", `save ${name} as CSV`);
  button.addEventListener("click", () => save(table, `${document.title.split(" - ")[0]} ${name}`));
  bar.append(button);
  region.before(bar);
  const plain = [...table.tBodies[0].rows].every((row) => row.cells.length === table.tHead.rows[0].cells.length);
  if (!plain || table.tBodies[0].rows.length < 2) return;
  [...table.tHead.rows[0].cells].forEach((heading, at) => {
    if (!shown(heading) || heading.querySelector(".sr")) return;
    const sorter = document.createElement("button");
    sorter.type = "button";
    sorter.className = "sorter";
    sorter.append(...heading.childNodes);
    sorter.addEventListener("click", () => sortBy(table, heading, at));
    heading.append(sorter);
  });
}

// "Compare" waits until two runs are ticked; a third tick takes the place of the first.
function tick(form) {
  const button = form.querySelector("[data-ticks]");
  const boxes = () => [...form.querySelectorAll("input[type=checkbox]:checked")];
  const order = boxes();
  const update = () => { button.disabled = boxes().length !== 2; };
  form.addEventListener("change", (event) => {
    if (event.target.checked) order.push(event.target);
    else order.splice(order.indexOf(event.target), 1);
    if (order.length > 2) order.shift().checked = false;
    update();
  });
  update();
}

const equipAll = () => document.querySelectorAll(".scroll").forEach(equip);
document.addEventListener("DOMContentLoaded", () => {
  equipAll();
  document.querySelectorAll("form.ticks").forEach(tick);
});
document.addEventListener("htmx:afterSettle", equipAll);
