// Errors of the service in the words of the trade: those for programs name formats of JSON.

const WORDS = [
  [/^must be a positive integer/, "must be a number, such as 42"],
  [/^must be a number$/, "must be an amount, such as 150.50"],
  [/YYYY-MM-DD/, "must be a date, such as 12/01/2026"],
  [/HH:MM/, "must be a time of the day, such as 2:30 PM"],
  [/time zone identifier/, "must be a time zone of the list"],
  [/ISO 8601/, "must be one of the two times"],
  [/^must be one of at, /, "must be one of the choices"],
  [/utcEndTimeDate/, "occurs twice on this date: choose the later one, so that it is after the earliest time"],
  [/^must not be before (signing|created)/, "must not be before the first day"],
  [/startTime/, "must be after the earliest time"],
  [/control characters other/, "must be plain text"],
  [/control characters/, "must be one line of plain text"],
  [/^must be a URL/, "must begin with https://"],
  [/^must be a string/, "must be a text"],
  [/^must be true or false/, "must be yes or no"],
];

/** Returns what is wrong with an entry, to follow the name of its field. */
export const inTrade = (detail) => WORDS.find(([pattern]) => pattern.test(detail))?.[1] ?? detail;
