import type { Enrollment, ListedNode, ListedPlacement } from '../../../model/node.js'
import {
  rolloutStates,
  type ListedRollout,
  type ListedRolloutNode,
  type RolloutDetail
} from '../../../model/rollout.js'
import { enrollmentFields } from '../../enrollments.js'
import { drainFields, nodeFields } from '../../nodes.js'
import { placementFields } from '../../placements.js'
import { haltFields, maxRolloutListLimit, revertFields, rolloutListLimit } from '../../rollouts.js'
import { answer, limitOf, media, query, type Operations } from '../operation.js'
import { done, success } from '../records/common.js'
import { enrollment, node, placement, rollout, rolloutDetail, rolloutNode } from '../records/fleet.js'
import { list, record, text } from '../schema.js'

const oneNode = record<{ success: true; node: ListedNode }>({ success, node })
const oneRollout = record<{ success: true; rollout: ListedRollout }>({ success, rollout })
const placements = record<{ success: true; placements: ListedPlacement[] }>({ success, placements: list(placement) })
const changeErrors = ['not_found', 'other_project', 'rollout_state']

/** Nodes, enrollments, placements and rollouts. */
export const fleetOperations: Operations = {
  'GET /api/nodes': {
    summary: 'List the nodes of the fleet',
    description: 'A token that is limited to projects sees the nodes on which one of them is placed.',
    parameters: [
      query('projectId', 'Lists only the nodes on which this project is placed'),
      query('label', 'Lists only the nodes with this label, given as name=value')
    ],
    answers: answer(
      'The nodes, by name',
      record<{ success: true; nodes: ListedNode[] }>({ success, nodes: list(node) })
    ),
    errors: ['invalid_field', 'not_found']
  },
  'GET /api/nodes/:node': {
    summary: 'Get a node',
    description: 'The path contains the id or the name of the node.',
    answers: answer('The node', oneNode),
    errors: ['not_found']
  },
  'PATCH /api/nodes/:node': {
    summary: 'Rename a node, or replace its labels',
    description: 'Fields that are absent keep their values. A rollout that has begun keeps its waves.',
    body: nodeFields,
    fields: { name: 'The new name, unique in the fleet', labels: 'All labels of the node after the change' },
    answers: answer('The changed node', oneNode),
    errors: ['not_found', 'name_taken']
  },
  'PUT /api/nodes/:node/drain': {
    summary: 'Leave a node out of rollouts, or let it take part again',
    description:
      'A node that has begun to put files in place finishes that. A node that takes part again gets what is desired now.',
    body: drainFields,
    fields: { drained: 'Whether rollouts leave the node out' },
    answers: answer('The changed node', oneNode),
    errors: ['not_found']
  },
  'DELETE /api/nodes/:node': {
    summary: 'Remove a node from the fleet',
    description: 'Its key is no longer accepted, and it leaves all projects and rollouts. Its files stay.',
    answers: answer('The node was removed', done),
    errors: ['not_found']
  },
  'GET /api/enrollments': {
    summary: 'List the enrollment tokens that are still valid',
    answers: answer(
      'The enrollments, without their secrets',
      record<{ success: true; enrollments: Enrollment[] }>({ success, enrollments: list(enrollment) })
    )
  },
  'POST /api/enrollments': {
    summary: 'Create a token with which one machine becomes a node',
    description:
      'Only this answer contains the token, which the server keeps as a hash. It can be used once. It also names the key of the server, so that the machine accepts orders of this server only.',
    body: enrollmentFields,
    fields: {
      name: 'The name of the node. Default: the machine proposes its host name',
      labels: 'Labels of the node, in addition to those that the machine proposes',
      seconds: 'How long the token is valid. Default: one hour'
    },
    isBodyOptional: true,
    answers: answer(
      'The token, and the command to run on the machine',
      record<{ success: true; enrollment: Enrollment; token: string; command: string }>({
        success,
        enrollment,
        token: text('svcnode_…'),
        command: text('SVC_ENROLL_TOKEN=svcnode_… svc agent --hub https://deploy.example.org')
      })
    ),
    errors: ['name_taken', 'too_many_enrollments']
  },
  'DELETE /api/enrollments/:id': {
    summary: 'Revoke an enrollment token',
    answers: answer('The token was revoked', done),
    errors: ['not_found']
  },
  'GET /api/projects/:id/placements': {
    summary: 'List the nodes on which a project is placed',
    description: 'The list is empty if the server deploys the project itself.',
    answers: answer('The placements, by name of the node', placements),
    errors: ['not_found']
  },
  'PATCH /api/projects/:id/placements': {
    summary: 'Place a project on nodes, or remove it from nodes',
    description:
      'Nodes are named by id or name. A new node gets the release that is desired now. The files on a removed node stay.',
    body: placementFields,
    fields: {
      add: 'Nodes to add, each with its own directory if `deployPath` is given',
      remove: 'Nodes to remove'
    },
    answers: answer('All placements after the change', placements),
    errors: ['not_found', 'rollout_in_progress']
  },
  'GET /api/rollouts': {
    summary: 'List rollouts, newest first',
    description: 'A deploy token gets the rollouts of its own project.',
    parameters: [
      query('projectId', 'Lists only the rollouts of this project'),
      query('deployId', 'Lists only the rollouts of this deployment'),
      query('state', 'Lists only rollouts in this state', { type: 'string', enum: rolloutStates }),
      limitOf(rolloutListLimit, maxRolloutListLimit),
      query('before', 'Lists only rollouts before the one with this id')
    ],
    answers: answer(
      'The rollouts',
      record<{ success: true; rollouts: ListedRollout[] }>({ success, rollouts: list(rollout) })
    ),
    errors: ['invalid_field', 'not_found', 'other_project']
  },
  'GET /api/rollouts/:rolloutId': {
    summary: 'Get a rollout with its nodes',
    answers: answer(
      'The rollout, its nodes sorted by wave and name',
      record<{ success: true; rollout: RolloutDetail }>({ success, rollout: rolloutDetail })
    ),
    errors: ['not_found', 'other_project']
  },
  'GET /api/rollouts/:rolloutId/nodes/:node': {
    summary: 'Get a node of a rollout',
    description: 'The path contains the id or the name of the node.',
    answers: answer(
      'The node, with the end of its output',
      record<{ success: true; node: ListedRolloutNode }>({ success, node: rolloutNode })
    ),
    errors: ['not_found', 'other_project']
  },
  'GET /api/rollouts/:rolloutId/events': {
    summary: 'Follow a rollout',
    description:
      'One JSON object in each line. The first line is `rollout`; then `node` for each node that changes, and `state` when the rollout changes. The stream ends after the line `end`, when the rollout is halted, reverted or done.',
    answers: media('The events as newline-delimited JSON', 'application/x-ndjson'),
    errors: ['not_found', 'other_project']
  },
  'POST /api/rollouts/:rolloutId/halt': {
    summary: 'Halt a rollout',
    description: 'No other node begins. A node that has begun finishes. `resume` and `revert` are possible afterwards.',
    body: haltFields,
    fields: { reason: 'Why. It is shown with the rollout' },
    isBodyOptional: true,
    answers: answer('The rollout', oneRollout),
    errors: changeErrors
  },
  'POST /api/rollouts/:rolloutId/resume': {
    summary: 'Continue a rollout that was halted or reverted',
    description: 'Nodes that failed try again. Nodes that do not answer are skipped.',
    answers: answer('The rollout', oneRollout),
    errors: changeErrors
  },
  'POST /api/rollouts/:rolloutId/revert': {
    summary: 'Put back the files before a rollout',
    description: 'Each node that has the release undoes its deployment. Its earlier files are restored exactly.',
    body: revertFields,
    fields: { wave: 'The first wave that goes back; later ones go back, too. Default: all' },
    isBodyOptional: true,
    answers: answer('The rollout', oneRollout),
    errors: changeErrors
  },
  'POST /api/rollouts/:rolloutId/approve': {
    summary: 'Begin the next wave of a rollout',
    description: 'Possible while the rollout waits for an approval, or pauses.',
    answers: answer('The rollout', oneRollout),
    errors: changeErrors
  }
}
