import type { AgentReport } from '../../lib/model/fleet-wire.js'
import type { NodeAnswer, RolloutPolicy } from '../../lib/model/rollout.js'
import { type StoredRollout, storedRolloutNode } from '../../lib/core/store/tables/rollouts.js'
import { aRollout, type openFleet } from './fleet-stage.js'

type Stage = Pick<Awaited<ReturnType<typeof openFleet>>, 'hub' | 'store'>

/** Begins a rollout of `proj_a` on all of its nodes. Returns its id. */
export async function beginRollout(
  { hub }: Pick<Stage, 'hub'>,
  policy: Partial<RolloutPolicy> = {},
  projectId = 'proj_a',
  given: Partial<Pick<StoredRollout, 'deployId' | 'archiveSha256' | 'archiveBytes' | 'sealed'>> = {}
): Promise<string> {
  const { deployId, treeSha256, archiveSha256, archiveBytes, policy: all } = aRollout({}, policy)
  const release = { deployId, treeSha256, archiveSha256, archiveBytes, sealed: null, ...given }
  return hub.begin({ projectId, policy: all, ...release })
}

/** Returns a report with one answer to the newest order of a node. */
export function answerOf(
  { store }: Pick<Stage, 'store'>,
  {
    id,
    nodeId,
    answer,
    ...given
  }: { id: string; nodeId: string; answer: NodeAnswer } & Partial<AgentReport['answers'][number]>
): AgentReport {
  const attempt = storedRolloutNode(store, id, nodeId)?.attempt ?? 0
  const nothing = { error: null, failedStep: null, output: null, tookMs: null }
  const answers = [{ projectId: 'proj_a', rolloutId: id, attempt, answer, ...nothing, ...given }]
  return { version: '2.0.0', freeBytes: null, answers, placements: [] }
}
