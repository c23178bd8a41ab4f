// The time zone of a place in the United States. Source: 49 CFR part 71, for the states and for the counties
// of a second zone; the ZIP codes of those counties are of the USPS.

const [EASTERN, CENTRAL, MOUNTAIN, PACIFIC] = [
  "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles",
];

/** The states of one zone. */
const STATES = [
  [EASTERN, "CT DC DE FL GA IN KY MA MD ME MI NC NH NJ NY OH PA RI SC VA VT WV"],
  [CENTRAL, "AL AR IA IL KS LA MN MO MS ND NE OK SD TN TX WI"],
  [MOUNTAIN, "CO ID MT NM UT WY"],
  ["America/Phoenix", "AZ"],
  [PACIFIC, "CA NV OR WA"],
  ["America/Anchorage", "AK"],
  ["Pacific/Honolulu", "HI"],
  ["America/Puerto_Rico", "PR VI"],
  ["Pacific/Guam", "GU MP"],
  ["Pacific/Pago_Pago", "AS"],
];

/** The states with a second zone, and how the ZIP codes in it begin. A few places at its edge are not here. */
const SECOND = {
  AK: ["America/Adak", "99546 99547"],
  AZ: [MOUNTAIN, "865"],
  FL: [CENTRAL, "324 325"],
  ID: [PACIFIC, "835 838"],
  IN: [CENTRAL, "463 464 476 477"],
  KS: [MOUNTAIN, "67733 67735 67741 67758 67761 67762 67836 67857 67878 67879"],
  KY: [CENTRAL, "420 421 422 423 424"],
  MI: [CENTRAL, "49801 49802 49858 49870 49887 49911 49915 49920 49935 49938 49968"],
  ND: [MOUNTAIN, "586"],
  NE: [MOUNTAIN, "69033 69153 693"],
  NV: [MOUNTAIN, "89883"],
  OR: [MOUNTAIN, "979"],
  SD: [MOUNTAIN, "577"],
  TN: [EASTERN, "373 374 376 377 378 379"],
  TX: [MOUNTAIN, "798 799 885"],
};

/** The states in which ZIP codes begin with a digit. Source: USPS, the areas of its sectional centers. */
const FIRST_DIGITS = [
  "CT MA ME NH NJ NY PR RI VI VT", "DE NY PA", "DC MD NC SC VA WV", "AL FL GA MS TN", "IN KY MI OH",
  "DC IA MN MT ND SD WI", "IL KS MO NE", "AR LA OK TX", "AZ CO ID NM NV TX UT WY", "AK AS CA GU HI MP OR WA",
].map((states) => states.split(" "));

/** Returns whether a ZIP code may be in a state, as far as its first digit says; of what is no state, it says nothing. */
export function isInState(state, zipCode) {
  const isKnown = STATES.some(([, states]) => states.split(" ").includes(state));
  return !isKnown || !/^\d/.test(zipCode) || FIRST_DIGITS[zipCode[0]].includes(state);
}

/** Returns the zone of a place, and the other zone of its state if it has two; `null` if there is no such state. */
export function zoneOf(state, zipCode) {
  const [first] = STATES.find(([, states]) => states.split(" ").includes(state)) ?? [];
  if (!first) return null;
  const [second = null, beginnings = ""] = SECOND[state] ?? [];
  const isSecond = second && beginnings.split(" ").some((it) => zipCode.startsWith(it));
  return isSecond ? { zone: second, other: first } : { zone: first, other: second };
}
