/* The schemas of locks (model/lock.ts) and of maintenance (model/maintenance.ts). */
import { lockKinds, type ListedLock } from '../../model/lock.js'
import type { ListedMaintenance, Maintenance } from '../../model/maintenance.js'
import { constant, described, instant, named, nullable, oneOf, record, text } from './schema.js'

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

/** The maintenance of a project. */
export const maintenance = named(
  'Maintenance',
  record<Maintenance>({
    since: instant,
    by: described('The caller that began it, as in the audit log', text('admin')),
    reason: nullable(text('new disk'))
  })
)

/** A maintenance in the list of locks. */
export const listedMaintenance = named(
  'ListedMaintenance',
  record<ListedMaintenance>({
    projectId: text('proj_1a2b3c4d5e6f7a8b'),
    projectName: nullable(text('Shop')),
    kind: oneOf(['maintenance']),
    owner: described('The caller that began it, as in the audit log', text('admin')),
    reason: nullable(text('new disk')),
    createdAt: instant,
    expiresAt: described('A maintenance does not expire', constant(null))
  })
)
