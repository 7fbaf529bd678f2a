/* What happens to a data directory of a crash run between two servers: clock steps, disks that are away, restores. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { decodePath, deployIdOf } from '../../lib/core/install/journal.js'
import { noteKill, type Lane } from './crash-lane.js'
import { createRegister, type Model, type ProjectModel, type Register } from './crash-model.js'
import { journalsIn } from './crash-moments.js'
import { startCrashServer } from './crash-server.js'
import { differences, unedited, type Tree } from './crash-site.js'
import { markedProcesses } from './marked-processes.js'
import { svc } from './svc.js'

const hourMs = 3_600_000
/** How far the clock may be ahead of the machine's. It is set between two servers. */
const clocksMs = [0, 0, 0, -24 * hourMs, 24 * hourMs, -3 * hourMs]
const startMs = 450

/** Sets the clock of the next servers, now and then. */
export function stepClock(lane: Lane): void {
  if (lane.random.below(6) === 0) lane.aheadMs = lane.random.oneOf(clocksMs)
}

/**
 * Starts a server while the targets of the unfinished changes are away, and other directories are at their paths. Then
 * the targets are back.
 */
export async function startWithoutDisks(lane: Lane): Promise<void> {
  const targets = journalsIn(lane.places.home).flatMap(path => targetOf(path) ?? [])
  if (targets.length === 0 || lane.random.below(4) > 0) return
  const away = (target: string): string => `${target}.away`
  for (const target of targets) {
    renameSync(target, away(target))
    mkdirSync(target)
    writeFileSync(join(target, 'other'), 'of another disk')
  }
  const server = startCrashServer(lane.base, lane.places, lane.aheadMs)
  await server.listens
  await sleep(lane.random.below(startMs))
  await server.kill()
  for (const target of targets) {
    if (readFileSync(join(target, 'other'), 'utf8') !== 'of another disk')
      lane.complain('target', `a file of another disk at ${target} was changed`)
    rmSync(target, { recursive: true })
    renameSync(away(target), target)
  }
  noteKill(lane, 'the disks of targets are away', server)
}

/** The path that a journal, or the note beside it, names. */
function targetOf(journal: string): string | null {
  const path = /\ntarget (.+)\n/.exec(readFileSync(journal, 'latin1'))?.[1]
  return path === undefined ? null : decodePath(path)
}

/** Makes a backup of a server at rest, now and then. */
export async function backUp(lane: Lane): Promise<void> {
  if (lane.disk !== null || lane.random.below(6) > 0) return
  const { code, stderr } = await run(lane, ['backup', 'backup.zip', '--force'])
  if (code === 0) lane.backup = copyOf(lane.model)
  else lane.complain('answer', `a backup failed: ${stderr}`)
}

/** Restores the last backup, now and then. Returns the model of what was replaced, or null if nothing was. */
export async function restoreBackup(lane: Lane): Promise<Model | null> {
  if (lane.backup === null || lane.random.below(8) > 0) return null
  // Nothing in a backup says which scripts ran.
  for (const { pid } of markedProcesses(lane.places.sites)) process.kill(pid, 'SIGKILL')
  for (const path of journalsIn(lane.places.home)) lane.lost.add(deployIdOf(path))
  const { code, stdout, stderr } = await run(lane, ['restore', 'backup.zip', '--force', '--json'])
  if (code !== 0) {
    lane.complain('start', `a restore failed: ${stderr}`)
    return null
  }
  rmSync((JSON.parse(stdout) as { aside: string }).aside, { recursive: true })
  const replaced = lane.model
  lane.model = copyOf(lane.backup)
  lane.moment = 'restored'
  lane.helpers = []
  return replaced
}

const run = ({ base, places }: Lane, words: string[]) =>
  svc(words, { cwd: base, env: { SVC_HOME: places.home, TMPDIR: places.temporary } })

/**
 * A restore changes no target, and the next start finishes what the kill has interrupted: each target is what the last
 * of the lost deployments, or the state before them, made of it. The restored projects go on from there.
 */
export function checkRestored({ model, complain }: Lane, replaced: Model, trees: ReadonlyMap<string, Tree>): void {
  for (const project of replaced.projects) {
    const read = trees.get(project.target)
    if (read === undefined) continue
    const found = unedited(project, read)
    const whole = [project.tree, ...[...project.deployments.values()].flatMap(({ site }) => site?.tree ?? [])]
    const ofIndex = whole.filter(tree => tree.get('index.html') === found.get('index.html'))
    const closest = ofIndex.map(tree => missing(found, tree)).sort((a, b) => a.length - b.length)[0]
    if (closest === undefined || closest.length > 0)
      complain('target', `after a restore, ${project.target} is nothing whole: ${(closest ?? ['no index']).join('; ')}`)
    const restored = model.projects.find(({ id }) => id === project.id)
    if (restored !== undefined) restored.tree = found
  }
}

/** What a tree has that is not so in the found one, which may have more. */
function missing(found: Tree, tree: Tree): string[] {
  return differences(
    new Map([...tree.keys()].flatMap(path => (found.has(path) ? [[path, found.get(path) as string]] : []))),
    tree
  )
}

function copyOf(model: Model): Model {
  return {
    projects: model.projects.map(copyOfProject),
    askedProjects: new Set(),
    settings: settledOf(model.settings),
    tags: settledOf(model.tags),
    adminToken: settledOf(model.adminToken)
  }
}

function copyOfProject(project: ProjectModel): ProjectModel {
  return {
    ...project,
    token: settledOf(project.token),
    known: new Set(project.known),
    deployments: new Map(
      [...project.deployments].map(([number, deployment]) => [
        number,
        { ...deployment, status: settledOf(deployment.status) }
      ])
    ),
    fields: settledOf(project.fields),
    sources: settledOf(project.sources),
    isThere: settledOf(project.isThere)
  }
}

function settledOf<T>(register: Register<T>): Register<T> {
  return createRegister(register.settled())
}
