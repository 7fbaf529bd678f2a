/* Records of deployments and projects as their reader sees them. */
import { notFound, Refusal } from '../base/errors.js'
import type { Proof } from '../access/second-factor.js'
import type { Deployer } from '../deploy/deployer.js'
import {
  type Deployment,
  deploymentReaders,
  type DeploymentRow,
  listedDeployment,
  type ListedDeployment,
  type RanScript
} from '../model/deployment.js'
import { commitUrl } from '../model/provenance.js'
import { perObject } from '../base/async.js'
import type { Caller } from '../access/bearer.js'
import { type AccessRole, includesRole } from '../model/access.js'
import { type Project, projectReaders, type ShownProject } from '../model/project.js'
import { showing, type Sight } from '../model/readers.js'
import type { Reply } from '../http/core/route.js'
import { type ApiRequest, checkProject, queryChoice } from './route.js'

/** Output in a single record. */
const maxOutputBytes = 1024 * 1024
const maxListedOutputBytes = 4 * 1024

/** A deployment as its reader sees it. */
type Shown<T extends DeploymentRow> = ReturnType<typeof shownDeployment<T>>

/** Reads deployment records for responses, as their reader sees them. */
export interface Records {
  /** Returns the row, and checks the access of the caller. Refuses: 404, 403 `other_project`. */
  find(request: ApiRequest, deployId: string): DeploymentRow
  /** As `find`, but a deployer has access only to what its own token started. Refuses: 403 `role_too_low`. */
  own(request: ApiRequest, deployId: string): DeploymentRow
  /** Returns the row without checking the caller, whose access was checked before. Refuses: 404. */
  row(deployId: string): DeploymentRow
  /** Adds the last 1 MiB of the output. */
  complete(request: ApiRequest, row: DeploymentRow, options?: { timestamps?: boolean }): Promise<Shown<Deployment>>
  /** Adds the last 4 KiB of the output. */
  listed(request: ApiRequest, row: DeploymentRow): Promise<Shown<Deployment>>
  /** Adds no output. */
  bare(request: ApiRequest, row: DeploymentRow): Shown<ListedDeployment>
}

/** Creates `Records`: rows of the database with the end of their output. */
export function createRecords(needs: {
  findDeployment(id: string): DeploymentRow | undefined
  deployer: Pick<Deployer, 'readOutput'>
  settings: { text(key: 'commit_url'): string }
}): Records {
  async function withOutput(
    row: Shown<ListedDeployment>,
    maxBytes: number,
    timestamps: boolean
  ): Promise<Shown<Deployment>> {
    const { text, truncated, lost } = await needs.deployer.readOutput(row.id, { maxBytes, timestamps })
    return { ...row, output: text, ...(truncated && { outputTruncated: true }), ...(lost && { outputLost: true }) }
  }

  function bare({ actor }: ApiRequest, row: DeploymentRow): Shown<ListedDeployment> {
    const address = commitUrl(row.provenance, needs.settings.text('commit_url'))
    const listed = listedDeployment(row)
    return shownDeployment(address === null ? listed : { ...listed, commitUrl: address }, actor)
  }

  function row(deployId: string): DeploymentRow {
    const found = needs.findDeployment(deployId)
    if (found === undefined) throw notFound('Deployment', deployId)
    return found
  }

  function find({ actor }: ApiRequest, deployId: string): DeploymentRow {
    const found = row(deployId)
    checkProject(actor, found.projectId, () => notFound('Deployment', deployId))
    return found
  }

  return {
    find,
    own(request, deployId) {
      const found = find(request, deployId)
      const { role, token } = request.actor
      if (role !== 'deployer' || token?.id === found.tokenId) return found
      const sentence = `Permission denied: the token "${token?.name}" has the role "deployer", and did not start this deployment`
      throw new Refusal('forbidden', 'role_too_low', sentence)
    },
    row,
    complete: (request, found, { timestamps = false } = {}) =>
      withOutput(bare(request, found), maxOutputBytes, timestamps),
    listed: (request, found) => withOutput(bare(request, found), maxListedOutputBytes, false),
    bare
  }
}

/*
 * Records as a caller sees them. The tables beside the records say who reads which field: `projectReaders`,
 * `deploymentReaders`. A hidden value is null, a secret is `***`.
 */

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

/** The JSON of a project as a caller sees it. It is kept with the record, too: it takes longer than all the rest. */
const textOf = perObject((project: ShownProject): string => JSON.stringify(project))

/** Returns the reply with a project as a caller sees it. */
export function projectReply(project: ShownProject): Reply {
  return { kind: 'json', status: 200, body: project, text: textOf(project) }
}

/** Returns the reply with a list of projects as a caller sees them. */
export function projectsReply(projects: readonly ShownProject[]): Reply {
  return { kind: 'json', status: 200, body: projects, text: `[${projects.map(textOf).join(',')}]` }
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

/** Whether the records of a list contain the end of their output, which is read from files. */
export function showsOutput({ query }: ApiRequest): boolean {
  return queryChoice(query, 'output', ['end', 'none'] as const) !== 'none'
}
