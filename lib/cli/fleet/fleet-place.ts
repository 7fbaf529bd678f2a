import { Refusal } from '../../base/refusal.js'
import { parseLabel } from '../../model/node-labels.js'
import { usage } from '../args.js'
import { createFleetApi, type FleetApi } from '../client/fleet-api.js'
import { loadConfiguration, openProjectApi, projectIdOf } from '../client/session.js'
import type { Context } from '../command.js'
import { sharedOptions } from '../common-options.js'
import { findProject } from '../project-options.js'
import type { Api } from '../client/api.js'

/** Operand of the commands for one node. */
export const nodeOperand = { required: true, complete: 'nodes', help: 'name or id of the node' } as const

/** Option that sets or selects a label of nodes. */
export const labelOption = { type: 'text', value: 'key=value', repeatable: true } as const

/** Options of the commands for one rollout. */
export const rolloutPlaceOptions = {
  env: sharedOptions.env,
  server: sharedOptions.server,
  project: sharedOptions.project,
  token: sharedOptions.token
} as const

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

interface Given {
  operands: { rolloutId: string | undefined }
  options: {
    env: string | undefined
    server: string | undefined
    project: string | undefined
    token: string | undefined
  }
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
  { operands: { rolloutId }, options: { env, server, project, token } }: Given
): Promise<RolloutPlace> {
  const { config } = await loadConfiguration(context, {
    flags: { server, project, token },
    env,
    project: rolloutId === undefined && project === undefined ? 'needed' : 'optional'
  })
  const api = await openProjectApi(context, config)
  const fleet = createFleetApi(api.client)
  if (rolloutId !== undefined) return { api, fleet, rolloutId }
  const word = projectIdOf(context, config)
  const projectId = /^proj_\w+$/.test(word) ? word : (await findProject(api, word)).id
  const [newest] = await fleet.rollouts({ projectId, limit: 1 })
  if (newest === undefined) throw new Refusal('not_found', 'no_rollout', `There is no rollout of ${word}`)
  return { api, fleet, rolloutId: newest.id }
}
