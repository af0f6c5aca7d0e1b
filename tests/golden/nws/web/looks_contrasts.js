() => {
  const rgb = (text) => (text.match(/[\d.]+/g) ?? []).map(Number);
  const part = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility()) continue;
    if (node.closest(".unseen, option, .skip, noscript")) continue;
    const style = getComputedStyle(node);
    if (parseFloat(style.fontSize) === 0) continue;
    let ground = node;
    while (ground && (rgb(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const on = ground ? getComputedStyle(ground).backgroundColor : "rgb(255, 255, 255)";
    const [a, b] = [light(rgb(style.color)), light(rgb(on))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) bad.push([walker.currentNode.textContent.trim().slice(0, 40), style.color, on, ratio.toFixed(2)]);
  }
  return bad;
}