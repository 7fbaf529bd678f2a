/** The number of deployments that began on each day. */
export interface Heatmap {
  days: number
  /** One cell per day, oldest first. Days begin at midnight UTC. */
  cells: Array<{ date: string; count: number; failed: number }>
}

/** The results of the deployments of each day. */
export interface SuccessRates {
  days: number
  /** One point per day, like the heatmap. The rate is a percentage, or null if no deployment finished on that day. */
  points: Array<{
    date: string
    success: number
    failed: number
    /** @number */
    rate: number | null
  }>
}
