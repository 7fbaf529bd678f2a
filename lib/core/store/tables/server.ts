/* The tables of the server itself: settings, telemetry, history of the machine, targets of notifications and their messages. */
import type { MachineFacts, MachineMinute } from '../../../model/machine.js'
import {
  eventKeys,
  notificationKinds,
  type NotificationFailure,
  type NotificationQueue,
  type NotificationTarget,
  type TelemetryCounts,
  type TelemetryOverview,
  type TelemetryReport,
  type WaitingMessage
} from '../../../model/setting.js'
import type { Reader, Transaction } from '../database.js'
import {
  choice,
  flag,
  isObject,
  isOneOf,
  json,
  jsonList,
  nullable,
  number,
  rowReader,
  tableOf,
  text,
  texts,
  valueReader
} from './table.js'

const readSetting = rowReader<{ key: string; value: string }>('settings', { key: text, value: text })

/** Returns the settings that were ever written, by key. Defaults are not included. */
export function readSettings(db: Reader): Record<string, string> {
  const rows = db.all('SELECT key, value FROM settings').map(readSetting)
  return Object.fromEntries(rows.map(({ key, value }) => [key, value]))
}

/** Writes one setting, replacing its previous value. */
export function writeSetting(tx: Transaction, key: string, value: string): void {
  tx.run(
    'INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
    key,
    value
  )
}

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

const readMinute = rowReader<{ at: string; facts: MachineFacts }>('machineHistory', {
  at: text,
  facts: json('figures', isFacts)
})

/** Null stands for an unknown figure. */
function isFacts(value: unknown): value is MachineFacts {
  return isObject(value) && Object.values(value).every(figure => typeof figure === 'number' || figure === null)
}

/** Adds minutes. A minute that exists already, because the clock was set back, is replaced. */
export function insertMachineMinutes(tx: Transaction, minutes: readonly MachineMinute[]): void {
  for (const { at, ...facts } of minutes) {
    tx.run(
      'INSERT INTO machineHistory (at, facts) VALUES (?, ?) ON CONFLICT (at) DO UPDATE SET facts = excluded.facts',
      at,
      JSON.stringify(facts)
    )
  }
}

/**
 * Removes the minutes outside two instants, which are both included in the range. If the clock was set back, there are
 * minutes in the future.
 */
export function trimMachineHistory(tx: Transaction, { from, to }: { from: string; to: string }): void {
  tx.run('DELETE FROM machineHistory WHERE at < ? OR at > ?', from, to)
}

/** Returns the minutes between two instants, both included, oldest first. */
export function readMachineHistory(db: Reader, { from, to }: { from: string; to: string }): MachineMinute[] {
  const sql = 'SELECT at, facts FROM machineHistory WHERE at >= ? AND at <= ? ORDER BY at'
  return db.all(sql, from, to).map(row => {
    const { at, facts } = readMinute(row)
    return { at, ...facts }
  })
}

const targets = tableOf<NotificationTarget>('notificationTargets', {
  id: text,
  name: text,
  kind: choice(notificationKinds),
  url: text,
  secret: text,
  events: jsonList('events', isOneOf(eventKeys)),
  projectIds: texts,
  enabled: flag,
  createdAt: text,
  updatedAt: text
})

export const insertNotificationTarget = targets.insert

/** Writes the fields that are present; returns false if there is no such target. */
export const updateNotificationTarget = targets.update

/** Removes a target; returns false if there is none. */
export function deleteNotificationTarget(tx: Transaction, id: string): boolean {
  forgetFailure(tx, id)
  return targets.delete(tx, id)
}

export const findNotificationTarget = targets.find

/** Returns all targets in the order in which they were added. */
export function listNotificationTargets(db: Reader): NotificationTarget[] {
  return db.all('SELECT * FROM notificationTargets ORDER BY position').map(targets.read)
}

const readFailure = rowReader<NotificationFailure>('notificationFailures', { at: text, reason: text })

/** Returns why a target, also that of the settings, did not take its latest message. */
export function findFailure(db: Reader, targetId: string): NotificationFailure | undefined {
  const row = db.get('SELECT at, reason FROM notificationFailures WHERE targetId = ?', targetId)
  return row === undefined ? undefined : readFailure(row)
}

/** Notes why a target did not take its latest message. */
export function noteFailure(tx: Transaction, targetId: string, { at, reason }: NotificationFailure): void {
  tx.run('INSERT OR REPLACE INTO notificationFailures (targetId, at, reason) VALUES (?, ?, ?)', targetId, at, reason)
}

/** Returns the names of the targets that did not take their latest message, without those that are switched off. */
export function refusingTargets(db: Reader): string[] {
  const sql = `SELECT coalesce(t.name, 'webhook_url') AS name FROM notificationFailures f
    LEFT JOIN notificationTargets t ON t.id = f.targetId WHERE t.enabled IS NOT 0 ORDER BY t.position`
  return db.all(sql).map(row => String(row['name']))
}

/** Forgets it: a message was delivered, or the target was changed. */
export function forgetFailure(tx: Transaction, targetId: string): void {
  tx.run('DELETE FROM notificationFailures WHERE targetId = ?', targetId)
}

const readToldKey = valueReader('toldIncidents.key', text)

/** Returns the incidents that were told of and have not ended, by their keys. */
export function toldIncidents(db: Reader): string[] {
  return db.all('SELECT key FROM toldIncidents').map(readToldKey)
}

/** Notes that an incident was told of; returns false if it was before. */
export function noteTold(tx: Transaction, key: string, at: string): boolean {
  return tx.run('INSERT OR IGNORE INTO toldIncidents (key, at) VALUES (?, ?)', key, at) > 0
}

/** Notes that an incident has ended. The next one is told of again. */
export function forgetTold(tx: Transaction, key: string): void {
  tx.run('DELETE FROM toldIncidents WHERE key = ?', key)
}

/*
 * Messages to notification targets that are not delivered yet. A row has neither the address nor the secret of its
 * target, and is removed together with it.
 */

const messages = tableOf<WaitingMessage>('waitingMessages', {
  id: text,
  targetId: text,
  notification: json('a notification', isObject),
  createdAt: text,
  attempts: number,
  nextAt: text,
  problem: nullable(text)
})

/** Adds a message at the end of the queue of its target. */
export function insertWaitingMessage(tx: Transaction, message: WaitingMessage): void {
  messages.insert(tx, message)
}

/** Writes the fields that are present; returns false if there is no such message. */
export const updateWaitingMessage = messages.update

/** Removes a message that was delivered: nothing that failed before says anything about its target any more. */
export function deleteDelivered(tx: Transaction, { id, targetId }: Pick<WaitingMessage, 'id' | 'targetId'>): void {
  messages.delete(tx, id)
  tx.run('UPDATE notificationTargets SET dropped = 0 WHERE id = ? AND dropped > 0', targetId)
  forgetFailure(tx, targetId)
}

/** Removes a message that its target has refused; returns false if there is none. */
export const deleteWaitingMessage = messages.delete

/** Returns the next message of a target. */
export function firstWaitingMessage(db: Reader, targetId: string): WaitingMessage | undefined {
  const row = db.get('SELECT * FROM waitingMessages WHERE targetId = ? ORDER BY position LIMIT 1', targetId)
  return row === undefined ? undefined : messages.read(row)
}

export function targetsWithMessages(db: Reader): string[] {
  return db.all('SELECT DISTINCT targetId FROM waitingMessages').map(row => String(row['targetId']))
}

/** Drops the oldest messages of a target above these limits, but not the newest one. Returns their number. */
export function dropAbove(tx: Transaction, targetId: string, limits: { messages: number; bytes: number }): number {
  const rows = tx.all(
    'SELECT id, length(CAST(notification AS BLOB)) AS bytes FROM waitingMessages WHERE targetId = ? ORDER BY position DESC',
    targetId
  )
  let bytes = 0
  const kept = rows.findIndex((row, index) => {
    bytes += Number(row['bytes'])
    return index > 0 && (index >= limits.messages || bytes > limits.bytes)
  })
  if (kept === -1) return 0
  for (const row of rows.slice(kept)) messages.delete(tx, String(row['id']))
  return countDropped(tx, targetId, rows.length - kept)
}

/** Drops the messages of a target that were added before this time. Returns their number. */
export function dropBefore(tx: Transaction, targetId: string, createdAt: string): number {
  const count = tx.run('DELETE FROM waitingMessages WHERE targetId = ? AND createdAt < ?', targetId, createdAt)
  return countDropped(tx, targetId, count)
}

function countDropped(tx: Transaction, targetId: string, count: number): number {
  if (count > 0) tx.run('UPDATE notificationTargets SET dropped = dropped + ? WHERE id = ?', count, targetId)
  return count
}

/** Returns what waits for a target. */
export function queueOf(db: Reader, targetId: string): NotificationQueue {
  const sql = `SELECT count(*) AS waiting, min(createdAt) AS oldestAt,
    (SELECT dropped FROM notificationTargets WHERE id = ?) AS dropped FROM waitingMessages WHERE targetId = ?`
  const { waiting, oldestAt, dropped } = db.get(sql, targetId, targetId) ?? {}
  const { nextAt = null, problem = null, attempts = 0 } = firstWaitingMessage(db, targetId) ?? {}
  return {
    waiting: Number(waiting ?? 0),
    oldestAt: typeof oldestAt === 'string' ? oldestAt : null,
    nextAt: attempts > 0 ? nextAt : null,
    problem,
    dropped: Number(dropped ?? 0)
  }
}

/** Returns the number of messages that wait for all targets, and since when the oldest does. */
export function countWaitingMessages(db: Reader): Pick<NotificationQueue, 'waiting' | 'oldestAt'> {
  const { waiting, oldestAt } =
    db.get('SELECT count(*) AS waiting, min(createdAt) AS oldestAt FROM waitingMessages') ?? {}
  return { waiting: Number(waiting ?? 0), oldestAt: typeof oldestAt === 'string' ? oldestAt : null }
}
