// Time zones by name: those of the United States first, then all that the browser knows.

const OF_UNITED_STATES = [
  ["America/New_York", "Eastern time (New York)"],
  ["America/Chicago", "Central time (Chicago)"],
  ["America/Denver", "Mountain time (Denver)"],
  ["America/Phoenix", "Mountain time without daylight saving (Phoenix)"],
  ["America/Los_Angeles", "Pacific time (Los Angeles)"],
  ["America/Anchorage", "Alaska time (Anchorage)"],
  ["America/Adak", "Hawaii–Aleutian time (Adak)"],
  ["Pacific/Honolulu", "Hawaii time (Honolulu)"],
  ["America/Puerto_Rico", "Atlantic time (Puerto Rico)"],
  ["Pacific/Guam", "Chamorro time (Guam)"],
  ["Pacific/Pago_Pago", "Samoa time (Pago Pago)"],
];

/** Returns groups of zones: a title, and pairs of an identifier and a name. */
export function zones() {
  const known = Intl.supportedValuesOf?.("timeZone") ?? [];
  const first = new Set(OF_UNITED_STATES.map(([id]) => id));
  const others = known.filter((id) => !first.has(id)).map((id) => [id, id.replaceAll("_", " ")]);
  return [
    ["United States", OF_UNITED_STATES],
    ["All other zones", [...others, ["UTC", "UTC"]]],
  ].map(([title, entries]) => [title, [...new Map(entries)]]);
}

/** Returns the name of a zone. */
export function zoneName(id) {
  const name = new Map(OF_UNITED_STATES).get(id);
  return name ? `${name}, ${id}` : id;
}
