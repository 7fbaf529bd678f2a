/*
 * A package (package.ts) into the store and the data directory.
 *
 *   read       every record, checked, before anything is done with one
 *   plan       what would happen to each (plan.ts); refused when records clash
 *   unpack     outputs, manifests and artifacts into tmp/, checked
 *   place      the files of deployments under their names; what was there is kept aside
 *   write      one transaction: all records, or none, and then the files go back to what they were
 *   restore    artifacts over the targets of created and replaced projects, each all or nothing (deploy/extract.ts)
 *
 * A dry run ends after unpacking. After a crash between place and write the next start undoes place; one
 * after write is a complete import whose last artifacts are still to be deployed.
 */
import { constants } from 'node:fs'
import { copyFile, link, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { openArchive } from '../archive/read.js'
import { closing } from '../base/closing.js'
import { fingerprintOf } from '../base/fingerprint.js'
import { Refusal } from '../base/refusal.js'
import type { LabelKind } from '../model/label.js'
import { maskedAddress } from '../model/notification-target.js'
import type { ImportBrings, ImportResult, PartResult, Strategy } from '../model/transfer.js'
import type { Reader, Transaction } from '../store/database.js'
import { findDeployment, insertDeployment, updateDeployment } from '../store/tables/deployments.js'
import { insertLabel, updateLabel } from '../store/tables/labels.js'
import { insertNotificationTarget, updateNotificationTarget } from '../store/tables/notification-targets.js'
import { insertProject, updateProject } from '../store/tables/projects.js'
import { writeSetting } from '../store/tables/settings.js'
import { putVariable } from '../store/tables/variables.js'
import type { Asked, TransferNeeds } from './needs.js'
import { artifactPath, deployedPath, outputPath } from './package.js'
import { divideSettings, planImport } from './plan.js'
import type { Action, ImportPlan, Planned } from './plan.js'
import { openPackage } from './read-package.js'
import type { Package } from './read-package.js'
import { readRecords } from './records.js'
import type { GivenDeployment } from './records.js'
import { openScratch } from './scratch.js'
import type { Scratch } from './scratch.js'

export interface ImportRequest extends Asked {
  strategy: Strategy
  /** Whether settings that decide who has access are taken, too (plan.ts). */
  accessSettings: boolean
  /** Whether artifacts are extracted over the targets. */
  restoreArtifacts: boolean
  /** Finds out, and changes nothing. */
  dryRun: boolean
}

/** Refuses what read-package.ts, records.ts, plan.ts and archive/read.ts refuse, and a setting that cannot be meant. */
export async function importPackage(needs: TransferNeeds, path: string, request: ImportRequest): Promise<ImportResult> {
  return closing(async defer => {
    const given = await openPackage(path)
    defer(() => given.close())
    const scratch = await openScratch(needs.home.tmp, needs.ids)
    defer(() => scratch.discard())
    const makePlan = await planner(needs, given, request)
    const plan = makePlan(needs.store)
    const files = await unpack(given, { plan, scratch, signal: request.signal })
    const result = resultOf(plan, given, { ...request, isSecret: needs.settings.isSecret })
    if (request.dryRun) return result
    await write(needs, { plan, files, request, makePlan })
    needs.settings.reload()
    await restore(needs, { files, result, request })
    return result
  })
}

type Planner = (db: Reader) => ImportPlan

/** Reads all records; the plan is made twice, and the second time within the transaction. */
async function planner(needs: TransferNeeds, given: Package, { strategy, accessSettings }: ImportRequest): Promise<Planner> {
  const now = new Date(needs.clock.now()).toISOString()
  const records = await readRecords(given, now)
  const known = new Set(Object.keys(needs.settings.all()))
  const { wanted, leftOut, unknown } = divideSettings(records.settings, { known, withAccess: accessSettings })
  const settings = { taken: needs.settings.check(wanted), leftOut, unknown }
  for (const project of records.projects) project.token ||= needs.ids.token()
  const names = new Map(records.projects.map(({ id, name }) => [id, name]))
  for (const { row } of records.deployments) row.projectName ||= names.get(row.projectId) ?? row.projectId
  const { hasRunning } = needs.deployments
  const { logSources, allowSystemPaths } = needs
  const { directory: home } = needs.home
  return db => planImport(db, { records, settings, strategy, withAccess: accessSettings, home, allowSystemPaths, hasRunning, logSources })
}

/** What was unpacked into tmp/. */
interface Unpacked {
  /** Of deployments that are created or replaced: the file, and its ending under the deployment's name. */
  deployments: Map<string, Array<{ path: string; ending: string }>>
  /** By project. */
  artifacts: Map<string, { path: string; deployId: string | null }>
}

interface Unpacking {
  plan: ImportPlan
  scratch: Scratch
  signal: AbortSignal | undefined
}

async function unpack(given: Package, { plan, scratch, signal }: Unpacking): Promise<Unpacked> {
  const deployments: Unpacked['deployments'] = new Map()
  for (const { id, record } of changed(plan.deployments)) {
    signal?.throwIfAborted()
    const files: Array<{ path: string; ending: string }> = []
    const take = async (name: string, ending: string): Promise<void> => {
      const path = scratch.file()
      await given.extract(name, path, { signal })
      files.push({ path, ending })
    }
    if (given.has(outputPath(id))) await take(outputPath(id), '.log')
    else files.push({ path: await writeOutput(record, scratch), ending: '.log' })
    if (given.has(deployedPath(id))) await take(deployedPath(id), '.manifest')
    record.row.hasArtifact = false
    deployments.set(id, files)
  }
  return { deployments, artifacts: await unpackArtifacts(given, { plan, scratch, signal }, deployments) }
}

/** Those of projects that are created or replaced; the archive of a deployment that is, is kept as such. */
async function unpackArtifacts(
  given: Package, { plan, scratch, signal }: Unpacking, deployments: Unpacked['deployments']
): Promise<Unpacked['artifacts']> {
  const artifacts: Unpacked['artifacts'] = new Map()
  const projects = new Set(changed(plan.projects).map(({ id }) => id))
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

/** As a deployment has it. */
const maxEntries = 200_000 // decisions §4

/** A package whose artifact could not be deployed is broken: better said before anything is written. */
async function checkArchive(path: string, projectId: string): Promise<void> {
  try {
    ;(await openArchive(path, { maxEntries, maxExtractedBytes: Number.MAX_SAFE_INTEGER })).close()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const field = artifactPath(projectId)
    throw new Refusal(error.kind, error.code, `The package cannot be imported: ${field}: ${error.message}`, { field, cause: error })
  }
}

/** Where the package has only the text of an output, every line gets the time the deployment began. */
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

async function write(needs: TransferNeeds, { plan, files, request, makePlan }: ImportWrite): Promise<void> {
  const note = await needs.deployments.note(created(plan.deployments).map(({ id }) => id))
  try {
    await writeNoted(needs, { plan, files, request, makePlan })
  } finally {
    // The files have their records, or are gone again.
    await note.settle()
  }
}

async function writeNoted(needs: TransferNeeds, { plan, files, request, makePlan }: ImportWrite): Promise<void> {
  const placed = await placeFiles(needs, files)
  try {
    await needs.store.write(tx => {
      // Somebody may have changed something while the package was unpacked.
      if (outline(makePlan(tx)) !== outline(plan)) throw changedMeanwhile()
      apply(tx, plan, needs)
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
 * Puts files under the names of their deployments; what had the name is kept aside until it is known how it ends. The name
 * of what is aside says to which record it belongs: after a kill, a start puts it back if that is still the record
 * (deploy/asides.ts).
 */
async function placeFiles(
  { home, ids, store }: TransferNeeds, files: Unpacked
): Promise<{ putBack(): Promise<void>; forget(): Promise<void> }> {
  const done: Array<{ path: string; aside: string; wasThere: boolean }> = []

  async function place(id: string, ending: string, from: string | undefined): Promise<void> {
    const path = join(home.deployments, id + ending)
    const kept = join(home.tmp, `${ids.token()}.${fingerprintOf(findDeployment(store, id))}.${id}${ending}`)
    const wasThere = await linkOrCopy(path, `${kept}.before`).then(() => true, isMissing)
    if (!wasThere && from === undefined) return
    const aside = wasThere ? `${kept}.before` : `${kept}.absent`
    if (!wasThere) await writeFile(aside, '', { flag: 'wx', mode: 0o600 })
    done.push({ path, aside, wasThere })
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
    // What stays, a start removes: the import is done.
    for (const { aside } of done) await rm(aside, { force: true }).catch(() => {})
  }

  try {
    for (const [id, parts] of files.deployments) {
      for (const ending of ['.log', '.manifest', '.zip']) {
        const from = parts.find(part => part.ending === ending)?.path
        if (from !== undefined || ending !== '.zip') await place(id, ending, from)
      }
    }
    return { putBack, forget }
  } catch (error) {
    await putBack()
    throw error
  }
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  await link(from, to).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'EEXIST') throw error
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  })
}

function isMissing(error: NodeJS.ErrnoException): false {
  if (error.code === 'ENOENT') return false
  throw error
}

function apply(tx: Transaction, plan: ImportPlan, { logSources }: TransferNeeds): void {
  for (const { id, record } of changed(plan.settings)) writeSetting(tx, id, record)
  applyLabels(tx, 'category', plan.categories)
  applyLabels(tx, 'tag', plan.tags)
  // Two projects may have exchanged a path or a token: each first gives up its own.
  for (const { id } of replaced(plan.projects)) updateProject(tx, id, { deployPath: `?${id}`, token: `?${id}` })
  for (const { id, record } of replaced(plan.projects)) updateProject(tx, id, record)
  // Lists are read newest first: of those of one moment, the last one written.
  for (const { record } of created(plan.projects).reverse()) insertProject(tx, record)
  for (const variable of plan.variables) putVariable(tx, { ...variable, value: variable.value ?? '' })
  for (const { record } of created(plan.logSources)) logSources?.insert(tx, record)
  for (const { record } of replaced(plan.logSources)) logSources?.replace(tx, record)
  for (const { record } of created(plan.notificationTargets)) insertNotificationTarget(tx, record)
  for (const { id, record } of replaced(plan.notificationTargets)) updateNotificationTarget(tx, id, record)
  const byStart = changed(plan.deployments).reverse().sort((a, b) => Date.parse(a.record.row.startTime) - Date.parse(b.record.row.startTime))
  for (const { action, id, record } of byStart) {
    if (action === 'create') insertDeployment(tx, record.row)
    else {
      // What was put in place here stays so, in the same order, and an archive that the package does not have stays, too.
      const { placed, hasArtifact, archiveBytes, archiveSha256, ...row } = record.row
      updateDeployment(tx, id, hasArtifact ? { ...row, hasArtifact, archiveBytes, archiveSha256 } : row)
    }
  }
}

function applyLabels(tx: Transaction, kind: LabelKind, labels: ImportPlan['tags']): void {
  for (const { record } of created(labels)) insertLabel(tx, kind, record)
  for (const { id, record } of replaced(labels)) updateLabel(tx, kind, id, record)
}

interface Restoring {
  files: Unpacked
  result: ImportResult
  request: ImportRequest
}

/** The records are written by now: what cannot be restored is told, and can be tried again. */
async function restore(needs: TransferNeeds, { files, result, request }: Restoring): Promise<void> {
  const { created, replaced, skipped, failed } = result.artifacts
  for (const list of [created, replaced]) {
    for (const projectId of [...list]) {
      const { path: archivePath, deployId } = files.artifacts.get(projectId) as { path: string; deployId: string | null }
      try {
        await needs.deployments.restore({ projectId, archivePath, deployId, signal: request.signal })
      } catch (error) {
        list.splice(list.indexOf(projectId), 1)
        skipped.push(projectId)
        failed.push({ id: projectId, error: (error as Error).message })
        const detail = `the artifact could not be restored: ${(error as Error).message}`
        await needs.audit.record({ action: 'migration.import', actor: request.actor, projectId, target: projectId, detail, ok: false })
      }
    }
  }
}

function resultOf(
  plan: ImportPlan, given: Package,
  { strategy, dryRun, restoreArtifacts, isSecret }: ImportRequest & Pick<TransferNeeds['settings'], 'isSecret'>
): ImportResult {
  const artifacts: ImportResult['artifacts'] = { created: [], replaced: [], skipped: [], failed: [] }
  const actions = new Map(plan.projects.map(({ id, action }) => [id, action]))
  for (const { projectId } of given.artifacts()) {
    const action = actions.get(projectId) ?? 'skip'
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
    brings: bringsOf(plan, artifacts, isSecret),
    notes: plan.notes
  }
}

function bringsOf(plan: ImportPlan, artifacts: PartResult, isSecret: (key: string) => boolean): ImportBrings {
  const restored = new Set([...artifacts.created, ...artifacts.replaced])
  return {
    settings: changed(plan.settings).map(({ id: key, record }) => ({ key, value: isSecret(key) ? null : record })),
    projects: changed(plan.projects).map(({ record }) => {
      const { id, name, deployPath, preDeployScript, postDeployScript, postDeployAsync, allowClientScripts, allowedEnv, runAs, scriptShell, scriptDirectory } = record
      const scripts = { preDeployScript, postDeployScript, postDeployAsync, allowClientScripts, allowedEnv, runAs, scriptShell, scriptDirectory }
      const variables = plan.variables.filter(({ projectId }) => projectId === id).map(({ name, value }) => ({ name, value }))
      return { id, name, deployPath, ...scripts, variables, hasArtifact: restored.has(id) }
    }),
    logSources: changed(plan.logSources).map(({ record: { id, projectId, filePath } }) => ({ id, projectId, filePath })),
    notificationTargets: changed(plan.notificationTargets).map(({ record: { id, name, url } }) => ({ id, name, address: maskedAddress(url) }))
  }
}

const parts: Record<Action, keyof PartResult> = { create: 'created', replace: 'replaced', skip: 'skipped' }

function partOf(planned: ReadonlyArray<Planned<unknown>>): PartResult {
  const result: PartResult = { created: [], replaced: [], skipped: [] }
  for (const { id, action } of planned) result[parts[action]].push(id)
  return result
}

function changed<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action !== 'skip')
}

function created<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action === 'create')
}

function replaced<T>(planned: ReadonlyArray<Planned<T>>): Array<Planned<T>> {
  return planned.filter(({ action }) => action === 'replace')
}

/** What two plans of the same package must have in common. */
function outline({ settings, categories, tags, projects, logSources, variables, notificationTargets, deployments }: ImportPlan): string {
  const lists = [settings, categories, tags, projects, logSources, notificationTargets, deployments]
  return JSON.stringify([variables, ...lists.map(list => list.map(({ id, action }) => [id, action]))])
}

function countsOf(plan: ImportPlan): string {
  const { settings, projects, deployments } = plan
  const all: Array<Planned<unknown>> = [...settings, ...plan.categories, ...plan.tags, ...projects, ...plan.logSources, ...plan.notificationTargets, ...deployments]
  return `${created(all).length} created, ${replaced(all).length} replaced, ${all.length - changed(all).length} skipped`
}

function changedMeanwhile(): Refusal {
  return new Refusal('conflict', 'changed_meanwhile', 'The package was not imported: records changed meanwhile; try again')
}
