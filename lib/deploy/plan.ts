/*
 * Plans: what a deployment of a tree would do. The comparison with the disk is core/install/compare.ts; the rest of the
 * answer comes from the project, its records and the queue. A plan writes nothing.
 *
 * The server keeps the newest plans in memory. An upload that names one is held to it: `expect` returns what the plan
 * found, and the staging of the deployment compares. A restart forgets plans.
 */

import { constants } from 'node:fs'
import { access, lstat, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { elapsedOf } from '../base/clock.js'
import { hasCode, reasonOf, Refusal } from '../base/errors.js'
import { sha256 } from '../base/digests.js'
import type { Compared } from '../core/install/compare.js'
import { failed, passed } from '../core/install/findings.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { maxTreeEntries } from '../core/archive/tree-wire.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { PlanAnswer, PlanCheck, PlanLive, PlannedScript, PruneMode } from '../model/plan.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { formatBytes } from '../base/shared/api.js'
import { liveDeployment } from '../core/store/tables/deployments.js'
import { requireProject } from '../core/store/tables/projects.js'
import { openKept } from '../core/archive/pack-set.js'
import type { ArchiveEntry } from '../core/archive/read.js'
import { freeBytes } from '../base/files.js'
import { checkDeployPath, whyNotMade } from '../core/install/guard.js'
import { findRights } from '../core/proc/identity.js'
import { type Beginning, refuseBeginning, refuseUpload } from './gateway.js'
import { refuseLocked, reservedPaths } from './locks.js'
import type { Comparer, Comparison } from './comparer.js'
import type { DeployNeeds } from './needs.js'
import { refusePlaced } from './run.js'
import type { LiveRun } from './output/live.js'
import { createKeptPlans, keepsOf, type KeptPlan, rulesOf, wishesOf } from './ownership.js'
import {
  chooseScripts,
  failureScriptOf,
  mayClientsSendScripts,
  type OfferedScripts,
  refuseClientScripts
} from './scripts/scripts.js'
import { modesOf } from './files.js'

/** A request for a plan. */
export interface PlanRequest {
  projectId: string
  /** The body (core/archive/tree-wire.ts). */
  tree: Comparison['tree']
  /** Maximum number of paths listed of each kind. */
  listed: number
  /** What the request asks for instead of the policy of the project. */
  asks: { prune: PruneMode | undefined; force: boolean; override?: string | null; startAt?: string | null }
  /** The SHA-256 of each script that the client would send. */
  scripts: { preDeploy?: string | undefined; postDeploy?: string | undefined }
  /** Whether the token of the request could also upload. */
  mayUpload: boolean
  /** The refusal of an upload that the data directory has no space for; null if it has space. */
  noSpace: Refusal | null
  /** Maximum size of an upload in bytes. */
  maxUploadBytes: number
  /** The client's time in milliseconds since 1970; null if it did not say. */
  clientTimeMs: number | null
  signal: AbortSignal
}

export interface PlanNeeds extends DeployNeeds {
  comparer: Comparer
  /** Returns the deployments of a project that run or are in the queue. */
  atWorkOn(projectId: string): LiveRun[]
  refuseWhenStopping(): void
}

/** Maximum difference between the clocks of client and server. */
const maxClockMs = 5 * 60_000

/** Makes and keeps plans. */
export class Plans {
  readonly #needs: PlanNeeds
  readonly #kept: ReturnType<typeof createKeptPlans>

  constructor(needs: PlanNeeds) {
    this.#needs = needs
    this.#kept = createKeptPlans(() => elapsedOf(needs.clock))
  }

  /**
   * Makes a plan. Refuses: 404, 400 `invalid_tree`, 413 `tree_too_large`, 409 `plan_busy`, 409 `changed_meanwhile` for
   * a target that changes during the comparison, 503.
   */
  async plan(request: PlanRequest): Promise<PlanAnswer> {
    this.#needs.refuseWhenStopping()
    const project = requireProject(this.#needs.store, request.projectId)
    refusePlaced(this.#needs.store, project, 'plan a deployment of')
    return this.#answer(project, request)
  }

  /** Returns a kept plan of a project. Refuses: 409 `plan_unknown`. */
  expect(planId: string, projectId: string): KeptPlan {
    const plan = this.#kept.find(planId)
    if (plan !== undefined && plan.projectId === projectId) return plan
    const sentence = `Plan not found: "${planId}". It has expired, or the server was restarted. Plan again`
    throw new Refusal('conflict', 'plan_unknown', sentence, { field: 'planId' })
  }

  async #answer(project: Project, request: PlanRequest): Promise<PlanAnswer> {
    const { store, comparer, ids, clock, settings } = this.#needs
    const liveBefore = liveDeployment(store, project.id) ?? null
    const { prune = wishesOf(project).prune, force } = request.asks
    const { edited, removes } = rulesOf({ prune, force }, project)
    const keeps = keepsOf(this.#needs, project)
    const reserved = reservedPaths(store, project.id)
    const { baseline, compared } = await comparer.compare(project, { ...request, edited, removes, keeps, reserved })
    const { treeSha256, counts, paths, bytes, expected } = compared
    const planId = expected === null ? null : ids.id('plan_')
    let expiresAt: string | null = null
    if (planId !== null && expected !== null) {
      const leftMs = this.#kept.keep(planId, {
        projectId: project.id,
        liveId: liveBefore?.id ?? null,
        prune,
        force,
        expected,
        pruned: counts.pruned
      })
      expiresAt = new Date(clock.now() + leftMs).toISOString()
    }
    const { maxExtractedBytes } = extractionLimits(settings)
    return {
      success: true,
      project: { id: project.id, name: project.name, env: project.env },
      planId,
      expiresAt,
      partial: expected === null,
      treeSha256,
      baseline,
      live: liveBefore === null ? null : describeLive(liveBefore),
      counts,
      bytes,
      paths,
      checks: [...compared.checks, ...this.#ownChecks(project, request, compared)],
      prune,
      scripts: scriptsOf(project, request.scripts),
      queue: this.#queueOf(project.id),
      limits: { maxUploadBytes: request.maxUploadBytes, maxExtractedBytes }
    }
  }

  #ownChecks(project: Project, request: PlanRequest, { bytes, counts }: Compared): PlanCheck[] {
    const { maxExtractedBytes } = extractionLimits(this.#needs.settings)
    const { noSpace } = request
    const entries = counts.added + counts.changed + counts.timeOnly + counts.unchanged
    return [
      noSpace === null ? passed('space_home') : failed('space_home', noSpace.code, noSpace.message),
      bytes.extracted <= maxExtractedBytes
        ? passed('upload_limit')
        : failed('upload_limit', 'extracted_too_large', tooLarge(bytes.extracted, maxExtractedBytes)),
      entries <= maxTreeEntries
        ? passed('entry_limit')
        : failed('entry_limit', 'too_many_entries', `The archive would have more than ${maxTreeEntries} entries`),
      this.#clientScripts(project, request),
      this.#arrivalCheck(project, request.asks),
      request.mayUpload ? passed('token') : failed('token', 'deploy_token_needed', noUpload),
      clockCheck(request.clientTimeMs, this.#needs.clock.now())
    ]
  }

  #clientScripts(project: Project, { scripts }: PlanRequest): PlanCheck {
    const offers = scripts.preDeploy !== undefined || scripts.postDeploy !== undefined
    if (!offers || mayClientsSendScripts(project, this.#needs.settings.flag('allow_client_scripts'))) {
      return passed('client_scripts_allowed')
    }
    const sentence = 'The project does not accept scripts from clients. Set the scripts on the server'
    return failed('client_scripts_allowed', 'client_scripts_off', sentence)
  }

  #arrivalCheck(project: Project, beginning: Beginning): PlanCheck {
    const { store, clock } = this.#needs
    try {
      refuseLocked(store, project, clock.now())
      refuseUpload(store, project)
      refuseBeginning(project, beginning, clock.now())
      return passed('not_locked')
    } catch (error) {
      if (error instanceof Refusal) return failed('not_locked', error.code, error.message)
      throw error
    }
  }

  #queueOf(projectId: string): PlanAnswer['queue'] {
    const [running, ...waiting] = this.#needs.atWorkOn(projectId)
    return { running: running?.deployId ?? null, waiting: waiting.length }
  }
}

const noUpload = 'An upload needs the deploy token of the project or a named token, not the admin token'

/** Describes the deployment whose files are, or would be, in a target. */
export function describeLive({ id, status, message, treeSha256, startTime, endTime }: DeploymentRow): PlanLive {
  return { deployId: id, status, message, treeSha256, at: endTime ?? startTime }
}

function tooLarge(bytes: number, limit: number): string {
  return `The files have ${formatBytes(bytes)}, and the setting max_extracted_size allows ${formatBytes(limit)}`
}

function clockCheck(clientTimeMs: number | null, nowMs: number): PlanCheck {
  if (clientTimeMs === null || Math.abs(clientTimeMs - nowMs) <= maxClockMs) return passed('clock')
  const minutes = Math.round(Math.abs(clientTimeMs - nowMs) / 60_000)
  // The deployment succeeds all the same, so there is no error code.
  const message = `The clocks of this machine and of the server differ by ${minutes} minutes`
  return { ...passed('clock'), message }
}

function scriptsOf(project: Project, digests: PlanRequest['scripts']): PlannedScript[] {
  // The texts stay with the client: its digests stand for them.
  const offered: OfferedScripts = { origin: 'upload', ...digests }
  const { preDeploy, postDeploy } = chooseScripts(project, offered)
  return [preDeploy, postDeploy, failureScriptOf(policyOf(project))].flatMap(chosen => {
    if (chosen === null) return []
    const { step, source, script, async } = chosen
    const isOwn = source === 'platform'
    const digest = isOwn ? sha256(Buffer.from(script)).toString('hex') : script
    const clientIgnored = isOwn && step !== 'onFailure' && digests[step] !== undefined
    return [{ step, source, async, sha256: digest, clientIgnored }]
  })
}

/*
 * Checks whether an archive could be deployed, without its contents and without a thread: for a node of a fleet, which
 * prepares a release long before it puts the release in place. What only the deployment can find out, it finds out.
 */

/** An archive that may be deployed later. */
export interface PreflightRequest {
  projectId: string
  archivePath: string
  offered: OfferedScripts
}

type Needs = Pick<DeployNeeds, 'store' | 'home' | 'allowSystemPaths' | 'clock' | 'settings'>

/**
 * Refuses what a deployment of the archive would be refused for now: locks, client scripts, a broken archive, a path that
 * is not allowed, a group that cannot be given, a target that cannot be written (`not_permitted`), too little space
 * (`no_space`).
 */
export async function preflight(needs: Needs, { projectId, archivePath, offered }: PreflightRequest): Promise<void> {
  const { store, home, allowSystemPaths, clock, settings } = needs
  const project = requireProject(store, projectId)
  refuseLocked(store, project, clock.now())
  if (offered.origin === 'upload') refuseClientScripts(project, settings.flag('allow_client_scripts'), offered)
  checkDeployPath(project.deployPath, { home: home.directory, allowSystemPaths })
  // Another user's rights are taken on by the deployment itself.
  const rights = await findRights(project)
  await modesOf(project)
  if (rights === null) await checkWritable(project.deployPath)
  const archive = await openKept(archivePath, extractionLimits(settings))
  try {
    await checkSpace(project.deployPath, archive)
  } finally {
    archive.close()
  }
}

async function checkWritable(target: string): Promise<void> {
  const found = await stat(target).catch(missing)
  if (found === null) {
    const why = whyNotMade(target)
    if (why !== null) throw notPermitted(`The target cannot be created: ${why}`)
  } else if (!found.isDirectory()) {
    throw notPermitted(`The target "${target}" is not a directory`)
  } else {
    await access(target, constants.W_OK | constants.X_OK).catch((error: unknown) => {
      throw notPermitted(`Cannot write in the target "${target}": ${reasonOf(error)}`)
    })
  }
}

interface Contents {
  entries: readonly ArchiveEntry[]
  totalBytes: number
}

async function checkSpace(target: string, { entries, totalBytes }: Contents): Promise<void> {
  const free = await freeBytes(target)
  if (free === null || totalBytes <= free) return
  const needed = await changedBytes(target, entries, free)
  if (needed <= free) return
  const sentence = `The release needs ${formatBytes(needed)} in the target, and ${formatBytes(free)} are free`
  throw new Refusal('unavailable', 'no_space', sentence)
}

/** Returns the size of the files that the target does not have in this size. Stops when they are too large. */
async function changedBytes(target: string, entries: readonly ArchiveEntry[], free: number): Promise<number> {
  let bytes = 0
  for (const { path, kind, size } of entries) {
    if (kind !== 'file') continue
    const found = await lstat(join(target, path)).catch(() => null)
    if (found === null || !found.isFile() || found.size !== size) bytes += size
    if (bytes > free) break
  }
  return bytes
}

function missing(error: unknown): null {
  if (hasCode(error, 'ENOENT')) return null
  throw notPermitted(`The target cannot be used: ${reasonOf(error)}`)
}

function notPermitted(sentence: string): Refusal {
  return new Refusal('unavailable', 'not_permitted', sentence)
}
