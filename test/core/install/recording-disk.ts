/*
 * The states that a power cut may leave of two directories, a target and a data directory, on one file system or on
 * two.
 *
 * The model is a file system with a journal of its names (ext4, data=ordered, with delayed allocation). After a cut,
 * names are as they were at some moment: with every change before it and none after it. Contents are those that were
 * synced, with any part of later writes. fsync(2) of a file or directory commits the names up to its last change.
 * fdatasync(2) of a file with unwritten data, and syncfs(2), commit everything so far.
 */
import { lstatSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { disk as realDisk, type Disk } from '../../../lib/core/install/disk.js'
import { copy, drop, eachDirectory, eachFile, find, newId, read, set, write, type Node } from './recorded-names.js'

type DataChange = { position: number; bytes: Buffer } | { length: number }
interface Contents {
  synced: Buffer
  pending: Array<{ at: number; change: DataChange }>
  syncs: Array<{ at: number; count: number }>
}

/** A change of names, or of metadata, in one file system; `touched` are the ids that it changes. */
interface NameChange {
  at: number
  touched: number[]
  apply(root: Node): void
}

export interface Recording {
  disk: Disk
  syncFileSystem(): Promise<boolean>
  /** Number of changes that were made. */
  count(): number
  /** Number of changes when the list of the journal was complete. */
  readyAt(): number
  /** Number of changes when the line `done` of the journal was synced; Infinity if it never was. */
  doneAt(): number
  /** Parts of the target that were not synced when `done` was written: paths of files and names. */
  unsyncedAtDone(): string[]
  /** Creates the directories as a cut after `cut` changes may leave them. */
  leave(cut: number, chance: () => number): void
}

/** Records the calls below `directory`, which contains `target` and `deployments`. */
export function recordDisk(directory: string, isOneFileSystem: boolean): Recording {
  const live = read(directory)
  const base = read(directory, live)
  const contents = new Map<number, Contents>()
  const changes: NameChange[][] = [[], []]
  /** For each file system: after this number of recorded changes, this number of its names is committed. */
  const commits: Array<Array<{ at: number; upTo: number }>> = [[], []]
  const opened = new Map<number, { node: Node; system: number }>()
  let count = 0
  let readyAt = 0
  let doneAt = Infinity
  let isDonePending = false
  let unsynced: string[] = []

  eachFile(base, (node, path) =>
    contents.set(node.id, { synced: readFileSync(join(directory, path)), pending: [], syncs: [] })
  )

  const systemOf = (path: string): number => (isOneFileSystem || path.startsWith('target') ? 0 : 1)

  /**
   * Returns the path relative to `directory`, with links to descriptors resolved except for the last name, or null if
   * it is elsewhere.
   */
  function locate(path: string): string | null {
    const place = join(realDisk.realpathSync(dirname(path)), basename(path))
    return place === directory || place.startsWith(`${directory}/`) ? place.slice(directory.length + 1) : null
  }

  function change(path: string, touch: (root: Node) => Node[]): void {
    const touched = touch(live).map(({ id }) => id)
    changes[systemOf(path)]?.push({ at: ++count, touched, apply: root => void touch(root) })
  }

  function commit(system: number, upTo: number): void {
    commits[system]?.push({ at: ++count, upTo })
  }

  function sync(fd: number, isData: boolean): void {
    const file = opened.get(fd)
    if (file === undefined) return
    const { node, system } = file
    const names = changes[system] as NameChange[]
    const data = contents.get(node.id)
    const written = data?.pending.length ?? 0
    const hasPending = data !== undefined && written > (data.syncs.at(-1)?.count ?? 0)
    const last = names.findLastIndex(({ touched }) => touched.includes(node.id))
    if (hasPending) commit(system, names.length)
    else if (!isData || node.kind === 'file') commit(system, last + 1)
    data?.syncs.push({ at: count, count: written })
    if (!isData) node.dirty.clear()
    if (isDonePending) doneAt = Math.min(doneAt, count)
  }

  const create = (path: string, kind: Node['kind'], mode: number, to = ''): void => {
    const made = { id: newId(), kind, mode, to }
    change(path, root => {
      const node: Node = { ...made, mtimeMs: 0, entries: new Map(), dirty: new Set() }
      return [set(root, path, node), node]
    })
    if (kind === 'file') contents.set(made.id, { synced: Buffer.alloc(0), pending: [], syncs: [] })
  }
  const modeOf = (path: string): number => lstatSync(path).mode & 0o7777

  const attribute = (path: string | null, patch: Partial<Node>): void => {
    if (path !== null) change(path, root => [Object.assign(find(root, path) as Node, patch)])
  }
  const ofFd = (fd: number): string | null => locate(realDisk.readlinkSync(`/proc/self/fd/${fd}`))

  const calls: Partial<Record<keyof Disk, (...args: never[]) => unknown>> = {
    openSync(path: string, ...rest: [string, number]) {
      const place = locate(path)
      const isNew = place !== null && find(live, place) === undefined
      const fd = realDisk.openSync(path, ...rest)
      const at = ofFd(fd)
      if (at === null) return fd
      if (isNew) create(at, 'file', realDisk.fstatSync(fd).mode & 0o7777)
      opened.set(fd, { node: find(live, at) as Node, system: systemOf(at) })
      return fd
    },
    closeSync(fd: number) {
      opened.delete(fd)
      realDisk.closeSync(fd)
    },
    writeSync(fd: number, bytes: Uint8Array, offset = 0, length = bytes.length) {
      const file = opened.get(fd)
      const from = realDisk.fstatSync(fd).size
      const written = realDisk.writeSync(fd, bytes, offset, length)
      if (file === undefined) return written
      const copy = Buffer.from(bytes.subarray(offset, offset + written))
      contents.get(file.node.id)?.pending.push({ at: ++count, change: { position: from, bytes: copy } })
      if (/^ready \d+ \w+\n$/.test(copy.toString())) readyAt = count
      if (copy.toString().trim() === 'done') {
        isDonePending = true
        unsynced = unsyncedIn(find(live, 'target') as Node, contents)
      }
      return written
    },
    ftruncateSync(fd: number, length: number) {
      realDisk.ftruncateSync(fd, length)
      contents.get(opened.get(fd)?.node.id ?? 0)?.pending.push({ at: ++count, change: { length } })
    },
    mkdirSync(path: string, mode?: number) {
      realDisk.mkdirSync(path, mode)
      const place = locate(path)
      if (place !== null) create(place, 'directory', modeOf(path))
    },
    symlinkSync(to: string, path: string) {
      realDisk.symlinkSync(to, path)
      create(locate(path) as string, 'symlink', 0o777, to)
    },
    linkSync(from: string, path: string) {
      const [old, place] = [locate(from) as string, locate(path) as string]
      realDisk.linkSync(from, path)
      change(place, root => {
        const node = find(root, old) as Node
        return [node, set(root, place, node)]
      })
    },
    renameSync(from: string, path: string) {
      const [old, place] = [locate(from) as string, locate(path) as string]
      realDisk.renameSync(from, path)
      change(place, root => {
        const node = find(root, old) as Node
        return [node, drop(root, old), set(root, place, node)]
      })
    },
    unlinkSync: (path: string) => remove(path, () => realDisk.unlinkSync(path)),
    rmdirSync: (path: string) => remove(path, () => realDisk.rmdirSync(path)),
    unlink(path: string, done: (error: Error | null) => void) {
      remove(path, () => realDisk.unlinkSync(path))
      done(null)
    },
    chmodSync(path: string, mode: number) {
      realDisk.chmodSync(path, mode)
      attribute(locate(path), { mode })
    },
    fchmodSync(fd: number, mode: number) {
      realDisk.fchmodSync(fd, mode)
      attribute(ofFd(fd), { mode })
    },
    futimesSync(fd: number, atime: number, mtime: number) {
      realDisk.futimesSync(fd, atime, mtime)
      attribute(ofFd(fd), { mtimeMs: mtime * 1000 })
    },
    utimesSync(path: string, atime: number, mtime: number) {
      realDisk.utimesSync(path, atime, mtime)
      attribute(locate(path), { mtimeMs: mtime * 1000 })
    },
    statfsSync: () => ({ type: 0xef53 }),
    fsyncSync: (fd: number) => sync(fd, false),
    fdatasyncSync: (fd: number) => sync(fd, true),
    fsync(fd: number, done: (error: Error | null) => void) {
      sync(fd, false)
      done(null)
    },
    fdatasync(fd: number, done: (error: Error | null) => void) {
      sync(fd, true)
      done(null)
    }
  }

  function remove(path: string, work: () => void): void {
    const place = locate(path)
    work()
    if (place === null) return
    change(place, root => {
      const node = find(root, place) as Node
      return [node, drop(root, place)]
    })
  }

  return {
    disk: { ...realDisk, ...calls } as unknown as Disk,
    async syncFileSystem() {
      commit(0, changes[0]?.length ?? 0)
      eachFile(live, (node, path) => {
        const data = contents.get(node.id)
        if (systemOf(path) === 0) data?.syncs.push({ at: count, count: data.pending.length })
      })
      eachDirectory(find(live, 'target') as Node, node => node.dirty.clear())
      return true
    },
    count: () => count,
    readyAt: () => readyAt,
    doneAt: () => doneAt,
    unsyncedAtDone: () => unsynced,
    leave(cut, chance) {
      const root = copy(base)
      changes.forEach((names, system) => {
        const least = Math.max(0, ...(commits[system] ?? []).filter(({ at }) => at <= cut).map(({ upTo }) => upTo))
        const most = names.filter(({ at }) => at <= cut).length
        const kept = least + Math.floor(chance() * (most - least + 1))
        for (const { apply } of names.slice(0, kept)) apply(root)
      })
      write(directory, root, id => survivors(contents.get(id) as Contents, cut, chance))
    }
  }
}

const blockBytes = 512

/** Returns the synced contents with any part of later writes, sometimes as zeros. */
function survivors({ synced, pending, syncs }: Contents, cut: number, chance: () => number): Buffer {
  const whole = syncs.filter(({ at }) => at <= cut).at(-1)?.count ?? 0
  let content = synced
  const isLost = chance() < 0.5
  pending.forEach(({ at, change }, index) => {
    if (at > cut) return
    const isKept = index < whole
    if ('length' in change) {
      if (isKept || chance() < 0.5) content = content.subarray(0, change.length)
      return
    }
    const share = isKept ? 1 : isLost ? 0 : chance()
    for (let from = 0; from < change.bytes.length; from += blockBytes) {
      if (!isKept && chance() >= share) continue
      const block = change.bytes.subarray(from, from + blockBytes)
      content = put(content, !isKept && chance() < 0.2 ? Buffer.alloc(block.length) : block, change.position + from)
    }
  })
  return content
}

function put(content: Buffer, bytes: Buffer, position: number): Buffer {
  const longer = Buffer.alloc(Math.max(content.length, position + bytes.length))
  content.copy(longer)
  bytes.copy(longer, position)
  return longer
}

function unsyncedIn(node: Node, contents: Map<number, Contents>, path = ''): string[] {
  const dirty = [...node.dirty].filter(name => !name.startsWith('.svc-staging')).map(name => `the name ${path}${name}`)
  for (const [name, child] of node.entries) {
    const data = contents.get(child.id)
    if (name.startsWith('.svc-staging')) continue
    if (data !== undefined && data.pending.length > (data.syncs.at(-1)?.count ?? 0))
      dirty.push(`the contents of ${path}${name}`)
    dirty.push(...unsyncedIn(child, contents, `${path}${name}/`))
  }
  return dirty
}
