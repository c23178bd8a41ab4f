// What a user should know of the date and the time of a signing. A hint refuses nothing.

import { dateIn } from "../shared/times.js";

const [SUNDAY, MONDAY, THURSDAY, SATURDAY] = [0, 1, 4, 6];

/** The federal holidays on a date: month and day. Source: 5 U.S.C. 6103(a). */
const FIXED = [
  [1, 1, "New Year’s Day"],
  [6, 19, "Juneteenth"],
  [7, 4, "Independence Day"],
  [11, 11, "Veterans Day"],
  [12, 25, "Christmas Day"],
];

const LAST = -1;

/** The federal holidays on a day of the week: month, day and which of the month. Source: 5 U.S.C. 6103(a). */
const MOVING = [
  [1, MONDAY, 3, "Martin Luther King Jr. Day"],
  [2, MONDAY, 3, "Washington’s Birthday"],
  [5, MONDAY, LAST, "Memorial Day"],
  [9, MONDAY, 1, "Labor Day"],
  [10, MONDAY, 2, "Columbus Day"],
  [11, THURSDAY, 4, "Thanksgiving Day"],
];

const DAY = 86_400_000;
const utc = (year, month, day) => new Date(Date.UTC(year, month - 1, day));
const moved = (date, days) => new Date(date.getTime() + days * DAY);
const isoOf = (date) => date.toISOString().slice(0, 10);

function movingDate(year, month, weekday, which) {
  if (which === LAST) {
    const end = utc(year, month + 1, 0);
    return moved(end, -((end.getUTCDay() - weekday + 7) % 7));
  }
  const first = utc(year, month, 1);
  return moved(first, ((weekday - first.getUTCDay() + 7) % 7) + 7 * (which - 1));
}

/** Returns the holidays of a year: the date of each, its name, and the day of rest if that is another one. */
function holidaysOf(year) {
  const fixed = FIXED.map(([month, day, name]) => [utc(year, month, day), name]);
  // A Saturday moves to Friday (5 U.S.C. 6103(b)), a Sunday to Monday (Executive Order 11582).
  const rests = fixed
    .map(([date, name]) => [moved(date, { [SATURDAY]: -1, [SUNDAY]: 1 }[date.getUTCDay()] ?? 0), name])
    .filter(([date], at) => date.getTime() !== fixed[at][0].getTime())
    .map(([date, name]) => [date, `${name} (observed)`]);
  const moving = MOVING.map(([month, weekday, which, name]) => [movingDate(year, month, weekday, which), name]);
  return [...fixed, ...rests, ...moving];
}

/** Returns the federal holiday on a date, such as 2026-11-26; `undefined` if there is none. */
export function holiday(date) {
  const year = Number(date.slice(0, 4));
  // New Year’s Day of the next year may be observed in this one.
  return [...holidaysOf(year), ...holidaysOf(year + 1)].find(([it]) => isoOf(it) === date)?.[1];
}

/** Returns what is unusual about the date of a signing, in sentences; `today` is a date, too. */
export function dateHint(date, today) {
  const [at, from] = [new Date(`${date}T00:00Z`), new Date(`${today}T00:00Z`)];
  if (Number.isNaN(at.getTime())) return "";
  const year = new Date(from);
  year.setUTCFullYear(year.getUTCFullYear() + 1);
  const name = holiday(date);
  return [
    at < from && "This date is in the past.",
    at > year && "This date is more than a year away.",
    at.getUTCDay() === SUNDAY && "This is a Sunday.",
    name && `This is ${name}, a federal holiday.`,
  ].filter(Boolean).join(" ");
}

/** Returns the milliseconds by which the clocks of a zone are ahead of UTC at an instant. */
function ahead(zone, instant) {
  const [month, day, year, hour, minute, second] = new Intl.DateTimeFormat("en-US", {
    timeZone: zone, hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric",
    hour: "numeric", minute: "numeric", second: "numeric",
  }).format(instant).match(/\d+/g).map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second) - instant;
}

/** Returns the instants of a local time in a zone, earliest first: two if the clocks are put back. */
export function instantsOf(date, time, zone) {
  const local = Date.parse(`${date}T${time}Z`);
  if (!zone || Number.isNaN(local)) return [];
  try {
    const found = [-DAY, DAY]
      .map((shift) => local - ahead(zone, local + shift))
      .filter((instant) => instant + ahead(zone, instant) === local);
    return [...new Set(found)].sort().map((it) => new Date(it));
  } catch {
    // The browser does not know the zone.
    return [];
  }
}

/** Returns the date in a zone at this moment. */
export function todayIn(zone) {
  const now = Date.now();
  try {
    return isoOf(new Date(now + ahead(zone, now)));
  } catch {
    return dateIn(0);
  }
}
