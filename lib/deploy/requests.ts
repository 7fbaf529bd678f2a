import { instantOf } from '../base/clock.js'
import { Refusal } from '../base/errors.js'
import type { Actor } from '../model/audit.js'
import { type Policy, policyOf } from '../model/policy.js'
import { maxMessageLength, type DeploymentRow } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { Provenance } from '../model/provenance.js'
import type { RolloutPolicy } from '../model/rollout.js'
import { requireDeployment, liveDeployment } from '../core/store/tables/deployments.js'
import { requireProject } from '../core/store/tables/projects.js'
import { exactRange, goalOf, undoGoal, type ExactGoal } from './exact.js'
import { type Beginning, refuseBeginning, refusePromotion, refuseUpload, releaseOf, refuseLocked } from './gateway.js'
import type { Admission, Draft, Run } from './admission.js'
import { refuseFullDisk } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Received, Reuse } from './intake.js'
import type { DeployNeeds } from './needs.js'
import type { Plans } from './plan.js'
import type { Queue } from './queue.js'
import { maxWaiting, type WaitingDeployments } from './user-actions.js'
import { noArchive, offeredBySource, refuseRollback } from './retention.js'
import { findRepair, type Verifier } from './verify.js'
import { refuseUnlessFinal, type Ends } from './record.js'
import { type OfferedScripts, refuseClientScripts } from './scripts/scripts.js'
import type { Signatures } from './signatures.js'
import type { SentSignatures } from '../core/proof/signers.js'
import { refusePlaced, refuseUnplaced, refuseWishes } from './wishes.js'

/*
 * What clients ask for, and what is refused at once: a deployment, a promotion, and the ways back. Each becomes a draft, which
 * the admission keeps, records and queues.
 */

/** The scripts of an upload. Undefined or blank means none. */
export interface ClientScripts {
  preDeploy?: string | undefined
  postDeploy?: string | undefined
}

/** A deployment as requested by a client. */
export interface DeployRequest extends ClientScripts, RequestNote, Beginning {
  projectId: string
  /** The id of the record, if the caller has chosen one, to find the deployment again after a crash. */
  deployId?: string | undefined
  /** Where the scripts come from; default: the upload. */
  origin?: OfferedScripts['origin'] | undefined
  /** Undefined if the client did not choose. */
  postDeployAsync?: boolean | undefined
  env: Record<string, string>
  /** The origin of the files as claimed by the client. Its form is checked. */
  provenance?: Provenance | null | undefined
  /** The plan that the deployment is held to; absent: none. */
  planId?: string | undefined
  /** The time in which the deployment must be confirmed; undefined: as the policy of the project says. */
  confirmSeconds?: number | null | undefined
  /** What this deployment sets instead of the policy of rollouts, if the project is placed on nodes. */
  rollout?: Partial<RolloutPolicy> | undefined
  /** The statement of the release and its signatures; absent: it is not signed. */
  sent?: SentSignatures | null | undefined
  /** The list of its components; absent: there is none. */
  sbom?: Received | undefined
  /** Whether the hub of this node has sent it. The hub has judged the list of components, and keeps it. Default: false. */
  isFromHub?: boolean | undefined
  actor: Actor
}

/** A promotion as requested by a client: the archive of another project's deployment. */
export interface PromoteRequest extends RequestNote, Beginning, Pick<DeployRequest, 'confirmSeconds' | 'actor'> {
  /** The deployment of the other project. */
  from: string
}

/** What the client says about its request. */
interface RequestNote {
  message?: string | null | undefined
  /** The id by which the client finds the deployment. */
  traceId?: string | null | undefined
}

/** A rollback as requested by a user. */
export interface RollbackRequest extends RequestNote {
  /** Undefined: as the policy of the project says. */
  mode?: Policy['rollback'] | undefined
  /** Whether files that somebody edited since are taken back, too. */
  force?: boolean | undefined
  /** As for a deployment. */
  deployId?: string | undefined
  actor: Actor
}

/** An undo as requested by a user, or by the hub of a node. */
export interface UndoRequest extends Omit<RollbackRequest, 'mode'> {
  /** The oldest deployment that is undone; undefined: only the last one is. */
  since?: string | undefined
  /** Whether the hub of this node takes a release back: then the on-failure script runs, too. Default: false. */
  takesBack?: boolean | undefined
}

/** A repair as requested by a user. */
export interface RepairRequest extends Pick<RollbackRequest, keyof RequestNote | 'actor'> {
  /** The files to put back; undefined: all that differ. */
  paths?: readonly string[] | undefined
  /** Whether the scripts of the live deployment run; default: false. */
  runScripts?: boolean | undefined
  /** Aborts the search for files that differ. */
  signal: AbortSignal
}

export interface RequestsNeeds extends DeployNeeds {
  files: DeployFiles
  queue: Pick<Queue, 'count'>
  waiting: Pick<WaitingDeployments, 'count'>
  ends: Pick<Ends, 'current'>
  plans: Pick<Plans, 'expect'>
  verifier: Pick<Verifier, 'differences'>
  signatures: Signatures
  admission: Pick<Admission, 'admit'>
  /** Throws if the server is stopping. */
  refuseWhenStopping(): void
}

/** Maximum number of queued and running deployments per project. Each has an archive on disk. */
const maxQueued = 1000
/** Maximum time in which another hub sends an archive. */
const maxFetchMs = 10 * 60_000

/** A draft of what deploys a kept archive again. */
type AgainDraft = Omit<Draft, 'archive' | 'env' | 'plan' | 'exact' | 'repair' | 'discardUpload' | 'verdict'> & {
  kind: 'again' | 'promotion'
}

/** What queues a deployment. All is audited. */
export class Requests {
  readonly #needs: RequestsNeeds

  constructor(needs: RequestsNeeds) {
    this.#needs = needs
  }

  /**
   * Keeps the archive, records the deployment as queued, and adds it to the queue. Resolves as soon as it is recorded.
   * Writes the audit entry. Owns `received` from the call on: if it refuses, it removes the upload.
   */
  readonly deploy = async (received: Received & { reuse?: Reuse }, request: DeployRequest): Promise<Run> => {
    try {
      const project = this.#admissibleProject(request.projectId)
      refuseUpload(this.#needs.store, project)
      this.#checkBeginning(project, request)
      const {
        preDeploy,
        postDeploy,
        postDeployAsync,
        origin = 'upload',
        deployId = this.#needs.ids.id('dep_')
      } = request
      if (origin === 'upload') {
        refuseClientScripts(project, this.#needs.settings.flag('allow_client_scripts'), request)
      }
      refuseWishes(this.#needs.store, project, request)
      const offered = { preDeploy, postDeploy, postDeployAsync, origin }
      const sent = request.sent ?? null
      const verdict = this.#needs.signatures.judge(project, {
        sent,
        // A release that the hub rolls back to.
        kind: origin === 'upload' ? 'push' : 'again',
        offered,
        env: Object.keys(request.env),
        ...(request.isFromHub !== true && { sbomSha256: request.sbom?.sha256 ?? null })
      })
      return await this.#needs.admission.admit(received.path, deployId, {
        project,
        actor: request.actor,
        ...noteOf(request),
        archive: received,
        rollbackOf: null,
        override: request.override,
        startAt: request.startAt,
        provenance: request.provenance ?? null,
        confirmSeconds: request.confirmSeconds ?? null,
        offered,
        verdict,
        sent,
        sbom: request.sbom?.path ?? null,
        env: request.env,
        plan: request.planId === undefined ? null : this.#needs.plans.expect(request.planId, project.id),
        exact: null,
        repair: null,
        rollout: request.rollout,
        role: request.actor.role,
        discardUpload: received.discard
      })
    } catch (error) {
      await received.discard()
      throw refuseFullDisk(error)
    } finally {
      await request.sbom?.discard()
    }
  }

  /** Refuses a release that may not begin when it is to. */
  #checkBeginning(project: Project, beginning: Beginning): void {
    refuseBeginning(project, beginning, this.#needs.clock.now())
    if (this.#needs.waiting.count(project.id) < maxWaiting) return
    const sentence = `Cannot deploy to ${project.id}: ${maxWaiting} deployments wait for an approval or their time. Cancel some`
    throw new Refusal('too_many', 'queue_full', sentence, { retryAfterSeconds: 60 })
  }

  /**
   * Deploys the archive of another project's deployment: with the scripts of this project, and none of the other one. Refuses
   * as `rollback`, and 409 `not_promotable`, `only_promotion`, `outside_window`.
   */
  readonly promote = async (projectId: string, { from, actor, ...request }: PromoteRequest): Promise<Run> => {
    const { ids } = this.#needs
    const asked = this.#source(from)
    const source = releaseOf(this.#needs.store, asked)
    const project = this.#admissibleProject(projectId)
    refuseRollback(source, 'promotion')
    refusePromotion(this.#needs, asked, project)
    refuseWishes(this.#needs.store, project, request)
    this.#checkBeginning(project, request)
    return this.#admitAgain(source, ids.id('dep_'), {
      kind: 'promotion',
      project,
      actor,
      ...noteOf(request),
      message: request.message || source.message,
      rollbackOf: null,
      promotedFrom: source.id,
      override: request.override,
      startAt: request.startAt,
      provenance: source.provenance,
      confirmSeconds: request.confirmSeconds ?? null,
      offered: { origin: 'source deployment' },
      role: actor.role
    })
  }

  /** Admits a deployment of the archive of an earlier one. */
  async #admitAgain(source: DeploymentRow, id: string, { kind, ...draft }: AgainDraft): Promise<Run> {
    const { signatures, files } = this.#needs
    const startedAt = instantOf(this.#needs.clock)
    const sbom = files.sbomIfAny(source.id)
    const { offered, project } = draft
    const { sent, verdict } = await signatures.judgeSource(project, source, { kind, offered, sbom })
    await this.#needs.copies?.ensure(source.id, AbortSignal.timeout(maxFetchMs))
    try {
      return await this.#needs.admission.admit(this.#needs.files.archive(source.id), id, {
        ...draft,
        verdict,
        sent,
        sbom,
        archive: { bytes: source.archiveBytes, sha256: source.archiveSha256, startedAt, endedAt: startedAt },
        env: {},
        plan: null,
        exact: null,
        repair: null,
        discardUpload: async () => {}
      })
    } catch (error) {
      throw files.packs.has(source.id) ? refuseFullDisk(error, 'begin the deployment') : noArchive(source.id, kind)
    }
  }

  #source(deployId: string): DeploymentRow {
    return this.#needs.ends.current(requireDeployment(this.#needs.store, deployId))
  }

  /** Deploys the archive of `sourceId` again. Refuses: unknown, unfinished, `no_archive`. */
  readonly rollback = async (sourceId: string, request: RollbackRequest): Promise<Run> => {
    const source = this.#source(sourceId)
    const project = this.#admissibleProject(source.projectId)
    const { mode = policyOf(project).rollback, force = false } = request
    refuseWishes(this.#needs.store, project, { ...request, mode })
    if (mode === 'exact') {
      refuseUnlessFinal(source, 'roll back to')
      return this.#restore(project, goalOf(source, force), request)
    }
    refuseRollback(source)
    return this.#admitAgain(source, this.#needs.ids.id('dep_'), {
      kind: 'again',
      project,
      actor: request.actor,
      ...noteOf(request),
      rollbackOf: sourceId,
      provenance: source.provenance,
      confirmSeconds: null,
      offered: offeredBySource(source),
      force
    })
  }

  /** Undoes the last change of a project's target exactly, or the last ones. Refuses what `exactRange` refuses. */
  readonly undo = async (projectId: string, request: UndoRequest): Promise<Run> => {
    const project = this.#admissibleProject(projectId)
    refusePlaced(this.#needs.store, project, 'undo')
    refuseWishes(this.#needs.store, project, request)
    return this.#restore(project, undoGoal(this.#needs.store, project, request), request)
  }

  /** Admits a deployment that brings back an earlier state of the target exactly. */
  async #restore(project: Project, goal: ExactGoal, request: Omit<UndoRequest, 'since'>): Promise<Run> {
    // What is certain now is refused now. The way back is computed at the turn of the deployment.
    const { to } = exactRange(this.#needs.store, project, goal)
    const offered: OfferedScripts = to === null ? { origin: 'source deployment' } : offeredBySource(to)
    this.#needs.signatures.refuseGoingBack(project, to, offered)
    const at = instantOf(this.#needs.clock)
    try {
      return await this.#needs.admission.admit(null, request.deployId ?? this.#needs.ids.id('dep_'), {
        project,
        actor: request.actor,
        ...noteOf(request),
        archive: { bytes: null, sha256: null, startedAt: at, endedAt: at },
        rollbackOf: to?.id ?? null,
        provenance: to?.provenance ?? null,
        confirmSeconds: null,
        offered,
        env: {},
        plan: null,
        exact: goal,
        repair: null,
        takesBack: request.takesBack,
        discardUpload: async () => {}
      })
    } catch (error) {
      throw refuseFullDisk(error, 'begin the deployment')
    }
  }

  /** Puts back the files of a project that are not as svc put them there. Refuses what `findRepair` refuses. */
  readonly repair = async (
    projectId: string,
    { paths, runScripts = false, signal, ...request }: RepairRequest
  ): Promise<Run> => {
    const { store, clock, ids } = this.#needs
    const before = this.#admissibleProject(projectId)
    refuseWishes(store, before, { paths, runScripts, ...request })
    const found = await findRepair(this.#needs, before, { paths: paths ?? null, signal })
    const project = this.#admissibleProject(projectId)
    await this.#needs.signatures.refuseUnsigned(project, this.#needs.files, found)
    const live = runScripts ? liveDeployment(store, projectId) : undefined
    const offered: OfferedScripts = live === undefined ? { origin: 'source deployment' } : offeredBySource(live)
    if (live !== undefined) this.#needs.signatures.refuseScripts(project, live, offered)
    const at = instantOf(clock)
    try {
      return await this.#needs.admission.admit(null, ids.id('dep_'), {
        project,
        actor: request.actor,
        ...noteOf(request),
        archive: { bytes: null, sha256: null, startedAt: at, endedAt: at },
        rollbackOf: null,
        provenance: null,
        confirmSeconds: null,
        offered,
        env: {},
        plan: null,
        exact: null,
        repair: { paths: found.map(({ path }) => path), runScripts },
        discardUpload: async () => {}
      })
    } catch (error) {
      throw refuseFullDisk(error, 'begin the deployment')
    }
  }

  #admissibleProject(projectId: string): Project {
    this.#needs.refuseWhenStopping()
    const project = requireProject(this.#needs.store, projectId)
    refuseLocked(this.#needs.store, project, this.#needs.clock.now())
    refuseUnplaced(this.#needs, project)
    if (this.#needs.queue.count(projectId) < maxQueued) return project
    const sentence = `Cannot queue a deployment of ${projectId}: ${maxQueued} are in the queue. Wait, or cancel some`
    throw new Refusal('too_many', 'queue_full', sentence, { retryAfterSeconds: 60 })
  }
}

function noteOf({ message, traceId = null }: RequestNote): Pick<Draft, 'message' | 'traceId'> {
  return { message: message?.slice(0, maxMessageLength) || null, traceId }
}
