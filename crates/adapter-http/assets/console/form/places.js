// The time zone of a place in the United States. Source: 49 CFR part 71.

import { ZIP_CODES } from "../shared/zip_codes.js";

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

/** The second zones of states. */
const SECOND = {
  AK: "America/Adak", AZ: MOUNTAIN, FL: CENTRAL, ID: PACIFIC, IN: CENTRAL, KS: MOUNTAIN, KY: CENTRAL, MI: CENTRAL,
  ND: MOUNTAIN, NE: MOUNTAIN, NV: MOUNTAIN, OR: MOUNTAIN, SD: MOUNTAIN, TN: EASTERN, TX: MOUNTAIN,
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

/**
 * Returns the zone of a place, the other zone of its state if it has two, and whether the ZIP code decides which;
 * `null` if there is no such state.
 */
export function zoneOf(state, zipCode) {
  const [first] = STATES.find(([, states]) => states.split(" ").includes(state)) ?? [];
  if (!first) return null;
  const second = SECOND[state];
  if (!second) return { zone: first, other: null, isSure: true };
  const [inSecond, unsure] = ZIP_CODES[state].map((list) => list.split(" ").some((it) => zipCode.startsWith(it)));
  const isSure = /^\d{5}/.test(zipCode) && isInState(state, zipCode) && !unsure;
  return inSecond ? { zone: second, other: first, isSure } : { zone: first, other: second, isSure };
}
