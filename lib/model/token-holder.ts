import type { Instant } from './scalars.js'
import type { Project } from './project.js'

/** The rights of a token, as `GET /api/auth/whoami` describes them. */
export interface TokenHolder {
  /** admin, local, project (a deploy token) or global (the deploy token of every project). */
  role: string
  /** The name of the caller in the audit log. */
  name: string
  /** The project of a deploy token; null for every other role. */
  project: Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'> | null
  /** The named token. Null for other kinds. */
  token?: { id: string; name: string; expiresAt: Instant } | null
  /** The projects that a named token is limited to. Null: none. */
  projects?: Array<Pick<Project, 'id' | 'name'>> | null
}
