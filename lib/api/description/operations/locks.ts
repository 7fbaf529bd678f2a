import type { ListedLock } from '../../../model/lock.js'
import { lockFields, unlockFields } from '../../locks.js'
import { lock } from '../locks.js'
import { answer, query, type Operation, type Operations } from '../operation.js'
import { success } from '../records/common.js'
import { list, record, text } from '../schema.js'

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
  fields: { takeOver: 'Why you remove the lock of another owner. Requires the admin token' },
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

/** Locks of projects and of the whole server. */
export const lockOperations: Operations = {
  'GET /api/locks': {
    summary: 'List the locks in force',
    description: 'A deploy token gets the locks that refuse its own deployments.',
    parameters: [query('projectId', 'Lists only the locks that refuse deployments of this project')],
    answers: answer('The locks, first that of the server', list(lock))
  },
  'PUT /api/projects/:id/lock': {
    summary: 'Lock a project',
    description:
      'Refuses uploads and rollbacks of the project until the lock expires or is removed. A queued deployment fails when its turn comes; a running one continues.',
    ...place,
    errors: [...place.errors, 'not_found', 'other_project']
  },
  'DELETE /api/projects/:id/lock': { summary: 'Unlock a project', ...remove },
  'PUT /api/lock': {
    summary: 'Lock the whole server',
    description: 'Refuses uploads and rollbacks of every project, as the lock of a project does.',
    ...place
  },
  'DELETE /api/lock': { summary: 'Unlock the whole server', ...remove }
}
