() => {
  const problems = [];
  for (const node of document.querySelectorAll("a, button, input, select, summary, [tabindex='0'], [role=img]")) {
    if (!node.checkVisibility()) continue;
    const name = node.getAttribute("aria-label") || node.labels?.[0]?.textContent || node.textContent;
    if (!name.trim()) problems.push(node.outerHTML.slice(0, 120));
    const lost = node.tagName === "A" && !node.getAttribute("href");
    if (lost) problems.push("no address: " + node.outerHTML.slice(0, 120));
  }
  const ids = [...document.querySelectorAll("[id]")].map((n) => n.id);
  problems.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
  for (const label of document.querySelectorAll("label[for]")) {
    if (!document.getElementById(label.htmlFor)) problems.push("label of nothing: " + label.htmlFor);
  }
  if (document.querySelectorAll("h1").length !== 1) problems.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) problems.push("not one main");
  return problems;
}