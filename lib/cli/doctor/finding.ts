/** The result of one check. */
export interface Finding {
  check: string
  result: 'pass' | 'warning' | 'failure'
  /** What was found. */
  detail: string
  /** What to do; null if nothing has to be done. */
  advice: string | null
}
