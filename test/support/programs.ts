import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** A program on the PATH, or where Debian puts those for root; null: none. Of several names the first that is there. */
export function findProgram(...names: string[]): string | null {
  const directories = [...(process.env['PATH'] ?? '').split(delimiter).filter(Boolean), '/usr/sbin']
  return directories.flatMap(directory => names.map(name => join(directory, name))).find(isExecutable) ?? null
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
