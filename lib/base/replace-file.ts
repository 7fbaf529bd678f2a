import { randomBytes } from 'node:crypto'
import { open, readdir, realpath, rename, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { giveToOwner } from './give-to-owner.js'
import { syncDirectory } from './sync.js'

/** A replacement takes milliseconds, so a temporary file of this age was left by a killed process. */
const leftoverMs = 60_000

/**
 * Writes a small file completely or not at all: writes a new file in the same directory, syncs it, and renames it over
 * the old one. A symbolic link stays; its target is replaced.
 */
export async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  const target = await realpath(path).catch(() => path)
  const waiting = `${target}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = await open(waiting, 'wx', mode)
    try {
      giveToOwner(file.fd, dirname(target))
      await file.writeFile(text)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(waiting, target)
  } catch (error) {
    await unlink(waiting).catch(() => {})
    throw error
  }
  await syncDirectory(dirname(target))
  await removeLeftovers(target, Date.now() - leftoverMs).catch(() => [])
}

/**
 * Removes the temporary files that killed processes left while they replaced the file at `path`, if they were written
 * before `beforeMs`, or in a future that the clock was set back from: they may contain secrets. Returns their paths.
 */
export async function removeLeftovers(path: string, beforeMs: number): Promise<string[]> {
  const target = await realpath(path).catch(() => path)
  const directory = dirname(target)
  const start = `${basename(target)}.`
  const removed: string[] = []
  for (const name of await readdir(directory)) {
    if (!name.startsWith(start) || !/^[0-9a-f]{12}\.tmp$/.test(name.slice(start.length))) continue
    const leftover = join(directory, name)
    const stats = await stat(leftover).catch(() => null)
    if (stats === null || (stats.mtimeMs >= beforeMs && stats.mtimeMs < Date.now() + leftoverMs)) continue
    await unlink(leftover)
    removed.push(leftover)
  }
  return removed
}
