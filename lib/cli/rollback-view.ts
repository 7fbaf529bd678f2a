/* Prints what a rollback or an undo would do. */
import { countOf, oneLine } from '../base/text.js'
import type { RollbackPlan } from '../model/rollback-plan.js'
import type { Paint } from './terminal/colors.js'

/** Number of paths of each kind that are shown. */
const shownPaths = 10
/** Number of edited files that are named. */
const shownEdited = 3

/** Returns the lines of a plan of a rollback. `force` says whether it would take back edited files. */
export function rollbackLines(plan: RollbackPlan, { paint, force }: { paint: Paint; force: boolean }): string[] {
  const { problem, counts, paths, partial } = plan
  const end = 'Nothing was changed.'
  if (problem !== null) return [headOf(plan), paint.red(`  ✗ ${oneLine(problem.message)}`), end]
  const back = counts.added + counts.changed + counts.timeOnly
  const parts = [`brings back ${countOf(back, 'file')}`]
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

function headOf({ mode, to, over }: RollbackPlan): string {
  const where = to === null ? 'to the state before the first deployment' : `to ${to.deployId}${detailsOf(to)}`
  if (mode === 'overlay') return `The archive of a deployment over the files that are there: ${where}`
  return `Exactly ${where}, over ${countOf(over, 'deployment')}`
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
