// Folding, sorting, filtering and values of marks. The page can be read without it.
"use strict";
(() => {
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, settings) => Object.assign(document.createElement(tag), settings);

  // A link to a section opens it, and all that it is folded in.
  function unfold(id) {
    const target = document.getElementById(id);
    for (let place = target; place; place = place.parentElement)
      if (place.tagName === "DETAILS") place.open = true;
    return target;
  }
  function reveal(id) {
    const target = unfold(id);
    if (target) target.scrollIntoView();
  }
  const fragment = () => decodeURIComponent(location.hash.slice(1));
  addEventListener("hashchange", () => reveal(fragment()));
  document.addEventListener("click", event => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    const menu = link.closest(".menu");
    if (menu) menu.open = false;
    unfold(link.getAttribute("href").slice(1));
  });
  reveal(fragment());

  const tools = document.querySelector(".tools");
  tools.hidden = false;
  tools.addEventListener("click", event => {
    const fold = event.target.dataset.fold;
    if (fold) for (const each of all("details.section")) each.open = fold === "open";
  });
  addEventListener("beforeprint", () => { for (const each of all("details.section")) each.open = true; });

  // The menu shows where the reader is.
  const entries = new Map(all(".side > ul > li").map(
    entry => [entry.querySelector("a").getAttribute("href").slice(1), entry]));
  const up = document.querySelector(".up");
  let waiting = false;
  function follow() {
    waiting = false;
    up.classList.toggle("hidden", scrollY < innerHeight / 2);
    let current = "findings";
    for (const id of entries.keys())
      if (scrollY > 0 && document.getElementById(id).getBoundingClientRect().top < 160) current = id;
    for (const [id, entry] of entries) entry.classList.toggle("current", id === current);
  }
  const soon = () => { if (!waiting) { waiting = true; requestAnimationFrame(follow); } };
  for (const event of ["scroll", "resize"]) addEventListener(event, soon, { passive: true });
  document.addEventListener("toggle", soon, true);
  follow();

  // Tables: sort by a click on a header, filter long ones, say where one scrolls.
  function value(cell) {
    const text = cell.textContent.replace(/,/g, "").replace(/\u2212/g, "-").replace(/\u2007/g, "")
      .replace(/\u221e/, "Infinity").replace("\u00d710", "e");
    const number = parseFloat(text);
    return Number.isNaN(number) || /^[^\d+.\-I]/.test(text.trim()) ? null : number;
  }
  function compare(first, second, column) {
    const [a, b] = [first.cells[column], second.cells[column]];
    const [x, y] = [value(a), value(b)];
    if (x !== null && y !== null) return x - y;
    if ((x === null) !== (y === null)) return x === null ? 1 : -1;
    return a.textContent.localeCompare(b.textContent);
  }
  function sort(table, column) {
    const header = table.tHead.rows[0].cells[column];
    const down = header.getAttribute("aria-sort") === "ascending";
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    const empty = row => row.cells[column].textContent === "\u2013";
    rows.sort((a, b) => empty(a) - empty(b) || (down ? -1 : 1) * compare(a, b, column));
    table.tBodies[0].append(...rows);
  }
  function addSorting(table) {
    [...table.tHead.rows[0].cells].forEach((header, column) => {
      const button = make("button", { type: "button", title: "Sort by this column" });
      button.append(...header.childNodes);
      button.addEventListener("click", () => sort(table, column));
      header.append(button);
    });
  }
  function addFilter(table, box) {
    const rows = [...table.tBodies[0].rows];
    const input = make("input", { type: "search", placeholder: "Filter rows" });
    input.setAttribute("aria-label", "Filter rows");
    const count = make("span", { className: "soft", textContent: "click a header to sort" });
    const help = count.textContent;
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
      const left = rows.filter(row => !row.hidden).length;
      count.textContent = words.length ? `${left} of ${rows.length} rows` : help;
    });
    const line = make("div", { className: "filter" });
    line.append(input, count);
    box.before(line);
  }
  const sizes = new ResizeObserver(changes => {
    for (const { target } of changes) {
      const box = target.closest(".scroll");
      box.previousElementSibling.classList.toggle("needed", box.scrollWidth > box.clientWidth + 1);
    }
  });
  for (const box of all(".scroll")) {
    const table = box.querySelector("table");
    if (table.tBodies[0].rows.length > 2) addSorting(table);
    if (table.classList.contains("long")) addFilter(table, box);
    box.before(make("p", { className: "hint", textContent: "scroll \u2192" }));
    sizes.observe(box);
    sizes.observe(table);
  }

  // Values of marks, without the wait for the browser's own.
  const tip = make("div", { id: "tip", hidden: true });
  document.body.append(tip);
  let shown = null;
  function show(mark) {
    if (shown) shown.classList.remove("shown");
    shown = mark;
    tip.hidden = !mark;
    if (!mark) return;
    mark.classList.add("shown");
    tip.textContent = mark.dataset.text;
    const place = mark.getBoundingClientRect();
    const left = Math.min(place.right + 6, innerWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left) + scrollX}px`;
    tip.style.top = `${Math.max(8, place.top - tip.offsetHeight - 6) + scrollY}px`;
  }
  for (const mark of all(".marks circle")) {
    mark.dataset.text = mark.querySelector("title").textContent;
    mark.querySelector("title").remove();
  }
  const marked = event => show(event.target.closest ? event.target.closest(".marks circle") : null);
  document.addEventListener("pointerover", marked);
  document.addEventListener("pointerdown", marked);
})();
