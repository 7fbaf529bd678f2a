import type { TelemetryCounts, TelemetryOverview, TelemetryReport } from '../../model/telemetry.js'
import type { Reader, Transaction } from '../database.js'
import { number, rowReader, text, valueReader } from './columns.js'

/*
 * One row per instance and day, however often the instance reports: the overview needs no more. Dates are ISO text, so
 * they compare as text.
 */

/** Counts a report on `date`. Version and platform are those of the latest report of the day. */
export function insertReport(
  tx: Transaction,
  date: string,
  { event, instanceId, svcVersion, os, arch }: TelemetryReport
): void {
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

/** Removes the rows older than `before`, and the oldest rows above `keep`; returns the number of removed rows. */
export function trimReports(tx: Transaction, { before, keep }: { before: string; keep: number }): number {
  const old = tx.run('DELETE FROM telemetryReports WHERE date < ?', before)
  const rows = tx.all('SELECT count(*) FROM telemetryReports').map(readCount)[0] ?? 0
  if (rows <= keep) return old
  const oldest = 'SELECT date, instanceId FROM telemetryReports ORDER BY date, instanceId LIMIT ?'
  return old + tx.run(`DELETE FROM telemetryReports WHERE (date, instanceId) IN (${oldest})`, rows - keep)
}

const table = 'telemetryReports'
const countColumns = { instances: number, startups: number, pushes: number }
const readCount = valueReader(`count of ${table}`, number)
const readTotals = rowReader<TelemetryCounts>(table, countColumns)
const readDay = rowReader<TelemetryOverview['daily'][number]>(table, { date: text, ...countColumns })
const readVersion = rowReader<TelemetryOverview['versions'][number]>(table, { version: text, count: number })
const readPlatform = rowReader<TelemetryOverview['platforms'][number]>(table, { os: text, arch: text, count: number })

const counts =
  'count(DISTINCT instanceId) AS instances, ifnull(sum(startups), 0) AS startups, ifnull(sum(pushes), 0) AS pushes'
/** SQLite takes the other columns from the row that has the maximum. */
const latest = 'SELECT svcVersion, os, arch, max(date) FROM telemetryReports WHERE date >= ? GROUP BY instanceId'

/** Returns the figures since `from`; days without a report are omitted. */
export function readReports(db: Reader, from: string): Omit<TelemetryOverview, 'days'> {
  const since = 'FROM telemetryReports WHERE date >= ?'
  const [totals = { instances: 0, startups: 0, pushes: 0 }] = db.all(`SELECT ${counts} ${since}`, from).map(readTotals)
  return {
    totals,
    daily: db.all(`SELECT date, ${counts} ${since} GROUP BY date ORDER BY date`, from).map(readDay),
    versions: db
      .all(
        `SELECT svcVersion AS version, count(*) AS count FROM (${latest}) GROUP BY svcVersion ORDER BY count DESC, version`,
        from
      )
      .map(readVersion),
    platforms: db
      .all(`SELECT os, arch, count(*) AS count FROM (${latest}) GROUP BY os, arch ORDER BY count DESC, os, arch`, from)
      .map(readPlatform)
  }
}
