import { randomBytes } from 'node:crypto'
import { open, readdir, realpath, rename, stat, unlink, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'

/** A replacement takes milliseconds: what is older was left by a process that was killed. */
const leftoverMs = 60_000

/**
 * Writes a small file whole or not at all: into a new file beside it, synced, renamed over it. A symbolic link stays
 * one; its target is replaced.
 */
export async function replaceFile(path: string, text: string, mode: number): Promise<void> {
  const target = await realpath(path).catch(() => path)
  const waiting = `${target}.${randomBytes(6).toString('hex')}.tmp`
  try {
    const file = await open(waiting, 'wx', mode)
    try {
      await giveToOwner(file, dirname(target))
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
 * Removes what killed processes left beside a file while they replaced it, which may contain secrets, as far as it was
 * written before an instant. Returns the paths.
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
    if (stats === null || stats.mtimeMs >= beforeMs) continue
    await unlink(leftover)
    removed.push(leftover)
  }
  return removed
}

/** What root writes in another user's directory is that user's. */
async function giveToOwner(file: FileHandle, directory: string): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(directory)
  if (uid !== 0) await file.chown(uid, gid)
}

/** Makes the rename itself durable. Windows, and some network file systems, cannot and need not. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, 'r').catch(() => null)
  await handle?.sync().catch(() => {})
  await handle?.close()
}
