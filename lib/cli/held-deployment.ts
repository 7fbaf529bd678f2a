import { Refusal } from '../base/errors.js'
import type { EffectiveConfig } from '../config/precedence.js'
import type { Api } from './client/api.js'
import { projectIdOf } from './client/session.js'
import type { Context } from './command.js'

/** Returns the id of the project's deployment whose earlier files can still be put back. Refuses if there is none. */
export async function heldDeploymentId(
  api: Pick<Api, 'deployments'>,
  { context, config }: { context: Context; config: EffectiveConfig }
): Promise<string> {
  const projectId = projectIdOf(context, config)
  const running = await api.deployments({ projectId, status: 'running', output: 'none', limit: 1 })
  const held = running.find(({ heldFor }) => heldFor !== null && heldFor !== undefined)
  if (held !== undefined) return held.id
  throw new Refusal('conflict', 'not_waiting', `No deployment of ${projectId} waits for its checks or a confirmation`)
}
