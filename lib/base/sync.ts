import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'

/** Makes the contents of a file, or the names in a directory, survive a power cut. */
export async function syncPath(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } catch (error) {
    // Windows cannot sync a file that is open for reading; NTFS keeps a journal of names.
    if (process.platform !== 'win32') throw error
  } finally {
    await handle.close()
  }
}

/**
 * Makes renames in a directory survive a power cut, if the file system supports it; some network file systems do not.
 */
export async function syncDirectory(path: string): Promise<void> {
  await syncPath(path).catch(() => {})
}

/** Makes every file and name below a directory survive a power cut. Links are not followed. */
export async function syncTree(directory: string): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name)
    if (entry.isDirectory()) await syncTree(path)
    else if (entry.isFile()) await syncPath(path)
  }
  await syncDirectory(directory)
}
