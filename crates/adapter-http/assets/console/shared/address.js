// Addresses as one line. The same rule is in facts.rs of the mails.

const words = (text) => text.toLowerCase().split(/[\s,.]+/).filter(Boolean);

/**
 * Returns what follows a street: city, state and ZIP code. Many streets have them at their end; then it is an empty text.
 * The last word of a street may be the name of its city.
 */
export function regionOf(street, city, state, zip) {
  const region = [city, [state, zip].filter(Boolean).join(" ")].filter(Boolean).join(", ");
  const [own, all] = [words(region), words(street ?? "")];
  const isWhole = city && state && zip && own.every((word, at) => word === all.at(at - own.length));
  return isWhole ? "" : region;
}

/** Returns a whole address. */
export const addressLine = (street, ...parts) => [street, regionOf(street, ...parts)].filter(Boolean).join(", ");
