/* Names of series, split into host, peer and resource, with plain words for each resource. */

const LABELS = {
  "cpu.new": "CPU for a new process",
  "cpu.running": "CPU for a running process",
  "cpu.capacity": "CPUs for new processes together",
  "cpu.limit": "CPU quota",
  "memory.free": "Free memory",
  "network.latency": "Latency",
  "network.bandwidth": "Bandwidth",
  "network.loss": "Packet loss",
};
const RESOURCES = Object.keys(LABELS);

/** Return `{resource, host, peer}` of a series name; `peer` is null for a series of one host. */
export function parseSeries(name) {
  const at = name.indexOf("@");
  if (at < 0) return { resource: name, host: "", peer: null };
  const place = name.slice(at + 1);
  const arrow = place.indexOf(">");
  if (arrow < 0) return { resource: name.slice(0, at), host: place, peer: null };
  return { resource: name.slice(0, at), host: place.slice(0, arrow), peer: place.slice(arrow + 1) };
}

/** Return the resource in plain words; external ones keep their name. */
export const label = (resource) => LABELS[resource] ?? resource;

/** Return a series as one line of text: `Latency alpha → beta`. */
export function title(name) {
  const { resource, host, peer } = parseSeries(name);
  return `${label(resource)} ${peer === null ? `on ${host}` : `${host} → ${peer}`}`;
}

/** Order of resources: ours first, then external ones by name. */
export function byResource(a, b) {
  const place = (resource) => (RESOURCES.includes(resource) ? RESOURCES.indexOf(resource) : RESOURCES.length);
  return place(a) - place(b) || (a < b ? -1 : a > b ? 1 : 0);
}

const collator = new Intl.Collator("en", { numeric: true });

/** Order of hosts and sites: node2 before node10. */
export const byName = (a, b) => collator.compare(a, b);
