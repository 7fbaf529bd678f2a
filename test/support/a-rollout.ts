import { defaultRolloutPolicy, type ListedRolloutNode, type RolloutDetail } from '../../lib/model/rollout.js'

/** Returns a node of a rollout: `web-1` is in wave 1 and has the id `node_1`. */
export function rolloutNode(nodeName: string, given: Partial<ListedRolloutNode> = {}): ListedRolloutNode {
  return {
    nodeId: nodeName.replace(/^.*?(\w+)$/, 'node_$1'),
    nodeName,
    wave: 1,
    phase: 'prepared',
    attempt: 1,
    swapAttempt: 0,
    hasBegun: false,
    error: null,
    updatedAt: '2030-01-01T00:00:00.000Z',
    isConnected: true,
    failedStep: null,
    output: null,
    tookMs: null,
    ...given
  }
}

/** Returns a rollout with these nodes. */
export function rolloutDetail(nodes: ListedRolloutNode[], given: Partial<RolloutDetail> = {}): RolloutDetail {
  const counts: RolloutDetail['counts'] = {}
  for (const { phase } of nodes) counts[phase] = (counts[phase] ?? 0) + 1
  return {
    id: 'ro_a',
    projectId: 'proj_a',
    projectName: 'shop',
    number: 1,
    deployId: 'dep_a',
    treeSha256: '4f1a'.repeat(16),
    policy: defaultRolloutPolicy,
    state: 'swapping',
    wave: 1,
    waves: Math.max(1, ...nodes.map(({ wave }) => wave)),
    lastAttempt: 1,
    pausedUntil: null,
    revertFrom: null,
    haltedReason: null,
    createdAt: '2030-01-01T00:00:00.000Z',
    endedAt: null,
    counts,
    nodeCount: nodes.length,
    nodes,
    ...given
  }
}
