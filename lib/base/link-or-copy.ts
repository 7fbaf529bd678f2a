import { constants } from 'node:fs'
import { copyFile, link } from 'node:fs/promises'
import { hasCode } from './system-error.js'

/**
 * Creates a hard link to a file, or a copy if the file system does not support hard links here. Rejects with ENOENT if
 * `from` is missing, and with EEXIST if `to` exists.
 */
export async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'EEXIST')) throw error
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  }
}
