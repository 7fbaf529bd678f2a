/* What rollbacks, undos and repairs have in common: a dry run, and the run that is watched until its end. */
import type { Client } from './client/client.js'
import { mayHaveArrived, planRun, type Run, startRun } from './client/runs.js'
import { Refusal } from '../base/errors.js'
import { countOf, oneLine } from '../base/text.js'
import type { Provenance } from '../model/provenance.js'
import type { RollbackPlan } from '../model/plan.js'
import { type AdminOptions, openProjectAsAdmin, projectIdOf } from './client/session.js'
import { type Context, exitCodes, toggle } from './command.js'
import { adminOptions, checkMessage, sharedOptions } from './common-options.js'
import { followLine, type GivenOptions } from './hints.js'
import { receiptOption, witnessOption } from './push-options.js'
import { nothingKnown, pageOf } from './run-result.js'
import type { Paint } from './terminal/output.js'
import { confirmation, Interrupted, withInterrupts } from './terminal/prompt.js'
import { endRun, isReceived, reportRun, reportScheduled, watchRun } from './watch.js'

/** Options that rollbacks and undos have in common. */
export const exactOptions = {
  force: toggle('take back files that were edited on the server, too'),
  'dry-run': toggle('only show what would happen'),
  ...witnessOption,
  ...receiptOption,
  message: sharedOptions.message,
  yes: { ...sharedOptions.yes, help: 'do not ask; required without a terminal' },
  ...adminOptions,
  json: toggle('print the result as JSON; the deployment output goes to standard error')
} as const

/** Prints what would happen. Returns the exit code: 1 if it would be refused. */
export async function showRollback(
  ask: (signal: AbortSignal) => Promise<RollbackPlan>,
  { json, ...shown }: { json: boolean } & Omit<Shown, 'paint'>,
  { host, output }: Context
): Promise<number> {
  const plan = await withInterrupts(host, ask)
  output.result(json, plan, () => rollbackLines(plan, { paint: output.paint, ...shown }))
  return plan.problem === null ? exitCodes.success : exitCodes.failed
}

/** Plans an exact way back, and says what it will do. Refuses one that would fail, so that no failed deployment is made. */
export async function planFirst(
  ask: (signal: AbortSignal) => Promise<RollbackPlan>,
  force: boolean,
  { host, output }: Context
): Promise<RollbackPlan> {
  const plan = await withInterrupts(host, ask)
  if (plan.problem !== null) throw new Refusal('conflict', plan.problem.code, plan.problem.message)
  const lines = rollbackLines(plan, { paint: output.paint, force })
  for (const line of lines.slice(0, -1)) output.note(line)
  return plan
}

/** A rollback, an undo or a repair that is to run. */
interface Started {
  start(signal: AbortSignal): Promise<Run>
  /** What it is, as in "the rollback may have begun". */
  noun: string
  /** What it has done, as in "rolled back to dep_…". */
  done: string
  projectId: string
  provenance: Provenance | null
  message: string | undefined
  json: boolean
  given: GivenOptions
  /** The value of --witness; undefined: the command has no such option. */
  witness?: string
  /** The value of --receipt. */
  receipt?: string | undefined
  /** Whether it begins later: then the command ends as soon as the server has it. Default: false. */
  isScheduled?: boolean
}

/** Runs it and prints its output. Returns the exit code. */
export async function runAndReport(client: Client, started: Started, context: Context): Promise<number> {
  const { noun, done, projectId, provenance, message, json, given } = started
  const { output } = context
  const known = { ...nothingKnown(), projectId, provenance, message: message ?? null }
  const watched = await withInterrupts(context.host, async signal => {
    const run = await started.start(signal).catch((error: unknown) => {
      if (error instanceof Interrupted || mayHaveArrived(error))
        output.note(
          `The server did not answer, so the ${noun} may have begun. Run "${followLine(null, given)}" to check`
        )
      throw error
    })
    if (started.isScheduled) {
      await isReceived(run)
      Object.assign(known, { deployId: run.deployId, url: pageOf(client, run.deployId, run.page) })
      return null
    }
    const print = json ? output.note : output.print
    return watchRun(run, context, { client, projectId, given, print, tellsEnd: !json, signal })
  })
  if (watched === null) return reportScheduled({ client, known, json, witness: started.witness }, context)
  const tell = () => reportRun(watched, context, { client, what: done, json, given, known })
  const { receipt, witness } = started
  return await endRun({ client, watched, receipt, witness, tell }, context)
}

/** Restores the files before the last deployment of a project. Returns the exit code. */
export async function undoLast(
  project: string | undefined,
  options: AdminOptions & {
    force: boolean
    'dry-run': boolean
    message: string | undefined
    yes: boolean
    json: boolean
    witness: string
    receipt: string | undefined
  },
  context: Context
): Promise<number> {
  const { env, server, token, message, json, force, witness, receipt } = options
  checkMessage(message)
  const isSure = confirmation(context, { yes: options.yes || options['dry-run'], what: 'An undo', done: 'undone' })
  const given = { env, server, project, token }
  const { client, config } = await openProjectAsAdmin(context, given)
  const projectId = projectIdOf(context, config)
  const ask = (signal: AbortSignal) => planRun(client, 'POST /api/projects/:id/undo', { id: projectId, force, signal })
  if (options['dry-run']) return showRollback(ask, { json, force }, context)
  const plan = await planFirst(ask, force, context)
  if (!(await isSure('Undo the last deployment'))) return exitCodes.failed
  const undo = {
    start: (signal: AbortSignal) =>
      startRun(client, 'POST /api/projects/:id/undo', { id: projectId, message, force, signal }),
    noun: 'undo',
    done: `${plan.to === null ? 'the first deployment is undone' : `the files are as after ${plan.to.deployId}`}${keptWords(plan, force)}`,
    projectId,
    provenance: null,
    message,
    json,
    given,
    witness,
    receipt
  }
  return runAndReport(client, undo, context)
}

/** Returns which files are not so, because they were edited: `, but 2 edited files stayed`. */
function keptWords({ counts: { drifted } }: RollbackPlan, force: boolean): string {
  return force || drifted === 0 ? '' : `, but ${countOf(drifted, 'edited file')} stayed`
}

/* Prints what a rollback or an undo would do. */

/** Number of paths of each kind that are shown. */
const shownPaths = 10
/** Number of edited files that are named. */
const shownEdited = 3

interface Shown {
  paint: Paint
  /** Whether edited files would be taken back. */
  force: boolean
  /** What happens to the files that change; default: they come back. */
  verb?: string
}

export function rollbackLines(plan: RollbackPlan, { paint, force, verb = 'brings back' }: Shown): string[] {
  const { problem, counts, paths, partial } = plan
  const end = 'Nothing was changed.'
  if (problem !== null) return [headOf(plan), paint.red(`  ✗ ${oneLine(problem.message)}`), end]
  const parts = [`${verb} ${countOf(counts.added + counts.changed, 'file')}`]
  if (counts.timeOnly > 0) parts.push(`sets the time of ${countOf(counts.timeOnly, 'file')}`)
  if (plan.mode === 'exact') parts.push(`removes ${counts.pruned} that later deployments added`)
  if (counts.drifted > 0) parts.push(editedWords(plan, force))
  if ((counts.foreign ?? 0) > 0) parts.push(`replaces ${counts.foreign} not of svc`)
  return [
    headOf(plan),
    `  ${parts.join(' · ')}`,
    ...listed('+', paths.added, counts.added).map(paint.green),
    ...listed('~', paths.changed, counts.changed).map(paint.yellow),
    ...listed('-', paths.pruned, counts.pruned).map(paint.red),
    ...listed('!', paths.foreign ?? [], counts.foreign ?? 0).map(paint.red),
    ...(partial ? ['  ! The comparison took too long: the counts and lists are incomplete.'] : []),
    end
  ]
}

function headOf({ mode, to, over, problem }: RollbackPlan): string {
  if (problem !== null && to === null) return 'Exactly to the state before the last deployment'
  const where = to === null ? 'to the state before the first deployment' : `to ${to.deployId}${detailsOf(to)}`
  if (mode === 'overlay') return `The archive of a deployment over the files that are there: ${where}`
  return problem === null ? `Exactly ${where}, over ${countOf(over, 'deployment')}` : `Exactly ${where}`
}

function detailsOf({ at, message }: NonNullable<RollbackPlan['to']>): string {
  const words = message === null ? '' : `, "${oneLine(message)}"`
  return ` (${at.slice(0, 16).replace('T', ' ')}${words})`
}

function editedWords({ mode, counts, paths }: RollbackPlan, force: boolean): string {
  const names = paths.drifted.slice(0, shownEdited).map(({ path }) => oneLine(path))
  const more = counts.drifted > names.length ? ', …' : ''
  const list = `${names.join(', ')}${more}`
  if (mode === 'overlay') return `${counts.drifted} edited on the server: ${list}`
  if (force) return `takes back ${counts.drifted} edited: ${list}`
  return `keeps ${counts.drifted} edited: ${list} (--force takes them back, too)`
}

function listed(mark: string, paths: readonly string[], count: number): string[] {
  const shown = paths.slice(0, shownPaths).map(path => `  ${mark} ${oneLine(path)}`)
  return count > shown.length ? [...shown, `  … and ${count - shown.length} more`] : shown
}
