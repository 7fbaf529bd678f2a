/** Formats milliseconds as the `duration` of a deployment record: seconds with the suffix `s` (§2.2). */
export function formatSeconds(ms: number): string {
  return `${(Math.max(0, ms) / 1000).toFixed(2)}s`
}
