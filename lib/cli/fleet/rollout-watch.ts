import type { ListedRollout, RolloutDetail } from '../../model/rollout.js'
import type { Context } from '../command.js'
import { commandLine, type GivenOptions } from '../hints.js'
import { withInterrupts } from '../interrupts.js'
import { Interrupted } from '../terminal/prompt.js'
import type { RolloutPlace } from './fleet-place.js'
import { followRollout } from './rollout-follow.js'
import { createRolloutView } from './rollout-views.js'

/**
 * Follows a rollout and shows it until it is done, halted or reverted, or until `until` is true. Ctrl-C stops watching:
 * then it says how to halt the rollout, and throws Interrupted.
 */
export async function watchRollout(
  context: Context,
  { fleet, rolloutId }: Pick<RolloutPlace, 'fleet' | 'rolloutId'>,
  { until, given = {} }: { until?: (rollout: RolloutDetail) => boolean; given?: GivenOptions } = {}
): Promise<RolloutDetail> {
  const { host, output } = context
  const view = createRolloutView(host)
  try {
    return await withInterrupts(host, signal =>
      followRollout({ fleet, rolloutId, view, signal, ...(until && { until }) })
    )
  } catch (error) {
    if (error instanceof Interrupted) output.note(detachedLine(rolloutId, given))
    throw error
  }
}

/** Says that a rollout continues after the command has ended, and how to halt it. */
export function detachedLine(rolloutId: string, given: GivenOptions): string {
  return (
    `Detached: the rollout continues. Halt it with: ${commandLine(['rollout', 'halt', rolloutId], given)}\n` +
    `To watch it again: ${commandLine(['rollout', 'status', rolloutId, '--follow'], given)}`
  )
}

/** Returns what a user can do next about a rollout that waits or was halted; null: nothing. */
export function nextLine({ id, state }: Pick<ListedRollout, 'id' | 'state'>, given: GivenOptions): string | null {
  const line = (verb: string): string => commandLine(['rollout', verb, id], given)
  if (state === 'approval') return `next: ${line('approve')}   or   ${line('halt')}`
  if (state === 'halted') return `next: ${line('revert')}   or   ${line('resume')}`
  return null
}
