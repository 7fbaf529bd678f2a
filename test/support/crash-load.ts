/*
 * The load of a crash run: everything that changes something, at once, from one seed. It goes on until the server is
 * killed. Each thing that is written has one writer, who tells the model what was asked for and what was acknowledged.
 */
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Answer, CrashClient } from './crash-client.js'
import { anyToken, createRegister, messageOf, type DeploymentModel, type Model, type ProjectModel } from './crash-model.js'
import { scriptOf, someScripts } from './crash-scripts.js'
import { makeSite } from './crash-site.js'
import type { Random } from './random.js'

/** Where a crash run has its files. */
export interface CrashPlaces {
  home: string
  sites: string
  /** What scripts leave behind, to tell that they ran. */
  proofs: string
  temporary: string
}

export interface LoadNeeds {
  client: CrashClient
  model: Model
  places: CrashPlaces
  random: Random
  /** A number that nobody had before. */
  next(): number
  /** A project's own user; null: no other user can be had here. */
  runAs: string | null
  /** Whether the server was killed: from then on nothing need be answered. */
  isOver(): boolean
  /** Something has come to the point where a kill may be of interest. */
  reached(point: string): void
  /** An answer that no honest client should get. */
  complain(sentence: string): void
}

/** User and group `nobody` of every Linux. */
const nobody = 65534

export interface NewProject {
  files: number
  runAs?: string | null
}

/** Makes a project, and knows it once it is acknowledged; null: it was not. */
export async function addProject(needs: LoadNeeds, { files, runAs = null }: NewProject): Promise<ProjectModel | null> {
  const { client, model, places } = needs
  const name = `site-${needs.next()}`
  const target = join(places.sites, name)
  mkdirSync(target)
  if (runAs !== null) chownSync(target, nobody, nobody)
  model.askedProjects.add(name)
  const fields = { description: 'first', env: 'first' }
  const answer = await client.call('POST', '/api/projects', model.adminToken.settled(), { name, deployPath: target, ...fields, runAs })
  if (!isGood(needs, `create ${name}`, answer)) return null
  model.askedProjects.delete(name)
  const { id, token } = answer.body.project as { id: string; token: string }
  const project: ProjectModel = {
    id, name, token: createRegister(token), target, files, tree: new Map(), known: new Set(), deployments: new Map(),
    fields: createRegister(fields), sources: createRegister<readonly string[]>([]), isThere: createRegister(true)
  }
  model.projects.push(project)
  return project
}

/** Whether it is a 200. Everything else but what `refusals` names is complained about, unless the server was killed. */
function isGood(needs: LoadNeeds, what: string, answer: Answer | null, refusals: readonly number[] = []): answer is Answer {
  if (answer?.status === 200) return true
  if (answer === null && !needs.isOver()) needs.complain(`${what}: no answer from a server that runs`)
  if (answer !== null && !refusals.includes(answer.status)) needs.complain(`${what}: ${answer.status} ${answer.text.slice(0, 300)}`)
  return false
}

/** Every writer, each going round by itself. Resolves when all have noticed that it is over. */
export async function runLoad(needs: LoadNeeds, isTokenRound: boolean): Promise<void> {
  const { model, isOver } = needs
  const writers = model.projects.filter(({ isThere }) => isThere.settled()).flatMap(project => [deploys(project, isTokenRound), deploys(project, isTokenRound)])
  // Requests with an old token count as attempts to guess one.
  if (isTokenRound) writers.push(changesToken)
  else writers.push(changesSettings, changesTags, reads, comesAndGoes, ...model.projects.slice(0, 2).map(changesProject))
  await Promise.all(writers.map(async write => {
    while (!isOver()) await write(needs)
  }))
}

type Writer = (needs: LoadNeeds) => Promise<void>

const deploys = (project: ProjectModel, isTokenRound: boolean): Writer => async needs => {
  const { random } = needs
  const choice = random.below(isTokenRound ? 12 : 20)
  if (choice < 10) return uploads(needs, project, someScripts(random, needs.places.proofs))
  if (choice < 12) return uploads(needs, project, [], true)
  if (choice < 14) return cancels(needs, project)
  if (choice < 17) return rollsBack(needs, project)
  if (choice < 18) return marks(needs, project)
  await sleep(random.below(80))
}

async function uploads(needs: LoadNeeds, project: ProjectModel, fields: Array<[string, string]>, isDamaged = false): Promise<void> {
  const { client, random, reached } = needs
  const number = needs.next()
  const site = makeSite(random, { number, files: project.files, isDamaged })
  const deployment = plan(project, number, isDamaged ? null : site)
  const form: Array<[string, string | { filename: string; bytes: Uint8Array }]> =
    [['projectId', project.id], ['message', messageOf(number)], ...fields, ['file', { filename: 'a.zip', bytes: site.zip }]]
  const answer = await client.upload(project.token.settled(), form, {
    onHalf: () => reached('an upload is half sent'),
    onSent: () => reached('an upload was sent'),
    onHead(status, id) {
      if (status === 200) acknowledge(deployment, id)
      reached('an upload is acknowledged')
    }
  })
  settle(needs, project, deployment, answer, `upload of ${messageOf(number)}`)
}

function plan(project: ProjectModel, number: number, site: DeploymentModel['site']): DeploymentModel {
  const deployment = { number, site, id: null, status: createRegister<string | null>(null) }
  project.deployments.set(number, deployment)
  return deployment
}

function acknowledge(deployment: DeploymentModel, id: string | undefined): void {
  deployment.id = id ?? null
}

/** Takes note of how it ended, as its answer says. */
function settle(needs: LoadNeeds, project: ProjectModel, deployment: DeploymentModel, answer: Answer | null, what: string): void {
  // Its project may have gone; a rollback's archive, too; and so may its place in the queue.
  if (!isGood(needs, what, answer, [404, 409, 429])) {
    if (answer !== null) project.deployments.delete(deployment.number)
    return
  }
  const status = answer.body?.status as string | undefined
  if (status === undefined) needs.complain(`${what}: its answer ends without its status: ${answer.text.slice(-200)}`)
  else if (deployment.status.settled() === null) deployment.status.found(status)
}

async function rollsBack(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, reached } = needs
  const sources = [...project.deployments.values()].filter(({ id, site }) => id !== null && site !== null).slice(-6)
  if (sources.length === 0) return
  const source = random.oneOf(sources)
  const number = needs.next()
  const deployment = plan(project, number, source.site)
  const headers = { accept: 'application/x-ndjson' }
  const answer = await client.call('POST', `/api/deployments/${source.id}/rollback`, model.adminToken.settled(), { message: messageOf(number) }, headers, {
    onSent: () => reached('a rollback is asked for'),
    onHead: (status, id) => void (status === 200 && acknowledge(deployment, id))
  })
  settle(needs, project, deployment, answer, `rollback ${messageOf(number)} to ${source.id}`)
}

/** A deployment whose script would not end by itself, and its end. */
async function cancels(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, places, reached } = needs
  const number = needs.next()
  const site = makeSite(random, { number, files: project.files })
  const deployment = plan(project, number, site)
  const step = random.oneOf(['pre', 'post'] as const)
  const script: [string, string] = [`${step}Deploy`, scriptOf('stays', step, places.proofs)]
  let begun: (() => void) | undefined
  const hasBegun = new Promise<void>(resolve => (begun = resolve))
  const upload = client.upload(project.token.settled(), [
    ['projectId', project.id], ['message', messageOf(number)], script, ['file', { filename: 'a.zip', bytes: site.zip }]
  ], { onHead: (status, id) => (status === 200 && acknowledge(deployment, id), begun?.()) })
  await Promise.race([hasBegun, upload])
  await sleep(random.below(200))
  if (deployment.id !== null && !needs.isOver()) {
    const path = `/api/deployments/${deployment.id}/cancel`
    const answer = await client.call('POST', path, model.adminToken.settled(), undefined, {}, { onSent: () => reached('a cancel is asked for') })
    if (isGood(needs, `cancel of ${messageOf(number)}`, answer, [404])) deployment.status.found('failed')
  }
  settle(needs, project, deployment, await upload, `upload of ${messageOf(number)}, to be cancelled`)
}

async function marks(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, random, reached } = needs
  const ended = [...project.deployments.values()].filter(({ id, status }) => id !== null && status.settled() !== null && status.allowed().length === 1)
  if (ended.length === 0) return
  const { id, status } = random.oneOf(ended)
  const wanted = random.oneOf(['success', 'failed'])
  const asked = status.ask(wanted)
  const path = `/api/deployments/${id}/status`
  const answer = await client.call('PATCH', path, model.adminToken.settled(), { status: wanted }, {}, { onSent: () => reached('a mark is asked for') })
  if (isGood(needs, `mark of ${id}`, answer, [404])) asked.acknowledged()
  else if (answer !== null) asked.refused()
}

const changesProject = (project: ProjectModel): Writer => async needs => {
  const { client, model, random, reached } = needs
  if (!project.isThere.settled()) return void (await sleep(50))
  const token = model.adminToken.settled()
  const number = needs.next()
  const fields = { description: `of ${number}`, env: `env-${number}` }
  const asked = project.fields.ask(fields)
  const answer = await client.call('PUT', `/api/projects/${project.id}`, token, fields, {}, { onSent: () => reached('a project is changed') })
  if (isGood(needs, `change of ${project.name}`, answer, [404])) asked.acknowledged()
  if (random.below(3) === 0) await changesSources(needs, project)
  await sleep(random.below(100))
}

async function changesSources(needs: LoadNeeds, project: ProjectModel): Promise<void> {
  const { client, model, places } = needs
  const token = model.adminToken.settled()
  const label = `log-${needs.next()}`
  const before = project.sources.settled()
  if (before.length < 3) {
    const asked = project.sources.ask([...before, label])
    const items = [{ filePath: join(places.proofs, label), label }]
    const answer = await client.call('POST', `/api/projects/${project.id}/log-sources`, token, { items })
    if (isGood(needs, 'new log source', answer, [404])) asked.acknowledged()
    return
  }
  const list = await client.call('GET', `/api/projects/${project.id}/log-sources`, token)
  if (!isGood(needs, 'log sources', list, [404])) return
  const { id, label: gone } = list.body.items[0] as { id: string; label: string }
  const asked = project.sources.ask(before.filter(each => each !== gone))
  const answer = await client.call('DELETE', `/api/log-sources/${id}`, token)
  if (isGood(needs, 'log source', answer, [404])) asked.acknowledged()
}

const changesSettings: Writer = async needs => {
  const { client, model, random, reached } = needs
  const number = needs.next()
  // Together or not at all.
  const values = { default_deploy_path: `/srv/${number}`, script_timeout: String(1000 + (number % 9000)), keep_archives: String(2 + random.below(4)) }
  const asked = model.settings.ask(values)
  const answer = await client.call('PUT', '/api/settings', model.adminToken.settled(), values, {}, { onSent: () => reached('settings are changed') })
  if (isGood(needs, 'settings', answer)) asked.acknowledged()
  await sleep(random.below(60))
}

const changesTags: Writer = async needs => {
  const { client, model, random } = needs
  const token = model.adminToken.settled()
  const before = model.tags.settled()
  const name = `tag-${needs.next()}`
  const isNew = before.length < 4
  const asked = model.tags.ask(isNew ? [...before, name] : before.slice(1))
  if (isNew) {
    if (isGood(needs, 'new tag', await client.call('POST', '/api/tags', token, { name }))) asked.acknowledged()
  } else {
    const list = await client.call('GET', '/api/tags', token)
    if (!isGood(needs, 'tags', list)) return
    const { id } = (list.body as Array<{ id: string; name: string }>).find(tag => tag.name === before[0]) ?? { id: 'missing' }
    if (isGood(needs, 'tag', await client.call('DELETE', `/api/tags/${id}`, token))) asked.acknowledged()
  }
  await sleep(random.below(60))
}

const changesToken: Writer = async needs => {
  const { client, model, random, reached } = needs
  await sleep(random.below(60))
  if (needs.isOver()) return
  const oldToken = model.adminToken.settled()
  const newToken = `token-${needs.next()}-abcdefghijklmnop`
  const asked = model.adminToken.ask(newToken)
  const answer = await client.call('POST', '/api/settings/token', oldToken, { oldToken, newToken }, {}, { onSent: () => reached('the admin token is changed') })
  if (isGood(needs, 'token', answer)) asked.acknowledged()
}

/** A project from its first day to its last. */
const comesAndGoes: Writer = async needs => {
  const { client, model, random, reached } = needs
  const project = await addProject(needs, { files: 20 })
  if (project === null) return void (await sleep(20))
  const fields = random.below(3) === 0 ? someScripts(random, needs.places.proofs) : []
  await uploads(needs, project, fields)
  if (needs.isOver()) return
  if (random.below(2) === 0) {
    // Not for those in which uploads go on: an old token would count as an attempt to guess one.
    const asked = project.token.ask(anyToken)
    const answer = await client.call('POST', `/api/projects/${project.id}/token`, model.adminToken.settled())
    if (!isGood(needs, 'new token of a project', answer)) return
    asked.acknowledged()
    project.token.found(answer.body.token as string)
    await uploads(needs, project, [])
  }
  if (needs.isOver()) return
  await removeProject(needs, project, () => reached('a project is deleted'))
}

/** Deletes a project as far as it is acknowledged; one that runs scripts in the background may be busy. */
export async function removeProject(needs: LoadNeeds, project: ProjectModel, onSent = (): void => {}): Promise<void> {
  const asked = project.isThere.ask(false)
  const answer = await needs.client.call('DELETE', `/api/projects/${project.id}`, needs.model.adminToken.settled(), undefined, {}, { onSent })
  if (isGood(needs, `delete ${project.name}`, answer, [409])) asked.acknowledged()
  else if (answer !== null) asked.refused()
}

const reads: Writer = async needs => {
  const { client, model, random } = needs
  const paths = ['/api/health', '/api/projects', '/api/logs?limit=20', '/api/settings', '/api/audit?limit=20', '/api/overview', '/api/storage', '/api/tags']
  const path = random.oneOf(paths)
  if (random.below(6) === 0) isGood(needs, 'cleaning', await client.call('POST', '/api/storage/clean', model.adminToken.settled(), {}))
  else isGood(needs, path, await client.call('GET', path, model.adminToken.settled()))
  await sleep(random.below(40))
}
