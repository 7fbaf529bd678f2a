/*
 * Records as a caller sees them. The tables beside the records say who reads which field: `projectReaders`,
 * `deploymentReaders`. A hidden value is null, a secret is `***`.
 */
import { perObject } from '../base/async.js'
import type { Caller } from '../auth/bearer.js'
import type { Proof } from '../auth/proof.js'
import { includesRole, type AccessRole } from '../model/access.js'
import { deploymentReaders, type Deployment, type DeploymentRow, type RanScript } from '../model/deployment.js'
import { projectReaders, type Project, type ShownProject } from '../model/project.js'
import { showing, type Sight } from '../model/readers.js'

/** Makes one function for each kind of callers. */
function bySight<F>(make: (sight: Sight) => F): Record<Sight, F> {
  return { admin: make('admin'), scripts: make('scripts'), plain: make('plain') }
}

// Kept with the record: a copy takes as long as the rest of the authorization (bench/api).
const projects = bySight(sight =>
  perObject((project: Project): ShownProject => showing<Project>(projectReaders, sight)(project))
)
const deployments = bySight(sight => showing<Deployment>(deploymentReaders, sight))

function sightOf({ role, seesScripts }: Pick<Caller, 'role' | 'seesScripts'>): Sight {
  if (role === 'local' || includesRole(role as AccessRole, 'admin')) return 'admin'
  return seesScripts ? 'scripts' : 'plain'
}

/**
 * Returns a project as a caller sees it. `proof`: a session that has not given its secret lately reads no secret, and
 * neither does a user of the hub.
 */
export function shownProject(project: Project, caller: Caller, proof: Pick<Proof, 'isRecent'>): ShownProject {
  const sight = sightOf(caller)
  const isHidden = sight === 'admin' && (caller.isRelayed || !proof.isRecent(caller.provenAt))
  return projects[isHidden ? 'scripts' : sight](project)
}

/** A script of a deployment as a caller sees it. */
export type ShownScript = Omit<RanScript, 'script'> & { script: string | null }

/** Returns a deployment as a caller sees it. */
export function shownDeployment<T extends Partial<DeploymentRow>>(
  deployment: T,
  caller: Pick<Caller, 'role' | 'seesScripts'>
): T | (Omit<T, 'scripts'> & { scripts: ShownScript[] }) {
  return deployments[sightOf(caller)](deployment)
}
