/**
 * Returns a count with its noun: `1 error`, `2 errors`. `plural` is for nouns whose plural does not just add an "s".
 */
export function countOf(number: number, noun: string, plural = `${noun}s`): string {
  return `${number} ${number === 1 ? noun : plural}`
}
