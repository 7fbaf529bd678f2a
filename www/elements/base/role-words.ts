import type { AccessRole } from '../../../lib/model/access.js'

/* Labels of the roles. Pure. */

/** Labels of the roles. English; passed to t(). */
export const roleWords: Readonly<Record<AccessRole, string>> = {
  viewer: 'Viewer',
  deployer: 'Deployer',
  operator: 'Operator',
  admin: 'Admin'
}
