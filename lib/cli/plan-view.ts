/* Prints a plan, in lines of at most 80 columns. */
import { countOf, grouped, oneLine } from '../base/text.js'
import { changesAnything, type DriftedFile, type PlanAnswer } from '../model/plan.js'
import { isRefused, formatBytes } from '../base/shared/api.js'
import { exitCodes } from './command.js'
import type { Paint } from './terminal/output.js'
import { relativeTime, wrap } from './terminal/words.js'
import { cutToWidth } from './terminal/columns.js'

/** How to print a plan. */
export interface PlanViewOptions {
  paint: Paint
  nowMs: number
  /** Whether to print every path, whatever its length. */
  all: boolean
  /** Whether it is carried out now. Default: nothing was changed, and it says so. */
  isBegun?: boolean
}

const columns = 80
/** Number of added, changed and removed paths that are shown without `--all`. */
const shownPaths = 10
/** The same if also files are removed that svc did not put there. */
const shownForeign = 200
/** Number of edited files that are shown without `--all`. */
const shownDrift = 20

export function planLines(plan: PlanAnswer, options: PlanViewOptions): string[] {
  return [
    options.paint.bold(headOf(plan, options.nowMs)),
    ...summaryOf(plan),
    ...pathLines(plan, options),
    ...plan.scripts.map(script => `  scripts   ${scriptWords(script)}`),
    `  space     ${spaceWords(plan.bytes)}`,
    ...queueLines(plan),
    ...problemLines(plan, options.paint),
    ...(options.isBegun === true ? [] : ['Nothing was changed.'])
  ]
}

function headOf({ project, live }: PlanAnswer, nowMs: number): string {
  const name = `Plan for ${oneLine(project.name)} (${oneLine(project.env)})`
  if (live === null) return cutToWidth(`${name}, the first deployment`, columns)
  const message = live.message === null ? '' : `, "${oneLine(live.message)}"`
  return cutToWidth(`${name}, against ${live.deployId}, ${relativeTime(live.at, nowMs)}${message}`, columns)
}

function summaryOf({ counts, prune }: PlanAnswer): string[] {
  const asTheyAre = counts.unchanged + counts.timeOnly
  const parts = [
    `+ ${grouped(counts.added)} added`,
    `~ ${grouped(counts.changed)} changed`,
    `= ${grouped(asTheyAre)} as they are`,
    ...(counts.drifted > 0 ? [`! ${grouped(counts.drifted)} edited on the server`] : []),
    // An older server does not say.
    ...((counts.foreign ?? 0) > 0 ? [`! ${grouped(counts.foreign)} not of svc`] : []),
    ...(counts.kept > 0 ? [`. ${grouped(counts.kept)} kept`] : []),
    ...(prune === 'off' ? [] : [`- ${grouped(counts.pruned)} removed`]),
    ...(prune === 'foreign' ? [`. ${grouped(counts.protected)} protected`] : [])
  ]
  const lines: string[] = []
  for (const part of parts) {
    const line = lines.at(-1)
    if (line !== undefined && `${line}   ${part}`.length <= columns) lines[lines.length - 1] = `${line}   ${part}`
    else lines.push(`  ${part}`)
  }
  return lines
}

function pathLines({ counts, paths, prune }: PlanAnswer, { paint, all }: PlanViewOptions): string[] {
  const fit = (line: string): string => (all ? line : cutToWidth(line, columns))
  const isForeign = prune === 'foreign'
  const unowned = new Map((paths.unowned ?? []).map(({ path, size }) => [path, size]))
  const sizeOf = (path: string): string => {
    const size = unowned.get(path)
    return size === undefined ? '' : `  not of svc, ${formatBytes(size)}`
  }
  const written = [
    ...paths.added.map(path => paint.green(fit(`  + ${oneLine(path)}`))),
    ...paths.changed.map(path => paint.yellow(fit(`  ~ ${oneLine(path)}`))),
    ...paths.pruned.map(path => paint.red(fit(`  - ${oneLine(path)}${sizeOf(path)}`)))
  ]
  const shown = all ? written : written.slice(0, isForeign ? shownForeign : shownPaths)
  const left = counts.added + counts.changed + counts.pruned - shown.length
  const drifted = all ? paths.drifted : paths.drifted.slice(0, shownDrift)
  const moreDrift = counts.drifted - drifted.length
  const foreign = (paths.foreign ?? []).slice(0, all ? undefined : shownDrift)
  const moreForeign = (counts.foreign ?? 0) - foreign.length
  const held = (paths.protected ?? []).slice(0, all ? undefined : shownForeign)
  const moreHeld = (counts.protected ?? 0) - held.length
  return [
    ...shown,
    ...(left > 0 ? [`  … and ${grouped(left)} more: svc plan --all`] : []),
    ...drifted.flatMap(file => driftLines(file).map(line => paint.red(line))),
    ...(moreDrift > 0 ? [`  … and ${grouped(moreDrift)} more edited on the server`] : []),
    ...foreign.map(path => paint.red(fit(`  ! ${oneLine(path)}  not of svc, would be replaced`))),
    ...(moreForeign > 0 ? [`  … and ${grouped(moreForeign)} more that svc did not put there`] : []),
    ...held.map(({ path, size, glob }) =>
      fit(`  . ${oneLine(path)}  ${formatBytes(size)}, protected by "${oneLine(glob)}"`)
    ),
    ...(moreHeld > 0 ? [`  … and ${grouped(moreHeld)} more that the policy protects`] : []),
    ...(all ? paths.kept.map(path => `  . ${oneLine(path)}`) : [])
  ]
}

/** An edited file; `overwritten` is null if no deployment is planned. */
export type ShownDrift = Pick<DriftedFile, 'path' | 'found' | 'mtime'> & { overwritten: boolean | null }

/** Returns the lines about a file that was edited on the server. */
export function driftLines({ path, found, mtime, overwritten }: ShownDrift): string[] {
  const how =
    found === null ? 'removed on the server' : `edited on the server ${(mtime ?? '').slice(0, 16).replace('T', ' ')}`
  const outcome =
    overwritten === null ? '' : overwritten ? `, would be ${found === null ? 'restored' : 'overwritten'}` : ', stays'
  const line = `  ! ${oneLine(path)}  ${how}${outcome}`
  return line.length <= columns ? [line] : [`  ! ${oneLine(path)}`, `      ${how}${outcome}`]
}

function scriptWords({ step, source, async, clientIgnored }: PlanAnswer['scripts'][number]): string {
  const whose = source === 'client' ? 'yours' : "the project's own"
  if (step === 'onFailure') return `on-failure: ${whose}, only if the deployment fails`
  const title = step === 'preDeploy' ? 'pre-deploy' : 'post-deploy'
  return `${title}: ${whose}${async ? ', in the background' : ''}${clientIgnored ? '; yours would be ignored' : ''}`
}

function spaceWords({ diskNeeded, diskFree }: PlanAnswer['bytes']): string {
  const free = diskFree === null ? 'free space unknown' : `${formatBytes(diskFree)} free`
  return `${formatBytes(diskNeeded)} needed, ${free}`
}

function queueLines({ queue }: PlanAnswer): string[] {
  if (queue.running === null) return []
  const waiting = queue.waiting === 0 ? '' : `, ${countOf(queue.waiting, 'deployment')} queued`
  return [`  queue     ${oneLine(queue.ahead ?? `${queue.running} is running`)}${waiting}`]
}

/** Returns the lines about what would stop the deployment. */
export function problemLines({ partial, paths, checks, counts }: PlanAnswer, paint: Paint): string[] {
  const marked = (mark: string, text: string): string[] =>
    wrap(oneLine(text), columns - 4).map((line, at) => `${at === 0 ? `  ${mark} ` : '    '}${line}`)
  const failedCodes = new Set(checks.flatMap(({ ok, code }) => (ok || code === undefined ? [] : [code])))
  const conflicts = paths.conflicts.filter(({ code }) => !failedCodes.has(code))
  const moreConflicts = counts.conflicts - paths.conflicts.length
  return [
    ...conflicts.flatMap(({ message }) => marked('✗', message.replace(/^Nothing was changed: /, ''))),
    ...(moreConflicts > 0 ? [`  ✗ ${grouped(moreConflicts)} more entries are in the way`] : []),
    ...checks.flatMap(({ ok, message, paths: at }) => {
      if (message === undefined) return []
      const where = at === undefined ? '' : `: ${at.join(', ')}`
      return marked(ok ? '!' : '✗', `${message}${ok ? '' : where}`)
    }),
    ...(partial && failedCodes.size === 0
      ? marked('!', 'The comparison took too long: the counts and lists are incomplete.')
      : [])
  ].map(line => (line.startsWith('  ✗') ? paint.red(line) : line))
}

/** Exit codes of `--exit-code` in addition to those of every command. */
export const planExitCodes = { changes: 3, drift: 4 } as const

/**
 * Returns the exit code: 1 if the deployment would be refused; with `--exit-code` also 4 for drift and 3 for changes.
 */
export function exitCodeOf(plan: PlanAnswer, isDetailed: boolean): number {
  if (isRefused(plan)) return exitCodes.failed
  if (!isDetailed) return exitCodes.success
  if (plan.partial) return exitCodes.failed
  if (plan.counts.drifted > 0) return planExitCodes.drift
  return changesAnything(plan.counts) ? planExitCodes.changes : exitCodes.success
}
