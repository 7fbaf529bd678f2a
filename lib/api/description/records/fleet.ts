/* Schemas of the fleet: nodes, enrollments, placements and rollouts. */
import type { Enrollment, ListedNode, ListedPlacement } from '../../../model/node.js'
import {
  nodePhases,
  rolloutFailureModes,
  rolloutStates,
  type ListedRollout,
  type ListedRolloutNode,
  type NodePhase,
  type RolloutAhead,
  type RolloutDetail,
  type RolloutPolicy
} from '../../../model/rollout.js'
import { rolloutPolicy as policyReader } from '../../../model/rollout-policy.js'
import {
  optional,
  constant,
  boolean,
  described,
  dictionary,
  instant,
  integer,
  list,
  named,
  nullable,
  nullableInstant,
  oneOf,
  record,
  schema,
  text
} from '../schema.js'
import { deployId, deployPath, nullableBytes, nullableText, projectId, sha256 } from './common.js'

const nodeId = text('node_1a2b3c4d5e6f7a8b')
const labels = dictionary(text('eu'), { zone: 'eu' })

/** A project on a node. */
export const placement = named(
  'Placement',
  record<ListedPlacement>({
    projectId,
    projectName: text('Shop'),
    nodeId,
    nodeName: text('web-1'),
    deployPath: described('The directory on the node', deployPath),
    liveDeployId: described(
      'The deployment of the hub whose files are in place. Null: none, or one that was made on the node itself',
      nullable(deployId)
    ),
    liveTree: described('The checksum of the tree that svc put there last. Null: none, or unknown', nullable(sha256)),
    seenAt: described('When the node said so', nullableInstant),
    isDrifted: described('Whether files were edited there, or deployed on the node itself', boolean(false))
  })
)

/** A node. */
export const node = named(
  'Node',
  record<ListedNode>({
    id: nodeId,
    name: text('web-1'),
    labels,
    publicKey: described(
      'The Ed25519 key of the node: 32 bytes in base64',
      text('CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=')
    ),
    isDrained: described('Whether rollouts leave it out', boolean(false)),
    enrolledAt: instant,
    lastSeenAt: described('When the hub heard of it last. Null: not since it was enrolled', nullableInstant),
    version: described('The version of svc that it runs', nullable(text('1.4.0'))),
    freeBytes: described('Free bytes where it keeps its data', nullableBytes),
    sharedSince: described(
      'Since when two machines have used its identity: it gets no orders. Null: one machine does',
      nullableInstant
    ),
    isConnected: boolean(true),
    isOutdated: optional(
      described(
        'Present if its agent is older: it checks the signature of an order, not whether it was recorded. Upgrade it',
        constant(true)
      )
    ),
    placements: described('The projects on it that the caller may see', list(placement))
  })
)

/** A one-time token, without its secret. */
export const enrollment = named(
  'Enrollment',
  record<Enrollment>({
    id: text('enr_1a2b3c4d5e6f7a8b'),
    name: described('The name of the node. Null: the machine proposes one', nullable(text('web-1'))),
    labels,
    createdAt: instant,
    createdBy: described('The caller that created it, as in the audit log', text('admin')),
    expiresAt: instant
  })
)

/** The rollout that deployments wait for. */
export const rolloutAhead = record<RolloutAhead>({
  id: text('ro_edlz2oxv4temvogl'),
  state: oneOf(rolloutStates),
  since: described('When its last wave ended, if it waits for the next one; otherwise when it began', instant),
  until: described('When the next wave begins by itself. Null: it does not', nullableInstant)
})

/** The policy of a rollout. */
export const rolloutPolicy = named(
  'RolloutPolicy',
  record<RolloutPolicy>({
    canary: described('Number of nodes of the first wave', integer(1)),
    then: described('The size of each further wave: a number of nodes, or a percentage of all', text('25%')),
    pause: described(
      'Seconds between two waves. `approve`: each wave after the first waits for an approval',
      schema<number | 'approve'>({ anyOf: [{ type: 'integer', minimum: 0 }, { const: 'approve' }] }, 60)
    ),
    maxFailures: described('Number of nodes that may fail. One more stops the rollout', integer(0)),
    maxUnreachable: described('Number or percentage of nodes that may be unreachable', text('10%')),
    onFailure: described(
      'What happens when it stops: nothing, the nodes of the wave go back, or all go back',
      oneOf(rolloutFailureModes)
    ),
    order: described('The label by which nodes are sorted into waves. Null: by name', nullable(text('zone')))
  })
)

/** The keys of the policy that one push sets. */
export const givenRollout = schema<never>({ ...policyReader.schema }, policyReader.example)

const ofRollout = {
  id: text('ro_1a2b3c4d5e6f7a8b'),
  projectId,
  number: described('The number of the rollout among those of its project. Only the last one gives orders', integer(7)),
  deployId,
  treeSha256: sha256,
  policy: rolloutPolicy,
  state: oneOf(rolloutStates, 'swapping'),
  wave: described('The wave that is in progress, or was the last one. 0: none has begun', integer(2)),
  waves: integer(4),
  lastAttempt: described('The highest number of an order to a node. 0: there was no order', integer(2)),
  pausedUntil: nullableInstant,
  revertFrom: described('The first wave that goes back', nullable(integer(1), null)),
  haltedReason: described('Why it was halted, or goes back', nullable(text('1 failed (allowed: 0)'), null)),
  createdAt: instant,
  endedAt: nullableInstant,
  projectName: text('Shop'),
  counts: described(
    `Number of nodes in each phase: ${nodePhases.join(', ')}`,
    schema<Partial<Record<NodePhase, number>>>(
      { type: 'object', additionalProperties: { type: 'integer' } },
      { good: 3, swapping: 2, prepared: 7 }
    )
  ),
  nodeCount: integer(12)
}

/** A rollout. */
export const rollout = named('Rollout', record<ListedRollout>(ofRollout))

/** A node in a rollout. */
export const rolloutNode = named(
  'RolloutNode',
  record<ListedRolloutNode>({
    nodeId,
    nodeName: text('web-1'),
    wave: described('The number of its wave, from 1', integer(2)),
    phase: oneOf(nodePhases, 'good'),
    attempt: described('The number of its last order. 0: none yet', integer(2)),
    swapAttempt: described('The number of its last order to put the files in place. 0: none', integer(2)),
    hasBegun: described('Whether it said that it began that order', boolean(true)),
    error: described('Why it failed', nullable(text('Check http://127.0.0.1:3000/up answered 502'), null)),
    updatedAt: instant,
    isConnected: boolean(true),
    failedStep: described('The step of the deployment on the node that failed', nullable(text('verify'), null)),
    output: described('The end of the output of the deployment on the node', nullableText),
    tookMs: described('Milliseconds from the order to the answer', nullable(integer(2100)))
  })
)

/** A rollout with its nodes. */
export const rolloutDetail = named('RolloutDetail', record<RolloutDetail>({ ...ofRollout, nodes: list(rolloutNode) }))
