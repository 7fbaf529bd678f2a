/*
 * What must hold once a server that was killed has started again, and says that it is well.
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import type { CrashClient } from './crash-client.js'
import type { CrashPlaces } from './crash-load.js'
import { anyToken, createRegister, numberOf, type DeploymentModel, type Model, type ProjectModel, type Register } from './crash-model.js'
import { differences, overlay, readTree, type Tree } from './crash-site.js'
import { markedProcesses, type MarkedProcess } from './marked-processes.js'

/** What a crash run promises to find. */
export const invariants = {
  acknowledged: 'no acknowledged write is lost',
  target: 'every target equals exactly one archive',
  record: 'every record is true to its target',
  stray: 'no stray file is left after the next start',
  process: 'no process is left that nobody wanted',
  health: 'health tells when recovery is over',
  answer: 'a server that runs answers, and does not fail',
  start: 'every start succeeds'
}

export type Invariant = keyof typeof invariants
export type Complain = (invariant: Invariant, sentence: string) => void

export interface CheckNeeds {
  client: CrashClient
  model: Model
  places: CrashPlaces
  /** Trees of targets, read as soon as health was good. */
  trees: ReadonlyMap<string, Tree>
  serverPid: number
  complain: Complain
}

const pollMs = 20
/** For what ends by itself at once: a process that was sent SIGKILL, the file of a probe. */
const settleMs = 3000

/** Looks at everything; afterwards the model knows what is there. */
export async function checkAll(needs: CheckNeeds): Promise<void> {
  const { model, complain } = needs
  if (!(await checkToken(needs))) return
  await checkRegister(needs, 'settings', model.settings, async () => {
    const all = await get<Record<string, string>>(needs, '/api/settings')
    return Object.fromEntries(Object.keys(model.settings.settled()).map(key => [key, all[key] as string]))
  })
  await checkRegister(needs, 'tags', model.tags, async () => sorted((await get<Array<{ name: string }>>(needs, '/api/tags')).map(({ name }) => name)))
  const named = new Map<string, Deployment>()
  const found = new Map((await get<Project[]>(needs, '/api/projects')).map(project => [project.id, project]))
  for (const project of [...model.projects]) {
    const there = found.get(project.id)
    found.delete(project.id)
    if (!checkOne('acknowledged', needs, `project ${project.name} is there`, project.isThere, there !== undefined) || there === undefined) {
      if (there === undefined) forget(model, project)
      continue
    }
    await checkProject(needs, project, there, named)
  }
  for (const project of found.values()) await adopt(needs, project, named)
  model.askedProjects.clear()
  await checkStrays(needs, named)
  await checkProcesses(needs)
  const states = await get<Deployment[]>(needs, '/api/logs?limit=500')
  for (const { id } of states) if (!named.has(id)) complain('record', `record ${id} belongs to no project`)
}

async function get<T>({ client, model }: Pick<CheckNeeds, 'client' | 'model'>, path: string): Promise<T> {
  const answer = await client.call('GET', path, model.adminToken.settled())
  if (answer?.status !== 200) throw new Error(`GET ${path}: ${answer?.status ?? 'no answer'} ${answer?.text.slice(0, 200) ?? ''}`)
  return answer.body as T
}

async function checkToken({ model, places, complain }: CheckNeeds): Promise<boolean> {
  const { adminToken } = JSON.parse(readFileSync(join(places.home, 'config.json'), 'utf8')) as { adminToken: string }
  const isRight = model.adminToken.allowed().includes(adminToken)
  if (!isRight) complain('acknowledged', `the admin token is ${adminToken}, not ${model.adminToken.allowed().join(' or ')}`)
  model.adminToken.found(adminToken)
  return isRight
}

const sorted = (names: readonly string[]): string[] => [...names].sort()

async function checkRegister<T>(needs: CheckNeeds, what: string, register: Register<T>, look: () => Promise<T>): Promise<void> {
  checkOne('acknowledged', needs, what, register, await look())
}

/** Lists count as sets. Afterwards the register has what is there. */
function checkOne<T>(invariant: Invariant, { complain }: CheckNeeds, what: string, register: Register<T>, found: T): boolean {
  const textOf = (value: T): string => JSON.stringify(Array.isArray(value) ? sorted(value as string[]) : value)
  const allowed = register.allowed().map(textOf)
  const isRight = allowed.includes(textOf(found))
  if (!isRight) complain(invariant, `${what}: ${textOf(found)}, not ${allowed.join(' or ')}`)
  register.found(found)
  return isRight
}

function forget(model: Model, project: ProjectModel): void {
  model.projects.splice(model.projects.indexOf(project), 1)
}

/** One that was asked for, and whose answer did not come. */
async function adopt(needs: CheckNeeds, { id, name, token, deployPath, description, env }: Project, named: Map<string, Deployment>): Promise<void> {
  if (!needs.model.askedProjects.has(name)) needs.complain('acknowledged', `project ${name} is there, though it was deleted or never asked for`)
  const project: ProjectModel = {
    id, name, token: createRegister(token), target: deployPath, files: 20, tree: readTree(deployPath), known: new Set(), deployments: new Map(),
    fields: createRegister({ description, env }), sources: createRegister<readonly string[]>([]), isThere: createRegister(true)
  }
  needs.model.projects.push(project)
  for (const record of await get<Deployment[]>(needs, `/api/logs?projectId=${id}&limit=500`)) named.set(record.id, record)
}

async function checkProject(needs: CheckNeeds, project: ProjectModel, found: Project, named: Map<string, Deployment>): Promise<void> {
  const { complain } = needs
  checkOne('acknowledged', needs, `fields of ${project.name}`, project.fields, { description: found.description, env: found.env })
  if (!project.token.allowed().includes(found.token) && !project.token.allowed().includes(anyToken)) complain('acknowledged', `the token of ${project.name} is another one`)
  project.token.found(found.token)
  const { items } = await get<{ items: Array<{ label: string }> }>(needs, `/api/projects/${project.id}/log-sources`)
  checkOne('acknowledged', needs, `log sources of ${project.name}`, project.sources, items.map(({ label }) => label))
  // In order of arrival, which is that of their turns.
  const records = (await get<Deployment[]>(needs, `/api/logs?projectId=${project.id}&limit=500`)).reverse()
  for (const record of records) named.set(record.id, record)
  checkAcknowledged(needs, project, records)
  const fresh = records.filter(({ id }) => !project.known.has(id))
  checkTarget(needs, project, fresh)
  checkNumbers(needs, project, records)
  checkLive(needs, project, records, found)
  for (const record of records) checkRecord(needs, record)
  for (const record of fresh) await checkFresh(needs, project, record, records)
  project.known = new Set(records.map(({ id }) => id))
}

/** Each upload that was acknowledged has its record, with the status that was told, and each record its upload. */
function checkAcknowledged(needs: CheckNeeds, project: ProjectModel, records: readonly Deployment[]): void {
  const { complain } = needs
  const byNumber = new Map(records.map(record => [numberOf(record.message), record]))
  for (const [number, deployment] of project.deployments) {
    const record = byNumber.get(number)
    if (record === undefined) {
      if (deployment.id !== null) complain('acknowledged', `deployment n${number} (${deployment.id}) of ${project.name} was acknowledged, and has no record`)
      project.deployments.delete(number)
      continue
    }
    checkStatus(needs, deployment, record)
  }
  for (const record of records) {
    if (!project.deployments.has(numberOf(record.message))) complain('acknowledged', `record ${record.id} (${record.message}) of ${project.name} belongs to no upload that was not refused`)
  }
}

function checkStatus({ complain }: CheckNeeds, deployment: DeploymentModel, record: Deployment): void {
  const { number, status } = deployment
  if (deployment.id !== null && deployment.id !== record.id) complain('acknowledged', `n${number} is ${record.id}, and was acknowledged as ${deployment.id}`)
  const allowed = status.allowed()
  if (status.settled() !== null && !allowed.includes(record.status)) {
    complain('acknowledged', `${record.id} is ${record.status}, and ${allowed.join(' or ')} was acknowledged`)
  }
  deployment.id = record.id
  status.found(record.status)
}

const stepOf = (record: Deployment, name: string) => record.steps.find(step => step.name === name)
const isInPlace = (record: Deployment): boolean => record.placed !== null || stepOf(record, 'extract')?.status === 'success'
const siteOf = (project: ProjectModel, record: Deployment): Tree | null => project.deployments.get(numberOf(record.message))?.site?.tree ?? null

/** The target is what the records make of it; where it is not, which of them is not true, or whether it is none at all. */
function checkTarget({ trees, complain }: CheckNeeds, project: ProjectModel, fresh: readonly Deployment[]): void {
  const found = trees.get(project.target) ?? readTree(project.target)
  const begun = fresh.filter(record => stepOf(record, 'extract') !== undefined && siteOf(project, record) !== null)
  const made = (isIn: (record: Deployment) => boolean): Tree =>
    begun.filter(isIn).reduce((tree, record) => overlay(tree, siteOf(project, record) as Tree), project.tree)
  const expected = made(isInPlace)
  const wrong = differences(found, expected)
  if (wrong.length > 0) {
    const untrue = begun.filter(record => differences(found, made(each => isInPlace(each) !== (each === record)), 1).length === 0)
    if (untrue.length === 0) complain('target', `target of ${project.name} (${begun.map(describe).join(', ')}): ${wrong.join('; ')}`)
    for (const record of untrue.slice(-1)) {
      const truth = isInPlace(record) ? 'though its files are not in place' : 'though its files are in place'
      complain('record', `${describe(record)}, ${truth}`)
    }
  }
  // One that was not at rest has come to it since.
  project.tree = wrong.length === 0 ? found : readTree(project.target)
}

function describe({ id, status, placed, steps }: Deployment): string {
  return `${id} is ${status}, placed ${placed}, ${steps.map(step => `${step.name} ${step.status}`).join(' ')}`
}

/** The numbers of a project's changes are in the order of its deployments, none twice. */
function checkNumbers({ complain }: CheckNeeds, project: ProjectModel, records: readonly Deployment[]): void {
  let last = 0
  for (const record of records) {
    if (record.placed === null) continue
    if (record.placed !== last + 1) complain('record', `${record.id} of ${project.name} has the number ${record.placed} after ${last}`)
    last = record.placed
  }
}

/** The archive of what is in place is kept; the project says how its newest deployment ended. */
function checkLive({ complain }: CheckNeeds, project: ProjectModel, records: readonly Deployment[], found: Project): void {
  const live = records.filter(isInPlace).at(-1)
  if (live !== undefined && !live.hasArtifact) complain('record', `the archive of what is in place was pruned: ${describe(live)}`)
  const newest = records.at(-1)
  if (found.status !== (newest?.status ?? 'idle')) complain('record', `project ${project.name} is ${found.status}, its newest deployment ${newest?.status}`)
  if (found.lastDeployAt !== (newest?.startTime ?? null)) complain('record', `project ${project.name} says ${found.lastDeployAt}, its newest deployment ${newest?.startTime}`)
}

function checkRecord({ places, complain }: CheckNeeds, record: Deployment): void {
  const { id, status, hasArtifact, archiveSha256 } = record
  if (status !== 'success' && status !== 'failed') complain('record', `${id} is ${status} after a start`)
  if (record.endTime === null || record.duration === null) complain('record', `${id} has no end`)
  for (const step of record.steps) {
    if (step.status === 'running' || step.endedAt === null) complain('record', `${id}: its step ${step.name} goes on`)
  }
  const isExtracted = stepOf(record, 'extract')?.status === 'success'
  if (isExtracted !== (record.placed !== null)) complain('record', `placed and the step disagree: ${describe(record)}`)
  const archive = join(places.home, 'deployments', `${id}.zip`)
  if (hasArtifact !== existsSync(archive)) return complain('record', `${id} says hasArtifact ${hasArtifact}, its archive is ${hasArtifact ? 'not ' : ''}there`)
  if (hasArtifact && createHash('sha256').update(readFileSync(archive)).digest('hex') !== archiveSha256) complain('record', `${id}: its archive has another SHA-256`)
}

const storedLine = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z /

/** What is looked at once: output, list of files, what its scripts were told. */
async function checkFresh(needs: CheckNeeds, project: ProjectModel, record: Deployment, records: readonly Deployment[]): Promise<void> {
  const { client, model, places, complain } = needs
  const { id, status } = record
  const path = join(places.home, 'deployments', `${id}.log`)
  const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n') : ['']
  if (lines.pop() !== '' || lines.length === 0) complain('record', `${id}: its output does not end with a whole line`)
  if (!lines.every(line => storedLine.test(line))) complain('record', `${id}: its output has a line without a time`)
  for (const step of record.steps) {
    if ((step.name !== 'preDeploy' && step.name !== 'postDeploy') || step.status !== 'success' || step.exitCode !== 0) continue
    const ran = record.scripts.find(script => script.step === step.name)
    if (ran?.async === false && !lines.some(line => line.endsWith('the-end-of-the-script'))) complain('record', `${id}: the output of ${step.name} ends before its end`)
  }
  const isMarked = /^Marked as/.test(record.errorMessage ?? '') || lines.some(line => / → Marked as/.test(line))
  if (status === 'failed' && isInPlace(record) && !isMarked && !lines.some(line => /stays? in place/.test(line))) {
    complain('record', `${id} failed, and its output does not say that its files stay in place`)
  }
  const files = await client.call('GET', `/api/deployments/${id}/files`, model.adminToken.settled())
  if (isInPlace(record) && files?.status !== 200) complain('record', `${id}: its list of files gives ${files?.status}, ${files?.text.slice(0, 120)}`)
  if ((files?.status ?? 500) >= 500) complain('answer', `list of files of ${id}: ${files?.status} ${files?.text.slice(0, 120)}`)
  checkPrevious(needs, project, record, records)
}

/** `SVC_PREVIOUS_DEPLOY_ID` was what was in place. */
function checkPrevious({ places, complain }: CheckNeeds, project: ProjectModel, record: Deployment, records: readonly Deployment[]): void {
  const before = records.slice(0, records.indexOf(record)).filter(isInPlace).at(-1)?.id ?? ''
  for (const step of ['pre', 'post']) {
    const proof = join(places.proofs, `${record.id}.${step}.begun`)
    if (!existsSync(proof)) continue
    const told = readFileSync(proof, 'utf8').trim()
    if (told !== before) complain('record', `${record.id} of ${project.name} was told that "${told}" was in place, and it was "${before}"`)
  }
}

const homeNames = new Set(['config.json', 'svc.db', 'svc.db.redo', 'svc.sock', 'deployments', 'tmp'])

async function checkStrays(needs: CheckNeeds, named: ReadonlyMap<string, Deployment>): Promise<void> {
  const { complain } = needs
  let strays = findStrays(needs, named)
  for (const untilMs = performance.now() + settleMs; strays.length > 0 && performance.now() < untilMs; strays = findStrays(needs, named)) {
    // What a probe, or a checkpoint in the background, has just written goes by itself.
    if (!strays.every(path => /(health\.probe|svc\.db\S*\.tmp)$/.test(path))) break
    await sleep(pollMs)
  }
  for (const path of strays) complain('stray', path)
}

function findStrays({ places }: CheckNeeds, named: ReadonlyMap<string, Deployment>): string[] {
  const { home, sites, temporary } = places
  const isNamed = (name: string): boolean => {
    const [id = '', kind = ''] = [name.slice(0, 20), name.slice(20)]
    const record = named.get(id)
    return record !== undefined && (kind === '.log' || kind === '.manifest' || (kind === '.zip' && record.hasArtifact))
  }
  const inside = (directory: string, isStray: (name: string) => boolean): string[] =>
    readdirSync(directory).filter(isStray).map(name => join(directory, name))
  const targets = readdirSync(sites).map(name => join(sites, name))
  return [
    ...inside(home, name => !homeNames.has(name)),
    ...inside(join(home, 'deployments'), name => !isNamed(name)),
    ...inside(join(home, 'tmp'), () => true),
    ...inside(temporary, name => name.startsWith('svc-')),
    ...targets.flatMap(target => inside(target, name => name.startsWith('.svc-'))),
  ]
}

/** What a script that ended by itself has left running was meant to; everything else was not. What was is ended here. */
async function checkProcesses({ places, serverPid, complain }: CheckNeeds): Promise<void> {
  const unwanted = (): MarkedProcess[] => markedProcesses(places.sites).filter(({ pid, deployId, step }) =>
    pid !== serverPid && !existsSync(join(places.proofs, `${deployId}.${step}.ended`)))
  let left = unwanted()
  for (const untilMs = performance.now() + settleMs / 6; left.length > 0 && performance.now() < untilMs; left = unwanted()) await sleep(pollMs)
  for (const { pid, command, deployId, step } of left) complain('process', `${command} (${pid}) of the ${step} script of ${deployId} still runs`)
  for (const { pid } of markedProcesses(places.sites)) {
    if (pid !== serverPid) process.kill(pid, 'SIGKILL')
  }
}
