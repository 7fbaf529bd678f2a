import { open } from 'node:fs/promises'

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
