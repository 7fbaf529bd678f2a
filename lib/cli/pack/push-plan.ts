/* The plan of a push: one that was saved before, or one that is made because the push asks for more than the policy. */
import { Refusal } from '../../base/errors.js'
import { pruneWishes } from '../../model/plan.js'
import { isRefused } from '../../shared/refused-plan.js'
import type { SavedPlan } from '../plan-file.js'
import { exitCodeOf, planLines, problemLines } from '../plan-view.js'
import type { Context } from '../command.js'
import { withInterrupts } from '../interrupts.js'
import { planProject, readTreeOfProject, type Planning, type Wishes } from './planning.js'

/** What `--prune` and `--force` are without options. */
const noWishes: Wishes = { prune: undefined, force: false }

const pruneChoices = pruneWishes.filter(wish => wish !== 'off')

/** Options of commands that plan. */
export const wishOptions = {
  prune: {
    type: 'text',
    choices: pruneChoices,
    bare: 'managed',
    value: 'force',
    help: 'remove files of earlier deployments that are missing now; "force" removes however many they are, "foreign" also those that svc did not put there'
  },
  force: { type: 'switch', help: 'replace files that were edited on the server, although the policy refuses that' }
} as const

/** Returns what the options ask for. */
export function wishesOf({ prune, force }: { prune: string | undefined; force: boolean }): Wishes {
  return { ...noWishes, ...(prune !== undefined && { prune: pruneChoices.find(choice => choice === prune) }), force }
}

/** Shows what a push would do. Returns the exit code. */
export async function dryRun(
  { json, ...planning }: Omit<Planning, 'all' | 'signal'> & { json: boolean },
  context: Context
): Promise<number> {
  const { output } = context
  const plan = await withInterrupts(context.host, signal => planProject({ ...planning, all: false, signal }, context))
  if (json) output.json(plan)
  else for (const line of planLines(plan, { paint: output.paint, nowMs: Date.now(), all: false })) output.print(line)
  return exitCodeOf(plan, false)
}

/** Refuses (`conflict`, tree_changed) a saved plan of other files, or of another project. */
export async function checkPlan(
  plan: SavedPlan,
  { projectId, config, signal }: Pick<Planning, 'projectId' | 'config' | 'signal'>,
  context: Context
): Promise<void> {
  const why =
    plan.projectId !== projectId
      ? `the plan is for project ${plan.projectId}, not for ${projectId}`
      : (await readTreeOfProject(context, config, signal)).treeSha256 === plan.treeSha256
        ? null
        : 'the files differ from those of the plan'
  if (why !== null) throw new Refusal('conflict', 'tree_changed', `Nothing was deployed: ${why}. Plan again`)
}

/**
 * Plans a push that asks for something, and returns the id of the plan; undefined if it asks for nothing. An older
 * server has no plans, so nothing is uploaded that it would understand otherwise. Refuses (`conflict`, plan_refused) a
 * push that would fail.
 */
export async function planForWishes(planning: Omit<Planning, 'all'>, context: Context): Promise<string | undefined> {
  const { prune, force } = planning.wishes
  if (prune === undefined && !force) return undefined
  const plan = await planProject({ ...planning, all: false }, context)
  if (prune !== undefined && plan.prune !== prune) {
    throw new Refusal('unsupported', 'server_too_old', 'This server is too old for --prune. Nothing was deployed')
  }
  if (plan.planId !== null && !isRefused(plan)) return plan.planId
  for (const line of problemLines(plan, context.output.paint)) context.output.note(line)
  throw new Refusal('conflict', 'plan_refused', 'Nothing was deployed: the plan says that the push would fail')
}
