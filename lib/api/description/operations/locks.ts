import type { ListedLock } from '../../../model/lock.js'
import { listedLockKinds, type ListedMaintenance, type Maintenance } from '../../../model/maintenance.js'
import { lockFields, unlockFields } from '../../locks.js'
import { maintenanceFields } from '../../maintenance.js'
import { listedMaintenance, lock, maintenance } from '../locks.js'
import { answer, query, type Operation, type Operations } from '../operation.js'
import { success } from '../records/common.js'
import { anyOf, list, nullable, record, text } from '../schema.js'

const place = {
  body: lockFields,
  fields: {
    reason: 'Why deployments are refused. Everyone whose deployment is refused reads it',
    seconds: 'Seconds until the lock expires. Default: one day',
    expiresAt: 'When the lock expires, instead of `seconds`: an instant with its time zone, within 30 days',
    renew: 'Whether to replace the reason and the end of your own lock'
  },
  answers: answer('The lock', record<{ success: true; lock: ListedLock }>({ success, lock })),
  errors: ['locked']
} satisfies Partial<Operation>

const remove = {
  body: unlockFields,
  fields: { takeOver: 'Why you remove the lock of another owner. Not with a deploy token' },
  isBodyOptional: true,
  answers: answer(
    'The removed lock',
    record<{ success: true; message: string; lock: ListedLock }>({
      success,
      message: text('The lock was removed'),
      lock
    })
  ),
  errors: ['not_found', 'other_project', 'other_owner']
} satisfies Partial<Operation>

const state = record<{ success: true; maintenance: Maintenance | null }>({
  success,
  maintenance: nullable(maintenance)
})

/** Locks of projects and of the whole server, and the maintenance of projects. */
export const lockOperations: Operations = {
  'GET /api/locks': {
    summary: 'List the locks in force',
    description: 'A deploy token gets the locks that refuse its own deployments.',
    parameters: [
      query('projectId', 'Lists only the locks that refuse deployments of this project'),
      query('kind', 'Lists locks, projects in maintenance, or both. Default: `lock`', {
        type: 'string',
        enum: listedLockKinds
      })
    ],
    answers: answer(
      'The locks, first that of the server, then the projects in maintenance',
      list(anyOf<[ListedLock, ListedMaintenance]>(lock, listedMaintenance))
    ),
    errors: ['invalid_field']
  },
  'PUT /api/projects/:id/lock': {
    summary: 'Lock a project',
    description:
      'Refuses uploads and rollbacks of the project until the lock expires or is removed. A queued deployment fails when its turn comes; a running one continues.',
    ...place,
    errors: [...place.errors, 'not_found', 'other_project']
  },
  'DELETE /api/projects/:id/lock': { summary: 'Unlock a project', ...remove },
  'GET /api/projects/:id/maintenance': {
    summary: 'Get the maintenance of a project',
    answers: answer('The maintenance; null if it is off', state),
    errors: ['not_found', 'other_project']
  },
  'PUT /api/projects/:id/maintenance': {
    summary: 'Begin or end the maintenance of a project',
    description:
      'Places the file of the policy `maintenanceFile` in the target, or removes it. Answers when that is done. ' +
      'Waits up to 30 seconds for deployments of the project. Deployments are not refused during a maintenance.',
    body: maintenanceFields,
    fields: {
      on: 'Whether the project is to be in maintenance. Ending one that is off changes nothing',
      reason: 'Why. The page of svc shows it to visitors',
      force: 'Whether to replace a file of somebody else at that path, or to remove the file although it was changed'
    },
    answers: answer('The maintenance after the change; null if it is off', state),
    errors: [
      'deploy_token_may_not',
      'not_found',
      'other_project',
      'other_owner',
      'maintenance_on',
      'maintenance_changed',
      'maintenance_file_exists',
      'maintenance_page',
      'group_unusable',
      'deployment_running',
      'target_missing'
    ]
  },
  'PUT /api/lock': {
    summary: 'Lock the whole server',
    description: 'Refuses uploads and rollbacks of every project, as the lock of a project does.',
    ...place
  },
  'DELETE /api/lock': { summary: 'Unlock the whole server', ...remove }
}
