import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** The commands of a client: those that talk to a server, and those that configure it. */
export const bundledCommands = [
  'init',
  'build',
  'push',
  'list',
  'status',
  'logs',
  'rollback',
  'cancel',
  'open',
  'login',
  'logout',
  'whoami',
  'projects-create',
  'projects-show',
  'projects-set',
  'projects-token',
  'projects-delete',
  'version',
  'values',
  'config',
  'config-set',
  'config-list',
  'home',
  'doctor',
  'completion',
  'telemetry-status',
  'telemetry-on',
  'telemetry-off',
  'telemetry-endpoint'
]

const staticImport = /^(?:import|export) [^'"()]*['"](\.[^'"]+\.js)['"]/gm
const lateImport = /\bimport\('(\.[^']+\.js)'\)/g
const workerFile = /new URL\('(\.[^']+\.js)', import\.meta\.url\)/g

/**
 * The compiled modules that the given commands may load, by their paths below `directory`: everything that is imported,
 * at once or late, but for the commands that are left out and what only a server runs.
 */
export function clientModules(directory: string, commands: readonly string[]): string[] {
  const found = new Set<string>()
  const visit = (path: string): void => {
    const [, command] = /^cli\/commands\/(.*)\.js$/.exec(path) ?? []
    if (found.has(path) || (command !== undefined && !commands.includes(command)) || path.startsWith('server/')) return
    found.add(path)
    const text = readFileSync(join(directory, path), 'utf8')
    for (const pattern of [staticImport, lateImport, workerFile]) {
      for (const [, specifier] of text.matchAll(pattern)) visit(normalize(join(dirname(path), specifier as string)))
    }
  }
  visit('cli/entry.js')
  return [...found].sort()
}
