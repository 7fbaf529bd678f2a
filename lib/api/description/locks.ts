/* The schema of a lock (model/lock.ts). */
import { lockKinds, type ListedLock } from '../../model/lock.js'
import { described, instant, named, nullable, oneOf, record, text } from './schema.js'

/** A lock. */
export const lock = named(
  'Lock',
  record<ListedLock>({
    projectId: described(
      'The locked project. Null means that the whole server is locked',
      nullable(text('proj_1a2b3c4d5e6f7a8b'))
    ),
    projectName: nullable(text('Shop')),
    kind: oneOf(lockKinds),
    owner: described('The caller that placed the lock, as in the audit log', text('admin')),
    reason: text('audit until Friday'),
    createdAt: instant,
    expiresAt: instant
  })
)
