/*
 * A data directory as it is at one moment, while a server works on it.
 *
 *   1. every file of deployments/ gets a second name in tmp/: what retention removes later stays until it is read
 *   2. the moment: the image of the database is taken, and before anything else can run, the files that came since 1 get
 *      a second name, too, and outputs that are being written are measured
 *   3. what went between 1 and 2 is dropped, where no record has it; what lies beside is read
 *
 * Archives and manifests are never changed, only made (before the record tells of them) and removed (after), so the names
 * of 2 are exactly what the records of 2 tell of. Outputs only grow: of those that may, the first bytes are read.
 */
import { linkSync, lstatSync, readdirSync } from 'node:fs'
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { machineTimeOf } from '../base/clock.js'
import type { Clock } from '../base/clock.js'
import { Refusal } from '../base/refusal.js'
import { isDiskFull } from '../base/system-error.js'
import type { Store } from '../store/database.js'
import type { Followed } from '../store/followers.js'
import type { Image } from '../store/page-file.js'
import { deploymentStateAt, deploymentStates } from '../store/tables/deployments.js'
import type { DeploymentState } from '../store/tables/deployments.js'
import { deploymentsName, isOfDeployments, listOthers } from './contents.js'
import type { FoundFile } from './contents.js'
import { databaseName } from './format.js'

export interface SnapshotFile extends FoundFile {
  /** Where it is read, or its bytes. */
  source: string | Uint8Array
  isGrowing: boolean
}

export interface Snapshot {
  atMs: number
  files: SnapshotFile[]
  notes: string[]
  /** Removes the second names. */
  discard(): Promise<void>
}

export interface SnapshotNeeds {
  store: Pick<Store, 'image' | 'all' | 'get' | 'follow'>
  home: { directory: string; deployments: string; tmp: string }
  clock: Clock
  ids: { token(): string }
}

/** A directory in tmp/ that a start removes: deploy/recovery.ts. */
const scratchEnding = '.backup'
/** Links that are made at the same time. */
const linksAbreast = 16
/** An archive without a record that is so new is one whose record is about to be written. */
const arrivingMs = 60_000
const statesPerPage = 2000

/** Takes one. Refuses what the store refuses of its image, and `no_space`. */
export async function takeSnapshot(needs: SnapshotNeeds): Promise<Snapshot> {
  const { home, ids } = needs
  const scratch = join(home.tmp, ids.token() + scratchEnding)
  const discard = (): Promise<void> => rm(scratch, { recursive: true, force: true })
  try {
    await mkdir(scratch, { recursive: true, mode: 0o700 })
    const links = createLinks(home.deployments, scratch)
    await links.addAll()
    const { image, atMs, ...moment } = await takeImage(needs, links)
    try {
      await writeFile(join(scratch, databaseName), image.pieces, { mode: 0o600, flag: 'wx' })
    } finally {
      image.release()
    }
    const others = await listOthers(home.directory)
    const deployments = await measure(moment, links, machineTimeOf(needs.clock))
    const database = fileOf(databaseName, join(scratch, databaseName), { size: image.bytes, mtimeMs: atMs })
    const beside = await Promise.all(others.files.map(file => besideOf(home.directory, file)))
    return { atMs, files: [database, ...beside, ...deployments], notes: others.notes, discard }
  } catch (error) {
    await discard().catch(() => {})
    throw explain(error, home.tmp)
  }
}

interface Moment {
  image: Image
  atMs: number
  /** Of deployments/. */
  names: string[]
  /** Those of them that no record tells of. */
  strays: Set<string>
  /** How many bytes of an output there were, where it is being written. */
  growing: Map<string, number>
}

async function takeImage({ store, home, clock }: SnapshotNeeds, links: Links): Promise<Moment> {
  const moment: Omit<Moment, 'image'> = { atMs: 0, names: [], strays: new Set(), growing: new Map() }
  const followed = store.follow('deployments')
  try {
    const readStates = await followStates(store, followed)
    const image = await store.image(() => {
      moment.atMs = clock.now()
      const present = readdirSync(home.deployments).filter(isOfDeployments)
      const states = readStates()
      for (const name of present) links.addNow(name)
      for (const { id, isOver } of states.values()) {
        const size = isOver ? null : sizeOf(join(home.deployments, `${id}.log`))
        if (size !== null) moment.growing.set(`${id}.log`, size)
      }
      moment.names = chosen({ present: new Set(present), linked: links.names(), states, strays: moment.strays })
    })
    return { ...moment, image }
  } finally {
    followed.stop()
  }
}

/** The states of all deployments, read a page at a time before; the call reads those again that have changed since. */
async function followStates(store: SnapshotNeeds['store'], followed: Followed): Promise<() => Map<string, DeploymentState>> {
  followed.take()
  const byPosition = new Map<number, DeploymentState>()
  const byId = new Map<string, DeploymentState>()
  const add = (state: DeploymentState): void => {
    byPosition.set(state.position, state)
    byId.set(state.id, state)
  }
  for (let after = -1; ; ) {
    const page = deploymentStates(store, after, statesPerPage)
    page.forEach(add)
    if (page.length < statesPerPage) break
    after = page.at(-1)?.position as number
    await nextTurn()
  }
  return () => {
    const changed = followed.take()
    if (changed === null) return new Map(deploymentStates(store).map(state => [state.id, state]))
    for (const position of changed) {
      const before = byPosition.get(position)
      const state = deploymentStateAt(store, position)
      if (before !== undefined && byId.get(before.id) === before) byId.delete(before.id)
      if (state === undefined) byPosition.delete(position)
      else add(state)
    }
    return byId
  }
}

interface Choice {
  present: Set<string>
  linked: string[]
  states: Map<string, { hasArtifact: boolean }>
  /** Filled. */
  strays: Set<string>
}

/** What was there at the moment, and of what had just gone that which a record still tells of: an import replaces it. */
function chosen({ present, linked, states, strays }: Choice): string[] {
  return linked.filter(name => {
    const state = states.get(name.replace(/\.\w+$/, ''))
    if (state === undefined && present.has(name)) strays.add(name)
    if (state === undefined) return present.has(name)
    return present.has(name) || !name.endsWith('.zip') || state.hasArtifact
  })
}

function sizeOf(path: string): number | null {
  return lstatSync(path, { throwIfNoEntry: false })?.size ?? null
}

interface Links {
  addAll(): Promise<void>
  /** One that has none yet. */
  addNow(name: string): void
  names(): string[]
  /** Where the file is to be read. */
  pathOf(name: string): string
}

/** Second names. Where the file system knows no links, the name it has must do, and a file that goes fails the backup. */
function createLinks(deployments: string, scratch: string): Links {
  const paths = new Map<string, string>()
  const kept = (name: string): string => join(deployments, name)
  const second = (name: string): string => join(scratch, name)
  /** One that has gone since its name was read needs none. */
  const settle = (name: string, error: NodeJS.ErrnoException | null): void => {
    if (error?.code === 'ENOENT') return
    paths.set(name, error === null ? second(name) : kept(name))
  }
  return {
    async addAll() {
      const names = readdirSync(deployments).filter(isOfDeployments)
      const add = async (): Promise<void> => {
        for (let name = names.pop(); name !== undefined; name = names.pop()) {
          const error = await link(kept(name), second(name)).then(() => null, error => error as NodeJS.ErrnoException)
          settle(name, error)
        }
      }
      await Promise.all(Array.from({ length: linksAbreast }, add))
    },
    addNow(name) {
      if (paths.has(name)) return
      try {
        linkSync(kept(name), second(name))
        settle(name, null)
      } catch (error) {
        settle(name, error as NodeJS.ErrnoException)
      }
    },
    names: () => [...paths.keys()],
    pathOf: name => paths.get(name) as string
  }
}

async function measure({ names, strays, growing }: Omit<Moment, 'image' | 'atMs'>, links: Links, nowMs: number): Promise<SnapshotFile[]> {
  const files: SnapshotFile[] = []
  for (const name of [...names].sort()) {
    const path = links.pathOf(name)
    const stats = await stat(path)
    const isArriving = strays.has(name) && nowMs - stats.mtimeMs < arrivingMs
    if (!stats.isFile() || isArriving) continue
    const size = growing.get(name) ?? stats.size
    files.push(fileOf(`${deploymentsName}/${name}`, path, { size, mtimeMs: stats.mtimeMs }, name.endsWith('.log')))
  }
  return files
}

function fileOf(path: string, source: string, { size, mtimeMs }: { size: number; mtimeMs: number }, isGrowing = false): SnapshotFile {
  return { path, source, bytes: size, mtimeMs, isGrowing }
}

/** config.json is replaced as a whole: read at once it is whole. What else lies there may be a log. */
async function besideOf(directory: string, file: FoundFile): Promise<SnapshotFile> {
  const path = join(directory, file.path)
  if (file.path !== 'config.json') return { ...file, source: path, isGrowing: true }
  const source = await readFile(path)
  return { ...file, source, bytes: source.length, isGrowing: false }
}

function explain(error: unknown, tmp: string): unknown {
  if (error instanceof Refusal || !isDiskFull(error)) return error
  const sentence = `there is no space in "${tmp}" for an image of the database; make some`
  return new Refusal('unavailable', 'no_space', sentence, { cause: error })
}
