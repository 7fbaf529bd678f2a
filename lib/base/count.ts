/** A count with its noun: `1 error`, `2 errors`. `plural` for a noun that takes more than an "s". */
export function countOf(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`
}
