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
import { elapsedOf, machineTimeOf } from '../base/clock.js'
import { hasCode, reasonOf, Refusal } from '../base/errors.js'
import { sha256 } from '../base/digests.js'
import type { Compared, CompareJob } from '../core/install/compare.js'
import { failed, passed } from '../core/install/findings.js'
import { extractionLimits } from '../core/install/unpack/extract.js'
import { maxTreeEntries, writeTree } from '../core/archive/tree-wire.js'
import type { DeploymentRow } from '../model/deployment.js'
import type { PlanAnswer, PlanCheck, PlanLive, PlannedScript, PruneMode, Baseline, DriftReport } from '../model/plan.js'
import { policyOf } from '../model/policy.js'
import type { Project } from '../model/project.js'
import { formatBytes } from '../base/shared/api.js'
import { liveDeployment } from '../core/store/tables/deployments.js'
import { requireProject } from '../core/store/tables/projects.js'
import { openKept } from '../core/archive/pack-set.js'
import type { ArchiveEntry } from '../core/archive/read.js'
import { freeBytes } from '../base/files.js'
import { checkDeployPath, whyNotMade, type ModePolicy } from '../core/install/guard.js'
import { findRights, type Rights, umaskOf } from '../core/proc/identity.js'
import { type Beginning, refuseBeginning, refuseUpload, refuseLocked } from './gateway.js'
import type { DeployNeeds } from './needs.js'
import { waitAhead } from './queue.js'
import { refusePlaced } from './wishes.js'
import type { Live, LiveRun } from './output/live.js'
import {
  createKeptPlans,
  keepsOf,
  type KeptPlan,
  rulesOf,
  wishesOf,
  longWaitMs,
  notReady,
  reservedPaths
} from './ownership.js'
import {
  chooseScripts,
  failureScriptOf,
  mayClientsSendScripts,
  type OfferedScripts,
  refuseClientScripts
} from './scripts/scripts.js'
import { modesOf, permissionsOf } from './files.js'
import { createGate } from '../base/async.js'
import { type Ownership, type Removes, takesUnowned } from '../core/install/ownership.js'
import type { Executors } from '../core/install/unpack/executors.js'
import { createTreeDigest } from '../model/manifest.js'
import type { Trees, TreeStates } from './trees.js'
import { isUnusableTree } from '../core/install/owned-tree.js'

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
  live: Pick<Live, 'all'>
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
    const { store, live } = this.#needs
    return { running: running?.deployId ?? null, waiting: waiting.length, ahead: waitAhead({ store, live }, projectId) }
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

/** What to compare with a target. */
interface Comparison {
  /** A tree (core/archive/tree-wire.ts), or where to read it when its turn has come. */
  tree: Uint8Array | { readonly bytes: number; read(): Promise<Uint8Array> }
  /** Maximum number of paths listed of each kind. */
  listed: number
  /** Which owned files would be removed; default: none. */
  removes?: Removes | null
  /** What happens to files that somebody edited; default: `ignore`. */
  edited?: Ownership['edited']
  /** The deployments whose archives are kept, and the limit of what is kept otherwise; default: all fits. */
  keeps?: Pick<Ownership, 'archives' | 'before'>
  /** Paths that the archive must not touch (core/install/guard.ts); default: none. */
  reserved?: readonly string[]
  /** Whether the modes are final, so that the umask and the policy of the project do not apply; default: false. */
  isExact?: boolean
  /** As of a `CompareJob`. */
  groups?: CompareJob['groups']
  /** Whether every file is read, although the owned tree proves that it is untouched. */
  isFull?: boolean
  signal: AbortSignal
}

/** Compares trees with targets: one comparison per project at a time, in the order of arrival. */
export type Comparer = ReturnType<typeof createComparer>

export interface ComparerNeeds extends Pick<DeployNeeds, 'home' | 'allowSystemPaths' | 'clock'> {
  executors: Executors
  trees: Pick<Trees, 'read'>
  /** Time after which a comparison is slow; default: 10 s. */
  slowMs?: number
}

/** After a slow comparison, those of its project share one place for this long: a thread is left for the others. */
const rememberedMs = 3_600_000

/** Time limit of a comparison. */
const compareMs = 60_000
/** Maximum number of comparisons of a project: one in progress, the others waiting. */
const maxComparisons = 5
/** Number of large trees that are in memory at a time: one for each thread. */
const largeTrees = 2
/** A tree above this size waits until it may be in memory. */
const largeTreeBytes = 1024 * 1024

/** Creates the comparer. The threads start when there is work. */
export function createComparer({ home, allowSystemPaths, clock, executors, trees, slowMs = 10_000 }: ComparerNeeds) {
  /** The comparisons of each project that has some: the number, and the end of the last one. */
  const lines = new Map<string, { count: number; end: Promise<unknown> }>()
  const large = createGate({ places: largeTrees })
  /** The time up to which the comparisons of a project share a place. */
  const slow = new Map<string, number>()
  const slowGate = createGate({ places: 1 })

  async function compare(project: Project, comparison: Comparison) {
    const isSlow = (slow.get(project.id) ?? 0) > performance.now()
    const leave = isSlow ? await slowGate.enter(comparison.signal) : () => {}
    const startedMs = performance.now()
    try {
      return await compareNow(project, comparison)
    } finally {
      const endedMs = performance.now()
      if (endedMs - startedMs >= slowMs) slow.set(project.id, endedMs + rememberedMs)
      leave()
    }
  }

  async function compareNow(project: Project, comparison: Comparison) {
    const { tree, signal } = comparison
    if ('byteLength' in tree) return await compareTree(project, comparison, tree)
    const leave = tree.bytes > largeTreeBytes ? await large.enter(signal) : () => {}
    try {
      return await compareTree(project, comparison, await tree.read())
    } finally {
      leave()
    }
  }

  async function compareTree(project: Project, comparison: Comparison, tree: Uint8Array) {
    const rights = await findRights(project)
    // A thread of svc notices a torn tree while it compares. A process of another user may not.
    try {
      return await compareWith(project, comparison, { tree, rights, isChecked: rights !== null })
    } catch (error) {
      if (!isUnusableTree(error)) throw error
      return await compareWith(project, comparison, { tree, rights, isChecked: true })
    }
  }

  async function compareWith(
    project: Project,
    { listed, removes = null, isExact = false, isFull = false, signal, ...more }: Comparison,
    { tree, rights, isChecked }: { tree: Uint8Array; rights: Rights | null; isChecked: boolean }
  ) {
    const target = project.deployPath
    const rules = { home: home.directory, allowSystemPaths }
    const isNeeded = takesUnowned(removes)
    const known = await trees.read(project.id, isNeeded ? longWaitMs : undefined, isChecked)
    if (isNeeded && known.baseline === 'building') throw notReady()
    // A thread reads the tree line by line. A process of another user may not open it.
    const owned = known.baseline !== 'owned' ? null : rights === null ? known.path : await known.contents()
    const limits = { listed, limitMs: compareMs, nowMs: machineTimeOf(clock) }
    const { reserved = [], edited = 'ignore', keeps, groups = [] } = more
    const isUnknown = known.baseline === 'building'
    const asked = { removes, reserved, isFull, edited, isUnknown, ...(keeps && { keeps }) }
    const { modes, check } = await modesToCompare(project)
    const given = isExact ? { umask: null, groups } : { umask: umaskOf(project), modes }
    const job = { target, rules, tree, owned, ...asked, ...given, ...limits }
    const outcome = await executors.comparing(rights).run({ kind: 'compare', compare: job }, signal)
    if (outcome.kind === 'compared') {
      const { compared } = outcome
      const checks = isExact ? compared.checks : [...compared.checks, check]
      return { baseline: known.baseline, compared: { ...compared, checks } }
    }
    signal.throwIfAborted()
    if (outcome.kind === 'failed') throw outcome.error
    throw new Error(`The comparison with "${target}" ended without an answer: ${outcome.kind}`)
  }

  return {
    /** Starts after the comparisons before it. Refuses what core/install/compare.ts refuses, and (`conflict`) plan_busy when too many wait. */
    async compare(project: Project, comparison: Comparison): Promise<{ baseline: Baseline; compared: Compared }> {
      const line = lines.get(project.id) ?? { count: 0, end: Promise.resolve() }
      if (line.count === maxComparisons) throw busy(project)
      lines.set(project.id, line)
      line.count++
      const result = line.end.then(() => {
        comparison.signal.throwIfAborted()
        return compare(project, comparison)
      })
      line.end = result.catch(() => undefined)
      try {
        return await result
      } finally {
        if (--line.count === 0) lines.delete(project.id)
      }
    }
  }
}

/** Returns the permissions and the group of a deployment, and the check of the group. */
async function modesToCompare(project: Project): Promise<{ modes: ModePolicy; check: PlanCheck }> {
  try {
    return { modes: await modesOf(project), check: passed('group') }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return { modes: permissionsOf(project), check: failed('group', error.code, error.message) }
  }
}

function busy({ name }: Project): Refusal {
  const sentence = `${maxComparisons} comparisons with the target of "${name}" are in progress or waiting. Try again in a moment`
  return new Refusal('conflict', 'plan_busy', sentence, { retryAfterSeconds: 5 })
}

/** What to look for in a target. */
export interface DriftRequest {
  projectId: string
  /** Whether every file is read, although size, modification time and inode are those that svc recorded. */
  isFull: boolean
  signal: AbortSignal
}

/** Maximum number of files in a report. */
const maxListed = 10_000

/**
 * Lists the files that svc put into the target of a project and that were edited or removed since. Writes nothing.
 * Refuses: 404, and what a comparison refuses.
 */
export async function reportDrift(
  { store, comparer, states }: Pick<DeployNeeds, 'store'> & { comparer: Comparer; states: Pick<TreeStates, 'drifted'> },
  { projectId, isFull, signal }: DriftRequest
): Promise<DriftReport> {
  const project = requireProject(store, projectId)
  const tree = Buffer.from([...writeTree([], createTreeDigest().end())].join(''))
  const { baseline, compared } = await comparer.compare(project, { tree, listed: maxListed, isFull, signal })
  const { counts, paths, checks, expected } = compared
  const failed = checks.find(({ name, ok }) => name === 'target_writable' && !ok && expected === null)
  if (baseline === 'owned' && expected !== null) await states.drifted(projectId, counts.drifted)
  return {
    success: true,
    baseline,
    partial: expected === null,
    problem: failed?.message ?? null,
    count: counts.drifted,
    files: paths.drifted.map(({ path, owned, found, mtime, size, since }) => ({
      path,
      owned,
      found,
      mtime,
      size,
      since
    }))
  }
}
