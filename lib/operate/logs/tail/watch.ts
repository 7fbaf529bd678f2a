/*
 * Wakes the followers of files (§6.3). It uses the file system's notices for the directories of the files; a watch on
 * the file itself would not see it return after a rename. One poll of sizes covers network file systems and lost
 * notices. Each file is watched once, however many followers it has. Nothing runs while there are no followers.
 */

import { type FSWatcher, watch } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { basename, dirname } from 'node:path'

/** One follower's watch on a file. */
export interface FileWatch {
  /** Increases whenever the file may have changed. */
  readonly wakes: number
  /** Resolves when `wakes` differs from `since`, or after `withinMs`. Rejects with the signal's reason. */
  woken(since: number, options: { withinMs?: number; signal: AbortSignal }): Promise<void>
  release(): void
}

interface Watched {
  path: string
  followers: number
  wakes: number
  waiting: Set<() => void>
  /** Inode, size and time at the last check. Null: there was no file. */
  seen: string | null | undefined
  /** Directories of the path and of the file that its links lead to. */
  armed: Array<{ directory: string; name: string }>
}

interface Directory {
  watcher: FSWatcher
  names: Map<string, Set<Watched>>
}

/** §8 */
const defaultPollMs = 1_500

/** Watches files for changes, and polls them every `pollMs` milliseconds. */
export class FileWatcher {
  readonly #pollMs: number
  readonly #files = new Map<string, Watched>()
  readonly #directories = new Map<string, Directory>()
  #poll: NodeJS.Timeout | undefined

  constructor({ pollMs = defaultPollMs }: { pollMs?: number } = {}) {
    this.#pollMs = pollMs
  }

  watch(path: string): FileWatch {
    const file = this.#files.get(path) ?? this.#start(path)
    file.followers++
    if (file.followers === 1) void this.#look(file).then(() => this.#arm(file))
    let isHeld = true
    return {
      get wakes() {
        return file.wakes
      },
      woken: (since, options) => waitForWake(file, since, options),
      release: () => {
        if (!isHeld) return
        isHeld = false
        if (--file.followers === 0) this.#stop(file)
      }
    }
  }

  close(): void {
    for (const file of [...this.#files.values()]) {
      file.followers = 0
      this.#stop(file)
    }
  }

  #wake(file: Watched): void {
    file.wakes++
    for (const resume of file.waiting) resume()
  }

  #openDirectory(path: string): Directory | undefined {
    const known = this.#directories.get(path)
    if (known !== undefined) return known
    try {
      const names: Directory['names'] = new Map()
      const watcher = watch(path, { persistent: false }, (_, name) => {
        const changed = name === null ? [...names.values()] : [names.get(name) ?? []]
        for (const group of changed) for (const file of group) this.#wake(file)
      })
      watcher.on('error', () => this.#closeDirectory(path))
      const directory = { watcher, names }
      this.#directories.set(path, directory)
      return directory
    } catch {
      return undefined // missing, or no watches left: only the poll is used
    }
  }

  #closeDirectory(path: string): void {
    this.#directories.get(path)?.watcher.close()
    this.#directories.delete(path)
  }

  /** Watches the file's current directories. Links on the path may have changed. */
  async #arm(file: Watched): Promise<void> {
    const real = await realpath(file.path).catch(() => file.path)
    if (file.followers === 0) return
    this.#disarm(file)
    file.armed = [...new Set([file.path, real])].map(path => ({ directory: dirname(path), name: basename(path) }))
    for (const { directory, name } of file.armed) {
      const names = this.#openDirectory(directory)?.names
      if (names === undefined) continue
      const group = names.get(name)
      if (group === undefined) names.set(name, new Set([file]))
      else group.add(file)
    }
    this.#wake(file) // for changes before the watch was set up
  }

  #disarm(file: Watched): void {
    for (const { directory, name } of file.armed) {
      const names = this.#directories.get(directory)?.names
      const group = names?.get(name)
      group?.delete(file)
      if (group?.size === 0) names?.delete(name)
      if (names?.size === 0) this.#closeDirectory(directory)
    }
    file.armed = []
  }

  async #look(file: Watched): Promise<void> {
    const before = file.seen
    const stats = await stat(file.path, { bigint: true }).catch(() => null)
    const identity = stats === null ? null : `${stats.dev}:${stats.ino}`
    const seen = stats === null ? null : `${identity} ${stats.size} ${stats.mtimeNs}`
    if (seen === before) return
    file.seen = seen
    if (before === undefined) return
    this.#wake(file)
    // The file was replaced or removed, so its directory may have changed too.
    if (before === null || identity === null || !before.startsWith(`${identity} `)) await this.#arm(file)
  }

  #start(path: string): Watched {
    const file: Watched = { path, followers: 0, wakes: 0, waiting: new Set(), seen: undefined, armed: [] }
    this.#files.set(path, file)
    this.#poll ??= setInterval(() => {
      for (const one of this.#files.values()) void this.#look(one)
    }, this.#pollMs)
    return file
  }

  #stop(file: Watched): void {
    this.#disarm(file)
    this.#files.delete(file.path)
    if (this.#files.size > 0) return
    clearInterval(this.#poll)
    this.#poll = undefined
  }
}

async function waitForWake(
  file: Watched,
  since: number,
  { withinMs, signal }: { withinMs?: number; signal: AbortSignal }
): Promise<void> {
  signal.throwIfAborted()
  if (file.wakes !== since) return
  let resume = (): void => {}
  let timer: NodeJS.Timeout | undefined
  await new Promise<void>(resolve => {
    resume = resolve
    file.waiting.add(resume)
    signal.addEventListener('abort', resume)
    if (withinMs !== undefined) timer = setTimeout(resume, withinMs)
  })
  clearTimeout(timer)
  file.waiting.delete(resume)
  signal.removeEventListener('abort', resume)
  signal.throwIfAborted()
}

/** Runs a check once for all followers of a file that need it at the same time. */
export interface SharedLooks {
  /**
   * Returns the result of `look`, or of one with the same key that is in progress. The result must not be older than
   * the last notice that the caller has seen, so the key contains the number of that notice.
   */
  <T>(key: string, look: () => Promise<T>): Promise<T>
}

export function createSharedLooks(): SharedLooks {
  const underWay = new Map<string, Promise<unknown>>()
  return <T>(key: string, look: () => Promise<T>): Promise<T> => {
    const known = underWay.get(key) as Promise<T> | undefined
    if (known !== undefined) return known
    const begun = look().finally(() => underWay.delete(key))
    underWay.set(key, begun)
    return begun
  }
}
