import { Refusal } from '../../base/errors.js'
import { isGoing, type ListedRollout } from '../../model/rollout.js'
import { parseLabel } from '../../model/node.js'
import { type Context, usage } from '../command.js'
import { createFleetApi, type FleetApi } from '../client/fleet-api.js'
import { type AdminOptions, openProject, projectIdOf } from '../client/session.js'
import { findProject, isProjectId } from '../project-options.js'
import type { Api } from '../client/api.js'

/** Operand of the commands for one node. */
export const nodeOperand = { required: true, complete: 'nodes', help: 'name or id of the node' } as const

/** Option that sets or selects a label of nodes. */
export const labelOption = { type: 'text', value: 'key=value', repeatable: true } as const

/** Operand of the commands for one rollout. */
export const rolloutOperand = {
  complete: 'rollouts',
  help: 'id of the rollout; default: the newest one of the project'
} as const

/** Reads `--label key=value`. Throws a usage error. */
export function readLabels(words: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    words.map(word => {
      const label = parseLabel(word)
      if (label === null) throw usage('--label', `--label cannot be "${word}": it must be key=value, like zone=eu`)
      return [label.key, label.value]
    })
  )
}

/** Checks one `--label key=value`, and returns it. */
export function parsedLabel(word: string): string {
  readLabels([word])
  return word
}

/** Returns what nodes get that were placed now; `newest` is the newest rollout of the project. */
export function placedLine(newest: Pick<ListedRollout, 'id' | 'state' | 'deployId'> | undefined): string {
  if (newest === undefined) return 'Nothing was rolled out yet: the nodes get the next push.'
  const { id, state, deployId } = newest
  if (state === 'done') return `The added nodes get ${deployId}, as rollout ${id} did.`
  if (isGoing(state) && state !== 'reverting') return `The added nodes get ${deployId} with rollout ${id}.`
  const first = 'The added nodes get nothing yet:'
  if (state === 'reverting') return `${first} rollout ${id} is going back. Then they get what the others go back to.`
  if (state === 'reverted')
    return `${first} rollout ${id} was reverted, and the archive of no earlier one is kept. Push again.`
  return `${first} rollout ${id} is halted. Next: svc rollout revert ${id}   or   svc rollout resume ${id}`
}

interface Given {
  operands: { rolloutId: string | undefined }
  options: AdminOptions & { project: string | undefined }
}

/** What a command for one rollout needs. */
export interface RolloutPlace {
  api: Api
  fleet: FleetApi
  rolloutId: string
}

/** Opens the API, and finds the rollout that the command line names: the newest one of the project by default. */
export async function openRollout(
  context: Context,
  { operands: { rolloutId }, options }: Given
): Promise<RolloutPlace> {
  const isNeeded = rolloutId === undefined && options.project === undefined
  const { api, config } = await openProject(context, options, isNeeded)
  const fleet = createFleetApi(api.client)
  if (rolloutId !== undefined) return { api, fleet, rolloutId }
  const word = projectIdOf(context, config)
  const projectId = isProjectId(word) ? word : (await findProject(api, word)).id
  const [newest] = await fleet.rollouts({ projectId, limit: 1 })
  if (newest === undefined) throw new Refusal('not_found', 'no_rollout', `There is no rollout of ${word}`)
  return { api, fleet, rolloutId: newest.id }
}
