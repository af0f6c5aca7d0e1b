/* Groups of hosts by site or clique, each small enough for a readable matrix, and links summarised between groups.
   A grid of a thousand hosts is shown by group, then by the hosts of two groups. Pure. */

import { byName } from "../names.js";

export const MOST_HOSTS = 64;
export const MOST_GROUPS = 96;

/** Return groups `[{name, hosts}]`; a group larger than MOST_HOSTS is split into parts `east 1–64`. */
export function groupsOf(hosts, by) {
  const found = new Map();
  const put = (name, host) => (found.get(name) ?? found.set(name, []).get(name)).push(host.name);
  for (const host of hosts) {
    if (by === "site") put(host.site || "no site", host);
    else if (!host.cliques?.length) put("no clique", host);
    else host.cliques.forEach((clique) => put(clique, host));
  }
  const groups = [];
  for (const name of [...found.keys()].sort(byName)) {
    const members = found.get(name).sort(byName);
    if (members.length <= MOST_HOSTS) groups.push({ name, hosts: members });
    else {
      for (let i = 0; i < members.length; i += MOST_HOSTS) {
        const part = members.slice(i, i + MOST_HOSTS);
        groups.push({ name: `${name} ${i + 1}–${i + part.length}`, hosts: part });
      }
    }
  }
  return groups;
}

/**
 * Return the hosts of one axis: all if they fit and no group is selected, one group's hosts, or null for "by
 * groups". Hosts are ordered by group, each host once; `edges`: the first host of each group.
 */
export function axisOf(groups, chosen, hosts) {
  const group = groups.find((one) => one.name === chosen);
  if (group) return { ...group, edges: new Set() };
  if (hosts.length > MOST_HOSTS) return null;
  const all = new Set();
  const edges = new Set();
  for (const one of groups) {
    const fresh = one.hosts.filter((name) => !all.has(name));
    if (fresh.length && all.size) edges.add(fresh[0]);
    fresh.forEach((name) => all.add(name));
  }
  return { name: "", hosts: [...all], edges };
}

/**
 * Return links summarised by pair of groups: Map `"A>B"` → `{from, to, values, worst, median, links,
 * measured_at}`.
 */
export function summarise(groups, links, measure) {
  const member = new Map();
  for (const group of groups) {
    for (const host of group.hosts) (member.get(host) ?? member.set(host, []).get(host)).push(group.name);
  }
  const cells = new Map();
  for (const link of links.values()) {
    const value = measure.of(link, links);
    if (value === null || link.from === link.to) continue;
    for (const from of member.get(link.from) ?? []) {
      for (const to of member.get(link.to) ?? []) {
        const key = `${from}>${to}`;
        if (!cells.has(key))
          cells.set(key, { key, from, to, values: [], newest: -Infinity, measured_at: Infinity });
        const cell = cells.get(key);
        cell.values.push(value);
        cell.newest = Math.max(cell.newest, link.measured_at);
        cell.measured_at = Math.min(cell.measured_at, link.measured_at);
      }
    }
  }
  for (const cell of cells.values()) {
    cell.values.sort((a, b) => (measure.higherIsWorse ? a - b : b - a));
    cell.worst = cell.values.at(-1);
    cell.median = cell.values[Math.floor((cell.values.length - 1) / 2)];
  }
  return cells;
}
