import { constants } from 'node:fs'
import { access, stat } from 'node:fs/promises'

/** Whether `path` is a file that this user may execute. */
export async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}
