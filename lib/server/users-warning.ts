import { warningOfUsers } from '../model/project-users.js'
import { maySwitchUser } from '../core/proc/identity.js'
import type { Reader } from '../core/store/database.js'
import { readProjects } from '../core/store/tables/projects.js'
import type { Reporter } from './front.js'

/** Warns at the start of a server that can give each project a user, and names the projects that have none. */
export function warnOfUsers(store: Reader, report: Pick<Reporter, 'warn'>): void {
  const warning = maySwitchUser() ? warningOfUsers(readProjects(store, ['name', 'runAs'])) : null
  if (warning !== null) report.warn(warning)
}
