import type { Project } from './project.js'

/** The rights of a token, as `GET /api/auth/whoami` describes them. */
export interface TokenHolder {
  /**
   * `viewer`, `deployer`, `operator`: a named token. `admin`: the admin token, or a named one. `project`: a deploy token.
   * `global`: the deploy token of every project. `local`: the socket of the data directory.
   */
  role: string
  /** The name of the caller in the audit log. */
  name: string
  /** The project of a deploy token; null for every other role. */
  project: Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'> | null
  /** The named token; null for every other kind. An older server omits this field and the next one. */
  token?: { id: string; name: string; expiresAt: string } | null
  /** The projects that a named token is limited to; null: none. */
  projects?: Array<Pick<Project, 'id' | 'name'>> | null
}
