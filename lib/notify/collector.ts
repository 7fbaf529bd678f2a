import type { Clock } from '../base/clock.js'
import type { TelemetryCounts, TelemetryOverview, TelemetryReport } from '../model/telemetry.js'
import type { Store } from '../store/database.js'
import { insertReport, readReports, trimReports } from '../store/tables/telemetry.js'

/** The reports of a fleet (decisions §9): anybody may send one, so what is kept has a limit. */
export interface Collector {
  add(report: TelemetryReport): Promise<void>
  /** The figures of the last `days` days, today included. */
  overview(days: number): TelemetryOverview
}

export const maxOverviewDays = 365
/** An instance and day each; the oldest go. Anybody may ask for the figures, and counting so many takes some 20 ms. */
const maxRows = 20_000
/** Reports between two trimmings. */
const trimEvery = 100
const dayMs = 24 * 60 * 60_000

export function createCollector({ store, clock, keep = maxRows }: { store: Store; clock: Clock; keep?: number }): Collector {
  let untilTrim = 0
  const dateOf = (daysAgo: number): string => new Date(clock.now() - daysAgo * dayMs).toISOString().slice(0, 10)

  return {
    async add(report) {
      await store.write(tx => {
        // By our clock: a wrong one elsewhere must not write into other days.
        insertReport(tx, dateOf(0), report)
        if (untilTrim-- > 0) return
        untilTrim = trimEvery
        trimReports(tx, { before: dateOf(maxOverviewDays), keep })
      })
    },
    overview(days) {
      const from = dateOf(days - 1)
      const { daily, ...figures } = readReports(store, from)
      const known = new Map<string, TelemetryCounts & { date: string }>(daily.map(day => [day.date, day]))
      const nothing = { instances: 0, startups: 0, pushes: 0 }
      const dates = Array.from({ length: days }, (_, i) => dateOf(days - 1 - i))
      return { days, ...figures, daily: dates.map(date => known.get(date) ?? { date, ...nothing }) }
    }
  }
}
