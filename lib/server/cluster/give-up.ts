/* The leader asks another hub to give up an unfinished target on its machine: a user of that hub has told it to. */
import { line, nullable, maxPathLength, readFields } from '../../base/fields.js'
import { notFound, Refusal } from '../../base/errors.js'
import type { HubClient } from '../../http/outgoing/hub-request.js'
import type { UnfinishedTarget } from '../../model/health.js'
import type { ReplicatedStore } from '../../store/log/replicated-store.js'

/** What `giveUpOn` needs. */
export interface GiveUpNeeds {
  store: { peers: Pick<ReplicatedStore['peers'], 'find'> }
  client: Pick<HubClient, 'json'>
}

const limitMs = 15_000
const answerFields = { target: nullable(line({ max: maxPathLength })) }

/** Resolves with what was given up. Refuses 404, (`conflict`) `target_there`, and what prevents that the hub answers. */
export async function giveUpOn(
  { store, client }: GiveUpNeeds,
  hub: string,
  deployId: string
): Promise<UnfinishedTarget> {
  const to = store.peers.find(hub)
  if (to === null) throw notFound('Hub', hub)
  const target = `/api/hub/unfinished/${encodeURIComponent(deployId)}`
  const asked = { method: 'POST', target, body: {}, signal: AbortSignal.timeout(limitMs) } as const
  const answer = await client.json(to, asked).catch((error: unknown) => {
    // To ask again would not help.
    if (error instanceof Refusal && error.code === 'target_there')
      throw new Refusal('conflict', error.code, error.message, { cause: error })
    throw error instanceof Refusal && error.code === 'not_found' ? notFound('Unfinished target', deployId) : error
  })
  return { deployId, target: readFields(answer, answerFields).target }
}
