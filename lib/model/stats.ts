/** How many deployments began on each day. */
export interface Heatmap {
  days: number
  /** One for each day, oldest first; days begin at midnight UTC. */
  cells: Array<{ date: string; count: number; failed: number }>
}

/** How the deployments of each day ended. */
export interface SuccessRates {
  days: number
  /** As of the heatmap; the rate is in percent, null for a day on which nothing was finished. */
  points: Array<{ date: string; success: number; failed: number; rate: number | null }>
}
