/*
 * The load of a crash run: everything that changes something, at once, from one seed. It goes on until the server is
 * killed. Each thing that is written has one writer, who tells the model what was asked for and what was acknowledged.
 */
import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { deploys, uploads } from './crash-deploys.js'
import { anyToken, createRegister, type ProjectModel } from './crash-model.js'
import { emptyDisk, fillDisk } from './full-disk.js'
import { isGood, type LoadNeeds, type Writer } from './crash-needs.js'
import { someScripts } from './crash-scripts.js'

/** User and group `nobody` of every Linux system. */
const nobody = 65534
/** Size of a write after a few of which the redo log is folded. */
const [manySources, longName] = [50, 'x'.repeat(200)]

export interface NewProject {
  files: number
  runAs?: string | null
}

/** Creates a project. Returns null if the request was not acknowledged. */
export async function addProject(needs: LoadNeeds, { files, runAs = null }: NewProject): Promise<ProjectModel | null> {
  const { client, model, places } = needs
  const name = `site-${needs.next()}`
  const target = join(places.sites, name)
  mkdirSync(target)
  if (runAs !== null) chownSync(target, nobody, nobody)
  model.askedProjects.add(name)
  const fields = { description: 'first', env: 'first' }
  const answer = await client.call('POST', '/api/projects', model.adminToken.settled(), {
    name,
    deployPath: target,
    ...fields,
    runAs
  })
  if (!isGood(needs, `create ${name}`, answer)) return null
  model.askedProjects.delete(name)
  const { id, token } = answer.body.project as { id: string; token: string }
  const project: ProjectModel = {
    id,
    name,
    token: createRegister(token),
    target,
    files,
    tree: new Map(),
    known: new Set(),
    deployments: new Map(),
    fields: createRegister(fields),
    sources: createRegister<readonly string[]>([]),
    isThere: createRegister(true)
  }
  model.projects.push(project)
  return project
}

export interface LoadKind {
  /** Whether the admin token is being changed: nobody else may use it then. */
  isTokenRound: boolean
  /** Writes enough data to rewrite the database file. */
  isLarge: boolean
}

/** Runs every writer in its own loop. Resolves when all have stopped. */
export async function runLoad(needs: LoadNeeds, { isTokenRound, isLarge }: LoadKind): Promise<void> {
  const { model, isOver } = needs
  const writers = model.projects
    .filter(({ isThere }) => isThere.settled())
    .flatMap(project => [deploys(project, isTokenRound), deploys(project, isTokenRound)])
  // Requests with an old token count as attempts to guess one.
  if (isTokenRound) writers.push(changesToken)
  else
    writers.push(changesSettings, changesTags, reads, comesAndGoes, ...model.projects.slice(0, 2).map(changesProject))
  if (isLarge) writers.push(...model.projects.slice(2, 3).map(addsSources))
  if (needs.disk !== null) writers.push(fillsDisk)
  await Promise.all(
    writers.map(async write => {
      while (!isOver()) await write(needs)
    })
  )
}

const changesProject =
  (project: ProjectModel): Writer =>
  async needs => {
    const { client, model, random, reached } = needs
    if (!project.isThere.settled()) return void (await sleep(50))
    const token = model.adminToken.settled()
    const number = needs.next()
    const fields = { description: `of ${number}`, env: `env-${number}` }
    const asked = project.fields.ask(fields)
    const answer = await client.call(
      'PUT',
      `/api/projects/${project.id}`,
      token,
      fields,
      {},
      { onSent: () => reached('a project is changed') }
    )
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

/** Writes enough data at once to rewrite the database file. */
const addsSources =
  (project: ProjectModel): Writer =>
  async needs => {
    const { client, model, places } = needs
    const number = needs.next()
    const labels = Array.from({ length: manySources }, (_, at) => `log-${number}-${at}`)
    const asked = project.sources.ask([...project.sources.settled(), ...labels])
    const items = labels.map(label => ({
      label,
      filePath: join(places.proofs, ...Array<string>(18).fill(longName), label)
    }))
    const answer = await client.call('POST', `/api/projects/${project.id}/log-sources`, model.adminToken.settled(), {
      items
    })
    if (isGood(needs, 'many log sources', answer, [404, 409])) return asked.acknowledged()
    if (answer !== null) asked.refused()
    await sleep(20)
  }

const changesSettings: Writer = async needs => {
  const { client, model, random, reached } = needs
  const number = needs.next()
  // Together or not at all.
  const values = {
    default_deploy_path: `/srv/${number}`,
    script_timeout: String(1000 + (number % 9000)),
    keep_archives: String(2 + random.below(4)),
    durable_targets: String(random.below(2) === 0)
  }
  const asked = model.settings.ask(values)
  const answer = await client.call(
    'PUT',
    '/api/settings',
    model.adminToken.settled(),
    values,
    {},
    { onSent: () => reached('settings are changed') }
  )
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
    const { id } = (list.body as Array<{ id: string; name: string }>).find(tag => tag.name === before[0]) ?? {
      id: 'missing'
    }
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
  const answer = await client.call(
    'POST',
    '/api/settings/token',
    oldToken,
    { oldToken, newToken },
    {},
    { onSent: () => reached('the admin token is changed') }
  )
  if (isGood(needs, 'token', answer)) asked.acknowledged()
}

/** Runs one project from its creation to its deletion. */
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

/** Deletes a project. The server refuses if its scripts run in the background. */
export async function removeProject(needs: LoadNeeds, project: ProjectModel, onSent = (): void => {}): Promise<void> {
  const asked = project.isThere.ask(false)
  const answer = await needs.client.call(
    'DELETE',
    `/api/projects/${project.id}`,
    needs.model.adminToken.settled(),
    undefined,
    {},
    { onSent }
  )
  if (isGood(needs, `delete ${project.name}`, answer, [409])) asked.acknowledged()
  else if (answer !== null) asked.refused()
}

const reads: Writer = async needs => {
  const { client, model, random } = needs
  const paths = [
    '/api/health',
    '/api/projects',
    '/api/logs?limit=20',
    '/api/settings',
    '/api/audit?limit=20',
    '/api/overview',
    '/api/storage',
    '/api/tags'
  ]
  const path = random.oneOf(paths)
  if (random.below(6) === 0)
    isGood(needs, 'cleaning', await client.call('POST', '/api/storage/clean', model.adminToken.settled(), {}))
  else isGood(needs, path, await client.call('GET', path, model.adminToken.settled()))
  await sleep(random.below(40))
}

/** Fills a small disk almost completely for a while. */
const fillsDisk: Writer = async ({ disk, random, isOver, reached }) => {
  await sleep(random.below(400))
  if (disk === null || isOver()) return
  fillDisk(disk, random.below(3) * random.below(60) * 4096)
  reached('the disk is full')
  await sleep(random.below(500))
  if (!isOver() || random.below(2) === 0) emptyDisk(disk)
}
