import type { Project } from './project.js'

/** What a token is for, as `GET /api/auth/whoami` answers it. */
export interface TokenHolder {
  /** `project`: a deploy token. `global`: the deploy token of every project. `local`: the socket of the data directory. */
  role: string
  /** As the audit log names it. */
  name: string
  /** The project of a deploy token; null for every other role. */
  project: Pick<Project, 'id' | 'name' | 'env' | 'status' | 'lastDeployAt'> | null
}
