/* The records of one project after a start: what was acknowledged of them, and whether they are true to the disk. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { anyArchive, findKept, openKept, piecesOf } from '../../lib/core/archive/pack-set.js'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { numberOf, type DeploymentModel, type ProjectModel } from './crash-model.js'
import { get, type CheckNeeds } from './crash-promises.js'
import { differences, overlay, readTree, unedited, type Tree } from './crash-site.js'

/** Checks every record of a project and its target. Returns the records. */
export async function checkRecords(needs: CheckNeeds, project: ProjectModel, found: Project): Promise<Deployment[]> {
  // In order of arrival, which is that of their turns.
  const records = (await get<Deployment[]>(needs, `/api/logs?projectId=${project.id}&limit=500`)).reverse()
  checkAcknowledged(needs, project, records)
  const fresh = records.filter(({ id }) => !project.known.has(id))
  checkTarget(needs, project, fresh)
  checkNumbers(needs, project, records)
  checkLive(needs, project, records, found)
  for (const record of records) await checkRecord(needs, record)
  for (const record of fresh) await checkFresh(needs, project, record, records)
  project.known = new Set(records.map(({ id }) => id))
  return records
}

/** Checks that each acknowledged upload has a record with the reported status, and each record an upload. */
function checkAcknowledged(needs: CheckNeeds, project: ProjectModel, records: readonly Deployment[]): void {
  const { complain } = needs
  const byNumber = new Map(records.map(record => [numberOf(record.message), record]))
  for (const [number, deployment] of project.deployments) {
    const record = byNumber.get(number)
    if (record === undefined) {
      if (deployment.id !== null)
        complain(
          'acknowledged',
          `deployment n${number} (${deployment.id}) of ${project.name} was acknowledged, and has no record`
        )
      project.deployments.delete(number)
      continue
    }
    checkStatus(needs, deployment, record)
  }
  for (const record of records) {
    if (!project.deployments.has(numberOf(record.message)))
      complain(
        'acknowledged',
        `record ${record.id} (${record.message}) of ${project.name} belongs to no upload that was not refused`
      )
  }
}

function checkStatus({ complain }: CheckNeeds, deployment: DeploymentModel, record: Deployment): void {
  const { number, status } = deployment
  if (deployment.id !== null && deployment.id !== record.id)
    complain('acknowledged', `n${number} is ${record.id}, and was acknowledged as ${deployment.id}`)
  const allowed = status.allowed()
  if (status.settled() !== null && !allowed.includes(record.status)) {
    complain('acknowledged', `${record.id} is ${record.status}, and ${allowed.join(' or ')} was acknowledged`)
  }
  deployment.id = record.id
  status.found(record.status)
}

const stepOf = (record: Deployment, name: string) => record.steps.find(step => step.name === name)
const isInPlace = (record: Deployment): boolean =>
  record.placed !== null || stepOf(record, 'extract')?.status === 'success'
const siteOf = (project: ProjectModel, record: Deployment): Tree | null =>
  project.deployments.get(numberOf(record.message))?.site?.tree ?? null

/**
 * The target is what the records make of it; where it is not, which of them is not true, or whether it is none at all.
 */
function checkTarget({ trees, complain }: CheckNeeds, project: ProjectModel, fresh: readonly Deployment[]): void {
  const found = unedited(project, trees.get(project.target) ?? readTree(project.target))
  const begun = fresh.filter(record => stepOf(record, 'extract') !== undefined && siteOf(project, record) !== null)
  const made = (isIn: (record: Deployment) => boolean): Tree =>
    begun.filter(isIn).reduce((tree, record) => overlay(tree, siteOf(project, record) as Tree), project.tree)
  const expected = made(isInPlace)
  const wrong = differences(found, expected)
  if (wrong.length > 0) {
    const untrue = begun.filter(
      record =>
        differences(
          found,
          made(each => isInPlace(each) !== (each === record)),
          1
        ).length === 0
    )
    if (untrue.length === 0)
      complain('target', `target of ${project.name} (${begun.map(describe).join(', ')}): ${wrong.join('; ')}`)
    for (const record of untrue.slice(-1)) {
      const truth = isInPlace(record) ? 'though its files are not in place' : 'though its files are in place'
      complain('record', `${describe(record)}, ${truth}`)
    }
  }
  // One that was not at rest has come to it since.
  project.tree = wrong.length === 0 ? found : unedited(project, readTree(project.target))
}

function describe({ id, status, placed, steps }: Deployment): string {
  return `${id} is ${status}, placed ${placed}, ${steps.map(step => `${step.name} ${step.status}`).join(' ')}`
}

/** Checks that the numbers of a project's changes increase and are unique. */
function checkNumbers({ complain }: CheckNeeds, project: ProjectModel, records: readonly Deployment[]): void {
  let last = 0
  for (const record of records) {
    if (record.placed === null) continue
    if (record.placed !== last + 1)
      complain('record', `${record.id} of ${project.name} has the number ${record.placed} after ${last}`)
    last = record.placed
  }
}

/**
 * Checks that the archive of the live deployment is kept and that the project has the status of its newest deployment.
 */
function checkLive(
  { complain }: CheckNeeds,
  project: ProjectModel,
  records: readonly Deployment[],
  found: Project
): void {
  const live = records.filter(isInPlace).at(-1)
  if (live !== undefined && !live.hasArtifact)
    complain('record', `the archive of what is in place was pruned: ${describe(live)}`)
  const newest = records.at(-1)
  if (found.status !== (newest?.status ?? 'idle'))
    complain('record', `project ${project.name} is ${found.status}, its newest deployment ${newest?.status}`)
  if (found.lastDeployAt !== (newest?.startTime ?? null))
    complain('record', `project ${project.name} says ${found.lastDeployAt}, its newest deployment ${newest?.startTime}`)
}

async function checkRecord({ places, complain }: CheckNeeds, record: Deployment): Promise<void> {
  const { id, status, hasArtifact, archiveSha256 } = record
  if (status !== 'success' && status !== 'failed') complain('record', `${id} is ${status} after a start`)
  if (record.endTime === null || record.duration === null) complain('record', `${id} has no end`)
  for (const step of record.steps) {
    if (step.status === 'running' || step.endedAt === null) complain('record', `${id}: its step ${step.name} goes on`)
  }
  const isExtracted = stepOf(record, 'extract')?.status === 'success'
  if (isExtracted !== (record.placed !== null)) complain('record', `placed and the step disagree: ${describe(record)}`)
  const archive = join(places.home, 'deployments', `${id}.zip`)
  if (hasArtifact !== ((await findKept(archive)) !== null))
    return complain('record', `${id} says hasArtifact ${hasArtifact}, its archive is ${hasArtifact ? 'not ' : ''}there`)
  if (!hasArtifact) return
  const found = await digestOf(archive).catch((error: Error) => error.message)
  if (found !== archiveSha256) complain('record', `${id}: its archive has another SHA-256: ${found}`)
}

/** Returns the SHA-256 of a kept archive, also of one that shares contents. */
async function digestOf(path: string): Promise<string> {
  const archive = await openKept(path, anyArchive)
  try {
    const hash = createHash('sha256')
    for await (const piece of piecesOf(archive.file)) hash.update(piece)
    return hash.digest('hex')
  } finally {
    archive.close()
  }
}

const storedLine = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /

/** Checks what never changes: output, list of files, the variables of the scripts. */
async function checkFresh(
  needs: CheckNeeds,
  project: ProjectModel,
  record: Deployment,
  records: readonly Deployment[]
): Promise<void> {
  const { client, model, places, isDiskSmall, complain } = needs
  const { id, status } = record
  const path = join(places.home, 'deployments', `${id}.log`)
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : ['']
  if (lines.pop() !== '' || (lines.length === 0 && !isDiskSmall))
    complain('record', `${id}: its output does not end with a whole line`)
  if (!lines.every(line => storedLine.test(line))) complain('record', `${id}: its output has a line without a time`)
  for (const step of record.steps) {
    if ((step.name !== 'preDeploy' && step.name !== 'postDeploy') || step.status !== 'success' || step.exitCode !== 0)
      continue
    const ran = record.scripts.find(script => script.step === step.name)
    if (ran?.async === false && !isDiskSmall && !lines.some(line => line.endsWith('the-end-of-the-script')))
      complain('record', `${id}: the output of ${step.name} ends before its end`)
  }
  const isMarked = /^Marked as/.test(record.errorMessage ?? '') || lines.some(line => / → Marked as/.test(line))
  if (
    status === 'failed' &&
    isInPlace(record) &&
    !isMarked &&
    !isDiskSmall &&
    !lines.some(line => /stays? in place/.test(line))
  ) {
    complain('record', `${id} failed, and its output does not say that its files stay in place`)
  }
  if (status === 'failed' && !isMarked && !isDiskSmall && !lines.some(line => line.includes(' ✗ '))) {
    complain('record', `${id} failed, and its output does not say why`)
  }
  const files = await client.call('GET', `/api/deployments/${id}/files`, model.adminToken.settled())
  if (isInPlace(record) && files?.status !== 200)
    complain('record', `${id}: its list of files gives ${files?.status}, ${files?.text.slice(0, 120)}`)
  else if (isInPlace(record)) checkFiles(needs, project, record, files?.body)
  if ((files?.status ?? 500) >= 500)
    complain('answer', `list of files of ${id}: ${files?.status} ${files?.text.slice(0, 120)}`)
  checkPrevious(needs, project, record, records)
}

function checkFiles(
  { complain }: CheckNeeds,
  project: ProjectModel,
  record: Deployment,
  files: ReadonlyArray<{ path: string }>
): void {
  const paths = files.map(({ path }) => path).sort()
  const expected = [...(siteOf(project, record) ?? new Map<string, string>()).keys()].sort()
  if (paths.join('\n') !== expected.join('\n'))
    complain('record', `${record.id}: its list has ${paths.length} files, its archive ${expected.length}`)
  if (record.fileCount !== paths.length)
    complain('record', `${record.id} says ${record.fileCount} files, its list has ${paths.length}`)
}

/** Checks that `SVC_PREVIOUS_DEPLOY_ID` was the live deployment. */
function checkPrevious(
  { places, complain }: CheckNeeds,
  project: ProjectModel,
  record: Deployment,
  records: readonly Deployment[]
): void {
  const before = records.slice(0, records.indexOf(record)).filter(isInPlace).at(-1)?.id ?? ''
  for (const step of ['pre', 'post']) {
    const proof = join(places.proofs, `${record.id}.${step}.begun`)
    if (!existsSync(proof)) continue
    const told = readFileSync(proof, 'utf8').trim()
    if (told !== before)
      complain('record', `${record.id} of ${project.name} was told that "${told}" was in place, and it was "${before}"`)
  }
}
