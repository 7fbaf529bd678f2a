/*
 * CSV as RFC 4180 defines it: lines end with CRLF, and a cell with a comma, a quote or a line break is quoted. Spreadsheets
 * compute a cell that begins with one of `= + - @`, so it gets an apostrophe.
 */

/** Returns one line. */
export function csvLine(cells: readonly string[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`
}

function cellOf(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}
