/** Returns whether a deployment would be refused, by its plan. */
export function isRefused({
  counts,
  checks
}: {
  counts: { conflicts: number }
  checks: ReadonlyArray<{ ok: boolean }>
}): boolean {
  return counts.conflicts > 0 || checks.some(({ ok }) => !ok)
}
