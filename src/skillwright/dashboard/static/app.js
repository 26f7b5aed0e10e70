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
