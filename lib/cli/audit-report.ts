import type { Client } from './client/client.js'
import { waitingRows, actorText } from '../base/shared/api.js'
import { listDeployments } from './client/runs.js'
import { heldOf } from './terminal/deployments.js'
import { readCheckpoint, readNote } from '../core/audit/signed-note.js'
import type { Verdict } from '../core/audit/verifier.js'
import { Refusal } from '../base/errors.js'
import { countOf } from '../base/text.js'
import { detailLine } from '../base/shared/audit.js'
import type { AuditCheckpoint, AuditEntry } from '../model/audit.js'
import type { Deployment } from '../model/deployment.js'
import { fetchReceipts } from './receipt-file.js'
import { findProject, isProjectId } from './client/named-project.js'
import { usage } from './command.js'
import { timeOption } from './common-options.js'

/** What a report begins with. */
export interface ReportHead {
  server: string
  since: string
  until: string
  /** Who made it, as the server names the token. */
  by: string
  at: string
}

/** How the log proves itself, at the moment of the report. */
export interface ReportProof {
  size: number
  root: string
  key: string
  /** The result of the verification; null if the token may not export the log. */
  verdict: Verdict | null
}

/** One row of a report: time, project, who, what, result, detail. Empty cells are empty texts. */
export type ReportRow = readonly [at: string, project: string, who: string, what: string, result: string, more: string]

/** The parts of a report, in its order. */
const sections = [
  { key: 'deployments', title: 'Deployments' },
  { key: 'approvals', title: 'Approvals, confirmations and corrections' },
  { key: 'rights', title: 'Changes of rights' },
  { key: 'settings', title: 'Changes of settings and projects' },
  { key: 'failures', title: 'Refused sign-ins' },
  { key: 'others', title: 'Other entries' }
] as const

export type SectionKey = (typeof sections)[number]['key']

/** The column headers of the rows. */
const columns = ['Time', 'Project', 'Who', 'What', 'Result', 'Detail'] as const

/** The report: rows by part, and counts of what is not listed one by one. */
export interface Report {
  head: ReportHead
  rows: Record<SectionKey, ReportRow[]>
  /** Number of refused attempts to sign in, of which an entry can sum up many. */
  refusedSignIns: number
  entries: number
  proof: ReportProof
}

const approvals =
  /^(deployment\.(approve|reject|confirm|revert|cancel|mark_status|give_up)|rollout\.(approve|halt|resume|revert))$/
const rights =
  /^(token|second_factor|session|enrollment|placement)\.|^auth\.(change|reset)_token$|^project\.regenerate_token$|^audit\.rotate_key$|^cluster\.rekey$/
const changes = /^(settings|project|category|tag|log_source|notification_target|node|server)\./
const deploys = /^deployment\.(upload|end|rollback|promote|undo|repair)$/

/** Returns the part of a report to which an entry belongs; null: the rows of the deployments say it. */
export function sectionOf(action: string): SectionKey | null {
  if (deploys.test(action)) return null
  if (action === 'auth.login_failed') return 'failures'
  if (approvals.test(action)) return 'approvals'
  if (rights.test(action)) return 'rights'
  return changes.test(action) ? 'settings' : 'others'
}

export interface ReportNeeds {
  client: Client
  head: ReportHead
  names: ReadonlyMap<string, string>
  proof: ReportProof
}

/** Reads the log and the deployments of a period, page by page. Each entry is kept once, as its row. */
export async function makeReport({ client, head, names, proof }: ReportNeeds): Promise<Report> {
  const { since, until } = head
  const rows: Report['rows'] = { deployments: [], approvals: [], rights: [], settings: [], failures: [], others: [] }
  let [refusedSignIns, entries] = [0, 0]
  const receipts = await receiptsSince(client, since)
  for await (const deployment of deploymentsOf(client, since, until))
    rows.deployments.push(deploymentRow(deployment, { names, receipt: receipts.get(deployment.id) }))
  for await (const entry of entriesOf(client, { since, until })) {
    entries++
    const section = sectionOf(entry.action)
    if (section === 'failures') refusedSignIns += entry.failures ?? 1
    if (section !== null) rows[section].push(entryRow(entry, names))
  }
  return { head, rows, refusedSignIns, entries, proof }
}

/** Yields the deployments that started in a period, the newest first. */
async function* deploymentsOf(client: Client, since: string, until: string): AsyncGenerator<Deployment> {
  for (let before: string | undefined; ; ) {
    const page = await listDeployments(client, {
      output: 'none',
      limit: maxPage,
      ...(before !== undefined && { before })
    })
    yield* page.filter(({ startTime }) => startTime >= since && startTime < until)
    before = page.at(-1)?.id
    // The order is that in which they were queued, so a page whose deployments are all older ends the period.
    if (page.length < maxPage || page.every(({ startTime }) => startTime < since)) return
  }
}

/** Returns the SHA-256 of each receipt by its deployment: the name of its file. A server of before 1.2 makes no receipts. */
async function receiptsSince(client: Client, since: string): Promise<Map<string, string>> {
  try {
    const { receipts } = await fetchReceipts(client, { since })
    return new Map(receipts.map(({ sha256, receipt }) => [receipt.deployment.id, sha256]))
  } catch (error) {
    if (error instanceof Refusal && error.kind === 'not_found') return new Map()
    throw error
  }
}

interface RowNeeds {
  names: ReadonlyMap<string, string>
  /** The SHA-256 of its receipt. */
  receipt: string | undefined
}

function deploymentRow(deployment: Deployment, { names, receipt }: RowNeeds): ReportRow {
  const { startTime, projectId, projectName, actor, message, provenance, treeSha256, override } = deployment
  const more = [
    message,
    override == null ? null : `outside of the windows: ${override}`,
    provenance?.commit == null
      ? null
      : `commit ${provenance.commit}${provenance.dirty ? ' with uncommitted changes' : ''}`,
    provenance?.author == null ? null : `author ${provenance.author}`,
    treeSha256 == null ? null : `tree ${treeSha256}`,
    ...(deployment.signedBy ?? []).map(({ name, fingerprint }) => `signed by ${name} (${fingerprint})`),
    receipt === undefined ? null : `receipt ${receipt}`,
    ...(deployment.approvals ?? []).map(({ decision, name }) => `${decision} by ${actorText(name)}`),
    deployment.errorMessage
  ]
  const project = names.get(projectId) ?? projectName
  const who = actorText(actor ?? 'unknown', id => names.get(id) ?? (id === projectId ? projectName : undefined))
  return [
    startTime,
    project,
    who,
    `${kindOf(deployment)} ${deployment.id}`,
    resultOf(deployment),
    more.filter(Boolean).join('; ')
  ]
}

function kindOf({ undoOf, rollbackOf, promotedFrom }: Deployment): string {
  if (undoOf) return `undo of ${undoOf}`
  if (promotedFrom) return `promotion of ${promotedFrom}`
  return rollbackOf === null ? 'deployment' : `rollback to ${rollbackOf}`
}

function resultOf(deployment: Deployment): string {
  const { status, revertedAt, revertReason } = deployment
  const held = heldOf(deployment)
  if (held !== null) {
    const { words, until } = waitingRows[held.for]
    const time = held.until === null ? null : `${held.until.slice(0, 16).replace('T', ' ')} UTC`
    return time === null || until === null ? words : until.words.replace('{time}', time)
  }
  return revertedAt === null ? status : `${status}, reverted (${revertReason ?? 'unknown reason'})`
}

function entryRow(entry: AuditEntry, names: ReadonlyMap<string, string>): ReportRow {
  const { at, projectId, actor, tokenName, action, ok, target, detail, ip, failures } = entry
  const project = projectId === null ? '' : (names.get(projectId) ?? projectId)
  const count = failures === null || detail !== null ? '' : countOf(failures, 'attempt')
  const about = target === projectId ? '' : target
  const who = [tokenName ?? actorText(actor, id => names.get(id)), ip].filter(Boolean).join(', ')
  return [
    at,
    project,
    who,
    action,
    ok ? 'done' : 'failed',
    [about, detailLine(detail ?? ''), count].filter(Boolean).join('; ')
  ]
}

/** Returns the tree of a checkpoint and the result of a verification. */
export function proofOf({ note, key }: AuditCheckpoint, verdict: Verdict | null): ReportProof {
  const checkpoint = readCheckpoint(readNote(note)?.text ?? '')
  return { size: checkpoint?.size ?? 0, root: checkpoint?.root.toString('base64') ?? '', key, verdict }
}

/** Returns what a report says about the log itself, as pairs of name and value. */
export function proofLines({ size, root, key, verdict }: ReportProof): Array<[name: string, value: string]> {
  const result =
    verdict === null
      ? 'Not verified: only an operator of all projects can export the log'
      : verdict.faults.length === 0
        ? `Verified: ${verdict.entries} entries match the checkpoint of ${verdict.size}, ${verdict.removed} were removed before`
        : `Broken: ${verdict.faults.join('. ')}`
  return [
    ['Entries in the tree', String(size)],
    ['Root', root],
    ['Key of the server', key],
    ['Verification', result]
  ]
}

/** Returns the lines about the report itself. */
function headLines({ head, entries, refusedSignIns }: Report): Array<[name: string, value: string]> {
  return [
    ['Server', head.server],
    ['Period', `${head.since} to ${head.until}`],
    ['Made by', actorText(head.by)],
    ['Made at', head.at],
    ['Entries of the audit log in the period', String(entries)],
    ['Refused attempts to sign in', String(refusedSignIns)]
  ]
}

/** Yields a report as CSV: a column for the part, then the columns of the rows. */
export function* csvOf(report: Report): Generator<string> {
  yield csvLine(['Part', ...columns])
  for (const [name, value] of headLines(report)) yield csvLine(['Report', '', '', '', name, '', value])
  for (const { key, title } of sections) for (const row of report.rows[key]) yield csvLine([title, ...row])
  for (const [name, value] of proofLines(report.proof)) yield csvLine(['Proof of the log', '', '', '', name, '', value])
}

/*
 * A report as one file: no scripts, no links to anything else, and a style that prints. Every text is escaped.
 */

const style = `
:root { color-scheme: light; }
body { font: 13px/1.45 system-ui, sans-serif; color: #111; background: #fff; margin: 32px auto; max-width: 1240px; padding: 0 24px; }
h1 { font-size: 22px; } h2 { font-size: 16px; margin: 28px 0 8px; break-after: avoid; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; } thead { display: table-header-group; }
th, td { text-align: left; vertical-align: top; padding: 4px 8px; border-bottom: 1px solid #ccc; overflow-wrap: anywhere; }
th:nth-child(1) { width: 14.5em; } th:nth-child(2) { width: 11%; } th:nth-child(3) { width: 12%; }
th:nth-child(4) { width: 17%; } th:nth-child(5) { width: 8%; }
th { border-bottom: 2px solid #444; overflow-wrap: normal; } tr { break-inside: avoid; } .time { white-space: nowrap; } .bad { font-weight: 600; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; } dt { color: #555; } dd { margin: 0; overflow-wrap: anywhere; }
@page { margin: 14mm; } @media print { body { margin: 0; max-width: none; padding: 0; font-size: 10px; } }
`

/** Yields the pieces of the file. */
export function* htmlOf(report: Report): Generator<string> {
  yield `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Audit report ${escaped(report.head.server)}</title><style>${style}</style></head><body>
<h1>Audit report</h1>
${list(headLines(report))}`
  for (const { key, title } of sections) {
    const rows = report.rows[key]
    yield `<h2>${title} (${rows.length})</h2>\n`
    if (rows.length === 0) yield '<p>None in this period.</p>\n'
    else {
      yield `<table><thead><tr>${columns.map(name => `<th>${name}</th>`).join('')}</tr></thead><tbody>\n`
      for (const row of rows) yield rowOf(row)
      yield '</tbody></table>\n'
    }
  }
  yield `<h2>Proof of the log</h2>\n${list(proofLines(report.proof))}</body></html>\n`
}

function rowOf([at, project, who, what, result, more]: ReportRow): string {
  const time = `<td class="time"><time datetime="${escaped(at)}">${escaped(`${at.slice(0, 19).replace('T', ' ')} UTC`)}</time></td>`
  const mark = /failed|reverted/.test(result) ? ' class="bad"' : ''
  const cells = [project, who, what].map(text => `<td>${escaped(text)}</td>`).join('')
  return `<tr>${time}${cells}<td${mark}>${escaped(result)}</td><td>${escaped(more)}</td></tr>\n`
}

function list(pairs: ReadonlyArray<readonly [name: string, value: string]>): string {
  return `<dl>${pairs.map(([name, value]) => `<dt>${escaped(name)}</dt><dd>${escaped(value)}</dd>`).join('')}</dl>\n`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, found => entities[found] as string)
}

/*
 * CSV as RFC 4180 defines it: lines end with CRLF, and a cell with a comma, a quote or a line break is quoted. Spreadsheets
 * compute a cell that begins with one of `= + - @`, so it gets an apostrophe.
 */

export function csvLine(cells: readonly string[]): string {
  return `${cells.map(cellOf).join(',')}\r\n`
}

function cellOf(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** Maximum number of entries in one answer. */
export const maxPage = 500

/** Which entries are asked for. */
interface EntryQuery {
  action?: string | undefined
  projectId?: string | undefined
  tokenName?: string | undefined
  since?: string | undefined
  until?: string | undefined
  before?: string | undefined
}

/** Yields entries, the newest first, page by page. Without `limit`, all of them. */
export async function* entriesOf(client: Client, query: EntryQuery, limit = Infinity): AsyncGenerator<AuditEntry> {
  let before = query.before
  for (let left = limit; left > 0; ) {
    const size = Math.min(maxPage, left)
    const { items } = await client.call('GET /api/audit', { query: { ...query, before, limit: size } })
    // A server that is too old ignores the times.
    yield* items.filter(({ at }) => (query.since ?? '') <= at && (query.until === undefined || at < query.until))
    left -= items.length
    before = items.at(-1)?.id
    if (items.length < size) return
  }
}

/** Returns the id of a project by its id or name. An id that no project has may be that of a deleted one. */
export async function projectIdFor(client: Client, word: string | undefined): Promise<string | undefined> {
  return word === undefined || isProjectId(word) ? word : (await findProject(client, word)).id
}

/** Returns the times of `--since` and `--until` as the server takes them. Refuses a period that is empty. */
export function periodOf(
  { since, until }: { since?: string | undefined; until?: string | undefined },
  nowMs: number
): { since: string | undefined; until: string | undefined } {
  const [from, to] = [
    since === undefined ? undefined : timeOption('--since', since, nowMs),
    until === undefined ? undefined : timeOption('--until', until, nowMs)
  ]
  if (from !== undefined && from >= (to ?? nowMs + 1))
    throw usage('--until', 'The period is empty: --until must be after --since')
  return { since: from && new Date(from).toISOString(), until: to && new Date(to).toISOString() } as never
}

/** The columns of an entry as CSV. */
export const csvHeader = 'number,time,actor,token,role,address,action,ok,project,project id,target,detail,id'.split(',')

/** Returns an entry as the cells of a CSV line. */
export function csvCells(entry: AuditEntry, names: ReadonlyMap<string, string>): string[] {
  const { seq, at, actor, tokenName, role, ip, action, ok, projectId, target, detail, id } = entry
  const project = projectId === null ? '' : (names.get(projectId) ?? '')
  const texts = [tokenName, role, ip, action, ok ? 'yes' : 'no', project, projectId, target].map(text => text ?? '')
  const who = actorText(actor, each => names.get(each))
  return [seq === null ? '' : String(seq), at, who, ...texts, detailLine(detail ?? ''), id]
}
