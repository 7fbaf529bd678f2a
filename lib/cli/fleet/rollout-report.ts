import type { RolloutDetail } from '../../model/rollout.js'
import { exitCodes, type Context } from '../command.js'
import type { GivenOptions } from '../hints.js'
import type { RolloutPlace } from './fleet-place.js'
import { nextLine, watchRollout } from './rollout-watch.js'
import { rolloutLines } from './wave-view.js'

/** The option `--no-wait`. */
export const waitOption = { type: 'switch', default: true, help: 'do not wait for the end of the rollout' } as const

interface Reported {
  /** The state that is a success. */
  wanted: 'done' | 'reverted'
  options: GivenOptions & { json: boolean }
}

/** Follows a rollout to its end, prints it, and returns the exit code: 0 if it reached the state that was wanted. */
export async function reportRollout(
  context: Context,
  place: RolloutPlace,
  { wanted, options }: Reported
): Promise<number> {
  const { output } = context
  const rollout = await watchRollout(context, place, { given: options })
  if (options.json) output.json(rollout)
  else for (const line of rolloutLines(rollout, { paint: output.paint, nowMs: Date.now() })) output.print(line)
  const next = nextLine(rollout, options)
  if (next !== null) output.note(next)
  return isReached(rollout, wanted) ? exitCodes.success : exitCodes.failed
}

/** Whether a rollout ended as wanted. A revert is a success only if no node is left with the release. */
function isReached({ state, counts }: RolloutDetail, wanted: Reported['wanted']): boolean {
  return state === wanted && (counts.stuck ?? 0) === 0
}
