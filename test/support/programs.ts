import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Returns a program on the PATH, or where Debian installs those for root; null if there is none. */
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
