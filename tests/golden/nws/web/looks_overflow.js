() => {
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  return [...document.querySelectorAll("body *")]
    .filter((n) => n.checkVisibility() && n.getBoundingClientRect().right > wide + 1)
    .map((n) => n.outerHTML.slice(0, 100));
}