import { invalid, notFound, Refusal } from '../base/errors.js'
import type { Proof } from '../auth/second-factor.js'
import type { Deployer } from '../deploy/deployer.js'
import type { Run } from '../deploy/admission.js'
import { json, type Reply } from '../http/core/route.js'
import {
  type Deployment,
  deploymentReaders,
  type DeploymentRow,
  listedDeployment,
  type ListedDeployment,
  maxMessageLength,
  type RanScript
} from '../model/deployment.js'
import { flag, line, list, nullable, oneOf, optional, readFields } from '../base/fields.js'
import { rollbackModes } from '../model/policy.js'
import { commitUrl } from '../model/provenance.js'
import { perObject } from '../base/async.js'
import type { Caller } from '../auth/bearer.js'
import { type AccessRole, includesRole } from '../model/access.js'
import { type Project, projectReaders, type ShownProject } from '../model/project.js'
import { showing, type Sight } from '../model/readers.js'
import {
  type ApiRequest,
  checkProject,
  type Handler,
  optionalBody,
  param,
  queryText,
  switchText,
  traceIdOf
} from './route.js'
import { runReply } from './upload.js'

const finalStatuses = ['success', 'failed'] as const
/** Fields of `PATCH /api/deployments/:id/status`. */
export const markFields = {
  /** The correct status. */
  status: oneOf(finalStatuses)
}
/** Fields of `POST /api/deployments/:id/rollback`. */
export const rollbackFields = {
  /** A note on the deployment. */
  message: nullable(line({ max: maxMessageLength })),
  /** Default: the policy `rollback` of the project. */
  mode: optional(oneOf(rollbackModes)),
  /** Whether an exact rollback takes back files that were edited since. Default: false, they stay. */
  force: optional(flag),
  /** Whether to say what would happen, and change nothing. Default: false. */
  dryRun: optional(flag)
}
/** Fields of `POST /api/projects/:id/undo`. */
export const undoFields = {
  /** A note on the deployment. */
  message: rollbackFields.message,
  /** Whether files that were edited since are taken back, too. Default: false, they stay. */
  force: optional(flag),
  /** Whether to say what would happen, and change nothing. Default: false. */
  dryRun: optional(flag)
}

/** Maximum number of files that one request for a repair may name. */
const maxRepairedPaths = 10_000
/** Fields of `POST /api/projects/:id/repair`. */
export const repairFields = {
  /** A note on the deployment. */
  message: rollbackFields.message,
  /** The files to put back. Default: all that differ. */
  paths: optional(list(line({ min: 1, max: 4096 }), { max: maxRepairedPaths })),
  /** Whether the scripts of the last deployment run. Default: false. */
  runScripts: optional(flag)
}

/** Dependencies of the handlers of deployments. */
export interface DeploymentsNeeds {
  deployer: Pick<
    Deployer,
    | 'rollback'
    | 'undo'
    | 'repair'
    | 'planRollback'
    | 'planUndo'
    | 'cancel'
    | 'mark'
    | 'deleteArchive'
    | 'giveUp'
    | 'follow'
    | 'unrecorded'
    | 'confirmUntil'
    | 'manifest'
    | 'changes'
  >
  records: Pick<Records, 'find' | 'own' | 'complete'>
  proof: Pick<Proof, 'check'>
  /** Whether a deployment of a project may run a command; with a deployment, whether going back to it may. */
  runsCommand(projectId: string, deployId?: string): boolean
  /** Returns the URL of a deployment's page, or null if the public URL of the server is not configured. */
  pageOf(id: string): string | null
}

/** Handlers of rollback, cancelling and status correction (§4.5), and of a deployment's files. */
export function deploymentHandlers({ deployer, records, pageOf, proof, runsCommand }: DeploymentsNeeds) {
  /** Refuses what may run a command to a session that has not given its secret lately. */
  function checkProof({ actor }: ApiRequest, projectId: string, deployId?: string): void {
    if (runsCommand(projectId, deployId)) proof.check(actor.provenAt)
  }

  /** Waits for the result of a run, or streams its output if the client accepts NDJSON. */
  async function replyTo({ headers }: ApiRequest, run: Run): Promise<Reply> {
    if (headers.accept?.includes('application/x-ndjson')) return runReply(run, deployer, pageOf(run.deployId))
    const { id, status, duration, errorMessage, rollbackOf } = await run.finished
    const failure = status === 'failed' ? { error: errorMessage } : {}
    const source = rollbackOf === null ? {} : { rollbackOf }
    return json({ success: status === 'success', deployId: id, status, duration, ...source, ...failure })
  }

  return {
    /**
     * `POST /api/deployments/:id/rollback`: waits for the result, or streams the output if the client accepts NDJSON.
     */
    rollback: async request => {
      const { message, mode, force, dryRun } = readFields(await optionalBody(request), rollbackFields)
      const id = param(request, 'id')
      const traceId = traceIdOf(request)
      const { actor, signal } = request
      if (dryRun) return json(await deployer.planRollback(id, { mode, force, signal }))
      checkProof(request, records.find(request, id).projectId, id)
      return replyTo(request, await deployer.rollback(id, { message, traceId, mode, force, actor }))
    },

    /** `POST /api/projects/:id/undo`: undoes the last change of the target exactly. Answers like a rollback. */
    undo: async request => {
      const { message, force, dryRun } = readFields(await optionalBody(request), undoFields)
      const id = param(request, 'id')
      const { actor, signal } = request
      if (dryRun) return json(await deployer.planUndo(id, { force, signal }))
      checkProof(request, id)
      return replyTo(request, await deployer.undo(id, { message, traceId: traceIdOf(request), force, actor }))
    },

    /** `POST /api/projects/:id/repair`: puts back the files that differ from what svc put there. Answers like a rollback. */
    repair: async request => {
      const { message, paths, runScripts } = readFields(await optionalBody(request), repairFields)
      const { actor, signal } = request
      checkProof(request, param(request, 'id'))
      const wish = { message, traceId: traceIdOf(request), paths, runScripts, actor, signal }
      return replyTo(request, await deployer.repair(param(request, 'id'), wish))
    },

    /** `POST /api/deployments/:id/cancel`: cancels a queued or running deployment. */
    cancel: async request => {
      const { id } = records.own(request, param(request, 'id'))
      const row = await deployer.cancel(id, request.actor)
      return json({
        success: true,
        message: 'The deployment was cancelled',
        deployment: await records.complete(request, row)
      })
    },

    /** `PATCH /api/deployments/:id/status`: corrects the status of a finished deployment. */
    mark: async request => {
      const { status } = readFields(await request.json(), markFields)
      const row = await deployer.mark(param(request, 'id'), status, { actor: request.actor })
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    /** `DELETE /api/deployments/:id/archive`: deletes the archive of a finished deployment. */
    deleteArchive: async request => {
      const { query, actor } = request
      const force = switchText(query.get('force'), 'force') ?? false
      const { row, freedBytes } = await deployer.deleteArchive(param(request, 'id'), { force, actor })
      return json({ success: true, freedBytes, deployment: await records.complete(request, row) })
    },

    /** `DELETE /api/unfinished-targets/:deployId`: gives up what is half changed in a target that is gone for good. */
    giveUp: async request => {
      const { actor, client } = request
      // A follower passed it on: its user means the machine that was asked.
      const given = await deployer.giveUp(param(request, 'deployId'), { actor, hub: client.hub?.name })
      return json({ success: true, given })
    },

    /** `GET /api/deployments/:id/files`: the files that the deployment installed. */
    files: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json(await deployer.manifest(id))
    },

    /** `GET /api/deployments/:id/changes?against=`: compares the files of two deployments. */
    changes: async request => {
      const { id } = records.find(request, param(request, 'id'))
      const against = queryText(request.query, 'against')
      if (against === undefined) throw invalid('against', '"against" is missing: name the deployment to compare with')
      return json(await deployer.changes(id, records.find(request, against).id))
    }
  } satisfies Record<string, Handler>
}

/** Dependencies of the handlers. */
export interface ConfirmNeeds {
  deployer: Pick<Deployer, 'confirm' | 'revert'>
  records: Pick<Records, 'own' | 'complete'>
  proof: Pick<Proof, 'check'>
  /** Whether a deployment of a project may run a command. */
  runsCommand(projectId: string): boolean
}

/** Handlers of the decisions about deployments whose earlier files can still be put back. */
export function confirmHandlers({ deployer, records, proof, runsCommand }: ConfirmNeeds) {
  return {
    /** `POST /api/deployments/:id/confirm`: confirms a deployment. Sent when its result is recorded. */
    confirm: async request => {
      const { id } = records.own(request, param(request, 'id'))
      const row = await deployer.confirm(id, request.actor)
      return json({ success: true, deployment: await records.complete(request, row) })
    },

    /** `POST /api/deployments/:id/revert`: puts the earlier files back. Sent when that is recorded. */
    revert: async request => {
      const { id, projectId } = records.own(request, param(request, 'id'))
      if (runsCommand(projectId)) proof.check(request.actor.provenAt)
      const row = await deployer.revert(id, request.actor)
      return json({ success: row.revertedAt !== null, deployment: await records.complete(request, row) })
    }
  } satisfies Record<string, Handler>
}

/** Output in a single record. */
const maxOutputBytes = 1024 * 1024
/** Output in each record of a list. */
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
    const { text, truncated } = await needs.deployer.readOutput(row.id, { maxBytes, timestamps })
    return { ...row, output: text, ...(truncated ? { outputTruncated: true } : {}) }
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

/** A script of a deployment as a caller sees it. */
export type ShownScript = Omit<RanScript, 'script'> & { script: string | null }

/** Returns a deployment as a caller sees it. */
export function shownDeployment<T extends Partial<DeploymentRow>>(
  deployment: T,
  caller: Pick<Caller, 'role' | 'seesScripts'>
): T | (Omit<T, 'scripts'> & { scripts: ShownScript[] }) {
  return deployments[sightOf(caller)](deployment)
}
