import type { Project } from './project.js'

/** The rights of a token, as `GET /api/auth/whoami` describes them. */
export interface TokenHolder {
  /**
   * `project`: a deploy token. `global`: the deploy token of every project. `local`: the socket of the data directory.
   */
  role: string
  /** The name of the caller in the audit log. */
  name: string
  /** The project of a deploy token; null for every other role. */
  project: Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'> | null
}
