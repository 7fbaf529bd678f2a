import type { Disk, DiskFile } from '../../../lib/core/store/disk.js'

/**
 * A disk in memory that can lose power. Of the data that was written but not synced, a random subset of blocks is then
 * on the disk. Changes of names (creations, renames, removals) are there up to some point, in order, as with a journal.
 */
export interface PowerCutDisk extends Disk {
  /** Number of steps until the power fails; then no call returns. Infinity means never. */
  stepsLeft: number
  /** The contents of the disk after the power has returned. */
  afterPowerCut(chance: () => number): PowerCutDisk
}

interface Inode {
  synced: Buffer
  current: Buffer
  /** The operations since the last sync, in order. */
  pending: Array<{ position: number; bytes: Buffer } | { length: number }>
}

const blockBytes = 512

/** Starts with these files, all synced. */
export function createPowerCutDisk(files: Map<string, Buffer> = new Map()): PowerCutDisk {
  let syncedNames = new Map<string, Inode>()
  for (const [path, content] of files) syncedNames.set(path, { synced: content, current: content, pending: [] })
  let names = new Map(syncedNames)
  let history: Array<Map<string, Inode>> = [syncedNames]

  const disk: PowerCutDisk = {
    stepsLeft: Infinity,
    read(path) {
      // A copy, as from a real disk: SQLite in memory continues to write to it.
      const inode = names.get(path)
      return inode === undefined ? null : Buffer.from(inode.current)
    },
    readPieces(path, pieceBytes) {
      const whole = disk.read(path)
      if (whole === null) return null
      return Array.from({ length: Math.ceil(whole.length / pieceBytes) }, (_, n) =>
        whole.slice(n * pieceBytes, (n + 1) * pieceBytes)
      )
    },
    loadPieces: async (path, pieceBytes) => disk.readPieces(path, pieceBytes),
    size: path => names.get(path)?.current.length ?? null,
    async open(path) {
      await step()
      return fileOf(names.get(path) as Inode)
    },
    async create(path) {
      await step()
      const inode: Inode = { synced: Buffer.alloc(0), current: Buffer.alloc(0), pending: [] }
      rename(next => next.set(path, inode))
      return fileOf(inode)
    },
    async rename(from, to) {
      await step()
      rename(next => next.set(to, next.get(from) as Inode).delete(from))
    },
    async remove(path) {
      await step()
      rename(next => next.delete(path))
    },
    async syncDirectory() {
      await step()
      syncedNames = names
      history = [names]
    },
    afterPowerCut(chance) {
      const kept = history[Math.floor(chance() * history.length)] as Map<string, Inode>
      return createPowerCutDisk(new Map([...kept].map(([path, inode]) => [path, survivors(inode, chance)])))
    }
  }

  /** Every step takes a turn of the event loop. After the power failure a step never ends. */
  function step(): Promise<void> {
    return disk.stepsLeft-- > 0 ? new Promise(setImmediate) : new Promise(() => {})
  }

  function rename(change: (next: Map<string, Inode>) => void): void {
    const next = new Map(names)
    change(next)
    names = next
    history.push(next)
  }

  function fileOf(inode: Inode): DiskFile {
    return {
      async read(position, bytes) {
        return inode.current.subarray(position, position + bytes)
      },
      async write(bytes, position) {
        const copy = Buffer.from(bytes)
        inode.pending.push({ position, bytes: copy })
        inode.current = put(inode.current, copy, position)
        await step()
      },
      async truncate(length) {
        inode.pending.push({ length })
        inode.current = Buffer.from(inode.current.subarray(0, length))
        await step()
      },
      async sync() {
        // Data that is written during the sync is not part of it.
        const { current, pending } = inode
        await step()
        inode.synced = current
        inode.pending = inode.pending.slice(pending.length)
      },
      close: () => Promise.resolve()
    }
  }

  return disk
}

function survivors({ synced, pending }: Inode, chance: () => number): Buffer {
  const longest = Math.max(
    synced.length,
    ...pending.map(change => ('length' in change ? 0 : change.position + change.bytes.length))
  )
  const content = Buffer.alloc(longest)
  let length = synced.copy(content)
  for (const change of pending) {
    if ('length' in change) {
      if (chance() < 0.5) {
        content.fill(0, change.length)
        length = Math.min(length, change.length)
      }
      continue
    }
    const share = chance()
    for (let at = 0; at < change.bytes.length; at += blockBytes) {
      if (chance() >= share) continue
      const block = change.bytes.subarray(at, at + blockBytes)
      length = Math.max(length, change.position + at + block.copy(content, change.position + at))
    }
  }
  return Buffer.from(content.subarray(0, length))
}

function put(content: Buffer, bytes: Buffer, position: number): Buffer {
  const longer = Buffer.alloc(Math.max(content.length, position + bytes.length))
  content.copy(longer)
  bytes.copy(longer, position)
  return longer
}
