import type { TelemetryCounts, TelemetryOverview, TelemetryReport } from '../../model/telemetry.js'
import type { Reader, Transaction } from '../database.js'

/*
 * One row for each instance and day, however often it reports: what the overview needs, and no more. Dates are ISO, so
 * they compare as text.
 */

/** Counts a report on `date`; version and platform become those of the latest report of the day. */
export function insertReport(tx: Transaction, date: string, { event, instanceId, svcVersion, os, arch }: TelemetryReport): void {
  tx.run(
    `INSERT INTO telemetryReports (date, instanceId, startups, pushes, svcVersion, os, arch) VALUES (?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (date, instanceId) DO UPDATE SET
       startups = startups + excluded.startups, pushes = pushes + excluded.pushes,
       svcVersion = excluded.svcVersion, os = excluded.os, arch = excluded.arch`,
    date,
    instanceId,
    event === 'svc.serve.startup' ? 1 : 0,
    event === 'svc.push.start' ? 1 : 0,
    svcVersion,
    os,
    arch
  )
}

/** Removes rows older than `before`, and of the rest the oldest above `keep`; gives how many went. */
export function trimReports(tx: Transaction, { before, keep }: { before: string; keep: number }): number {
  const old = tx.run('DELETE FROM telemetryReports WHERE date < ?', before)
  const rows = tx.get<{ n: number }>('SELECT count(*) AS n FROM telemetryReports')?.n ?? 0
  if (rows <= keep) return old
  const oldest = 'SELECT date, instanceId FROM telemetryReports ORDER BY date, instanceId LIMIT ?'
  return old + tx.run(`DELETE FROM telemetryReports WHERE (date, instanceId) IN (${oldest})`, rows - keep)
}

const counts = 'count(DISTINCT instanceId) AS instances, ifnull(sum(startups), 0) AS startups, ifnull(sum(pushes), 0) AS pushes'
/** SQLite takes the other columns from the row that has the maximum. */
const latest = 'SELECT svcVersion, os, arch, max(date) FROM telemetryReports WHERE date >= ? GROUP BY instanceId'

/** The figures since `from`; days without a report are left out. */
export function readReports(db: Reader, from: string): Omit<TelemetryOverview, 'days'> {
  return {
    totals: db.get<TelemetryCounts>(`SELECT ${counts} FROM telemetryReports WHERE date >= ?`, from) as TelemetryCounts,
    daily: db.all(`SELECT date, ${counts} FROM telemetryReports WHERE date >= ? GROUP BY date ORDER BY date`, from),
    versions: db.all(
      `SELECT svcVersion AS version, count(*) AS count FROM (${latest}) GROUP BY svcVersion ORDER BY count DESC, version`,
      from
    ),
    platforms: db.all(
      `SELECT os, arch, count(*) AS count FROM (${latest}) GROUP BY os, arch ORDER BY count DESC, os, arch`,
      from
    )
  }
}
