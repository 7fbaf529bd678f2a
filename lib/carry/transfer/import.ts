/*
 * Imports a package (package.ts) into the store and the data directory.
 *
 *   read       read and check every record before anything is changed
 *   plan       decide what happens to each record (plan.ts); refuse conflicting records
 *   unpack     unpack outputs, manifests and artifacts into tmp/, and check them
 *   place      link or copy the files of deployments to their final names; keep the previous files aside
 *   write      write all records in one transaction; if it fails, restore the previous files
 *   restore    extract artifacts over the targets of created and replaced projects, each all or nothing
 *              (core/install/unpack/extract.ts)
 *
 * A dry run ends after unpacking. After a crash between place and write, the next start undoes place. After a crash
 * following write, the import is complete except for the artifacts that were not restored yet. The next import of the package
 * restores them (`unfilled`).
 */
import { instantOf } from '../../base/clock.js'
import { seenTime } from '../../core/audit/audit.js'
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { besideArchive } from '../../core/archive/pack-set.js'
import { openArchive } from '../../core/archive/read.js'
import { closing, createGate, createSlices, perObject } from '../../base/async.js'
import { fingerprintOf, sha256 } from '../../base/digests.js'
import { linkOrCopy } from '../../base/files.js'
import { nullIfMissing, Refusal } from '../../base/errors.js'
import type { LabelKind, Project } from '../../model/project.js'
import { readSbom } from '../../model/sbom.js'
import { type Attestation, maxSbomBytes } from '../../model/statement.js'
import type { ImportResult, PartResult, Strategy } from '../../model/transfer.js'
import { checkRights } from '../../core/proc/identity.js'
import type { Reader, Store, Transaction } from '../../core/store/database.js'
import type { ReadReceipt } from '../../core/proof/receipt.js'
import { importReceipt } from '../../core/store/tables/receipts.js'
import {
  findDeployment,
  insertDeployment,
  liveDeployment,
  updateDeployment
} from '../../core/store/tables/deployments.js'
import { isPlaced } from '../../core/store/tables/fleet.js'
import {
  findProject,
  insertLabel,
  insertProject,
  noteForeignChange,
  putVariable,
  updateLabel,
  updateProject
} from '../../core/store/tables/projects.js'
import { countsSequence, findAttestation, putAttestation } from '../../core/store/tables/signing-keys.js'
import { insertNotificationTarget, updateNotificationTarget, writeSetting } from '../../core/store/tables/server.js'
import { type Asked, openScratch, type Scratch, type SealPolicy, type TransferNeeds } from './needs.js'
import { manifestLineOf, scriptedLineOf } from '../../core/install/manifest.js'
import { bringsOf, copyList } from './brings.js'
import {
  artifactPath,
  componentsPath,
  deployedPath,
  openPackage,
  outputPath,
  type Package,
  scriptedPath
} from './package.js'
import {
  changed,
  created,
  divideSettings,
  planImport,
  replaced,
  type Action,
  type ImportPlan,
  type Planned,
  type SettingsPlan
} from './plan.js'
import { type GivenDeployment, readRecords } from './records.js'

export interface ImportRequest extends Asked {
  strategy: Strategy
  /** Whether settings that control access are imported, too (plan.ts). */
  accessSettings: boolean
  /** Whether artifacts are extracted over the targets. */
  restoreArtifacts: boolean
  /** If true, nothing is changed. */
  dryRun: boolean
}

/**
 * Imports the package at `path`. Refuses like package.ts, records.ts, plan.ts and core/archive/read.ts; also an invalid
 * setting.
 */
export async function importPackage(needs: TransferNeeds, path: string, request: ImportRequest): Promise<ImportResult> {
  return closing(async defer => {
    const given = await openPackage(path)
    defer(() => given.close())
    const scratch = await openScratch(needs.home.tmp, needs.ids)
    defer(() => scratch.discard())
    const makePlan = await planner(needs, given, request)
    const plan = makePlan(needs.store)
    const continued = request.restoreArtifacts ? unfilled(needs, given, plan) : new Set<string>()
    const files = await unpack(given, { plan, continued, scratch, signal: request.signal })
    const result = resultOf(plan, given, { ...request, continued, isSecret: needs.settings.isSecret })
    if (request.dryRun) return result
    await write(needs, { plan, files, request, makePlan })
    needs.settings.reload()
    await restore(needs, { files, result, request })
    return result
  })
}

type Planner = (db: Reader) => ImportPlan

/**
 * Reads all records and returns a function that makes the plan. The plan is made twice, the second time within the
 * transaction.
 */
async function planner(
  needs: TransferNeeds,
  given: Package,
  { strategy, accessSettings }: ImportRequest
): Promise<Planner> {
  const now = instantOf(needs.clock)
  const records = await readRecords(given, now)
  const known = new Set(Object.keys(needs.settings.all()))
  const { wanted, leftOut, unknown } = divideSettings(records.settings, { known, withAccess: accessSettings })
  const settings = { ...takenOf(needs, wanted, records.hasOtherSettings), leftOut, unknown }
  for (const project of records.projects) project.token ||= needs.ids.token()
  const names = new Map(records.projects.map(({ id, name }) => [id, name]))
  for (const { row } of records.deployments) row.projectName ||= names.get(row.projectId) ?? row.projectId
  await verifySigners(needs, records.deployments)
  const rightsFaults = await faultsOfRights(records.projects)
  const { hasRunning } = needs.deployments
  const { logSources, allowSystemPaths } = needs
  const { directory: home } = needs.home
  return db =>
    planImport(db, {
      records,
      settings,
      strategy,
      withAccess: accessSettings,
      home,
      allowSystemPaths,
      hasRunning,
      rightsFaults,
      logSources
    })
}

/** Lets each record name only the keys that this server trusts and whose signatures it has verified. */
async function verifySigners({ deployments }: TransferNeeds, given: readonly GivenDeployment[]): Promise<void> {
  const signers = given.some(({ attested }) => attested !== null) ? deployments.signers() : () => []
  const slices = createSlices()
  for (const { row, attested } of given) {
    await slices.turn()
    row.signedBy = attested === null ? [] : signers(row.projectId, attested)
  }
}

/** Checks the settings. Of another program's, one that cannot be taken is left out, with a note. */
function takenOf(
  { settings }: TransferNeeds,
  wanted: Record<string, unknown>,
  isOfOthers: boolean
): Pick<SettingsPlan, 'taken' | 'refused'> {
  const refused = new Map<string, string>()
  for (const [key, value] of isOfOthers ? Object.entries(wanted) : []) {
    try {
      settings.check({ [key]: value })
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      refused.set(key, `The setting "${key}" was left out: ${error.message}`)
    }
  }
  const taken = settings.check(Object.fromEntries(Object.entries(wanted).filter(([key]) => !refused.has(key))))
  return { taken, refused: [...refused.values()] }
}

/** Returns why svc cannot take on the rights of projects on this machine, by their ids. */
async function faultsOfRights(projects: readonly Project[]): Promise<Map<string, Refusal>> {
  const faults = new Map<string, Refusal>()
  const known = new Map<string, Refusal | null>()
  for (const { id, runAs, umask } of projects) {
    const key = JSON.stringify([runAs, umask])
    if (!known.has(key)) known.set(key, await faultOfRights({ runAs, umask }))
    const fault = known.get(key)
    if (fault) faults.set(id, fault)
  }
  return faults
}

async function faultOfRights(rights: Pick<Project, 'runAs' | 'umask'>): Promise<Refusal | null> {
  try {
    await checkRights(rights)
    return null
  } catch (error) {
    if (error instanceof Refusal) return error
    throw error
  }
}

/**
 * Returns the projects whose records an earlier import has written, but whose artifact it did not restore: it was killed,
 * or failed. Notes them in the plan.
 */
function unfilled({ store, deployments }: TransferNeeds, given: Package, plan: ImportPlan): Set<string> {
  const deployIds = new Map(given.artifacts().map(({ projectId, deployId }) => [projectId, deployId ?? '']))
  const found = plan.projects.filter(
    ({ id, action }) =>
      action === 'skip' &&
      findDeployment(store, deployIds.get(id) ?? '')?.projectId === id &&
      liveDeployment(store, id) === undefined &&
      !isPlaced(store, id) &&
      !deployments.hasRunning(id)
  )
  for (const { id, record } of found)
    plan.notes.push(`The files of "${record.name}" (${id}) were missing: an earlier import did not extract them`)
  return new Set(found.map(({ id }) => id))
}

/** The files that were unpacked into tmp/. */
interface Unpacked {
  /** For each created or replaced deployment, by id: its files, each with the ending of its final name. */
  deployments: Map<string, Array<{ path: string; ending: string }>>
  /** The artifacts, by project. */
  artifacts: Map<string, { path: string; deployId: string | null }>
}

interface Unpacking {
  plan: ImportPlan
  /** Existing projects whose artifact is restored now. */
  continued: ReadonlySet<string>
  scratch: Scratch
  signal: AbortSignal | undefined
}

async function unpack(given: Package, { plan, continued, scratch, signal }: Unpacking): Promise<Unpacked> {
  const deployments: Unpacked['deployments'] = new Map()
  for (const { id, record } of changed(plan.deployments)) {
    signal?.throwIfAborted()
    const files: Array<{ path: string; ending: string }> = []
    const take = async (name: string): Promise<string> => {
      const path = scratch.file()
      await given.extract(name, path, { signal })
      return path
    }
    const hasOutput = given.has(outputPath(id))
    files.push({ path: hasOutput ? await take(outputPath(id)) : await writeOutput(record, scratch), ending: '.log' })
    if (given.has(deployedPath(id))) {
      const path = scratch.file()
      // Earlier versions could leave a torn one. It stays torn.
      await copyList(await take(deployedPath(id)), path, manifestLineOf)
      files.push({ path, ending: '.manifest' })
    }
    if (given.has(scriptedPath(id))) {
      const path = scratch.file()
      if (!(await copyList(await take(scriptedPath(id)), path, scriptedLineOf))) throw noList(scriptedPath(id))
      files.push({ path, ending: '.scripted' })
    }
    if (given.has(componentsPath(id))) {
      const path = await take(componentsPath(id))
      await checkComponents(path, record.row)
      files.push({ path, ending: '.sbom.json' })
    }
    record.row.hasArtifact = false
    deployments.set(id, files)
  }
  return { deployments, artifacts: await unpackArtifacts(given, { plan, continued, scratch, signal }, deployments) }
}

/**
 * Unpacks the artifacts of created and replaced projects. If such an artifact is the archive of a created or replaced
 * deployment, it is also kept as that archive.
 */
async function unpackArtifacts(
  given: Package,
  { plan, continued, scratch, signal }: Unpacking,
  deployments: Unpacked['deployments']
): Promise<Unpacked['artifacts']> {
  const artifacts: Unpacked['artifacts'] = new Map()
  const projects = new Set([...changed(plan.projects).map(({ id }) => id), ...continued])
  const planned = new Map(changed(plan.deployments).map(one => [one.id, one]))
  for (const { projectId, deployId, sha256 } of given.artifacts()) {
    const deployment = planned.get(deployId ?? '')
    if (!projects.has(projectId) && deployment === undefined) continue
    const path = scratch.file()
    await given.extract(artifactPath(projectId), path, { sha256, signal })
    await checkArchive(path, projectId)
    if (projects.has(projectId)) artifacts.set(projectId, { path, deployId })
    if (deployment === undefined || deployment.record.row.projectId !== projectId) continue
    deployment.record.row.hasArtifact = true
    deployments.get(deployment.id)?.push({ path, ending: '.zip' })
  }
  return artifacts
}

/** Maximum number of entries of an archive, as for a deployment. */
const maxEntries = 200_000 // decisions §4

/** Refuses an artifact that could not be deployed, before anything is written. */
async function checkArchive(path: string, projectId: string): Promise<void> {
  try {
    ;(await openArchive(path, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER })).close()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const field = artifactPath(projectId)
    throw new Refusal(error.kind, error.code, `The package cannot be imported: ${field}: ${error.message}`, {
      field,
      cause: error
    })
  }
}

/** The paths and ids of a list of changes are followed, so svc takes only what it would write. */
function noList(field: string): Refusal {
  const sentence = `The package cannot be imported: ${field} is not a list of what scripts changed`
  return new Refusal('invalid', 'broken_package', sentence, { field })
}

/** Refuses a file that svc would not have accepted as the list of components of a deployment. */
async function checkComponents(path: string, { id, statement }: GivenDeployment['row']): Promise<void> {
  const field = componentsPath(id)
  const broken = (why: string): Refusal =>
    new Refusal('invalid', 'broken_package', `The package cannot be imported: ${field}: ${why}`, { field })
  if ((await stat(path)).size > maxSbomBytes) throw broken(`it has more than ${maxSbomBytes} bytes`)
  const bytes = await readFile(path)
  try {
    readSbom(bytes)
  } catch (error) {
    throw broken((error as Error).message)
  }
  const signed = statement?.sbomSha256 ?? null
  if (signed !== null && signed !== sha256(bytes).toString('hex')) throw broken('it is not the one that was signed')
}

/** Writes an output of which the package has only the text: every line gets the start time of the deployment. */
async function writeOutput({ row, output }: GivenDeployment, scratch: Scratch): Promise<string> {
  const path = scratch.file()
  const at = new Date(row.startTime).toISOString()
  const lines = output === '' ? [] : output.replace(/\r?\n$/, '').split(/\r?\n/)
  await writeFile(path, lines.map(line => `${at} ${line}\n`).join(''), { flag: 'wx', mode: 0o600 })
  return path
}

interface ImportWrite {
  plan: ImportPlan
  files: Unpacked
  request: ImportRequest
  makePlan: Planner
}

/** Imports write one after the other: two of one package put the same files in place, and each took back those of both. */
const writingInto = perObject((_store: Store) => createGate({ places: 1 }))

async function write(needs: TransferNeeds, given: ImportWrite): Promise<void> {
  const leave = await writingInto(needs.store).enter(given.request.signal)
  try {
    if (outline(given.makePlan(needs.store)) !== outline(given.plan)) throw changedMeanwhile()
    await writeAlone(needs, given)
  } finally {
    leave()
  }
}

async function writeAlone(needs: TransferNeeds, { plan, files, request, makePlan }: ImportWrite): Promise<void> {
  const note = await needs.deployments.note(created(plan.deployments).map(({ id }) => id))
  try {
    await writeNoted(needs, { plan, files, request, makePlan })
  } finally {
    // By now the files have their records, or were removed again.
    await note.settle()
  }
}

async function writeNoted(needs: TransferNeeds, { plan, files, request, makePlan }: ImportWrite): Promise<void> {
  const policies = changed(plan.projects).map(({ record }) => record.policy)
  const sealed = await needs.headers.sealer(policies, { keepsUnknown: true })
  const placed = await placeFiles(needs, files)
  try {
    await needs.store.write(tx => {
      // The records may have changed while the package was unpacked.
      if (outline(makePlan(tx)) !== outline(plan)) throw changedMeanwhile()
      apply(tx, plan, { ...needs, sealed })
      const detail = `${request.strategy}: ${countsOf(plan)}`
      needs.audit.within(tx, { action: 'migration.import', actor: request.actor, detail })
    })
  } catch (error) {
    await placed.putBack()
    throw error
  }
  await placed.forget()
}

/**
 * Puts files under the final names of their deployments. Previous files are kept aside until the import has finished.
 * The name of a file kept aside includes a fingerprint of its record: after a kill, the next start puts the file back
 * if the record is still the same (deploy/strays.ts).
 */
async function placeFiles(
  { home, ids, store }: TransferNeeds,
  files: Unpacked
): Promise<{ putBack(): Promise<void>; forget(): Promise<void> }> {
  const done: Array<{ path: string; aside: string; wasThere: boolean }> = []
  const isShared = (await readdir(home.deployments)).some(name => name.endsWith('.index'))

  async function place(id: string, ending: string, from: string | undefined): Promise<void> {
    const path = join(home.deployments, id + ending)
    const kept = join(home.tmp, `${ids.token()}.${fingerprintOf(findDeployment(store, id))}.${id}${ending}`)
    const wasThere = (await linkOrCopy(path, `${kept}.before`).then(() => true, nullIfMissing)) !== null
    if (!wasThere && from === undefined) return
    const aside = wasThere ? `${kept}.before` : `${kept}.absent`
    if (!wasThere) await writeFile(aside, '', { flag: 'wx', mode: 0o600 })
    done.push({ path, aside, wasThere })
    // Other archives may need the entries of one that is replaced. The next start removes what none needs.
    if (wasThere && ending === '.zip' && isShared) await linkOrCopy(path, besideArchive(path, 'pack')).catch(() => {})
    await rm(path, { force: true })
    if (from !== undefined) await linkOrCopy(from, path)
  }

  async function putBack(): Promise<void> {
    for (const { path, aside, wasThere } of done.reverse()) {
      await rm(path, { force: true })
      if (wasThere) await linkOrCopy(aside, path)
    }
    await forget()
  }

  async function forget(): Promise<void> {
    // The import is complete. The next start removes what could not be removed here.
    for (const { aside } of done) await rm(aside, { force: true }).catch(() => {})
  }

  try {
    for (const [id, parts] of files.deployments) {
      for (const ending of ['.log', '.manifest', '.scripted', '.sbom.json', '.zip']) {
        const from = parts.find(part => part.ending === ending)?.path
        if (from !== undefined || ending !== '.zip') await place(id, ending, from)
        // The archive may be one that shares contents: the whole one takes its place.
        if (from !== undefined && ending === '.zip' && isShared) await place(id, '.index', undefined)
      }
    }
    return { putBack, forget }
  } catch (error) {
    await putBack()
    throw error
  }
}

function apply(
  tx: Transaction,
  plan: ImportPlan,
  { logSources, sealed, clock }: TransferNeeds & { sealed: SealPolicy }
): void {
  const acceptedAt = seenTime(tx, clock)
  const withPolicy = ({ id, record }: Planned<Project>): Project => {
    const before = findProject(tx, id)?.policy ?? {}
    return { ...record, policy: sealed(record.policy, { projectId: id, before }) }
  }
  for (const { id, record } of changed(plan.settings)) writeSetting(tx, id, record)
  applyLabels(tx, 'category', plan.categories)
  applyLabels(tx, 'tag', plan.tags)
  // Two projects may have exchanged a path or a token, so each first gets a temporary one.
  for (const { id } of replaced(plan.projects)) updateProject(tx, id, { deployPath: `?${id}`, token: `?${id}` })
  for (const project of replaced(plan.projects)) updateProject(tx, project.id, withPolicy(project))
  // Lists are read newest first; with equal times, the record written last comes first.
  for (const project of created(plan.projects).reverse()) insertProject(tx, withPolicy(project))
  for (const variable of plan.variables) putVariable(tx, { ...variable, value: variable.value ?? '' })
  for (const { record } of created(plan.logSources)) logSources?.insert(tx, record)
  for (const { record } of replaced(plan.logSources)) logSources?.replace(tx, record)
  for (const { record } of created(plan.notificationTargets)) insertNotificationTarget(tx, record)
  for (const { id, record } of replaced(plan.notificationTargets)) updateNotificationTarget(tx, id, record)
  const byStart = changed(plan.deployments)
    .reverse()
    .sort((a, b) => Date.parse(a.record.row.startTime) - Date.parse(b.record.row.startTime))
  for (const { action, id, record } of byStart) {
    const { receipt, attested } = record
    if (action === 'create') insertDeployment(tx, record.row)
    if (receipt !== null) keepReceipt(tx, receipt)
    if (action !== 'create') {
      // The order of changes to the target stays. So does an archive that the package does not contain.
      const { placed, hasArtifact, archiveBytes, archiveSha256, signedBy, statement, ...row } = record.row
      updateDeployment(tx, id, hasArtifact ? { ...row, hasArtifact, archiveBytes, archiveSha256 } : row)
      // What this server has verified stays: otherwise a package could make a replay of a later release.
      if (countsSequence(tx, id)) continue
      updateDeployment(tx, id, { signedBy, statement })
    }
    if (attested !== null) keepAttested(tx, id, { ...attested, acceptedAt })
  }
  // Their manifests say what they replaced on another machine.
  const foreign = byStart.filter(({ action, record }) => action !== 'create' || record.row.placed !== null)
  for (const projectId of new Set(foreign.map(({ record }) => record.row.projectId))) noteForeignChange(tx, projectId)
}

/**
 * Keeps a statement as one that was accepted now: a package could call it older than the time as of which its key was revoked. That
 * of this server stays.
 */
function keepAttested(tx: Transaction, deployId: string, given: Omit<Attestation, 'deployId'>): void {
  const present = findAttestation(tx, deployId)
  if (present?.statement !== given.statement) putAttestation(tx, { deployId, ...given })
}

/** Keeps the receipt of another server, which stays a part of its chain. */
function keepReceipt(tx: Transaction, { receipt, sha256, text }: ReadReceipt): void {
  const { chain, deployment, project } = receipt
  const { id: deployId, issuedAt } = deployment
  importReceipt(tx, { deployId, projectId: project.id, number: chain.number, sha256, issuedAt, text })
}

function applyLabels(tx: Transaction, kind: LabelKind, labels: ImportPlan['tags']): void {
  for (const { record } of created(labels)) insertLabel(tx, kind, record)
  for (const { id, record } of replaced(labels)) updateLabel(tx, kind, { ...record, id })
}

interface Restoring {
  files: Unpacked
  result: ImportResult
  request: ImportRequest
}

/**
 * Restores the artifacts. The records are already written, so a failure is reported in the result, and the user can
 * retry.
 */
async function restore(needs: TransferNeeds, { files, result, request }: Restoring): Promise<void> {
  const { created, replaced, skipped, failed } = result.artifacts
  for (const list of [created, replaced]) {
    for (const projectId of [...list]) {
      const { path: archivePath, deployId } = files.artifacts.get(projectId) as {
        path: string
        deployId: string | null
      }
      try {
        await needs.deployments.restore({ projectId, archivePath, deployId, signal: request.signal })
      } catch (error) {
        list.splice(list.indexOf(projectId), 1)
        skipped.push(projectId)
        failed.push({ id: projectId, deployId, error: (error as Error).message })
        const detail = `the artifact could not be restored: ${(error as Error).message}`
        await needs.audit.record({
          action: 'migration.import',
          actor: request.actor,
          projectId,
          target: projectId,
          detail,
          ok: false
        })
      }
    }
  }
}

function resultOf(
  plan: ImportPlan,
  given: Package,
  {
    strategy,
    dryRun,
    restoreArtifacts,
    continued,
    isSecret
  }: ImportRequest & Pick<Unpacking, 'continued'> & Pick<TransferNeeds['settings'], 'isSecret'>
): ImportResult {
  const artifacts: ImportResult['artifacts'] = { created: [], replaced: [], skipped: [], failed: [] }
  const actions = new Map(plan.projects.map(({ id, action }) => [id, action]))
  for (const { projectId } of given.artifacts()) {
    const action = continued.has(projectId) ? 'create' : (actions.get(projectId) ?? 'skip')
    artifacts[restoreArtifacts ? parts[action] : 'skipped'].push(projectId)
  }
  return {
    strategy,
    dryRun,
    settings: partOf(plan.settings),
    categories: partOf(plan.categories),
    tags: partOf(plan.tags),
    projects: partOf(plan.projects),
    logSources: partOf(plan.logSources),
    notificationTargets: partOf(plan.notificationTargets),
    deployments: partOf(plan.deployments),
    artifacts,
    brings: bringsOf(plan, { restored: [...artifacts.created, ...artifacts.replaced], isSecret }),
    notes: plan.notes
  }
}

const parts: Record<Action, keyof PartResult> = { create: 'created', replace: 'replaced', skip: 'skipped' }

function partOf(planned: ReadonlyArray<Planned<unknown>>): PartResult {
  const result: PartResult = { created: [], replaced: [], skipped: [] }
  for (const { id, action } of planned) result[parts[action]].push(id)
  return result
}

/** Returns the parts that two plans of the same package must have in common. */
function outline({
  settings,
  categories,
  tags,
  projects,
  logSources,
  variables,
  notificationTargets,
  deployments
}: ImportPlan): string {
  const lists = [settings, categories, tags, projects, logSources, notificationTargets, deployments]
  return JSON.stringify([variables, ...lists.map(list => list.map(({ id, action }) => [id, action]))])
}

function countsOf(plan: ImportPlan): string {
  const { settings, projects, deployments } = plan
  const all: Array<Planned<unknown>> = [
    ...settings,
    ...plan.categories,
    ...plan.tags,
    ...projects,
    ...plan.logSources,
    ...plan.notificationTargets,
    ...deployments
  ]
  return `${created(all).length} created, ${replaced(all).length} replaced, ${all.length - changed(all).length} skipped`
}

function changedMeanwhile(): Refusal {
  return new Refusal(
    'conflict',
    'changed_meanwhile',
    'The package was not imported: records changed during the import. Try again'
  )
}
