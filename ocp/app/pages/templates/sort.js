"use strict";
// A click on a heading sorts the table by that column, another click the other way; cells without a value come last.
for (const heading of document.querySelectorAll("table.sortable th")) {
  heading.tabIndex = 0;
  heading.setAttribute("role", "button");
  const sort = () => {
    const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.key, text = row => row.cells[column].textContent;
    const compare = (a, b) => {
      const x = key(a), y = key(b);
      if (x !== "" && y !== "") return Number(x) - Number(y);
      if (x !== y) return x === "" ? 1 : -1;
      return text(a).localeCompare(text(b));
    };
    const rows = Array.from(body.rows);
    const valued = rows.filter(row => key(row) !== "" || text(row) !== "—"), empty = rows.filter(row => !valued.includes(row));
    valued.sort((a, b) => (down ? -1 : 1) * compare(a, b));
    body.append(...valued, ...empty);
  };
  heading.addEventListener("click", sort);
  heading.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(); } });
}
