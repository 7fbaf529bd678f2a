import { randomBytes } from 'node:crypto'
import { open, realpath, rename, stat, unlink, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'

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
