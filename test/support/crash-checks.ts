/*
 * What must hold once a server that was killed has started again, and says that it is well.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Deployment } from '../../lib/model/deployment.js'
import type { Project } from '../../lib/model/project.js'
import { checkProcesses, checkStrays } from './crash-leavings.js'
import { anyToken, createRegister, type Model, type ProjectModel, type Register } from './crash-model.js'
import { get, type CheckNeeds, type Invariant } from './crash-promises.js'
import { checkRecords } from './crash-records.js'
import { readTree } from './crash-site.js'

/** Checks everything and stores the found state in the model. */
export async function checkAll(needs: CheckNeeds): Promise<void> {
  const { model, complain } = needs
  if (!(await checkToken(needs))) return
  await checkRegister(needs, 'settings', model.settings, async () => {
    const all = await get<Record<string, string>>(needs, '/api/settings')
    return Object.fromEntries(Object.keys(model.settings.settled()).map(key => [key, all[key] as string]))
  })
  await checkRegister(needs, 'tags', model.tags, async () =>
    sorted((await get<Array<{ name: string }>>(needs, '/api/tags')).map(({ name }) => name))
  )
  const named = new Map<string, Deployment>()
  const found = new Map((await get<Project[]>(needs, '/api/projects')).map(project => [project.id, project]))
  for (const project of [...model.projects]) {
    const there = found.get(project.id)
    found.delete(project.id)
    if (
      !checkOne('acknowledged', needs, `project ${project.name} is there`, project.isThere, there !== undefined) ||
      there === undefined
    ) {
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

async function checkToken({ model, places, complain }: CheckNeeds): Promise<boolean> {
  const { adminToken } = JSON.parse(readFileSync(join(places.home, 'config.json'), 'utf8')) as { adminToken: string }
  const isRight = model.adminToken.allowed().includes(adminToken)
  if (!isRight)
    complain('acknowledged', `the admin token is ${adminToken}, not ${model.adminToken.allowed().join(' or ')}`)
  model.adminToken.found(adminToken)
  return isRight
}

const sorted = (names: readonly string[]): string[] => [...names].sort()

async function checkRegister<T>(
  needs: CheckNeeds,
  what: string,
  register: Register<T>,
  look: () => Promise<T>
): Promise<void> {
  checkOne('acknowledged', needs, what, register, await look())
}

/** Compares lists as sets and stores the state that was found in the register. */
function checkOne<T>(
  invariant: Invariant,
  { complain }: CheckNeeds,
  what: string,
  register: Register<T>,
  found: T
): boolean {
  const textOf = (value: T): string => JSON.stringify(Array.isArray(value) ? sorted(value as string[]) : value)
  const allowed = register.allowed().map(textOf)
  const isRight = allowed.includes(textOf(found))
  if (!isRight) complain(invariant, `${what}: ${shortened(textOf(found))}, not ${allowed.map(shortened).join(' or ')}`)
  register.found(found)
  return isRight
}

const shortened = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}… (${text.length})` : text)

function forget(model: Model, project: ProjectModel): void {
  model.projects.splice(model.projects.indexOf(project), 1)
}

/** A write that was requested and not answered. */
async function adopt(
  needs: CheckNeeds,
  { id, name, token, deployPath, description, env }: Project,
  named: Map<string, Deployment>
): Promise<void> {
  if (!needs.model.askedProjects.has(name))
    needs.complain('acknowledged', `project ${name} is there, though it was deleted or never asked for`)
  const project: ProjectModel = {
    id,
    name,
    token: createRegister(token),
    target: deployPath,
    files: 20,
    tree: readTree(deployPath),
    known: new Set(),
    deployments: new Map(),
    fields: createRegister({ description, env }),
    sources: createRegister<readonly string[]>([]),
    isThere: createRegister(true)
  }
  needs.model.projects.push(project)
  for (const record of await get<Deployment[]>(needs, `/api/logs?projectId=${id}&limit=500`))
    named.set(record.id, record)
}

async function checkProject(
  needs: CheckNeeds,
  project: ProjectModel,
  found: Project,
  named: Map<string, Deployment>
): Promise<void> {
  const { complain } = needs
  checkOne('acknowledged', needs, `fields of ${project.name}`, project.fields, {
    description: found.description,
    env: found.env
  })
  if (!project.token.allowed().includes(found.token) && !project.token.allowed().includes(anyToken))
    complain('acknowledged', `the token of ${project.name} is another one`)
  project.token.found(found.token)
  const { items } = await get<{ items: Array<{ label: string }> }>(needs, `/api/projects/${project.id}/log-sources`)
  checkOne(
    'acknowledged',
    needs,
    `log sources of ${project.name}`,
    project.sources,
    items.map(({ label }) => label)
  )
  for (const record of await checkRecords(needs, project, found)) named.set(record.id, record)
}
