import { elapsedOf, instantOf } from '../base/clock.js'
import { linkOrCopy } from '../base/files.js'
import { treeOfKept } from '../core/archive/pack-set.js'
import { composeArchive } from '../core/archive/compose.js'
import { treeDiffers } from '../core/install/manifest-writer.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { countOf, formatSeconds, grouped } from '../base/text.js'
import type { Actor, AuditEvent } from '../model/audit.js'
import { policyOf } from '../model/policy.js'
import { actorText, isWaitingToBegin, formatBytes } from '../base/shared/api.js'
import { writeChanges } from '../base/shared/audit.js'
import type { DeploymentRow, DeploymentStep } from '../model/deployment.js'
import type { Project } from '../model/project.js'
import type { Provenance } from '../model/provenance.js'
import type { RolloutPolicy } from '../model/rollout.js'
import { isPlaced, putCopy, putQueuedRelease, type QueuedRelease } from '../core/store/tables/fleet.js'
import { putAttestation } from '../core/store/tables/signing-keys.js'
import { addDeployment } from '../core/store/tables/deployments.js'
import { requireProject } from '../core/store/tables/projects.js'
import type { ExactGoal } from './exact.js'
import type { Beginning } from './gateway.js'
import type { StopRequest } from './failure.js'
import type { DeployFiles } from './files.js'
import type { Intake, Note, Pending, Received, Reuse } from './intake.js'
import type { Live } from './output/live.js'
import type { DeployNeeds } from './needs.js'
import { openOutput } from './output/output.js'
import { type KeptPlan, writePlan } from './ownership.js'
import type { Runner } from './run.js'
import { addSaying, type Queue } from './queue.js'
import { linesOfWait, type WaitingDeployments } from './user-actions.js'
import type { RepairGoal } from './verify.js'
import { auditsWithin, sendNotice } from './record.js'
import type { OfferedScripts } from './scripts/scripts.js'
import { otherThanSigned, type Verdict } from './signatures.js'
import type { SentSignatures } from '../core/proof/signers.js'
import type { Planned } from './turn.js'

/** A deployment that has been recorded. It continues if its client disconnects. */
export interface Run {
  deployId: string
  /** What it waits for before it begins; null: it is in the queue. */
  heldFor: DeploymentRow['heldFor']
  /** Resolves with the final record. Never rejects. */
  finished: Promise<DeploymentRow>
}

export interface AdmissionNeeds extends DeployNeeds {
  files: DeployFiles
  intake: Intake
  live: Live
  pending: Pending
  queue: Queue
  waiting: WaitingDeployments
  runner: Runner
  /** Throws if the server is stopping. */
  refuseWhenStopping(): void
}

/** Maximum time in which another hub takes an archive. */
const maxCopyMs = 10 * 60_000
const bytesPerMegabyte = 1024 * 1024

/** A deployment that may begin, before it has a record. */
export interface Draft extends Beginning {
  project: Project
  actor: Actor
  message: string | null
  traceId: string | null
  archive: Pick<Received, 'startedAt' | 'endedAt' | 'storedBytes'> & {
    bytes: number | null
    sha256: string | null
    reuse?: Reuse
  }
  rollbackOf: string | null
  promotedFrom?: string
  provenance: Provenance | null
  confirmSeconds: number | null
  offered: OfferedScripts
  env: Record<string, string>
  /** The plan that the deployment is held to; null: none. */
  plan: KeptPlan | null
  /** The state that the target is to have exactly; null: the files of the archive are put over the others. */
  exact: ExactGoal | null
  /** What a repair puts back; null: it is no repair. */
  repair: RepairGoal | null
  /** Whether edited files are replaced although the policy refuses that. A plan and an exact goal say it themselves. */
  force?: boolean
  rollout?: Partial<RolloutPolicy> | undefined
  role?: string | undefined
  takesBack?: boolean | undefined
  /** Who signed it; absent: nobody is asked. */
  verdict?: Verdict
  sent?: SentSignatures | null
  /** The file with the list of its components; null: there is none. */
  sbom?: string | null
  discardUpload(): Promise<void>
}

/** The admission of deployments: it keeps the archive, writes the record, and adds the deployment to the queue. */
export class Admission {
  readonly #needs: AdmissionNeeds

  constructor(needs: AdmissionNeeds) {
    this.#needs = needs
  }

  /** Keeps archive, output and record under the new id, all or none. Nothing can fail once the record is durable. */
  async admit(archivePath: string | null, id: string, draft: Draft): Promise<Run> {
    const { planned, note } = await this.#keep(archivePath, id, draft)
    // No await in between, so that the queue has the order of the records.
    const run = this.#enqueue(planned)
    this.#tell(planned.row, draft)
    await note.settle()
    return run
  }

  /** Tells the quota and, if somebody must approve it, the notification targets of a deployment. */
  #tell(row: DeploymentRow, draft: Draft): void {
    try {
      // The archive of a rollback is a link to one that is already counted. That of a promotion is another project's.
      if (draft.rollbackOf === null && !isComposed(draft))
        this.#needs.quota.changed(draft.project.id, draft.archive.storedBytes ?? draft.archive.bytes ?? 0)
      if (row.heldFor === 'approval') {
        const notice = { trigger: 'approval', event: 'deploy_waiting', errorMessage: null } as const
        sendNotice(this.#needs, row, notice)
      }
    } catch (error) {
      this.#needs.log(`Cannot tell of deployment ${row.id}`, error)
    }
  }

  async #keep(archivePath: string | null, id: string, draft: Draft): Promise<{ planned: Planned; note: Note }> {
    const { store, clock, files, intake, live, pending, settings, quota } = this.#needs
    const auditWithin = auditsWithin(this.#needs)
    const note = await pending.note([id], { isRequired: true })
    try {
      // The archive of an exact change is composed at its turn.
      if (archivePath === null) await composeArchive(files.archive(id), [])
      else await intake.keep(archivePath, id)
      const hubs = await this.#copy(id, draft)
      draft = { ...draft, archive: { ...draft.archive, endedAt: instantOf(this.#needs.clock) } }
      const wait = this.#waitOf(draft)
      if (draft.sbom != null) await linkOrCopy(draft.sbom, files.sbom(id))
      const stated = statedTree(draft)
      const treeSha256 = wait.heldFor === 'approval' ? await this.#treeOf(id, stated) : stated
      const output = await openOutput({
        path: files.output(id),
        clock,
        maxScriptBytes: settings.number('max_output_size') * bytesPerMegabyte,
        onWritten(bytes) {
          quota.changed(draft.project.id, bytes)
          live.find(id)?.wake()
        }
      })
      const { approval } = policyOf(draft.project)
      for (const line of [...firstLines(id, draft), ...linesOfWait({ id, ...wait }, approval)]) output.say(line)
      await output.flush()
      const release = await this.#releaseOf(id, draft, wait.heldFor !== null)
      const planned = await store.write(tx => {
        this.#needs.refuseWhenStopping()
        requireProject(tx, draft.project.id)
        const row = { ...rowOf(id, draft, instantOf(this.#needs.clock)), ...wait, treeSha256 }
        addDeployment(tx, row)
        auditWithin(tx, beginOf(row, draft))
        if (draft.sent != null && draft.verdict !== undefined)
          putAttestation(tx, { ...draft.sent, deployId: id, acceptedAt: draft.verdict.acceptedAt })
        for (const hub of hubs) putCopy(tx, { deployId: id, hub })
        if (release !== null) putQueuedRelease(tx, id, release)
        const { offered, env, plan, exact, repair, force, rollout, role, takesBack, discardUpload } = draft
        const run = live.begin({ deployId: id, projectId: row.projectId, output })
        const { isForNodes } = release ?? {}
        const wishes = { offered, env, plan, exact, repair, force, rollout, role, takesBack, isForNodes }
        return { row, live: run, ...wishes, discardUpload }
      })
      return { planned, note }
    } catch (error) {
      live.forget(id)
      await note.removeFiles()
      throw error
    }
  }

  /** In a cluster, a deployment is accepted when its archive is on two hubs. Returns these hubs. */
  async #copy(deployId: string, { archive: { sha256, bytes } }: Draft): Promise<string[]> {
    const { copies } = this.#needs
    if (copies === undefined || sha256 === null || bytes === null) return []
    return copies.keep({ deployId, sha256, bytes }, AbortSignal.timeout(maxCopyMs))
  }

  /** Returns what a release waits for before it begins. Going back waits for nothing. */
  #waitOf({ project, startAt = null, rollbackOf, exact, repair }: Draft): Pick<DeploymentRow, 'heldFor' | 'holdUntil'> {
    const { approval } = policyOf(project)
    const isNew = rollbackOf === null && exact === null && repair === null
    if (!isNew || approval === null) return { heldFor: startAt === null ? null : 'schedule', holdUntil: startAt }
    const untilMs = this.#needs.clock.now() + approval.hours * 3_600_000
    const lastMs = startAt === null ? untilMs : Math.min(untilMs, Date.parse(startAt))
    return { heldFor: 'approval', holdUntil: new Date(lastMs).toISOString() }
  }

  /** Returns the digest of the files of a kept archive. Refuses one that cannot be read, or that is not the stated one. */
  async #treeOf(id: string, stated: string | null): Promise<string> {
    const { files, settings } = this.#needs
    const limits = extractionLimits(settings)
    const { treeSha256 } = await treeOfKept(files.archive(id), limits, AbortSignal.timeout(maxCopyMs))
    if (stated !== null && stated !== treeSha256) throw treeDiffers()
    return treeSha256
  }

  /** Returns what must outlive a kill while the deployment is queued; null: it is not on nodes, and does not wait. */
  async #releaseOf(
    id: string,
    { project, offered, env, rollout = {}, role, plan }: Draft,
    isWaiting: boolean
  ): Promise<QueuedRelease | null> {
    const { store, offers } = this.#needs
    const isForNodes = isPlaced(store, project.id)
    if (!isWaiting && !isForNodes) return null
    const { preDeploy, postDeploy, postDeployAsync, origin } = offered
    const offer = { offered: { preDeploy, postDeploy, postDeployAsync, origin }, clientEnv: env }
    const sealed = await offers.seal(id, offer)
    return { sealed, rollout, role: role ?? null, plan: plan === null ? null : writePlan(plan), isForNodes }
  }

  #enqueue(planned: Planned): Run {
    const { store, clock, live, queue, runner, waiting } = this.#needs
    const { row, live: run } = planned
    let queuedMs = 0
    let before = 0
    const entry = {
      key: row.projectId,
      id: row.id,
      run: async () => {
        if (before > 0) run.output.say(`→ started after ${formatSeconds(elapsedOf(clock) - queuedMs)} in the queue`)
        await runner.run(planned)
        this.#forgetLater(row.id)
      },
      drop: async (request: StopRequest) => {
        const final = await runner.drop(planned, request)
        live.forget(row.id)
        return final
      }
    }
    const begin = (): void => {
      queuedMs = elapsedOf(clock)
      before = addSaying({ store, queue, live }, entry, line => run.output.say(line))
      if (before > 0) run.output.say(`→ queued: ${countOf(before, 'deployment')} of this project ahead`)
    }
    if (isWaitingToBegin(row)) waiting.add({ planned, drop: entry.drop, begin })
    else begin()
    return { deployId: row.id, heldFor: row.heldFor, finished: run.finished }
  }

  #forgetLater(deployId: string): void {
    const { live } = this.#needs
    const tail = live.find(deployId)?.tail ?? Promise.resolve()
    void tail.finally(() => live.forget(deployId))
  }
}

/** Returns the audit entry of a deployment that was admitted. */
function beginOf(row: DeploymentRow, { actor, exact, plan, repair, force }: Draft): AuditEvent {
  const { id, projectId, rollbackOf, undoOf } = row
  const common = { actor, projectId, target: id }
  const forced = exact?.force || force ? ', forced' : ''
  if (undoOf !== null) return { ...common, action: 'deployment.undo', detail: `of ${undoOf}${forced}` }
  if (repair !== null) {
    return { ...common, action: 'deployment.repair', detail: countOf(repair.paths.length, 'file') }
  }
  if (rollbackOf === null) {
    const commit = row.provenance?.commit ?? null
    const changes = commit === null ? [] : [{ field: 'commit', from: null, to: commit }]
    const outside = row.override === null ? [] : [`outside of the windows: ${row.override}`]
    const from = row.promotedFrom === null ? [] : [`of ${row.promotedFrom}`]
    const detail = writeChanges([...from, wishesIn(plan), ...outside].filter(Boolean).join(', '), changes)
    const action = row.promotedFrom === null ? 'deployment.upload' : 'deployment.promote'
    return { ...common, action, detail: detail === '' ? null : detail }
  }
  return { ...common, action: 'deployment.rollback', detail: `${row.exact ? 'exactly ' : ''}to ${rollbackOf}${forced}` }
}

/** Returns what a push may do to files of the target that it does not contain, or that were edited. */
function wishesIn(plan: KeptPlan | null): string {
  if (plan === null) return ''
  const removed = plan.prune === 'foreign' ? `, ${countOf(plan.pruned, 'file')}` : ''
  const wishes = [plan.prune === 'off' ? [] : `prune: ${plan.prune}${removed}`, plan.force ? 'forced' : []].flat()
  return wishes.join(', ')
}

function firstLines(id: string, draft: Draft): string[] {
  const { project, actor, archive } = draft
  const what = `Deployment ${id}${purposeOf(draft)}`
  const size = archive.bytes === null ? '' : `: ${formatBytes(archive.bytes)}, SHA-256 ${archive.sha256}`
  const took = formatSeconds(Date.parse(archive.endedAt) - Date.parse(archive.startedAt))
  const begin = `${what} of ${project.name} (${project.env}), started by ${actorText(actor.name, () => project.name)}`
  const stored = isComposed(draft) ? [] : [`→ stored the archive${size} (${took})`]
  const outside = draft.override == null ? [] : [`→ begins outside of the windows of the project: ${draft.override}`]
  return [begin, ...reuseLines(archive.reuse), ...stored, ...(draft.verdict?.lines ?? []), ...outside]
}

function reuseLines(reuse: Reuse | undefined): string[] {
  if (reuse === undefined) return []
  const { came, patched, files, from, tookMs } = reuse
  const how = patched === 0 ? '' : ` (${grouped(patched)} as differences)`
  const what = `${grouped(came)} of ${countOf(files, 'file')} came${how}, the others are those of ${from}`
  return [`→ ${what}; the archive was assembled (${formatSeconds(tookMs)})`]
}

/** Returns the tree that the client has stated or signed; null: none. Refuses two that differ. */
function statedTree({ archive, verdict }: Draft): string | null {
  const [stated, signed] = [archive.reuse?.treeSha256 ?? null, verdict?.treeSha256 ?? null]
  if (stated !== null && signed !== null && stated !== signed) throw otherThanSigned(null)
  return signed ?? stated
}

/** Whether the archive is composed when the deployment starts. */
function isComposed({ exact, repair }: Draft): boolean {
  return exact !== null || repair !== null
}

function purposeOf({ rollbackOf, promotedFrom, exact, repair }: Draft): string {
  if (promotedFrom !== undefined) return ` (the release of ${promotedFrom})`
  if (repair !== null) return ` (a repair of ${countOf(repair.paths.length, 'file')})`
  if (exact?.undoOf) return ` (undoes ${exact.undoOf})`
  if (rollbackOf === null) return ''
  return exact === null ? ` (a rollback to ${rollbackOf})` : ` (a rollback exactly to ${rollbackOf})`
}

function triggerOf({ repair, rollbackOf, exact, promotedFrom }: Draft): DeploymentRow['triggerSource'] {
  if (repair !== null) return 'repair'
  if (promotedFrom !== undefined) return 'promotion'
  return rollbackOf === null && exact === null ? 'cli' : 'rollback'
}

function rowOf(id: string, draft: Draft, startTime: string): DeploymentRow {
  const { project, actor, message, traceId, archive, rollbackOf, exact, provenance, confirmSeconds } = draft
  const { startedAt, endedAt } = archive
  const stored: DeploymentStep = { name: 'store', status: 'success', startedAt, endedAt }
  return {
    id,
    projectId: project.id,
    projectName: project.name,
    status: 'queued',
    triggerSource: triggerOf(draft),
    startTime,
    endTime: null,
    duration: null,
    rollbackOf,
    exact: isComposed(draft),
    undoOf: exact?.undoOf ?? null,
    promotedFrom: draft.promotedFrom ?? null,
    override: draft.override ?? null,
    message,
    env: project.env,
    hasArtifact: true,
    archiveBytes: archive.bytes,
    archiveSha256: archive.sha256,
    uploadedBytes: archive.reuse?.uploadedBytes ?? null,
    reusedFrom: archive.reuse?.from ?? null,
    fileCount: null,
    errorMessage: null,
    actor: actor.name,
    tokenId: actor.token?.id ?? null,
    actorIp: actor.ip,
    claimedIp: actor.claimedIp ?? null,
    traceId,
    placed: null,
    provenance,
    treeSha256: null,
    signedBy: draft.verdict?.signedBy ?? [],
    statement: draft.verdict?.claim ?? null,
    heldFor: null,
    holdUntil: null,
    startAt: draft.startAt ?? null,
    approvals: [],
    confirmSeconds,
    revertedAt: null,
    revertReason: null,
    checks: [],
    steps: [stored],
    scripts: []
  }
}
