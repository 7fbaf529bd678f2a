import { readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'

/** The families of commands of a client: those that talk to a server, and those that configure it. */
export const bundledFamilies = [
  'init',
  'bundle',
  'apply',
  'push',
  'projects',
  'deployments',
  'rollback',
  'target',
  'session',
  'completion',
  'config',
  'doctor',
  'health',
  'plan'
]

const staticImport = /^(?:import|export) [^'"()]*['"](\.[^'"]+\.js)['"]/gm
const lateImport = /\bimport\('(\.[^']+\.js)'\)/g
const workerFile = /new URL\('(\.[^']+\.js)', import\.meta\.url\)/g

/**
 * The compiled modules that the given families of commands may load, by their paths below `directory`: everything that is imported,
 * at once or late, but for the families that are left out and what only a server runs.
 */
export function clientModules(directory: string, families: readonly string[]): string[] {
  const found = new Set<string>()
  const visit = (path: string): void => {
    const [, family] = /^cli\/commands\/(.*)\.js$/.exec(path) ?? []
    if (found.has(path) || (family !== undefined && !families.includes(family)) || path.startsWith('server/')) return
    found.add(path)
    const text = readFileSync(join(directory, path), 'utf8')
    for (const pattern of [staticImport, lateImport, workerFile]) {
      for (const [, specifier] of text.matchAll(pattern)) visit(normalize(join(dirname(path), specifier as string)))
    }
  }
  visit('cli/entry.js')
  return [...found].sort()
}
