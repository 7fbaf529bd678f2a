/* What rollbacks and undos have in common: a dry run, and the run that is watched until its end. */
import type { Provenance } from '../model/provenance.js'
import type { RollbackPlan } from '../model/rollback-plan.js'
import { mayHaveArrived, type Api } from './client/api.js'
import type { Run } from './client/runs.js'
import { exitCodes, type Context } from './command.js'
import { followLine, type GivenOptions } from './hints.js'
import { withInterrupts } from './interrupts.js'
import { rollbackLines } from './rollback-view.js'
import { nothingKnown } from './run-result.js'
import { Interrupted } from './terminal/prompt.js'
import { reportRun, watchRun } from './watch.js'
import { withWitness, witnessOption } from './witness.js'

/** Options that rollbacks and undos have in common. */
export const exactOptions = {
  force: { type: 'switch', help: 'take back files that were edited on the server, too' },
  'dry-run': { type: 'switch', help: 'only show what would happen' },
  ...witnessOption
} as const

/** Prints what would happen. Returns the exit code: 1 if it would be refused. */
export async function showRollback(
  ask: (signal: AbortSignal) => Promise<RollbackPlan>,
  { json, force }: { json: boolean; force: boolean },
  { host, output }: Context
): Promise<number> {
  const plan = await withInterrupts(host, ask)
  if (json) output.json(plan)
  else for (const line of rollbackLines(plan, { paint: output.paint, force })) output.print(line)
  return plan.problem === null ? exitCodes.success : exitCodes.failed
}

/** A rollback or an undo that is to run. */
export interface Started {
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
  /** The value of --witness. */
  witness: string
}

/** Runs it and prints its output. Returns the exit code. */
export async function runRollback(api: Api, started: Started, context: Context): Promise<number> {
  const { noun, done, projectId, provenance, message, json, given } = started
  const { output } = context
  const watched = await withInterrupts(context.host, async signal => {
    const run = await started.start(signal).catch((error: unknown) => {
      if (error instanceof Interrupted || mayHaveArrived(error))
        output.note(
          `The server did not answer, so the ${noun} may have begun. Run "${followLine(null, given)}" to check`
        )
      throw error
    })
    return watchRun(run, context, { api, projectId, given, print: json ? output.note : output.print, signal })
  })
  const known = { ...nothingKnown(), projectId, provenance, message: message ?? null }
  const finish = () => reportRun(watched, context, { api, what: done, json, given, known })
  return await withWitness({ client: api.client, mode: started.witness }, context, finish)
}
